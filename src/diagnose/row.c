/* SPDX-License-Identifier: Apache-2.0 */
/* One row: where it stands, and scores -> scaled -> capped -> masked, with a bound of the error of each logit. */
#include "evaluator.h"

#include <attn_ref.h>
#include <float.h>
#include <math.h>

static const double no_logit = -(double)INFINITY;

/* ---------------------------------------------------------------- position ---- */

/* The sequence s with cu[s] <= i < cu[s + 1]. */
static int64_t sequence_of(const attn_tensor *cu, int64_t i)
{
    int64_t s = 0;
    while (integer_or(cu, s + 1, 0) <= i)
        s++;
    return s;
}

/* offset[b]: position of row 0 of the item. `other` with ALIGN_OTHER: top-left becomes bottom-right and everything else top-left. */
static int64_t offset_of(const evaluator *e, const row_place *w, enum align_choice align)
{
    const attn_sdpa_opts *o = &e->p->o;
    const int64_t bottom_right = integer_or(o->kv_len, w->item, w->keys) - integer_or(o->q_len, w->item, w->q_len);
    const int64_t given = (o->flags & ATTN_OFFSET)              ? o->offset
                          : o->offsets                          ? integer_or(o->offsets, w->item, 0)
                          : o->align == ATTN_ALIGN_BOTTOM_RIGHT ? bottom_right
                                                                : 0;
    switch (align) {
    case ALIGN_OTHER:
        return given ? 0 : bottom_right;
    case ALIGN_TOP_LEFT:
        return 0;
    case ALIGN_BOTTOM_RIGHT:
        return bottom_right;
    case ALIGN_BOTTOM_RIGHT_EXTENTS:
        return w->keys - w->q_len;
    case ALIGN_LENGTHS_ONLY:
        return o->kv_len ? integer_or(o->kv_len, w->item, w->keys) - w->q_len : 0;
    default:
        return given;
    }
}

/* Is the row hidden as a query, by a mask or length that is meant for keys? */
static bool hidden_as_query(const evaluator *e, const row_place *w)
{
    const attn_sdpa_opts *o = &e->p->o;
    bool hidden = e->v.kv_len == LENGTH_ON_QUERIES && w->local >= integer_or(o->kv_len, w->item, w->keys);
    if (e->v.mask == MASK_ON_QUERIES && w->i < e->Lk) {
        if (o->mask && !tensor_is_float(o->mask))
            hidden = hidden || (ref_element(o->mask, w->b, w->h, 0, w->i) != 0) == ((o->flags & ATTN_MASK_DROP) != 0);
        else if (o->mask)
            hidden = hidden || ref_element(o->mask, w->b, w->h, 0, w->i) == no_logit;
        if (o->bias)
            hidden = hidden || ref_element(o->bias, w->b, w->h, 0, w->i) == no_logit;
    }
    return hidden;
}

row_place row_of(const evaluator *e, int64_t b, int64_t h, int64_t i)
{
    const attn_sdpa_opts *o = &e->p->o;
    row_place w = {.b = b, .h = h, .i = i, .item = b, .local = i, .first_key = 0, .keys = e->Lk, .q_len = e->Lq};
    if (o->cu_seqlens_q) {
        w.item = sequence_of(o->cu_seqlens_q, i);
        const int64_t first_row = integer_or(o->cu_seqlens_q, w.item, 0);
        w.local = i - first_row;
        w.q_len = integer_or(o->cu_seqlens_q, w.item + 1, 0) - first_row;
        w.first_key = integer_or(o->cu_seqlens_k, w.item, 0);
        w.keys = integer_or(o->cu_seqlens_k, w.item + 1, 0) - w.first_key;
    }
    const bool ignored_everywhere = e->v.kv_len == LENGTH_IGNORED_ALIGNED;
    const enum align_choice align = e->v.align                                                  ? e->v.align
                                    : ignored_everywhere && o->align == ATTN_ALIGN_BOTTOM_RIGHT ? ALIGN_BOTTOM_RIGHT_EXTENTS
                                                                                                : ALIGN_RIGHT;
    w.causal_pos = offset_of(e, &w, align) + w.local;
    w.pos = e->v.align_scope ? offset_of(e, &w, ALIGN_RIGHT) + w.local : w.causal_pos;
    w.q_len = e->v.q_len_ignored ? w.q_len : integer_or(o->q_len, w.item, w.q_len);
    w.kv_len = e->v.kv_len ? w.keys : integer_or(o->kv_len, w.item, w.keys);
    w.padding = w.local >= w.q_len || hidden_as_query(e, &w);
    return w;
}

