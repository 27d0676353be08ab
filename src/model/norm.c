/* SPDX-License-Identifier: Apache-2.0 */
/* attn_layer_norm and attn_rms_norm. */
#include "norm.h"

#include "../ops/overlap.h"
#include <math.h>

enum { CHAINS = 8, KNOWN_FLAGS = ATTN_NORM_EPS | ATTN_NORM_PLUS_ONE | ATTN_NORM_RMS };

/* The sum of x - shift, or of its squares, in f64. The order is fixed: eight chains, added in order. */
#define SUM_OF(NAME, REAL)                                                                                                                \
    static double NAME(const REAL *x, int64_t n, double shift, int squares)                                                               \
    {                                                                                                                                     \
        double chain[CHAINS] = {0}, sum = 0;                                                                                              \
        int64_t i = 0;                                                                                                                    \
        for (; i + CHAINS <= n; i += CHAINS)                                                                                              \
            for (int c = 0; c < CHAINS; c++) {                                                                                            \
                const double d = (double)x[i + c] - shift;                                                                                \
                chain[c] += squares ? d * d : d;                                                                                          \
            }                                                                                                                             \
        for (int c = 0; i < n; i++, c++) {                                                                                                \
            const double d = (double)x[i] - shift;                                                                                        \
            chain[c] += squares ? d * d : d;                                                                                              \
        }                                                                                                                                 \
        for (int c = 0; c < CHAINS; c++)                                                                                                  \
            sum += chain[c];                                                                                                              \
        return sum;                                                                                                                       \
    }

/* row [n] <- (row - mean) / sqrt(var + eps) * weight + bias, row + other instead of row where there is another; RMSNorm: mean 0. Computed
   in f64, whatever REAL is; row + other is rounded to REAL first. */
#define NORM_ROW(NAME, REAL, SUM)                                                                                                         \
    static void NAME(const void *how, const double *const vector[2], const REAL *restrict other, REAL *restrict row, int64_t n)           \
    {                                                                                                                                     \
        const attn_norm_opts *o = how;                                                                                                    \
        const double *restrict weight = vector[0], *restrict bias = vector[1];                                                            \
        for (int64_t i = 0; other && i < n; i++)                                                                                          \
            row[i] += other[i];                                                                                                           \
        const double mean = o->flags & ATTN_NORM_RMS ? 0 : SUM(row, n, 0, 0) / (double)n;                                                 \
        const double scale = 1 / sqrt(SUM(row, n, mean, 1) / (double)n + o->eps), one = o->flags & ATTN_NORM_PLUS_ONE ? 1 : 0;            \
        if (weight && bias) {                                                                                                             \
            for (int64_t i = 0; i < n; i++)                                                                                               \
                row[i] = (REAL)(((double)row[i] - mean) * scale * (one + weight[i]) + bias[i]);                                           \
            return;                                                                                                                       \
        }                                                                                                                                 \
        for (int64_t i = 0; i < n; i++) {                                                                                                 \
            const double x = ((double)row[i] - mean) * scale, y = weight ? x * (one + weight[i]) : x;                                     \
            row[i] = (REAL)(bias ? y + bias[i] : y);                                                                                      \
        }                                                                                                                                 \
    }

SUM_OF(sum_of_f32, float)
SUM_OF(sum_of_f64, double)
NORM_ROW(norm_row_f32, float, sum_of_f32)
NORM_ROW(norm_row_f64, double, sum_of_f64)

attn_status attn_norm_check(attn_ctx *ctx, attn_norm_opts *own, const attn_norm_opts *theirs, int64_t n)
{
    attn_status status = attn_copy_struct(ctx, own, sizeof *own, theirs, "attn_norm_opts");
    if (status != ATTN_OK)
        return status;
    if (own->flags & ~(uint32_t)KNOWN_FLAGS)
        return attn_fail(ctx, ATTN_E_ARG, "attn_norm_opts.flags has unknown bits 0x%x", own->flags & ~(uint32_t)KNOWN_FLAGS);
    if (own->flags & ATTN_NORM_EPS ? !(own->eps >= 0 && own->eps < INFINITY) : own->eps != 0)
        return attn_fail(ctx, ATTN_E_ARG, "eps is %g; it must be finite and not negative, and ATTN_NORM_EPS says that it is given",
                         own->eps);
    if (own->flags & ATTN_NORM_PLUS_ONE && !own->weight)
        return attn_fail(ctx, ATTN_E_ARG, "ATTN_NORM_PLUS_ONE is set but weight is NULL; the factor 1 + weight needs one");
    if (!(own->flags & ATTN_NORM_EPS))
        own->eps = 1e-5;
    status = attn_model_check_vector(ctx, own->weight, "weight", n, "x has");
    return status ? status : attn_model_check_vector(ctx, own->bias, "bias", n, "x has");
}

attn_status attn_norm_run(attn_ctx *ctx, const attn_tensor *out, const attn_tensor *x, const attn_norm_opts *o)
{
    return attn_add_norm_run(ctx, out, x, NULL, o);
}

attn_status attn_add_norm_run(attn_ctx *ctx, const attn_tensor *out, const attn_tensor *x, const attn_tensor *other,
                              const attn_norm_opts *o)
{
    attn_row_work w = {.out = out, .x = x, .other = other, .vector = {o->weight, o->bias}, .compute = norm_row_f64, .how = o};
    if (out->dtype == ATTN_F32 && x->dtype != ATTN_F64)
        w.compute_f32 = norm_row_f32;
    return attn_run_rows(ctx, &w);
}

static attn_status norm(attn_ctx *ctx, const attn_tensor *out, const attn_tensor *x, const attn_norm_opts *opts, uint32_t kind)
{
    attn_norm_opts o;
    attn_named_list outputs = {.n = 0}, inputs = {.n = 0};
    if (!ctx)
        return ATTN_E_ARG;
    attn_begin(ctx);
    attn_status status = attn_model_check_floats(ctx, x, "x", 1, ATTN_MAX_DIMS, "1 to 8 axes");
    status = status ? status : attn_model_check_like(ctx, out, "out", x, "x");
    status = status ? status : attn_norm_check(ctx, &o, opts, x->shape[x->ndim - 1]);
    if (status != ATTN_OK)
        return status;
    o.flags = (o.flags & ~(uint32_t)ATTN_NORM_RMS) | kind;
    attn_list_add(&outputs, out, "out");
    attn_list_add(&inputs, x, "x");
    attn_list_add(&inputs, o.weight, "weight");
    attn_list_add(&inputs, o.bias, "bias");
    status = attn_check_apart(ctx, &outputs, &inputs);
    return status ? status : attn_norm_run(ctx, out, x, &o);
}

attn_status attn_layer_norm(attn_ctx *ctx, attn_tensor *out, const attn_tensor *x, const attn_norm_opts *opts)
{
    return norm(ctx, out, x, opts, 0);
}

attn_status attn_rms_norm(attn_ctx *ctx, attn_tensor *out, const attn_tensor *x, const attn_norm_opts *opts)
{
    return norm(ctx, out, x, opts, ATTN_NORM_RMS);
}
