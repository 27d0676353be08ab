/* SPDX-License-Identifier: Apache-2.0 */
/* exp2 and tanh on vectors. Coefficients: fit_exp2.py; those of the f32 exp2 minimise the relative error of
   2^f itself, with value 1 at 0. */

#ifdef ATTN_REAL_IS_DOUBLE
static const real exp2_quotient[] = { 0x1.37bcbc3f2a1afp-35, 0x1.cb0d4a0477000p-32, 0x1.e7b024354ec8cp-28, 0x1.b4f8826155a22p-24,
                                      0x1.62c1ead717ce6p-20, 0x1.ffcbe421c32bep-17, 0x1.4309136463ce3p-13, 0x1.5d87fe764503ap-10,
                                      0x1.3b2ab6fbacd2dp-7,  0x1.c6b08d7049f0cp-5,  0x1.ebfbdff82c591p-3,  0x1.62e42fefa39efp-1 };
#define expm1_quotient exp2_quotient
#define TANH_IS_ONE 60 /* 2|x| log2(e) from which 1 - tanh|x| is below half a unit in the last place */
#else
static const real exp2_quotient[] = { 0x1.e974fap-10f, 0x1.277856p-7f, 0x1.c91ce6p-5f, 0x1.ebdb56p-3f, 0x1.62e4bap-1f };
static const real expm1_quotient[] = { 0x1.5bd2aep-16f, 0x1.3262dep-13f, 0x1.5efc6ap-10f, 0x1.3b1a32p-7f,
                                       0x1.c6b140p-5f,  0x1.ebfbdep-3f,  0x1.62e430p-1f };
#define TANH_IS_ONE 30
#endif

#define LOG2E ((real)1.4426950408889634)

/* c[0] f^(n-1) + ... + c[n-1] */
#define POLYNOMIAL(f, c) polynomial(f, c, (int)(sizeof(c) / sizeof *(c)))
INLINE vf polynomial(vf f, const real *c, const int n)
{
    vf p = v_set1(c[0]);
    UNROLL for (int i = 1; i < n; i++)
        p = v_fma(p, f, v_set1(c[i]));
    return p;
}

/* 2^x for x <= 127 (f64: 1023). Exactly 1 at 0, 0 at -inf, NaN at NaN. Relative error <= 1.5e-7 = 2.4 u (f64: 3e-16) where the result is
   normal; below it may be 0. */
INLINE vf v_exp2(vf x)
{
    vf f = v_fraction(x);
    return v_scale2(v_fma(POLYNOMIAL(f, exp2_quotient), f, v_set1(1)), x);
}

/* e^(a - b) as every weight and factor is computed. */
INLINE vf exp_of_difference(vf a, vf b) { return v_exp2(v_mul(v_sub(a, b), v_set1(LOG2E))); }

/* tanh x = m / (m + 2) with m = e^(2|x|) - 1, and the sign of x. With 2|x| log2(e) = n + f: m = 2^n (2^f - 1) + (2^n - 1), where nothing
   cancels. Relative error <= 6e-7 (f64: 2e-15). NaN stays NaN. */
INLINE vf v_tanh(vf x)
{
    vf one = v_set1(1), y = v_min(v_set1(TANH_IS_ONE), v_mul(v_abs(x), v_set1((real)(2 * 1.4426950408889634))));
    vf f = v_fraction(y), power = v_scale2(one, y);
    vf m = v_fma(power, v_mul(f, POLYNOMIAL(f, expm1_quotient)), v_sub(power, one));
    vf t = v_div(m, v_add(m, v_set1(2)));
    return v_select(v_greater(v_zero(), x), v_sub(v_zero(), t), t);
}
