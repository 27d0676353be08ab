/* SPDX-License-Identifier: Apache-2.0 */
/* What the command needs of a tensor besides the library: memory, single elements, its shape as text. */
#ifndef ATTN_CLI_TENSOR_H
#define ATTN_CLI_TENSOR_H

#include <attn/attn.h>
#include <stdbool.h>

enum { SHAPE_TEXT = 192 };

/* "(2,8,128,64)", "()" for rank 0; returns out. */
const char *shape_text(char out[SHAPE_TEXT], int32_t ndim, const int64_t *shape);
const char *tensor_shape_text(char out[SHAPE_TEXT], const attn_tensor *t);

/* The product of the sizes, or -1 when it (or its bytes) does not fit 63 bits. */
int64_t tensor_count(const attn_tensor *t);

bool dtype_is_float(attn_dtype d);

/* Element at index[0..ndim-1]. The first is exact but for 64-bit integers beyond 2^53; the second is for bool and integer dtypes. */
double tensor_value(const attn_tensor *t, const int64_t *index);
int64_t tensor_integer(const attn_tensor *t, const int64_t *index);
/* Moves index on in row-major order; false after the last element. */
bool tensor_next(const attn_tensor *t, int64_t *index);

/* A zeroed packed tensor; free its data. 0, or an exit code after a message that names `what`. */
int tensor_new(attn_tensor *t, const char *what, attn_dtype dtype, int32_t ndim, const int64_t *shape);
/* Fills a packed f32, f64, f16 or bf16 tensor with numbers in [-2,2): multiples of 1/32, exact in every dtype, the same on every
   machine. */
void tensor_fill(attn_tensor *t, uint64_t seed);
/* The matrix (rows, cols) at place `block` of the leading axes, counted in row-major order; rank 1 is one row, rank 0 one number. */
attn_tensor tensor_matrix(const attn_tensor *t, int64_t block);
/* With leading axes of size 1; t has at most four. */
attn_tensor tensor_rank4(attn_tensor t);
/* Axes `a` and `b` exchanged, counted from the last (1 = the last one). */
attn_tensor tensor_swapped(const attn_tensor *t, int32_t a, int32_t b);
#endif
