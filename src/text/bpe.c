/* SPDX-License-Identifier: Apache-2.0 */
/* Byte pair encoding: of all neighbours that may be merged, those of the lowest rank first, from the left. A heap holds the candidates and
   a linked list the symbols, so that a word of n characters takes O(n log n). */
#include <stdlib.h>
#include <string.h>

#include "model.h"
#include "utf8.h"

struct symbol {
    int32_t id; /* -1: merged into the one before */
    size_t from, to;
    size_t before, after; /* NONE at the ends */
};
#define NONE SIZE_MAX

struct candidate {
    uint32_t rank;
    int32_t made;
    size_t at;
};

/* ---------------------------------------------------------------- merges ---- */

static size_t merge_slot(const struct model *m, uint64_t pair)
{
    size_t at = (size_t)attn_hash(&m->vocab.key, &pair, sizeof pair) & (m->merge_slots - 1);
    while (m->merges[at].made != 0 && m->merges[at].pair != pair)
        at = (at + 1) & (m->merge_slots - 1);
    return at;
}

static const struct merge *merge_of(const struct model *m, int32_t left, int32_t right)
{
    if (m->merge_slots == 0)
        return NULL;
    const struct merge *x = &m->merges[merge_slot(m, (uint64_t)left << 32 | (uint32_t)right)];
    return x->made != 0 ? x : NULL;
}

static bool more_merge_slots(struct model *m)
{
    if (m->merge_count * 2 < m->merge_slots)
        return true;
    const size_t count = m->merge_slots;
    struct merge *old = m->merges, *grown = calloc(count ? count * 2 : 256, sizeof *grown);
    if (grown == NULL)
        return false;
    m->merges = grown;
    m->merge_slots = count ? count * 2 : 256;
    for (size_t i = 0; i < count; i++) {
        if (old[i].made != 0)
            m->merges[merge_slot(m, old[i].pair)] = old[i];
    }
    free(old);
    return true;
}

attn_status attn_model_merge(struct model *m, const struct report *r, int32_t left, int32_t right, uint32_t rank, int32_t made)
{
    if (!more_merge_slots(m))
        return attn_text_nomem(r);
    const uint64_t pair = (uint64_t)left << 32 | (uint32_t)right;
    struct merge *x = &m->merges[merge_slot(m, pair)];
    m->merge_count += x->made == 0;
    *x = (struct merge){pair, rank, made + 1};
    return ATTN_OK;
}

attn_status attn_model_merge_texts(struct model *m, const struct report *r, const char *left, size_t left_size, const char *right,
                                   size_t right_size, uint32_t rank)
{
    const int32_t a = attn_vocab_id(&m->vocab, left, left_size), b = attn_vocab_id(&m->vocab, right, right_size);
    const size_t cut = strlen(m->prefix) < right_size ? strlen(m->prefix) : right_size;
    struct bytes both = {.at = NULL};
    if (!attn_bytes_put(&both, left, left_size) || !attn_bytes_put(&both, right + cut, right_size - cut)) {
        free(both.at);
        return attn_text_nomem(r);
    }
    const int32_t made = attn_vocab_id(&m->vocab, both.at, both.count);
    free(both.at);
    if (a < 0 || b < 0 || made < 0)
        return attn_text_fail(r, ATTN_E_FORMAT, "merge %u, \"%.*s\" with \"%.*s\": the vocabulary lacks %s", (unsigned)rank,
                              (int)(left_size < 40 ? left_size : 40), left, (int)(right_size < 40 ? right_size : 40), right,
                              a < 0   ? "the first"
                              : b < 0 ? "the second"
                                      : "what they make");
    return attn_model_merge(m, r, a, b, rank, made);
}

struct scored {
    float score;
    int32_t id;
};

static int by_score(const void *a, const void *b)
{
    const struct scored *x = a, *y = b;
    return x->score != y->score ? (x->score > y->score ? -1 : 1) : (x->id > y->id) - (x->id < y->id);
}

