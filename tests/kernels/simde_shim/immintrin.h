/* SPDX-License-Identifier: Apache-2.0 */
/* AVX-512 on a machine that has only AVX2: with -isystem it is found before the compiler's <immintrin.h> and adds SIMDe's intrinsics
   under Intel's names. SIMDe 0.7.4 lacks some that the kernels use, and has some of them wrong (abs of -0, scalef by a denormal):
   these stand below, written from Intel's descriptions.
   Of tests only: it proves that the AVX-512 sources compute what they should, not that the compiler's AVX-512 code does. */
#ifndef ATTN_SIMDE_SHIM_H
#define ATTN_SIMDE_SHIM_H
#include_next <immintrin.h>

#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>
#include <math.h>
#include <string.h>

#define STAND_IN static inline __attribute__((unused))

#undef _mm512_shuffle_f32x4
#undef _mm512_shuffle_f64x2
#define _mm512_shuffle_f32x4(a, b, parts) simde_mm512_shuffle_f32x4(a, b, parts)
#define _mm512_shuffle_f64x2(a, b, parts) simde_mm512_shuffle_f64x2(a, b, parts)

/* Masked loads and stores touch the memory of their lanes only. */
STAND_IN void shim_copy(void *to, const void *from, unsigned mask, size_t lanes, size_t lane_size)
{
    for (size_t i = 0; i < lanes; i++)
        if (mask >> i & 1)
            memcpy((char *)to + i * lane_size, (const char *)from + i * lane_size, lane_size);
}
STAND_IN simde__m512 shim_maskz_loadu_ps(unsigned mask, const void *p)
{
    simde__m512 a = simde_mm512_setzero_ps();
    shim_copy(&a, p, mask, 16, sizeof(float));
    return a;
}
STAND_IN simde__m512d shim_maskz_loadu_pd(unsigned mask, const void *p)
{
    simde__m512d a = simde_mm512_setzero_pd();
    shim_copy(&a, p, mask, 8, sizeof(double));
    return a;
}
STAND_IN __m128i shim_maskz_loadu_epi8(unsigned mask, const void *p)
{
    __m128i a = _mm_setzero_si128();
    shim_copy(&a, p, mask, 16, 1);
    return a;
}
STAND_IN void shim_mask_storeu_ps(void *p, unsigned mask, simde__m512 a) { shim_copy(p, &a, mask, 16, sizeof(float)); }
STAND_IN void shim_mask_storeu_pd(void *p, unsigned mask, simde__m512d a) { shim_copy(p, &a, mask, 8, sizeof(double)); }
#undef _mm512_maskz_loadu_ps
#undef _mm512_maskz_loadu_pd
#undef _mm_maskz_loadu_epi8
#undef _mm512_mask_storeu_ps
#undef _mm512_mask_storeu_pd
#define _mm512_maskz_loadu_ps shim_maskz_loadu_ps
#define _mm512_maskz_loadu_pd shim_maskz_loadu_pd
#define _mm_maskz_loadu_epi8 shim_maskz_loadu_epi8
#define _mm512_mask_storeu_ps shim_mask_storeu_ps
#define _mm512_mask_storeu_pd shim_mask_storeu_pd

STAND_IN simde__mmask16 shim_test_epi8_mask(__m128i a, __m128i b)
{
    return (simde__mmask16)~_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_and_si128(a, b), _mm_setzero_si128()));
}
#undef _mm_test_epi8_mask
#define _mm_test_epi8_mask shim_test_epi8_mask

/* VREDUCE rounding towards minus infinity: x - floor(x), of which a zero is negative, as it is for an infinity; NaN stays. */
STAND_IN simde__m512 shim_reduce_ps(simde__m512 a)
{
    float x[16];
    simde_mm512_storeu_ps(x, a);
    for (int i = 0; i < 16; i++) {
        x[i] = isinf(x[i]) ? 0 : x[i] - floorf(x[i]);
        x[i] = x[i] == 0 ? -0.f : x[i];
    }
    return simde_mm512_loadu_ps(x);
}
STAND_IN simde__m512d shim_reduce_pd(simde__m512d a)
{
    double x[8];
    simde_mm512_storeu_pd(x, a);
    for (int i = 0; i < 8; i++) {
        x[i] = isinf(x[i]) ? 0 : x[i] - floor(x[i]);
        x[i] = x[i] == 0 ? -0. : x[i];
    }
    return simde_mm512_loadu_pd(x);
}

