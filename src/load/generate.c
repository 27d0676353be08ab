/* SPDX-License-Identifier: Apache-2.0 */
/* attn_sample and attn_generate. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../core/ctx.h"
#include "../core/tensor.h"
#include "../kernels/dropout.h"
#include "session.h"

struct candidate {
    double logit; /* then its probability, not normalised */
    int32_t id;
};

static int falling(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    return x->logit != y->logit ? (x->logit < y->logit) - (x->logit > y->logit) : (x->id > y->id) - (x->id < y->id);
}

static double logit_at(const attn_tensor *t, int64_t i)
{
    return t->dtype == ATTN_F32 ? ((const float *)t->data)[i * t->stride[0]] : ((const double *)t->data)[i * t->stride[0]];
}

static attn_status check(attn_ctx *ctx, const attn_tensor *logits, const attn_sampling *s)
{
    if (!logits || logits->ndim != 1 || logits->shape[0] < 1 || logits->shape[0] > INT32_MAX ||
        (logits->dtype != ATTN_F32 && logits->dtype != ATTN_F64))
        return attn_fail(ctx, ATTN_E_SHAPE, "logits must be f32 or f64 [vocab]");
    if (s->flags)
        return attn_fail(ctx, ATTN_E_ARG, "flags 0x%x of attn_sampling are not known", (unsigned)s->flags);
    if (!(s->temperature >= 0 && isfinite(s->temperature)))
        return attn_fail(ctx, ATTN_E_ARG, "temperature is %g; it must be finite and not negative", s->temperature);
    if (!(s->repetition_penalty >= 0 && isfinite(s->repetition_penalty)))
        return attn_fail(ctx, ATTN_E_ARG, "repetition_penalty is %g; it must be greater than 0", s->repetition_penalty);
    if (s->top_k < 0)
        return attn_fail(ctx, ATTN_E_ARG, "top_k is %lld; it must be at least 1, or 0 for all", (long long)s->top_k);
    if (!(s->top_p >= 0 && s->top_p <= 1) || !(s->min_p >= 0 && s->min_p <= 1))
        return attn_fail(ctx, ATTN_E_ARG, "top_p is %g and min_p %g; both must be from 0 to 1", s->top_p, s->min_p);
    return ATTN_OK;
}

static void penalise(struct candidate *c, int64_t vocab, const attn_tensor *logits, double penalty, const int32_t *seen, size_t count)
{
    for (size_t i = 0; penalty > 0 && i < count; i++) {
        if (seen[i] < 0 || seen[i] >= vocab)
            continue;
        const double x = logit_at(logits, seen[i]);
        c[seen[i]].logit = x < 0 ? x * penalty : x / penalty;
    }
}

/* How many of the sorted candidates stay; their logits become probabilities relative to the greatest. */
static int64_t cut(struct candidate *c, int64_t n, const attn_sampling *s)
{
    const double top_p = s->top_p > 0 ? s->top_p : 1, greatest = c[0].logit;
    double sum = 0, reached = 0;
    n = s->top_k > 0 && s->top_k < n ? s->top_k : n;
    for (int64_t i = 0; i < n; i++) {
        c[i].logit = exp((c[i].logit - greatest) / s->temperature);
        sum += c[i].logit;
    }
    int64_t stay = 0;
    while (stay < n && (stay == 0 || top_p >= 1 || reached < top_p * sum))
        reached += c[stay++].logit;
    while (stay > 1 && c[stay - 1].logit < s->min_p)
        stay--;
    return stay;
}

static int32_t draw_one(struct candidate *c, int64_t n, const attn_sampling *s, uint64_t draw)
{
    const uint32_t key[2] = {(uint32_t)s->seed, (uint32_t)(s->seed >> 32)};
    uint32_t counter[4] = {(uint32_t)draw, (uint32_t)(draw >> 32), 0, 0x67656e};
    double sum = 0, reached = 0;
    attn_philox(counter, key);
    const double u = ((double)counter[0] * 0x1p32 + (double)counter[1]) * 0x1p-64;
    for (int64_t i = 0; i < n; i++)
        sum += c[i].logit;
    for (int64_t i = 0; i < n; i++) {
        reached += c[i].logit;
        if (reached > u * sum)
            return c[i].id;
    }
    return c[n - 1].id;
}

/* Candidates that count: all within e^-40 of the greatest, at any temperature. Returns how many. */
static int64_t gather(struct candidate *c, int64_t vocab, double temperature)
{
    double greatest = -INFINITY;
    int64_t n = 0;
    for (int64_t i = 0; i < vocab; i++)
        greatest = c[i].logit > greatest ? c[i].logit : greatest;
    for (int64_t i = 0; i < vocab; i++)
        if (c[i].logit >= greatest - 40 * temperature)
            c[n++] = c[i];
    return n;
}

