/* SPDX-License-Identifier: Apache-2.0 */
#include "bound.h"

#include <float.h>
#include <math.h>

const char *const quantity_name[QUANTITIES] = {"output",  "lse",    "row_max", "entropy", "mass",  "weights",
                                               "average", "scores", "scaled",  "capped",  "masked", "project", "joined"};

/* The constants of docs/numerics.md for the precision that the call computes in. */
typedef struct arithmetic {
    double u;           /* unit roundoff */
    double exp, tanh;   /* relative errors of the kernels' functions, argument exact */
    double tiny, least; /* smallest denormal, smallest normal */
    double most;
    double slack; /* second-order terms; f64: and the reference's own errors, which are of the same size */
    double more;     /* roundings of a sum beyond those of multiply-adds */
    double rounding; /* of a weight to bf16, as a logarithm; 0: it is not rounded */
    double flush;    /* what an operand or result may be taken for 0 below; 0: denormals count */
} arithmetic;
static const arithmetic arithmetic_f32 = {0x1p-24, 1.5e-7, 6e-7, 0x1p-149, FLT_MIN, FLT_MAX, 1.01, 0, 0, 0};
static const arithmetic arithmetic_f64 = {0x1p-53, 3e-16, 2e-15, 0x1p-1074, DBL_MIN, DBL_MAX, 2.02, 0, 0, 0};
static const arithmetic arithmetic_pairs = {0x1p-24, 1.5e-7, 6e-7, 0x1p-149, FLT_MIN, FLT_MAX, 1.01, 4, 0x1p-8, FLT_MIN};

static const arithmetic *arithmetic_of(attn_dtype real) {
    return real == ATTN_F64 ? &arithmetic_f64 : &arithmetic_f32;
}

typedef struct check {
    problem *p;
    const ref_result *r;
    tally *t;
    arithmetic a;
    double scale;
    double *q, *k, *v;    /* [B,H,Lq,d] [B,Hkv,Lk,d] [B,Hkv,Lk,d_v] as doubles */
    double *dq, *dk, *dv; /* the same shapes: how far each may be off */
    double *drift;      /* [B,H,Lq,Lk] bound of the error of each weight, after dropout */
    double *logit;      /* [Lk] bound of the error of each masked score */
    double *exponent;   /* [Lk] bound of the relative error of each e^(masked - max), as a logarithm */
    double denominator; /* bound of the error of ln(sum of those as they are mixed) */
    double sink;        /* bound of the relative error of the sink's power times its weight */
    bool *risky;        /* [B,H,Lq] rows that may overflow */
    bool ok;
} check;

/* ---------------------------------------------------------------- reading ---- */

/* [heads][rows][width] as doubles; packed input is [rows][heads][width]. Zeros for a tensor that is not there. */
static double *read_heads(problem *p, const attn_tensor *t, int64_t heads, int64_t rows, int64_t width) {
    double *all = pool_get(&p->memory, (size_t)(p->B * heads * rows * width) * sizeof *all), *next = all;
    for (int64_t b = 0; t->ndim && b < p->B; b++) {
        for (int64_t h = 0; h < heads; h++) {
            for (int64_t i = 0; i < rows; i++) {
                for (int64_t c = 0; c < width; c++) {
                    *next++ = p->packed ? ref_element(t, 0, i, h, c) : ref_element(t, b, h, i, c);
                }
            }
        }
    }
    return all;
}

static int64_t row_index(const check *c, int64_t b, int64_t h, int64_t i) {
    return (b * c->r->H + h) * c->r->Lq + i;
}

static int64_t kv_head_of(const check *c, int64_t b, int64_t h) {
    return b * c->p->Hkv + h / (c->p->H / c->p->Hkv);
}

/* ---------------------------------------------------------------- compare ---- */

static double roundoff_of(attn_dtype t) {
    return t == ATTN_F64 ? 0x1p-53 : t == ATTN_F32 ? 0x1p-24 : t == ATTN_F16 ? 0x1p-11 : 0x1p-8;
}

