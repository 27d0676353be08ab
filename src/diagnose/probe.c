/* SPDX-License-Identifier: Apache-2.0 */
#include "probe.h"

#include <math.h>
#include <string.h>

enum { ROWS = 96, SMALL = 16, LATE = 3 };

/* What is changed about a problem; everything else keeps its kind and gets other numbers. */
typedef struct change {
    const char *text[DIAGNOSE_LANGS];
    unsigned needs, never; /* FACT_* that the problem has, or has not */
    double scale;          /* given, when not 0 */
    double factor;         /* on q, when not 0 */
    bool oblong, square, heads, blind, open, brief, apart, poisoned, longer, late;
} change;

static const change changes[] = {
    {.text = {"the same call with other numbers, for example random ones", "같은 호출에 다른 수, 예를 들면 무작위 수"}},
    {.text = {"another scale than the default, for example --scale 0.3", "기본값이 아닌 스케일, 예를 들면 --scale 0.3"},
     .never = FACT_SCALE,
     .scale = 0.3},
    {.text = {"a row that sees no key", "키가 하나도 보이지 않는 행"}, .needs = FACT_MASK_OR_ADDED, .blind = true},
    {.text = {"a row that sees every key", "모든 키가 보이는 행"}, .needs = FACT_HIDES, .open = true},
    {.text = {"three keys more than queries", "쿼리보다 세 개 많은 키"}, .oblong = true},
    {.text = {"as many keys as queries", "쿼리와 같은 수의 키"}, .needs = FACT_SDPA, .never = FACT_SQUARE, .square = true},
    {.text = {"a longer sequence, for example of 24", "더 긴 시퀀스, 예를 들면 24"}, .longer = true},
    {.text = {"6 query heads, on 2 KV heads where they are shared", "쿼리 헤드 6개, KV 헤드를 나누어 쓰면 2개"},
     .needs = FACT_HEADS,
     .never = FACT_SLOPES,
     .heads = true},
    {.text = {"valid lengths shorter than half of the queries", "쿼리 수의 절반보다 짧은 유효 길이"}, .needs = FACT_KV_LEN, .brief = true},
    {.text = {"cross-attention: a memory that is not X", "교차 어텐션: X가 아닌 memory"}, .needs = FACT_MHA, .apart = true},
    {.text = {"rows that do not begin at key 0, for example --offset 3", "0번 키에서 시작하지 않는 행, 예를 들면 --offset 3"},
     .needs = FACT_ROPE,
     .late = true},
    {.text = {"scores a hundred times as large, and a row that sees no key", "백 배 큰 점수와, 키가 하나도 보이지 않는 행"},
     .factor = 100,
     .blind = true},
    {.text = {"NaN in the K and V of a hidden key", "가린 키의 K와 V에 NaN"}, .needs = FACT_HIDES | FACT_SDPA, .poisoned = true},
};

/* -------------------------------------------------------------- other numbers ---- */

/* A generator of numbers that look random, the same everywhere. */
typedef struct stream {
    arena *m;
    uint64_t state;
} stream;

static double uniform(stream *s)
{
    s->state = s->state * 6364136223846793005u + 1442695040888963407u;
    return (double)(s->state >> 11) * 0x1p-53;
}

/* Sum of four uniforms: about normal. */
static double number(stream *s)
{
    double sum = -2;
    for (int i = 0; i < 4; i++)
        sum += uniform(s);
    return 1.7 * sum;
}

static double *numbers(stream *s, int64_t count, double factor)
{
    double *all = arena_zeroed(s->m, count, sizeof *all);
    for (int64_t i = 0; all && i < count; i++)
        all[i] = factor * number(s);
    return all;
}

static attn_tensor *tensor(stream *s, void *data, attn_dtype dtype, int32_t ndim, const int64_t *shape)
{
    attn_tensor *t = arena_zeroed(s->m, 1, sizeof *t);
    if (t) {
        *t = (attn_tensor){.data = data, .dtype = dtype, .ndim = ndim};
        int64_t stride = 1;
        for (int32_t i = ndim - 1; i >= 0; i--) {
            t->shape[i] = shape[i];
            t->stride[i] = stride;
            stride *= shape[i];
        }
    }
    return t;
}

