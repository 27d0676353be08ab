/* SPDX-License-Identifier: Apache-2.0 */
/* One row: masked -> weights -> dropout -> output, each with the bound of its error (docs/numerics.md). */
#include "evaluator.h"

#include <attn_ref.h>
#include <float.h>
#include <math.h>
#include <string.h>

/* Steps in which a row's sums may be multiplied: once for each key block, and twice for each piece of keys. */
static double rescales(const evaluator *e) { return ceil((double)e->Lk / 128) + 2 * ceil((double)e->Lk / 1024); }

/* The part of a power's error bound that is the same for all. */
static double power_steps(const evaluator *e) { return (e->a.exp + 2 * e->a.u) * (1 + rescales(e)); }

/* max(a, b), NaN if either is */
static double greater(double a, double b) { return isnan(a) || a > b ? a : b; }

/* What powers and their sum can be where the maximum is not taken off: ln of the greatest number, of the least normal one and of the least
   denormal; the greatest itself. */
static const struct range {
    double most, normal, least, greatest;
} ranges[] = {[MAX_RIGHT] = {0, 0, 0, 0},
              [MAX_NOT_TAKEN] = {0x1.62e42fp6, -87.34, -103.98, (double)FLT_MAX},
              [MAX_NOT_TAKEN_F16] = {11.09, -9.71, -17.33, 65504},
              [MAX_NOT_TAKEN_F64] = {0x1.62e42fefa39efp9, -708.4, -745.14, DBL_MAX}};

static double power(const evaluator *e, double x)
{
    const struct range *r = &ranges[e->v.max];
    return !e->v.max || (x <= r->most && x >= r->least) ? exp(x) : x > r->most ? (double)INFINITY : x < r->least ? 0 : x;
}

/* The bound of the relative error of e^(masked[j] - top), as a logarithm. */
static double exponent_of(const evaluator *e, int64_t j, double top)
{
    const double x = e->row.masked[j], slack = e->Lk > 128 ? 10 : 0; /* a running maximum may lag by 5, there and back */
    return isfinite(x) && isfinite(top) ? e->row.error[j] + 4 * e->a.u * (fabs(x - top) + slack) + power_steps(e) : 0;
}

/* ------------------------------------------------------------------ groups ---- */

static int64_t place_in_group(const evaluator *e, int64_t j) { return e->v.softmax == SOFTMAX_ALL ? 0 : j; }

/* Adds the row's logits to the group: its greatest (pass 0), then its sums (pass 1). */
static void group_add(evaluator *e, int pass)
{
    softmax_group *g = &e->group;
    const row_values *r = &e->row;
    for (int64_t j = 0; j < e->Lk; j++) {
        const int64_t at = place_in_group(e, j);
        if (r->fate[j] == FATE_GONE)
            continue;
        if (pass == 0) {
            g->top[at] = greater(g->top[at], r->masked[j]);
        } else {
            const double x = r->masked[j] - g->top[at];
            g->sum[at] += exp(x);
            g->grown[at] += exp(x + exponent_of(e, j, g->top[at]));
            g->count[at]++;
        }
    }
}

/* The sink joins once for each head. */
static void group_add_sink(evaluator *e, int64_t h, int pass)
{
    softmax_group *g = &e->group;
    if (!e->p->o.sinks || e->v.sink == SINK_IGNORED)
        return;
    const double sink = e->v.sink == SINK_ZERO ? 0 : ref_element(e->p->o.sinks, 0, 0, 0, h);
    for (int64_t j = 0; j < (e->v.softmax == SOFTMAX_ALL ? 1 : e->Lk); j++) {
        if (pass == 0) {
            g->top[j] = greater(g->top[j], sink);
        } else {
            g->sum[j] += exp(sink - g->top[j]);
            g->grown[j] += exp(sink - g->top[j]);
        }
    }
}