static double denormal_of(attn_dtype t) {
    return t == ATTN_F64 ? 0x1p-1074 : t == ATTN_F32 ? 0x1p-149 : t == ATTN_F16 ? 0x1p-24 : 0x1p-133;
}

static double greatest_of(attn_dtype t) {
    return t == ATTN_F64 ? DBL_MAX : t == ATTN_F32 ? (double)FLT_MAX : t == ATTN_F16 ? 65504 : 0x1.FEp127;
}

enum { EXACT = -1 };

/* The bound of an element after its rounding to dtype t. */
static double limit_of(const arithmetic *a, attn_dtype t, double want, double bound) {
    return a->slack * bound + (fabs(want) + bound) * roundoff_of(t) * 1.001 + denormal_of(t);
}

/* One element: |got - want| <= bound and the rounding to the output's dtype; a -inf or NaN is met in kind. EXACT: got == want. */
static void compare(check *c, enum quantity what, const attn_tensor *t, const int64_t at[4], double want, double bound) {
    const double got = ref_element(t, at[0], at[1], at[2], at[3]);
    c->t->compared[what]++;
    if (got == want || (!isfinite(want) && want != -(double)INFINITY && !isfinite(got))) {
        return;
    }
    if (isfinite(want) && bound != EXACT) {
        const double limit = limit_of(&c->a, t->dtype, want, bound), error = fabs(got - want);
        if (fabs(want) + limit > greatest_of(t->dtype)) {
            return;
        }
        if (error <= limit) {
            c->t->share[what] = fmax(c->t->share[what], error / limit);
            return;
        }
        if (c->ok) {
            print_error("error %.3g beyond the bound %.3g: ", error, limit);
        }
    }
    if (c->ok) {
        print_error("%s [%lld,%lld,%lld,%lld] is %.17g, should be %.17g\n", quantity_name[what], (long long)at[0], (long long)at[1],
                    (long long)at[2], (long long)at[3], got, want);
    }
    c->ok = false;
}

#define AT(...) ((const int64_t[4]){__VA_ARGS__})

/* ----------------------------------------------------------- scores, logits ---- */

/* The row's stages, and the bounds that its softmax starts from. */
static void check_logits(check *c, int64_t b, int64_t h, int64_t i) {
    const ref_result *r = c->r;
    const attn_sdpa_opts *o = &c->p->opts;
    const arithmetic *a = &c->a;
    const double d = (double)r->d, cap = o->softcap, scale = fabs(c->scale);
    const int64_t row = row_index(c, b, h, i);
    c->risky[row] = false;
    for (int64_t j = 0; j < r->Lk; j++) {
        const int64_t cell = row * r->Lk + j, q = row * r->d, k = (kv_head_of(c, b, h) * r->Lk + j) * r->d;
        double size = 0, k_size = 0, q_size = 0, moved = 0; /* moved: by what q and k are off */
        for (int64_t n = 0; n < r->d; n++) {
            const double q_most = fabs(c->q[q + n]) + c->dq[q + n], k_most = fabs(c->k[k + n]) + c->dk[k + n];
            size += q_most * k_most;
            k_size += k_most;
            q_size += q_most;
            moved += q_most * k_most - fabs(c->q[q + n] * c->k[k + n]);
        }
        const double flushed = a->flush * (q_size + k_size + 4 * d);
        const double score = (d + 2 + a->more) * a->u * size + d * a->tiny + moved + flushed;
        const double scaled = (d + 4 + a->more) * a->u * scale * size + (k_size + d) * a->tiny + scale * (moved + flushed);
        const double tanh_error = a->tanh * fabs(r->capped[cell]) + 4 * a->u * fmin(fabs(r->scaled[cell]), cap) + 3 * cap * a->tiny;
        const double capped = cap > 0 ? scaled + tanh_error : scaled;
        bool overflows = !(2 * size * fmax(1, scale) < a->most);
        if (o->scores && !overflows) {
            compare(c, SCORES, o->scores, AT(b, h, i, j), r->scores[cell], score);
        }
        if (o->scaled && !overflows) {
            compare(c, SCALED, o->scaled, AT(b, h, i, j), r->scaled[cell], scaled);
        }
        if (o->capped && !overflows) {
            compare(c, CAPPED, o->capped, AT(b, h, i, j), r->capped[cell], capped);
        }
        double added = 0; /* sum of the magnitudes of what is added */
        if (!r->hidden[cell]) {
            const double bias = o->bias ? ref_element(o->bias, b, h, i, j) : 0;
            const double mask = o->mask && is_float_dtype(o->mask->dtype) ? ref_element(o->mask, b, h, i, j) : 0;
            added = fabs(bias) + fabs(mask) + fabs(r->masked[cell] - r->capped[cell] - bias - mask);
        }
        c->logit[j] = capped + 6 * a->u * (fabs(r->capped[cell]) + added);
        overflows = overflows || !(fabs(r->capped[cell]) + added < a->most * (1 + a->u / 4));
        if (!r->hidden[cell] && overflows) {
            c->risky[row] = true;
        } else if (o->masked) {
            compare(c, MASKED, o->masked, AT(b, h, i, j), r->masked[cell], c->logit[j]);
        }
    }
}

