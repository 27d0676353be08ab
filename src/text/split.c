/* SPDX-License-Identifier: Apache-2.0 */
/* The pre-tokenizers: each cuts the pieces that are no tokens yet, and may change their characters. */
#include <stdlib.h>

#include "step.h"
#include "utf8.h"

static bool is_word_or_space(uint32_t c) { return attn_is_word(c) || attn_is_space(c); }

/* The stretches of text by a class of characters; each: every character of it alone, else runs. */
static bool by_class(bool (*in)(uint32_t), bool each, const uint32_t *text, size_t count, struct matches *m)
{
    for (size_t i = 0, n; i < count; i += n) {
        const bool hit = in(text[i]);
        for (n = 1; i + n < count && in(text[i + n]) == hit && !(hit && each); n++)
            ;
        if (!attn_matches_put(m, i, i + n, hit))
            return false;
    }
    return true;
}

/* Whitespace: words and runs of signs; what matches is what is between. */
static bool by_words(const uint32_t *text, size_t count, struct matches *m)
{
    for (size_t i = 0, n; i < count; i += n) {
        const bool space = attn_is_space(text[i]) && !attn_is_word(text[i]);
        bool (*const same)(uint32_t) = space ? attn_is_space : attn_is_word;
        const bool word = attn_is_word(text[i]);
        for (n = 1; i + n < count && (space || word ? same(text[i + n]) : !is_word_or_space(text[i + n])); n++)
            ;
        if (!attn_matches_put(m, i, i + n, space))
            return false;
    }
    return true;
}

/* Joins stretches as the behaviour says, in place, then makes pieces of them; `base` is where the text begins in the runes. */
static bool put_pieces(const struct matches *m, enum behavior behavior, size_t base, struct pieces *to)
{
    bool before = false; /* what HF remembers of the stretch before */
    if (behavior == BEHAVIOR_NEXT) {
        for (size_t i = m->count, end; i > 0;) {
            i--;
            if (i + 1 == m->count)
                before = false;
            const bool joins = m->at[i].hit && !before && i + 1 < m->count;
            before = m->at[i].hit;
            end = joins ? m->at[i + 1].to : m->at[i].to;
            m->at[i].to = end;
            if (joins)
                m->at[i + 1].from = m->at[i + 1].to;
        }
    } else if (behavior == BEHAVIOR_PREVIOUS || behavior == BEHAVIOR_CONTIGUOUS) {
        size_t last = 0;
        for (size_t i = 0; i < m->count; i++) {
            const bool hit = m->at[i].hit;
            const bool joins = i > 0 && (behavior == BEHAVIOR_PREVIOUS ? hit && !before : hit == before);
            before = hit;
            if (!joins) {
                last = i;
                continue;
            }
            m->at[last].to = m->at[i].to;
            m->at[i].from = m->at[i].to;
        }
    }
    for (size_t i = 0; i < m->count; i++) {
        const struct match x = m->at[i];
        if (!(behavior == BEHAVIOR_REMOVED && x.hit) && !attn_pieces_put(to, base + x.from, base + x.to, -1))
            return false;
    }
    return true;
}

static attn_status stretches(const struct step *s, const struct report *r, const uint32_t *text, size_t count, struct matches *m)
{
    bool fine = true;
    switch (s->kind) {
    case STEP_SPLIT:
    case STEP_BYTE_LEVEL:
        return attn_pattern_find(s->pattern, r, text, count, m);
    case STEP_WHITESPACE:
        fine = by_words(text, count, m);
        break;
    case STEP_WHITESPACE_SPLIT:
        fine = by_class(attn_is_space, true, text, count, m);
        break;
    case STEP_PUNCTUATION:
        fine = by_class(attn_is_punctuation, true, text, count, m);
        break;
    default:
        fine = by_class(attn_is_number, true, text, count, m);
    }
    return fine ? ATTN_OK : attn_text_nomem(r);
}

static attn_status cut(const struct step *s, const struct report *r, struct flow *to, size_t from, struct matches *m)
{
    const uint32_t *text = to->runes.code + from;
    const size_t count = to->runes.count - from;
    m->count = 0;
    const attn_status status = stretches(s, r, text, count, m);
    if (status != ATTN_OK)
        return status;
    for (size_t i = 0; (s->flags & STEP_INVERT) && i < m->count; i++)
        m->at[i].hit = !m->at[i].hit;
    return put_pieces(m, s->behavior, from, &to->pieces) ? ATTN_OK : attn_text_nomem(r);
}

/* BERT: blanks away, then each sign alone. */
static bool cut_bert(struct flow *to, size_t from)
{
    const struct runes *r = &to->runes;
    for (size_t i = from, n; i < r->count; i += n) {
        const bool sign = attn_is_punctuation(r->code[i]), space = attn_is_space(r->code[i]);
        for (n = 1; !sign && !space && i + n < r->count && !attn_is_punctuation(r->code[i + n]) && !attn_is_space(r->code[i + n]); n++)
            ;
        if (!space && !attn_pieces_put(&to->pieces, i, i + n, -1))
            return false;
    }
    return true;
}