/* ------------------------------------------------------------------ scores ---- */

/* A vector of q or k: element c at at[c * step], its error bound at error[c * step]. */
typedef struct vector {
    const double *at, *error;
    int64_t step;
} vector;

static vector vector_of(const double *at, const double *error, int64_t first, int64_t step)
{
    return (vector){at + first, error ? error + first : NULL, step};
}

static vector query_of(const evaluator *e, const row_place *w)
{
    if (e->v.keys == KEYS_SWAPPED)
        return vector_of(e->k, e->dk, ((w->b * e->Hkv + kv_head_of(e, w->h)) * e->Lk + w->i) * e->d, 1);
    return vector_of(e->q, e->dq, ((w->b * e->H + w->h) * e->Lq + w->i) * e->d, 1);
}

static vector key_of(const evaluator *e, const row_place *w, int64_t j)
{
    const int64_t head = w->b * e->Hkv + kv_head_of(e, w->h);
    switch (e->v.keys) {
    case KEYS_SWAPPED:
        return vector_of(e->q, e->dq, ((w->b * e->H + w->h) * e->Lq + j) * e->d, 1);
    case KEYS_V:
        return vector_of(e->v_, e->dv, (head * e->Lk + j) * e->d_v, 1);
    case KEYS_NOT_TRANSPOSED:
        return vector_of(e->k, e->dk, head * e->Lk * e->d + j, e->d);
    default:
        return vector_of(e->k, e->dk, (head * e->Lk + j) * e->d, 1);
    }
}

/* A dot product, and what its error bound is made of. */
typedef struct product {
    double sum, size, moved;
    double own; /* size without what the vectors are off by */
} product;

static product dot(const evaluator *e, vector q, vector k)
{
    product s = {0};
    for (int64_t c = 0; c < e->d; c++) {
        const double a = q.at[c * q.step], b = k.at[c * k.step];
        s.sum += a * b;
        s.size += fabs(a * b);
    }
    s.own = s.size;
    for (int64_t c = 0; (q.error || k.error) && c < e->d; c++) {
        const double a = fabs(q.at[c * q.step]), b = fabs(k.at[c * k.step]);
        const double most = (a + (q.error ? q.error[c * q.step] : 0)) * (b + (k.error ? k.error[c * k.step] : 0));
        s.moved += most - a * b;
        s.size += most - a * b;
    }
    if (keeps_sums(e)) {
        s.sum = 0;
        for (int64_t c = 0; c < e->d; c++)
            s.sum = keep_sum(e, s.sum + keep_product(e, q.at[c * q.step] * k.at[c * k.step]));
    }
    return s;
}

static double scale_of(const evaluator *e)
{
    const problem *p = e->p;
    const double d = (double)e->d, standard = 1 / sqrt(d), right = right_scale(p);
    switch (e->v.scale) {
    case SCALE_NONE:
        return 1;
    case SCALE_D:
        return 1 / d;
    case SCALE_SQRT_MODEL:
        return 1 / sqrt(d * (double)p->H);
    case SCALE_SQRT_WIDTH:
        return 1 / sqrt((double)p->in[0]);
    case SCALE_MULTIPLIED:
        return sqrt(d);
    case SCALE_INVERSE:
        return 1 / right;
    case SCALE_TWICE:
        return right * right;
    case SCALE_DEFAULT:
        return standard;
    case SCALE_PADDED_8:
        return 1 / sqrt(8 * ceil(d / 8));
    case SCALE_PADDED_32:
        return 1 / sqrt(32 * ceil(d / 32));
    case SCALE_PADDED_POWER:
        return 1 / sqrt(exp2(ceil(log2(d))));
    case SCALE_SPLIT:
        return right < 0 ? (double)NAN : right;
    default:
        return right;
    }
}

/* A hidden key that this variation leaves out whatever its score. */
static bool takes_no_part(const evaluator *e, uint8_t bits)
{
    return bits && !e->v.hide && e->v.cap != CAP_AFTER_ALL && e->v.cap != CAP_AFTER_MASK && e->v.gone != GONE_COMPUTED;
}

