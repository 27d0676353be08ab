/* SPDX-License-Identifier: Apache-2.0 */
/* What may be asked of a tensor view: its size, where it lies, whether it shares memory with another. Nothing here dereferences data. */
#ifndef ATTN_TENSOR_H
#define ATTN_TENSOR_H
#include "private.h"

enum { ATTN_SHAPE_TEXT = 192 };
/* "[2,3,4]" into text; returns text. */
ATTN_PRIVATE const char *attn_shape_text(char text[ATTN_SHAPE_TEXT], const attn_tensor *t);

/* 1 if a dtype is one of the four floats. */
int attn_dtype_is_float(attn_dtype t);

/* 1 if ndim, shape and strides are such that every element's byte offset fits int64, and if the element count does. */
ATTN_PRIVATE int attn_tensor_fits(const attn_tensor *t);
/* Elements; 0 if an axis is empty. Valid only for a tensor that fits. */
ATTN_PRIVATE int64_t attn_tensor_count(const attn_tensor *t);
int attn_tensor_is_empty(const attn_tensor *t);

/* 1 if the strides prove that no element of a shares a byte with one of b. Both fit. */
int attn_tensors_disjoint(const attn_tensor *a, const attn_tensor *b);
/* 1 if the strides prove that no two elements of t share a byte. t fits. */
int attn_tensor_is_injective(const attn_tensor *t);
#endif
