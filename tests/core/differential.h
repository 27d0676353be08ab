/* SPDX-License-Identifier: Apache-2.0 */
/* Random problems on every ISA level that this CPU can run, each against its reference. */
#ifndef TESTS_CORE_DIFFERENTIAL_H
#define TESTS_CORE_DIFFERENTIAL_H
#include "bound.h"

/* What is tried. The functions take what run_trials was given. */
typedef struct trial {
    void (*open)(void *made, uint64_t seed, uint64_t number); /* makes problem `number` of `seed`, and its reference */
    bool (*run)(void *made, attn_ctx *ctx, tally *t);         /* false, after saying why: refused or out of bound */
    void (*print)(const void *made);
    void (*close)(void *made);
} trial;

/* ATTN_TEST_COUNT problems (`otherwise`) from ATTN_TEST_SEED on; ATTN_TEST_FIRST = n starts at problem n, to meet one again. Fails the
   test after all of them, or after ten failures. Prints the seed and how near to the bounds the levels came. */
void run_trials(const trial *t, void *made, int64_t otherwise);
#endif
