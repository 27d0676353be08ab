/* SPDX-License-Identifier: Apache-2.0 */
#include "dialect_run.h"
#include "dialects.h"
#include "evaluator.h"

#include <attn_ref.h>
#include <math.h>
#include <string.h>

/* ------------------------------------------------------------------ options ---- */

attn_align dialect_anchor(enum dialect d)
{
    const problem nothing = {.H = 1};
    const variation v = dialect_variation(d, &nothing);
    return v.align == ALIGN_TOP_LEFT ? ATTN_ALIGN_TOP_LEFT : v.align == ALIGN_BOTTOM_RIGHT ? ATTN_ALIGN_BOTTOM_RIGHT : ATTN_ALIGN_DEFAULT;
}

static int64_t count_of(const attn_tensor *t)
{
    int64_t count = 1;
    for (int32_t i = 0; i < t->ndim; i++)
        count *= t->shape[i];
    return count;
}

static bool all_finite(const attn_tensor *t)
{
    if (!t || t->ndim > 4)
        return true;
    for (int64_t n = 0; n < count_of(t); n++) {
        int64_t index[4] = {0}, rest = n;
        for (int32_t i = t->ndim - 1; i >= 0; i--) {
            index[4 - t->ndim + i] = rest % t->shape[i];
            rest /= t->shape[i];
        }
        if (!isfinite(ref_element(t, index[0], index[1], index[2], index[3])))
            return false;
    }
    return true;
}

/* The alignment of the rule, as far as options say it: that of onnx 1.23 depends on lengths and offsets. */
static void settle_alignment(attn_sdpa_opts *o, variation *v)
{
    if (v->align == ALIGN_LENGTHS_ONLY && !(o->kv_len && o->q_len))
        v->align = o->kv_len ? ALIGN_BOTTOM_RIGHT : ALIGN_TOP_LEFT;
    if (v->align == ALIGN_TOP_LEFT || v->align == ALIGN_BOTTOM_RIGHT) {
        o->align = v->align == ALIGN_TOP_LEFT ? ATTN_ALIGN_TOP_LEFT : ATTN_ALIGN_BOTTOM_RIGHT;
        v->align = ALIGN_RIGHT;
    } else if (v->align && !o->align) {
        o->align = ATTN_ALIGN_BOTTOM_RIGHT; /* one of the two must be named; the evaluator reads the rule */
    }
}

/* Causal order alone hides, and leaves every row a key: then -inf and the lowest float are the same, weights of 0. */
static bool only_causal(const attn_sdpa_opts *o, const variation *v, const attn_tensor *q, const attn_tensor *k)
{
    const bool other =
        o->mask || o->bias || o->kv_len || o->q_len || o->cu_seqlens_q || o->offsets || o->flags & (ATTN_WINDOW | ATTN_OFFSET);
    const bool fits = q->ndim >= 2 && k->ndim >= 2 && (o->align == ATTN_ALIGN_TOP_LEFT || k->shape[k->ndim - 2] >= q->shape[q->ndim - 2]);
    return o->flags & ATTN_CAUSAL && !other && fits && (v->hide == HIDE_RIGHT || v->hide == HIDE_MIN || v->hide == HIDE_MIN_SET);
}

dialect_rule dialect_settle(attn_sdpa_opts *opts, enum dialect d, const attn_tensor *q, const attn_tensor *k, const attn_tensor *v,
                            bool lse)
{
    dialect_rule rule = {.dialect = d};
    problem p = {.o = *opts, .H = 1, .Hkv = 1};
    problem_facts(&p);
    variation rest = dialect_variation(d, &p);
    settle_alignment(opts, &rest);
    opts->flags ^= rest.mask == MASK_FLIPPED ? ATTN_MASK_DROP : 0;
    rest.mask = rest.mask == MASK_FLIPPED ? MASK_RIGHT : rest.mask;
    rule.window_said = !rest.window_left || !(p.facts & FACT_LEFT) || opts->window_left > 0;
    opts->window_left -= rest.window_left && p.facts & FACT_LEFT && opts->window_left > 0;
    rest.window_left = rule.window_said ? WINDOW_RIGHT : rest.window_left;
    const bool hides = p.facts & (FACT_HIDES | FACT_KV_LEN);
    rest.gone = hides && !(all_finite(k) && all_finite(v)) ? rest.gone : GONE_RIGHT;
    if (!hides || only_causal(opts, &rest, q, k)) {
        rest.empty = EMPTY_RIGHT;
        rest.lse = LSE_RIGHT;
        rest.hide = HIDE_RIGHT;
    }
    rest.lse = lse ? rest.lse : LSE_RIGHT;
    rest.hide_scope = rest.hide ? rest.hide_scope : SCOPE_ALL;
    rest.cap = hides || p.facts & FACT_ALIBI ? rest.cap : CAP_RIGHT;
    rest.alibi = p.facts & FACT_ALIBI ? rest.alibi : ALIBI_RIGHT;
    rest.scale = p.o.flags & ATTN_SCALE && p.o.scale < 0 ? rest.scale : SCALE_RIGHT;
    rule.in_options = variation_is_right(&rest);
    return rule;
}

