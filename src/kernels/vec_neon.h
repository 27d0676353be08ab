/* SPDX-License-Identifier: Apache-2.0 */
/* Vector operations for NEON of AArch64: 4 lanes of float. The contract of each is in vec.h. */
#ifndef ATTN_VEC_NEON_H
#define ATTN_VEC_NEON_H
#include <arm_neon.h>
#include <stdint.h>

#include "vec.h"

#define VL 4
#define QUERY_VECS 4 /* 16 queries */
#define TILE_REGS 16 /* of 32 registers */
#define TILE_STEP 1
#define FEW_SCORE_ROWS 0
#define NARROW_SCORE_ROWS 0
#define SUMS_PART 4
#define FREE_PASS 4
#define FREE_REGS 24
#define GEMM_VECS 4
#define GEMM_REGS 24
#define GEMM_UNROLL

typedef float32x4_t vf;
typedef uint32x4_t vb; /* all bits of a lane set = true */

OP vf v_zero(void) { return vdupq_n_f32(0); }
OP vf v_set1(real x) { return vdupq_n_f32(x); }
OP vf v_lane_numbers(void)
{
    static const real lanes[VL] = { 0, 1, 2, 3 };
    return vld1q_f32(lanes);
}
OP vf v_load(const real *p) { return vld1q_f32(p); }
OP void v_store(real *p, vf a) { vst1q_f32(p, a); }
OP vf v_load_first(const real *p, int n)
{
    vf a = n > 0 ? vld1q_lane_f32(p, v_zero(), 0) : v_zero();
    a = n > 1 ? vld1q_lane_f32(p + 1, a, 1) : a;
    a = n > 2 ? vld1q_lane_f32(p + 2, a, 2) : a;
    return n > 3 ? vld1q_lane_f32(p + 3, a, 3) : a;
}
OP void v_store_first(real *p, vf a, int n)
{
    if (n > 0)
        vst1q_lane_f32(p, a, 0);
    if (n > 1)
        vst1q_lane_f32(p + 1, a, 1);
    if (n > 2)
        vst1q_lane_f32(p + 2, a, 2);
    if (n > 3)
        vst1q_lane_f32(p + 3, a, 3);
}

OP vf v_load_f16(const uint16_t *p) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p))); }
OP vf v_load_bf16(const uint16_t *p) { return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16)); }

OP vf v_add(vf a, vf b) { return vaddq_f32(a, b); }
OP vf v_sub(vf a, vf b) { return vsubq_f32(a, b); }
OP vf v_mul(vf a, vf b) { return vmulq_f32(a, b); }
OP vf v_div(vf a, vf b) { return vdivq_f32(a, b); }
OP vf v_fma(vf a, vf b, vf c) { return vfmaq_f32(c, a, b); }
OP void v_add_product(vf *sum, vf a, vf b) { *sum = v_fma(a, b, *sum); }
/* Not vmaxq and vminq: those give NaN whichever operand is NaN, and tell +0 from -0. */
OP vf v_max(vf a, vf b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
OP vf v_min(vf a, vf b) { return vbslq_f32(vcltq_f32(a, b), a, b); }
OP vf v_abs(vf a) { return vabsq_f32(a); }

OP vb v_greater(vf a, vf b) { return vcgtq_f32(a, b); }
OP vb v_equal(vf a, vf b) { return vceqq_f32(a, b); }
OP vb v_or_b(vb a, vb b) { return vorrq_u32(a, b); }
OP int v_any(vb c) { return vmaxvq_u32(c) != 0; }
OP vf v_select(vb c, vf a, vf b) { return vbslq_f32(c, a, b); }

OP word v_nonzero_bytes(const uint8_t *p) { return nonzero_bytes(p, WORD_BITS); }
OP vf v_select_bit(const word *w, int i, vf a, vf b) { return v_select(vtstq_u32(vld1q_u32(w), vdupq_n_u32((word)1 << i)), a, b); }

/* -127 stands for every x below: the factor 2^n is built from exponent bits, and those of n = -127 are the bits of 0. */
OP vf v_clamped(vf x) { return v_max(vdupq_n_f32(-127), x); }
OP vf v_fraction(vf x) { return v_sub(v_clamped(x), vrndmq_f32(v_clamped(x))); }
OP vf v_scale2(vf a, vf x)
{
    int32x4_t n = vaddq_s32(vcvtq_s32_f32(vrndmq_f32(v_clamped(x))), vdupq_n_s32(127));
    return v_mul(a, vreinterpretq_f32_s32(vshlq_n_s32(n, 23)));
}

OP real v_sum(vf a) { return vaddvq_f32(a); }
OP real v_top(vf a) { return vmaxvq_f32(a); }

/* Pairs of lanes, then the halves. */
OP vf v_sums_part(const vf r[SUMS_PART]) { return vpaddq_f32(vpaddq_f32(r[0], r[1]), vpaddq_f32(r[2], r[3])); }
OP vf v_sums_whole(const vf p[VL / SUMS_PART]) { return p[0]; }

/* Pairs, then pairs of pairs. */
OP void v_transpose(vf r[VL])
{
    float64x2_t a = vreinterpretq_f64_f32(vtrn1q_f32(r[0], r[1])), b = vreinterpretq_f64_f32(vtrn2q_f32(r[0], r[1]));
    float64x2_t c = vreinterpretq_f64_f32(vtrn1q_f32(r[2], r[3])), d = vreinterpretq_f64_f32(vtrn2q_f32(r[2], r[3]));
    r[0] = vreinterpretq_f32_f64(vtrn1q_f64(a, c));
    r[1] = vreinterpretq_f32_f64(vtrn1q_f64(b, d));
    r[2] = vreinterpretq_f32_f64(vtrn2q_f64(a, c));
    r[3] = vreinterpretq_f32_f64(vtrn2q_f64(b, d));
}
OP void v_prefetch(const void *p) { __builtin_prefetch(p, 0, 2); }
#endif
