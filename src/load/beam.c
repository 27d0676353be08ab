/* SPDX-License-Identifier: Apache-2.0 */
/* Greedy and beam search, by the rules of transformers' generate (its _beam_search of version 5): at each step the 2 * beams best of all
   continuations; those among the first `beams` that end are answers, scored by their length; the best that do not end run on. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../core/ctx.h"
#include "seq2seq.h"

#define NOTHING (-1e9) /* the score of a beam that is none */

/* A running sequence or an answer. */
struct beam {
    int32_t *ids; /* [max_length], the start token first */
    double score;
    int finished;
};

struct search {
    attn_ctx *ctx;
    const attn_pretrained *model;
    const struct seq2seq *rules;
    int64_t beams, max_length, length; /* length: tokens that every running beam has */
    double penalty;
    int early, never;
    int improving; /* the heuristic still lets answers in */
    struct beam *running, *next, *answer, *merged; /* [beams], [beams], [beams], [beams] */
    attn_kv **kv, **spare;       /* [beams][layers] */
    attn_kv **memory_kv;         /* [layers] */
    attn_tensor logits;          /* [1,vocab] */
    double *scores;              /* [beams][vocab]: of every continuation */
    struct candidate {
        int64_t beam;
        int32_t id;
        double score;
        int ends;
    } *best; /* [2 * beams] */
};

/* ------------------------------------------------------------------ memory ---- */

static void free_beams(struct beam *b, int64_t count)
{
    for (int64_t i = 0; b && i < count; i++)
        free(b[i].ids);
    free(b);
}

static void close_search(struct search *s)
{
    const int64_t slots = s->beams * s->model->decoder.layers;
    for (int64_t i = 0; i < slots; i++) {
        attn_kv_destroy(s->kv ? s->kv[i] : NULL);
        attn_kv_destroy(s->spare ? s->spare[i] : NULL);
    }
    for (int64_t i = 0; s->memory_kv && i < s->model->decoder.layers; i++)
        attn_kv_destroy(s->memory_kv[i]);
    free(s->kv);
    free(s->spare);
    free(s->memory_kv);
    free_beams(s->running, s->beams);
    free_beams(s->next, s->beams);
    free_beams(s->answer, s->beams);
    free_beams(s->merged, s->beams);
    free(s->logits.data);
    free(s->scores);
    free(s->best);
}

static struct beam *new_beams(const struct search *s)
{
    struct beam *b = calloc((size_t)s->beams, sizeof *b);
    for (int64_t i = 0; b && i < s->beams; i++) {
        b[i].ids = calloc((size_t)s->max_length, sizeof *b[i].ids);
        b[i].score = NOTHING;
        if (!b[i].ids) {
            free_beams(b, s->beams);
            return NULL;
        }
    }
    return b;
}

static attn_status new_caches(struct search *s, attn_kv **kv, int64_t count, int64_t capacity)
{
    const attn_model_info *m = &s->model->info;
    const attn_kv_desc desc = {.dtype = m->compute, .kv_heads = m->kv_heads, .capacity = capacity, .head_dim = m->head_dim};
    attn_status status = kv ? ATTN_OK : attn_fail(s->ctx, ATTN_E_NOMEM, "out of memory for %lld beams", (long long)s->beams);
    for (int64_t i = 0; status == ATTN_OK && i < count; i++)
        status = attn_kv_create(s->ctx, &kv[i], &desc);
    return status;
}

static attn_status open_search(struct search *s, int64_t source)
{
    const int64_t layers = s->model->decoder.layers, slots = s->beams * layers, V = s->model->info.vocab, shape[] = {1, V};
    s->running = new_beams(s);
    s->next = new_beams(s);
    s->answer = new_beams(s);
    s->merged = new_beams(s);
    s->kv = calloc((size_t)slots, sizeof *s->kv);
    s->spare = calloc((size_t)slots, sizeof *s->spare);
    s->memory_kv = calloc((size_t)layers, sizeof *s->memory_kv);
    s->scores = malloc((size_t)(s->beams * V) * sizeof *s->scores);
    s->best = malloc((size_t)(2 * s->beams) * sizeof *s->best);
    void *logits = malloc((size_t)V * attn_dtype_size(s->model->info.compute));
    s->logits = attn_tensor_of(logits, s->model->info.compute, 2, shape);
    if (!s->running || !s->next || !s->answer || !s->merged || !s->scores || !s->best || !logits)
        return attn_fail(s->ctx, ATTN_E_NOMEM, "out of memory for %lld beams", (long long)s->beams);
    attn_status status = new_caches(s, s->kv, slots, s->max_length);
    status = status ? status : new_caches(s, s->spare, slots, s->max_length);
    return status ? status : new_caches(s, s->memory_kv, layers, source);
}

