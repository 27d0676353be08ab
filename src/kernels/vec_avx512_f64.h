/* SPDX-License-Identifier: Apache-2.0 */
/* Vector operations for AVX-512 (F, BW, DQ, VL): 8 lanes of double. The contract of each is in vec.h. */
#ifndef ATTN_VEC_AVX512_F64_H
#define ATTN_VEC_AVX512_F64_H
#include <immintrin.h>
#include <stdint.h>

#ifndef ATTN_REAL_IS_DOUBLE
#define ATTN_REAL_IS_DOUBLE
#endif
#include "vec.h"

#define VL 8
#define QUERY_VECS 4 /* 32 queries */
#define TILE_REGS 16 /* of 32 registers */
#define TILE_STEP 1
#define FEW_SCORE_ROWS 0
#define NARROW_SCORE_ROWS 0
#define SUMS_PART 2
#define FREE_PASS 8
#define FREE_REGS 16
#define GEMM_VECS 4
#define GEMM_REGS 24
#define GEMM_UNROLL

typedef __m512d vf;
typedef __mmask8 vb;

OP vf v_zero(void) { return _mm512_setzero_pd(); }
OP vf v_set1(real x) { return _mm512_set1_pd(x); }
OP vf v_lane_numbers(void) { return _mm512_setr_pd(0, 1, 2, 3, 4, 5, 6, 7); }
OP vf v_load(const real *p) { return _mm512_loadu_pd(p); }
OP void v_store(real *p, vf a) { _mm512_storeu_pd(p, a); }
OP vb v_first(int n) { return _mm512_cmpgt_epi64_mask(_mm512_set1_epi64(n), _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7)); }
OP vf v_load_first(const real *p, int n) { return _mm512_maskz_loadu_pd(v_first(n), p); }
OP void v_store_first(real *p, vf a, int n) { _mm512_mask_storeu_pd(p, v_first(n), a); }

OP __m128i v_load_u16(const uint16_t *p) { return _mm_loadu_si128((const __m128i *)p); }
OP vf v_load_f16(const uint16_t *p) { return _mm512_cvtps_pd(_mm256_cvtph_ps(v_load_u16(p))); }
OP vf v_load_bf16(const uint16_t *p)
{
    return _mm512_cvtps_pd(_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(v_load_u16(p)), 16)));
}

OP vf v_add(vf a, vf b) { return _mm512_add_pd(a, b); }
OP vf v_sub(vf a, vf b) { return _mm512_sub_pd(a, b); }
OP vf v_mul(vf a, vf b) { return _mm512_mul_pd(a, b); }
OP vf v_div(vf a, vf b) { return _mm512_div_pd(a, b); }
OP vf v_fma(vf a, vf b, vf c) { return _mm512_fmadd_pd(a, b, c); }
OP void v_add_product(vf *sum, vf a, vf b) { *sum = v_fma(a, b, *sum); }
OP vf v_max(vf a, vf b) { return _mm512_max_pd(a, b); }
OP vf v_min(vf a, vf b) { return _mm512_min_pd(a, b); }
OP vf v_abs(vf a) { return _mm512_abs_pd(a); }

OP vb v_greater(vf a, vf b) { return _mm512_cmp_pd_mask(a, b, _CMP_GT_OQ); }
OP vb v_equal(vf a, vf b) { return _mm512_cmp_pd_mask(a, b, _CMP_EQ_OQ); }
OP vb v_or_b(vb a, vb b) { return (vb)(a | b); }
OP int v_any(vb c) { return c != 0; }
OP vf v_select(vb c, vf a, vf b) { return _mm512_mask_blend_pd(c, b, a); }

OP word v_nonzero_bytes(const uint8_t *p)
{
    __m256i low = _mm256_cmpeq_epi8(_mm256_loadu_si256((const __m256i *)p), _mm256_setzero_si256());
    __m256i high = _mm256_cmpeq_epi8(_mm256_loadu_si256((const __m256i *)(p + 32)), _mm256_setzero_si256());
    return ~((word)(uint32_t)_mm256_movemask_epi8(high) << 32 | (uint32_t)_mm256_movemask_epi8(low));
}
OP vf v_select_bit(const word *w, int i, vf a, vf b)
{
    __m512i one = _mm512_set1_epi64((long long)((word)1 << i));
    return v_select(_mm512_test_epi64_mask(_mm512_loadu_si512(w), one), a, b);
}

/* Below x = -1022 scalef gives the denormal. */
OP vf v_fraction(vf x) { return _mm512_reduce_pd(x, _MM_FROUND_TO_NEG_INF); }
OP vf v_scale2(vf a, vf x) { return _mm512_scalef_pd(a, x); }

OP real v_sum(vf a) { return _mm512_reduce_add_pd(a); }
OP real v_top(vf a) { return _mm512_reduce_max_pd(a); }

/* Pairs of lanes, then the four 128-bit parts in pairs. */
OP vf v_add_pairs(vf a, vf b) { return v_add(_mm512_unpacklo_pd(a, b), _mm512_unpackhi_pd(a, b)); }
OP vf v_add_parts(vf a, vf b) { return v_add(_mm512_shuffle_f64x2(a, b, 0x88), _mm512_shuffle_f64x2(a, b, 0xdd)); }
OP vf v_sums_part(const vf r[SUMS_PART]) { return v_add_pairs(r[0], r[1]); }
OP vf v_sums_whole(const vf p[VL / SUMS_PART]) { return v_add_parts(v_add_parts(p[0], p[1]), v_add_parts(p[2], p[3])); }

/* Pairs inside each 128-bit part; then the 4x4 grid of parts, in two steps. */
OP void v_transpose(vf r[VL])
{
    vf t[VL];
    UNROLL for (int i = 0; i < VL; i += 2) {
        t[i] = _mm512_unpacklo_pd(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_pd(r[i], r[i + 1]);
    }
    UNROLL for (int i = 0; i < 2; i++) {
        r[i] = _mm512_shuffle_f64x2(t[i], t[i + 2], 0x88);
        r[i + 2] = _mm512_shuffle_f64x2(t[i], t[i + 2], 0xdd);
        r[i + 4] = _mm512_shuffle_f64x2(t[i + 4], t[i + 6], 0x88);
        r[i + 6] = _mm512_shuffle_f64x2(t[i + 4], t[i + 6], 0xdd);
    }
    UNROLL for (int i = 0; i < 4; i++) {
        t[i] = _mm512_shuffle_f64x2(r[i], r[i + 4], 0x88);
        t[i + 4] = _mm512_shuffle_f64x2(r[i], r[i + 4], 0xdd);
    }
    UNROLL for (int i = 0; i < VL; i++)
        r[i] = t[i];
}
OP void v_prefetch(const void *p) { _mm_prefetch((const char *)p, _MM_HINT_T1); }
#endif
