/* SPDX-License-Identifier: Apache-2.0 */
/* attn_session_feed: embeddings, layers with their caches, the last norm, the product with the vocabulary. Layers are the outer loop and
   sequences the inner one, so that a layer's weights are read while they are in the caches of the CPU. */
#include <stdlib.h>
#include <string.h>

#include "../core/ctx.h"
#include "../core/tensor.h"
#include "../ops/sdpa_plan.h"
#include "run.h"
#include "sequences.h"
#include "session.h"

struct feed {
    attn_ctx *ctx;
    attn_session *s;
    attn_feed_opts opts;
    attn_watch watch;
    attn_tensor ids;      /* [B,L] */
    int64_t items, tokens, width, keys; /* keys: the longest sequence with the new tokens */
    attn_dtype real;
    size_t item_size;
    struct sequences found;
    struct run *run;      /* [B] of found */
    char *hidden, *other; /* [B,L,n] */
    char *rows;           /* [B or B*L, n]: what gets logits */
    char *weights;        /* NULL or [B,H,L,keys] */
};

/* ---- what is asked for ---- */

static attn_status check_room(struct feed *f)
{
    for (int64_t b = 0; b < f->items; b++) {
        struct run *r = &f->run[b];
        r->before = attn_session_length(f->s, b);
        if (r->count > f->s->capacity - r->before)
            return attn_fail(f->ctx, ATTN_E_FULL, "sequence %lld has %lld of %lld tokens and no room for %lld more", (long long)b,
                             (long long)r->before, (long long)f->s->capacity, (long long)r->count);
        f->keys = r->before + r->count > f->keys ? r->before + r->count : f->keys;
    }
    return ATTN_OK;
}

/* The session's sequences in ids, and what each row of them holds. */
static attn_status take_ids(struct feed *f, const attn_tensor *ids)
{
    char shape[ATTN_SHAPE_TEXT];
    attn_status status = attn_sequences_find(f->ctx, &f->found, ids, f->opts.lengths, f->opts.mask);
    if (status == ATTN_OK && f->found.items != f->s->batch)
        status = attn_fail(f->ctx, ATTN_E_SHAPE, "ids %s must be [%lld,L], a row for each sequence of the session",
                           attn_shape_text(shape, ids), (long long)f->s->batch);
    f->ids = f->found.ids;
    f->items = f->found.items;
    f->tokens = f->found.tokens;
    f->run = f->found.run;
    return status ? status : check_room(f);
}

static attn_status check_logits(struct feed *f, const attn_tensor *logits)
{
    char shape[ATTN_SHAPE_TEXT];
    const int all = (f->opts.flags & ATTN_FEED_ALL) != 0;
    const int64_t vocab = f->s->model->info.vocab;
    if (!logits)
        return ATTN_OK;
    const attn_status status = attn_check_tensor(f->ctx, logits, "logits");
    if (status != ATTN_OK)
        return status;
    const int right = logits->ndim == 2 + all && logits->shape[0] == f->items && (!all || logits->shape[1] == f->tokens) &&
                      logits->shape[1 + all] == vocab && logits->dtype == f->real;
    if (!right)
        return attn_fail(f->ctx, ATTN_E_SHAPE, "logits %s %s must be %s %s, %lld sequences and %lld ids", attn_dtype_name(logits->dtype),
                         attn_shape_text(shape, logits), attn_dtype_name(f->real), all ? "[B,L,vocab]" : "[B,vocab]", (long long)f->items,
                         (long long)vocab);
    return ATTN_OK;
}

/* ---- memory ---- */

