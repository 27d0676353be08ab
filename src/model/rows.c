/* SPDX-License-Identifier: Apache-2.0 */
#include "rows.h"

#include "../core/tensor.h"
#include "../core/threads.h"
#include "../kernels/convert.h"
#include "../ops/matrix.h"
#include "../ops/sdpa_plan.h"
#include <string.h>

/* Elements below which a call stays on one thread (about 0.1 ms of the dearest function), and those of one item of work. */
enum { SMALL_WORK = 1 << 14, ITEM_WORK = 1 << 12 };

/* ---------------------------------------------------------------- checks ---- */

attn_status attn_model_check_floats(attn_ctx *ctx, const attn_tensor *t, const char *name, int least, int most, const char *forms)
{
    return t ? attn_check_floats(ctx, t, name, least, most, forms) : attn_fail(ctx, ATTN_E_ARG, "%s is NULL", name);
}

attn_status attn_model_check_like(attn_ctx *ctx, const attn_tensor *t, const char *name, const attn_tensor *like, const char *like_name)
{
    char got[ATTN_SHAPE_TEXT], want[ATTN_SHAPE_TEXT];
    attn_status status = attn_model_check_floats(ctx, t, name, 0, ATTN_MAX_DIMS, "0 to 8 axes");
    if (status != ATTN_OK)
        return status;
    if (t->ndim != like->ndim || memcmp(t->shape, like->shape, (size_t)t->ndim * sizeof *t->shape))
        return attn_fail(ctx, ATTN_E_SHAPE, "%s has shape %s but %s has %s; they must be equal", name, attn_shape_text(got, t), like_name,
                         attn_shape_text(want, like));
    return ATTN_OK;
}

attn_status attn_model_check_vector(attn_ctx *ctx, const attn_tensor *t, const char *name, int64_t n, const char *of)
{
    char shape[ATTN_SHAPE_TEXT];
    if (!t)
        return ATTN_OK;
    attn_status status = attn_model_check_floats(ctx, t, name, 1, 1, "one number for each column");
    if (status != ATTN_OK)
        return status;
    return t->shape[0] == n ? ATTN_OK
                            : attn_fail(ctx, ATTN_E_SHAPE, "%s has shape %s; %s %lld columns", name, attn_shape_text(shape, t), of,
                                        (long long)n);
}

attn_status attn_model_check_ints(attn_ctx *ctx, const attn_tensor *t, const char *name)
{
    attn_status status = attn_check_tensor(ctx, t, name);
    if (status == ATTN_OK && t->dtype != ATTN_I32 && t->dtype != ATTN_I64)
        return attn_fail(ctx, ATTN_E_DTYPE, "%s has dtype %s; i32 or i64 is needed", name, attn_dtype_name(t->dtype));
    return status;
}

/* ------------------------------------------------------------------ rows ---- */

int64_t attn_row_stride(const attn_tensor *t)
{
    const int last = t->ndim - 1;
    return t->shape[last] == 1 ? 0 : t->stride[last];
}

int64_t attn_row_at(const attn_tensor *t, int64_t row)
{
    int64_t at = 0;
    for (int axis = t->ndim - 2; axis >= 0 && row > 0; axis--) {
        at += row % t->shape[axis] * t->stride[axis];
        row /= t->shape[axis];
    }
    return at;
}

void attn_load_row(double *to, const attn_tensor *from, int64_t at, int64_t stride, int64_t n)
{
    if (from->dtype == ATTN_F32) {
        const float *x = (const float *)from->data + at;
        if (stride == 1)
            for (int64_t i = 0; i < n; i++)
                to[i] = x[i];
        else
            for (int64_t i = 0; i < n; i++)
                to[i] = x[i * stride];
        return;
    }
    for (int64_t i = 0; i < n; i++)
        to[i] = attn_load_float(from->data, from->dtype, at + i * stride);
}

void attn_store_row(const attn_tensor *to, int64_t at, int64_t stride, int64_t n, const double *from)
{
    if (to->dtype == ATTN_F32) {
        float *x = (float *)to->data + at;
        if (stride == 1)
            for (int64_t i = 0; i < n; i++)
                x[i] = (float)from[i];
        else
            for (int64_t i = 0; i < n; i++)
                x[i * stride] = (float)from[i];
        return;
    }
    for (int64_t i = 0; i < n; i++)
        attn_store_float(to->data, to->dtype, at + i * stride, from[i]);
}

