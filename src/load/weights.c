/* SPDX-License-Identifier: Apache-2.0 */
#include "weights.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../core/ctx.h"
#include "../core/tensor.h"
#include "../core/threads.h"

/* ---- opening ---- */

/* Which file of the folder has the weights. */
static attn_status choose(struct weights *w, const char *dir, const char *name, const struct load_report *r)
{
    static const char *const pickles[] = {"pytorch_model.bin", "pytorch_model.bin.index.json"};
    char one[64], sharded[64];
    snprintf(one, sizeof one, "%.32s.safetensors", name);
    snprintf(sharded, sizeof sharded, "%.32s.safetensors.index.json", name);
    if (!attn_load_exists(dir, one) && attn_load_exists(dir, sharded))
        return attn_load_path(w->path, dir, sharded, r);
    for (int i = 0; i < 2 && !attn_load_exists(dir, one); i++)
        if (attn_load_exists(dir, pickles[i]))
            return attn_load_fail(r, ATTN_E_UNSUPPORTED,
                                  "the weights are in %s, a pickle, which may run any code when it is read; write %s with "
                                  "transformers: AutoModel.from_pretrained(DIR).save_pretrained(DIR)",
                                  pickles[i], one);
    if (!attn_load_exists(dir, one))
        return attn_load_fail(r, ATTN_E_IO, "there is neither %s nor %s in it", one, sharded);
    return attn_load_path(w->path, dir, one, r);
}

attn_status attn_weights_open(struct weights *w, const char *dir, const char *name, const struct load_report *r)
{
    *w = (struct weights){.status = ATTN_OK};
    w->report = (struct load_report){.text = r->text, .size = r->size, .file = w->path};
    w->status = choose(w, dir, name ? name : "model", r);
    w->status = w->status ? w->status : attn_load_regular(w->path, &w->report);
    if (w->status == ATTN_OK)
        w->status = attn_file_open(&w->file, w->path, r->text, r->size);
    if (w->status != ATTN_OK)
        return w->status;
    w->used = calloc(attn_file_count(w->file) + 1, 1);
    if (!w->used)
        w->status = attn_load_fail_nomem(&w->report);
    return w->status;
}

attn_status attn_weights_open_gguf(struct weights *w, attn_ctx *ctx, const char *path, const struct load_report *r)
{
    *w = (struct weights){.status = ATTN_OK, .ctx = ctx};
    w->report = (struct load_report){.text = r->text, .size = r->size, .file = w->path};
    if (snprintf(w->path, sizeof w->path, "%s", path) >= (int)sizeof w->path)
        return w->status = attn_load_fail(r, ATTN_E_IO, "the path is too long");
    w->status = attn_load_regular(path, &w->report);
    w->status = w->status ? w->status : attn_file_open(&w->file, path, r->text, r->size);
    if (w->status != ATTN_OK)
        return w->status;
    w->used = calloc(attn_file_count(w->file) + 1, 1);
    return w->status = w->used ? ATTN_OK : attn_load_fail_nomem(&w->report);
}

void attn_weights_close(struct weights *w)
{
    attn_weights_forget(w);
    attn_file_close(w->file);
    free(w->used);
    w->file = NULL;
    w->used = NULL;
    w->report.text = NULL;
}

/* ---- blocks of a .gguf ---- */

enum { DECODE_NUMBERS = 1 << 16 }; /* of a part of the job, about */

static int64_t rows_of_part(const struct weight_copy *c)
{
    return c->columns < DECODE_NUMBERS ? DECODE_NUMBERS / (c->columns + !c->columns) : 1;
}
static int64_t parts_of(const struct weight_copy *c) { return (c->rows + rows_of_part(c) - 1) / rows_of_part(c); }

