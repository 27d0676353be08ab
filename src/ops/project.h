/* SPDX-License-Identifier: Apache-2.0 */
/* Rows times a packed matrix, on all threads. */
#ifndef ATTN_PROJECT_H
#define ATTN_PROJECT_H
#include "matrix.h"

/* A batch of rows [items][rows][columns] of any float dtype and strides. */
typedef struct attn_row_batch {
    void *data;
    attn_dtype dtype;
    int64_t items, rows, columns;
    int64_t item_stride, row_stride, column_stride;
} attn_row_batch;

/* [L,width] or [B,L,width]. */
ATTN_PRIVATE attn_row_batch attn_rows_of(const attn_tensor *t);
/* The heads [H,L,d] or [B,H,L,d], side by side as a projection writes them: one row of heads x dim at one stride. */
ATTN_PRIVATE attn_row_batch attn_rows_of_heads(const attn_tensor *t);

/* Up to three products of the same rows in one pass over them: to = from W + b, in f64 or f32. The rows of each `to` are those of from, its
   columns those of its W; they do not overlap. */
enum { ATTN_MAX_PRODUCTS = 3 };
typedef struct attn_projection {
    int is_f64;
    attn_row_batch from;
    int n;
    struct {
        const attn_matrix *w;
        attn_row_batch to;
    } product[ATTN_MAX_PRODUCTS];
    /* NULL, or what happens to the first product while it is in cache: activate(it), times the second if there is one, of as many columns.
       Both are reals whose rows, also from item to item, are one stride apart. */
    attn_activate_kernel *activate;
} attn_projection;
ATTN_PRIVATE attn_status attn_project_all(attn_ctx *ctx, const attn_projection *projection);

/* One of them. */
ATTN_PRIVATE attn_status attn_project(attn_ctx *ctx, const attn_matrix *m, int is_f64, attn_row_batch from, attn_row_batch to);
#endif
