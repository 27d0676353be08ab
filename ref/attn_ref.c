/* SPDX-License-Identifier: Apache-2.0 */
/* Attention by its definition, in float64, one function per stage of one row:

       scores -> scaled -> capped -> masked -> weights -> dropout -> output

   It is not fast, not small and not careful with its arguments: it is what the words of attn.h mean. */
#include "attn_ref.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------- reading elements ---- */

/* IEEE binary16: 1 sign bit, 5 exponent bits, 10 fraction bits. Every value is exact in a double. */
static double from_f16(uint16_t bits) {
    const double sign = (bits >> 15) ? -1.0 : 1.0;
    const int exponent = (bits >> 10) & 31;
    const int fraction = bits & 1023;
    if (exponent == 31) {
        return fraction ? (double)NAN : sign * (double)INFINITY;
    }
    if (exponent == 0) {
        return sign * ldexp(fraction, -24);
    }
    return sign * ldexp(1024 + fraction, exponent - 25);
}

/* The upper half of an f32. */
static double from_bf16(uint16_t bits) {
    const uint32_t word = (uint32_t)bits << 16;
    float f;
    memcpy(&f, &word, sizeof f);
    return f;
}

static double element_at(const attn_tensor *t, int64_t at) {
    switch (t->dtype) {
    case ATTN_F32: return ((const float *)t->data)[at];
    case ATTN_F64: return ((const double *)t->data)[at];
    case ATTN_F16: return from_f16(((const uint16_t *)t->data)[at]);
    case ATTN_BF16: return from_bf16(((const uint16_t *)t->data)[at]);
    case ATTN_BOOL: return ((const uint8_t *)t->data)[at] != 0;
    case ATTN_I8: return ((const int8_t *)t->data)[at];
    case ATTN_U8: return ((const uint8_t *)t->data)[at];
    case ATTN_I16: return ((const int16_t *)t->data)[at];
    case ATTN_U16: return ((const uint16_t *)t->data)[at];
    case ATTN_I32: return ((const int32_t *)t->data)[at];
    case ATTN_U32: return ((const uint32_t *)t->data)[at];
    case ATTN_I64: return (double)((const int64_t *)t->data)[at];
    case ATTN_U64: return (double)((const uint64_t *)t->data)[at];
    }
    return (double)NAN;
}

double ref_element(const attn_tensor *t, int64_t i0, int64_t i1, int64_t i2, int64_t i3) {
    const int64_t index[4] = {i0, i1, i2, i3};
    int64_t at = 0;
    for (int32_t axis = 0; axis < t->ndim; axis++) {
        if (t->shape[axis] != 1) {
            at += index[4 - t->ndim + axis] * t->stride[axis];
        }
    }
    return element_at(t, at);
}

/* Element i of a vector of integers, or `otherwise` when there is no vector. */
static int64_t integer_or(const attn_tensor *t, int64_t i, int64_t otherwise) {
    return t ? (int64_t)ref_element(t, 0, 0, 0, i) : otherwise;
}

static bool is_float(const attn_tensor *t) {
    return t->dtype == ATTN_F32 || t->dtype == ATTN_F64 || t->dtype == ATTN_F16 || t->dtype == ATTN_BF16;
}

/* ---------------------------------------------------- the problem and a row ---- */

typedef struct problem {
    attn_sdpa_opts o;
    int64_t Hkv;
    double *q, *k, *v; /* [B,H,Lq,d] [B,Hkv,Lk,d] [B,Hkv,Lk,d_v] */
    ref_result *r;
} problem;

/* Row i of query head h of batch entry b, and where it stands. */
typedef struct row {
    int64_t b, h, i;
    int64_t item;            /* b; packed input: the sequence that the row belongs to */
    int64_t local;           /* i; packed input: counted from the first row of the sequence */
    int64_t first_key, keys; /* the item's keys are first_key .. first_key + keys - 1; key j of the item is first_key + j */
    int64_t q_len, kv_len;   /* valid rows of the item */
    int64_t pos;             /* position among the item's keys; anchors causal, window and ALiBi */
    double *scores, *scaled, *capped, *masked, *weights; /* [Lk] each: this row of the result */
    uint8_t *hidden;                                     /* [Lk] */
    double *output;                                      /* [d_v] */
    double *lse, *row_max, *entropy;                     /* one number each */
} row;

