/* SPDX-License-Identifier: Apache-2.0 */
/* One sequence through an encoder, a decoder and the product with the vocabulary. */
#include "seq2seq.h"

#include <stdlib.h>
#include <string.h>

#include "../core/ctx.h"

attn_status attn_seq2seq_check(attn_ctx *ctx, const attn_pretrained *model, const int32_t *ids, size_t count, const char *what)
{
    const attn_model_info *m = &model->info;
    if (m->kind != ATTN_MODEL_ENCODER_DECODER)
        return attn_fail(ctx, ATTN_E_UNSUPPORTED, "%s is no encoder-decoder; this is for models that translate", m->type);
    if (count < 1 || count > (size_t)m->max_positions)
        return attn_fail(ctx, ATTN_E_ARG, "%s has %zu tokens; it must have from 1 to the model's max_positions, %lld", what, count,
                         (long long)m->max_positions);
    for (size_t i = 0; i < count; i++)
        if (ids[i] < 0 || ids[i] >= m->vocab)
            return attn_fail(ctx, ATTN_E_ARG, "%s[%zu] is %d; ids are from 0 to %lld", what, i, (int)ids[i], (long long)m->vocab - 1);
    return ATTN_OK;
}

/* The rows that a stack starts with: [1,L,n]. */
static attn_status embed(attn_ctx *ctx, const struct embeddings *in, attn_tensor *x, const int32_t *ids, int64_t first)
{
    const int64_t shape[] = {1, x->shape[1]};
    const attn_tensor id = attn_tensor_of((void *)(uintptr_t)ids, ATTN_I32, 2, shape);
    const attn_embed_opts opts = {.flags = ATTN_EMBED_SCALE, .scale = in->scale, .token = &in->token, .position = &in->position,
                                  .offset = first};
    return attn_embed(ctx, x, &id, &opts);
}

/* ----------------------------------------------------------------- layers ---- */

/* A layer's call, and the arrays that a watcher sees. */
struct step {
    const attn_watch *watch;
    attn_part part;
    const attn_model_info *info;
    int64_t rows, keys, memory;
    void *weights; /* of self and cross attention, one after the other */
};

static attn_tensor cells(const struct step *s, int64_t keys, int64_t from)
{
    const int64_t shape[] = {1, s->info->heads, s->rows, keys};
    return attn_tensor_of((char *)s->weights + from * (int64_t)attn_dtype_size(s->info->compute), s->info->compute, 4, shape);
}

static attn_status tell(attn_ctx *ctx, const struct step *s, int64_t layer, const attn_tensor *x, const attn_tensor *self,
                        const attn_tensor *cross)
{
    const attn_layer_view view = {.struct_size = sizeof view, .part = s->part, .layer = layer, .hidden = x, .self_weights = self,
                                  .cross_weights = cross};
    if (!s->watch || !s->watch->seen || !s->watch->seen(s->watch->user, &view))
        return ATTN_OK;
    return attn_fail(ctx, ATTN_E_CANCELLED, "cancelled by the watcher after layer %lld", (long long)layer);
}

/* Layer i: x becomes y. */
static attn_status run_layer(attn_ctx *ctx, const struct stack *stack, int64_t i, const struct step *s, attn_tensor *x, attn_tensor *y,
                             attn_layer_opts opts)
{
    const uint32_t wanted = s->watch ? s->watch->flags : 0;
    const int has_cross = s->part == ATTN_PART_DECODER;
    attn_tensor self = cells(s, s->keys, 0), cross = cells(s, s->memory, s->info->heads * s->rows * s->keys);
    const int sees_self = (wanted & ATTN_WATCH_SELF) != 0, sees_cross = has_cross && (wanted & ATTN_WATCH_CROSS);
    const attn_sdpa_opts self_opts = {.weights = sees_self ? &self : NULL}, cross_opts = {.weights = sees_cross ? &cross : NULL};
    opts.self = &self_opts;
    opts.cross = has_cross ? &cross_opts : NULL;
    attn_status status = attn_layer_run(ctx, y, stack->layer[i], x, &opts);
    return status ? status : tell(ctx, s, i, y, sees_self ? &self : NULL, sees_cross ? &cross : NULL);
}

/* Room for two arrays of rows, and the weights of a watched layer. */
static attn_status take_memory(attn_ctx *ctx, struct step *s, attn_tensor rows[2], void **memory)
{
    const int64_t n = s->info->width, shape[] = {1, s->rows, n}, size = (int64_t)attn_dtype_size(s->info->compute);
    const int64_t watched = s->watch ? s->info->heads * s->rows * (s->keys + s->memory) : 0;
    char *all = malloc((size_t)((2 * s->rows * n + watched + 1) * size));
    if (!all)
        return attn_fail(ctx, ATTN_E_NOMEM, "out of memory for %lld rows", (long long)s->rows);
    *memory = all;
    for (int i = 0; i < 2; i++)
        rows[i] = attn_tensor_of(all + i * s->rows * n * size, s->info->compute, 3, shape);
    s->weights = all + 2 * s->rows * n * size;
    return ATTN_OK;
}