/* VSCALEF: a * 2^floor(b), rounded once. */
STAND_IN double shim_scale(double a, double b)
{
    if (isinf(b) && !isnan(a))
        return b < 0 ? a * 0 : a * b;
    return isnan(a) || isnan(b) ? a + b : ldexp(a, (int)floor(b < -9999 ? -9999 : b > 9999 ? 9999 : b));
}
STAND_IN simde__m512 shim_scalef_ps(simde__m512 a, simde__m512 b)
{
    float x[16], y[16];
    simde_mm512_storeu_ps(x, a);
    simde_mm512_storeu_ps(y, b);
    for (int i = 0; i < 16; i++)
        x[i] = (float)shim_scale(x[i], y[i]);
    return simde_mm512_loadu_ps(x);
}
STAND_IN simde__m512d shim_scalef_pd(simde__m512d a, simde__m512d b)
{
    double x[8], y[8];
    simde_mm512_storeu_pd(x, a);
    simde_mm512_storeu_pd(y, b);
    for (int i = 0; i < 8; i++)
        x[i] = shim_scale(x[i], y[i]);
    return simde_mm512_loadu_pd(x);
}
#undef _mm512_scalef_ps
#undef _mm512_scalef_pd
#define _mm512_scalef_ps shim_scalef_ps
#define _mm512_scalef_pd shim_scalef_pd

STAND_IN simde__m512 shim_abs_ps(simde__m512 a)
{
    return simde_mm512_castsi512_ps(simde_mm512_and_si512(simde_mm512_castps_si512(a), simde_mm512_set1_epi32(0x7fffffff)));
}
STAND_IN simde__m512d shim_abs_pd(simde__m512d a)
{
    return simde_mm512_castsi512_pd(simde_mm512_and_si512(simde_mm512_castpd_si512(a), simde_mm512_set1_epi64(INT64_MAX)));
}
#undef _mm512_abs_ps
#undef _mm512_abs_pd
#define _mm512_abs_ps shim_abs_ps
#define _mm512_abs_pd shim_abs_pd

#undef _mm512_reduce_ps
#undef _mm512_reduce_pd
#define _mm512_reduce_ps(a, control) shim_reduce_ps(a)
#define _mm512_reduce_pd(a, control) shim_reduce_pd(a)

/* Sums and maxima of halves, as the compilers make them. */
STAND_IN float shim_fold_ps(simde__m512 a, int sums)
{
    float x[16];
    simde_mm512_storeu_ps(x, a);
    for (int n = 8; n > 0; n /= 2)
        for (int i = 0; i < n; i++)
            x[i] = sums ? x[i] + x[i + n] : x[i] > x[i + n] ? x[i] : x[i + n];
    return x[0];
}
STAND_IN double shim_fold_pd(simde__m512d a, int sums)
{
    double x[8];
    simde_mm512_storeu_pd(x, a);
    for (int n = 4; n > 0; n /= 2)
        for (int i = 0; i < n; i++)
            x[i] = sums ? x[i] + x[i + n] : x[i] > x[i + n] ? x[i] : x[i + n];
    return x[0];
}
#undef _mm512_reduce_add_ps
#undef _mm512_reduce_add_pd
#undef _mm512_reduce_max_ps
#undef _mm512_reduce_max_pd
#define _mm512_reduce_add_ps(a) shim_fold_ps(a, 1)
#define _mm512_reduce_add_pd(a) shim_fold_pd(a, 1)
#define _mm512_reduce_max_ps(a) shim_fold_ps(a, 0)
#define _mm512_reduce_max_pd(a) shim_fold_pd(a, 0)

