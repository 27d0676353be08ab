/* SPDX-License-Identifier: Apache-2.0 */
/* A tokenizer: what its files say, ready to run. */
#ifndef ATTN_TEXT_INTERNAL_H
#define ATTN_TEXT_INTERNAL_H

#include "model.h"
#include "step.h"

enum { ADDED_SPECIAL = 1, ADDED_LSTRIP = 2, ADDED_RSTRIP = 4, ADDED_SINGLE_WORD = 8, ADDED_NORMALIZED = 16 };

/* Tokens that are found in text before the model sees it. */
struct added {
    struct vocab vocab;   /* by their own ids */
    unsigned char *flags; /* [vocab.count] */
    struct vocab written; /* as text is after normalizing, by the same ids */
    struct prefixes raw, normalized;
};

/* A template: token ids, or the texts. */
enum { TEMPLATE_TEXT = -1, TEMPLATE_PAIR = -2, TEMPLATE_MAX = 64 };
struct template_part {
    int32_t id; /* or TEMPLATE_TEXT, TEMPLATE_PAIR */
    int32_t type_id;
};
struct template
{
    struct template_part at[TEMPLATE_MAX];
    size_t count;
};

struct side; /* of marian.h */

struct attn_tokenizer {
    struct model model;
    struct added added;
    struct steps normalizers, pre_tokenizers, decoders;
    bool has_decoder; /* without one the tokens are joined by blanks, as Hugging Face does */
    struct template one, two;
    bool trim, trim_keeps_first; /* blanks out of the offsets; but a first blank that was added */
    int32_t special[ATTN_SPECIAL_COUNT];
    int64_t max_length;
    char *chat_template;
    struct side *source, *target; /* Marian */
};

/* How a tokenizer is made: start, then the model and the rest in any order, then finish. */
attn_tokenizer *attn_tokenizer_start(const struct report *r);
/* Takes t: *out = t, or t is destroyed. */
attn_status attn_tokenizer_done(attn_tokenizer *t, const struct report *r, attn_status s, attn_tokenizer **out);
/* *string = a copy of text; the old one is freed. */
attn_status attn_replace_string(char **string, const struct report *r, const char *text);

/* ATTN_E_FORMAT: contradicts a token that is there. */
attn_status attn_added_put(attn_tokenizer *t, const struct report *r, const char *text, size_t size, int64_t id, unsigned flags);
/* After all were put, and the normalizers are known. */
attn_status attn_added_finish(attn_tokenizer *t, const struct report *r);
void attn_added_free(struct added *a);
/* Cuts the pieces of flow that are no tokens at added tokens. literal: not at special ones. */
attn_status attn_added_find(const struct added *a, const struct report *r, bool normalized, bool literal, struct flow *flow,
                            struct pieces *spare, struct work *w);

/* The readers of files; dir ends without a slash. */
attn_status attn_read_json(attn_tokenizer *t, const struct report *r, const char *text, size_t size);
attn_status attn_read_vocab_txt(attn_tokenizer *t, const struct report *r, const char *text, size_t size);
/* BERT's normalizer, pre-tokenizer, decoder and template; the special tokens are known. */
attn_status attn_bert_steps(attn_tokenizer *t, const struct report *r);
attn_status attn_read_gpt2(attn_tokenizer *t, const struct report *vocab_report, const char *vocab, size_t vocab_size,
                           const struct report *merges_report, const char *merges, size_t merges_size);

/* The byte-level pattern of GPT-2 and others. */
extern const char attn_gpt2_pattern[], attn_qwen2_pattern[];
attn_status attn_step_pattern(struct steps *to, const struct report *r, const char *pattern, enum behavior behavior);
attn_status attn_step_byte_level(struct steps *to, const struct report *r, unsigned flags);

#endif
