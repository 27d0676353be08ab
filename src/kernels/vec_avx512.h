/* SPDX-License-Identifier: Apache-2.0 */
/* Vector operations for AVX-512 (F, BW, DQ, VL): 16 lanes of float. The contract of each is in vec.h. */
#ifndef ATTN_VEC_AVX512_H
#define ATTN_VEC_AVX512_H
#include <immintrin.h>
#include <stdint.h>

#include "vec.h"

#define VL 16
#define QUERY_VECS 4 /* 64 queries */
#define TILE_REGS 16 /* of 32 registers */
#define TILE_STEP 1
#define FEW_SCORE_ROWS 0
#define NARROW_SCORE_ROWS 0
#define SUMS_PART 4
#define FREE_PASS 8
#define FREE_REGS 16
#define GEMM_VECS 4
#define GEMM_REGS 24
#define GEMM_UNROLL

typedef __m512 vf;
typedef __mmask16 vb;

OP vf v_zero(void) { return _mm512_setzero_ps(); }
OP vf v_set1(real x) { return _mm512_set1_ps(x); }
OP vf v_lane_numbers(void) { return _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15); }
OP vf v_load(const real *p) { return _mm512_loadu_ps(p); }
OP void v_store(real *p, vf a) { _mm512_storeu_ps(p, a); }
OP vb v_first(int n)
{
    __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return _mm512_cmpgt_epi32_mask(_mm512_set1_epi32(n), lanes);
}
OP vf v_load_first(const real *p, int n) { return _mm512_maskz_loadu_ps(v_first(n), p); }
OP void v_store_first(real *p, vf a, int n) { _mm512_mask_storeu_ps(p, v_first(n), a); }

OP __m256i v_load_u16(const uint16_t *p) { return _mm256_loadu_si256((const __m256i *)p); }
OP vf v_load_f16(const uint16_t *p) { return _mm512_cvtph_ps(v_load_u16(p)); }
OP vf v_load_bf16(const uint16_t *p) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(v_load_u16(p)), 16)); }

OP vf v_add(vf a, vf b) { return _mm512_add_ps(a, b); }
OP vf v_sub(vf a, vf b) { return _mm512_sub_ps(a, b); }
OP vf v_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
OP vf v_div(vf a, vf b) { return _mm512_div_ps(a, b); }
OP vf v_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }
OP void v_add_product(vf *sum, vf a, vf b) { *sum = v_fma(a, b, *sum); }
OP vf v_max(vf a, vf b) { return _mm512_max_ps(a, b); }
OP vf v_min(vf a, vf b) { return _mm512_min_ps(a, b); }
OP vf v_abs(vf a) { return _mm512_abs_ps(a); }

OP vb v_greater(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ); }
OP vb v_equal(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
OP vb v_or_b(vb a, vb b) { return (vb)(a | b); }
OP int v_any(vb c) { return c != 0; }
OP vf v_select(vb c, vf a, vf b) { return _mm512_mask_blend_ps(c, b, a); }

OP word v_nonzero_bytes(const uint8_t *p)
{
    __m256i zero = _mm256_cmpeq_epi8(_mm256_loadu_si256((const __m256i *)p), _mm256_setzero_si256());
    return ~(word)_mm256_movemask_epi8(zero);
}
OP vf v_select_bit(const word *w, int i, vf a, vf b)
{
    __m512i one = _mm512_set1_epi32((int)((word)1 << i));
    return v_select(_mm512_test_epi32_mask(_mm512_loadu_si512(w), one), a, b);
}

/* Below x = -126 scalef gives the denormal. */
OP vf v_fraction(vf x) { return _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF); }
OP vf v_scale2(vf a, vf x) { return _mm512_scalef_ps(a, x); }

OP real v_sum(vf a) { return _mm512_reduce_add_ps(a); }
OP real v_top(vf a) { return _mm512_reduce_max_ps(a); }

/* Pairs of lanes, then quads, then the four 128-bit parts in pairs. */
OP vf v_add_pairs(vf a, vf b) { return v_add(_mm512_shuffle_ps(a, b, 0x88), _mm512_shuffle_ps(a, b, 0xdd)); }
OP vf v_add_parts(vf a, vf b) { return v_add(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd)); }
OP vf v_sums_part(const vf r[SUMS_PART]) { return v_add_pairs(v_add_pairs(r[0], r[1]), v_add_pairs(r[2], r[3])); }
OP vf v_sums_whole(const vf p[VL / SUMS_PART]) { return v_add_parts(v_add_parts(p[0], p[1]), v_add_parts(p[2], p[3])); }

/* Pairs, then quads inside each 128-bit part; then the 4x4 grid of parts. */
OP void v_transpose(vf r[VL])
{
    vf t[VL];
    UNROLL for (int i = 0; i < VL; i += 2) {
        t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
    }
    UNROLL for (int i = 0; i < VL; i += 4) {
        r[i] = _mm512_shuffle_ps(t[i], t[i + 2], 0x44);
        r[i + 1] = _mm512_shuffle_ps(t[i], t[i + 2], 0xee);
        r[i + 2] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0x44);
        r[i + 3] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
    UNROLL for (int i = 0; i < 4; i++) {
        t[i] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0x88);
        t[i + 4] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0xdd);
        t[i + 8] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0x88);
        t[i + 12] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0xdd);
    }
    UNROLL for (int i = 0; i < 4; i++) {
        r[i] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0x88);
        r[i + 4] = _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0x88);
        r[i + 8] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0xdd);
        r[i + 12] = _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0xdd);
    }
}
OP void v_prefetch(const void *p) { _mm_prefetch((const char *)p, _MM_HINT_T1); }
#endif
