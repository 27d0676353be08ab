/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTN_TEST_VEC_H
#define ATTN_TEST_VEC_H
/* Tests every vector operation; returns how many checks failed. */
long vec_test(void);
#endif
