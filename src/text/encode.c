/* SPDX-License-Identifier: Apache-2.0 */
/* Text -> tokens: added tokens, normalizers, pre-tokenizers, model; then the cut to a length and the template. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "marian.h"
#include "utf8.h"

enum { MAX_TEXT = 1 << 30 };

/* The tokens of one of the two texts. */
struct encoded {
    int32_t *ids, *words;
    int64_t *start, *end;
    size_t count, capacity;
};

static bool put(struct encoded *e, int32_t id, int32_t word, int64_t start, int64_t end)
{
    size_t a = e->capacity, b = a, c = a, d = a;
    if (!attn_text_grow(&e->ids, &a, e->count + 1, sizeof *e->ids) || !attn_text_grow(&e->words, &b, e->count + 1, sizeof *e->words) ||
        !attn_text_grow(&e->start, &c, e->count + 1, sizeof *e->start) || !attn_text_grow(&e->end, &d, e->count + 1, sizeof *e->end))
        return false;
    e->capacity = a;
    e->ids[e->count] = id;
    e->words[e->count] = word;
    e->start[e->count] = start;
    e->end[e->count++] = end;
    return true;
}

static void free_encoded(struct encoded *e)
{
    free(e->ids);
    free(e->words);
    free(e->start);
    free(e->end);
}

/* Each text piece through the normalizers. */
static attn_status normalize_pieces(const attn_tokenizer *t, const struct report *r, struct flow *flow, struct flow *to)
{
    struct runes text = {.count = 0}, spare = {.count = 0};
    attn_status s = ATTN_OK;
    to->runes.count = to->pieces.count = 0;
    for (size_t i = 0; i < flow->pieces.count && s == ATTN_OK; i++) {
        const struct piece p = flow->pieces.at[i];
        const size_t first = to->runes.count;
        text.count = 0;
        if (!attn_runes_copy(&text, &flow->runes, p.from, p.to))
            s = attn_text_nomem(r);
        if (s == ATTN_OK && p.id < 0)
            s = attn_normalize(&t->normalizers, r, &text, &spare);
        if (s == ATTN_OK &&
            (!attn_runes_copy(&to->runes, &text, 0, text.count) || !attn_pieces_put(&to->pieces, first, to->runes.count, p.id)))
            s = attn_text_nomem(r);
    }
    attn_runes_free(&text);
    attn_runes_free(&spare);
    const struct flow done = *to;
    *to = *flow;
    *flow = done;
    return s;
}

static bool is_blank(uint32_t c) { return c == 0x120 || attn_is_space(c); } /* U+0120 is the byte-level blank */

/* Blanks that a token begins and ends with are no part of it, but for one that was put before the first word. */
static void trim(const attn_tokenizer *t, const struct runes *r, struct found f, bool first, int64_t *start, int64_t *end)
{
    size_t a = f.from, b = f.to;
    while (a < f.to && is_blank(r->code[a]))
        a++;
    while (b > f.from && is_blank(r->code[b - 1]))
        b--;
    if (a - f.from == 1 && t->trim_keeps_first && (first || *start == 0))
        a = f.from;
    if (a > f.from)
        *start = a < f.to ? r->start[a] : *end;
    if (b < f.to && a < f.to)
        *end = b > a ? r->end[b - 1] : *start;
}

static bool put_found(const attn_tokenizer *t, const struct runes *r, struct found f, size_t word, struct encoded *to)
{
    int64_t start = r->start[f.from], end = r->end[f.to - 1];
    if (t->trim)
        trim(t, r, f, to->count == 0, &start, &end);
    return put(to, f.id, (int32_t)word, start, end);
}