/* ------------------------------------------------------------------ writing ---- */

/* The bits of a number that f16 or bf16 can hold. */
static uint16_t half_bits(attn_dtype t, double x)
{
    const float as_float = (float)round_to(t, x);
    uint32_t word;
    memcpy(&word, &as_float, sizeof word);
    if (t == ATTN_BF16)
        return isnan(x) ? 0x7FC0 : (uint16_t)(word >> 16);
    const uint16_t sign = (uint16_t)(word >> 16 & 0x8000);
    const double size = fabs((double)as_float);
    if (!(size < 65536))
        return (uint16_t)(sign | (isnan(x) ? 0x7E00 : 0x7C00));
    if (size < 0x1p-14)
        return (uint16_t)(sign | (uint16_t)ldexp(size, 24));
    const int exponent = ilogb(size);
    return (uint16_t)(sign | ((uint16_t)(exponent + 15) << 10) | (uint16_t)(ldexp(size, 10 - exponent) - 1024));
}

/* Element of t at the last ndim of the indices. t NULL: not asked for. */
static void put(const attn_tensor *t, int32_t count, const int64_t *index, double x)
{
    int64_t at = 0;
    if (!t)
        return;
    for (int32_t axis = 0; axis < t->ndim; axis++)
        at += index[count - t->ndim + axis] * t->stride[axis];
    switch (t->dtype) {
    case ATTN_F32:
        ((float *)t->data)[at] = (float)x;
        break;
    case ATTN_F64:
        ((double *)t->data)[at] = x;
        break;
    default:
        ((uint16_t *)t->data)[at] = half_bits(t->dtype, x);
    }
}

#define AT(...)                                                                                                                            \
    (int32_t)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) { __VA_ARGS__ }

/* ------------------------------------------------------------------ running ---- */

/* One call. */
typedef struct call {
    arena m;
    problem p;
    evaluator e;
    double *mass, *average; /* [B,H,Lk] [B,Lq,Lk] */
} call;

static bool open_call(call *c, const dialect_rule *rule, const diagnose_input *in)
{
    *c = (call){.m = {0}};
    if (!problem_read(&c->p, &c->m, in))
        return false;
    problem_settle(&c->p, in, ATTN_F64);
    c->p.decimals = -1;
    variation v = dialect_variation(rule->dialect, &c->p);
    v.window_left = rule->window_said ? WINDOW_RIGHT : v.window_left;
    c->mass = arena_zeroed(&c->m, c->p.B * c->p.H * c->p.Lk, sizeof *c->mass);
    c->average = arena_zeroed(&c->m, c->p.B * c->p.Lq * c->p.Lk, sizeof *c->average);
    if (c->m.failed || !evaluator_open(&c->e, &c->p, &c->m))
        return false;
    evaluator_set(&c->e, &v);
    c->e.all_scores = true;
    return true;
}

/* Computes row (b,h,i), and writes everything about it that opts asks for. */
static void write_row(call *c, const attn_sdpa_opts *o, int64_t b, int64_t h, int64_t i)
{
    const row_values *r = &c->e.row;
    evaluator_row(&c->e, b, h, i);
    put(o->lse, AT(b, h, i), r->lse);
    put(o->row_max, AT(b, h, i), r->row_max);
    put(o->entropy, AT(b, h, i), r->entropy);
    for (int64_t j = 0; j < c->p.Lk; j++) {
        put(o->scores, AT(b, h, i, j), r->scores[j]);
        put(o->scaled, AT(b, h, i, j), r->scaled[j]);
        put(o->capped, AT(b, h, i, j), r->capped[j]);
        put(o->masked, AT(b, h, i, j), r->masked[j]);
        put(o->flags & ATTN_AVERAGE ? NULL : o->weights, AT(b, h, i, j), r->weights[j]);
        c->mass[(b * c->p.H + h) * c->p.Lk + j] += r->weights[j];
        c->average[(b * c->p.Lq + i) * c->p.Lk + j] += r->weights[j] / (double)c->p.H;
    }
}