static bool put_mark(const struct step *s, uint32_t mark, const struct flow *from, struct piece p, struct flow *to)
{
    const struct runes *r = &from->runes;
    const bool wanted = (s->flags & STEP_ADD_SPACE) && r->code[p.from] != mark && (s->kind != STEP_METASPACE || r->code[p.from] != ' ') &&
                        (!(s->flags & STEP_FIRST_ONLY) || r->start[p.from] == 0);
    return !wanted || attn_runes_put(&to->runes, mark, r->start[p.from], r->end[p.from]);
}

static attn_status metaspace(const struct step *s, const struct report *r, const struct flow *from, struct piece p, struct flow *to)
{
    const uint32_t mark = s->content.code[0];
    const size_t first = to->runes.count;
    if (!put_mark(s, mark, from, p, to) || !attn_runes_copy(&to->runes, &from->runes, p.from, p.to))
        return attn_text_nomem(r);
    size_t begun = first;
    for (size_t i = first; i < to->runes.count; i++) {
        if (to->runes.code[i] == ' ')
            to->runes.code[i] = mark;
        if ((s->flags & STEP_CUT) && to->runes.code[i] == mark && i > begun) {
            if (!attn_pieces_put(&to->pieces, begun, i, -1))
                return attn_text_nomem(r);
            begun = i;
        }
    }
    return attn_pieces_put(&to->pieces, begun, to->runes.count, -1) ? ATTN_OK : attn_text_nomem(r);
}

static attn_status one_piece(const struct step *s, const struct report *r, const struct flow *from, struct piece p, struct flow *to,
                             struct matches *m)
{
    const size_t first = to->runes.count;
    if (s->kind == STEP_METASPACE)
        return metaspace(s, r, from, p, to);
    if ((s->kind == STEP_BYTE_LEVEL && !put_mark(s, ' ', from, p, to)) || !attn_runes_copy(&to->runes, &from->runes, p.from, p.to))
        return attn_text_nomem(r);
    if (s->kind == STEP_BERT_SPLIT)
        return cut_bert(to, first) ? ATTN_OK : attn_text_nomem(r);
    if (s->kind == STEP_BYTE_LEVEL && !(s->flags & STEP_CUT))
        return attn_pieces_put(&to->pieces, first, to->runes.count, -1) ? ATTN_OK : attn_text_nomem(r);
    return cut(s, r, to, first, m);
}

/* Bytes as letters, after the words were found. */
static attn_status byte_letters(const struct report *r, struct flow *from, struct flow *to)
{
    to->runes.count = to->pieces.count = 0;
    for (size_t i = 0; i < from->pieces.count; i++) {
        const struct piece p = from->pieces.at[i];
        const size_t first = to->runes.count;
        if (p.id >= 0 && !attn_runes_copy(&to->runes, &from->runes, p.from, p.to))
            return attn_text_nomem(r);
        for (size_t k = p.from; p.id < 0 && k < p.to; k++) {
            char bytes[4];
            const size_t n = attn_utf8_write(from->runes.code[k], bytes);
            for (size_t b = 0; b < n; b++) {
                if (!attn_runes_put(&to->runes, attn_byte_letter((unsigned char)bytes[b]), from->runes.start[k], from->runes.end[k]))
                    return attn_text_nomem(r);
            }
        }
        if (!attn_pieces_put(&to->pieces, first, to->runes.count, p.id))
            return attn_text_nomem(r);
    }
    return ATTN_OK;
}

static void swap(struct flow *a, struct flow *b)
{
    const struct flow c = *a;
    *a = *b;
    *b = c;
}

static attn_status one_step(const struct step *s, const struct report *r, struct flow *flow, struct flow *spare, struct matches *m)
{
    attn_status status = ATTN_OK;
    spare->runes.count = spare->pieces.count = 0;
    for (size_t i = 0; i < flow->pieces.count && status == ATTN_OK; i++) {
        const struct piece p = flow->pieces.at[i];
        const size_t first = spare->runes.count;
        if (p.id < 0)
            status = one_piece(s, r, flow, p, spare, m);
        else if (!attn_runes_copy(&spare->runes, &flow->runes, p.from, p.to) ||
                 !attn_pieces_put(&spare->pieces, first, spare->runes.count, p.id))
            status = attn_text_nomem(r);
    }
    if (status == ATTN_OK && s->kind == STEP_BYTE_LEVEL) {
        swap(flow, spare);
        status = byte_letters(r, flow, spare);
    }
    swap(flow, spare);
    return status;
}

attn_status attn_pre_tokenize(const struct steps *steps, const struct report *r, struct flow *flow, struct flow *spare)
{
    struct matches m = {.at = NULL};
    attn_status s = ATTN_OK;
    for (size_t i = 0; i < steps->count && s == ATTN_OK; i++)
        s = one_step(&steps->at[i], r, flow, spare, &m);
    free(m.at);
    return s;
}
