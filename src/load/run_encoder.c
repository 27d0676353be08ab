/* SPDX-License-Identifier: Apache-2.0 */
#include "../core/ctx.h"
#include "model.h"

attn_status attn_pretrained_encode(attn_ctx *ctx, const attn_pretrained *model, attn_tensor *out, const attn_tensor *ids,
                                   const attn_encode_opts *opts)
{
    (void)model, (void)out, (void)ids, (void)opts;
    return ctx ? attn_fail(ctx, ATTN_E_UNSUPPORTED, "encoders are opened and checked, but not run by this version") : ATTN_E_ARG;
}
