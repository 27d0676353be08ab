/* SPDX-License-Identifier: Apache-2.0 */
/* attn_pretrained_encode: the tokens of all sequences one behind the other, so that no padding is computed; embeddings, layers, rows back
   to where their tokens stand. */
#include "run_encoder.h"

#include <stdlib.h>
#include <string.h>

#include "../core/ctx.h"
#include "../core/tensor.h"
#include "../ops/sdpa_plan.h"
#include "run.h"

static attn_tensor vector(int32_t *data, int64_t n) { return attn_tensor_of(data, ATTN_I32, 1, &n); }

/* Rows first..first+count of a packed buffer. */
static attn_tensor rows_of(const struct encode *e, char *buffer, int64_t first, int64_t count)
{
    const int64_t shape[] = {count, e->model->info.width};
    return attn_tensor_of(buffer + (size_t)first * e->row_size, e->real, 2, shape);
}

static attn_status check_types(const struct encode *e)
{
    const attn_tensor *t = e->opts.type_ids;
    if (!t)
        return ATTN_OK;
    if (!e->model->encoder.in.type.ndim)
        return attn_fail(e->ctx, ATTN_E_ARG, "type_ids are given but %s has no segments", e->model->info.type);
    if (!attn_is_index(t) || t->ndim != 2 || t->shape[0] != e->s.items || t->shape[1] != e->s.tokens)
        return attn_fail(e->ctx, ATTN_E_SHAPE, "type_ids must be int32 or int64 [%lld,%lld] as ids", (long long)e->s.items,
                         (long long)e->s.tokens);
    return ATTN_OK;
}

attn_tensor attn_with_item(const attn_tensor *t)
{
    attn_tensor whole = *t;
    whole.ndim = t->ndim + 1;
    for (int32_t axis = t->ndim; axis > 0; axis--) {
        whole.shape[axis] = t->shape[axis - 1];
        whole.stride[axis] = t->stride[axis - 1];
    }
    whole.shape[0] = 1;
    whole.stride[0] = 0;
    return whole;
}

static attn_status check_out(const struct encode *e)
{
    const attn_tensor *out = &e->out;
    char shape[ATTN_SHAPE_TEXT];
    const attn_status status = attn_check_tensor(e->ctx, out, "out");
    if (status != ATTN_OK)
        return status;
    if (out->ndim != 3 || out->shape[0] != e->s.items || out->shape[1] != e->s.tokens || out->shape[2] != e->model->info.width)
        return attn_fail(e->ctx, ATTN_E_SHAPE, "out %s must be [%lld,%lld,%lld]: a row of the model's width for each id",
                         attn_shape_text(shape, out), (long long)e->s.items, (long long)e->s.tokens, (long long)e->model->info.width);
    return ATTN_OK;
}

static attn_status check_lengths(struct encode *e)
{
    const int64_t most = e->model->info.max_positions;
    for (int64_t b = 0; b < e->s.items; b++) {
        if (most && e->s.run[b].count > most)
            return attn_fail(e->ctx, ATTN_E_ARG, "sequence %lld has %lld tokens; the model takes %lld", (long long)b,
                             (long long)e->s.run[b].count, (long long)most);
        e->total += e->s.run[b].count;
    }
    return e->total <= INT32_MAX - 1 ? ATTN_OK : attn_fail(e->ctx, ATTN_E_SHAPE, "more than 2^31 - 2 tokens in one call");
}

static attn_status reserve(struct encode *e)
{
    const size_t places = (size_t)(e->s.items * e->s.tokens), rows = (size_t)e->total + 1;
    e->ids = malloc((3 * rows + (size_t)e->s.items + 1 + places) * sizeof *e->ids);
    e->memory = malloc(2 * rows * e->row_size);
    const int sees = e->watch.seen != NULL;
    if (sees)
        e->shown = malloc(places * e->row_size + 1);
    if (sees && (e->watch.flags & ATTN_WATCH_SELF))
        e->weights = calloc(places * (size_t)e->model->info.heads + 1, (size_t)e->s.tokens * attn_dtype_size(e->real));
    if (!e->ids || !e->memory || (sees && !e->shown) || (sees && (e->watch.flags & ATTN_WATCH_SELF) && !e->weights))
        return attn_fail(e->ctx, ATTN_E_NOMEM, "out of memory for %lld tokens", (long long)e->total);
    e->hidden = e->memory;
    e->other = e->memory + rows * e->row_size;
    memset(e->hidden + (rows - 1) * e->row_size, 0, e->row_size);
    memset(e->other + (rows - 1) * e->row_size, 0, e->row_size);
    e->positions = e->ids + rows;
    e->types = e->positions + rows;
    e->starts = e->types + rows;
    e->back = e->starts + e->s.items + 1;
    return ATTN_OK;
}