static attn_status run_model(const attn_tokenizer *t, const struct side *side, const struct report *r, const struct flow *flow,
                             struct work *w, struct encoded *to)
{
    const struct model *model = side ? &side->model : &t->model;
    for (size_t i = 0; i < flow->pieces.count; i++) {
        const struct piece p = flow->pieces.at[i];
        w->found_count = 0;
        attn_status s = ATTN_OK;
        if (p.id < 0)
            s = attn_model_run(model, r, w, &flow->runes, p.from, p.to);
        else if (p.to > p.from && !attn_work_put(w, p.id, p.from, p.to))
            s = attn_text_nomem(r);
        for (size_t k = 0; s == ATTN_OK && k < w->found_count; k++) {
            if (side != NULL && p.id < 0)
                w->found[k].id = side->ids[w->found[k].id];
            if (!put_found(t, &flow->runes, w->found[k], i, to))
                s = attn_text_nomem(r);
        }
        if (s != ATTN_OK)
            return s;
    }
    return ATTN_OK;
}

static attn_status encode_text(const attn_tokenizer *t, const struct report *r, const char *text, size_t size, uint32_t flags,
                               struct encoded *to)
{
    struct flow flow = {.runes = {.count = 0}}, spare = {.runes = {.count = 0}};
    struct work w = {.found = NULL};
    const struct side *side = flags & ATTN_ENCODE_TARGET ? t->target : t->source;
    const bool literal = (flags & ATTN_ENCODE_LITERAL) != 0;
    attn_status s = ATTN_OK;
    if (!attn_runes_text(&flow.runes, text, size, 0) || !attn_pieces_put(&flow.pieces, 0, flow.runes.count, -1))
        s = attn_text_nomem(r);
    s = s != ATTN_OK ? s : attn_added_find(&t->added, r, false, literal, &flow, &spare.pieces, &w);
    if (s == ATTN_OK && side != NULL) {
        s = attn_marian_normalize(t, side, r, &flow, &spare);
    } else if (s == ATTN_OK) {
        if (t->normalizers.count > 0)
            s = normalize_pieces(t, r, &flow, &spare);
        s = s != ATTN_OK ? s : attn_added_find(&t->added, r, true, literal, &flow, &spare.pieces, &w);
        s = s != ATTN_OK ? s : attn_pre_tokenize(&t->pre_tokenizers, r, &flow, &spare);
    }
    s = s != ATTN_OK ? s : run_model(t, side, r, &flow, &w, to);
    attn_flow_free(&flow);
    attn_flow_free(&spare);
    attn_work_free(&w);
    return s;
}

/* transformers' longest_first: the longer one is cut to the shorter, then both. */
static void cut(size_t room, struct encoded *a, struct encoded *b)
{
    size_t n1 = a->count, n2 = b->count;
    if (n1 + n2 <= room)
        return;
    const bool swapped = n1 > n2;
    size_t few = swapped ? n2 : n1, many = few > room ? few : room - few > few ? room - few : few;
    if (few + many > room) {
        few = room / 2;
        many = few + room % 2;
    }
    n1 = swapped ? many : few;
    n2 = swapped ? few : many;
    a->count = n1 < a->count ? n1 : a->count;
    b->count = n2 < b->count ? n2 : b->count;
}

static bool allocate(attn_encoding *e, size_t count)
{
    const size_t n = count + 1; /* none may be NULL */
    e->ids = malloc(n * sizeof *e->ids);
    e->type_ids = malloc(n * sizeof *e->type_ids);
    e->start = malloc(n * sizeof *e->start);
    e->end = malloc(n * sizeof *e->end);
    e->word = malloc(n * sizeof *e->word);
    e->sequence = malloc(n * sizeof *e->sequence);
    return e->ids && e->type_ids && e->start && e->end && e->word && e->sequence;
}

static void append(attn_encoding *e, const struct encoded *from, int32_t type_id, int8_t sequence)
{
    for (size_t i = 0; i < from->count; i++, e->count++) {
        e->ids[e->count] = from->ids[i];
        e->type_ids[e->count] = type_id;
        e->start[e->count] = from->start[i];
        e->end[e->count] = from->end[i];
        e->word[e->count] = from->words[i];
        e->sequence[e->count] = sequence;
    }
}