/* The rows that share a softmax with row i of head h: the head's, or those of the other heads at the same place. */
static void group_make(evaluator *e, int64_t b, int64_t h, int64_t i)
{
    softmax_group *g = &e->group;
    const bool heads = e->v.softmax == SOFTMAX_HEADS;
    if (g->made && g->b == b && (heads ? g->i == i : g->h == h))
        return;
    for (int64_t j = 0; j < e->Lk; j++) {
        g->top[j] = -(double)INFINITY;
        g->sum[j] = g->grown[j] = g->count[j] = 0;
    }
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t n = 0; n < (heads ? e->H : e->Lq); n++) {
            const row_place w = heads ? row_of(e, b, n, i) : row_of(e, b, h, n);
            if (w.padding)
                continue;
            row_logits(e, &w);
            group_add(e, pass);
        }
        if (!heads)
            group_add_sink(e, h, pass);
    }
    *g = (softmax_group){.b = b, .h = h, .i = i, .made = true, .top = g->top, .sum = g->sum, .grown = g->grown, .count = g->count};
}

/* ----------------------------------------------------------------- weights ---- */

/* What one weight is divided by. */
typedef struct denominator {
    double top, sum, grown, count;
} denominator;

static bool has_sink(const evaluator *e) { return e->p->o.sinks && e->v.sink != SINK_IGNORED; }

static denominator denominator_of_row(evaluator *e, const row_place *w)
{
    const row_values *r = &e->row;
    const arithmetic *a = &e->a;
    const double sink = !has_sink(e) ? -(double)INFINITY : e->v.sink == SINK_ZERO ? 0 : ref_element(e->p->o.sinks, 0, 0, 0, w->h);
    denominator d = {.top = -(double)INFINITY};
    const bool round = e->v.in.precision && e->v.in.steps & STEPS_SOFTMAX;
    for (int64_t j = 0; j < e->Lk; j++) {
        d.top = r->fate[j] == FATE_GONE ? d.top : greater(d.top, r->masked[j]);
        d.count += r->fate[j] != FATE_GONE;
    }
    const double most = e->v.sink == SINK_OVERFLOWS_F32 ? 0x1.62e42fp6 : 0x1.62e42fefa39efp9, above = sink - d.top;
    const bool overflows = (e->v.sink == SINK_OVERFLOWS_F32 || e->v.sink == SINK_OVERFLOWS_F64) && above > most;
    d.top = e->v.max ? 0 : d.count > 0 ? greater(d.top, sink) : sink;
    if (has_sink(e)) {
        d.sum = power(e, sink - d.top);
        d.grown = exp(sink - d.top + a->u * (2 * fabs(sink) + 4 * (d.top - sink)) + power_steps(e));
    }
    for (int64_t j = 0; j < e->Lk; j++)
        if (r->fate[j] != FATE_GONE) {
            const double x = r->masked[j] - d.top;
            d.sum = round ? keep_sum(e, d.sum + keep(e, exp(keep(e, x)))) : d.sum + power(e, x);
            d.grown += exp(x + exponent_of(e, j, d.top));
        }
    d.sum = overflows || (e->v.max && d.sum > ranges[e->v.max].greatest) ? (double)INFINITY : round ? keep(e, d.sum) : d.sum;
    e->row.risky = e->row.risky || (e->v.max && d.sum > 0 && log(d.sum) < ranges[e->v.max].normal); /* a few bits are left */
    return d;
}

/* Is the key at j one of the row's own sequence? */
static bool of_item(const row_place *w, int64_t j) { return j >= w->first_key && j < w->first_key + w->keys; }

/* A row (or column) without a single key, and what becomes of its weights. */
static double weight_of_nothing(const evaluator *e, const row_place *w, int64_t j)
{
    if (!of_item(w, j))
        return 0;
    switch (e->v.empty) {
    case EMPTY_NAN:
        return (double)NAN;
    case EMPTY_MEAN:
        return 1 / (double)w->keys;
    case EMPTY_MEAN_VALID:
        return j - w->first_key < w->kv_len ? 1 / (double)w->kv_len : 0;
    default:
        return 0;
    }
}