/* An id of a tensor as int32; what does not fit becomes -1, which every table refuses. */
static int32_t id_at(const attn_tensor *t, int64_t b, int64_t i)
{
    const int64_t id = attn_whole_at(t, b * t->stride[0] + i * t->stride[1]);
    return id < 0 || id > INT32_MAX ? -1 : (int32_t)id;
}

static void pack(struct encode *e)
{
    const struct embeddings *in = &e->model->encoder.in;
    int32_t at = 0;
    for (int64_t b = 0; b < e->s.items; b++) {
        const struct run *r = &e->s.run[b];
        e->starts[b] = at;
        for (int64_t i = 0; i < e->s.tokens; i++) {
            const int is_token = i >= r->start && i < r->start + r->count;
            e->back[b * e->s.tokens + i] = is_token ? at : (int32_t)e->total;
            if (!is_token)
                continue;
            e->ids[at] = id_at(&e->s.ids, b, i);
            e->types[at] = e->opts.type_ids ? id_at(e->opts.type_ids, b, i) : 0;
            e->positions[at++] = (int32_t)(in->first_position + i - r->start);
        }
    }
    e->starts[e->s.items] = at;
}

static attn_status embed(struct encode *e)
{
    const struct embeddings *in = &e->model->encoder.in;
    const attn_tensor ids = vector(e->ids, e->total), positions = vector(e->positions, e->total), types = vector(e->types, e->total);
    attn_tensor x = rows_of(e, in->norm.is_there ? e->other : e->hidden, 0, e->total), y = rows_of(e, e->hidden, 0, e->total);
    const attn_status status = attn_run_embed(e->ctx, e->model, in, &x, &ids,
                                              &(attn_embed_opts){.position_ids = &positions, .type_ids = &types});
    const attn_norm_opts norm = attn_norm_opts_of(&in->norm);
    return status || !in->norm.is_there ? status : attn_layer_norm(e->ctx, &y, &x, &norm);
}

/* The packed rows where their tokens stand in [B,L,n], 0 for padding. */
static attn_status unpack(const struct encode *e, attn_tensor *out)
{
    const int64_t shape[] = {e->s.items, e->s.tokens};
    const attn_tensor table = rows_of(e, e->hidden, 0, e->total + 1);
    const attn_tensor back = attn_tensor_of(e->back, ATTN_I32, 2, shape);
    return attn_embed(e->ctx, out, &back, &(attn_embed_opts){.token = &table});
}

static attn_status show(const struct encode *e, int64_t layer)
{
    const int64_t L = e->s.tokens, n = e->model->info.width, heads = e->model->info.heads;
    if (!e->watch.seen)
        return ATTN_OK;
    attn_tensor hidden = attn_tensor_of(e->shown, e->real, 3, (const int64_t[]){e->s.items, L, n});
    const attn_tensor weights = attn_tensor_of(e->weights, e->real, 4, (const int64_t[]){e->s.items, heads, L, L});
    const attn_status status = unpack(e, &hidden);
    const attn_layer_view view = {.struct_size = sizeof view, .part = ATTN_PART_ENCODER, .layer = layer, .hidden = &hidden,
                                  .self_weights = e->weights && layer >= 0 ? &weights : NULL};
    return status ? status : attn_run_show(e->ctx, &e->watch, &view);
}

