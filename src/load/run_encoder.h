/* SPDX-License-Identifier: Apache-2.0 */
/* A call of an encoder, up to the rows of the last layer: what attn_pretrained_encode and attn_pretrained_embed share. */
#ifndef ATTN_LOAD_RUN_ENCODER_H
#define ATTN_LOAD_RUN_ENCODER_H
#include "model.h"
#include "sequences.h"

/* The first four are the caller's; all else 0 before the call. */
struct encode {
    attn_ctx *ctx;
    const struct attn_pretrained *model;
    attn_tensor out; /* with the axis of the sequences */
    /* Whether `out` and whatever the caller knows fits the sequences. */
    attn_status (*check)(const struct encode *e);
    attn_encode_opts opts;
    attn_watch watch;
    struct sequences s;
    int64_t total; /* tokens */
    attn_dtype real;
    size_t row_size;
    int32_t *ids, *positions, *types, *starts; /* [total], [total], [total], [B+1] */
    int32_t *back;                             /* [B,L]: the packed row of each place; of padding the row of zeros behind the last */
    char *memory;                              /* of the two: */
    char *hidden, *other;                      /* [total+1,n], the last row 0 */
    char *shown;                               /* NULL or [B,L,n] */
    char *weights;                             /* NULL or [B,H,L,L] */
};

/* Leaves the rows behind the last layer in e->hidden: those of sequence b are starts[b] .. starts[b+1]-1. attn_encode_free after it, either
   way. */
attn_status attn_encode_rows(struct encode *e, const attn_tensor *ids, const attn_encode_opts *opts);
void attn_encode_free(struct encode *e);

/* t with an axis of size 1 before the others. */
attn_tensor attn_with_item(const attn_tensor *t);
#endif
