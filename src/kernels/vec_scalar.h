/* SPDX-License-Identifier: Apache-2.0 */
/* Vector operations in plain C: 1 lane of float, or of double with ATTN_REAL_IS_DOUBLE. The contract of each is in vec.h.
   v_fma rounds twice: x86-64 without FMA has only a library call for one rounding, many times slower than the rest together. */
#ifndef ATTN_VEC_SCALAR_H
#define ATTN_VEC_SCALAR_H
#include <stdint.h>

#include "convert.h"
#include "vec.h"

#define VL 1
#define QUERY_VECS 4
#define TILE_REGS 8
#define TILE_STEP 1
#define FEW_SCORE_ROWS 0
#define NARROW_SCORE_ROWS 0
#define SUMS_PART 1
#define FREE_PASS 1
#define FREE_REGS 8
#define GEMM_VECS 4
#define GEMM_REGS 8
#define GEMM_UNROLL

#ifdef ATTN_REAL_IS_DOUBLE
typedef uint64_t real_bits;
#define FRACTION_BITS 52
#define EXPONENT_BIAS 1023
#define REAL_ABS __builtin_fabs
#else
typedef uint32_t real_bits;
#define FRACTION_BITS 23
#define EXPONENT_BIAS 127
#define REAL_ABS __builtin_fabsf
#endif

typedef real vf;
typedef int vb; /* 0 or 1 */

OP vf v_zero(void) { return 0; }
OP vf v_set1(real x) { return x; }
OP vf v_lane_numbers(void) { return 0; }
OP vf v_load(const real *p) { return *p; }
OP void v_store(real *p, vf a) { *p = a; }
OP vf v_load_first(const real *p, int n) { return n > 0 ? *p : 0; }
OP void v_store_first(real *p, vf a, int n)
{
    if (n > 0)
        *p = a;
}

OP vf v_load_f16(const uint16_t *p) { return attn_float_of_f16(*p); }
OP vf v_load_bf16(const uint16_t *p) { return attn_float_of_bf16(*p); }

OP vf v_add(vf a, vf b) { return a + b; }
OP vf v_sub(vf a, vf b) { return a - b; }
OP vf v_mul(vf a, vf b) { return a * b; }
OP vf v_div(vf a, vf b) { return a / b; }
#define VEC_FMA_ROUNDS_TWICE
OP vf v_fma(vf a, vf b, vf c) { return a * b + c; }
OP void v_add_product(vf *sum, vf a, vf b) { *sum = v_fma(a, b, *sum); }
OP vf v_max(vf a, vf b) { return a > b ? a : b; }
OP vf v_min(vf a, vf b) { return a < b ? a : b; }
OP vf v_abs(vf a) { return REAL_ABS(a); }

OP vb v_greater(vf a, vf b) { return a > b; }
OP vb v_equal(vf a, vf b) { return a == b; }
OP vb v_or_b(vb a, vb b) { return a | b; }
OP int v_any(vb c) { return c; }
OP vf v_select(vb c, vf a, vf b) { return c ? a : b; }

/* floor(x) where the exponent bits of 2^n can hold it: n = -EXPONENT_BIAS stands for every x below, and its bits are those of 0.
   The upper clamp keeps the conversion to int defined. */
OP vf v_whole(vf x)
{
    vf clamped = v_min(v_max(x, -EXPONENT_BIAS), EXPONENT_BIAS);
    vf whole = (vf)(int)clamped;
    return whole > clamped ? whole - 1 : whole;
}
OP vf v_fraction(vf x) { return v_max(-EXPONENT_BIAS, x) - v_whole(x); }
OP vf v_scale2(vf a, vf x)
{
    union {
        real_bits bits;
        real value;
    } factor = { .bits = (real_bits)((int)v_whole(x) + EXPONENT_BIAS) << FRACTION_BITS };
    return a * factor.value;
}

OP word v_nonzero_bytes(const uint8_t *p) { return nonzero_bytes(p, WORD_BITS); }
OP vf v_select_bit(const word *w, int i, vf a, vf b) { return *w >> i & 1 ? a : b; }

OP real v_sum(vf a) { return a; }
OP real v_top(vf a) { return a; }
OP vf v_sums_part(const vf r[SUMS_PART]) { return r[0]; }
OP vf v_sums_whole(const vf p[VL / SUMS_PART]) { return p[0]; }
OP void v_transpose(vf r[VL]) { (void)r; }
OP void v_prefetch(const void *p) { (void)p; }

#undef FRACTION_BITS
#undef REAL_ABS
#endif