/* ---------------------------------------------------------------- softmax ---- */

/* ln of the weight before dropout; of one that is below the range of a double too */
static double log_weight(const check *c, int64_t row, int64_t j) {
    return c->r->masked[row * c->r->Lk + j] - c->r->lse[row];
}

/* Steps in which a row's sums may be multiplied: once for each key block, and twice for each piece of keys. */
static double rescales(const check *c) {
    return ceil((double)c->r->Lk / 128) + 2 * ceil((double)c->r->Lk / 1024);
}

/* Fills exponent[] and denominator, and returns S, the bound of the error of ln(sum of the powers). */
static double denominator_bound(check *c, int64_t h, int64_t row, int64_t visible) {
    const ref_result *r = c->r;
    const arithmetic *a = &c->a;
    const attn_tensor *sinks = c->p->opts.sinks;
    const double lse = r->lse[row], steps = (a->exp + 2 * a->u) * (1 + rescales(c));
    const double sink = sinks ? ref_element(sinks, 0, 0, 0, h) : -(double)INFINITY;
    const double top = fmax(r->row_max[row], sink), slack = r->Lk > 128 ? 10 : 0; /* a max may lag by 5, there and back */
    const double sink_error = a->u * (2 * fabs(sink) + 4 * (top - sink)) + steps;
    const double rounded = ((double)visible + rescales(c) + 4 + a->more) * a->u;
    double sum = sinks ? exp(sink - lse + sink_error) : 0, mixed = sum;
    c->sink = sinks ? exp(sink - lse) * expm1(sink_error) : 0;
    for (int64_t j = 0; j < r->Lk; j++) {
        if (!r->hidden[row * r->Lk + j]) {
            const double distance = fabs(r->masked[row * r->Lk + j] - top) + slack;
            c->exponent[j] = c->logit[j] + 4 * a->u * distance + steps;
            sum += exp(log_weight(c, row, j) + c->exponent[j]);
            mixed += exp(log_weight(c, row, j) + c->exponent[j] + a->rounding);
        }
    }
    c->denominator = fmax(0, log(mixed)) + rounded;
    return fmax(0, log(sum)) + rounded;
}

