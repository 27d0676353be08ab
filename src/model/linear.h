/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTN_LINEAR_H
#define ATTN_LINEAR_H
#include <attn/attn_model.h>

#include "../ops/matrix.h"

struct attn_linear_weights {
    const attn_isa *isa;
    int is_f64;
    attn_matrix m;
    void (*free)(void *user, void *p);
    void *user;
};

/* Checks and packs w (in, out) and b (out), which may be NULL, under these names. On failure m may be half filled: free it. */
attn_status attn_linear_pack(attn_ctx *ctx, attn_matrix *m, int is_f64, const attn_tensor *w, const attn_tensor *b, const char *w_name,
                             const char *b_name);
#endif