/* The sequence s with cu[s] <= i < cu[s + 1]. */
static int64_t sequence_of(const attn_tensor *cu, int64_t i) {
    int64_t s = 0;
    while (integer_or(cu, s + 1, 0) <= i) {
        s++;
    }
    return s;
}

static int64_t offset_of(const attn_sdpa_opts *o, int64_t item, int64_t q_len, int64_t kv_len) {
    if (o->flags & ATTN_OFFSET) {
        return o->offset;
    }
    if (o->offsets) {
        return integer_or(o->offsets, item, 0);
    }
    return o->align == ATTN_ALIGN_BOTTOM_RIGHT ? kv_len - q_len : 0;
}

static row row_of(const problem *p, int64_t b, int64_t h, int64_t i) {
    const ref_result *r = p->r;
    const attn_sdpa_opts *o = &p->o;
    row w = {.b = b, .h = h, .i = i, .item = b, .local = i, .first_key = 0, .keys = r->Lk, .q_len = r->Lq};
    if (o->cu_seqlens_q) {
        w.item = sequence_of(o->cu_seqlens_q, i);
        const int64_t first_row = integer_or(o->cu_seqlens_q, w.item, 0);
        w.local = i - first_row;
        w.q_len = integer_or(o->cu_seqlens_q, w.item + 1, 0) - first_row;
        w.first_key = integer_or(o->cu_seqlens_k, w.item, 0);
        w.keys = integer_or(o->cu_seqlens_k, w.item + 1, 0) - w.first_key;
    }
    w.q_len = integer_or(o->q_len, w.item, w.q_len);
    w.kv_len = integer_or(o->kv_len, w.item, w.keys);
    w.pos = offset_of(o, w.item, w.q_len, w.kv_len) + w.local;

    const int64_t at = (b * r->H + h) * r->Lq + i;
    w.scores = r->scores + at * r->Lk;
    w.scaled = r->scaled + at * r->Lk;
    w.capped = r->capped + at * r->Lk;
    w.masked = r->masked + at * r->Lk;
    w.weights = r->weights + at * r->Lk;
    w.hidden = r->hidden + at * r->Lk;
    w.output = r->output + at * r->d_v;
    w.lse = r->lse + at;
    w.row_max = r->row_max + at;
    w.entropy = r->entropy + at;
    return w;
}

/* The KV head that the row's query head reads: H/Hkv neighbours share one. */
static int64_t kv_head(const problem *p, const row *w) {
    return w->h / (p->r->H / p->Hkv);
}

/* ------------------------------------------------------------- the stages ---- */

/* scores[j] = sum over c of q[c] k[j,c]; 0 for the keys of other sequences */
static void stage_scores(const problem *p, const row *w) {
    const ref_result *r = p->r;
    const double *q = p->q + ((w->b * r->H + w->h) * r->Lq + w->i) * r->d;
    for (int64_t j = w->first_key; j < w->first_key + w->keys; j++) {
        const double *k = p->k + ((w->b * p->Hkv + kv_head(p, w)) * r->Lk + j) * r->d;
        double sum = 0;
        for (int64_t c = 0; c < r->d; c++) {
            sum += q[c] * k[c];
        }
        w->scores[j] = sum;
    }
}

/* scaled[j] = scores[j] * scale */
static void stage_scaled(const problem *p, const row *w) {
    const double scale = (p->o.flags & ATTN_SCALE) ? p->o.scale : 1.0 / sqrt((double)p->r->d);
    for (int64_t j = w->first_key; j < w->first_key + w->keys; j++) {
        w->scaled[j] = w->scores[j] * scale;
    }
}

/* capped[j] = cap tanh(scaled[j] / cap) */
static void stage_capped(const problem *p, const row *w) {
    const double cap = p->o.softcap;
    for (int64_t j = 0; j < p->r->Lk; j++) {
        w->capped[j] = cap > 0 ? cap * tanh(w->scaled[j] / cap) : w->scaled[j];
    }
}

/* What is added to the capped score of the key at j (key `local` of the item): bias, float mask. */
static double bias_of(const problem *p, const row *w, int64_t j) {
    double bias = p->o.bias ? ref_element(p->o.bias, w->b, w->h, w->i, j) : 0;
    if (p->o.mask && is_float(p->o.mask)) {
        bias += ref_element(p->o.mask, w->b, w->h, w->i, j);
    }
    return bias;
}

/* The slope of query head h of H: 2^(-8(h+1)/H). When H is no power of two: the slopes of n heads, n the power of two below H, and then
   every second slope of 2n heads (Press et al. 2022). */
