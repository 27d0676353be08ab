/* SPDX-License-Identifier: Apache-2.0 */
/* Vector operations for AVX2 and FMA: 4 lanes of double. The contract of each is in vec.h. */
#ifndef ATTN_VEC_AVX2_F64_H
#define ATTN_VEC_AVX2_F64_H
#include <immintrin.h>
#include <stdint.h>

#ifndef ATTN_REAL_IS_DOUBLE
#define ATTN_REAL_IS_DOUBLE
#endif
#include "vec.h"

#define VL 4
#define QUERY_VECS 3 /* 12 queries */
#define TILE_REGS 12 /* of 16 registers */
#define TILE_STEP 4
#define FEW_SCORE_ROWS 0
#define NARROW_SCORE_ROWS 0
#define SUMS_PART 2
#define FREE_PASS 4
#define FREE_REGS 12
#define GEMM_VECS 2
#define GEMM_REGS 12
#define GEMM_UNROLL UNROLL

typedef __m256d vf;
typedef __m256d vb; /* all bits of a lane set = true */

OP vf v_zero(void) { return _mm256_setzero_pd(); }
OP vf v_set1(real x) { return _mm256_set1_pd(x); }
OP vf v_lane_numbers(void) { return _mm256_setr_pd(0, 1, 2, 3); }
OP vf v_load(const real *p) { return _mm256_loadu_pd(p); }
OP void v_store(real *p, vf a) { _mm256_storeu_pd(p, a); }
OP __m256i v_first(int n) { return _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3)); }
OP vf v_load_first(const real *p, int n) { return _mm256_maskload_pd(p, v_first(n)); }
OP void v_store_first(real *p, vf a, int n) { _mm256_maskstore_pd(p, v_first(n), a); }

OP __m128i v_load_u16(const uint16_t *p) { return _mm_loadl_epi64((const __m128i *)p); }
OP vf v_load_f16(const uint16_t *p) { return _mm256_cvtps_pd(_mm_cvtph_ps(v_load_u16(p))); }
OP vf v_load_bf16(const uint16_t *p) { return _mm256_cvtps_pd(_mm_castsi128_ps(_mm_slli_epi32(_mm_cvtepu16_epi32(v_load_u16(p)), 16))); }

OP vf v_add(vf a, vf b) { return _mm256_add_pd(a, b); }
OP vf v_sub(vf a, vf b) { return _mm256_sub_pd(a, b); }
OP vf v_mul(vf a, vf b) { return _mm256_mul_pd(a, b); }
OP vf v_div(vf a, vf b) { return _mm256_div_pd(a, b); }
OP vf v_fma(vf a, vf b, vf c) { return _mm256_fmadd_pd(a, b, c); }
/* gcc 12 would let the product of a copy take the place of a, and then move and spill what is summed: 93 operations for 48 multiply-adds
   of the linear layer where this takes 84. */
OP void v_add_product(vf *sum, vf a, vf b) { __asm__("vfmadd231pd %2, %1, %0" : "+x"(*sum) : "x"(a), "x"(b)); }
OP vf v_max(vf a, vf b) { return _mm256_max_pd(a, b); }
OP vf v_min(vf a, vf b) { return _mm256_min_pd(a, b); }
OP vf v_abs(vf a) { return _mm256_andnot_pd(_mm256_set1_pd(-0.), a); }

OP vb v_greater(vf a, vf b) { return _mm256_cmp_pd(a, b, _CMP_GT_OQ); }
OP vb v_equal(vf a, vf b) { return _mm256_cmp_pd(a, b, _CMP_EQ_OQ); }
OP vb v_or_b(vb a, vb b) { return _mm256_or_pd(a, b); }
OP int v_any(vb c) { return _mm256_movemask_pd(c) != 0; }
OP vf v_select(vb c, vf a, vf b) { return _mm256_blendv_pd(b, a, c); }

OP word v_nonzero_bytes(const uint8_t *p)
{
    __m256i low = _mm256_cmpeq_epi8(_mm256_loadu_si256((const __m256i *)p), _mm256_setzero_si256());
    __m256i high = _mm256_cmpeq_epi8(_mm256_loadu_si256((const __m256i *)(p + 32)), _mm256_setzero_si256());
    return ~((word)(uint32_t)_mm256_movemask_epi8(high) << 32 | (uint32_t)_mm256_movemask_epi8(low));
}
OP vf v_select_bit(const word *w, int i, vf a, vf b)
{
    __m256i top = _mm256_sll_epi64(_mm256_loadu_si256((const __m256i *)w), _mm_cvtsi32_si128(WORD_BITS - 1 - i));
    return _mm256_blendv_pd(b, a, _mm256_castsi256_pd(top));
}

/* -1023 stands for every x below: the factor 2^n is built from exponent bits, and those of n = -1023 are the bits of 0.
   The sum with 1.5*2^52 has n + 1023 in its lowest bits; AVX2 cannot convert a double to a 64-bit integer. */
OP vf v_clamped(vf x) { return v_max(_mm256_set1_pd(-1023), x); }
OP vf v_fraction(vf x) { return v_sub(v_clamped(x), _mm256_floor_pd(v_clamped(x))); }
OP vf v_scale2(vf a, vf x)
{
    vf n = v_add(_mm256_floor_pd(v_clamped(x)), _mm256_set1_pd(0x1.8p52 + 1023));
    return v_mul(a, _mm256_castsi256_pd(_mm256_slli_epi64(_mm256_castpd_si256(n), 52)));
}

OP real v_sum(vf a)
{
    __m128d h = _mm_add_pd(_mm256_castpd256_pd128(a), _mm256_extractf128_pd(a, 1));
    return _mm_cvtsd_f64(_mm_add_sd(h, _mm_unpackhi_pd(h, h)));
}
OP real v_top(vf a)
{
    __m128d h = _mm_max_pd(_mm256_castpd256_pd128(a), _mm256_extractf128_pd(a, 1));
    return _mm_cvtsd_f64(_mm_max_sd(h, _mm_unpackhi_pd(h, h)));
}

/* Pairs of lanes, then the halves. */
OP vf v_add_pairs(vf a, vf b) { return v_add(_mm256_unpacklo_pd(a, b), _mm256_unpackhi_pd(a, b)); }
OP vf v_sums_part(const vf r[SUMS_PART]) { return v_add_pairs(r[0], r[1]); }
OP vf v_sums_whole(const vf p[VL / SUMS_PART])
{
    return v_add(_mm256_permute2f128_pd(p[0], p[1], 0x20), _mm256_permute2f128_pd(p[0], p[1], 0x31));
}

/* Pairs inside each 128-bit half, then the halves. */
OP void v_transpose(vf r[VL])
{
    vf a = _mm256_unpacklo_pd(r[0], r[1]), b = _mm256_unpackhi_pd(r[0], r[1]);
    vf c = _mm256_unpacklo_pd(r[2], r[3]), d = _mm256_unpackhi_pd(r[2], r[3]);
    r[0] = _mm256_permute2f128_pd(a, c, 0x20);
    r[1] = _mm256_permute2f128_pd(b, d, 0x20);
    r[2] = _mm256_permute2f128_pd(a, c, 0x31);
    r[3] = _mm256_permute2f128_pd(b, d, 0x31);
}
OP void v_prefetch(const void *p) { _mm_prefetch((const char *)p, _MM_HINT_T1); }
#endif