/* Does the causal variation alone keep the row from seeing a key? */
static bool emptied_by_causal(const evaluator *e, const row_place *w)
{
    for (int64_t j = w->first_key; j < w->first_key + w->keys && j - w->first_key <= w->causal_pos; j++)
        if (e->row.hidden[j] == ATTN_HIDDEN_CAUSAL)
            return true;
    return false;
}

/* A weight of that power: here one of the two may be rounded. */
static double narrowed(const evaluator *e, double power_of_x, double sum)
{
    switch (e->v.narrow) {
    case NARROW_WEIGHTS_F16:
        return round_to(ATTN_F16, power_of_x / sum);
    case NARROW_WEIGHTS_BF16:
        return round_to(ATTN_BF16, power_of_x / sum);
    case NARROW_POWERS_F16:
        return round_to(ATTN_F16, power_of_x) / sum;
    case NARROW_POWERS_BF16:
        return round_to(ATTN_BF16, power_of_x) / sum;
    default:
        return power_of_x / sum;
    }
}

static void weigh(evaluator *e, const row_place *w, int64_t j, denominator d)
{
    const arithmetic *a = &e->a;
    row_values *r = &e->row;
    if (d.count == 0 && !has_sink(e) && e->v.empty && (!e->v.empty_own || emptied_by_causal(e, w))) {
        r->weights[j] = weight_of_nothing(e, w, j);
        r->drift[j] = ((double)e->Lk + 4) * a->u * fabs(r->weights[j]);
        r->fate[j] = r->weights[j] == 0 ? FATE_GONE : FATE_SEEN;
        return;
    }
    if (r->fate[j] == FATE_GONE)
        return;
    const double x = r->masked[j] - d.top;
    const bool round = e->v.in.precision && e->v.in.steps & STEPS_SOFTMAX;
    r->weights[j] = narrowed(e, round ? keep(e, exp(keep(e, x))) : power(e, x), d.sum);
    r->weights[j] = e->v.in.full & FULL_WEIGHTS ? r->weights[j] : keep(e, r->weights[j]);
    if (isfinite(x) && isfinite(d.sum)) {
        const double S = fmax(0, log(d.grown / d.sum)) + (d.count + rescales(e) + 4) * a->u, ln = x - log(d.sum);
        const double up = exp(ln + exponent_of(e, j, d.top) + S) - exp(ln);
        r->drift[j] = fmin(1, up) + 4 * a->u * exp(ln) + 256 * (d.count + 8) * a->least;
    }
    if (r->fate[j] == FATE_ZEROED)
        r->weights[j] = r->drift[j] = 0;
    if (r->fate[j] == FATE_ADDED) {
        r->weights[j] += r->after[j];
        r->drift[j] += isfinite(r->weights[j]) ? 4 * a->u * fabs(r->weights[j]) : 0;
    }
}