static double default_slope(int64_t h, int64_t H) {
    int64_t n = 1;
    while (2 * n <= H) {
        n *= 2;
    }
    return h < n ? exp2(-8.0 * (double)(h + 1) / (double)n) : exp2(-8.0 * (double)(2 * (h - n) + 1) / (double)(2 * n));
}

/* -slope |pos - j|, j counted within the item */
static double alibi_of(const problem *p, const row *w, int64_t j) {
    if (!(p->o.flags & ATTN_ALIBI) && !p->o.alibi_slopes) {
        return 0;
    }
    const double slope = p->o.alibi_slopes ? ref_element(p->o.alibi_slopes, 0, 0, w->item, w->h) : default_slope(w->h, p->r->H);
    return -slope * fabs((double)(w->pos - j));
}

static bool mask_hides(const problem *p, const row *w, int64_t j) {
    if (!p->o.mask || is_float(p->o.mask)) {
        return false;
    }
    const bool value = ref_element(p->o.mask, w->b, w->h, w->i, j) != 0;
    return (p->o.flags & ATTN_MASK_DROP) ? value : !value;
}

static bool stores_minus_infinity(const attn_tensor *t, const row *w, int64_t j) {
    return t && is_float(t) && ref_element(t, w->b, w->h, w->i, j) == -(double)INFINITY;
}

/* Why the row does not see the key at j: ATTN_HIDDEN_* bits, 0 = it does. A key of another sequence counts as past kv_len. */
static uint8_t hidden_bits(const problem *p, const row *w, int64_t j) {
    const attn_sdpa_opts *o = &p->o;
    const int64_t local = j - w->first_key;
    const bool of_item = local >= 0 && local < w->keys;
    unsigned bits = 0;
    if (mask_hides(p, w, j)) {
        bits |= ATTN_HIDDEN_MASK;
    }
    if (stores_minus_infinity(o->bias, w, j) || stores_minus_infinity(o->mask, w, j)) {
        bits |= ATTN_HIDDEN_BIAS;
    }
    if (of_item && (o->flags & ATTN_CAUSAL) && local > w->pos) {
        bits |= ATTN_HIDDEN_CAUSAL;
    }
    if (of_item && (o->flags & ATTN_WINDOW)) {
        const bool too_far_left = o->window_left >= 0 && w->pos - local > o->window_left;
        const bool too_far_right = o->window_right >= 0 && local - w->pos > o->window_right;
        bits |= too_far_left || too_far_right ? ATTN_HIDDEN_WINDOW : 0;
    }
    if (!of_item || local >= w->kv_len) {
        bits |= ATTN_HIDDEN_KV_LEN;
    }
    if (w->local >= w->q_len) {
        bits |= ATTN_HIDDEN_Q_LEN;
    }
    return (uint8_t)bits;
}

/* masked[j] = capped[j] + bias + ALiBi where the row sees the key, else -inf */
static void stage_masked(const problem *p, const row *w) {
    for (int64_t j = 0; j < p->r->Lk; j++) {
        w->hidden[j] = hidden_bits(p, w, j);
        w->masked[j] = w->hidden[j] ? -(double)INFINITY : w->capped[j] + bias_of(p, w, j) + alibi_of(p, w, j - w->first_key);
    }
}

/* max(a, b), NaN if either is */
static double greater(double a, double b) {
    return isnan(a) || a > b ? a : b;
}

static bool sees_a_key(const problem *p, const row *w) {
    for (int64_t j = 0; j < p->r->Lk; j++) {
        if (!w->hidden[j]) {
            return true;
        }
    }
    return false;
}

/* weights[j] = exp(masked[j] - max) / (sum over visible keys of the same + exp(sink - max)), 0 for hidden keys
   lse        = max + ln of that sum
   With nothing to sum: weights 0, lse -inf. A row past q_len is no row: its sink does not count. */
static void stage_weights(const problem *p, const row *w) {
    const int64_t Lk = p->r->Lk;
    *w->row_max = -(double)INFINITY;
    for (int64_t j = 0; j < Lk; j++) {
        *w->row_max = greater(*w->row_max, w->masked[j]);
    }
    const bool has_sink = p->o.sinks && w->local < w->q_len;
    const double sink = has_sink ? ref_element(p->o.sinks, 0, 0, 0, w->h) : -(double)INFINITY;
    if (!sees_a_key(p, w)) {
        *w->lse = sink;
        return;
    }
    const double max = greater(*w->row_max, sink);
    double sum = has_sink ? exp(sink - max) : 0;
    for (int64_t j = 0; j < Lk; j++) {
        sum += w->hidden[j] ? 0 : exp(w->masked[j] - max);
    }
    for (int64_t j = 0; j < Lk; j++) {
        w->weights[j] = w->hidden[j] ? 0 : exp(w->masked[j] - max) / sum;
    }
    *w->lse = max + log(sum);
}