/* All rows; out (of attention, or z of mha) may be NULL. */
static void write_rows(call *c, const attn_sdpa_opts *o, const attn_tensor *out)
{
    const problem *p = &c->p;
    for (int64_t b = 0; b < p->B; b++) {
        for (int64_t h = 0; h < p->H; h++) {
            for (int64_t i = 0; i < p->Lq; i++) {
                write_row(c, o, b, h, i);
                for (int64_t n = 0; n < p->d_v; n++) /* packed: (T,H,d_v) */
                    put(out, 4, p->packed ? (const int64_t[]){0, i, h, n} : (const int64_t[]){b, h, i, n}, c->e.row.output[n]);
            }
            for (int64_t j = 0; j < p->Lk; j++)
                put(o->mass, AT(b, h, j), c->mass[(b * p->H + h) * p->Lk + j]);
        }
        for (int64_t n = 0; n < p->Lq * p->Lk; n++)
            put(o->flags & ATTN_AVERAGE ? o->weights : NULL, AT(b, n / p->Lk, n % p->Lk), c->average[b * p->Lq * p->Lk + n]);
    }
}

bool dialect_sdpa(const dialect_rule *rule, attn_tensor *out, const attn_tensor *q, const attn_tensor *k, const attn_tensor *v,
                  const attn_sdpa_opts *opts)
{
    call c;
    const diagnose_input in = {.q = q, .k = k, .v = v, .opts = opts};
    const bool done = open_call(&c, rule, &in);
    if (done)
        write_rows(&c, opts, out);
    arena_free(&c.m);
    return done;
}

bool dialect_mha(const dialect_rule *rule, attn_tensor *out, const attn_mha_desc *w, const attn_tensor *x, const attn_tensor *memory,
                 const attn_tensor *memory_v, const attn_mha_opts *opts)
{
    static const attn_sdpa_opts plain = {.flags = 0};
    call c;
    const diagnose_input in = {.mha = w, .x = x, .memory = memory, .memory_v = memory_v, .opts = opts->sdpa};
    const bool done = open_call(&c, rule, &in);
    if (done)
        write_rows(&c, opts->sdpa ? opts->sdpa : &plain, opts->z);
    for (int64_t at = 0; done && at < c.p.rows; at++) {
        evaluator_deliver(&c.e, at);
        for (int64_t n = 0; n < c.p.out; n++)
            put(out, AT(at / c.p.Lq, at % c.p.Lq, n), c.e.out[n]);
    }
    arena_free(&c.m);
    return done;
}

bool dialect_cell(const dialect_rule *rule, attn_row *row, const attn_tensor *q, const attn_tensor *k, const attn_tensor *v,
                  const attn_sdpa_opts *opts, int64_t b, int64_t h, int64_t i)
{
    call c;
    const diagnose_input in = {.q = q, .k = k, .v = v, .opts = opts};
    const bool done = open_call(&c, rule, &in);
    const row_values *r = &c.e.row;
    if (done) {
        const attn_sdpa_opts nothing = {.flags = 0};
        write_row(&c, &nothing, b, h, i);
        row->lse = r->lse;
        row->row_max = r->row_max;
        row->entropy = r->entropy;
        row->visible = 0;
    }
    for (int64_t j = 0; done && j < c.p.Lk; j++) {
        const uint8_t hidden = r->weights[j] == 0 ? r->hidden[j] : 0;
        put(row->scores, AT(j), r->scores[j]);
        put(row->scaled, AT(j), r->scaled[j]);
        put(row->capped, AT(j), r->capped[j]);
        put(row->masked, AT(j), r->masked[j]);
        put(row->weights, AT(j), r->weights[j]);
        row->visible += !hidden;
        if (row->hidden)
            row->hidden[j] = hidden;
    }
    for (int64_t n = 0; done && n < c.p.d_v; n++)
        put(row->output, AT(n), r->output[n]);
    arena_free(&c.m);
    return done;
}
