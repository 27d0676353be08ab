/* SPDX-License-Identifier: Apache-2.0 */
/* SentencePiece's unigram model: of all ways to write a word with tokens, the one of the highest sum of scores (Viterbi, over bytes). An
   unknown character scores 10 less than the least likely token. */
#include <stdlib.h>

#include "model.h"
#include "utf8.h"

struct node {
    double score;
    size_t from; /* where its last token begins; NONE: not reached */
    int32_t id;  /* -1: unknown */
};
#define NONE SIZE_MAX

static void reach(const struct model *m, struct node *nodes, size_t from, size_t to, int32_t id, double score)
{
    score += nodes[from].score;
    if (m->flags & MODEL_SINGLE)
        score = (double)(float)score;
    if (nodes[to].from == NONE || score > nodes[to].score)
        nodes[to] = (struct node){score, from, id};
}

static void best_path(const struct model *m, const char *text, size_t size, struct node *nodes)
{
    for (size_t i = 0; i <= size; i++)
        nodes[i] = (struct node){0, NONE, -1};
    for (size_t at = 0, character; at < size; at += character) {
        uint32_t c = 0;
        character = attn_utf8_read(text + at, size - at, &c);
        bool alone = false;
        struct walk walk = attn_walk_from(&m->prefixes, text + at, size - at);
        size_t n = 0;
        for (int32_t id; (id = attn_walk_next(&m->prefixes, &m->vocab, &walk, text + at, size - at, &n)) >= 0;) {
            reach(m, nodes, at, at + n, id, m->scores[id]);
            alone = alone || n == character;
        }
        if (!alone)
            reach(m, nodes, at, at + character, -1, m->unk_score);
    }
}

/* Bytes [at, end) of the word as one token that stands for what is unknown, or as the tokens of its bytes; the last one first. */
static attn_status put_unknown(const struct model *m, const struct report *r, struct work *w, const struct runes *runes, size_t at,
                               size_t end)
{
    bool bytes = (m->flags & MODEL_BYTE_FALLBACK) != 0, fine = true;
    for (size_t i = at; i < end && bytes; i++)
        bytes = m->bytes[(unsigned char)w->text.at[i]] >= 0;
    for (size_t i = end; i > at && bytes && fine; i--)
        fine = attn_work_put(w, m->bytes[(unsigned char)w->text.at[i - 1]], w->rune_of[at], w->rune_of[end]);
    if (!bytes && m->unk < 0)
        return attn_no_token(r, runes, w->rune_of[at]);
    if (!bytes)
        fine = attn_work_put(w, m->unk, w->rune_of[at], w->rune_of[end]);
    return fine ? ATTN_OK : attn_text_nomem(r);
}

static bool is_unknown(const struct model *m, const struct node *n) { return n->id < 0 || n->id == m->unk; }

attn_status attn_unigram(const struct model *m, const struct report *r, struct work *w, const struct runes *runes, size_t from, size_t to)
{
    if (!attn_work_word(w, runes, from, to, 0) || !attn_text_grow(&w->nodes, &w->node_capacity, w->text.count + 1, sizeof(struct node)))
        return attn_text_nomem(r);
    const struct node *nodes = w->nodes;
    const size_t first = w->found_count;
    best_path(m, w->text.at, w->text.count, w->nodes);
    attn_status s = ATTN_OK;
    for (size_t at = w->text.count, end = at; at > 0 && s == ATTN_OK; end = at) {
        const struct node *n = &nodes[at];
        at = n->from;
        if (is_unknown(m, n)) { /* neighbours that are unknown are one token */
            while (at > 0 && is_unknown(m, &nodes[at]))
                at = nodes[at].from;
            s = put_unknown(m, r, w, runes, at, end);
        } else if (!attn_work_put(w, n->id, w->rune_of[at], w->rune_of[end])) {
            s = attn_text_nomem(r);
        }
    }
    for (size_t i = first, j = w->found_count; i + 1 < j; i++) {
        const struct found swapped = w->found[i];
        w->found[i] = w->found[--j];
        w->found[j] = swapped;
    }
    return s;
}