/* entropy = - sum over j of weights[j] ln weights[j]; 0 ln 0 = 0 */
static void stage_entropy(const problem *p, const row *w) {
    double sum = 0;
    for (int64_t j = 0; j < p->r->Lk; j++) {
        sum -= w->weights[j] == 0 ? 0 : w->weights[j] * log(w->weights[j]);
    }
    *w->entropy = sum;
}

/* weights[j] = weights[j] / (1 - p) where kept, else 0; no new normalising */
static void stage_dropout(const problem *p, const row *w) {
    const attn_sdpa_opts *o = &p->o;
    for (int64_t j = 0; j < p->r->Lk; j++) {
        if (w->hidden[j]) {
            continue; /* 0 already; a key of another sequence has no number in the generator */
        }
        const bool kept = o->keep ? ref_element(o->keep, w->b, w->h, w->i, j) != 0
                                  : ref_dropout_keeps(o->seed, o->dropout, o->first_batch + w->item, o->first_head + w->h,
                                                      o->first_row + w->local, j - w->first_key);
        w->weights[j] = kept && o->dropout < 1 ? w->weights[j] / (1 - o->dropout) : 0;
    }
}

/* output[c] = sum over visible j of weights[j] v[j,c]; a hidden key is not even multiplied: 0 * NaN is NaN */
static void stage_output(const problem *p, const row *w) {
    const ref_result *r = p->r;
    for (int64_t c = 0; c < r->d_v; c++) {
        double sum = 0;
        for (int64_t j = 0; j < r->Lk; j++) {
            if (!w->hidden[j]) {
                sum += w->weights[j] * p->v[((w->b * p->Hkv + kv_head(p, w)) * r->Lk + j) * r->d_v + c];
            }
        }
        w->output[c] = sum;
    }
}

/* mass [B,H,Lk] = weights summed over the rows; average [B,Lq,Lk] = weights averaged over the heads */
static void stage_sums(ref_result *r) {
    for (int64_t b = 0; b < r->B; b++) {
        for (int64_t h = 0; h < r->H; h++) {
            for (int64_t i = 0; i < r->Lq; i++) {
                for (int64_t j = 0; j < r->Lk; j++) {
                    const double weight = r->weights[((b * r->H + h) * r->Lq + i) * r->Lk + j];
                    r->mass[(b * r->H + h) * r->Lk + j] += weight;
                    r->average[(b * r->Lq + i) * r->Lk + j] += weight / (double)r->H;
                }
            }
        }
    }
}

static void compute(const problem *p) {
    const ref_result *r = p->r;
    for (int64_t b = 0; b < r->B; b++) {
        for (int64_t h = 0; h < r->H; h++) {
            for (int64_t i = 0; i < r->Lq; i++) {
                const row w = row_of(p, b, h, i);
                stage_scores(p, &w);
                stage_scaled(p, &w);
                stage_capped(p, &w);
                stage_masked(p, &w);
                stage_weights(p, &w);
                stage_entropy(p, &w);
                stage_dropout(p, &w);
                stage_output(p, &w);
            }
        }
    }
    stage_sums(p->r);
}

/* ---------------------------------------------------------------- set up ---- */

/* The size of axis 0..3 of [B,H,L,d], 1 for leading axes that the tensor lacks. */
static int64_t extent(const attn_tensor *t, int axis) {
    return axis < 4 - t->ndim ? 1 : t->shape[axis - (4 - t->ndim)];
}

/* Packed input [T,H,d] seen as [H,T,d]. */
static attn_tensor heads_first(attn_tensor t, bool packed) {
    if (packed) {
        const int64_t rows = t.shape[0], stride = t.stride[0];
        t.shape[0] = t.shape[1];
        t.stride[0] = t.stride[1];
        t.shape[1] = rows;
        t.stride[1] = stride;
    }
    return t;
}

static double *zeros(int64_t n) {
    return calloc((size_t)n + 1, sizeof(double));
}

