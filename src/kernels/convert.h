/* SPDX-License-Identifier: Apache-2.0 */
/* One element of any dtype to float or double and back. Static inline: the kernels of every level and the core include it. */
#ifndef ATTN_CONVERT_H
#define ATTN_CONVERT_H
#include <attn/attn.h>
#include <string.h>

static inline float attn_float_of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
static inline uint32_t attn_bits_of_float(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* Exact. A subnormal half is its integer times 2^-24; otherwise the exponent is moved from bias 15 to 127. */
static inline float attn_float_of_f16(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, magnitude = h & 0x7fff;
    if (magnitude < 0x0400)
        return attn_float_of_bits(sign | attn_bits_of_float((float)magnitude * 0x1p-24f));
    uint32_t rebias = magnitude < 0x7c00 ? 112u << 23 : 224u << 23;
    return attn_float_of_bits(sign | ((magnitude << 13) + rebias));
}
static inline float attn_float_of_bf16(uint16_t b) { return attn_float_of_bits((uint32_t)b << 16); }

/* To nearest, ties to even; beyond the range infinity; NaN stays a (quiet) NaN. */
static inline uint16_t attn_f16_of_float(float x)
{
    uint32_t bits = attn_bits_of_float(x), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000)
        return (uint16_t)(sign | 0x7e00);
    if (magnitude >= 0x477ff000) /* 65520, half way past the greatest half */
        return (uint16_t)(sign | 0x7c00);
    if (magnitude < 0x38800000) /* below 2^-14: adding 0.5 leaves the half's subnormal bits, rounded, at the bottom */
        return (uint16_t)(sign | (attn_bits_of_float(attn_float_of_bits(magnitude) + 0.5f) - 0x3f000000));
    magnitude += 0xfff + (magnitude >> 13 & 1);
    return (uint16_t)(sign | (magnitude - (112u << 23)) >> 13);
}
static inline uint16_t attn_bf16_of_float(float x)
{
    uint32_t bits = attn_bits_of_float(x);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* A double rounded once to float with the sticky bit kept in the last place (round to odd), so that a second rounding to 16 bits is
   the same as one from the double. */
static inline float attn_float_to_odd(double x)
{
    float f = (float)x;
    if ((double)f == x || x != x || f - f != 0)
        return f;
    uint32_t bits = attn_bits_of_float(f);
    if (bits & 1)
        return f;
    int too_big = x > 0 ? (double)f > x : (double)f < x;
    return attn_float_of_bits(too_big ? bits - 1 : bits + 1);
}

/* Bytes of an element of a float dtype. */
static inline int64_t attn_float_size(attn_dtype t) { return t == ATTN_F64 ? 8 : t == ATTN_F32 ? 4 : 2; }

/* Element `i` of an array of floats of dtype t. */
static inline double attn_load_float(const void *data, attn_dtype t, int64_t i)
{
    switch (t) {
    case ATTN_F32: return ((const float *)data)[i];
    case ATTN_F64: return ((const double *)data)[i];
    case ATTN_F16: return attn_float_of_f16(((const uint16_t *)data)[i]);
    case ATTN_BF16: return attn_float_of_bf16(((const uint16_t *)data)[i]);
    default: return 0;
    }
}
static inline void attn_store_float(void *data, attn_dtype t, int64_t i, double x)
{
    switch (t) {
    case ATTN_F32: ((float *)data)[i] = (float)x; break;
    case ATTN_F64: ((double *)data)[i] = x; break;
    case ATTN_F16: ((uint16_t *)data)[i] = attn_f16_of_float(attn_float_to_odd(x)); break;
    case ATTN_BF16: ((uint16_t *)data)[i] = attn_bf16_of_float(attn_float_to_odd(x)); break;
    default: break;
    }
}
/* Element `i` of an array of integers or bools of dtype t; u64 beyond the range of int64 gives INT64_MAX. */
static inline int64_t attn_load_int(const void *data, attn_dtype t, int64_t i)
{
    switch (t) {
    case ATTN_BOOL: return ((const uint8_t *)data)[i] != 0;
    case ATTN_I8: return ((const int8_t *)data)[i];
    case ATTN_U8: return ((const uint8_t *)data)[i];
    case ATTN_I16: return ((const int16_t *)data)[i];
    case ATTN_U16: return ((const uint16_t *)data)[i];
    case ATTN_I32: return ((const int32_t *)data)[i];
    case ATTN_U32: return ((const uint32_t *)data)[i];
    case ATTN_I64: return ((const int64_t *)data)[i];
    case ATTN_U64: {
        uint64_t x = ((const uint64_t *)data)[i];
        return x > INT64_MAX ? INT64_MAX : (int64_t)x;
    }
    default: return 0;
    }
}
#endif