/* scores[j] = q . k_j; scaled[j] = scores[j] * scale; error[j] = the bound of the error of scaled[j]; 0 for keys of other sequences */
static void stage_scaled(evaluator *e, const row_place *w)
{
    const arithmetic *a = &e->a;
    const double d = (double)e->d, scale = scale_of(e);
    const bool in_qk = e->v.in.precision && e->v.in.steps & (STEPS_SPLIT_SCALE | STEPS_SCALE_Q); /* heads.c applied the right one */
    const double rest = scale == right_scale(e->p) ? 1 : scale / right_scale(e->p);
    row_values *r = &e->row;
    const vector q = query_of(e, w);
    for (int64_t j = 0; j < e->Lk; j++) {
        r->scores[j] = r->scaled[j] = r->error[j] = 0;
        r->overflows[j] = 0;
        if (j < w->first_key || j >= w->first_key + w->keys || (!e->all_scores && takes_no_part(e, r->hidden[j])))
            continue;
        const product s = dot(e, q, key_of(e, w, j));
        r->scores[j] = e->v.in.precision && e->v.in.steps & STEPS_SCORES ? keep(e, s.sum) : s.sum;
        r->scaled[j] = keep(e, in_qk ? s.sum * rest : r->scores[j] * scale);
        r->error[j] = fabs(scale) * ((d + 4) * a->u * s.size + s.moved) + d * (e->greatest + 1) * a->tiny;
        r->coarse = r->coarse || fabs(scale) * (d + 4) * a->u * s.own > 1e-3;
        r->overflows[j] = !(2 * s.size * fmax(1, fabs(scale)) < a->most);
    }
}

/* capped[j] = cap tanh(scaled[j] / cap) */
static void stage_capped(evaluator *e)
{
    const arithmetic *a = &e->a;
    const double cap = e->v.cap == CAP_RIGHT ? e->p->o.softcap : 0;
    row_values *r = &e->row;
    for (int64_t j = 0; j < e->Lk; j++) {
        r->capped[j] = cap > 0 ? keep(e, cap * tanh(r->scaled[j] / cap)) : r->scaled[j];
        if (cap > 0)
            r->error[j] += a->tanh * fabs(r->capped[j]) + 4 * a->u * fmin(fabs(r->scaled[j]), cap) + 3 * cap * a->tiny;
    }
}

/* ------------------------------------------------------------- what is added ---- */

/* The slope of query head h of H: 2^(-8(h+1)/H), with the usual interleave when H is no power of two. */
static double default_slope(int64_t h, int64_t H)
{
    int64_t n = 1;
    while (2 * n <= H)
        n *= 2;
    return h < n ? exp2(-8.0 * (double)(h + 1) / (double)n) : exp2(-8.0 * (double)(2 * (h - n) + 1) / (double)(2 * n));
}

static double plain_slope(int64_t h, int64_t H) { return exp2(-8.0 * (double)(h + 1) / (double)H); }

static double slope_of(const evaluator *e, const row_place *w)
{
    const attn_sdpa_opts *o = &e->p->o;
    int64_t power = 1;
    while (power < e->H)
        power *= 2;
    switch (e->v.alibi) {
    case ALIBI_NONE:
        return 0;
    case ALIBI_PLAIN:
        return plain_slope(w->h, e->H);
    case ALIBI_NEXT_POWER:
        return plain_slope(w->h, power);
    case ALIBI_KV_SHARED:
        return default_slope(w->h / (e->H / e->Hkv), e->Hkv);
    case ALIBI_KV_COUNT:
        return plain_slope(w->h, e->Hkv);
    case ALIBI_FROM_ZERO:
        return plain_slope(w->h - 1, e->H);
    case ALIBI_DEFAULT:
        return default_slope(w->h, e->H);
    default:
        return o->alibi_slopes ? ref_element(o->alibi_slopes, 0, 0, w->item, w->h) : default_slope(w->h, e->H);
    }
}

static bool has_alibi(const evaluator *e) { return (e->p->o.flags & ATTN_ALIBI) || e->p->o.alibi_slopes; }

/* -slope |pos - j|, j counted within the item */
static double alibi_of(const evaluator *e, const row_place *w, int64_t j)
{
    if (!has_alibi(e) || e->v.alibi == ALIBI_TIMES_BIAS)
        return 0;
    if (e->v.alibi == ALIBI_COLUMNS)
        return slope_of(e, w) * (double)(j - w->keys + 1);
    const double bias = -slope_of(e, w) * fabs((double)(w->pos - j));
    return e->v.alibi == ALIBI_SIGN ? -bias : bias;
}

/* Bias and float mask of the key at j; *size: the sum of their magnitudes. */
static double bias_of(const evaluator *e, const row_place *w, int64_t j, double *size)
{
    const attn_sdpa_opts *o = &e->p->o;
    const double bias = o->bias ? ref_element(o->bias, w->b, w->h, w->i, j) : 0;
    const double mask = o->mask && tensor_is_float(o->mask) ? ref_element(o->mask, w->b, w->h, w->i, j) : 0, sum = bias + mask;
    *size = isfinite(sum) ? fabs(bias) + fabs(mask) : 0;
    if (e->v.added == ADDED_FLIPPED)
        return sum == 0 ? no_logit : isinf(sum) ? 0 : sum;
    return has_alibi(e) && e->v.alibi == ALIBI_TIMES_BIAS ? slope_of(e, w) * sum : sum;
}