static attn_status reserve(struct feed *f)
{
    const int all = (f->opts.flags & ATTN_FEED_ALL) != 0;
    const int64_t rows = f->items * f->tokens, last = all ? rows : f->items;
    size_t size;
    if (__builtin_mul_overflow((size_t)(2 * rows + 2 * last), (size_t)f->width * f->item_size, &size))
        return attn_fail(f->ctx, ATTN_E_SHAPE, "ids is too big");
    if (size > f->s->memory_size) {
        free(f->s->memory);
        f->s->memory = malloc(size + 64);
        f->s->memory_size = f->s->memory ? size : 0;
        if (!f->s->memory)
            return attn_fail(f->ctx, ATTN_E_NOMEM, "out of memory: %zu bytes were refused", size);
    }
    f->hidden = f->s->memory;
    f->other = f->hidden + (size_t)(rows * f->width) * f->item_size;
    f->rows = f->other + (size_t)(rows * f->width) * f->item_size;
    memset(f->s->memory, 0, size);
    if (f->watch.seen && (f->watch.flags & ATTN_WATCH_SELF)) {
        f->weights = calloc((size_t)(f->items * f->s->model->info.heads) * (size_t)f->tokens + 1, (size_t)f->keys * f->item_size);
        if (!f->weights)
            return attn_fail(f->ctx, ATTN_E_NOMEM, "out of memory: the weights of a layer were refused");
    }
    return ATTN_OK;
}

/* The rows of sequence b in a buffer [B,L,n]. */
static attn_tensor rows_of(const struct feed *f, char *buffer, int64_t b)
{
    const int64_t shape[] = {f->run[b].count, f->width};
    return attn_tensor_of(buffer + (size_t)((b * f->tokens + f->run[b].start) * f->width) * f->item_size, f->real, 2, shape);
}

static attn_tensor ids_of(const struct feed *f, int64_t b)
{
    attn_tensor t = {.dtype = f->ids.dtype, .ndim = 1, .shape = {f->run[b].count}, .stride = {f->ids.stride[1]}};
    t.data = (char *)f->ids.data + (b * f->ids.stride[0] + f->run[b].start * f->ids.stride[1]) * (int64_t)attn_dtype_size(t.dtype);
    return t;
}

/* ---- the parts ---- */

static attn_status embed(const struct feed *f, int64_t b)
{
    attn_tensor x = rows_of(f, f->hidden, b);
    const attn_tensor ids = ids_of(f, b);
    return attn_run_embed(f->ctx, f->s->model, &f->s->model->decoder.in, &x, &ids, &(attn_embed_opts){.offset = f->run[b].before});
}

static attn_tensor weights_of(const struct feed *f, int64_t b)
{
    const int64_t heads = f->s->model->info.heads, at = b * heads * f->tokens * f->keys + f->run[b].start * f->keys;
    return (attn_tensor){.data = f->weights + (size_t)at * f->item_size, .dtype = f->real, .ndim = 3,
                         .shape = {heads, f->run[b].count, f->run[b].before + f->run[b].count},
                         .stride = {f->tokens * f->keys, f->keys, 1}};
}

static attn_status run_layer(struct feed *f, int64_t i, int64_t b)
{
    const struct stack *s = &f->s->model->decoder;
    const attn_tensor x = rows_of(f, f->hidden, b);
    attn_tensor y = rows_of(f, f->other, b), weights;
    attn_sdpa_opts sdpa = {.flags = s->window[i] ? ATTN_WINDOW : 0, .window_left = s->window[i] - 1, .window_right = 0};
    const attn_layer_opts opts = {.self = &sdpa, .kv = session_caches(f->s, b)[i]};
    if (f->weights) {
        weights = weights_of(f, b);
        sdpa.weights = &weights;
    }
    return attn_layer_run(f->ctx, &y, s->layer[i], &x, &opts);
}

static attn_status show(const struct feed *f, int64_t layer)
{
    const int64_t heads = f->s->model->info.heads;
    const attn_tensor hidden = attn_tensor_of(f->hidden, f->real, 3, (const int64_t[]){f->items, f->tokens, f->width});
    const attn_tensor weights = attn_tensor_of(f->weights, f->real, 4, (const int64_t[]){f->items, heads, f->tokens, f->keys});
    const attn_layer_view view = {.struct_size = sizeof view, .part = ATTN_PART_DECODER, .layer = layer, .hidden = &hidden,
                                  .self_weights = f->weights && layer >= 0 ? &weights : NULL};
    return attn_run_show(f->ctx, &f->watch, &view);
}

