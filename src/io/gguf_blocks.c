/* SPDX-License-Identifier: Apache-2.0 */
/* The tensor types of .gguf: how a block of numbers is stored, and what the numbers are.
 *
 * Each decoder rounds in the order of ggml's reference (and of its Python package): the scale of a part of a block is a product of its own,
 * then scale * q - offset, so that the numbers are the same bits. d and m are f16 scales. */
#include "gguf.h"

#include <string.h>

enum { SMALL = 32, SUPER = 256 };

static uint32_t load16(const unsigned char *p) { return (uint32_t)p[0] | (uint32_t)p[1] << 8; }
static uint32_t load32(const unsigned char *p) { return load16(p) | load16(p + 2) << 16; }

static float float_of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* IEEE binary16; a NaN keeps its sign and payload. */
static float half(const unsigned char *p)
{
    const uint32_t h = load16(p), sign = (h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 0x3ff;
    if (exponent == 0) {
        const float magnitude = (float)fraction * 0x1p-24f;
        return sign ? -magnitude : magnitude;
    }
    return float_of_bits(sign | (exponent == 31 ? 255 : exponent + 112) << 23 | fraction << 13);
}

/* ---- plain numbers ---- */

static void decode_f32(float *to, const unsigned char *from, int64_t blocks)
{
    for (int64_t i = 0; i < blocks; i++)
        to[i] = float_of_bits(load32(from + 4 * i));
}

static void decode_f16(float *to, const unsigned char *from, int64_t blocks)
{
    for (int64_t i = 0; i < blocks; i++)
        to[i] = half(from + 2 * i);
}

static void decode_bf16(float *to, const unsigned char *from, int64_t blocks)
{
    for (int64_t i = 0; i < blocks; i++)
        to[i] = float_of_bits(load16(from + 2 * i) << 16);
}

static void decode_f64(float *to, const unsigned char *from, int64_t blocks)
{
    for (int64_t i = 0; i < blocks; i++) {
        const uint64_t bits = gguf_little(from + 8 * i, 8);
        double x;
        memcpy(&x, &bits, sizeof x);
        to[i] = (float)x;
    }
}

/* ---- 32 numbers with one scale: the low four bits of byte j are number j, the high four number j + 16 ---- */

static void decode_q4_0(float *to, const unsigned char *from, int64_t blocks)
{
    for (; blocks > 0; blocks--, to += SMALL, from += 18) {
        const float d = half(from);
        for (int j = 0; j < SMALL / 2; j++) {
            to[j] = d * (float)((from[2 + j] & 15) - 8);
            to[j + SMALL / 2] = d * (float)((from[2 + j] >> 4) - 8);
        }
    }
}

static void decode_q4_1(float *to, const unsigned char *from, int64_t blocks)
{
    for (; blocks > 0; blocks--, to += SMALL, from += 20) {
        const float d = half(from), m = half(from + 2);
        for (int j = 0; j < SMALL / 2; j++) {
            to[j] = d * (float)(from[4 + j] & 15) + m;
            to[j + SMALL / 2] = d * (float)(from[4 + j] >> 4) + m;
        }
    }
}

/* The fifth bits are a word of 32. */
static void decode_q5_0(float *to, const unsigned char *from, int64_t blocks)
{
    for (; blocks > 0; blocks--, to += SMALL, from += 22) {
        const float d = half(from);
        const uint32_t high = load32(from + 2);
        for (int j = 0; j < SMALL / 2; j++) {
            to[j] = d * (float)((int)((from[6 + j] & 15) | (high >> j & 1) << 4) - 16);
            to[j + SMALL / 2] = d * (float)((int)(from[6 + j] >> 4 | (high >> (j + SMALL / 2) & 1) << 4) - 16);
        }
    }
}

static void decode_q5_1(float *to, const unsigned char *from, int64_t blocks)
{
    for (; blocks > 0; blocks--, to += SMALL, from += 24) {
        const float d = half(from), m = half(from + 2);
        const uint32_t high = load32(from + 4);
        for (int j = 0; j < SMALL / 2; j++) {
            to[j] = d * (float)((from[8 + j] & 15) | (high >> j & 1) << 4) + m;
            to[j + SMALL / 2] = d * (float)(from[8 + j] >> 4 | (high >> (j + SMALL / 2) & 1) << 4) + m;
        }
    }
}

static void decode_q8_0(float *to, const unsigned char *from, int64_t blocks)
{
    for (; blocks > 0; blocks--, to += SMALL, from += 34) {
        const float d = half(from);
        for (int j = 0; j < SMALL; j++)
            to[j] = (float)(int8_t)from[2 + j] * d;
    }
}

/* ---- 256 numbers in parts of 16 or 32, the scale of each part itself a small number times d ---- */

/* scales[16] (low four bits: scale, high: offset), q[64], d, m: number 128 a + 32 b + j is bits 2b of byte 32 a + j. */
static void decode_q2_k(float *to, const unsigned char *from, int64_t blocks)
{
    for (; blocks > 0; blocks--, to += SUPER, from += 84) {
        const float d = half(from + 80), m = half(from + 82);
        for (int part = 0; part < 16; part++) {
            const unsigned char *q = from + 16 + 32 * (part / 8) + 16 * (part % 2);
            const float scale = d * (float)(from[part] & 15), offset = m * (float)(from[part] >> 4);
            for (int j = 0; j < 16; j++)
                to[16 * part + j] = scale * (float)(q[j] >> (part / 2 % 4 * 2) & 3) - offset;
        }
    }
}

/* high[32], q[64], scales[12] of six bits (low four in the first eight bytes, high two in the last four), d. A high bit of 0 takes 4
   off. */
static void decode_q3_k(float *to, const unsigned char *from, int64_t blocks)
{
    for (; blocks > 0; blocks--, to += SUPER, from += 110) {
        const unsigned char *s = from + 96;
        const float d = half(from + 108);
        for (int part = 0; part < 16; part++) {
            const unsigned char *q = from + 32 + 32 * (part / 8) + 16 * (part % 2), *high = from + 16 * (part % 2);
            const int low = s[part % 8] >> (part / 8 * 4) & 15, top = s[8 + part % 4] >> (part / 4 * 2) & 3;
            const float scale = d * (float)((low | top << 4) - 32);
            for (int j = 0; j < 16; j++)
                to[16 * part + j] = scale * (float)((q[j] >> (part / 2 % 4 * 2) & 3) - (high[j] >> (part / 2) & 1 ? 0 : 4));
        }
    }
}

/* Scale and offset of part 0..7 out of 12 bytes of six-bit numbers: parts 0..3 hold theirs whole, parts 4..7 the low four bits in the last
   four bytes and the high two in the top bits of the first eight. */
static void scale_and_offset(const unsigned char *s, int part, int *scale, int *offset)
{
    if (part < 4) {
        *scale = s[part] & 63;
        *offset = s[part + 4] & 63;
    } else {
        *scale = (s[part + 4] & 15) | (s[part - 4] >> 6) << 4;
        *offset = s[part + 4] >> 4 | (s[part] >> 6) << 4;
    }
}

/* d, m, scales[12], of Q5_K high[32], q[128]: part 2a is the low four bits of bytes 32 a .., part 2a + 1 the high ones; bit `part` of high
   byte j is on top. */
static void decode_q45_k(float *to, const unsigned char *from, int has_high)
{
    const float d = half(from), m = half(from + 2);
    const unsigned char *high = from + 16, *q = high + (has_high ? 32 : 0);
    for (int part = 0; part < 8; part++, to += 32) {
        int s, o;
        scale_and_offset(from + 4, part, &s, &o);
        const float scale = d * (float)s, offset = m * (float)o;
        for (int j = 0; j < 32; j++) {
            const int top = has_high ? (high[j] >> part & 1) << 4 : 0;
            to[j] = scale * (float)((q[32 * (part / 2) + j] >> (part % 2 * 4) & 15) | top) - offset;
        }
    }
}

static void decode_q4_k(float *to, const unsigned char *from, int64_t blocks)
{
    for (; blocks > 0; blocks--, to += SUPER, from += 144)
        decode_q45_k(to, from, 0);
}

static void decode_q5_k(float *to, const unsigned char *from, int64_t blocks)
{
    for (; blocks > 0; blocks--, to += SUPER, from += 176)
        decode_q45_k(to, from, 1);
}

/* low[128], high[64], scales[16] (signed), d: of each half, run r of 32 numbers has its low four bits in bytes 32 (r%2) .. (low ones in
   runs 0 and 1, high ones in 2 and 3) and its two high bits at 2r. */
static void decode_q6_k(float *to, const unsigned char *from, int64_t blocks)
{
    for (; blocks > 0; blocks--, to += SUPER, from += 210) {
        const float d = half(from + 208);
        for (int part = 0; part < 16; part++) {
            const int side = part / 8, run = part / 2 % 4, at = 16 * (part % 2);
            const unsigned char *low = from + 64 * side + 32 * (run % 2) + at, *high = from + 128 + 32 * side + at;
            const float scale = d * (float)(int8_t)from[192 + part];
            for (int j = 0; j < 16; j++)
                to[16 * part + j] = scale * (float)(((low[j] >> (run / 2 * 4) & 15) | (high[j] >> (2 * run) & 3) << 4) - 32);
        }
    }
}

const struct gguf_block *attn_gguf_block(uint32_t id)
{
    static const struct gguf_block types[] = {
        {0, "f32", ATTN_F32, 1, 4, decode_f32},
        {1, "f16", ATTN_F16, 1, 2, decode_f16},
        {2, "Q4_0", 0, SMALL, 18, decode_q4_0},
        {3, "Q4_1", 0, SMALL, 20, decode_q4_1},
        {6, "Q5_0", 0, SMALL, 22, decode_q5_0},
        {7, "Q5_1", 0, SMALL, 24, decode_q5_1},
        {8, "Q8_0", 0, SMALL, 34, decode_q8_0},
        {9, "Q8_1", 0, SMALL, 40, NULL},
        {10, "Q2_K", 0, SUPER, 84, decode_q2_k},
        {11, "Q3_K", 0, SUPER, 110, decode_q3_k},
        {12, "Q4_K", 0, SUPER, 144, decode_q4_k},
        {13, "Q5_K", 0, SUPER, 176, decode_q5_k},
        {14, "Q6_K", 0, SUPER, 210, decode_q6_k},
        {15, "Q8_K", 0, SUPER, 292, NULL},
        {16, "IQ2_XXS", 0, SUPER, 66, NULL},
        {17, "IQ2_XS", 0, SUPER, 74, NULL},
        {18, "IQ3_XXS", 0, SUPER, 98, NULL},
        {19, "IQ1_S", 0, SUPER, 50, NULL},
        {20, "IQ4_NL", 0, SMALL, 18, NULL},
        {21, "IQ3_S", 0, SUPER, 110, NULL},
        {22, "IQ2_S", 0, SUPER, 82, NULL},
        {23, "IQ4_XS", 0, SUPER, 136, NULL},
        {24, "i8", ATTN_I8, 1, 1, NULL},
        {25, "i16", ATTN_I16, 1, 2, NULL},
        {26, "i32", ATTN_I32, 1, 4, NULL},
        {27, "i64", ATTN_I64, 1, 8, NULL},
        {28, "f64", ATTN_F64, 1, 8, decode_f64},
        {29, "IQ1_M", 0, SUPER, 56, NULL},
        {30, "bf16", ATTN_BF16, 1, 2, decode_bf16},
        {34, "TQ1_0", 0, SUPER, 54, NULL},
        {35, "TQ2_0", 0, SUPER, 66, NULL},
        {39, "MXFP4", 0, SMALL, 17, NULL},
        {40, "NVFP4", 0, 64, 36, NULL},
        {41, "Q1_0", 0, 128, 18, NULL},
    };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (types[i].id == id)
            return &types[i];
    }
    return NULL;
}