/* Layer i for all sequences at once. */
static attn_status run_packed(struct encode *e, int64_t i)
{
    const attn_tensor x = rows_of(e, e->hidden, 0, e->total), starts = vector(e->starts, e->s.items + 1);
    attn_tensor y = rows_of(e, e->other, 0, e->total);
    const attn_sdpa_opts packed = {.cu_seqlens_q = &starts, .cu_seqlens_k = &starts};
    return attn_layer_run(e->ctx, &y, e->model->encoder.layer[i], &x, &(attn_layer_opts){.self = &packed});
}

/* Layer i for one sequence, with its weights: the same bits. */
static attn_status run_watched(struct encode *e, int64_t i, int64_t b)
{
    const struct run *r = &e->s.run[b];
    const int64_t L = e->s.tokens, heads = e->model->info.heads;
    const attn_tensor x = rows_of(e, e->hidden, e->starts[b], r->count);
    attn_tensor y = rows_of(e, e->other, e->starts[b], r->count);
    attn_tensor weights = {.data = e->weights + (size_t)(b * heads * L * L + r->start * L + r->start) * attn_dtype_size(e->real),
                           .dtype = e->real, .ndim = 3, .shape = {heads, r->count, r->count}, .stride = {L * L, L, 1}};
    const attn_sdpa_opts sdpa = {.weights = &weights};
    return attn_layer_run(e->ctx, &y, e->model->encoder.layer[i], &x, &(attn_layer_opts){.self = &sdpa});
}

static attn_status run_layers(struct encode *e)
{
    attn_status status = show(e, -1);
    for (int64_t i = 0; status == ATTN_OK && i < e->model->encoder.layers; i++) {
        if (!e->weights)
            status = run_packed(e, i);
        for (int64_t b = 0; e->weights && status == ATTN_OK && b < e->s.items; b++)
            status = e->s.run[b].count ? run_watched(e, i, b) : ATTN_OK;
        char *swap = e->hidden;
        e->hidden = e->other;
        e->other = swap;
        status = status ? status : show(e, i);
    }
    return status;
}

attn_status attn_encode_rows(struct encode *e, const attn_tensor *ids, const attn_encode_opts *opts)
{
    attn_status status = attn_copy_struct(e->ctx, &e->opts, sizeof e->opts, opts, "attn_encode_opts");
    e->real = e->model->info.compute;
    e->row_size = (size_t)e->model->info.width * attn_dtype_size(e->real);
    status = status ? status : attn_copy_struct(e->ctx, &e->watch, sizeof e->watch, e->opts.watch, "attn_watch");
    if (status == ATTN_OK && e->opts.flags)
        status = attn_fail(e->ctx, ATTN_E_ARG, "flags 0x%x of attn_encode_opts are not known", (unsigned)e->opts.flags);
    status = status ? status : attn_sequences_find(e->ctx, &e->s, ids, e->opts.lengths, e->opts.mask);
    status = status ? status : check_types(e);
    status = status ? status : check_lengths(e);
    status = status || !e->check ? status : e->check(e);
    status = status ? status : reserve(e);
    if (status != ATTN_OK)
        return status;
    pack(e);
    status = embed(e);
    return status ? status : run_layers(e);
}

void attn_encode_free(struct encode *e)
{
    free(e->ids);
    free(e->memory);
    free(e->shown);
    free(e->weights);
    attn_sequences_free(&e->s);
}

attn_status attn_pretrained_encode(attn_ctx *ctx, const attn_pretrained *model, attn_tensor *out, const attn_tensor *ids,
                                   const attn_encode_opts *opts)
{
    if (!ctx)
        return ATTN_E_ARG;
    attn_begin(ctx);
    if (!model || !out || !ids)
        return attn_fail(ctx, ATTN_E_ARG, "%s is NULL", !model ? "model" : !out ? "out" : "ids");
    if (model->info.kind == ATTN_MODEL_DECODER)
        return attn_fail(ctx, ATTN_E_UNSUPPORTED, "%s is a decoder; its states come from a session", model->info.type);
    struct encode e = {.ctx = ctx, .model = model, .out = *out, .check = check_out};
    if (ids->ndim == 1 && out->ndim == 2)
        e.out = attn_with_item(out);
    attn_status status = attn_encode_rows(&e, ids, opts);
    status = status ? status : unpack(&e, &e.out);
    attn_encode_free(&e);
    return status;
}
