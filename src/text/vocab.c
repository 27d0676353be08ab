/* SPDX-License-Identifier: Apache-2.0 */
#include "vocab.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_TOKEN = 1 << 16, FREE_IDS = 1 << 20, MAX_IDS = 1 << 28 };

/* The slot of the text, or the free one where it belongs. */
static size_t slot_of(const struct vocab *v, const char *text, size_t size)
{
    size_t at = (size_t)attn_hash(&v->key, text, size) & (v->slot_count - 1);
    while (v->slots[at] != 0) {
        const struct token *t = &v->tokens[v->slots[at] - 1];
        if (t->size == size && memcmp(v->text.at + t->at, text, size) == 0)
            break;
        at = (at + 1) & (v->slot_count - 1);
    }
    return at;
}

static bool more_slots(struct vocab *v)
{
    if (v->used * 2 < v->slot_count)
        return true;
    if (v->slot_count == 0)
        v->key = attn_hash_key();
    const struct vocab old = *v;
    v->slot_count = old.slot_count ? old.slot_count * 2 : 256;
    v->slots = calloc(v->slot_count, sizeof *v->slots);
    if (v->slots == NULL) {
        *v = old;
        return false;
    }
    for (size_t i = 0; i < old.slot_count; i++) {
        if (old.slots[i] != 0) {
            const struct token *t = &v->tokens[old.slots[i] - 1];
            v->slots[slot_of(v, v->text.at + t->at, t->size)] = old.slots[i];
        }
    }
    free(old.slots);
    return true;
}

/* How much of a token a sentence shows. */
static int shown(size_t size) { return size < 40 ? (int)size : 40; }

attn_status attn_vocab_alias(struct vocab *v, const struct report *r, const char *text, size_t size, int64_t id)
{
    if (id < 0 || id >= MAX_IDS || (id >= FREE_IDS && (size_t)id / 16 > v->used))
        return attn_text_fail(r, ATTN_E_FORMAT, "token \"%.*s\" has the id %lld, too large for a file of this size", shown(size), text,
                              (long long)id);
    if (size > MAX_TOKEN)
        return attn_text_fail(r, ATTN_E_FORMAT, "token %lld takes %zu bytes; at most %d are read", (long long)id, size, MAX_TOKEN);
    if ((size_t)id < v->count && v->tokens[id].known)
        return attn_text_fail(r, ATTN_E_FORMAT, "the tokens \"%.40s\" and \"%.40s\" have the same id %lld", v->text.at + v->tokens[id].at,
                              text, (long long)id);
    const size_t count = (size_t)id + 1 > v->count ? (size_t)id + 1 : v->count, at = v->text.count;
    if (!attn_text_grow(&v->tokens, &v->capacity, count, sizeof *v->tokens) || !attn_bytes_put(&v->text, text, size) ||
        !attn_bytes_put(&v->text, "", 1))
        return attn_text_nomem(r);
    memset(v->tokens + v->count, 0, (count - v->count) * sizeof *v->tokens);
    v->count = count;
    v->tokens[id] = (struct token){at, (uint32_t)size, true};
    return ATTN_OK;
}

attn_status attn_vocab_add(struct vocab *v, const struct report *r, const char *text, size_t size, int64_t id)
{
    const int32_t before = attn_vocab_id(v, text, size);
    if (before >= 0)
        return attn_text_fail(r, ATTN_E_FORMAT, "the token \"%.*s\" has the ids %d and %lld", shown(size), text, before, (long long)id);
    const attn_status s = attn_vocab_alias(v, r, text, size, id);
    if (s != ATTN_OK)
        return s;
    if (!more_slots(v))
        return attn_text_nomem(r);
    v->slots[slot_of(v, text, size)] = (int32_t)id + 1;
    v->used++;
    return ATTN_OK;
}

