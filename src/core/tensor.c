/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct dtype_row {
    const char *name;
    size_t size;
} dtype_row;

static const dtype_row dtypes[] = {
    [ATTN_F32] = {"f32", 4}, [ATTN_F64] = {"f64", 8}, [ATTN_F16] = {"f16", 2}, [ATTN_BF16] = {"bf16", 2}, [ATTN_BOOL] = {"bool", 1},
    [ATTN_I8] = {"i8", 1},   [ATTN_U8] = {"u8", 1},   [ATTN_I16] = {"i16", 2}, [ATTN_U16] = {"u16", 2},   [ATTN_I32] = {"i32", 4},
    [ATTN_U32] = {"u32", 4}, [ATTN_I64] = {"i64", 8}, [ATTN_U64] = {"u64", 8},
};

static const dtype_row *find_dtype(attn_dtype t)
{
    size_t i = (size_t)t;
    return i > 0 && i < sizeof dtypes / sizeof *dtypes ? &dtypes[i] : NULL;
}

size_t attn_dtype_size(attn_dtype t)
{
    const dtype_row *row = find_dtype(t);
    return row ? row->size : 0;
}

const char *attn_dtype_name(attn_dtype t)
{
    const dtype_row *row = find_dtype(t);
    return row ? row->name : "?";
}

int attn_dtype_is_float(attn_dtype t) { return t == ATTN_F32 || t == ATTN_F64 || t == ATTN_F16 || t == ATTN_BF16; }

attn_tensor attn_tensor_of(void *data, attn_dtype dtype, int32_t ndim, const int64_t *shape)
{
    attn_tensor t = {.data = data, .dtype = dtype, .ndim = ndim < 0 ? 0 : ndim > ATTN_MAX_DIMS ? ATTN_MAX_DIMS : ndim};
    uint64_t stride = 1; /* unsigned: a product beyond 64 bits wraps here and is refused where the tensor is used */
    for (int i = t.ndim - 1; i >= 0; i--) {
        t.shape[i] = shape[i];
        t.stride[i] = (int64_t)stride;
        stride *= (uint64_t)shape[i];
    }
    return t;
}

attn_tensor attn_tensor_permute(const attn_tensor *t, const int32_t *order)
{
    attn_tensor p = *t;
    for (int i = 0; i < t->ndim; i++) {
        if (order[i] < 0 || order[i] >= t->ndim)
            return (attn_tensor){.data = t->data, .dtype = t->dtype};
        p.shape[i] = t->shape[order[i]];
        p.stride[i] = t->stride[order[i]];
    }
    return p;
}

const char *attn_shape_text(char text[ATTN_SHAPE_TEXT], const attn_tensor *t)
{
    int n = snprintf(text, ATTN_SHAPE_TEXT, "[");
    for (int i = 0; i < t->ndim && i < ATTN_MAX_DIMS; i++)
        n += snprintf(text + n, (size_t)(ATTN_SHAPE_TEXT - n), i ? ",%lld" : "%lld", (long long)t->shape[i]);
    snprintf(text + n, (size_t)(ATTN_SHAPE_TEXT - n), "]");
    return text;
}

int attn_tensor_is_empty(const attn_tensor *t)
{
    for (int i = 0; i < t->ndim; i++)
        if (t->shape[i] == 0)
            return 1;
    return 0;
}

int64_t attn_tensor_count(const attn_tensor *t)
{
    int64_t n = 1;
    if (attn_tensor_is_empty(t))
        return 0;
    for (int i = 0; i < t->ndim; i++)
        n *= t->shape[i];
    return n;
}

int attn_tensor_fits(const attn_tensor *t)
{
    const int64_t size = (int64_t)attn_dtype_size(t->dtype);
    int64_t count = 1, reach = size;
    for (int i = 0; i < t->ndim; i++) {
        if (t->shape[i] < 0)
            return 0;
        if (t->shape[i] && __builtin_mul_overflow(count, t->shape[i], &count))
            return 0;
    }
    if (__builtin_mul_overflow(count, size, &count))
        return 0;
    if (attn_tensor_is_empty(t))
        return 1;
    for (int i = 0; i < t->ndim; i++) {
        int64_t step;
        if (t->shape[i] < 2)
            continue;
        if (t->stride[i] == INT64_MIN || __builtin_mul_overflow(llabs(t->stride[i]), t->shape[i] - 1, &step) ||
            __builtin_mul_overflow(step, size, &step) || __builtin_add_overflow(reach, step, &reach))
            return 0;
    }
    return 1;
}