/* The last norm and the product with the vocabulary, of the rows that are asked for, all in one. */
static attn_status give_logits(struct feed *f, attn_tensor *logits)
{
    const struct norm *norm = &f->s->model->decoder.final;
    const int all = (f->opts.flags & ATTN_FEED_ALL) != 0;
    const int64_t n = all ? f->items * f->tokens : f->items, shape[] = {n, f->width};
    const size_t row = (size_t)f->width * f->item_size;
    for (int64_t b = 0; b < f->items && !all; b++)
        if (f->run[b].count)
            memcpy(f->rows + (size_t)b * row, f->hidden + (size_t)(b * f->tokens + f->run[b].start + f->run[b].count - 1) * row, row);
    const attn_tensor x = attn_tensor_of(all ? f->hidden : f->rows, f->real, 2, shape);
    attn_tensor y = attn_tensor_of(f->rows + (size_t)n * row, f->real, 2, shape), out = *logits;
    const attn_norm_opts opts = attn_norm_opts_of(norm);
    attn_status status = norm->flags & ATTN_NORM_RMS ? attn_rms_norm(f->ctx, &y, &x, &opts) : attn_layer_norm(f->ctx, &y, &x, &opts);
    if (all)
        y = attn_tensor_of(y.data, f->real, 3, (const int64_t[]){f->items, f->tokens, f->width});
    for (int64_t b = 0; b < f->items; b++) /* padding gives 0, a norm with a bias does not */
        for (int64_t i = 0; i < (all ? f->tokens : 1); i++)
            if (all ? i < f->run[b].start || i >= f->run[b].start + f->run[b].count : !f->run[b].count)
                memset((char *)y.data + (size_t)((all ? b * f->tokens : b) + i) * row, 0, row);
    return status ? status : attn_linear(f->ctx, &out, f->s->model->head, &y);
}

static attn_status run_all(struct feed *f, attn_tensor *logits)
{
    attn_status status = ATTN_OK;
    for (int64_t b = 0; status == ATTN_OK && b < f->items; b++)
        status = f->run[b].count ? embed(f, b) : ATTN_OK;
    status = status ? status : show(f, -1);
    for (int64_t i = 0; status == ATTN_OK && i < f->s->model->decoder.layers; i++) {
        for (int64_t b = 0; status == ATTN_OK && b < f->items; b++)
            status = f->run[b].count ? run_layer(f, i, b) : ATTN_OK;
        char *swap = f->hidden;
        f->hidden = f->other;
        f->other = swap;
        status = status ? status : show(f, i);
    }
    return status || !logits ? status : give_logits(f, logits);
}

/* A failure leaves every sequence as it was, and its sentence. */
static void take_back(struct feed *f)
{
    char sentence[sizeof f->ctx->error];
    memcpy(sentence, f->ctx->error, sizeof sentence);
    for (int64_t b = 0; b < f->items; b++)
        for (int64_t i = 0; i < f->s->model->decoder.layers; i++)
            if (attn_kv_length(session_caches(f->s, b)[i]) > f->run[b].before)
                attn_kv_truncate(f->ctx, session_caches(f->s, b)[i], f->run[b].before);
    memcpy(f->ctx->error, sentence, sizeof sentence);
}

attn_status attn_session_feed(attn_ctx *ctx, attn_session *s, attn_tensor *logits, const attn_tensor *ids, const attn_feed_opts *opts)
{
    struct feed f = {.ctx = ctx, .s = s};
    if (!ctx)
        return ATTN_E_ARG;
    attn_begin(ctx);
    if (!s || !ids)
        return attn_fail(ctx, ATTN_E_ARG, "%s is NULL", s ? "ids" : "session");
    attn_status status = attn_copy_struct(ctx, &f.opts, sizeof f.opts, opts, "attn_feed_opts");
    status = status ? status : attn_copy_struct(ctx, &f.watch, sizeof f.watch, f.opts.watch, "attn_watch");
    if (status == ATTN_OK && (f.opts.flags & ~(uint32_t)ATTN_FEED_ALL))
        status = attn_fail(ctx, ATTN_E_ARG, "flags 0x%x of attn_feed_opts are not known", (unsigned)f.opts.flags);
    f.width = s->model->info.width;
    f.real = s->model->info.compute;
    f.item_size = attn_dtype_size(f.real);
    status = status ? status : take_ids(&f, ids);
    status = status ? status : check_logits(&f, logits);
    status = status ? status : reserve(&f);
    if (status == ATTN_OK) {
        status = run_all(&f, logits);
        if (status != ATTN_OK)
            take_back(&f);
    }
    free(f.weights);
    attn_sequences_free(&f.found);
    return status;
}
