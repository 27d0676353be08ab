/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTN_MHA_WEIGHTS_H
#define ATTN_MHA_WEIGHTS_H
#include "matrix.h"
#include "sdpa_plan.h"

struct attn_mha_weights {
    const attn_isa *isa;
    int is_f64;
    int64_t heads, kv_heads, dim, value_dim;
    attn_matrix q, k, v, o;
    void (*free)(void *user, void *p);
    void *user;
};
#endif
