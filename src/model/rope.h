/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTN_ROPE_H
#define ATTN_ROPE_H
#include <attn/attn_model.h>

#include "rows.h"

struct attn_rope {
    int64_t dim, pairs;   /* d, r/2 */
    int interleaved;
    double factor;        /* of cos and sin */
    int64_t table_rows;   /* 0: the frequencies; else the tables */
    double *frequency;    /* [pairs] */
    double *cos, *sin;    /* [table_rows][pairs] */
    void (*free)(void *user, void *p);
    void *user;
};

/* Where the rows of one call stand. */
typedef struct attn_rope_places {
    int64_t offset;
    const attn_tensor *positions; /* NULL, or [L] or [B,L] */
} attn_rope_places;

/* Checks the positions of `items` sequences of `rows` rows. */
attn_status attn_rope_check(attn_ctx *ctx, const attn_rope *rope, attn_rope_places at, int64_t items, int64_t rows);
/* out = x turned: [B,H,L,d], [H,L,d] or [L,d], of one shape, checked. out may be x. */
attn_status attn_rope_run(attn_ctx *ctx, const attn_tensor *out, const attn_tensor *x, const attn_rope *rope, attn_rope_places at);
#endif
