/* SPDX-License-Identifier: Apache-2.0 */
/* Vector operations for NEON with BF16: those of vec_neon.h and the ones on pairs. The contract of each is in vec.h. */
#ifndef ATTN_VEC_NEON_BF16_H
#define ATTN_VEC_NEON_BF16_H
#include "vec_neon.h"

#define VEC_HAS_PAIRS

typedef uint32x4_t vp;

OP vp p_set1(const uint16_t *p)
{
    uint32_t pair;
    memcpy(&pair, p, sizeof pair);
    return vdupq_n_u32(pair);
}
OP vp p_load(const real *p) { return vreinterpretq_u32_f32(vld1q_f32(p)); }
OP void p_store(real *p, vp a) { vst1q_f32(p, vreinterpretq_f32_u32(a)); }
OP vp p_and(vp a, word mask) { return vandq_u32(a, vdupq_n_u32(mask)); }

OP vf v_dot(vp a, vp b, vf c) { return vbfdotq_f32(c, vreinterpretq_bf16_u32(a), vreinterpretq_bf16_u32(b)); }

OP vp p_round(vf low, vf high)
{
    const uint16x8_t halves = vreinterpretq_u16_bf16(vcvtq_high_bf16_f32(vcvtq_low_bf16_f32(low), high));
    return vreinterpretq_u32_u16(vzip1q_u16(halves, vextq_u16(halves, halves, VL)));
}
OP uint16x4_t v_load_first_u16(const uint16_t *p, int n)
{
    uint16x4_t a = n > 0 ? vld1_lane_u16(p, vdup_n_u16(0), 0) : vdup_n_u16(0);
    a = n > 1 ? vld1_lane_u16(p + 1, a, 1) : a;
    a = n > 2 ? vld1_lane_u16(p + 2, a, 2) : a;
    return n > 3 ? vld1_lane_u16(p + 3, a, 3) : a;
}
OP vp p_zip(const uint16_t *low, const uint16_t *high, int n)
{
    const uint16x4x2_t z = n >= VL ? vzip_u16(vld1_u16(low), vld1_u16(high))
                                   : vzip_u16(v_load_first_u16(low, n), v_load_first_u16(high, n));
    return vreinterpretq_u32_u16(vcombine_u16(z.val[0], z.val[1]));
}
OP void v_store_bf16(uint16_t *p, vf a)
{
    const uint32x4_t bits = vreinterpretq_u32_f32(a), odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    vst1_u16(p, vaddhn_u32(vaddq_u32(bits, odd), vdupq_n_u32(0x7fff)));
}
#endif
