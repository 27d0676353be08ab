/* SPDX-License-Identifier: Apache-2.0 */
#include "compare.h"

#include <math.h>

attn_dtype any_float(rng *r) {
    static const attn_dtype all[] = {ATTN_F32, ATTN_F32, ATTN_F64, ATTN_F16, ATTN_BF16};
    return all[rng_int(r, 0, 4)];
}

int64_t row_width(const attn_tensor *t) {
    return t->shape[t->ndim - 1];
}

int64_t row_count(const attn_tensor *t) {
    return row_width(t) ? element_count(t) / row_width(t) : 0;
}

/* Element i of a row. */
static double element(const attn_tensor *t, int64_t row, int64_t i) {
    const int64_t b = axis_extent(t, 2), a = axis_extent(t, 1);
    return ref_element(t, row / b / a, row / b % a, row % b, i);
}

void read_row(double *to, const attn_tensor *t, int64_t row) {
    for (int64_t i = 0; i < row_width(t); i++) {
        to[i] = element(t, row, i);
    }
}

/* Half a unit in the last place of x in dtype t, rounding up; half its least denormal. */
static double half_unit(attn_dtype t, double x) {
    static const double unit[] = {[ATTN_F32] = 0x1p-24, [ATTN_F64] = 0x1p-53, [ATTN_F16] = 0x1p-11, [ATTN_BF16] = 0x1p-8};
    static const double least[] = {[ATTN_F32] = 0x1p-150, [ATTN_F64] = 0x1p-1074, [ATTN_F16] = 0x1p-25, [ATTN_BF16] = 0x1p-134};
    return unit[t] * fabs(x) + least[t];
}

static double greatest(attn_dtype t) {
    static const double most[] = {[ATTN_F32] = 0x1.fffffep127, [ATTN_F64] = 0x1.fffffffffffffp1023, [ATTN_F16] = 65504,
                                  [ATTN_BF16] = 0x1.fep127};
    return most[t];
}

bool row_is_near(const char *what, const attn_tensor *t, int64_t row, const double *want, const double *error, double *share) {
    for (int64_t i = 0; i < row_width(t); i++) {
        const double got = element(t, row, i), own = error ? 1.01 * error[i] : 0;
        const double bound = own + half_unit(t->dtype, fabs(want[i]) + own), off = fabs(got - want[i]);
        const bool beyond = fabs(want[i]) + own >= greatest(t->dtype) * 0.99 && isinf(got);
        if (own == (double)INFINITY || beyond || (isnan(got) && isnan(want[i]))) {
            continue;
        }
        if (!(off <= bound)) {
            print_error("%s, %s: row %lld column %lld is %.17g, should be %.17g within %.3g\n", what, attn_dtype_name(t->dtype),
                        (long long)row, (long long)i, got, want[i], bound);
            return false;
        }
        *share = off / bound > *share ? off / bound : *share;
    }
    return true;
}

void fill_adversarial(const attn_tensor *t, rng *r, int limit) {
    const int64_t kind = rng_int(r, 0, 7), n = row_width(t), b = axis_extent(t, 2), a = axis_extent(t, 1);
    const double size = kind == 4 ? pow(10, -limit) : kind == 5 ? pow(10, limit) : kind == 6 ? 0 : 1;
    const double ground = kind == 2 ? 1000 * rng_normal(r) : kind == 3 ? 3.7 : 0;
    for (int64_t row = 0; row < row_count(t); row++) {
        for (int64_t i = 0; i < n; i++) {
            const double x = kind == 3 ? ground : ground + size * rng_normal(r) * (kind == 7 && i == n / 2 ? 1e4 : 1);
            set_element(t, row / b / a, row / b % a, row % b, i, x);
        }
    }
}
