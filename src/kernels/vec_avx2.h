/* SPDX-License-Identifier: Apache-2.0 */
/* Vector operations for AVX2 and FMA: 8 lanes of float. The contract of each is in vec.h. */
#ifndef ATTN_VEC_AVX2_H
#define ATTN_VEC_AVX2_H
#include <immintrin.h>
#include <stdint.h>

#include "vec.h"

#define VL 8
#define QUERY_VECS 3 /* 24 queries */
#define TILE_REGS 12 /* of 16 registers */
#define TILE_STEP 4
#define FEW_SCORE_ROWS 3
#define NARROW_SCORE_ROWS 6
#define SUMS_PART 4
#define FREE_PASS 4
#define FREE_REGS 12
#define GEMM_VECS 2
#define GEMM_REGS 12
#define GEMM_UNROLL UNROLL

typedef __m256 vf;
typedef __m256 vb; /* all bits of a lane set = true */

OP vf v_zero(void) { return _mm256_setzero_ps(); }
OP vf v_set1(real x) { return _mm256_set1_ps(x); }
OP vf v_lane_numbers(void) { return _mm256_setr_ps(0, 1, 2, 3, 4, 5, 6, 7); }
OP vf v_load(const real *p) { return _mm256_loadu_ps(p); }
OP void v_store(real *p, vf a) { _mm256_storeu_ps(p, a); }
OP __m256i v_first(int n) { return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)); }
OP vf v_load_first(const real *p, int n) { return _mm256_maskload_ps(p, v_first(n)); }
OP void v_store_first(real *p, vf a, int n) { _mm256_maskstore_ps(p, v_first(n), a); }

OP __m128i v_load_u16(const uint16_t *p) { return _mm_loadu_si128((const __m128i *)p); }
OP vf v_load_f16(const uint16_t *p) { return _mm256_cvtph_ps(v_load_u16(p)); }
OP vf v_load_bf16(const uint16_t *p) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(v_load_u16(p)), 16)); }

OP vf v_add(vf a, vf b) { return _mm256_add_ps(a, b); }
OP vf v_sub(vf a, vf b) { return _mm256_sub_ps(a, b); }
OP vf v_mul(vf a, vf b) { return _mm256_mul_ps(a, b); }
OP vf v_div(vf a, vf b) { return _mm256_div_ps(a, b); }
OP vf v_fma(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }
/* gcc 12 would let the product of a copy take the place of a, and then move and spill what is summed: 93 operations for 48 multiply-adds
   of the linear layer where this takes 84. */
OP void v_add_product(vf *sum, vf a, vf b) { __asm__("vfmadd231ps %2, %1, %0" : "+x"(*sum) : "x"(a), "x"(b)); }
OP vf v_max(vf a, vf b) { return _mm256_max_ps(a, b); }
OP vf v_min(vf a, vf b) { return _mm256_min_ps(a, b); }
OP vf v_abs(vf a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.f), a); }

OP vb v_greater(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_GT_OQ); }
OP vb v_equal(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_EQ_OQ); }
OP vb v_or_b(vb a, vb b) { return _mm256_or_ps(a, b); }
OP int v_any(vb c) { return _mm256_movemask_ps(c) != 0; }
OP vf v_select(vb c, vf a, vf b) { return _mm256_blendv_ps(b, a, c); }

OP word v_nonzero_bytes(const uint8_t *p)
{
    __m256i zero = _mm256_cmpeq_epi8(_mm256_loadu_si256((const __m256i *)p), _mm256_setzero_si256());
    return ~(word)_mm256_movemask_epi8(zero);
}
OP vf v_select_bit(const word *w, int i, vf a, vf b)
{
    __m256i top = _mm256_sll_epi32(_mm256_loadu_si256((const __m256i *)w), _mm_cvtsi32_si128(WORD_BITS - 1 - i));
    return _mm256_blendv_ps(b, a, _mm256_castsi256_ps(top));
}

/* -127 stands for every x below: the factor 2^n is built from exponent bits, and those of n = -127 are the bits of 0. */
OP vf v_clamped(vf x) { return v_max(_mm256_set1_ps(-127), x); }
OP vf v_fraction(vf x) { return v_sub(v_clamped(x), _mm256_floor_ps(v_clamped(x))); }
OP vf v_scale2(vf a, vf x)
{
    __m256i n = _mm256_add_epi32(_mm256_cvtps_epi32(_mm256_floor_ps(v_clamped(x))), _mm256_set1_epi32(127));
    return v_mul(a, _mm256_castsi256_ps(_mm256_slli_epi32(n, 23)));
}

OP real v_sum(vf a)
{
    __m128 h = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    h = _mm_add_ps(h, _mm_movehl_ps(h, h));
    return _mm_cvtss_f32(_mm_add_ss(h, _mm_movehdup_ps(h)));
}
OP real v_top(vf a)
{
    __m128 h = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    h = _mm_max_ps(h, _mm_movehl_ps(h, h));
    return _mm_cvtss_f32(_mm_max_ss(h, _mm_movehdup_ps(h)));
}

/* Pairs of lanes, then quads, then the halves. */
OP vf v_add_pairs(vf a, vf b) { return v_add(_mm256_shuffle_ps(a, b, 0x88), _mm256_shuffle_ps(a, b, 0xdd)); }
OP vf v_sums_part(const vf r[SUMS_PART]) { return v_add_pairs(v_add_pairs(r[0], r[1]), v_add_pairs(r[2], r[3])); }
OP vf v_sums_whole(const vf p[VL / SUMS_PART])
{
    return v_add(_mm256_permute2f128_ps(p[0], p[1], 0x20), _mm256_permute2f128_ps(p[0], p[1], 0x31));
}

/* Pairs, then quads inside each 128-bit half; then the halves. */
OP void v_transpose(vf r[VL])
{
    vf t[VL];
    UNROLL for (int i = 0; i < VL; i += 2) {
        t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    UNROLL for (int i = 0; i < VL; i += 4) {
        r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
        r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
        r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
        r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
    UNROLL for (int i = 0; i < VL / 2; i++) {
        t[i] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x20);
        t[i + 4] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x31);
    }
    UNROLL for (int i = 0; i < VL; i++)
        r[i] = t[i];
}
OP void v_prefetch(const void *p) { _mm_prefetch((const char *)p, _MM_HINT_T1); }
#endif