/* The row's weights, lse and so on. The bounds of the weights after dropout are left in drift. */
static void check_softmax(check *c, int64_t b, int64_t h, int64_t i, int64_t visible) {
    const ref_result *r = c->r;
    const attn_sdpa_opts *o = &c->p->opts;
    const arithmetic *a = &c->a;
    const int64_t row = row_index(c, b, h, i);
    const double S = denominator_bound(c, h, row, visible), lse = r->lse[row], kept = o->dropout < 1 ? 1 / (1 - o->dropout) : 0;
    const double flushed = 256 * ((double)visible + 8) * a->least;
    double entropy = 0, top = 0;
    for (int64_t j = 0; j < r->Lk; j++) {
        const int64_t cell = row * r->Lk + j;
        c->drift[cell] = 0;
        if (!r->hidden[cell]) {
            const double ln = log_weight(c, row, j), w = exp(ln), up = exp(ln + c->exponent[j] + S) - w;
            const double error = fmin(1, up) + 4 * a->u * w + flushed;
            const double ln_error = c->exponent[j] + S + 4 * a->u * (fabs(r->masked[cell]) + fabs(lse));
            entropy += error * fabs(ln) + (w + error) * fmin(ln_error, 1 + fabs(ln)) + ((double)visible + 4) * a->u * w * fabs(ln);
            top = fmax(top, c->logit[j]);
            c->drift[cell] = r->weights[cell] == 0 && o->dropout > 0 ? kept * flushed : kept * (error + 4 * a->u * w);
        }
        if (o->weights && !(o->flags & ATTN_AVERAGE)) {
            compare(c, WEIGHTS, o->weights, AT(b, h, i, j), r->weights[cell], r->hidden[cell] ? EXACT : c->drift[cell]);
        }
    }
    if (o->lse) {
        compare(c, LSE, o->lse, AT(0, b, h, i), lse, S + 4 * a->u * (fabs(lse) + fabs(r->row_max[row])));
    }
    if (o->row_max) {
        compare(c, ROW_MAX, o->row_max, AT(0, b, h, i), r->row_max[row], top);
    }
    if (o->entropy) {
        compare(c, ENTROPY, o->entropy, AT(0, b, h, i), r->entropy[row], entropy);
    }
}

/* Element n of a row of the output. */
static void check_element_of_output(check *c, int64_t b, int64_t h, int64_t i, int64_t n, double bound) {
    const int64_t at = row_index(c, b, h, i) * c->r->d_v + n;
    const double want = c->r->output[at];
    if (c->p->out.ndim) {
        compare(c, OUTPUT, &c->p->out, c->p->packed ? AT(0, i, h, n) : AT(b, h, i, n), want, bound);
    }
    if (c->p->out_error) {
        c->p->out_error[at] = bound == EXACT ? 0 : limit_of(&c->a, computed_in(c->p), want, bound);
    }
}

/* Element n of a row whose weights were rounded. What is mixed is divided by its own sum, so that an error of a weight counts by how far
   its value is from the output; where the logits say little, a weight may be off by all of itself and by 1. */
static double rounded_mix(const check *c, int64_t b, int64_t h, int64_t i, int64_t n) {
    const ref_result *r = c->r;
    const double kept = c->p->opts.dropout < 1 ? 1 / (1 - c->p->opts.dropout) : 0, lost = 256 * c->a.least;
    const int64_t row = row_index(c, b, h, i);
    const double out = r->output[row * r->d_v + n], S = c->denominator;
    double around = c->sink * exp(S) * fabs(out), whole = 0;
    for (int64_t j = 0; j < r->Lk; j++) {
        if (!r->hidden[row * r->Lk + j]) {
            const double ln = log_weight(c, row, j), w = exp(ln), up = exp(ln + c->exponent[j] + c->a.rounding + S);
            const bool is_dropped = c->p->opts.dropout > 0 && w > 0 && r->weights[row * r->Lk + j] == 0;
            const double v = is_dropped ? 0 : kept * c->v[(kv_head_of(c, b, h) * r->Lk + j) * r->d_v + n];
            around += (up - exp(ln + S) + lost) * fabs(v - out);
            whole += (fmin(1, up - w) + lost) * fabs(v);
        }
    }
    return fmin(around, whole);
}

static void check_output(check *c, int64_t b, int64_t h, int64_t i, int64_t visible) {
    const ref_result *r = c->r;
    const arithmetic *a = &c->a;
    const int64_t row = row_index(c, b, h, i);
    for (int64_t n = 0; n < r->d_v; n++) {
        double error = 0, size = 0;
        for (int64_t j = 0; j < r->Lk; j++) {
            if (!r->hidden[row * r->Lk + j]) {
                const int64_t cell = row * r->Lk + j, at = (kv_head_of(c, b, h) * r->Lk + j) * r->d_v + n;
                error += c->drift[cell] * (fabs(c->v[at]) + c->dv[at]) + r->weights[cell] * c->dv[at];
                size += r->weights[cell] * (fabs(c->v[at]) + c->dv[at]);
            }
        }
        if (a->rounding > 0) {
            error = rounded_mix(c, b, h, i, n);
        }
        error += ((double)visible + rescales(c) + 4 + a->more) * a->u * size + 256 * ((double)visible + 8) * fmax(a->tiny, a->flush);
        check_element_of_output(c, b, h, i, n, error);
    }
}