/* Every way to cut the token into two tokens. */
static attn_status merges_of(struct model *m, const struct report *r, int32_t id, uint32_t rank, const unsigned char *usable)
{
    enum { MAX_MADE = 1024 };
    size_t size = 0;
    const char *text = attn_vocab_text(&m->vocab, id, &size);
    if (size > MAX_MADE)
        return attn_text_fail(r, ATTN_E_FORMAT, "token %d takes %zu bytes; a token that is merged has at most %d", id, size, MAX_MADE);
    for (size_t cut = 1; cut < size; cut++) {
        if (((unsigned char)text[cut] & 0xc0) == 0x80)
            continue;
        const int32_t a = attn_vocab_id(&m->vocab, text, cut), b = attn_vocab_id(&m->vocab, text + cut, size - cut);
        if (a < 0 || b < 0 || !usable[a] || !usable[b])
            continue;
        const attn_status s = attn_model_merge(m, r, a, b, rank, id);
        if (s != ATTN_OK)
            return s;
        text = attn_vocab_text(&m->vocab, id, &size);
    }
    return ATTN_OK;
}

attn_status attn_model_merges_by_score(struct model *m, const struct report *r, const float *scores, const unsigned char *usable)
{
    struct scored *order = malloc((m->vocab.count + 1) * sizeof *order);
    if (order == NULL)
        return attn_text_nomem(r);
    size_t n = 0;
    for (size_t i = 0; i < m->vocab.count; i++) {
        if (usable[i])
            order[n++] = (struct scored){scores[i], (int32_t)i};
    }
    qsort(order, n, sizeof *order, by_score);
    attn_status s = ATTN_OK;
    uint32_t rank = 0; /* equal scores have one rank: then the leftmost is merged first */
    for (size_t i = 0; i < n && s == ATTN_OK; i++) {
        rank += i > 0 && order[i].score != order[i - 1].score;
        s = merges_of(m, r, order[i].id, rank, usable);
    }
    free(order);
    return s;
}

/* --------------------------------------------------------------- symbols ---- */

static bool put_symbol(struct work *w, size_t *count, int32_t id, size_t from, size_t to)
{
    if (!attn_text_grow(&w->nodes, &w->node_capacity, *count + 1, sizeof(struct symbol)))
        return false;
    struct symbol *s = w->nodes;
    s[*count] = (struct symbol){id, from, to, *count - 1, NONE};
    if (*count > 0)
        s[*count - 1].after = *count;
    ++*count;
    return true;
}

/* The token of one character, with the prefix and suffix of its place in the word. */
static int32_t character(const struct model *m, uint32_t c, bool first, bool last, char *text, size_t *size)
{
    const bool dressed = (!first && m->prefix[0] != '\0') || (last && m->suffix[0] != '\0');
    if (!dressed && c < sizeof m->letters / sizeof *m->letters && m->letters[c] >= 0)
        return m->letters[c];
    *size = 0;
    if (!first)
        *size = strlen(m->prefix);
    memcpy(text, m->prefix, *size);
    *size += attn_utf8_write(c, text + *size);
    if (last) {
        memcpy(text + *size, m->suffix, strlen(m->suffix));
        *size += strlen(m->suffix);
    }
    return attn_vocab_id(&m->vocab, text, *size);
}

static bool has_bytes(const struct model *m, const char *text, size_t size)
{
    bool all = (m->flags & MODEL_BYTE_FALLBACK) != 0;
    for (size_t i = 0; i < size && all; i++)
        all = m->bytes[(unsigned char)text[i]] >= 0;
    return all;
}

/* The word as symbols; runs of unknown characters are one symbol where the model fuses them. */
static attn_status symbols(const struct model *m, const struct report *r, struct work *w, const struct runes *runes, size_t from, size_t to,
                           size_t *count)
{
    bool unknown = false; /* the last symbol is unknown and may grow */
    if (!attn_text_grow(&w->text.at, &w->text.capacity, strlen(m->prefix) + strlen(m->suffix) + 8, 1))
        return attn_text_nomem(r);
    for (size_t i = from; i < to; i++) {
        size_t size = 0;
        const int32_t id = character(m, runes->code[i], i == from, i + 1 == to, w->text.at, &size);
        bool fine = true;
        if (id >= 0) {
            fine = put_symbol(w, count, id, i, i + 1);
        } else if (has_bytes(m, w->text.at, size)) {
            for (size_t k = 0; k < size && fine; k++)
                fine = put_symbol(w, count, m->bytes[(unsigned char)w->text.at[k]], i, i + 1);
        } else if (m->unk < 0) {
            return attn_no_token(r, runes, i);
        } else if (unknown && (m->flags & MODEL_FUSE_UNK)) {
            ((struct symbol *)w->nodes)[*count - 1].to = i + 1;
        } else {
            fine = put_symbol(w, count, m->unk, i, i + 1);
        }
        unknown = id < 0 && !has_bytes(m, w->text.at, size);
        if (!fine)
            return attn_text_nomem(r);
    }
    return ATTN_OK;
}

