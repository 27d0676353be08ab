/* SPDX-License-Identifier: Apache-2.0 */
/* Part of libattn_load: encoder-decoders (Vaswani et al. 2017), from token ids to token ids.
 *
 *     attn_pretrained_teach        source and target -> logits of every target token, and everything between for whoever watches
 *     attn_pretrained_translate    source -> target, greedy or by beam search
 *
 * What attn/attn_load.h says of models, and attn/attn.h of tensors, contexts, option structs and errors, holds here too; attn_ctx_error has
 * the sentence of a failure. ATTN_E_UNSUPPORTED: the model is no encoder-decoder. */
#ifndef ATTN_ATTN_SEQ2SEQ_H
#define ATTN_ATTN_SEQ2SEQ_H

#include "attn/attn_load.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One sequence: logits f32 (f64 when computed in f64) [T,vocab] behind each of the T target tokens, which begin with the model's start
   token; NULL gives none. Layers of the encoder are seen first. Views have B = 1. */
ATTN_API attn_status attn_pretrained_teach(attn_ctx *ctx, const attn_pretrained *model, attn_tensor *logits, const int32_t *source,
                                           size_t source_count, const int32_t *target, size_t target_count, const attn_watch *watch);

/* The token that a target begins with; -1 when the model is no encoder-decoder. */
ATTN_API int32_t attn_pretrained_start(const attn_pretrained *model);

enum {
    ATTN_TRANSLATE_LENGTH_PENALTY = 1u << 0, /* length_penalty is given */
    ATTN_TRANSLATE_EARLY = 1u << 1,          /* early is given */
    ATTN_TRANSLATE_NEVER = 1u << 2           /* stop only when no beam can win any more: early_stopping "never" */
};

/* All-zero is what the model's files say (generation_config.json, else config.json). */
typedef struct attn_translate_opts {
    uint32_t struct_size; /* sizeof(attn_translate_opts) of the caller; 0 = this version's */
    uint32_t flags;
    int64_t beams;         /* 1 = greedy; 0 = num_beams */
    int64_t max_tokens;    /* > 0: of the answer, its end included; 0 = max_length - 1 */
    double length_penalty; /* scores are divided by length^length_penalty */
    int32_t early;         /* 1: done with as many finished answers as beams; 0: when the best running beam looks no better */
} attn_translate_opts;

/* ids: room for the answer without its start token, *count of them; the end token is among them where there is one. *score, NULL or: the
   sum of the log-probabilities over length^length_penalty (greedy: the sum). The rules are those of transformers' generate: 2 * beams
   candidates, forced_eos_token_id, bad_words_ids of one token. ATTN_E_ARG: an id, the room or an option out of range. */
ATTN_API attn_status attn_pretrained_translate(attn_ctx *ctx, const attn_pretrained *model, const int32_t *source, size_t source_count,
                                               int32_t *ids, size_t room, size_t *count, double *score, const attn_translate_opts *opts);

#ifdef __cplusplus
}
#endif
#endif