/* A row that sees nothing: zeros; lse the sink or -inf. */
static void check_blind_row(check *c, int64_t b, int64_t h, int64_t i) {
    const attn_sdpa_opts *o = &c->p->opts;
    const int64_t row = row_index(c, b, h, i);
    for (int64_t n = 0; n < c->r->d_v; n++) {
        check_element_of_output(c, b, h, i, n, EXACT);
    }
    for (int64_t j = 0; o->weights && !(o->flags & ATTN_AVERAGE) && j < c->r->Lk; j++) {
        compare(c, WEIGHTS, o->weights, AT(b, h, i, j), 0, EXACT);
    }
    if (o->lse) {
        compare(c, LSE, o->lse, AT(0, b, h, i), c->r->lse[row], 2 * c->a.u * fabs(c->r->lse[row]));
    }
    if (o->row_max) {
        compare(c, ROW_MAX, o->row_max, AT(0, b, h, i), -(double)INFINITY, EXACT);
    }
    if (o->entropy) {
        compare(c, ENTROPY, o->entropy, AT(0, b, h, i), 0, EXACT);
    }
}

/* ------------------------------------------------------------------- sums ---- */

static void check_mass(check *c, int64_t b, int64_t h) {
    const ref_result *r = c->r;
    for (int64_t j = 0; j < r->Lk; j++) {
        double error = 0;
        for (int64_t i = 0; i < r->Lq; i++) {
            const int64_t row = row_index(c, b, h, i);
            if (c->risky[row]) {
                return;
            }
            error += c->drift[row * r->Lk + j] + ((double)r->Lq + 2) * c->a.u * r->weights[row * r->Lk + j];
        }
        compare(c, MASS, c->p->opts.mass, AT(0, b, h, j), r->mass[(b * r->H + h) * r->Lk + j], error);
    }
}

static void check_average(check *c, int64_t b, int64_t i) {
    const ref_result *r = c->r;
    for (int64_t j = 0; j < r->Lk; j++) {
        double error = 0;
        for (int64_t h = 0; h < r->H; h++) {
            const int64_t row = row_index(c, b, h, i);
            if (c->risky[row]) {
                return;
            }
            error += (c->drift[row * r->Lk + j] + ((double)r->H + 4) * c->a.u * r->weights[row * r->Lk + j]) / (double)r->H;
        }
        compare(c, AVERAGE, c->p->opts.weights, AT(0, b, i, j), r->average[(b * r->Lq + i) * r->Lk + j], error);
    }
}

/* ------------------------------------------------------------------- rows ---- */

static void check_row(check *c, int64_t b, int64_t h, int64_t i) {
    const ref_result *r = c->r;
    int64_t visible = 0;
    for (int64_t j = 0; j < r->Lk; j++) {
        visible += !r->hidden[row_index(c, b, h, i) * r->Lk + j];
    }
    check_logits(c, b, h, i);
    if (c->risky[row_index(c, b, h, i)]) {
        c->t->not_promised++;
        for (int64_t n = 0; c->p->out_error && n < r->d_v; n++) {
            c->p->out_error[row_index(c, b, h, i) * r->d_v + n] = (double)INFINITY;
        }
    } else if (visible == 0) {
        check_blind_row(c, b, h, i);
    } else {
        check_softmax(c, b, h, i, visible);
        check_output(c, b, h, i, visible);
    }
}