/* ------------------------------------------------------------ what is hidden ---- */

static bool mask_hides(const evaluator *e, const row_place *w, int64_t j)
{
    const attn_sdpa_opts *o = &e->p->o;
    if (!o->mask || tensor_is_float(o->mask) || e->v.mask == MASK_IGNORED || e->v.mask == MASK_ON_QUERIES)
        return false;
    const bool value = ref_element(o->mask, w->b, w->h, w->i, j) != 0;
    return ((o->flags & ATTN_MASK_DROP) ? value : !value) != (e->v.mask == MASK_FLIPPED);
}

static bool causal_hides(const evaluator *e, const row_place *w, int64_t local)
{
    if (!(e->p->o.flags & ATTN_CAUSAL))
        return false;
    switch (e->v.causal) {
    case CAUSAL_IGNORED:
        return false;
    case CAUSAL_ONE_MORE:
        return local > w->causal_pos + 1;
    case CAUSAL_STRICT:
        return local >= w->causal_pos;
    case CAUSAL_REVERSED:
        return local < w->causal_pos;
    default:
        return local > w->causal_pos;
    }
}

/* distance > size, size one less, one more or without limit */
static bool beyond(int64_t distance, int64_t size, enum window_choice choice)
{
    const int64_t change = choice == WINDOW_LESS ? -1 : choice == WINDOW_MORE ? 1 : 0;
    return size >= 0 && choice != WINDOW_NONE && distance - change > size; /* a size may be the greatest integer */
}

/* ATTN_HIDDEN_* of the key at j, without padding rows. A key of another sequence counts as past kv_len. */
static uint8_t hidden_bits(const evaluator *e, const row_place *w, int64_t j)
{
    const attn_sdpa_opts *o = &e->p->o;
    const int64_t local = j - w->first_key;
    double size;
    const bool of_item = local >= 0 && local < w->keys, adds = e->v.added == ADDED_RIGHT || e->v.added == ADDED_FLIPPED;
    unsigned bits = mask_hides(e, w, j) ? ATTN_HIDDEN_MASK : 0;
    if (adds && e->v.mask != MASK_ON_QUERIES && bias_of(e, w, j, &size) == no_logit)
        bits |= ATTN_HIDDEN_BIAS;
    if (of_item && causal_hides(e, w, local))
        bits |= ATTN_HIDDEN_CAUSAL;
    if (of_item && (o->flags & ATTN_WINDOW) &&
        (beyond(w->pos - local, o->window_left, e->v.window_left) || beyond(local - w->pos, o->window_right, e->v.window_right)))
        bits |= ATTN_HIDDEN_WINDOW;
    if (!of_item || local >= w->kv_len)
        bits |= ATTN_HIDDEN_KV_LEN;
    return (uint8_t)bits;
}

/* ------------------------------------------------------------------ masked ---- */

/* What takes the place of -inf for a hidden cell that is to be hidden by a finite number; 0: nothing does. */
static double fill_of(const evaluator *e)
{
    switch (e->v.hide) {
    case HIDE_1E4:
    case HIDE_1E4_SET:
        return -1e4;
    case HIDE_1E9:
    case HIDE_1E9_F32:
    case HIDE_1E9_SET:
        return -1e9;
    case HIDE_MIN:
    case HIDE_MIN_SET:
        return -(double)FLT_MAX;
    default:
        return 0;
    }
}

static bool in_scope(enum hide_scope scope, uint8_t bits)
{
    const bool by_mask_alone = !(bits & ~(ATTN_HIDDEN_MASK | ATTN_HIDDEN_BIAS));
    return scope == SCOPE_ALL || (scope == SCOPE_MASK ? by_mask_alone : !(bits & ATTN_HIDDEN_BIAS));
}

