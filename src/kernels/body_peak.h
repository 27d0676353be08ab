/* SPDX-License-Identifier: Apache-2.0 */
/* The limits of a machine. The floating-point peak of a level: as many chains of multiply-adds as hide the latency, in registers only. */

enum { PEAK_CHAINS = 12, STREAM_CHAINS = 8, STREAM_AHEAD = 8192 / sizeof(real), STREAM_LINE = 64 / sizeof(real) };

#ifdef ATTN_PAIRS
static double peak(int64_t rounds, double *sink)
{
    const vp a = p_round(v_set1((real)*sink), v_set1((real)*sink)), b = p_round(v_set1((real)1e-3), v_set1((real)-1e-3));
    vf acc[PEAK_CHAINS];
    UNROLL for (int i = 0; i < PEAK_CHAINS; i++)
        acc[i] = v_set1((real)i);
    for (int64_t n = 0; n < rounds; n++)
        UNROLL for (int i = 0; i < PEAK_CHAINS; i++)
            acc[i] = v_dot(a, b, acc[i]);
    vf sum = v_zero();
    UNROLL for (int i = 0; i < PEAK_CHAINS; i++)
        sum = v_add(sum, acc[i]);
    *sink = v_sum(sum);
    return (double)rounds * PEAK_CHAINS * VL * 4;
}
#else
static double peak(int64_t rounds, double *sink)
{
    vf acc[PEAK_CHAINS], a = v_set1((real)*sink), b = v_set1((real)1e-3);
    UNROLL for (int i = 0; i < PEAK_CHAINS; i++)
        acc[i] = v_set1((real)i);
    for (int64_t n = 0; n < rounds; n++)
        UNROLL for (int i = 0; i < PEAK_CHAINS; i++)
            acc[i] = v_fma(acc[i], a, b);
    vf sum = v_zero();
    UNROLL for (int i = 0; i < PEAK_CHAINS; i++)
        sum = v_add(sum, acc[i]);
    *sink = v_sum(sum);
    return (double)rounds * PEAK_CHAINS * VL * 2;
}

/* Reading alone, as fast as it goes: the hardware's own prefetch stops at each page, so the lines are asked for ahead. The maximum, since
   no value in memory makes it slow as denormals make a sum. */
static void stream(const void *memory, int64_t count, double *sink)
{
    const real *x = memory;
    vf top[STREAM_CHAINS];
    int64_t i = 0;
    UNROLL for (int c = 0; c < STREAM_CHAINS; c++)
        top[c] = v_zero();
    for (; i + STREAM_CHAINS * VL <= count; i += STREAM_CHAINS * VL) {
        UNROLL for (int c = 0; c < STREAM_CHAINS * VL; c += STREAM_LINE)
            v_prefetch(x + i + STREAM_AHEAD + c);
        UNROLL for (int c = 0; c < STREAM_CHAINS; c++)
            top[c] = v_max(v_load(x + i + c * VL), top[c]);
    }
    for (; i < count; i += VL)
        top[0] = v_max(v_load_first(x + i, count - i), top[0]);
    UNROLL for (int c = 1; c < STREAM_CHAINS; c++)
        top[0] = v_max(top[0], top[c]);
    *sink = v_top(top[0]);
}
#endif