bool within_bounds(problem *p, const ref_result *r, tally *t) {
    const size_t rows = (size_t)(r->B * r->H * r->Lq), Lk = (size_t)r->Lk;
    check c = {.p = p, .r = r, .t = t, .a = p->rounds_weights ? arithmetic_pairs : *arithmetic_of(computed_in(p)), .ok = true};
    c.scale = (p->opts.flags & ATTN_SCALE) ? p->opts.scale : 1 / sqrt((double)r->d);
    c.q = read_heads(p, &p->q, p->H, r->Lq, r->d);
    c.k = read_heads(p, &p->k, p->Hkv, r->Lk, r->d);
    c.v = read_heads(p, &p->v, p->Hkv, r->Lk, r->d_v);
    c.dq = read_heads(p, &p->q_error, p->H, r->Lq, r->d);
    c.dk = read_heads(p, &p->k_error, p->Hkv, r->Lk, r->d);
    c.dv = read_heads(p, &p->v_error, p->Hkv, r->Lk, r->d_v);
    c.drift = pool_get(&p->memory, rows * Lk * sizeof *c.drift);
    c.logit = pool_get(&p->memory, Lk * sizeof *c.logit);
    c.exponent = pool_get(&p->memory, Lk * sizeof *c.exponent);
    c.risky = pool_get(&p->memory, rows * sizeof *c.risky);
    for (int64_t b = 0; b < r->B; b++) {
        for (int64_t h = 0; h < r->H; h++) {
            for (int64_t i = 0; i < r->Lq; i++) {
                check_row(&c, b, h, i);
            }
            if (p->opts.mass) {
                check_mass(&c, b, h);
            }
        }
        for (int64_t i = 0; p->opts.weights && (p->opts.flags & ATTN_AVERAGE) && i < r->Lq; i++) {
            check_average(&c, b, i);
        }
    }
    return c.ok;
}

/* ------------------------------------------------------------ projections ---- */

estimate new_estimate(pool *m, int64_t rows, int64_t columns) {
    const size_t bytes = (size_t)(rows * columns) * sizeof(double);
    return (estimate){rows, columns, pool_get(m, bytes), pool_get(m, bytes)};
}

static double *magnitudes(pool *m, const double *x, const double *error, int64_t n) {
    double *all = pool_get(m, (size_t)n * sizeof *all);
    for (int64_t i = 0; x && i < n; i++) {
        all[i] = fabs(x[i]) + (error ? error[i] : 0);
    }
    return all;
}

estimate linear_estimate(pool *m, attn_dtype real, const estimate *a, const double *w, const double *bias, int64_t columns) {
    const arithmetic *x = arithmetic_of(real);
    const int64_t rows = a->rows, terms = a->columns;
    const double roundings = (double)((terms < 64 ? terms : 64) + (terms + 63) / 64 + 2);
    const double *a_most = magnitudes(m, a->value, a->error, rows * terms), *w_size = magnitudes(m, w, NULL, terms * columns);
    const estimate e = new_estimate(m, rows, columns), size = new_estimate(m, rows, columns);
    ref_linear(e.value, a->value, w, bias, rows, terms, columns);
    ref_linear(size.value, a_most, w_size, magnitudes(m, bias, NULL, columns), rows, terms, columns);
    ref_linear(e.error, a->error, w_size, NULL, rows, terms, columns);
    for (int64_t n = 0; n < rows * columns; n++) {
        const bool overflows = !(2 * size.value[n] < x->most);
        const double own = roundings * x->u * size.value[n] + (double)(terms + 2) * x->tiny;
        e.error[n] = overflows ? (double)INFINITY : x->slack * (e.error[n] + own);
    }
    return e;
}

bool meets_estimate(const attn_tensor *t, const estimate *e, attn_dtype real, enum quantity what, tally *met) {
    check c = {.t = met, .a = *arithmetic_of(real), .ok = true};
    int64_t n = 0;
    c.a.slack = 1; /* it is in the estimate */
    for (int64_t i0 = 0; i0 < axis_extent(t, 0); i0++) {
        for (int64_t i1 = 0; i1 < axis_extent(t, 1); i1++) {
            for (int64_t i2 = 0; i2 < axis_extent(t, 2); i2++) {
                for (int64_t i3 = 0; i3 < axis_extent(t, 3); i3++, n++) {
                    if (e->error[n] < (double)INFINITY) {
                        compare(&c, what, t, AT(i0, i1, i2, i3), e->value[n], e->error[n]);
                    } else {
                        met->not_promised++;
                    }
                }
            }
        }
    }
    return c.ok;
}