static void decode_part(void *user, int64_t part, int thread)
{
    const struct weights *w = user;
    const struct weight_copy *c = &w->copies[w->decoded];
    (void)thread;
    for (; part >= parts_of(c); c++)
        part -= parts_of(c);
    const int64_t first = part * rows_of_part(c), left = c->rows - first;
    attn_gguf_rows(w->file, c->tensor, first, left < rows_of_part(c) ? left : rows_of_part(c), c->numbers + first * c->columns, NULL, 0);
}

attn_status attn_weights_decode(struct weights *w)
{
    int64_t parts = 0;
    for (int i = w->decoded; i < w->copy_count; i++)
        parts += parts_of(&w->copies[i]);
    if (w->status == ATTN_OK && parts > 0 && attn_parallel(w->ctx, (int)w->ctx->threads, parts, decode_part, w) != ATTN_OK)
        w->status = attn_load_fail_ctx(&w->report, ATTN_E_CANCELLED, w->ctx, "decoding");
    w->decoded = w->copy_count;
    return w->status;
}

/* Room for tensor i as f32: that of an earlier layer's, which is as large, where there is one. */
static attn_status make_copy(struct weights *w, size_t i, attn_tensor *t)
{
    const attn_array_info info = attn_file_info(w->file, i);
    const attn_status status = attn_gguf_rows(w->file, i, 0, 0, NULL, w->report.text, w->report.size);
    if (status != ATTN_OK)
        return status;
    if (w->copy_count == WEIGHT_COPIES)
        return attn_load_fail_nomem(&w->report);
    struct weight_copy *c = &w->copies[w->copy_count];
    c->tensor = i;
    c->rows = info.shape[0];
    c->columns = info.shape[1];
    const int64_t n = c->rows * c->columns;
    if (!c->numbers || c->capacity < n) {
        attn_free(w->ctx, c->numbers);
        c->numbers = attn_alloc(w->ctx, n * (int64_t)sizeof *c->numbers);
        c->capacity = c->numbers ? n : 0;
    }
    if (!c->numbers)
        return attn_load_fail_nomem(&w->report);
    w->copy_count++;
    *t = attn_tensor_of(c->numbers, ATTN_F32, info.ndim, info.shape);
    return ATTN_OK;
}

void attn_weights_next(struct weights *w)
{
    w->copy_count = w->decoded = 0;
    if (w->file)
        attn_file_forget(w->file);
}

void attn_weights_forget(struct weights *w)
{
    attn_weights_next(w);
    for (int i = 0; i < WEIGHT_COPIES && w->ctx; i++)
        attn_free(w->ctx, w->copies[i].numbers);
    memset(w->copies, 0, sizeof w->copies);
}

/* ---- getting ---- */

static int64_t find(struct weights *w, const char *name)
{
    const int64_t i = w->status == ATTN_OK ? attn_file_find(w->file, name) : -1;
    if (i < 0 && w->status == ATTN_OK)
        w->status = attn_load_fail(&w->report, ATTN_E_FORMAT, "tensor %s is missing", name);
    return i;
}

int64_t attn_weights_rows(struct weights *w, int64_t rows, int64_t columns, const char *format, ...)
{
    char name[WEIGHT_NAME];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    const int64_t i = find(w, name);
    if (i < 0)
        return -1;
    const attn_array_info info = attn_file_info(w->file, (size_t)i);
    if (info.ndim != 2 || info.shape[0] != rows || info.shape[1] != columns)
        w->status = attn_load_fail(&w->report, ATTN_E_SHAPE, "tensor %s has shape [%lld,%lld]; the configuration demands [%lld,%lld]", name,
                                   (long long)info.shape[0], (long long)info.shape[1], (long long)rows, (long long)columns);
    w->status = w->status ? w->status : attn_gguf_rows(w->file, (size_t)i, 0, 0, NULL, w->report.text, w->report.size);
    w->parameters += w->used[i] ? 0 : rows * columns;
    w->used[i] = 1;
    return w->status == ATTN_OK ? i : -1;
}

