/* SPDX-License-Identifier: Apache-2.0 */
/* A bound holds for the worst case of every rounding at once; that of mha, a chain of stages, is far from what happens. The same
   computation once more, each number and each step of each sum rounded to f32, tells that. */
#include "usual.h"
#include "problem.h"

#include <math.h>
#include <string.h>

/* Multiply-adds of the projections that are worth it. */
static const double most_work = 6e9;

/* f32 whatever the dtype of OUT: parts of a bound are about the same in f64. */
static variation in_f32_bounds(const problem *p, variation v)
{
    v.stored = p->dtype == ATTN_F64 ? STORED_F32 : v.stored;
    return v;
}

static variation in_f32(variation v)
{
    v.in.precision = PRECISION_F32;
    v.in.steps = STEPS_SCORES | STEPS_SOFTMAX | STEPS_PRODUCTS;
    v.in.full = v.hide == HIDE_1E9 ? FULL_MASKED : FULL_NOWHERE; /* what is left of a score beside 1e9 was added in f64 */
    return v;
}

static void deliver_rows(evaluator *e, const variation *v, const int64_t *rows, int64_t count, double *out, double *limit)
{
    const size_t width = (size_t)e->p->width;
    evaluator_set(e, v);
    for (int64_t n = 0; n < count; n++) {
        evaluator_deliver(e, rows[n]);
        memcpy(out + (size_t)n * width, e->out, width * sizeof *out);
        if (limit)
            memcpy(limit + (size_t)n * width, e->out_limit, width * sizeof *limit);
    }
}

usual_error usual_error_of(evaluator *e, const variation *v, const int64_t *rows, int64_t count)
{
    const problem *p = e->p;
    const int64_t cells = count * p->width;
    const variation exact = in_f32_bounds(p, *v), rounded = in_f32(exact);
    const double u = roundoff_of(ATTN_F32), sharp = e->sharp, weights_abs = e->weights_abs, weights_bounds = e->weights_bounds;
    usual_error usual = {0, 0};
    if (!p->mha || p->given || v->in.precision || v->narrow || v->stored || evaluator_setup_cost(p, v) > most_work)
        return usual_unknown;
    double *want = arena_zeroed(e->m, cells, sizeof *want), *limit = arena_zeroed(e->m, cells, sizeof *limit),
           *out = arena_zeroed(e->m, cells, sizeof *out);
    if (!want || !limit || !out)
        return usual_unknown;
    e->sharp = 1;
    deliver_rows(e, &exact, rows, count, want, limit);
    deliver_rows(e, &rounded, rows, count, out, NULL);
    e->sharp = sharp;
    e->weights_abs = weights_abs;
    e->weights_bounds = weights_bounds;
    for (int64_t n = 0; n < cells; n++) {
        const double most = limit_of(p, want[n], limit[n]), off = fabs(round_to(p->dtype, out[n]) - want[n]) + u * fabs(want[n]);
        if (!isfinite(want[n]) || !isfinite(most))
            continue;
        usual.abs = fmax(usual.abs, fabs(out[n] - want[n]) + u * fabs(want[n]));
        usual.share = fmax(usual.share, off < most ? off / most : 1);
    }
    usual.abs *= p->a.u / u;
    return usual.share > 0 ? usual : usual_unknown;
}