/* The logit x of a cell hidden by `bits`, and how it enters the row. */
static enum fate hide(const evaluator *e, uint8_t bits, double *x, double *after, double *error)
{
    const bool caps = e->v.cap == CAP_AFTER_ALL || (e->v.cap == CAP_AFTER_MASK && in_scope(SCOPE_MASK, bits));
    if (e->v.hide && in_scope(e->v.hide_scope, bits)) {
        const double fill = fill_of(e);
        const bool set = e->v.hide == HIDE_1E4_SET || e->v.hide == HIDE_1E9_SET || e->v.hide == HIDE_MIN_SET;
        *x = set ? fill : *x + fill;
        *x = e->v.hide == HIDE_1E9_F32 ? (double)(float)*x : *x;
        *error += e->v.hide == HIDE_1E4 ? e->a.u * fabs(fill) : 0; /* beyond 1e6 nothing of the score is left in f32: exact */
        *error = set ? 0 : *error;
        *after = e->v.hide == HIDE_AFTER_INF ? no_logit : e->v.hide == HIDE_AFTER_1E9 ? -1e9 : 0;
        return e->v.hide == HIDE_NOT_NORMALISED ? FATE_ZEROED : *after != 0 ? FATE_ADDED : FATE_SEEN;
    }
    if (caps) {
        *x = no_logit; /* the cap makes -cap of it */
        return FATE_SEEN;
    }
    if (e->v.gone == GONE_COMPUTED && isnan(*x + no_logit)) {
        *x = (double)NAN;
        return FATE_SEEN;
    }
    *x = no_logit;
    return FATE_GONE;
}

/* What is added to capped[j]: x = capped + bias + ALiBi, the bound of its error, what is added after the softmax instead. */
static double add(evaluator *e, const row_place *w, int64_t j, uint8_t bits)
{
    const arithmetic *a = &e->a;
    row_values *r = &e->row;
    const bool left_out = bits & ATTN_HIDDEN_BIAS || e->v.added == ADDED_IGNORED || e->v.mask == MASK_ON_QUERIES;
    const bool multiplied = bits && e->v.hide == HIDE_MULTIPLIED && in_scope(e->v.hide_scope, bits); /* by 0 */
    double size = 0;
    const double alibi = alibi_of(e, w, j - w->first_key), x = multiplied ? 0 : r->capped[j], bias = left_out ? 0 : bias_of(e, w, j, &size);
    const double all = fabs(x) + fabs(alibi) + size;
    r->overflows[j] = r->overflows[j] || !(all < a->most * (1 + a->u / 4));
    r->after[j] = e->v.added == ADDED_AFTER ? bias : 0;
    if (e->v.mask == MASK_TIMES_INFINITY && !(bits & ATTN_HIDDEN_MASK))
        return (double)NAN; /* (1 - true) * -inf */
    if (e->v.added == ADDED_MULTIPLIED) {
        r->error[j] = r->error[j] * size + 6 * a->u * (fabs(x) * size + fabs(alibi));
        return x * bias + alibi;
    }
    r->error[j] += 6 * a->u * all;
    return e->v.added == ADDED_AFTER ? x + alibi : x + bias + alibi;
}

/* masked[j] = capped[j] + bias + ALiBi where the row sees the key, else -inf */
static void stage_masked(evaluator *e, const row_place *w)
{
    const double cap = e->v.cap == CAP_AFTER_ALL || e->v.cap == CAP_AFTER_MASK ? e->p->o.softcap : 0;
    row_values *r = &e->row;
    for (int64_t j = 0; j < e->Lk; j++) {
        const uint8_t bits = r->hidden[j];
        double x = add(e, w, j, bits);
        r->hidden[j] = (uint8_t)(bits | (w->local >= w->q_len ? ATTN_HIDDEN_Q_LEN : 0));
        r->fate[j] = r->after[j] != 0 ? FATE_ADDED : FATE_SEEN;
        if (j < w->first_key || j >= w->first_key + w->keys)
            r->fate[j] = FATE_GONE;
        else if (bits)
            r->fate[j] = (uint8_t)hide(e, bits, &x, &r->after[j], &r->error[j]);
        else if (e->v.hide == HIDE_ONE_FOR_SEEN)
            x += 1;
        if (cap > 0 && r->fate[j] == FATE_SEEN) {
            x = cap * tanh(x / cap);
            r->error[j] += e->a.tanh * fabs(x) + 4 * e->a.u * cap;
        }
        r->masked[j] = r->fate[j] == FATE_GONE ? no_logit : e->v.in.full & FULL_MASKED ? x : keep(e, x);
        r->risky = r->risky || (r->fate[j] != FATE_GONE && r->overflows[j]);
    }
}

void row_logits(evaluator *e, const row_place *w)
{
    e->row.risky = e->row.coarse = false;
    for (int64_t j = 0; j < e->Lk; j++)
        e->row.hidden[j] = hidden_bits(e, w, j);
    e->work += (double)(e->Lk * e->d);
    stage_scaled(e, w);
    stage_capped(e);
    stage_masked(e, w);
}