/* weights[j] = exp(masked[j] - max) / (sum over the keys seen of the same + exp(sink - max)) */
static void stage_weights(evaluator *e, const row_place *w)
{
    row_values *r = &e->row;
    const bool shared = e->v.softmax == SOFTMAX_COLUMNS || e->v.softmax == SOFTMAX_ALL || e->v.softmax == SOFTMAX_HEADS;
    memset(r->weights, 0, (size_t)e->Lk * sizeof(double));
    memset(r->drift, 0, (size_t)e->Lk * sizeof(double));
    if (e->v.softmax == SOFTMAX_NONE || e->v.softmax == SOFTMAX_NONE_INF) {
        for (int64_t j = 0; j < e->Lk; j++) {
            const bool gone = r->fate[j] == FATE_GONE, counts = !gone || (e->v.softmax == SOFTMAX_NONE_INF && of_item(w, j));
            r->weights[j] = counts ? r->masked[j] : 0;
            r->drift[j] = gone ? 0 : r->error[j];
            r->fate[j] = counts ? FATE_SEEN : FATE_GONE;
        }
        return;
    }
    const denominator own = denominator_of_row(e, w);
    r->row_max = own.top;
    r->lse = own.count > 0 || has_sink(e) ? own.top + log(own.sum)
             : e->v.lse == LSE_EMPTY_INF  ? (double)INFINITY
             : e->v.lse == LSE_EMPTY_NAN  ? (double)NAN
                                          : -(double)INFINITY;
    for (int64_t j = 0; j < e->Lk; j++) {
        const int64_t at = place_in_group(e, j);
        const softmax_group *g = &e->group;
        weigh(e, w, j, shared ? (denominator){g->top[at], g->sum[at], g->grown[at], g->count[at]} : own);
    }
}

static void stage_entropy(evaluator *e)
{
    e->row.entropy = 0;
    for (int64_t j = 0; j < e->Lk; j++)
        e->row.entropy -= e->row.weights[j] == 0 ? 0 : e->row.weights[j] * log(e->row.weights[j]);
}

/* weights[j] = weights[j] / (1 - p) where kept, else 0 */
static void stage_dropout(evaluator *e, const row_place *w)
{
    const attn_sdpa_opts *o = &e->p->o;
    const bool seen = e->v.keep == KEEP_SEEN;
    const double p = seen ? e->p->seen_p : o->dropout;
    row_values *r = &e->row;
    if (e->v.no_dropout || (!seen && o->dropout == 0))
        return;
    for (int64_t j = 0; j < e->Lk; j++) {
        if (r->fate[j] == FATE_GONE)
            continue;
        const bool kept = seen      ? e->p->seen_kept[((w->b * e->H + w->h) * e->Lq + w->i) * e->Lk + j]
                          : o->keep ? ref_element(o->keep, w->b, w->h, w->i, j) != 0
                                    : ref_dropout_keeps(o->seed, o->dropout, o->first_batch + w->item, o->first_head + w->h,
                                                        o->first_row + w->local, j - w->first_key);
        const double divisor = !kept || p >= 1 ? 0 : e->v.kept == KEPT_NOT_SCALED ? 1 : 1 - p;
        r->weights[j] = divisor > 0 ? r->weights[j] / divisor : 0;
        r->drift[j] = divisor > 0 ? (r->drift[j] + 4 * e->a.u * fabs(r->weights[j])) / divisor : 0;
    }
}

/* ------------------------------------------------------------------ output ---- */

/* What places to round, and numbers that are rounded to the other side, may add to a sum in parts of its size. */
static double ulps_of(const evaluator *e)
{
    const bool bf16 = e->v.in.precision == PRECISION_BF16 || e->v.narrow == NARROW_WEIGHTS_BF16 || e->v.narrow == NARROW_POWERS_BF16;
    const double half_ulp = roundoff_of(bf16 ? ATTN_BF16 : ATTN_F16);
    return e->v.in.precision ? 4 * half_ulp : e->v.narrow ? half_ulp : e->v.stored == STORED_WEIGHTS ? 1.01 * roundoff_of(e->p->dtype) : 0;
}

/* Adds weight * v of one key to the output, and to what its bound is made of; error NULL: v is exact. */
static void add_value(evaluator *e, double weight, double drift, const double *v, const double *error)
{
    double *out = e->row.output, *limit = e->row.limit, *size = e->linear_size;
    const double most = fabs(weight);
    if (keeps_sums(e))
        for (int64_t c = 0; c < e->d_v; c++)
            out[c] = keep_sum(e, out[c] + keep_product(e, weight * v[c]));
    else
        for (int64_t c = 0; c < e->d_v; c++)
            out[c] += weight * v[c];
    for (int64_t c = 0; c < e->d_v; c++) {
        limit[c] += drift * fabs(v[c]);
        size[c] += most * fabs(v[c]);
    }
    for (int64_t c = 0; error && c < e->d_v; c++) {
        limit[c] += (drift + most) * error[c];
        size[c] += most * error[c];
    }
}