attn_status attn_seq2seq_encode(attn_ctx *ctx, const attn_pretrained *model, attn_tensor *states, const int32_t *source,
                                const attn_watch *watch)
{
    const struct stack *stack = &model->encoder;
    struct step s = {.watch = watch, .part = ATTN_PART_ENCODER, .info = &model->info, .rows = states->shape[1], .keys = states->shape[1]};
    attn_tensor rows[2];
    void *memory = NULL;
    attn_status status = take_memory(ctx, &s, rows, &memory);
    status = status ? status : embed(ctx, &stack->in, &rows[0], source, 0);
    status = status ? status : tell(ctx, &s, -1, &rows[0], NULL, NULL);
    for (int64_t i = 0; status == ATTN_OK && i < stack->layers; i++)
        status = run_layer(ctx, stack, i, &s, &rows[i % 2], i + 1 < stack->layers ? &rows[(i + 1) % 2] : states,
                           (attn_layer_opts){.offset = 0});
    free(memory);
    return status;
}

static attn_status product(attn_ctx *ctx, const attn_pretrained *model, attn_tensor *logits, const attn_tensor *x)
{
    const int64_t shape[] = {x->shape[1], x->shape[2]};
    const attn_tensor rows = attn_tensor_of(x->data, x->dtype, 2, shape);
    return attn_linear(ctx, logits, model->seq2seq.product, &rows);
}

attn_status attn_seq2seq_decode(attn_ctx *ctx, const attn_pretrained *model, attn_tensor *logits, const struct decode *d)
{
    const struct stack *stack = &model->decoder;
    struct step s = {.watch = d->watch, .part = ATTN_PART_DECODER, .info = &model->info, .rows = d->count - d->first, .keys = d->count,
                     .memory = d->memory ? d->memory->shape[1] : 0};
    attn_tensor rows[2];
    void *memory = NULL;
    attn_status status = take_memory(ctx, &s, rows, &memory);
    status = status ? status : embed(ctx, &stack->in, &rows[0], d->target + d->first, d->first);
    status = status ? status : tell(ctx, &s, -1, &rows[0], NULL, NULL);
    for (int64_t i = 0; status == ATTN_OK && i < stack->layers; i++) {
        const attn_layer_opts opts = {.kv = d->kv ? d->kv[i] : NULL, .memory = d->kv ? NULL : d->memory,
                                      .memory_kv = d->kv ? d->memory_kv[i] : NULL};
        status = run_layer(ctx, stack, i, &s, &rows[i % 2], &rows[(i + 1) % 2], opts);
    }
    if (status == ATTN_OK && logits)
        status = product(ctx, model, logits, &rows[stack->layers % 2]);
    free(memory);
    return status;
}

attn_status attn_pretrained_teach(attn_ctx *ctx, const attn_pretrained *model, attn_tensor *logits, const int32_t *source,
                                  size_t source_count, const int32_t *target, size_t target_count, const attn_watch *watch)
{
    if (!ctx)
        return ATTN_E_ARG;
    attn_begin(ctx);
    if (!model || !source || !target)
        return attn_fail(ctx, ATTN_E_ARG, "%s is NULL", !model ? "model" : !source ? "source" : "target");
    attn_status status = attn_seq2seq_check(ctx, model, source, source_count, "source");
    status = status ? status : attn_seq2seq_check(ctx, model, target, target_count, "target");
    if (status != ATTN_OK)
        return status;
    const int64_t shape[] = {1, (int64_t)source_count, model->info.width};
    void *data = malloc(source_count * (size_t)model->info.width * attn_dtype_size(model->info.compute));
    if (!data)
        return attn_fail(ctx, ATTN_E_NOMEM, "out of memory for %zu rows", source_count);
    attn_tensor states = attn_tensor_of(data, model->info.compute, 3, shape);
    const struct decode d = {.target = target, .count = (int64_t)target_count, .memory = &states, .watch = watch};
    status = attn_seq2seq_encode(ctx, model, &states, source, watch);
    status = status ? status : attn_seq2seq_decode(ctx, model, logits, &d);
    free(data);
    return status;
}

int32_t attn_pretrained_start(const attn_pretrained *model)
{
    return model && model->info.kind == ATTN_MODEL_ENCODER_DECODER ? (int32_t)model->seq2seq.start : -1;
}
