/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor.h"
#include "message.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *shape_text(char out[SHAPE_TEXT], int32_t ndim, const int64_t *shape)
{
    size_t at = (size_t)snprintf(out, SHAPE_TEXT, "(");
    for (int32_t i = 0; i < ndim && i < ATTN_MAX_DIMS; i++)
        at += (size_t)snprintf(out + at, SHAPE_TEXT - at, "%s%lld", i ? "," : "", (long long)shape[i]);
    snprintf(out + at, SHAPE_TEXT - at, ndim > ATTN_MAX_DIMS ? ",...)" : ")");
    return out;
}

const char *tensor_shape_text(char out[SHAPE_TEXT], const attn_tensor *t) { return shape_text(out, t->ndim, t->shape); }

int64_t tensor_count(const attn_tensor *t)
{
    int64_t count = 1;
    for (int32_t i = 0; i < t->ndim; i++)
        if (t->shape[i] == 0)
            return 0;
    for (int32_t i = 0; i < t->ndim; i++)
        if (t->shape[i] < 0 || __builtin_mul_overflow(count, t->shape[i], &count))
            return -1;
    int64_t bytes;
    return __builtin_mul_overflow(count, (int64_t)attn_dtype_size(t->dtype), &bytes) ? -1 : count;
}

bool dtype_is_float(attn_dtype d) { return d == ATTN_F32 || d == ATTN_F64 || d == ATTN_F16 || d == ATTN_BF16; }

static const void *element(const attn_tensor *t, const int64_t *index)
{
    int64_t at = 0;
    for (int32_t i = 0; i < t->ndim; i++)
        at += t->shape[i] == 1 ? 0 : index[i] * t->stride[i];
    return (const char *)t->data + at * (int64_t)attn_dtype_size(t->dtype);
}

/* IEEE binary16: 1 sign, 5 exponent, 10 fraction bits. */
static double half_value(uint16_t bits)
{
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double v = exponent == 31 ? (fraction ? NAN : INFINITY) : exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
    return bits & 0x8000 ? -v : v;
}

static double bfloat_value(uint16_t bits)
{
    const uint32_t wide = (uint32_t)bits << 16;
    float f;
    memcpy(&f, &wide, sizeof f);
    return f;
}

#define READ(type) ((type *)memcpy(&(type){0}, p, sizeof(type)))[0]

int64_t tensor_integer(const attn_tensor *t, const int64_t *index)
{
    const void *p = element(t, index);
    switch (t->dtype) {
    case ATTN_BOOL:
        return READ(uint8_t) != 0;
    case ATTN_U8:
        return READ(uint8_t);
    case ATTN_I8:
        return READ(int8_t);
    case ATTN_I16:
        return READ(int16_t);
    case ATTN_U16:
        return READ(uint16_t);
    case ATTN_I32:
        return READ(int32_t);
    case ATTN_U32:
        return READ(uint32_t);
    default:
        return READ(int64_t);
    }
}

double tensor_value(const attn_tensor *t, const int64_t *index)
{
    const void *p = element(t, index);
    switch (t->dtype) {
    case ATTN_F32:
        return READ(float);
    case ATTN_F64:
        return READ(double);
    case ATTN_F16:
        return half_value(READ(uint16_t));
    case ATTN_BF16:
        return bfloat_value(READ(uint16_t));
    case ATTN_U64:
        return (double)READ(uint64_t);
    default:
        return (double)tensor_integer(t, index);
    }
}

bool tensor_next(const attn_tensor *t, int64_t *index)
{
    for (int32_t axis = t->ndim - 1; axis >= 0; axis--) {
        if (++index[axis] < t->shape[axis])
            return true;
        index[axis] = 0;
    }
    return false;
}

int tensor_new(attn_tensor *t, const char *what, attn_dtype dtype, int32_t ndim, const int64_t *shape)
{
    char text[SHAPE_TEXT];
    *t = attn_tensor_of(NULL, dtype, ndim, shape);
    const int64_t count = tensor_count(t);
    if (count >= 0)
        t->data = calloc(count ? (size_t)count : 1, attn_dtype_size(dtype));
    if (!t->data)
        return trouble("%s would be %s %s, which this machine has no memory for", what, shape_text(text, ndim, shape),
                       attn_dtype_name(dtype));
    return EXIT_DONE;
}

/* An f32 whose exponent and fraction fit f16: 8 exponent bits become 5, 23 fraction bits become 10; 0 stays 0. */
static uint16_t half_bits(uint32_t f32)
{
    if (f32 << 1 == 0)
        return 0;
    return (uint16_t)((f32 >> 16 & 0x8000) | ((f32 >> 23 & 255) - 112) << 10 | (f32 >> 13 & 1023));
}

/* Knuth's 64-bit linear congruence. */
void tensor_fill(attn_tensor *t, uint64_t seed)
{
    const int64_t count = tensor_count(t);
    for (int64_t i = 0; i < count; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        const double x = (double)((int)(seed >> 57) - 64) / 32;
        const float f = (float)x;
        uint32_t bits;
        memcpy(&bits, &f, sizeof bits);
        if (t->dtype == ATTN_F64)
            ((double *)t->data)[i] = x;
        else if (t->dtype == ATTN_F32)
            ((float *)t->data)[i] = f;
        else if (t->dtype == ATTN_BF16)
            ((uint16_t *)t->data)[i] = (uint16_t)(bits >> 16);
        else
            ((uint16_t *)t->data)[i] = half_bits(bits);
    }
}

attn_tensor tensor_matrix(const attn_tensor *t, int64_t block)
{
    attn_tensor m = {.data = t->data, .dtype = t->dtype, .ndim = 2, .shape = {1, 1}, .stride = {0, 0}};
    for (int32_t i = 1; i <= 2 && i <= t->ndim; i++) {
        m.shape[2 - i] = t->shape[t->ndim - i];
        m.stride[2 - i] = t->stride[t->ndim - i];
    }
    int64_t at = 0;
    for (int32_t axis = t->ndim - 3; axis >= 0; axis--) {
        if (t->shape[axis] > 1)
            at += block % t->shape[axis] * t->stride[axis];
        block /= t->shape[axis] ? t->shape[axis] : 1;
    }
    m.data = (char *)t->data + at * (int64_t)attn_dtype_size(t->dtype);
    return m;
}

attn_tensor tensor_rank4(attn_tensor t)
{
    attn_tensor wide = {.data = t.data, .dtype = t.dtype, .ndim = 4, .shape = {1, 1, 1, 1}};
    for (int32_t i = 0; i < t.ndim; i++) {
        wide.shape[4 - t.ndim + i] = t.shape[i];
        wide.stride[4 - t.ndim + i] = t.stride[i];
    }
    return wide;
}

attn_tensor tensor_swapped(const attn_tensor *t, int32_t a, int32_t b)
{
    int32_t order[ATTN_MAX_DIMS];
    for (int32_t i = 0; i < t->ndim; i++)
        order[i] = i;
    order[t->ndim - a] = t->ndim - b;
    order[t->ndim - b] = t->ndim - a;
    return attn_tensor_permute(t, order);
}