/* VDPBF16PS: two multiply-adds, the second of each pair first, each rounded to nearest; denormals of operands and results are 0. */
STAND_IN float shim_flushed(float x) { return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x; }
static __attribute__((noinline, unused)) simde__m512 shim_dpbf16_ps(simde__m512 sum, simde__m512i a, simde__m512i b)
{
    uint32_t x[16], y[16];
    float of[16];
    simde_mm512_storeu_ps(of, sum);
    simde_mm512_storeu_si512(x, a);
    simde_mm512_storeu_si512(y, b);
    for (int i = 0; i < 16; i++) {
        const uint32_t half[2][2] = { { x[i] & 0xffff0000, y[i] & 0xffff0000 }, { x[i] << 16, y[i] << 16 } };
        of[i] = shim_flushed(of[i]);
        for (int j = 0; j < 2; j++) {
            float factor[2];
            memcpy(factor, half[j], sizeof factor);
            of[i] = shim_flushed(fmaf(shim_flushed(factor[0]), shim_flushed(factor[1]), of[i]));
        }
    }
    return simde_mm512_loadu_ps(of);
}
/* VCVTNE2PS2BF16: the second operand in the lower half; to nearest even, denormals 0, NaN quiet. */
static __attribute__((noinline, unused)) simde__m512i shim_cvtne2ps_pbh(simde__m512 high, simde__m512 low)
{
    float from[32];
    uint16_t to[32];
    simde_mm512_storeu_ps(from, low);
    simde_mm512_storeu_ps(from + 16, high);
    for (int i = 0; i < 32; i++) {
        const float x = shim_flushed(from[i]);
        uint32_t bits;
        memcpy(&bits, &x, sizeof bits);
        to[i] = (uint16_t)(isnan(x) ? bits >> 16 | 0x40 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    }
    return simde_mm512_loadu_si512(to);
}
STAND_IN simde__m512i shim_permutexvar_epi16(simde__m512i places, simde__m512i a)
{
    uint16_t from[32], at[32], to[32];
    simde_mm512_storeu_si512(from, a);
    simde_mm512_storeu_si512(at, places);
    for (int i = 0; i < 32; i++)
        to[i] = from[at[i] & 31];
    return simde_mm512_loadu_si512(to);
}
STAND_IN __m256i shim_cvtepi32_epi16(simde__m512i a)
{
    uint32_t from[16];
    uint16_t to[16];
    simde_mm512_storeu_si512(from, a);
    for (int i = 0; i < 16; i++)
        to[i] = (uint16_t)from[i];
    __m256i narrow;
    memcpy(&narrow, to, sizeof narrow);
    return narrow;
}
STAND_IN __m256i shim_maskz_loadu_epi16(unsigned mask, const void *p)
{
    __m256i a = _mm256_setzero_si256();
    shim_copy(&a, p, mask, 16, 2);
    return a;
}
#undef _mm512_dpbf16_ps
#undef _mm512_cvtne2ps_pbh
#undef _mm512_permutexvar_epi16
#undef _mm512_cvtepi32_epi16
#undef _mm256_maskz_loadu_epi16
#define _mm512_dpbf16_ps(c, a, b) shim_dpbf16_ps(c, (simde__m512i)(a), (simde__m512i)(b))
#define _mm512_cvtne2ps_pbh shim_cvtne2ps_pbh
#define _mm512_permutexvar_epi16 shim_permutexvar_epi16
#define _mm512_cvtepi32_epi16 shim_cvtepi32_epi16
#define _mm256_maskz_loadu_epi16 shim_maskz_loadu_epi16

/* Widening, by the conversions of AVX2 and F16C. */
STAND_IN simde__m512 shim_cvtph_ps(__m256i h)
{
    __m256 half[2] = { _mm256_cvtph_ps(_mm256_castsi256_si128(h)), _mm256_cvtph_ps(_mm256_extracti128_si256(h, 1)) };
    simde__m512 a;
    memcpy(&a, half, sizeof a);
    return a;
}
STAND_IN simde__m512d shim_cvtps_pd(__m256 f)
{
    __m256d half[2] = { _mm256_cvtps_pd(_mm256_castps256_ps128(f)), _mm256_cvtps_pd(_mm256_extractf128_ps(f, 1)) };
    simde__m512d a;
    memcpy(&a, half, sizeof a);
    return a;
}
STAND_IN simde__m512i shim_cvtepu16_epi32(__m256i u)
{
    __m256i half[2] = { _mm256_cvtepu16_epi32(_mm256_castsi256_si128(u)), _mm256_cvtepu16_epi32(_mm256_extracti128_si256(u, 1)) };
    simde__m512i a;
    memcpy(&a, half, sizeof a);
    return a;
}
#undef _mm512_cvtepu16_epi32
#undef _mm512_cvtph_ps
#undef _mm512_cvtps_pd
#define _mm512_cvtepu16_epi32 shim_cvtepu16_epi32
#define _mm512_cvtph_ps shim_cvtph_ps
#define _mm512_cvtps_pd shim_cvtps_pd

#endif
