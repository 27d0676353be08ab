/* SPDX-License-Identifier: Apache-2.0 */
#include "../core/ctx.h"
#include "model.h"

const char *attn_pooling_name(attn_pooling p)
{
    static const char *const names[] = {"declared", "cls", "mean", "max", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"};
    return (unsigned)p < sizeof names / sizeof *names ? names[p] : "?";
}

attn_status attn_pretrained_embed(attn_ctx *ctx, const attn_pretrained *model, attn_tensor *out, const attn_tensor *ids,
                                  const attn_encode_opts *encode, const attn_vector_opts *opts)
{
    (void)model, (void)out, (void)ids, (void)encode, (void)opts;
    if (!ctx)
        return ATTN_E_ARG;
    return attn_fail(ctx, ATTN_E_UNSUPPORTED, "pooling is not made by this version; attn_pretrained_encode gives the rows");
}

int64_t attn_pretrained_columns(const attn_pretrained *model, const attn_vector_opts *opts)
{
    (void)opts;
    return model->info.embedding;
}

const char *attn_pretrained_prompt(const attn_pretrained *model, const char *name)
{
    (void)model, (void)name;
    return NULL;
}

const char *attn_pretrained_prompt_name(const attn_pretrained *model, size_t i)
{
    (void)model, (void)i;
    return NULL;
}