/* ------------------------------------------------------------------- a step ---- */

/* The log-probabilities of every token behind beam b, by the model's rules, with the beam's score. */
static void score_tokens(struct search *s, int64_t b)
{
    const int64_t V = s->model->info.vocab;
    const struct seq2seq *r = s->rules;
    double *row = s->scores + b * V, top = -(double)INFINITY, sum = 0;
    for (int64_t i = 0; i < V; i++) {
        row[i] = s->logits.dtype == ATTN_F64 ? ((const double *)s->logits.data)[i] : (double)((const float *)s->logits.data)[i];
        top = row[i] > top ? row[i] : top;
    }
    for (int64_t i = 0; i < V; i++)
        sum += exp(row[i] - top);
    const int forced = r->forced_eos >= 0 && s->length == s->max_length - 1;
    for (int64_t i = 0; i < V; i++)
        row[i] = (forced ? (i == r->forced_eos ? 0 : -(double)INFINITY) : row[i] - top - log(sum)) + s->running[b].score;
    for (int i = 0; i < r->banned_count && !forced; i++)
        if (r->banned[i] >= 0 && r->banned[i] < V && r->banned[i] != r->eos)
            row[r->banned[i]] = -(double)INFINITY;
}

/* The 2 * beams best continuations, the best first; of equal ones the first beam and the least id. */
static void choose(struct search *s)
{
    const int64_t V = s->model->info.vocab, keep = 2 * s->beams;
    int64_t count = 0;
    for (int64_t n = 0; n < s->beams * V; n++) {
        if (count == keep && !(s->scores[n] > s->best[keep - 1].score))
            continue;
        int64_t at = count < keep ? count++ : keep - 1;
        for (; at > 0 && s->best[at - 1].score < s->scores[n]; at--)
            s->best[at] = s->best[at - 1];
        s->best[at] = (struct candidate){n / V, (int32_t)(n % V), s->scores[n], 0};
    }
    for (int64_t i = count; i < keep; i++) /* a vocabulary smaller than 2 */
        s->best[i] = (struct candidate){0, (int32_t)s->rules->eos, -(double)INFINITY, 1};
    for (int64_t i = 0; i < count; i++)
        s->best[i].ends = s->best[i].id == s->rules->eos || s->length + 1 >= s->max_length;
}

static void extend(const struct search *s, struct beam *to, const struct candidate *c, double score, int finished)
{
    memcpy(to->ids, s->running[c->beam].ids, (size_t)s->length * sizeof *to->ids);
    memset(to->ids + s->length, 0, (size_t)(s->max_length - s->length) * sizeof *to->ids);
    to->ids[s->length] = c->id;
    to->score = score;
    to->finished = finished ? (int)s->length + 1 : 0; /* tokens that it has */
}

/* The answers: those that there were and the candidates that end, by their scores. */
static void keep_answers(struct search *s)
{
    int full = s->early;
    for (int64_t i = 0; i < s->beams; i++)
        full = full && s->answer[i].finished;
    const double out = (full ? NOTHING : 0) + (s->improving ? 0 : NOTHING), by = pow((double)s->length, s->penalty);
    int64_t old = 0, new = 0;
    for (int64_t i = 0; i < s->beams; i++) {
        while (new < s->beams && !s->best[new].ends) /* only the first `beams` candidates may become answers */
            new++;
        const double score = new < s->beams ? s->best[new].score / by + out : 2 * NOTHING;
        if (score > s->answer[old].score) {
            extend(s, &s->merged[i], &s->best[new++], score, 1);
        } else {
            struct beam *to = &s->merged[i];
            memcpy(to->ids, s->answer[old].ids, (size_t)s->max_length * sizeof *to->ids);
            to->score = s->answer[old].score;
            to->finished = s->answer[old++].finished;
        }
    }
    struct beam *const swap = s->answer;
    s->answer = s->merged;
    s->merged = swap;
}

