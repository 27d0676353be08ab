/* SPDX-License-Identifier: Apache-2.0 */
/* The floating-point peak of a level: as many chains of multiply-adds as hide the latency, in registers only. */

enum { PEAK_CHAINS = 12 };

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