/* All elements as doubles, packed [.,.,.,.] */
static double *read_all(const attn_tensor *t) {
    const int64_t n0 = extent(t, 0), n1 = extent(t, 1), n2 = extent(t, 2), n3 = extent(t, 3);
    double *all = zeros(n0 * n1 * n2 * n3), *next = all;
    for (int64_t a = 0; all && a < n0; a++) {
        for (int64_t b = 0; b < n1; b++) {
            for (int64_t c = 0; c < n2; c++) {
                for (int64_t e = 0; e < n3; e++) {
                    *next++ = ref_element(t, a, b, c, e);
                }
            }
        }
    }
    return all;
}

static bool allocate(ref_result *r) {
    const int64_t rows = r->B * r->H * r->Lq, cells = rows * r->Lk;
    r->scores = zeros(cells);
    r->scaled = zeros(cells);
    r->capped = zeros(cells);
    r->masked = zeros(cells);
    r->weights = zeros(cells);
    r->output = zeros(rows * r->d_v);
    r->lse = zeros(rows);
    r->row_max = zeros(rows);
    r->entropy = zeros(rows);
    r->mass = zeros(r->B * r->H * r->Lk);
    r->average = zeros(r->B * r->Lq * r->Lk);
    r->hidden = calloc((size_t)cells + 1, 1);
    return r->scores && r->scaled && r->capped && r->masked && r->weights && r->output && r->lse && r->row_max && r->entropy &&
           r->mass && r->average && r->hidden;
}

int ref_sdpa(ref_result *r, const attn_tensor *q, const attn_tensor *k, const attn_tensor *v, const attn_sdpa_opts *opts) {
    const bool packed = opts && opts->cu_seqlens_q;
    const attn_tensor tq = heads_first(*q, packed), tk = heads_first(*k, packed), tv = heads_first(*v, packed);
    *r = (ref_result){.B = extent(&tq, 0), .H = extent(&tq, 1), .Lq = extent(&tq, 2), .Lk = extent(&tk, 2), .d = extent(&tq, 3),
                      .d_v = extent(&tv, 3)};
    problem p = {.Hkv = extent(&tk, 1), .r = r};
    if (opts) {
        p.o = *opts;
    }
    p.q = read_all(&tq);
    p.k = read_all(&tk);
    p.v = read_all(&tv);
    const bool ok = allocate(r) && p.q && p.k && p.v;
    if (ok) {
        compute(&p);
    } else {
        ref_free(r);
    }
    free(p.q);
    free(p.k);
    free(p.v);
    return ok ? 0 : -1;
}

void ref_free(ref_result *r) {
    double *const arrays[] = {r->scores, r->scaled, r->capped, r->masked, r->weights, r->output, r->lse, r->row_max, r->entropy, r->mass,
                              r->average};
    for (size_t a = 0; a < sizeof arrays / sizeof arrays[0]; a++) {
        free(arrays[a]);
    }
    free(r->hidden);
    *r = (ref_result){0};
}

/* --------------------------------------------------------------- dropout ---- */

void ref_philox4x32_10(uint32_t c[4], uint32_t key0, uint32_t key1) {
    for (int round = 0; round < 10; round++) {
        const uint64_t product0 = (uint64_t)0xD2511F53u * c[0];
        const uint64_t product1 = (uint64_t)0xCD9E8D57u * c[2];
        const uint32_t next[4] = {(uint32_t)(product1 >> 32) ^ c[1] ^ key0, (uint32_t)product1,
                                  (uint32_t)(product0 >> 32) ^ c[3] ^ key1, (uint32_t)product0};
        memcpy(c, next, sizeof next);
        key0 += 0x9E3779B9u; /* the golden ratio */
        key1 += 0xBB67AE85u; /* sqrt(3) - 1 */
    }
}

int ref_dropout_keeps(uint64_t seed, double p, int64_t b, int64_t h, int64_t i, int64_t j) {
    uint32_t words[4] = {(uint32_t)(j / 4), (uint32_t)i, (uint32_t)h, (uint32_t)b};
    ref_philox4x32_10(words, (uint32_t)seed, (uint32_t)(seed >> 32));
    return ldexp(words[j % 4], -32) >= p;
}

/* ---------------------------------------------------------------- linear ---- */

void ref_linear(double *c, const double *a, const double *b, const double *bias, int64_t m, int64_t k, int64_t n) {
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) {
            double sum = bias ? bias[j] : 0;
            for (int64_t l = 0; l < k; l++) {
                sum += a[i * k + l] * b[l * n + j];
            }
            c[i * n + j] = sum;
        }
    }
}