/* The best candidates that do not end, then those that do: they run as nothing. Returns their parents in parent. */
static void run_on(struct search *s, int64_t *parent)
{
    int64_t count = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t i = 0; i < 2 * s->beams && count < s->beams; i++)
            if (s->best[i].ends == pass) {
                extend(s, &s->next[count], &s->best[i], s->best[i].score + (pass ? NOTHING : 0), 0);
                parent[count++] = s->best[i].beam;
            }
    struct beam *const swap = s->running;
    s->running = s->next;
    s->next = swap;
}

/* Each beam gets what its parent has cached. */
static attn_status inherit(struct search *s, const int64_t *parent)
{
    const int64_t layers = s->model->decoder.layers;
    attn_status status = ATTN_OK;
    for (int64_t n = 0; status == ATTN_OK && n < s->beams * layers; n++) {
        attn_tensor k, v;
        attn_kv_view(s->kv[parent[n / layers] * layers + n % layers], &k, &v);
        status = attn_kv_truncate(s->ctx, s->spare[n], 0);
        status = status ? status : attn_kv_append(s->ctx, s->spare[n], &k, &v);
    }
    attn_kv **const swap = s->kv;
    s->kv = s->spare;
    s->spare = swap;
    return status;
}

/* Can a running beam still be better than the worst answer? And is there one to go on with? */
static int goes_on(struct search *s)
{
    int all = 1, can_run = 0;
    double worst = s->answer[0].score;
    for (int64_t i = 0; i < s->beams; i++) {
        all = all && s->answer[i].finished;
        worst = s->answer[i].score < worst ? s->answer[i].score : worst;
    }
    for (int64_t i = 0; i < 2 * s->beams; i++)
        can_run = can_run || !s->best[i].ends;
    const double longest = (double)(s->never && s->penalty > 0 ? s->max_length - 1 : s->length - 1);
    const double hope = s->running[0].score / pow(longest, s->penalty);
    int better = 0;
    for (int64_t i = 0; i < s->beams; i++)
        better = better || hope > (s->answer[i].finished ? worst : NOTHING);
    s->improving = s->improving && better;
    return s->improving && !(all && s->early) && can_run;
}

static attn_status step(struct search *s, int64_t *parent)
{
    const int64_t layers = s->model->decoder.layers;
    for (int64_t b = 0; b < s->beams; b++) {
        const struct decode d = {.target = s->running[b].ids, .count = s->length, .first = s->length - 1, .kv = s->kv + b * layers,
                                 .memory_kv = s->memory_kv};
        const attn_status status = attn_seq2seq_decode(s->ctx, s->model, &s->logits, &d);
        if (status != ATTN_OK)
            return status;
        score_tokens(s, b);
    }
    choose(s);
    keep_answers(s);
    run_on(s, parent);
    return inherit(s, parent);
}

static attn_status search(struct search *s)
{
    int64_t *parent = calloc((size_t)s->beams, sizeof *parent);
    attn_status status = parent ? ATTN_OK : attn_fail(s->ctx, ATTN_E_NOMEM, "out of memory for %lld beams", (long long)s->beams);
    for (int64_t b = 0; b < s->beams; b++) {
        s->running[b].ids[0] = (int32_t)s->rules->start;
        s->running[b].score = b ? NOTHING : 0;
    }
    s->length = 1;
    s->improving = 1;
    for (int more = 1; status == ATTN_OK && more;) {
        status = step(s, parent);
        s->length++;
        more = status == ATTN_OK && goes_on(s);
    }
    free(parent);
    return status;
}

/* --------------------------------------------------------------------- call ---- */