static void assemble(const struct template *t, bool special, const struct encoded texts[2], attn_encoding *e)
{
    for (size_t i = 0; i < t->count; i++) {
        const struct template_part p = t->at[i];
        if (p.id < 0) {
            append(e, &texts[p.id == TEMPLATE_PAIR], p.type_id, p.id == TEMPLATE_PAIR);
        } else if (special) {
            int32_t id = p.id, word = -1;
            int64_t zero = 0;
            append(e, &(struct encoded){&id, &word, &zero, &zero, 1, 1}, p.type_id, -1);
        }
    }
}

static attn_status check(const struct report *r, const char *text, size_t size, const char *what)
{
    if (size > MAX_TEXT)
        return attn_text_fail(r, ATTN_E_ARG, "%s has %zu bytes; at most %d are taken, so cut it", what, size, MAX_TEXT);
    const size_t valid = attn_utf8_valid(text, size);
    if (valid < size)
        return attn_text_fail(r, ATTN_E_ARG, "%s is not UTF-8: byte %zu is 0x%02x; convert it, with iconv for example", what, valid,
                              (unsigned)(unsigned char)text[valid]);
    return ATTN_OK;
}

static size_t added_count(const struct template *t)
{
    size_t n = 0;
    for (size_t i = 0; i < t->count; i++)
        n += t->at[i].id >= 0;
    return n;
}

static attn_status finish(const struct template *t, const struct report *r, bool special, size_t max_length, struct encoded texts[2],
                          attn_encoding **out)
{
    const size_t more = special ? added_count(t) : 0;
    if (max_length > 0 && max_length < more)
        return attn_text_fail(r, ATTN_E_ARG, "max_length = %zu leaves no room for the %zu tokens that the model adds; give at least %zu",
                              max_length, more, more);
    if (max_length > 0)
        cut(max_length - more, &texts[0], &texts[1]);
    attn_encoding *e = calloc(1, sizeof *e);
    if (e == NULL || !allocate(e, texts[0].count + texts[1].count + more)) {
        attn_encoding_destroy(e);
        return attn_text_nomem(r);
    }
    assemble(t, special, texts, e);
    *out = e;
    return ATTN_OK;
}

attn_status attn_tokenizer_encode(const attn_tokenizer *t, const char *text, size_t size, const char *pair, size_t pair_size,
                                  uint32_t flags, size_t max_length, attn_encoding **out, char *err, size_t err_size)
{
    const struct report r = {err, err_size, "tokenizer"};
    struct encoded texts[2] = {{.count = 0}, {.count = 0}};
    const uint32_t known = ATTN_ENCODE_SPECIAL | ATTN_ENCODE_LITERAL | ATTN_ENCODE_TARGET;
    *out = NULL;
    if (flags & ~known)
        return attn_text_fail(&r, ATTN_E_ARG, "flags = 0x%x has bits that are not known; known are 0x%x", (unsigned)flags, (unsigned)known);
    attn_status s = check(&r, text, size, "the text");
    s = s != ATTN_OK || pair == NULL ? s : check(&r, pair, pair_size, "the pair");
    s = s != ATTN_OK ? s : encode_text(t, &r, text, size, flags, &texts[0]);
    s = s != ATTN_OK || pair == NULL ? s : encode_text(t, &r, pair, pair_size, flags, &texts[1]);
    s = s != ATTN_OK ? s : finish(pair ? &t->two : &t->one, &r, (flags & ATTN_ENCODE_SPECIAL) != 0, max_length, texts, out);
    free_encoded(&texts[0]);
    free_encoded(&texts[1]);
    return s;
}

void attn_encoding_destroy(attn_encoding *e)
{
    if (e == NULL)
        return;
    free(e->ids);
    free(e->type_ids);
    free(e->start);
    free(e->end);
    free(e->word);
    free(e->sequence);
    free(e);
}
