/* SPDX-License-Identifier: Apache-2.0 */
/* What encoders, sessions and encoder-decoders share when they run. */
#ifndef ATTN_LOAD_RUN_H
#define ATTN_LOAD_RUN_H
#include "model.h"

/* x [L,n] or [B,L,n] = the rows that a stack starts with, before its norm. at: position_ids, the rows of its table, or else offset, how
   many tokens stand before; and type_ids. The other fields are the stack's. */
attn_status attn_run_embed(attn_ctx *ctx, const struct attn_pretrained *model, const struct embeddings *in, attn_tensor *x,
                           const attn_tensor *ids, const attn_embed_opts *at);

/* Shows a layer to who watches, if anybody does. */
attn_status attn_run_show(attn_ctx *ctx, const attn_watch *watch, const attn_layer_view *view);
#endif