/* A mask or bias of the kind of t: one row for all queries where it had one. */
static attn_tensor *other_mask(stream *s, const problem *p, const attn_tensor *t, const change *c)
{
    const bool one_row = t->ndim < 2 || t->shape[t->ndim - 2] == 1, is_float = tensor_is_float(t), drop = p->o.flags & ATTN_MASK_DROP;
    const int64_t shape[4] = {p->B, one_row ? 1 : p->H, one_row ? 1 : p->Lq, p->Lk}, count = shape[0] * shape[1] * shape[2] * shape[3];
    double *values = arena_zeroed(s->m, count, sizeof *values);
    uint8_t *bits = arena_zeroed(s->m, count, 1);
    for (int64_t n = 0; values && bits && n < count; n++) {
        const int64_t i = n / p->Lk % shape[2], j = n % p->Lk;
        const bool seldom = uniform(s) < 0.4 && j != (2 * i) % p->Lk;
        const bool hidden = (c->blind && i % 3 == 1) || (seldom && !(c->open && i == p->Lq - 1));
        values[n] = hidden ? -(double)INFINITY : number(s);
        bits[n] = hidden == drop;
    }
    return tensor(s, is_float ? (void *)values : (void *)bits, is_float ? ATTN_F64 : ATTN_BOOL, 4, shape);
}

static attn_tensor *other_vector(stream *s, int64_t count) { return tensor(s, numbers(s, count, 1), ATTN_F64, 1, &count); }

static attn_tensor *other_lengths(stream *s, int64_t count, int64_t most)
{
    int64_t *all = arena_zeroed(s->m, count, sizeof *all);
    for (int64_t i = 0; all && i < count; i++)
        all[i] = 1 + (int64_t)(uniform(s) * (double)(most > 1 ? most - 1 : 1));
    return tensor(s, all, ATTN_I64, 1, &count);
}

static void other_options(stream *s, problem *p, const change *c)
{
    attn_sdpa_opts *o = &p->o;
    o->mask = o->mask ? other_mask(s, p, o->mask, c) : NULL;
    o->bias = o->bias ? other_mask(s, p, o->bias, c) : NULL;
    o->keep = o->keep ? other_mask(s, p, o->keep, c) : NULL;
    o->sinks = o->sinks ? other_vector(s, p->H) : NULL;
    o->kv_len = o->kv_len && !c->open ? other_lengths(s, p->B, c->brief ? p->Lq / 2 : p->Lk) : NULL;
    if (c->late) {
        o->flags |= ATTN_OFFSET;
        o->offset = LATE;
        o->offsets = NULL;
        o->align = ATTN_ALIGN_DEFAULT;
    }
    o->window_left = c->open && o->window_left >= 0 ? p->Lk : o->window_left;
    o->q_len = o->q_len ? other_lengths(s, p->B, p->Lq) : NULL;
    if (c->scale != 0) {
        o->flags |= ATTN_SCALE;
        o->scale = c->scale;
    }
}

/* ------------------------------------------------------------- another problem ---- */

/* Two pads in front, where they are not counted; rows stand at the last keys, or late. */
static const diagnose_rope *other_rope(stream *s, const problem *p, const change *c)
{
    enum { PADS = 2 };
    diagnose_rope *rope = arena_zeroed(s->m, 1, sizeof *rope);
    int64_t *rows = arena_zeroed(s->m, p->B * p->Lq, sizeof *rows), *keys = arena_zeroed(s->m, p->B * p->Lk, sizeof *keys);
    if (s->m->failed)
        return NULL;
    for (int64_t n = 0; n < p->B * p->Lq; n++) {
        const int64_t at = n % p->Lq + (c->late ? LATE : p->Lk - p->Lq) - PADS;
        rows[n] = at > 0 ? at : 0;
    }
    for (int64_t n = 0; n < p->B * p->Lk; n++)
        keys[n] = n % p->Lk > PADS ? n % p->Lk - PADS : 0;
    *rope = (diagnose_rope){.theta = p->rope->theta, .interleaved = p->rope->interleaved, .rows = rows, .keys = keys};
    return rope;
}

static int64_t smaller(int64_t size) { return size > SMALL ? SMALL + size % 2 : size; }

static void other_projections(stream *s, problem *p, const problem *like, const change *c)
{
    const int64_t rows[3] = {p->Lq, p->Lk, p->Lk};
    for (int i = 0; i < 3; i++) {
        p->columns[i] = i == 2 ? p->Hkv * p->d_v : (i == 0 ? p->H : p->Hkv) * p->d;
        p->w[i] = numbers(s, p->in[i] * p->columns[i], 1 / sqrt((double)p->in[i]));
        p->b[i] = p->b[i] ? numbers(s, p->columns[i], 1) : NULL;
        const bool same = i > 0 && like->x[i] == like->x[i - 1] && !(c->apart && i == 1);
        p->x[i] = same ? p->x[i - 1] : numbers(s, p->B * rows[i] * p->in[i], c->factor != 0 && i == 0 ? c->factor : 1);
    }
    p->w_o = p->w_o ? numbers(s, p->H * p->d_v * p->out, 1) : NULL;
    p->b_o = p->b_o ? numbers(s, p->out, 1) : NULL;
}

