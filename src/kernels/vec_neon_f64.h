/* SPDX-License-Identifier: Apache-2.0 */
/* Vector operations for NEON of AArch64: 2 lanes of double. The contract of each is in vec.h. */
#ifndef ATTN_VEC_NEON_F64_H
#define ATTN_VEC_NEON_F64_H
#include <arm_neon.h>
#include <stdint.h>

#ifndef ATTN_REAL_IS_DOUBLE
#define ATTN_REAL_IS_DOUBLE
#endif
#include "vec.h"

#define VL 2
#define QUERY_VECS 4 /* 8 queries */
#define TILE_REGS 16 /* of 32 registers */
#define TILE_STEP 1
#define FEW_SCORE_ROWS 0
#define NARROW_SCORE_ROWS 0
#define SUMS_PART 2
#define FREE_PASS 2
#define FREE_REGS 16
#define GEMM_VECS 4
#define GEMM_REGS 24
#define GEMM_UNROLL

typedef float64x2_t vf;
typedef uint64x2_t vb; /* all bits of a lane set = true */

OP vf v_zero(void) { return vdupq_n_f64(0); }
OP vf v_set1(real x) { return vdupq_n_f64(x); }
OP vf v_lane_numbers(void)
{
    static const real lanes[VL] = { 0, 1 };
    return vld1q_f64(lanes);
}
OP vf v_load(const real *p) { return vld1q_f64(p); }
OP void v_store(real *p, vf a) { vst1q_f64(p, a); }
OP vf v_load_first(const real *p, int n)
{
    vf a = n > 0 ? vld1q_lane_f64(p, v_zero(), 0) : v_zero();
    return n > 1 ? vld1q_lane_f64(p + 1, a, 1) : a;
}
OP void v_store_first(real *p, vf a, int n)
{
    if (n > 0)
        vst1q_lane_f64(p, a, 0);
    if (n > 1)
        vst1q_lane_f64(p + 1, a, 1);
}

OP vf v_load_bf16(const uint16_t *p)
{
    return vcvt_f64_f32(vreinterpret_f32_u32(vset_lane_u32((uint32_t)p[1] << 16, vdup_n_u32((uint32_t)p[0] << 16), 1)));
}
OP vf v_load_f16(const uint16_t *p)
{
    uint16x4_t two = vset_lane_u16(p[1], vdup_n_u16(p[0]), 1);
    return vcvt_f64_f32(vget_low_f32(vcvt_f32_f16(vreinterpret_f16_u16(two))));
}

OP vf v_add(vf a, vf b) { return vaddq_f64(a, b); }
OP vf v_sub(vf a, vf b) { return vsubq_f64(a, b); }
OP vf v_mul(vf a, vf b) { return vmulq_f64(a, b); }
OP vf v_div(vf a, vf b) { return vdivq_f64(a, b); }
OP vf v_fma(vf a, vf b, vf c) { return vfmaq_f64(c, a, b); }
OP void v_add_product(vf *sum, vf a, vf b) { *sum = v_fma(a, b, *sum); }
/* Not vmaxq and vminq: those give NaN whichever operand is NaN, and tell +0 from -0. */
OP vf v_max(vf a, vf b) { return vbslq_f64(vcgtq_f64(a, b), a, b); }
OP vf v_min(vf a, vf b) { return vbslq_f64(vcltq_f64(a, b), a, b); }
OP vf v_abs(vf a) { return vabsq_f64(a); }

OP vb v_greater(vf a, vf b) { return vcgtq_f64(a, b); }
OP vb v_equal(vf a, vf b) { return vceqq_f64(a, b); }
OP vb v_or_b(vb a, vb b) { return vorrq_u64(a, b); }
OP int v_any(vb c) { return vmaxvq_u32(vreinterpretq_u32_u64(c)) != 0; }
OP vf v_select(vb c, vf a, vf b) { return vbslq_f64(c, a, b); }

OP word v_nonzero_bytes(const uint8_t *p) { return nonzero_bytes(p, WORD_BITS); }
OP vf v_select_bit(const word *w, int i, vf a, vf b) { return v_select(vtstq_u64(vld1q_u64(w), vdupq_n_u64((word)1 << i)), a, b); }

/* -1023 stands for every x below: the factor 2^n is built from exponent bits, and those of n = -1023 are the bits of 0. */
OP vf v_clamped(vf x) { return v_max(vdupq_n_f64(-1023), x); }
OP vf v_fraction(vf x) { return v_sub(v_clamped(x), vrndmq_f64(v_clamped(x))); }
OP vf v_scale2(vf a, vf x)
{
    int64x2_t n = vaddq_s64(vcvtq_s64_f64(vrndmq_f64(v_clamped(x))), vdupq_n_s64(1023));
    return v_mul(a, vreinterpretq_f64_s64(vshlq_n_s64(n, 52)));
}

OP real v_sum(vf a) { return vaddvq_f64(a); }
OP real v_top(vf a) { return vmaxvq_f64(a); }

OP vf v_sums_part(const vf r[SUMS_PART]) { return vpaddq_f64(r[0], r[1]); }
OP vf v_sums_whole(const vf p[VL / SUMS_PART]) { return p[0]; }

OP void v_transpose(vf r[VL])
{
    vf first = vtrn1q_f64(r[0], r[1]);
    r[1] = vtrn2q_f64(r[0], r[1]);
    r[0] = first;
}
OP void v_prefetch(const void *p) { __builtin_prefetch(p, 0, 2); }
#endif