/* The bytes from the first to the last element of a view that is not empty: first <= byte < end. */
typedef struct byte_range {
    uintptr_t first, end;
} byte_range;

static byte_range range_of(const attn_tensor *t)
{
    const int64_t size = (int64_t)attn_dtype_size(t->dtype);
    byte_range r = {(uintptr_t)t->data, (uintptr_t)t->data + (uintptr_t)size};
    for (int i = 0; i < t->ndim; i++) {
        const int64_t reach = (t->shape[i] - 1) * t->stride[i] * size;
        *(reach < 0 ? &r.first : &r.end) += (uintptr_t)reach;
    }
    return r;
}

/* The bytes of a view as a lattice: base + sum of index * step, 0 <= index < count, each `size` bytes long; steps positive, descending. */
typedef struct lattice {
    uintptr_t base;
    int64_t size;
    int axes;
    int64_t step[ATTN_MAX_DIMS], count[ATTN_MAX_DIMS];
} lattice;

static lattice lattice_of(const attn_tensor *t)
{
    lattice l = {.base = (uintptr_t)t->data, .size = (int64_t)attn_dtype_size(t->dtype)};
    for (int i = 0; i < t->ndim; i++) {
        if (t->shape[i] < 2)
            continue;
        int64_t step = t->stride[i] * l.size, at = l.axes;
        if (step < 0) {
            l.base += (uintptr_t)(step * (t->shape[i] - 1));
            step = -step;
        }
        for (; at > 0 && l.step[at - 1] < step; at--) {
            l.step[at] = l.step[at - 1];
            l.count[at] = l.count[at - 1];
        }
        l.step[at] = step;
        l.count[at] = t->shape[i];
        l.axes++;
    }
    return l;
}

/* Bytes from the first to the last of what the axes from `axis` on reach. */
static int64_t reach_of(const lattice *l, int axis)
{
    int64_t reach = l->size;
    for (; axis < l->axes; axis++)
        reach += l->step[axis] * (l->count[axis] - 1);
    return reach;
}

int attn_tensor_is_injective(const attn_tensor *t)
{
    if (attn_tensor_is_empty(t))
        return 1;
    lattice l = lattice_of(t);
    for (int i = 0; i < l.axes; i++)
        if (l.step[i] < reach_of(&l, i + 1))
            return 0;
    return 1;
}

/* The first axis whose step is below `period`, if all before it are multiples of it; else -1. */
static int axis_below(const lattice *l, int64_t period)
{
    int i = 0;
    while (i < l->axes && l->step[i] >= period)
        if (l->step[i++] % period)
            return -1;
    return i;
}

/* Are the two apart when addresses are taken modulo the period? True for, say, two slices of one fused array whose rows interleave. */
static int apart_modulo(const lattice *a, const lattice *b, int64_t period)
{
    int i = period > 0 ? axis_below(a, period) : -1, j = period > 0 ? axis_below(b, period) : -1;
    if (i < 0 || j < 0)
        return 0;
    int64_t a_reach = reach_of(a, i), b_reach = reach_of(b, j);
    int64_t b_after_a = (int64_t)((b->base - a->base) % (uint64_t)period);
    if (b->base < a->base)
        b_after_a = (period - (int64_t)((a->base - b->base) % (uint64_t)period)) % period;
    return a_reach <= b_after_a && b_after_a + b_reach <= period;
}

int attn_tensors_disjoint(const attn_tensor *x, const attn_tensor *y)
{
    if (attn_tensor_is_empty(x) || attn_tensor_is_empty(y))
        return 1;
    const byte_range p = range_of(x), q = range_of(y);
    if (p.end <= q.first || q.end <= p.first)
        return 1;
    const lattice a = lattice_of(x), b = lattice_of(y);
    for (int i = 0; i < a.axes; i++)
        if (apart_modulo(&a, &b, a.step[i]))
            return 1;
    for (int i = 0; i < b.axes; i++)
        if (apart_modulo(&a, &b, b.step[i]))
            return 1;
    return 0;
}
