/* SPDX-License-Identifier: Apache-2.0 */
#include "sequences.h"

#include <stdlib.h>

#include "../core/ctx.h"
#include "../core/tensor.h"
#include "../ops/sdpa_plan.h"

int64_t attn_whole_at(const attn_tensor *t, int64_t at)
{
    switch (t->dtype) {
    case ATTN_I64:
    case ATTN_U64:
        return ((const int64_t *)t->data)[at];
    case ATTN_I32:
    case ATTN_U32:
        return ((const int32_t *)t->data)[at];
    case ATTN_I16:
    case ATTN_U16:
        return ((const int16_t *)t->data)[at];
    default:
        return ((const int8_t *)t->data)[at];
    }
}

static attn_status take_ids(attn_ctx *ctx, struct sequences *s, const attn_tensor *ids)
{
    char shape[ATTN_SHAPE_TEXT];
    const attn_status status = attn_check_tensor(ctx, ids, "ids");
    if (status != ATTN_OK)
        return status;
    s->ids = *ids;
    if (ids->ndim == 1) {
        s->ids.ndim = 2;
        s->ids.shape[0] = 1, s->ids.shape[1] = ids->shape[0];
        s->ids.stride[0] = 0, s->ids.stride[1] = ids->stride[0];
    }
    if (!attn_is_index(ids) || s->ids.ndim != 2)
        return attn_fail(ctx, ATTN_E_SHAPE, "ids %s %s must be int32 or int64 [B,L] or [L]", attn_dtype_name(ids->dtype),
                         attn_shape_text(shape, ids));
    s->items = s->ids.shape[0];
    s->tokens = s->ids.shape[1];
    s->run = calloc((size_t)s->items + 1, sizeof *s->run);
    return s->run ? ATTN_OK : attn_fail(ctx, ATTN_E_NOMEM, "out of memory");
}

static attn_status run_of_mask(attn_ctx *ctx, struct sequences *s, const attn_tensor *mask, int64_t b)
{
    struct run *r = &s->run[b];
    r->start = r->count = 0;
    for (int64_t i = 0; i < s->tokens; i++) {
        const int64_t at = (mask->shape[0] == 1 ? 0 : b * mask->stride[0]) + (mask->shape[1] == 1 ? 0 : i * mask->stride[1]);
        if (!attn_whole_at(mask, at))
            continue;
        if (r->count && r->start + r->count != i)
            return attn_fail(ctx, ATTN_E_ARG, "mask has a hole in row %lld before token %lld; the tokens of a sequence must be one run",
                             (long long)b, (long long)i);
        r->start = r->count ? r->start : i;
        r->count++;
    }
    return ATTN_OK;
}

attn_status attn_sequences_find(attn_ctx *ctx, struct sequences *s, const attn_tensor *ids, const attn_tensor *lengths,
                                const attn_tensor *mask)
{
    *s = (struct sequences){.items = 0};
    attn_status status = take_ids(ctx, s, ids);
    if (status != ATTN_OK)
        return status;
    if (lengths && mask)
        return attn_fail(ctx, ATTN_E_ARG, "lengths and mask are both given; give one");
    if (lengths && (lengths->ndim != 1 || lengths->shape[0] != s->items || !attn_is_index(lengths)))
        return attn_fail(ctx, ATTN_E_SHAPE, "lengths must be int32 or int64 [%lld]", (long long)s->items);
    if (mask && (mask->ndim != 2 || mask->shape[0] != s->items || mask->shape[1] != s->tokens ||
                 (mask->dtype >= ATTN_F32 && mask->dtype <= ATTN_BF16)))
        return attn_fail(ctx, ATTN_E_SHAPE, "mask must be bool or an integer dtype [%lld,%lld]", (long long)s->items, (long long)s->tokens);
    for (int64_t b = 0; status == ATTN_OK && b < s->items; b++) {
        struct run *r = &s->run[b];
        r->count = lengths ? attn_whole_at(lengths, b * lengths->stride[0]) : s->tokens;
        if (r->count < 0 || r->count > s->tokens)
            return attn_fail(ctx, ATTN_E_ARG, "lengths[%lld] is %lld; a row of ids has %lld", (long long)b, (long long)r->count,
                             (long long)s->tokens);
        status = mask ? run_of_mask(ctx, s, mask, b) : ATTN_OK;
    }
    return status;
}

void attn_sequences_free(struct sequences *s)
{
    free(s->run);
    s->run = NULL;
}
