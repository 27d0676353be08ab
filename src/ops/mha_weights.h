/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTN_MHA_WEIGHTS_H
#define ATTN_MHA_WEIGHTS_H
#include "sdpa_plan.h"

/* W [terms][columns] packed for the linear kernel of one ISA level, and its bias [columns]; reals. */
typedef struct attn_mha_matrix {
    void *packed; /* NULL: the matrix is absent */
    void *bias;   /* NULL: none */
    int64_t terms, columns;
} attn_mha_matrix;

struct attn_mha_weights {
    const attn_isa *isa;
    int is_f64;
    int64_t heads, kv_heads, dim, value_dim;
    attn_mha_matrix q, k, v, o;
    void (*free)(void *user, void *p);
    void *user;
};
#endif