/* NaN in the last key of each head, which lengths, causal order and a window hide from some rows. */
static void poison(double *x, int64_t heads, int64_t L, int64_t d)
{
    for (int64_t h = 0; h < heads; h++)
        for (int64_t n = 0; n < d; n++)
            x[(h * L + L - 1) * d + n] = (double)NAN;
}

/* *p, a problem like the other. false: this change is none for it. */
static bool other_problem(problem *p, stream *s, const problem *like, const change *c)
{
    if ((c->needs & ~like->facts) || (c->never & like->facts) || (c->oblong && like->mha && like->x[0] == like->x[1]))
        return false;
    *p = *like;
    p->got_weights = NULL;
    p->seen_kept = NULL; /* of the cells of the other problem */
    p->H = c->heads ? 6 : like->H;
    p->Hkv = !c->heads ? like->Hkv : like->Hkv < like->H ? 2 : 6;
    p->Lq = c->longer ? 24 : smaller(like->Lq);
    p->Lk = c->oblong ? p->Lq + 3 : c->square ? p->Lq : c->longer ? 24 + like->Lk - like->Lq : smaller(like->Lk);
    p->Lk = p->Lk > 0 && p->Lk < 2 * SMALL ? p->Lk : SMALL;
    p->d = smaller(like->d);
    p->d_v = smaller(like->d_v);
    if (p->mha && c->heads && p->w_o && p->out == like->H * like->d_v)
        p->out = p->H * p->d_v;
    other_options(s, p, c);
    p->rope = like->rope ? other_rope(s, p, c) : NULL;
    if (p->mha) {
        other_projections(s, p, like, c);
        p->rows = p->B * p->Lq;
        p->width = p->w_o ? p->out : p->H * p->d_v;
        p->out = p->width;
    } else {
        double *k = numbers(s, p->B * p->Hkv * p->Lk * p->d, 1), *v = numbers(s, p->B * p->Hkv * p->Lk * p->d_v, 1);
        if (c->poisoned && k && v) {
            poison(k, p->B * p->Hkv, p->Lk, p->d);
            poison(v, p->B * p->Hkv, p->Lk, p->d_v);
        }
        p->q = numbers(s, p->B * p->H * p->Lq * p->d, c->factor != 0 ? c->factor : 1);
        p->k = k;
        p->v = v;
        p->rows = p->B * p->H * p->Lq;
        p->width = p->d_v;
    }
    problem_facts(p);
    return !s->m->failed;
}

/* ------------------------------------------------------------------- telling ---- */

/* The outputs of one variation, and their bounds. */
typedef struct outputs {
    double *value, *bound;
} outputs;

static bool apart(const problem *p, const outputs *a, const outputs *b, int64_t count)
{
    for (int64_t n = 0; n < count; n++) {
        double abs;
        if (share_of(p, a->value[n], b->value[n], a->bound[n] + b->bound[n], 0, &abs) > 10)
            return true;
    }
    return false;
}

/* How many pairs of the variations differ on p. */
static int pairs_apart(const problem *p, arena *m, const variation *const *v, int count)
{
    evaluator e;
    int pairs = 0;
    const int64_t rows = p->rows < ROWS ? p->rows : ROWS, cells = rows * p->width;
    outputs *out = arena_zeroed(m, count, sizeof *out);
    if (!out || !evaluator_open(&e, p, m))
        return 0;
    for (int i = 0; i < count; i++) {
        out[i] = (outputs){arena_zeroed(m, cells, sizeof(double)), arena_zeroed(m, cells, sizeof(double))};
        if (m->failed || !variation_possible(p, v[i]))
            return 0;
        evaluator_set(&e, v[i]);
        for (int64_t n = 0; n < rows; n++) {
            evaluator_deliver(&e, n * p->rows / rows);
            memcpy(out[i].value + n * p->width, e.out, (size_t)p->width * sizeof(double));
            memcpy(out[i].bound + n * p->width, e.out_limit, (size_t)p->width * sizeof(double));
        }
        for (int before = 0; before < i; before++)
            pairs += apart(p, &out[i], &out[before], cells);
    }
    return pairs;
}

bool probe_apart(const char *text[DIAGNOSE_LANGS], const problem *p, arena *m, const variation *const *v, int count)
{
    const int all = count * (count - 1) / 2;
    int most = 0;
    for (size_t n = 0; n < sizeof changes / sizeof changes[0] && !p->packed && most < all; n++) {
        problem other;
        stream s = {m, 7};
        const int pairs = other_problem(&other, &s, p, &changes[n]) ? pairs_apart(&other, m, v, count) : 0;
        if (pairs <= most)
            continue;
        most = pairs;
        text[DIAGNOSE_EN] = changes[n].text[DIAGNOSE_EN];
        text[DIAGNOSE_KO] = changes[n].text[DIAGNOSE_KO];
    }
    return most == all;
}