/* output[c] = sum over the keys seen of weights[j] v[j,c] */
static void stage_output(evaluator *e, const row_place *w)
{
    const arithmetic *a = &e->a;
    row_values *r = &e->row;
    double count = 0, *size = e->linear_size;
    const int64_t head = (w->b * e->Hkv + kv_head_of(e, w->h)) * e->Lk;
    const bool k_as_v = e->v.values == VALUES_K;
    const double *value = k_as_v ? e->k : e->v_, *error = k_as_v ? e->dk : e->dv;
    e->work += (double)(e->Lk * e->d_v);
    for (int64_t c = 0; c < e->d_v; c++)
        r->output[c] = r->limit[c] = size[c] = 0;
    for (int64_t j = 0; j < e->Lk; j++) {
        if (r->fate[j] == FATE_GONE && (e->v.gone != GONE_COMPUTED || !of_item(w, j)))
            continue;
        const int64_t at = (head + j) * e->d_v;
        add_value(e, r->weights[j], r->drift[j], value + at, error ? error + at : NULL);
        count++;
    }
    for (int64_t c = 0; c < e->d_v; c++) {
        r->output[c] = keep(e, r->output[c]);
        r->limit[c] += count == 0 ? 0 : (count + rescales(e) + 4) * a->u * size[c] + 256 * (count + 8) * a->tiny;
        r->limit[c] += ulps_of(e) * size[c];
        r->limit[c] = r->risky ? (double)INFINITY : r->limit[c];
    }
}

static void compare_weights(evaluator *e, const row_place *w)
{
    const double *given = e->p->got_weights + ((w->b * e->H + w->h) * e->Lq + w->i) * e->Lk;
    const row_values *r = &e->row;
    for (int64_t j = 0; j < e->Lk; j++) {
        const double drift = r->coarse ? r->drift[j] : sharpness(e) * r->drift[j];
        const double off = fabs(given[j] - r->weights[j]), limit = limit_of(e->p, r->weights[j], drift);
        const bool same = given[j] == r->weights[j] || (isnan(given[j]) && isnan(r->weights[j])) || r->risky;
        const double abs = same ? 0 : isnan(off) ? (double)INFINITY : off;
        e->weights_abs = fmax(e->weights_abs, abs);
        e->weights_bounds = fmax(e->weights_bounds, same ? 0 : abs / limit);
    }
}

static void empty_row(evaluator *e)
{
    row_values *r = &e->row;
    memset(r->weights, 0, (size_t)e->Lk * sizeof(double));
    memset(r->drift, 0, (size_t)e->Lk * sizeof(double));
    memset(r->output, 0, (size_t)e->d_v * sizeof(double));
    memset(r->limit, 0, (size_t)e->d_v * sizeof(double));
    for (int64_t j = 0; j < e->Lk; j++)
        r->masked[j] = -(double)INFINITY;
    r->row_max = r->lse = -(double)INFINITY;
    r->entropy = 0;
    r->risky = false;
}

void evaluator_row(evaluator *e, int64_t b, int64_t h, int64_t i)
{
    const row_place w = row_of(e, b, h, i);
    if (!w.padding && (e->v.softmax == SOFTMAX_COLUMNS || e->v.softmax == SOFTMAX_ALL || e->v.softmax == SOFTMAX_HEADS))
        group_make(e, b, h, i);
    row_logits(e, &w);
    if (w.padding) {
        empty_row(e);
    } else {
        stage_weights(e, &w);
        stage_entropy(e);
        stage_dropout(e, &w);
        stage_output(e, &w);
    }
    if (e->p->got_weights)
        compare_weights(e, &w);
}
