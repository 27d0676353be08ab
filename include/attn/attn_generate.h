/* SPDX-License-Identifier: Apache-2.0 */
/* Part of libattn_load: text from decoders.
 *
 *     attn_session_*    tokens -> logits, with a KV cache
 *     attn_generate     a prompt -> tokens: greedy, or drawn with temperature, top-k and top-p
 *
 * What attn/attn_load.h says of models, and attn/attn.h of tensors, contexts, option structs and errors, holds here too; attn_ctx_error has
 * the sentence of a failure. */
#ifndef ATTN_ATTN_GENERATE_H
#define ATTN_ATTN_GENERATE_H

#include "attn/attn_load.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --------------------------------------------------------------- sessions ---- */

/* Sequences that a model has read: their keys and values. One thread at a time; its model and its context must outlive it. */
typedef struct attn_session attn_session;

/* All-zero is the default in every field but capacity. */
typedef struct attn_session_desc {
    uint32_t struct_size; /* sizeof(attn_session_desc) of the caller; 0 = this version's */
    uint32_t flags;       /* 0 */
    int64_t batch;        /* sequences; 0 = 1 */
    int64_t capacity;     /* tokens that a sequence may have: 1 to the model's max_positions */
    attn_dtype kv_dtype;  /* of the cache: f32, f16, bf16, f64; 0 = the model's compute dtype */
} attn_session_desc;

/* Memory: batch * capacity * layers * kv_heads * head_dim * 2 numbers. ATTN_E_UNSUPPORTED: the model is no decoder. */
ATTN_API attn_status attn_session_create(attn_ctx *ctx, attn_session **out, const attn_pretrained *model, const attn_session_desc *desc);
/* NULL is fine. */
ATTN_API void attn_session_destroy(attn_session *s);

enum { ATTN_FEED_ALL = 1u << 0 }; /* logits of every token, not of the last alone */

/* All-zero is the default. Each sequence's tokens are one run in its row of ids: those of `mask`, else the first `lengths`, else all L;
   the rest is padding, left or right. */
typedef struct attn_feed_opts {
    uint32_t struct_size;       /* sizeof(attn_feed_opts) of the caller; 0 = this version's */
    uint32_t flags;
    const attn_tensor *lengths; /* NULL, or int32 or int64 [B], 0..L */
    const attn_tensor *mask;    /* NULL, or bool or an integer dtype [B,L]: nonzero = a token. Not together with lengths */
    const attn_watch *watch;    /* weights [B,H,L,Lk], Lk that of the longest sequence */
} attn_feed_opts;

/* Adds tokens to the sequences and gives the logits behind them. ids int32 or int64 [B,L] or, with one sequence, [L]. logits NULL, or f32
   (f64 when computed in f64): [B,vocab] of the last token of each (0 where a row has no token), or [B,L,vocab] with ATTN_FEED_ALL, 0 for
   padding.
   Positions are counted within a sequence, from its first token, whatever padding stands beside it. A prompt whole, in chunks, token by
   token, alone or in a batch gives the same bits. ATTN_E_FULL: a sequence has no room; as after every failure nothing was added. */
ATTN_API attn_status attn_session_feed(attn_ctx *ctx, attn_session *s, attn_tensor *logits, const attn_tensor *ids,
                                       const attn_feed_opts *opts);

/* Tokens that sequence b has; 0 when there is no such sequence. */
ATTN_API int64_t attn_session_length(const attn_session *s, int64_t b);
/* Forgets the tokens of sequence b from `length` on; b = -1: of each sequence that is longer. */
ATTN_API attn_status attn_session_truncate(attn_ctx *ctx, attn_session *s, int64_t b, int64_t length);
/* Sequence b becomes what sequence parent[b] was: int32 or int64 [B], any of them any number of times (the beams of a beam search). */
ATTN_API attn_status attn_session_reorder(attn_ctx *ctx, attn_session *s, const attn_tensor *parent);

/* ------------------------------------------------------------- generation ---- */

/* All-zero is greedy. The order is transformers': repetition penalty, temperature, top-k, top-p, min-p; then one token is drawn. */
typedef struct attn_sampling {
    uint32_t struct_size;      /* sizeof(attn_sampling) of the caller; 0 = this version's */
    uint32_t flags;            /* 0 */
    double repetition_penalty; /* > 0: logits of tokens that the sequence has are divided by it, negative ones multiplied; 0 = 1 */
    double temperature;        /* >= 0; 0: the greatest logit, of equal ones the least id */
    int64_t top_k;             /* 0 = all; else the k greatest */
    double top_p;              /* 0 = 1; else the greatest ones until their probabilities reach it */
    double min_p;              /* 0..1: those of at least min_p times the greatest probability */
    /* Draw number n (0, 1, ...) is u = (c0 2^32 + c1) / 2^64, c = Philox4x32-10 with key seed and counter {n low, n high, 0, 0x67656e}. The
       candidates stand in falling order of probability, equal ones in rising order of id; the first whose cumulated probability exceeds
       u is taken. Probabilities below e^-40 of the greatest are 0. */
    uint64_t seed;
} attn_sampling;

/* One token out of logits [vocab] (f32 or f64), which are not changed. seen: the sequence so far, for the penalty. draw: its number. */
ATTN_API attn_status attn_sample(attn_ctx *ctx, int32_t *id, const attn_tensor *logits, const attn_sampling *sampling, const int32_t *seen,
                                 size_t seen_count, uint64_t draw);

/* All-zero is the default in every field but max_tokens. */
typedef struct attn_generate_opts {
    uint32_t struct_size; /* sizeof(attn_generate_opts) of the caller; 0 = this version's */
    uint32_t flags;       /* 0 */
    int64_t max_tokens;   /* > 0 */
    const attn_sampling *sampling;           /* NULL = greedy */
    const int32_t *stop;                     /* ids that end the text besides the model's own */
    size_t stop_count;
    int (*token)(void *user, int32_t id);    /* NULL, or called with each token, the one that ends the text included; nonzero ends */
    void *user;
} attn_generate_opts;

typedef enum attn_generate_end {
    ATTN_END_LENGTH = 0, /* max_tokens, or the session is full */
    ATTN_END_STOP = 1,   /* an id that ends the text */
    ATTN_END_CALLER = 2  /* the callback */
} attn_generate_end;

/* Feeds the prompt to the session (of one sequence, which may hold earlier tokens) and generates behind it. ids: room for max_tokens, or
   NULL; *count = how many were generated. The last token is not fed. */
ATTN_API attn_status attn_generate(attn_ctx *ctx, attn_session *s, const int32_t *prompt, size_t prompt_count, int32_t *ids, int64_t *count,
                                   attn_generate_end *end, const attn_generate_opts *opts);

/* The ids that end a text by the model's files: i = 0, 1, ... until -1. */
ATTN_API int32_t attn_pretrained_stop(const attn_pretrained *model, size_t i);

#ifdef __cplusplus
}
#endif
#endif