attn_status attn_sample(attn_ctx *ctx, int32_t *id, const attn_tensor *logits, const attn_sampling *sampling, const int32_t *seen,
                        size_t seen_count, uint64_t draw)
{
    attn_sampling s;
    if (!ctx)
        return ATTN_E_ARG;
    attn_begin(ctx);
    attn_status status = attn_copy_struct(ctx, &s, sizeof s, sampling, "attn_sampling");
    status = status ? status : check(ctx, logits, &s);
    if (status != ATTN_OK)
        return status;
    const int64_t vocab = logits->shape[0];
    struct candidate *c = malloc((size_t)vocab * sizeof *c);
    if (!c)
        return attn_fail(ctx, ATTN_E_NOMEM, "out of memory");
    for (int64_t i = 0; i < vocab; i++)
        c[i] = (struct candidate){logit_at(logits, i), (int32_t)i};
    penalise(c, vocab, logits, s.repetition_penalty, seen, seen_count);
    int64_t n = gather(c, vocab, s.temperature);
    if (n == 0) {
        status = attn_fail(ctx, ATTN_E_ARG, "the logits have no number among them; the model or its weights are not finite");
    } else if (s.temperature == 0) {
        *id = c[0].id;
    } else {
        qsort(c, (size_t)n, sizeof *c, falling);
        n = cut(c, n, &s);
        *id = draw_one(c, n, &s, draw);
    }
    free(c);
    return status;
}

/* ---- generation ---- */

static int ends(const attn_session *s, const attn_generate_opts *o, int32_t id)
{
    for (int i = 0; i < s->model->stop_count; i++)
        if (s->model->stop[i] == id)
            return 1;
    for (size_t i = 0; i < o->stop_count; i++)
        if (o->stop[i] == id)
            return 1;
    return 0;
}

/* Feeds ids and remembers them. */
static attn_status feed(attn_ctx *ctx, attn_session *s, attn_tensor *logits, const int32_t *ids, int64_t n)
{
    const attn_tensor t = attn_tensor_of((void *)(uintptr_t)ids, ATTN_I32, 2, (const int64_t[]){1, n});
    if (!s->seen)
        s->seen = malloc((size_t)s->capacity * sizeof *s->seen);
    if (!s->seen)
        return attn_fail(ctx, ATTN_E_NOMEM, "out of memory");
    const attn_status status = attn_session_feed(ctx, s, logits, &t, NULL);
    if (status == ATTN_OK) {
        memcpy(s->seen + s->seen_count, ids, (size_t)n * sizeof *ids);
        s->seen_count += n;
    }
    return status;
}

static attn_status generate(attn_ctx *ctx, attn_session *s, attn_tensor *logits, int32_t *ids, int64_t *count, attn_generate_end *end,
                            const attn_generate_opts *o)
{
    attn_tensor row = *logits;
    row.ndim = 1;
    row.shape[0] = logits->shape[1];
    row.stride[0] = 1;
    for (*count = 0;;) {
        int32_t id = 0;
        attn_status status = attn_sample(ctx, &id, &row, o->sampling, s->seen, (size_t)s->seen_count, (uint64_t)*count);
        if (status != ATTN_OK)
            return status;
        if (ids)
            ids[*count] = id;
        ++*count;
        const int asked = o->token && o->token(o->user, id), stops = ends(s, o, id);
        *end = stops ? ATTN_END_STOP : asked ? ATTN_END_CALLER : ATTN_END_LENGTH;
        if (*end != ATTN_END_LENGTH || *count == o->max_tokens || attn_session_length(s, 0) == s->capacity)
            return ATTN_OK;
        status = feed(ctx, s, logits, &id, 1);
        if (status != ATTN_OK)
            return status;
    }
}

attn_status attn_generate(attn_ctx *ctx, attn_session *s, const int32_t *prompt, size_t prompt_count, int32_t *ids, int64_t *count,
                          attn_generate_end *end, const attn_generate_opts *opts)
{
    attn_generate_opts o;
    if (!ctx)
        return ATTN_E_ARG;
    attn_begin(ctx);
    if (!s || !prompt || !count || !end || !opts)
        return attn_fail(ctx, ATTN_E_ARG, "session, prompt, count, end and opts must not be NULL");
    *count = 0;
    attn_status status = attn_copy_struct(ctx, &o, sizeof o, opts, "attn_generate_opts");
    if (status != ATTN_OK)
        return status;
    if (s->batch != 1 || o.max_tokens < 1 || prompt_count < 1 || prompt_count > (size_t)s->capacity || o.flags)
        return attn_fail(ctx, ATTN_E_ARG,
                         "max_tokens is %lld, the prompt has %zu tokens, the session %lld sequences for %lld tokens; one sequence is "
                         "needed, at least one token of a prompt that it has room for, and max_tokens of at least 1",
                         (long long)o.max_tokens, prompt_count, (long long)s->batch, (long long)s->capacity);
    const int64_t shape[] = {1, s->model->info.vocab};
    const attn_dtype real = s->model->info.compute;
    void *memory = malloc((size_t)shape[1] * attn_dtype_size(real));
    if (!memory)
        return attn_fail(ctx, ATTN_E_NOMEM, "out of memory");
    attn_tensor logits = attn_tensor_of(memory, real, 2, shape);
    status = feed(ctx, s, &logits, prompt, (int64_t)prompt_count);
    status = status ? status : generate(ctx, s, &logits, ids, count, end, &o);
    free(memory);
    return status;
}

int32_t attn_pretrained_stop(const attn_pretrained *model, size_t i)
{
    return model && i < (size_t)model->stop_count ? model->stop[i] : -1;
}
