/* SPDX-License-Identifier: Apache-2.0 */
#include "shape.h"

#include <inttypes.h>
#include <stdio.h>

bool attn_io_extent_add(struct extent *e, int64_t axis)
{
    if (axis == 0) {
        e->elements = 0;
        return true;
    }
    if (__builtin_mul_overflow(e->nonzero, axis, &e->nonzero))
        return false;
    e->elements = e->elements == 0 ? 0 : e->nonzero;
    return true;
}

bool attn_io_extent_bytes(const struct extent *e, unsigned bits, uint64_t *bytes)
{
    /* elements * bits / 8 without a wrap: in whole eighths and the rest. */
    const int64_t eighths = e->nonzero / 8, rest = e->nonzero % 8;
    int64_t whole;
    if (__builtin_mul_overflow(eighths, (int64_t)bits, &whole) || __builtin_add_overflow(whole, (rest * bits + 7) / 8, &whole))
        return false;
    if (e->elements == 0)
        whole = 0;
    else if (rest * bits % 8 != 0)
        return false;
    *bytes = (uint64_t)whole;
    return true;
}

bool attn_io_tensor_extent(const attn_tensor *t, struct extent *e)
{
    uint64_t bytes;
    *e = extent_of_scalar();
    if (attn_dtype_size(t->dtype) == 0 || t->ndim < 0 || t->ndim > ATTN_MAX_DIMS)
        return false;
    for (int32_t i = 0; i < t->ndim; i++) {
        if (t->shape[i] < 0 || !attn_io_extent_add(e, t->shape[i]))
            return false;
    }
    return attn_io_extent_bytes(e, 8 * (unsigned)attn_dtype_size(t->dtype), &bytes);
}

const char *attn_io_shape_text(char *text, size_t size, int32_t ndim, const int64_t *shape)
{
    size_t n = (size_t)snprintf(text, size, "(");
    for (int32_t i = 0; i < ndim && i < ATTN_MAX_DIMS && n < size; i++)
        n += (size_t)snprintf(text + n, size - n, "%s%" PRId64, i ? ", " : "", shape[i]);
    if (n < size)
        snprintf(text + n, size - n, "%s)", ndim > ATTN_MAX_DIMS ? ", ..." : ndim == 1 ? "," : "");
    return text;
}
