/* SPDX-License-Identifier: Apache-2.0 */
/* Activations of a row, in place, and the product of a gate; attn_model.h has their formulas. Coefficients: fit_erfc.py. Each ends at its
   limits: 0 at -inf, inf at inf. */

#ifdef ATTN_REAL_IS_DOUBLE
static const real erfc_even[] = {
    0x1.c2e324cb33784p-30, -0x1.1f8f10ba20f78p-26, 0x1.355884b1ca9fcp-24, 0x1.3ebb0291516c9p-22, -0x1.789e79eb906c5p-17,
    0x1.3be0e09412ecp-13, -0x1.8d4aa41628fedp-11, -0x1.09623878c700ep-6, -0x1.0fb06dfe8afa8p-4, -0x1.9ddb23c3e6861p-4,
    0x1.f7f5df66fd40dp-7, 0x1.3ba5916e9fd7fp+0
};
static const real erfc_odd[] = {
    -0x1.dff032d300316p-28, 0x1.8f0920c7d5e28p-24, -0x1.ae86b29807edbp-21, 0x1.7dcf4dcc6199dp-18, -0x1.9928561ea5afcp-16,
    -0x1.a1e16f900a258p-13, 0x1.49c676f414b52p-8, 0x1.3079ede17a234p-5, 0x1.7fee004ef1101p-4, 0x1.16ecefcf9cb1ep-4,
    -0x1.1df1ad154a1c8p-3
};
#define VANISHING 800 /* e^-800 is 0 */
#else
static const real erfc_even[] = {
    0x1.dee71cp-14f, -0x1.73be94p-11f, -0x1.09eb9cp-6f, -0x1.0fa482p-4f, -0x1.9ddd1ep-4f, 0x1.f7f6dcp-7f, 0x1.3ba592p+0f
};
static const real erfc_odd[] = {
    -0x1.3baa6ep-17f, -0x1.c8e00ap-13f, 0x1.4a90dp-8f, 0x1.307152p-5f, 0x1.7feeb6p-4f, 0x1.16ece4p-4f, -0x1.1df1aep-3f
};
#define VANISHING 110
#endif

/* e^-|x|, 0 from VANISHING on. */
INLINE vf v_exp_below(vf x)
{
    return v_exp2(v_mul(v_min(v_set1(VANISHING), x), v_set1((real)-1.4426950408889634)));
}

/* x / (1 + e^-t), where x and t have one sign: neither the power nor the sum can overflow. */
INLINE vf v_gated(vf x, vf t)
{
    const vf one = v_set1(1), s = v_exp_below(v_abs(t));
    return v_mul(v_max(v_set1(-VANISHING), x), v_div(v_select(v_greater(v_zero(), t), s, one), v_add(one, s)));
}

/* x Phi(x) = max(x, 0) - |x| erfc(z) / 2, z = |x| / sqrt 2, erfc(z) = e^(-z^2) G((z-4)/(z+4)) / (1 + 2z). */
INLINE vf v_gelu(vf x)
{
    const vf size = v_min(v_set1(VANISHING), v_abs(x)), z = v_mul(size, v_set1((real)0.70710678118654752)), four = v_set1(4);
    const vf t = v_div(v_sub(z, four), v_add(z, four)), tt = v_mul(t, t);
    const vf g = v_fma(POLYNOMIAL(tt, erfc_odd), t, POLYNOMIAL(tt, erfc_even)); /* two chains, each half as long */
    const vf half = v_div(v_mul(v_mul(size, v_set1((real)0.5)), g), v_fma(v_set1(2), z, v_set1(1)));
    return v_sub(v_max(v_zero(), x), v_mul(half, v_exp_below(v_mul(v_set1((real)0.5), v_mul(size, size)))));
}

INLINE vf v_gelu_tanh(vf x)
{
    const vf cube = v_mul(v_mul(v_mul(v_set1((real)0.044715), x), x), x);
    return v_gated(x, v_mul(v_set1((real)1.5957691216057308), v_add(x, cube)));
}

INLINE vf v_silu(vf x) { return v_gated(x, x); }

/* NaN stays. */
INLINE vf v_relu(vf x) { return v_max(v_zero(), x); }

/* f of every real of x [n], times those of other [n] unless that is NULL. A macro, for a body is inlined into its loop. Whole vectors by
   themselves: some CPUs take long to store a part of one. */
#define ACTIVATION(name)                                                                                                                   \
    static void name(void *x, const void *other, int64_t n)                                                                                \
    {                                                                                                                                      \
        real *const p = x;                                                                                                                 \
        const real *const by = other;                                                                                                      \
        int64_t i = 0;                                                                                                                     \
        for (; by && i + VL <= n; i += VL)                                                                                                 \
            v_store(p + i, v_mul(v_##name(v_load(p + i)), v_load(by + i)));                                                                \
        for (; i + VL <= n; i += VL)                                                                                                       \
            v_store(p + i, v_##name(v_load(p + i)));                                                                                       \
        if (i == n)                                                                                                                        \
            return;                                                                                                                        \
        const int lanes = (int)(n - i);                                                                                                    \
        const vf y = v_##name(v_load_first(p + i, lanes));                                                                                 \
        v_store_first(p + i, by ? v_mul(y, v_load_first(by + i, lanes)) : y, lanes);                                                       \
    }
ACTIVATION(gelu)
ACTIVATION(gelu_tanh)
ACTIVATION(silu)
ACTIVATION(relu)
