/* SPDX-License-Identifier: Apache-2.0 */
/* Text on its way through a tokenizer: characters, each with the bytes [start, end) of the original that it came from. */
#ifndef ATTN_TEXT_RUNES_H
#define ATTN_TEXT_RUNES_H

#include "report.h"

struct runes {
    uint32_t *code, *start, *end;
    size_t count, capacity;
};

/* false: no memory. */
bool attn_runes_reserve(struct runes *r, size_t more);
bool attn_runes_put(struct runes *r, uint32_t code, uint32_t start, uint32_t end);
/* Adds bytes of valid UTF-8 that are at `base` in the original. */
bool attn_runes_text(struct runes *r, const char *text, size_t size, size_t base);
/* Adds characters [from, to) of another. */
bool attn_runes_copy(struct runes *r, const struct runes *of, size_t from, size_t to);
void attn_runes_free(struct runes *r);
/* The characters as UTF-8, appended. */
bool attn_runes_utf8(const uint32_t *code, size_t count, struct bytes *to);

/* A stretch of runes: a token found already, or one that is still to be split and tokenized. */
struct piece {
    size_t from, to;
    int32_t id; /* -1: text */
};

struct pieces {
    struct piece *at;
    size_t count, capacity;
};

/* Empty text is left out. */
bool attn_pieces_put(struct pieces *p, size_t from, size_t to, int32_t id);

/* What a step reads and writes. */
struct flow {
    struct runes runes;
    struct pieces pieces;
};
void attn_flow_free(struct flow *f);

#endif
