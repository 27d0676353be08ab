/* SPDX-License-Identifier: Apache-2.0 */
/* One sequence through an encoder (run_encoder.c), a decoder and the product with the vocabulary. */
#include "seq2seq.h"

#include <stdlib.h>
#include <string.h>

#include "../core/ctx.h"
#include "run.h"

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

/* ----------------------------------------------------------------- layers ---- */

/* The arrays of a layer that a watcher sees. */
struct step {
    const attn_watch *watch;
    const attn_model_info *info;
    int64_t rows, keys, memory;
    void *weights; /* of self and cross attention, one after the other */
};

static attn_tensor cells(const struct step *s, int64_t keys, int64_t from)
{
    const int64_t shape[] = {1, s->info->heads, s->rows, keys};
    return attn_tensor_of((char *)s->weights + from * (int64_t)attn_dtype_size(s->info->compute), s->info->compute, 4, shape);
}

static attn_status show(attn_ctx *ctx, const struct step *s, int64_t layer, const attn_tensor *x, const attn_tensor *self,
                        const attn_tensor *cross)
{
    const attn_layer_view view = {.struct_size = sizeof view, .part = ATTN_PART_DECODER, .layer = layer, .hidden = x, .self_weights = self,
                                  .cross_weights = cross};
    return attn_run_show(ctx, s->watch, &view);
}

/* Layer i: x becomes y. */
static attn_status run_layer(attn_ctx *ctx, const struct stack *stack, int64_t i, const struct step *s, attn_tensor *x, attn_tensor *y,
                             attn_layer_opts opts)
{
    const uint32_t wanted = s->watch && s->watch->seen ? s->watch->flags : 0;
    attn_tensor self = cells(s, s->keys, 0), cross = cells(s, s->memory, s->info->heads * s->rows * s->keys);
    const int sees_self = (wanted & ATTN_WATCH_SELF) != 0, sees_cross = (wanted & ATTN_WATCH_CROSS) != 0;
    const attn_sdpa_opts self_opts = {.weights = sees_self ? &self : NULL}, cross_opts = {.weights = sees_cross ? &cross : NULL};
    opts.self = &self_opts;
    opts.cross = &cross_opts;
    const attn_status status = attn_layer_run(ctx, y, stack->layer[i], x, &opts);
    return status ? status : show(ctx, s, i, y, sees_self ? &self : NULL, sees_cross ? &cross : NULL);
}

/* Room for two arrays of rows, and the weights of a watched layer. */
static attn_status take_memory(attn_ctx *ctx, struct step *s, attn_tensor rows[2], void **memory)
{
    const int64_t n = s->info->width, shape[] = {1, s->rows, n}, size = (int64_t)attn_dtype_size(s->info->compute);
    const int64_t watched = s->watch && s->watch->seen ? s->info->heads * s->rows * (s->keys + s->memory) : 0;
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
    const int64_t shape[] = {1, states->shape[1]};
    const attn_tensor ids = attn_tensor_of((void *)(uintptr_t)source, ATTN_I32, 2, shape);
    return attn_pretrained_encode(ctx, model, states, &ids, &(attn_encode_opts){.watch = watch});
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
    struct step s = {.watch = d->watch, .info = &model->info, .rows = d->count - d->first, .keys = d->count,
                     .memory = d->memory ? d->memory->shape[1] : 0};
    const attn_tensor ids = attn_tensor_of((void *)(uintptr_t)(d->target + d->first), ATTN_I32, 2, (const int64_t[]){1, s.rows});
    attn_tensor rows[2];
    void *memory = NULL;
    attn_status status = take_memory(ctx, &s, rows, &memory);
    status = status ? status : attn_run_embed(ctx, model, &stack->in, &rows[0], &ids, &(attn_embed_opts){.offset = d->first});
    status = status ? status : show(ctx, &s, -1, &rows[0], NULL, NULL);
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
    attn_watch own;
    attn_status status = attn_copy_struct(ctx, &own, sizeof own, watch, "attn_watch");
    status = status ? status : attn_seq2seq_check(ctx, model, source, source_count, "source");
    status = status ? status : attn_seq2seq_check(ctx, model, target, target_count, "target");
    if (status != ATTN_OK)
        return status;
    const int64_t shape[] = {1, (int64_t)source_count, model->info.width};
    void *data = malloc(source_count * (size_t)model->info.width * attn_dtype_size(model->info.compute));
    if (!data)
        return attn_fail(ctx, ATTN_E_NOMEM, "out of memory for %zu rows", source_count);
    attn_tensor states = attn_tensor_of(data, model->info.compute, 3, shape);
    const struct decode d = {.target = target, .count = (int64_t)target_count, .memory = &states, .watch = &own};
    status = attn_seq2seq_encode(ctx, model, &states, source, &own);
    status = status ? status : attn_seq2seq_decode(ctx, model, logits, &d);
    free(data);
    return status;
}

int32_t attn_pretrained_start(const attn_pretrained *model)
{
    return model && model->info.kind == ATTN_MODEL_ENCODER_DECODER ? (int32_t)model->seq2seq.start : -1;
}
