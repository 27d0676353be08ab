/* SPDX-License-Identifier: Apache-2.0 */
/* What runs encoder-decoders: one sequence through the stacks (seq2seq.c), the rules of generation (seq2seq_rules.c), the search
   (beam.c). */
#ifndef ATTN_LOAD_SEQ2SEQ_H
#define ATTN_LOAD_SEQ2SEQ_H
#include <attn/attn_seq2seq.h>

#include "model.h"

/* Reads how the model's files want to generate: generation_config.json, else config.json. */
attn_status attn_seq2seq_rules(struct builder *b);

/* Errors in the words of the caller. */
attn_status attn_seq2seq_check(attn_ctx *ctx, const attn_pretrained *model, const int32_t *ids, size_t count, const char *what);
/* states [1,S,n] behind the encoder. */
attn_status attn_seq2seq_encode(attn_ctx *ctx, const attn_pretrained *model, attn_tensor *states, const int32_t *source,
                                const attn_watch *watch);
/* The target's rows from `first` on through the decoder: logits [T,vocab] or NULL. With caches (one for each layer) the rows before `first`
   are in kv; without, first is 0 and memory has the encoder's states. */
struct decode {
    const int32_t *target;
    int64_t count, first;
    attn_kv **kv, **memory_kv;  /* both, or neither */
    const attn_tensor *memory;
    const attn_watch *watch;
};
attn_status attn_seq2seq_decode(attn_ctx *ctx, const attn_pretrained *model, attn_tensor *logits, const struct decode *d);
#endif
