/* SPDX-License-Identifier: Apache-2.0 */
#include "weights.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    w->status = attn_file_open(&w->file, path, r->text, r->size);
    if (w->status != ATTN_OK)
        return w->status;
    w->used = calloc(attn_file_count(w->file) + 1, 1);
    return w->status = w->used ? ATTN_OK : attn_load_fail_nomem(&w->report);
}

static void free_copies(struct weights *w)
{
    while (w->copy_count > 0)
        free(w->copies[--w->copy_count]);
}

void attn_weights_close(struct weights *w)
{
    free_copies(w);
    attn_file_close(w->file);
    free(w->used);
    w->file = NULL;
    w->used = NULL;
    w->report.text = NULL;
}

/* ---- getting ---- */

enum { DECODE_ROWS = 64 };

struct decoding {
    const attn_file *file;
    size_t tensor;
    int64_t rows, columns;
    float *to;
};

static void decode_some(void *user, int64_t item, int thread)
{
    const struct decoding *d = user;
    const int64_t first = item * DECODE_ROWS, left = d->rows - first;
    (void)thread;
    attn_gguf_rows(d->file, d->tensor, first, left < DECODE_ROWS ? left : DECODE_ROWS, d->to + first * d->columns, NULL, 0);
}

/* Blocks as f32, on all threads. */
static attn_status decode(struct weights *w, size_t i, attn_tensor *t)
{
    const attn_array_info info = attn_file_info(w->file, i);
    struct decoding d = {.file = w->file, .tensor = i, .rows = 1, .columns = info.ndim > 0 ? info.shape[info.ndim - 1] : 1};
    attn_status status = attn_gguf_rows(w->file, i, 0, 0, NULL, w->report.text, w->report.size);
    for (int32_t axis = 0; axis + 1 < info.ndim; axis++)
        d.rows *= info.shape[axis];
    if (status != ATTN_OK)
        return status;
    d.to = w->copy_count < WEIGHT_COPIES ? malloc((size_t)(d.rows * d.columns) * sizeof *d.to + 1) : NULL;
    if (!d.to)
        return attn_load_fail_nomem(&w->report);
    w->copies[w->copy_count++] = d.to;
    status = attn_parallel(w->ctx, w->ctx->threads, (d.rows + DECODE_ROWS - 1) / DECODE_ROWS, decode_some, &d);
    *t = attn_tensor_of(d.to, ATTN_F32, info.ndim, info.shape);
    return status;
}

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
    const int is_blocks = attn_file_format(w->file) == ATTN_FORMAT_GGUF && attn_file_info(w->file, (size_t)i).dtype == 0;
    w->status = is_blocks ? decode(w, (size_t)i, &t) : attn_file_tensor(w->file, (size_t)i, &t, w->report.text, w->report.size);
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

void attn_weights_forget(struct weights *w)
{
    free_copies(w);
    if (w->file)
        attn_file_forget(w->file);
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
