/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions: making them, cutting and reordering their sequences. run_decoder.c feeds them. */
#include "session.h"

#include <stdlib.h>
#include <string.h>

#include "../core/ctx.h"
#include "../core/tensor.h"

attn_status attn_session_caches(attn_ctx *ctx, const attn_session *s, attn_kv **kv)
{
    const attn_model_info *m = &s->model->info;
    const attn_kv_desc desc = {.dtype = s->kv_dtype, .kv_heads = m->kv_heads, .capacity = s->capacity, .head_dim = m->head_dim};
    attn_status status = ATTN_OK;
    for (int64_t i = 0; status == ATTN_OK && i < s->model->decoder.layers; i++)
        status = attn_kv_create(ctx, &kv[i], &desc);
    return status;
}

static attn_status check(attn_ctx *ctx, const attn_pretrained *model, const attn_session_desc *d)
{
    const attn_model_info *m = &model->info;
    if (m->kind != ATTN_MODEL_DECODER)
        return attn_fail(ctx, ATTN_E_UNSUPPORTED, "%s is no decoder; sessions are for models that give logits of the next token", m->type);
    if (d->flags)
        return attn_fail(ctx, ATTN_E_ARG, "flags 0x%x of attn_session_desc are not known", (unsigned)d->flags);
    if (d->batch < 0 || d->batch > 1 << 20)
        return attn_fail(ctx, ATTN_E_ARG, "batch is %lld; it must be from 1 to %d", (long long)d->batch, 1 << 20);
    if (d->capacity < 1 || (m->max_positions && d->capacity > m->max_positions))
        return attn_fail(ctx, ATTN_E_ARG, "capacity is %lld; it must be from 1 to the model's max_positions, %lld", (long long)d->capacity,
                         (long long)m->max_positions);
    return ATTN_OK;
}

attn_status attn_session_create(attn_ctx *ctx, attn_session **out, const attn_pretrained *model, const attn_session_desc *desc)
{
    attn_session_desc d;
    if (!ctx)
        return ATTN_E_ARG;
    attn_begin(ctx);
    if (!out || !model || !desc)
        return attn_fail(ctx, ATTN_E_ARG, "%s is NULL", !out ? "out" : !model ? "model" : "desc");
    *out = NULL;
    attn_status status = attn_copy_struct(ctx, &d, sizeof d, desc, "attn_session_desc");
    status = status ? status : check(ctx, model, &d);
    if (status != ATTN_OK)
        return status;
    attn_session *s = calloc(1, sizeof *s);
    if (!s)
        return attn_fail(ctx, ATTN_E_NOMEM, "out of memory");
    *s = (attn_session){.model = model, .batch = d.batch ? d.batch : 1, .capacity = d.capacity,
                        .kv_dtype = d.kv_dtype ? d.kv_dtype : model->info.compute};
    s->kv = calloc((size_t)(s->batch * model->decoder.layers), sizeof *s->kv);
    if (!s->kv)
        status = attn_fail(ctx, ATTN_E_NOMEM, "out of memory");
    for (int64_t b = 0; status == ATTN_OK && b < s->batch; b++)
        status = attn_session_caches(ctx, s, session_caches(s, b));
    if (status == ATTN_OK)
        *out = s;
    else
        attn_session_destroy(s);
    return status;
}

void attn_session_destroy(attn_session *s)
{
    if (!s)
        return;
    for (int64_t i = 0; s->kv && i < s->batch * s->model->decoder.layers; i++)
        attn_kv_destroy(s->kv[i]);
    free(s->kv);
    free(s->memory);
    free(s->seen);
    free(s);
}

int64_t attn_session_length(const attn_session *s, int64_t b)
{
    return s && b >= 0 && b < s->batch ? attn_kv_length(session_caches(s, b)[0]) : 0;
}

