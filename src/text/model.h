/* SPDX-License-Identifier: Apache-2.0 */
/* The three models: a word -> tokens. */
#ifndef ATTN_TEXT_MODEL_H
#define ATTN_TEXT_MODEL_H

#include "runes.h"
#include "vocab.h"

enum model_kind { MODEL_WORDPIECE = 1, MODEL_BPE, MODEL_UNIGRAM };

struct merge {
    uint64_t pair; /* left << 32 | right */
    uint32_t rank;
    int32_t made; /* 0: the slot is free, else the id + 1 */
};

enum {
    MODEL_BYTE_FALLBACK = 1, /* <0xE9> for the bytes of unknown characters */
    MODEL_FUSE_UNK = 2,
    MODEL_SINGLE = 8, /* Unigram: sums in f32, as SentencePiece; ties fall as they do there */
    MODEL_IGNORE_MERGES = 4 /* a word that is a token is that token */
};

struct model {
    enum model_kind kind;
    unsigned flags;
    struct vocab vocab;
    int32_t unk;            /* -1: none */
    char *prefix, *suffix;  /* of continuing subwords; of the end of a word (BPE); never NULL */
    const char *begins;     /* WordPiece: what the first token of a word begins with; NULL: nothing */
    size_t max_chars;       /* WordPiece: longer words are unknown */
    int32_t bytes[256];     /* byte fallback; -1: none */
    int32_t letters[0x144]; /* BPE: the ids of the first characters, which are all there are at byte level */
    struct merge *merges;   /* BPE: a hash table */
    size_t merge_slots, merge_count;
    double *scores; /* Unigram [vocab.count] */
    double unk_score;
    struct prefixes prefixes; /* WordPiece, Unigram: all tokens */
};

void attn_model_free(struct model *m);
/* The last step of making one: what is derived from the vocabulary. */
attn_status attn_model_finish(struct model *m, const struct report *r);
/* BPE: a merge of two tokens. A later rank for the same pair replaces the earlier one. */
attn_status attn_model_merge(struct model *m, const struct report *r, int32_t left, int32_t right, uint32_t rank, int32_t made);
/* BPE: the next merge of two tokens by their texts. */
attn_status attn_model_merge_texts(struct model *m, const struct report *r, const char *left, size_t left_size, const char *right,
                                   size_t right_size, uint32_t rank);
/* BPE: all merges that make tokens out of two tokens, by the scores: what SentencePiece's BPE does. scores [vocab.count]. */
attn_status attn_model_merges_by_score(struct model *m, const struct report *r, const float *scores, const unsigned char *usable);

struct found {
    int32_t id;
    size_t from, to; /* runes */
};

/* Scratch memory and results of one encoding. */
struct work {
    struct found *found;
    size_t found_count, found_capacity;
    struct bytes text; /* the word as UTF-8 */
    size_t *rune_of;   /* [text.count + 1]: the rune that byte i is of */
    size_t rune_capacity;
    void *nodes, *heap; /* a model's own */
    size_t node_capacity, heap_capacity;
};
void attn_work_free(struct work *w);
bool attn_work_put(struct work *w, int32_t id, size_t from, size_t to);
/* w->text and w->rune_of = runes [from, to), after `room` bytes that are free. */
bool attn_work_word(struct work *w, const struct runes *runes, size_t from, size_t to, size_t room);

/* Adds the tokens of runes [from, to). */
attn_status attn_wordpiece(const struct model *m, const struct report *r, struct work *w, const struct runes *runes, size_t from,
                           size_t to);
attn_status attn_bpe(const struct model *m, const struct report *r, struct work *w, const struct runes *runes, size_t from, size_t to);
attn_status attn_unigram(const struct model *m, const struct report *r, struct work *w, const struct runes *runes, size_t from, size_t to);
attn_status attn_model_run(const struct model *m, const struct report *r, struct work *w, const struct runes *runes, size_t from,
                           size_t to);
attn_status attn_no_token(const struct report *r, const struct runes *runes, size_t at);

#endif
