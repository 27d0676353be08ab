/* SPDX-License-Identifier: Apache-2.0 */
#include "run.h"

#include <attn/attn_io.h>

#include <string.h>

#include "../core/ctx.h"
#include "sequences.h"

/* n floats that lie in the second half of the row become its doubles: none is overwritten before it was read. */
static void widen(double *row, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        float narrow;
        memcpy(&narrow, (const char *)row + (size_t)(n + i) * sizeof narrow, sizeof narrow);
        row[i] = (double)narrow;
    }
}

/* Rows of a table that is stored in blocks, each decoded where it is needed: the table is never held in f32. */
static attn_status embed_from_gguf(attn_ctx *ctx, const struct attn_pretrained *m, const struct embeddings *in, attn_tensor *x,
                                   const attn_tensor *ids)
{
    const int64_t n = m->info.width;
    for (int64_t i = 0; i < ids->shape[0]; i++) {
        const int64_t id = attn_whole_at(ids, i * ids->stride[0]);
        if (id < 0 || id >= m->info.vocab)
            return attn_fail(ctx, ATTN_E_ARG, "ids has %lld; the model has ids from 0 to %lld", (long long)id,
                             (long long)m->info.vocab - 1);
        char sentence[256];
        const int is_f64 = x->dtype == ATTN_F64;
        float *row = is_f64 ? (float *)((double *)x->data + i * n) + n : (float *)x->data + i * n;
        const attn_status status = attn_gguf_rows(m->weights.file, (size_t)in->gguf_table, id, 1, row, sentence, sizeof sentence);
        if (status != ATTN_OK)
            return attn_fail(ctx, status, "%s", sentence);
        if (is_f64)
            widen((double *)x->data + i * n, n);
    }
    return ATTN_OK;
}

attn_status attn_run_embed(attn_ctx *ctx, const struct attn_pretrained *model, const struct embeddings *in, attn_tensor *x,
                           const attn_tensor *ids, const attn_embed_opts *at)
{
    attn_embed_opts opts = *at;
    if (!in->token.ndim)
        return embed_from_gguf(ctx, model, in, x, ids);
    opts.flags = in->has_scale ? ATTN_EMBED_SCALE : 0;
    opts.scale = in->scale;
    opts.token = &in->token;
    opts.position = in->position.ndim ? &in->position : NULL;
    opts.position_ids = in->position.ndim ? at->position_ids : NULL;
    opts.offset = in->position.ndim && !at->position_ids ? in->first_position + at->offset : 0;
    opts.type = in->type.ndim ? &in->type : NULL;
    opts.type_ids = in->type.ndim ? at->type_ids : NULL;
    return attn_embed(ctx, x, ids, &opts);
}

attn_status attn_run_show(attn_ctx *ctx, const attn_watch *watch, const attn_layer_view *view)
{
    if (!watch || !watch->seen || !watch->seen(watch->user, view))
        return ATTN_OK;
    return attn_fail(ctx, ATTN_E_CANCELLED, "cancelled by who watches, after layer %lld", (long long)view->layer);
}
