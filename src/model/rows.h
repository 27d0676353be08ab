/* SPDX-License-Identifier: Apache-2.0 */
/* Work that is done row by row, in f64: the last axis of a tensor is a row, the axes before it count the rows. */
#ifndef ATTN_ROWS_H
#define ATTN_ROWS_H
#include "../core/ctx.h"

/* Is t of floats? */
attn_status attn_model_check_floats(attn_ctx *ctx, const attn_tensor *t, const char *name, int least, int most, const char *forms);
/* Floats of the shape of like? */
attn_status attn_model_check_like(attn_ctx *ctx, const attn_tensor *t, const char *name, const attn_tensor *like, const char *like_name);
/* NULL, or floats [n]? */
attn_status attn_model_check_vector(attn_ctx *ctx, const attn_tensor *t, const char *name, int64_t n, const char *of);
/* int32 or int64? */
attn_status attn_model_check_ints(attn_ctx *ctx, const attn_tensor *t, const char *name);

/* Where row number `row` of t begins, in elements. */
int64_t attn_row_at(const attn_tensor *t, int64_t row);
/* n elements from element `at` on, `stride` apart. */
void attn_load_row(double *to, const attn_tensor *from, int64_t at, int64_t stride, int64_t n);
void attn_store_row(const attn_tensor *to, int64_t at, int64_t stride, int64_t n, const double *from);
/* The stride of the last axis; an axis of size 1 has none. */
int64_t attn_row_stride(const attn_tensor *t);

/* out[row] = compute(x[row], other[row]). */
typedef struct attn_row_work {
    const attn_tensor *out, *x, *other; /* of one shape; other may be NULL */
    const attn_tensor *vector[2];       /* each NULL or [n] */
    /* NULL: a copy. row: x on entry, out on return. vector and other: in f64, NULL where the tensor is. */
    void (*compute)(const void *how, const double *const vector[2], const double *other, double *row, int64_t n);
    /* NULL, or instead of compute, on rows of f32 */
    void (*compute_f32)(const void *how, const double *const vector[2], const float *other, float *row, int64_t n);
    const void *how;
} attn_row_work;

/* On all threads where that is worth it. All arguments have been checked. */
attn_status attn_run_rows(attn_ctx *ctx, const attn_row_work *w);
#endif
