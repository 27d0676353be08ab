/* SPDX-License-Identifier: Apache-2.0 */
/* The normalizers: each reads runes and writes runes. */
#include <stdlib.h>

#include "step.h"
#include "utf8.h"

/* A removed character's bytes belong to no other. */
static bool bert(const struct step *s, const struct runes *from, struct runes *to)
{
    for (size_t i = 0; i < from->count; i++) {
        uint32_t c = from->code[i];
        const uint32_t start = from->start[i], end = from->end[i];
        if (s->flags & STEP_CLEAN) {
            if (c == 0 || c == 0xfffd || attn_is_control(c))
                continue;
            c = attn_is_space(c) ? ' ' : c;
        }
        const bool apart = (s->flags & STEP_CJK) && attn_is_cjk(c);
        if ((apart && !attn_runes_put(to, ' ', start, end)) || !attn_runes_put(to, c, start, end) ||
            (apart && !attn_runes_put(to, ' ', start, end)))
            return false;
    }
    return true;
}

static bool lower(const struct runes *from, struct runes *to)
{
    for (size_t i = 0; i < from->count; i++) {
        uint32_t c[2];
        const size_t n = attn_lower(from->code[i], c);
        for (size_t k = 0; k < n; k++) {
            if (!attn_runes_put(to, c[k], from->start[i], from->end[i]))
                return false;
        }
    }
    return true;
}

static void drop(struct runes *r, bool (*unwanted)(uint32_t))
{
    size_t n = 0;
    for (size_t i = 0; i < r->count; i++) {
        if (unwanted(r->code[i]))
            continue;
        r->code[n] = r->code[i];
        r->start[n] = r->start[i];
        r->end[n++] = r->end[i];
    }
    r->count = n;
}

static bool strip(const struct step *s, const struct runes *from, struct runes *to)
{
    size_t a = 0, b = from->count;
    while ((s->flags & STEP_LEFT) && a < b && attn_is_space(from->code[a]))
        a++;
    while ((s->flags & STEP_RIGHT) && b > a && attn_is_space(from->code[b - 1]))
        b--;
    return attn_runes_copy(to, from, a, b);
}

static bool prepend(const struct step *s, const struct runes *from, struct runes *to)
{
    for (size_t i = 0; i < s->content.count && from->count > 0; i++) {
        if (!attn_runes_put(to, s->content.code[i], from->start[0], from->end[0]))
            return false;
    }
    return attn_runes_copy(to, from, 0, from->count);
}

/* The replacement comes from the last character that it replaces; where it replaces nothing, from the one before. */
static attn_status replace(const struct step *s, const struct report *r, const struct runes *from, struct runes *to)
{
    struct matches m = {.at = NULL};
    attn_status status = attn_pattern_find(s->pattern, r, from->code, from->count, &m);
    bool fine = true;
    for (size_t i = 0; status == ATTN_OK && i < m.count && fine; i++) {
        const struct match x = m.at[i];
        const uint32_t start = x.to > 0 ? from->start[x.to - 1] : 0, end = x.to > 0 ? from->end[x.to - 1] : 0;
        if (!x.hit)
            fine = attn_runes_copy(to, from, x.from, x.to);
        for (size_t k = 0; x.hit && fine && k < s->content.count; k++)
            fine = attn_runes_put(to, s->content.code[k], start, end);
    }
    free(m.at);
    return status != ATTN_OK || fine ? status : attn_text_nomem(r);
}

static bool is_dropped_by_nmt(uint32_t c)
{
    return (c >= 1 && c <= 8) || c == 0xb || (c >= 0xe && c <= 0x1f) || c == 0x7f || c == 0x8f || c == 0x9f;
}

static bool is_space_of_nmt(uint32_t c)
{
    return c == 9 || c == 10 || c == 12 || c == 13 || c == 0x1680 || (c >= 0x200b && c <= 0x200f) || c == 0x2028 || c == 0x2029 ||
           c == 0x2581 || c == 0xfeff || c == 0xfffd;
}

static bool nmt(const struct runes *from, struct runes *to)
{
    for (size_t i = 0; i < from->count; i++) {
        const uint32_t c = from->code[i];
        if (!is_dropped_by_nmt(c) && !attn_runes_put(to, is_space_of_nmt(c) ? ' ' : c, from->start[i], from->end[i]))
            return false;
    }
    return true;
}

static bool byte_letters(const struct runes *from, struct runes *to)
{
    for (size_t i = 0; i < from->count; i++) {
        char bytes[4];
        const size_t n = attn_utf8_write(from->code[i], bytes);
        for (size_t k = 0; k < n; k++) {
            if (!attn_runes_put(to, attn_byte_letter((unsigned char)bytes[k]), from->start[i], from->end[i]))
                return false;
        }
    }
    return true;
}

static bool is_ascii(const struct runes *r)
{
    uint32_t all = 0;
    for (size_t i = 0; i < r->count; i++)
        all |= r->code[i];
    return all < 0x80;
}

static attn_status one_step(const struct step *s, const struct report *r, const struct runes *from, struct runes *to)
{
    bool fine = true;
    switch (s->kind) {
    case STEP_BERT_NORMALIZER:
        fine = bert(s, from, to);
        break;
    case STEP_LOWERCASE:
        fine = lower(from, to);
        break;
    case STEP_STRIP:
        fine = strip(s, from, to);
        break;
    case STEP_PREPEND:
        fine = prepend(s, from, to);
        break;
    case STEP_NMT:
        fine = nmt(from, to);
        break;
    case STEP_BYTE_LEVEL:
        fine = byte_letters(from, to);
        break;
    case STEP_CHARSMAP:
        fine = attn_charsmap_graphemes(s->map, from, to);
        break;
    case STEP_REPLACE:
        return replace(s, r, from, to);
    case STEP_STRIP_ACCENTS:
        fine = attn_runes_copy(to, from, 0, from->count);
        drop(to, attn_is_mark);
        break;
    default:
        if (!is_ascii(from))
            return attn_unicode_form(s->kind, r, from, to);
        fine = attn_runes_copy(to, from, 0, from->count);
    }
    return fine ? ATTN_OK : attn_text_nomem(r);
}

static void swap(struct runes *a, struct runes *b)
{
    const struct runes c = *a;
    *a = *b;
    *b = c;
    b->count = 0;
}

/* What BertNormalizer does after its cleaning: in parts, for they are steps of their own elsewhere. */
static attn_status rest_of_bert(const struct step *s, const struct report *r, struct runes *text, struct runes *spare)
{
    if ((s->flags & STEP_ACCENTS) && !is_ascii(text)) {
        const attn_status status = attn_unicode_form(STEP_NFD, r, text, spare);
        if (status != ATTN_OK)
            return status;
        drop(spare, attn_is_nonspacing);
        swap(text, spare);
    }
    if (s->flags & STEP_LOWER) {
        if (!lower(text, spare))
            return attn_text_nomem(r);
        swap(text, spare);
    }
    return ATTN_OK;
}

attn_status attn_normalize(const struct steps *steps, const struct report *r, struct runes *text, struct runes *spare)
{
    attn_status s = ATTN_OK;
    for (size_t i = 0; i < steps->count && s == ATTN_OK; i++) {
        spare->count = 0;
        s = one_step(&steps->at[i], r, text, spare);
        swap(text, spare);
        if (s == ATTN_OK && steps->at[i].kind == STEP_BERT_NORMALIZER)
            s = rest_of_bert(&steps->at[i], r, text, spare);
    }
    return s;
}
