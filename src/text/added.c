/* SPDX-License-Identifier: Apache-2.0 */
/* Added tokens: found in the text, the longest first, before the model sees it. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "utf8.h"

void attn_added_free(struct added *a)
{
    attn_vocab_free(&a->vocab);
    attn_vocab_free(&a->written);
    attn_prefixes_free(&a->raw);
    attn_prefixes_free(&a->normalized);
    free(a->flags);
}

attn_status attn_added_put(attn_tokenizer *t, const struct report *r, const char *text, size_t size, int64_t id, unsigned flags)
{
    struct added *a = &t->added;
    const int32_t known = attn_vocab_id(&t->model.vocab, text, size);
    const char *taken = attn_vocab_text(&t->model.vocab, id, NULL);
    if ((known >= 0 && known != id) || (known < 0 && taken != NULL))
        return attn_text_fail(r, ATTN_E_FORMAT, "the added token \"%.*s\" has the id %lld, but the vocabulary gives %s%.60s %lld",
                              (int)(size < 60 ? size : 60), text, (long long)id, known >= 0 ? "it " : "that id to ",
                              known >= 0 ? "the id" : taken, (long long)(known >= 0 ? known : id));
    const size_t before = a->vocab.count;
    const attn_status s = attn_vocab_add(&a->vocab, r, text, size, id);
    if (s != ATTN_OK)
        return s;
    if (a->vocab.count > before) {
        unsigned char *grown = realloc(a->flags, a->vocab.count);
        if (grown == NULL)
            return attn_text_nomem(r);
        memset(grown + before, 0, a->vocab.count - before);
        a->flags = grown;
    }
    a->flags[id] = (unsigned char)flags;
    return ATTN_OK;
}

/* Token `id` as the normalizers write it. Of two that become the same text the first is found. */
static attn_status write_normalized(attn_tokenizer *t, const struct report *r, int32_t id, struct runes *text, struct runes *spare)
{
    struct added *a = &t->added;
    struct bytes utf8 = {.at = NULL};
    size_t size = 0;
    const char *content = attn_vocab_text(&a->vocab, id, &size);
    text->count = 0;
    attn_status s = attn_runes_text(text, content, size, 0) ? attn_normalize(&t->normalizers, r, text, spare) : attn_text_nomem(r);
    if (s == ATTN_OK && !attn_runes_utf8(text->code, text->count, &utf8))
        s = attn_text_nomem(r);
    if (s == ATTN_OK && utf8.count > 0 && attn_vocab_id(&a->written, utf8.at, utf8.count) < 0)
        s = attn_vocab_add(&a->written, r, utf8.at, utf8.count, id);
    free(utf8.at);
    return s;
}

attn_status attn_added_finish(attn_tokenizer *t, const struct report *r)
{
    struct added *a = &t->added;
    struct runes text = {.count = 0}, spare = {.count = 0};
    int32_t *raw = malloc((a->vocab.used + 1) * sizeof *raw), *normalized = malloc((a->vocab.used + 1) * sizeof *normalized);
    size_t n = 0, m = 0;
    attn_status s = raw != NULL && normalized != NULL ? ATTN_OK : attn_text_nomem(r);
    for (size_t i = 0; i < a->vocab.count && s == ATTN_OK; i++) {
        if (!a->vocab.tokens[i].known)
            continue;
        if (a->flags[i] & ADDED_NORMALIZED)
            s = write_normalized(t, r, (int32_t)i, &text, &spare);
        else
            raw[n++] = (int32_t)i;
        if ((a->flags[i] & ADDED_NORMALIZED) && s == ATTN_OK && i < a->written.count && a->written.tokens[i].known)
            normalized[m++] = (int32_t)i;
    }
    attn_runes_free(&text);
    attn_runes_free(&spare);
    if (s == ATTN_OK && attn_prefixes_make(&a->raw, &a->vocab, raw, n) && attn_prefixes_make(&a->normalized, &a->written, normalized, m))
        return ATTN_OK;
    if (a->raw.ids != raw)
        free(raw);
    if (a->normalized.ids != normalized)
        free(normalized);
    return s == ATTN_OK ? attn_text_nomem(r) : s;
}

/* The longest token that begins text; -1: none. */
static int32_t longest(const struct prefixes *p, const struct vocab *v, const char *text, size_t size, size_t *token_size)
{
    struct walk walk = attn_walk_from(p, text, size);
    int32_t best = -1;
    size_t n = 0;
    for (int32_t id; (id = attn_walk_next(p, v, &walk, text, size, &n)) >= 0;) {
        best = id;
        *token_size = n;
    }
    return best;
}

/* Whether runes [from, to) may be the token, and what blanks around go with it; `done`: where the token before ended. */
static bool accepted(unsigned flags, bool literal, const struct runes *r, struct piece text, size_t done, size_t *from, size_t *to)
{
    if (literal && (flags & ADDED_SPECIAL))
        return false;
    if ((flags & ADDED_SINGLE_WORD) &&
        ((*from > text.from && attn_is_word(r->code[*from - 1])) || (*to < text.to && attn_is_word(r->code[*to]))))
        return false;
    while ((flags & ADDED_LSTRIP) && *from > done && attn_is_space(r->code[*from - 1]))
        --*from;
    while ((flags & ADDED_RSTRIP) && *to < text.to && attn_is_space(r->code[*to]))
        ++*to;
    return true;
}

static bool find_in(const struct added *a, bool normalized, bool literal, const struct runes *r, struct piece text, struct work *w,
                    struct pieces *to)
{
    const struct prefixes *p = normalized ? &a->normalized : &a->raw;
    const struct vocab *v = normalized ? &a->written : &a->vocab;
    if (!attn_work_word(w, r, text.from, text.to, 0))
        return false;
    size_t done = text.from;
    for (size_t i = 0; i < w->text.count;) {
        size_t size = 1;
        const int32_t id = longest(p, v, w->text.at + i, w->text.count - i, &size);
        size_t from = w->rune_of[i], end = id >= 0 ? w->rune_of[i + size] : from;
        i += size;
        if (id < 0 || from < done || !accepted(a->flags[id], literal, r, text, done, &from, &end))
            continue;
        if (!attn_pieces_put(to, done, from, -1) || !attn_pieces_put(to, from, end, id))
            return false;
        done = end;
    }
    return attn_pieces_put(to, done, text.to, -1);
}

attn_status attn_added_find(const struct added *a, const struct report *r, bool normalized, bool literal, struct flow *flow,
                            struct pieces *spare, struct work *w)
{
    if ((normalized ? a->normalized.count : a->raw.count) == 0)
        return ATTN_OK;
    spare->count = 0;
    for (size_t i = 0; i < flow->pieces.count; i++) {
        const struct piece p = flow->pieces.at[i];
        if (!(p.id >= 0 ? attn_pieces_put(spare, p.from, p.to, p.id) : find_in(a, normalized, literal, &flow->runes, p, w, spare)))
            return attn_text_nomem(r);
    }
    const struct pieces found = *spare;
    *spare = flow->pieces;
    flow->pieces = found;
    return ATTN_OK;
}
