/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes that come from files. */
#ifndef ATTN_IO_SHAPE_H
#define ATTN_IO_SHAPE_H

#include <stdbool.h>

#include "attn/attn.h"

/* A product of axes, one at a time. Zeros count only in `elements`: strides are products of the other axes and must not wrap either. */
struct extent {
    int64_t elements;
    int64_t nonzero;
};

static inline struct extent extent_of_scalar(void) { return (struct extent){.elements = 1, .nonzero = 1}; }
/* false when the product exceeds 63 bits. axis >= 0. */
bool attn_io_extent_add(struct extent *e, int64_t axis);
/* Bytes of e.elements elements of `bits` bits; false when they exceed 63 bits (also those of e.nonzero) or are no whole bytes. */
bool attn_io_extent_bytes(const struct extent *e, unsigned bits, uint64_t *bytes);
/* The elements of t; false when an extent or the dtype is no valid one, or a product exceeds 63 bits. */
bool attn_io_tensor_extent(const attn_tensor *t, struct extent *e);

/* "(2, 3)" into text[size]; returns text. Only the first ATTN_MAX_DIMS axes. */
const char *attn_io_shape_text(char *text, size_t size, int32_t ndim, const int64_t *shape);
enum { SHAPE_TEXT_SIZE = ATTN_MAX_DIMS * 22 + 8 };

#endif
