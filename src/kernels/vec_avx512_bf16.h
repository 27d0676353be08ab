/* SPDX-License-Identifier: Apache-2.0 */
/* Vector operations for AVX-512 with BF16: those of vec_avx512.h and the ones on pairs. The contract of each is in vec.h. */
#ifndef ATTN_VEC_AVX512_BF16_H
#define ATTN_VEC_AVX512_BF16_H
#include "vec_avx512.h"

#define VEC_HAS_PAIRS

typedef __m512i vp;

OP vp p_set1(const uint16_t *p)
{
    int32_t pair;
    memcpy(&pair, p, sizeof pair);
    return _mm512_set1_epi32(pair);
}
OP vp p_load(const real *p) { return _mm512_loadu_si512(p); }
OP void p_store(real *p, vp a) { _mm512_storeu_si512(p, a); }
OP vp p_and(vp a, word mask) { return _mm512_and_si512(a, _mm512_set1_epi32((int)mask)); }

OP vf v_dot(vp a, vp b, vf c) { return _mm512_dpbf16_ps(c, (__m512bh)a, (__m512bh)b); }

/* The conversion leaves the lower row in the lower half. */
OP vp p_round(vf low, vf high)
{
    const __m512i halves = (__m512i)_mm512_cvtne2ps_pbh(high, low);
    const __m512i places = _mm512_setr_epi32(0x100000, 0x110001, 0x120002, 0x130003, 0x140004, 0x150005, 0x160006, 0x170007, 0x180008,
                                             0x190009, 0x1a000a, 0x1b000b, 0x1c000c, 0x1d000d, 0x1e000e, 0x1f000f);
    return _mm512_permutexvar_epi16(places, halves);
}
OP vp p_zip(const uint16_t *low, const uint16_t *high, int n)
{
    const __m512i a = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(v_first(n), low));
    const __m512i b = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(v_first(n), high));
    return _mm512_or_si512(a, _mm512_slli_epi32(b, 16));
}
OP void v_store_bf16(uint16_t *p, vf a)
{
    const __m512i bits = _mm512_castps_si512(a), odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16)));
}
#endif