static void load_floats(float *to, const attn_tensor *from, int64_t at, int64_t n)
{
    const int64_t stride = attn_row_stride(from);
    if (from->dtype == ATTN_F32 && stride == 1)
        memcpy(to, (const float *)from->data + at, (size_t)n * sizeof *to);
    else
        for (int64_t i = 0; i < n; i++)
            to[i] = (float)attn_load_float(from->data, from->dtype, at + i * stride);
}

static void store_floats(const attn_tensor *to, int64_t at, int64_t n, const float *from)
{
    const int64_t stride = attn_row_stride(to);
    if (to->dtype == ATTN_F32 && stride == 1)
        memcpy((float *)to->data + at, from, (size_t)n * sizeof *from);
    else
        for (int64_t i = 0; i < n; i++)
            attn_store_float(to->data, to->dtype, at + i * stride, from[i]);
}

/* A call in flight: rows are taken `step` at a time. */
typedef struct row_run {
    const attn_row_work *w;
    int64_t rows, n, step;
    const double *vector[2];
    double *scratch; /* of every thread: a row and a row of other */
} row_run;

static void run_row_f32(const row_run *r, int64_t i, float *row)
{
    const attn_row_work *w = r->w;
    float *const other = w->other ? row + r->n : NULL;
    load_floats(row, w->x, attn_row_at(w->x, i), r->n);
    if (other)
        load_floats(other, w->other, attn_row_at(w->other, i), r->n);
    w->compute_f32(w->how, r->vector, other, row, r->n);
    store_floats(w->out, attn_row_at(w->out, i), r->n, row);
}

static void run_item(void *user, int64_t item, int thread)
{
    const row_run *r = user;
    const attn_row_work *w = r->w;
    double *row = r->scratch + thread * 2 * r->n, *other = w->other ? row + r->n : NULL;
    const int64_t end = (item + 1) * r->step < r->rows ? (item + 1) * r->step : r->rows;
    for (int64_t i = item * r->step; i < end; i++) {
        if (w->compute_f32) {
            run_row_f32(r, i, (float *)(void *)row);
            continue;
        }
        attn_load_row(row, w->x, attn_row_at(w->x, i), attn_row_stride(w->x), r->n);
        if (other)
            attn_load_row(other, w->other, attn_row_at(w->other, i), attn_row_stride(w->other), r->n);
        if (w->compute)
            w->compute(w->how, r->vector, other, row, r->n);
        attn_store_row(w->out, attn_row_at(w->out, i), attn_row_stride(w->out), r->n, row);
    }
}

attn_status attn_run_rows(attn_ctx *ctx, const attn_row_work *w)
{
    const int64_t count = attn_tensor_count(w->out);
    if (count == 0)
        return ATTN_OK;
    row_run r = {.w = w, .n = w->out->shape[w->out->ndim - 1]};
    r.rows = count / r.n;
    r.step = r.n < ITEM_WORK ? ITEM_WORK / r.n : 1;
    const int64_t threads = count < SMALL_WORK ? 1 : ctx->threads;
    int64_t bytes;
    if (__builtin_mul_overflow(r.n, (2 + 2 * threads) * (int64_t)sizeof(double), &bytes))
        return attn_fail(ctx, ATTN_E_SHAPE, "a row of %lld numbers is too big", (long long)r.n);
    attn_status status = attn_reserve(ctx, &ctx->scratch, bytes);
    if (status != ATTN_OK)
        return status;
    double *memory = ctx->scratch.data;
    for (int i = 0; i < 2; i++, memory += r.n)
        if (w->vector[i]) {
            attn_load_row(memory, w->vector[i], 0, attn_row_stride(w->vector[i]), r.n);
            r.vector[i] = memory;
        }
    r.scratch = memory;
    return attn_parallel(ctx, (int)threads, (r.rows + r.step - 1) / r.step, run_item, &r);
}
