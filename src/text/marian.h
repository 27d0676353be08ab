/* SPDX-License-Identifier: Apache-2.0 */
/* Marian: a SentencePiece model for each language, and one table of ids. */
#ifndef ATTN_TEXT_MARIAN_H
#define ATTN_TEXT_MARIAN_H

#include "internal.h"

/* One language: its pieces are numbered as in the .spm file; ids[piece] is the token's id. */
struct side {
    struct model model;
    struct charsmap *map; /* NULL: none */
    bool dummy_prefix, squeeze, escape;
    int32_t *ids;
};

/* The pieces, scores and rules of a SentencePiece file. ATTN_E_UNSUPPORTED: another model than unigram. */
attn_status attn_spm_read(struct side *side, const struct report *r, const unsigned char *bytes, size_t size);
void attn_side_free(struct side *side);

/* The texts of the three files -> t. */
struct marian_files {
    const char *source, *target, *vocab;
    size_t source_size, target_size, vocab_size;
    const struct report *source_report, *target_report, *vocab_report;
};
attn_status attn_read_marian(attn_tokenizer *t, const struct marian_files *f);

/* The text pieces of flow as SentencePiece normalizes them; ">>xx<<" at the beginning is one token. */
attn_status attn_marian_normalize(const attn_tokenizer *t, const struct side *side, const struct report *r, struct flow *flow,
                                  struct flow *spare);

#endif