attn_status attn_session_truncate(attn_ctx *ctx, attn_session *s, int64_t b, int64_t length)
{
    if (!ctx)
        return ATTN_E_ARG;
    attn_begin(ctx);
    if (!s || b < -1 || b >= s->batch || length < 0 || (b >= 0 && length > attn_session_length(s, b)))
        return attn_fail(ctx, ATTN_E_ARG, "sequence %lld cannot be cut to %lld tokens: there are %lld sequences, and this one has %lld",
                         (long long)b, (long long)length, (long long)(s ? s->batch : 0), (long long)attn_session_length(s, b));
    attn_status status = ATTN_OK;
    for (int64_t item = b < 0 ? 0 : b; item <= (b < 0 ? s->batch - 1 : b); item++)
        for (int64_t i = 0; status == ATTN_OK && i < s->model->decoder.layers && length < attn_kv_length(session_caches(s, item)[i]); i++)
            status = attn_kv_truncate(ctx, session_caches(s, item)[i], length);
    if (length < s->seen_count)
        s->seen_count = length;
    return status;
}

static attn_status copy_caches(attn_ctx *ctx, const attn_session *s, attn_kv **to, attn_kv *const *from)
{
    attn_status status = attn_session_caches(ctx, s, to);
    for (int64_t i = 0; status == ATTN_OK && i < s->model->decoder.layers; i++) {
        attn_tensor k, v;
        attn_kv_view(from[i], &k, &v);
        status = attn_kv_append(ctx, to[i], &k, &v);
    }
    return status;
}

/* The first child of a parent takes its caches, the others get copies; caches without a child go. */
static attn_status inherit(attn_ctx *ctx, attn_session *s, const int64_t *parent, attn_kv **fresh)
{
    const int64_t layers = s->model->decoder.layers;
    attn_status status = ATTN_OK;
    for (int64_t b = 0; status == ATTN_OK && b < s->batch; b++) {
        int64_t first = 0;
        while (parent[first] != parent[b])
            first++;
        if (first != b)
            status = copy_caches(ctx, s, fresh + b * layers, session_caches(s, parent[b]));
    }
    for (int64_t b = 0; status == ATTN_OK && b < s->batch; b++) {
        if (fresh[b * layers] == NULL) {
            memcpy(fresh + b * layers, session_caches(s, parent[b]), (size_t)layers * sizeof *fresh);
            memset(session_caches(s, parent[b]), 0, (size_t)layers * sizeof *fresh);
        }
    }
    return status;
}

attn_status attn_session_reorder(attn_ctx *ctx, attn_session *s, const attn_tensor *parent)
{
    if (!ctx)
        return ATTN_E_ARG;
    attn_begin(ctx);
    if (!s || !parent || parent->ndim != 1 || parent->shape[0] != s->batch || (parent->dtype != ATTN_I32 && parent->dtype != ATTN_I64))
        return attn_fail(ctx, ATTN_E_SHAPE, "parent must be int32 or int64 [%lld], one for each sequence", (long long)(s ? s->batch : 0));
    const int64_t slots = s->batch * s->model->decoder.layers;
    int64_t *parents = calloc((size_t)s->batch, sizeof *parents);
    attn_kv **fresh = calloc((size_t)slots, sizeof *fresh);
    attn_status status = parents && fresh ? ATTN_OK : attn_fail(ctx, ATTN_E_NOMEM, "out of memory");
    for (int64_t b = 0; status == ATTN_OK && b < s->batch; b++) {
        const int64_t at = b * parent->stride[0];
        parents[b] = parent->dtype == ATTN_I32 ? ((const int32_t *)parent->data)[at] : ((const int64_t *)parent->data)[at];
        if (parents[b] < 0 || parents[b] >= s->batch)
            status = attn_fail(ctx, ATTN_E_ARG, "parent[%lld] is %lld; there are %lld sequences", (long long)b, (long long)parents[b],
                               (long long)s->batch);
    }
    status = status ? status : inherit(ctx, s, parents, fresh);
    attn_kv **gone = status == ATTN_OK ? s->kv : fresh;
    for (int64_t i = 0; gone && i < slots; i++)
        attn_kv_destroy(gone[i]);
    free(gone);
    s->kv = status == ATTN_OK ? fresh : s->kv;
    free(parents);
    return status;
}