static attn_tensor get(struct weights *w, int32_t ndim, const int64_t *shape, const char *format, va_list args)
{
    char name[WEIGHT_NAME], got[ATTN_SHAPE_TEXT], want[ATTN_SHAPE_TEXT];
    attn_tensor t = {.data = NULL};
    if (w->status != ATTN_OK)
        return t;
    vsnprintf(name, sizeof name, format, args);
    const int64_t i = find(w, name);
    if (i < 0)
        return t;
    const attn_array_info info = attn_file_info(w->file, (size_t)i);
    const int is_blocks = attn_file_format(w->file) == ATTN_FORMAT_GGUF && info.dtype == 0 && ndim == 2 && info.ndim == 2;
    w->status = is_blocks ? make_copy(w, (size_t)i, &t) : attn_file_tensor(w->file, (size_t)i, &t, w->report.text, w->report.size);
    if (w->status != ATTN_OK)
        return t;
    const attn_tensor like = attn_tensor_of(NULL, t.dtype, ndim, shape);
    if (t.ndim != ndim || memcmp(t.shape, like.shape, (size_t)ndim * sizeof *shape) != 0)
        w->status = attn_load_fail(&w->report, ATTN_E_SHAPE, "tensor %s has shape %s; the configuration demands %s", name,
                                   attn_shape_text(got, &t), attn_shape_text(want, &like));
    else if (t.dtype != ATTN_F32 && t.dtype != ATTN_F16 && t.dtype != ATTN_BF16 && t.dtype != ATTN_F64)
        w->status = attn_load_fail(&w->report, ATTN_E_DTYPE, "tensor %s has dtype %s; f32, f16, bf16 or f64 is needed", name,
                                   attn_dtype_name(t.dtype));
    w->parameters += w->used[i] ? 0 : attn_tensor_count(&t);
    w->used[i] = 1;
    return t;
}

attn_tensor attn_weights_vector(struct weights *w, int64_t n, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const attn_tensor t = get(w, 1, &n, format, args);
    va_end(args);
    return t;
}

attn_tensor attn_weights_matrix(struct weights *w, int64_t rows, int64_t columns, const char *format, ...)
{
    const int64_t shape[] = {rows, columns};
    va_list args;
    va_start(args, format);
    const attn_tensor t = get(w, 2, shape, format, args);
    va_end(args);
    return t;
}

attn_tensor attn_weights_linear(struct weights *w, int64_t in, int64_t out, const char *format, ...)
{
    static const int32_t swapped[] = {1, 0};
    const int64_t shape[] = {out, in};
    va_list args;
    va_start(args, format);
    const attn_tensor t = get(w, 2, shape, format, args);
    va_end(args);
    return w->status == ATTN_OK ? attn_tensor_permute(&t, swapped) : t;
}

int attn_weights_has(const struct weights *w, const char *format, ...)
{
    char name[WEIGHT_NAME];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    return w->file && attn_file_find(w->file, name) >= 0;
}

/* ---- the rest ---- */

static int matches(const char *pattern, const char *name)
{
    const size_t n = strlen(pattern), length = strlen(name);
    if (pattern[0] == '*')
        return length >= n - 1 && !strcmp(name + length - (n - 1), pattern + 1);
    if (n && pattern[n - 1] == '*')
        return !strncmp(name, pattern, n - 1);
    return !strcmp(name, pattern);
}

attn_status attn_weights_rest(struct weights *w, const char *const *ignored)
{
    for (size_t i = 0; w->status == ATTN_OK && i < attn_file_count(w->file); i++) {
        const char *name = attn_file_info(w->file, i).name;
        int known = w->used[i];
        for (const char *const *p = ignored; p && *p && !known; p++)
            known = matches(*p, name);
        if (!known)
            w->status = attn_load_fail(&w->report, ATTN_E_UNSUPPORTED,
                                       "tensor %s is left over: the model that config.json describes has none of that name", name);
    }
    return w->status;
}
