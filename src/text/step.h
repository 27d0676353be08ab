/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of a tokenizer: what its files ask for before, around and after the model. Sequences are written flat. */
#ifndef ATTN_TEXT_STEP_H
#define ATTN_TEXT_STEP_H

#include "charsmap.h"
#include "pattern.h"
#include "runes.h"

enum step_kind {
    /* normalizers */
    STEP_BERT_NORMALIZER = 1,
    STEP_NFC,
    STEP_NFD,
    STEP_NFKC,
    STEP_NFKD,
    STEP_LOWERCASE,
    STEP_STRIP_ACCENTS,
    STEP_STRIP,
    STEP_REPLACE, /* a decoder too */
    STEP_PREPEND,
    STEP_CHARSMAP,
    STEP_NMT,
    /* pre-tokenizers */
    STEP_BERT_SPLIT,
    STEP_BYTE_LEVEL, /* a normalizer and a decoder too */
    STEP_SPLIT,
    STEP_WHITESPACE,
    STEP_WHITESPACE_SPLIT,
    STEP_PUNCTUATION,
    STEP_DIGITS,
    STEP_METASPACE, /* a decoder too */
    /* decoders */
    STEP_WORDPIECE,
    STEP_BYTE_FALLBACK,
    STEP_FUSE,
    STEP_STRIP_TOKENS,
    STEP_BPE_SUFFIX
};

enum {
    STEP_CLEAN = 1, /* BertNormalizer */
    STEP_CJK = 2,
    STEP_ACCENTS = 4,
    STEP_LOWER = 8,
    STEP_LEFT = 16, /* Strip */
    STEP_RIGHT = 32,
    STEP_ADD_SPACE = 64,   /* ByteLevel: a space before the first word. Metaspace: U+2581 before it */
    STEP_FIRST_ONLY = 128, /* Metaspace: before the text's first word only */
    STEP_CUT = 256,        /* Metaspace: into words. ByteLevel: by `pattern` */
    STEP_INVERT = 512,
    STEP_EACH = 1024,   /* Digits: each alone */
    STEP_CLEANUP = 2048 /* WordPiece decoder: spaces before punctuation */
};

/* What becomes of the stretches that match. */
enum behavior { BEHAVIOR_REMOVED, BEHAVIOR_ISOLATED, BEHAVIOR_PREVIOUS, BEHAVIOR_NEXT, BEHAVIOR_CONTIGUOUS };

struct step {
    enum step_kind kind;
    unsigned flags;
    enum behavior behavior;
    struct runes content;    /* of Replace, Prepend, Metaspace (one character), WordPiece, Strip (one character) */
    struct pattern *pattern; /* of Replace, Split, ByteLevel */
    struct charsmap *map;
    size_t start, stop; /* Strip of a decoder: how many at most */
};

struct steps {
    struct step *at;
    size_t count, capacity;
};

bool attn_steps_put(struct steps *s, struct step step);
void attn_steps_free(struct steps *s);

/* r = text as the normalizers leave it. spare is theirs to use. */
attn_status attn_normalize(const struct steps *steps, const struct report *r, struct runes *text, struct runes *spare);
attn_status attn_unicode_form(enum step_kind form, const struct report *r, const struct runes *from, struct runes *to);

/* Splits the pieces of `flow` that are no tokens yet. */
attn_status attn_pre_tokenize(const struct steps *steps, const struct report *r, struct flow *flow, struct flow *spare);

/* The tokens as strings -> text, appended to `to`. */
struct words {
    struct bytes text;
    size_t *end; /* of word i in text */
    size_t count, capacity;
};
bool attn_words_put(struct words *w, const char *text, size_t size);
bool attn_words_end(struct words *w); /* of a word whose text was put already */
void attn_words_free(struct words *w);
attn_status attn_decode_steps(const struct steps *steps, const struct report *r, struct words *words, struct words *spare);

#endif