int32_t attn_vocab_id(const struct vocab *v, const char *text, size_t size)
{
    return v->slot_count ? v->slots[slot_of(v, text, size)] - 1 : -1;
}

const char *attn_vocab_text(const struct vocab *v, int64_t id, size_t *size)
{
    if (id < 0 || (uint64_t)id >= v->count || !v->tokens[id].known)
        return NULL;
    if (size != NULL)
        *size = v->tokens[id].size;
    return v->text.at + v->tokens[id].at;
}

void attn_vocab_free(struct vocab *v)
{
    free(v->tokens);
    free(v->text.at);
    free(v->slots);
    *v = (struct vocab){.count = 0};
}

/* ------------------------------------------------------------- prefixes ---- */

static int order(const struct vocab *v, int32_t a, int32_t b)
{
    const struct token *x = &v->tokens[a], *y = &v->tokens[b];
    const int d = memcmp(v->text.at + x->at, v->text.at + y->at, x->size < y->size ? x->size : y->size);
    return d != 0 ? d : (x->size > y->size) - (x->size < y->size);
}

/* Merge sort: the C library's qsort takes no argument for the vocabulary. */
static void sort(const struct vocab *v, int32_t *ids, int32_t *spare, size_t count)
{
    if (count < 2)
        return;
    const size_t half = count / 2;
    sort(v, ids, spare, half);
    sort(v, ids + half, spare, count - half);
    memcpy(spare, ids, half * sizeof *ids);
    for (size_t i = 0, j = half, k = 0; i < half; k++)
        ids[k] = j < count && order(v, ids[j], spare[i]) < 0 ? ids[j++] : spare[i++];
}

bool attn_prefixes_make(struct prefixes *p, const struct vocab *v, int32_t *ids, size_t count)
{
    p->ids = ids;
    p->count = count;
    int32_t *spare = malloc((count / 2 + 1) * sizeof *spare);
    if (spare == NULL)
        return false;
    sort(v, ids, spare, count);
    free(spare);
    size_t i = 0;
    for (unsigned byte = 0; byte < 256; byte++) {
        while (i < count && (v->tokens[ids[i]].size == 0 || (unsigned char)v->text.at[v->tokens[ids[i]].at] < byte))
            i++;
        p->first[byte] = i;
    }
    p->first[256] = count;
    return true;
}

void attn_prefixes_free(struct prefixes *p)
{
    free(p->ids);
    *p = (struct prefixes){.ids = NULL};
}

struct walk attn_walk_from(const struct prefixes *p, const char *text, size_t size)
{
    const unsigned char byte = size ? (unsigned char)text[0] : 0;
    return (struct walk){size ? p->first[byte] : 0, size ? p->first[byte + 1] : 0, 1};
}

/* The first of [lo, hi) whose byte at `depth` is not below `byte`; all are longer than depth. */
static size_t lower_bound(const struct prefixes *p, const struct vocab *v, size_t lo, size_t hi, size_t depth, unsigned byte)
{
    while (lo < hi) {
        const size_t mid = lo + (hi - lo) / 2;
        if ((unsigned char)v->text.at[v->tokens[p->ids[mid]].at + depth] < byte)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

int32_t attn_walk_next(const struct prefixes *p, const struct vocab *v, struct walk *w, const char *text, size_t size, size_t *token_size)
{
    while (w->lo < w->hi) {
        const int32_t id = p->ids[w->lo];
        const bool whole = v->tokens[id].size == w->depth;
        *token_size = w->depth;
        w->lo += whole;
        if (w->depth == size) {
            w->hi = w->lo;
        } else if (w->lo < w->hi) {
            const unsigned byte = (unsigned char)text[w->depth];
            w->lo = lower_bound(p, v, w->lo, w->hi, w->depth, byte);
            w->hi = lower_bound(p, v, w->lo, w->hi, w->depth, byte + 1);
        }
        w->depth++;
        if (whole)
            return id;
    }
    return -1;
}