/* ------------------------------------------------------------------ heap ---- */

static bool before(struct candidate a, struct candidate b) { return a.rank != b.rank ? a.rank < b.rank : a.at < b.at; }

static bool push(struct work *w, size_t *count, struct candidate c)
{
    if (!attn_text_grow(&w->heap, &w->heap_capacity, *count + 1, sizeof c))
        return false;
    struct candidate *h = w->heap;
    size_t i = (*count)++;
    for (; i > 0 && before(c, h[(i - 1) / 2]); i = (i - 1) / 2)
        h[i] = h[(i - 1) / 2];
    h[i] = c;
    return true;
}

static struct candidate pop(struct work *w, size_t *count)
{
    struct candidate *h = w->heap;
    const struct candidate top = h[0], c = h[--*count];
    size_t i = 0;
    for (size_t k; (k = 2 * i + 1) < *count; i = k) {
        k += k + 1 < *count && before(h[k + 1], h[k]);
        if (!before(h[k], c))
            break;
        h[i] = h[k];
    }
    h[i] = c;
    return top;
}

/* The symbol at i and the one after it, if they may be merged. */
static bool consider(const struct model *m, struct work *w, size_t *count, size_t i)
{
    const struct symbol *s = w->nodes;
    if (i == NONE || s[i].after == NONE)
        return true;
    const struct merge *x = merge_of(m, s[i].id, s[s[i].after].id);
    return x == NULL || push(w, count, (struct candidate){x->rank, x->made - 1, i});
}

static bool merge_all(const struct model *m, struct work *w, size_t count)
{
    struct symbol *s = w->nodes;
    size_t waiting = 0;
    for (size_t i = 0; i + 1 < count; i++) {
        if (!consider(m, w, &waiting, i))
            return false;
    }
    while (waiting > 0) {
        const struct candidate top = pop(w, &waiting);
        struct symbol *left = &s[top.at];
        if (left->id < 0 || left->after == NONE)
            continue;
        struct symbol *right = &s[left->after];
        const struct merge *now = merge_of(m, left->id, right->id); /* other merges may have changed it since */
        if (now == NULL || now->made - 1 != top.made)
            continue;
        left->id = top.made;
        left->to = right->to;
        left->after = right->after;
        right->id = -1;
        if (left->after != NONE)
            s[left->after].before = top.at;
        if (!consider(m, w, &waiting, left->before) || !consider(m, w, &waiting, top.at))
            return false;
    }
    return true;
}

attn_status attn_bpe(const struct model *m, const struct report *r, struct work *w, const struct runes *runes, size_t from, size_t to)
{
    if (m->flags & MODEL_IGNORE_MERGES) {
        if (!attn_work_word(w, runes, from, to, 0))
            return attn_text_nomem(r);
        const int32_t id = attn_vocab_id(&m->vocab, w->text.at, w->text.count);
        if (id >= 0)
            return attn_work_put(w, id, from, to) ? ATTN_OK : attn_text_nomem(r);
    }
    size_t count = 0;
    const attn_status s = symbols(m, r, w, runes, from, to, &count);
    if (s != ATTN_OK)
        return s;
    if (!merge_all(m, w, count))
        return attn_text_nomem(r);
    for (size_t i = 0; i < count; i++) {
        const struct symbol *x = (const struct symbol *)w->nodes + i;
        if (x->id >= 0 && !attn_work_put(w, x->id, x->from, x->to))
            return attn_text_nomem(r);
    }
    return ATTN_OK;
}