static attn_status remember_source(struct search *s, const int32_t *source, int64_t count)
{
    const attn_model_info *m = &s->model->info;
    const int64_t shape[] = {1, count, m->width};
    void *data = malloc((size_t)(count * m->width) * attn_dtype_size(m->compute));
    if (!data)
        return attn_fail(s->ctx, ATTN_E_NOMEM, "out of memory for %lld rows", (long long)count);
    attn_tensor states = attn_tensor_of(data, m->compute, 3, shape);
    attn_status status = attn_seq2seq_encode(s->ctx, s->model, &states, source, NULL);
    for (int64_t i = 0; status == ATTN_OK && i < s->model->decoder.layers; i++)
        status = attn_layer_memory(s->ctx, s->memory_kv[i], s->model->decoder.layer[i], &states);
    free(data);
    return status;
}

static attn_status choose_rules(struct search *s, const attn_translate_opts *o, size_t room)
{
    enum { MOST_BEAMS = 256 };
    const uint32_t known = ATTN_TRANSLATE_LENGTH_PENALTY | ATTN_TRANSLATE_EARLY | ATTN_TRANSLATE_NEVER;
    const struct seq2seq *r = s->rules;
    if (o->flags & ~known)
        return attn_fail(s->ctx, ATTN_E_ARG, "flags 0x%x of attn_translate_opts are not known", (unsigned)o->flags);
    if (o->beams < 0 || o->beams > MOST_BEAMS)
        return attn_fail(s->ctx, ATTN_E_ARG, "beams is %lld; it must be from 1 to %d", (long long)o->beams, MOST_BEAMS);
    const int64_t most = s->model->info.max_positions;
    if (o->max_tokens < 0 || o->max_tokens >= most + 1)
        return attn_fail(s->ctx, ATTN_E_ARG, "max_tokens is %lld; it must be from 1 to %lld", (long long)o->max_tokens, (long long)most);
    if ((o->flags & ATTN_TRANSLATE_LENGTH_PENALTY) && !isfinite(o->length_penalty))
        return attn_fail(s->ctx, ATTN_E_ARG, "length_penalty must be finite");
    s->beams = o->beams ? o->beams : r->beams;
    s->max_length = o->max_tokens ? o->max_tokens + 1 : r->max_length;
    s->penalty = o->flags & ATTN_TRANSLATE_LENGTH_PENALTY ? o->length_penalty : r->length_penalty;
    s->early = o->flags & ATTN_TRANSLATE_EARLY ? o->early != 0 : r->early;
    s->never = o->flags & ATTN_TRANSLATE_NEVER ? 1 : o->flags & ATTN_TRANSLATE_EARLY ? 0 : r->never;
    s->early = s->never ? 0 : s->early;
    if (s->beams == 1) { /* greedy: the first answer, its score the sum */
        s->early = 1;
        s->penalty = 0;
    }
    return room + 1 >= (size_t)s->max_length ? ATTN_OK
                                             : attn_fail(s->ctx, ATTN_E_ARG, "room is %zu; an answer may have %lld tokens", room,
                                                         (long long)s->max_length - 1);
}

attn_status attn_pretrained_translate(attn_ctx *ctx, const attn_pretrained *model, const int32_t *source, size_t source_count, int32_t *ids,
                                      size_t room, size_t *count, double *score, const attn_translate_opts *opts)
{
    attn_translate_opts own;
    if (!ctx)
        return ATTN_E_ARG;
    attn_begin(ctx);
    if (!model || !source || !ids || !count)
        return attn_fail(ctx, ATTN_E_ARG, "%s is NULL", !model ? "model" : !source ? "source" : !ids ? "ids" : "count");
    struct search s = {.ctx = ctx, .model = model, .rules = &model->seq2seq};
    attn_status status = attn_copy_struct(ctx, &own, sizeof own, opts, "attn_translate_opts");
    status = status ? status : attn_seq2seq_check(ctx, model, source, source_count, "source");
    status = status ? status : choose_rules(&s, &own, room);
    if (status != ATTN_OK)
        return status;
    status = open_search(&s, (int64_t)source_count);
    status = status ? status : remember_source(&s, source, (int64_t)source_count);
    status = status ? status : search(&s);
    if (status == ATTN_OK) {
        const struct beam *best = &s.answer[0];
        *count = best->finished ? (size_t)best->finished - 1 : 0;
        memcpy(ids, best->ids + 1, *count * sizeof *ids);
        if (score)
            *score = best->score;
    }
    close_search(&s);
    return status;
}
