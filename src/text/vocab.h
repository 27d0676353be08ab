/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens by id and ids by text, and all tokens that begin a text. */
#ifndef ATTN_TEXT_VOCAB_H
#define ATTN_TEXT_VOCAB_H

#include "hash.h"
#include "report.h"

struct token {
    size_t at; /* in vocab.text, followed by a 0 */
    uint32_t size;
    bool known; /* false: no token has this id */
};

struct vocab {
    struct token *tokens;
    size_t count, capacity; /* one more than the largest id */
    struct bytes text;
    struct hash_key key;
    int32_t *slots; /* ids + 1, by the hash of their text */
    size_t slot_count, used;
};

/* Ids may come in any order, but at most 16 times as many as tokens so far and 2^20, so that a file cannot ask for more memory than it has
   bytes. ATTN_E_FORMAT: the id is taken or too large, or the text is a token already. */
attn_status attn_vocab_add(struct vocab *v, const struct report *r, const char *text, size_t size, int64_t id);
/* The same text under a second id: it is found by id only. */
attn_status attn_vocab_alias(struct vocab *v, const struct report *r, const char *text, size_t size, int64_t id);
int32_t attn_vocab_id(const struct vocab *v, const char *text, size_t size);  /* -1: none */
const char *attn_vocab_text(const struct vocab *v, int64_t id, size_t *size); /* NULL: none */
void attn_vocab_free(struct vocab *v);

/* A set of tokens in the order of their bytes. */
struct prefixes {
    int32_t *ids;
    size_t count;
    size_t first[257]; /* those that begin with byte b are [first[b], first[b + 1]) */
};

/* Takes the ids, which malloc gave; they are freed by attn_prefixes_free. Texts come from v. */
bool attn_prefixes_make(struct prefixes *p, const struct vocab *v, int32_t *ids, size_t count);
void attn_prefixes_free(struct prefixes *p);

/* Walks the tokens that begin the text, from short to long. */
struct walk {
    size_t lo, hi, depth;
};
struct walk attn_walk_from(const struct prefixes *p, const char *text, size_t size);
/* The id of the next token and its size; -1 at the end. */
int32_t attn_walk_next(const struct prefixes *p, const struct vocab *v, struct walk *w, const char *text, size_t size, size_t *token_size);

#endif
