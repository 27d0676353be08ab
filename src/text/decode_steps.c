/* SPDX-License-Identifier: Apache-2.0 */
/* The decoders: each turns a list of strings into a list of strings. */
#include <stdlib.h>
#include <string.h>

#include "step.h"
#include "utf8.h"

#define UNKNOWN_CHARACTER "\xef\xbf\xbd"

bool attn_words_end(struct words *w)
{
    if (!attn_text_grow(&w->end, &w->capacity, w->count + 1, sizeof *w->end))
        return false;
    w->end[w->count++] = w->text.count;
    return true;
}

bool attn_words_put(struct words *w, const char *text, size_t size) { return attn_bytes_put(&w->text, text, size) && attn_words_end(w); }

void attn_words_free(struct words *w)
{
    free(w->text.at);
    free(w->end);
}

static struct bytes word_at(const struct words *w, size_t i)
{
    const size_t from = i > 0 ? w->end[i - 1] : 0;
    return (struct bytes){w->text.at + from, w->end[i] - from, 0};
}

/* How many bytes at p are the beginning of a character that then goes wrong; 1 at least. */
static size_t broken(const char *p, size_t size)
{
    const unsigned char *u = (const unsigned char *)p;
    const size_t n = u[0] >= 0xf0 ? 4 : u[0] >= 0xe0 ? 3 : 2;
    if (u[0] < 0xc2 || u[0] > 0xf4)
        return 1;
    size_t i = 1;
    for (; i < n && i < size; i++) {
        const unsigned low = i > 1 ? 0x80 : u[0] == 0xe0 ? 0xa0 : u[0] == 0xf0 ? 0x90 : 0x80;
        const unsigned high = i > 1 ? 0xbf : u[0] == 0xed ? 0x9f : u[0] == 0xf4 ? 0x8f : 0xbf;
        if (u[i] < low || u[i] > high)
            break;
    }
    return i;
}

/* Bytes -> UTF-8, U+FFFD for each longest beginning of a character that is none. */
static bool put_repaired(const char *p, size_t size, struct bytes *to)
{
    uint32_t c;
    for (size_t i = 0, n; i < size; i += n) {
        n = attn_utf8_read(p + i, size - i, &c);
        if (!(n > 0 ? attn_bytes_put(to, p + i, n) : attn_bytes_put(to, UNKNOWN_CHARACTER, 3)))
            return false;
        n = n > 0 ? n : broken(p + i, size - i);
    }
    return true;
}

/* A token of letters that all stand for bytes is these bytes; any other is its text. */
static bool put_bytes(struct bytes token, struct bytes *to)
{
    const size_t before = to->count;
    for (size_t i = 0, n; i < token.count; i += n) {
        uint32_t c = 0;
        n = attn_utf8_read(token.at + i, token.count - i, &c);
        const int byte = n > 0 ? attn_letter_byte(c) : -1;
        if (byte < 0) {
            to->count = before;
            return attn_bytes_put(to, token.at, token.count);
        }
        const char one = (char)byte;
        if (!attn_bytes_put(to, &one, 1))
            return false;
    }
    return true;
}

static bool byte_level(const struct words *from, struct words *to)
{
    struct bytes raw = {.at = NULL};
    bool fine = true;
    for (size_t i = 0; i < from->count && fine; i++)
        fine = put_bytes(word_at(from, i), &raw);
    fine = fine && put_repaired(raw.at, raw.count, &to->text) && attn_words_end(to);
    free(raw.at);
    return fine;
}

static bool utf8_of(const struct runes *r, struct bytes *b)
{
    b->count = 0;
    return attn_runes_utf8(r->code, r->count, b);
}

/* Every `old` becomes `new`, which is no longer, from `from` on, in place. */
static void shorten(struct bytes *b, size_t from, const char *old, const char *new)
{
    const size_t a = strlen(old), n = strlen(new);
    size_t to = from;
    for (size_t i = from; i < b->count;) {
        const bool hit = b->count - i >= a && memcmp(b->at + i, old, a) == 0;
        memmove(b->at + to, hit ? new : b->at + i, hit ? n : 1);
        to += hit ? n : 1;
        i += hit ? a : 1;
    }
    b->count = to;
}

static bool wordpiece(const struct step *s, const struct words *from, struct words *to)
{
    static const char *const dirty[][2] = {{" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
                                           {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
                                           {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
    struct bytes prefix = {.at = NULL};
    bool fine = utf8_of(&s->content, &prefix);
    for (size_t i = 0; i < from->count && fine; i++) {
        struct bytes word = word_at(from, i);
        const size_t begun = to->text.count;
        const bool goes_on = i > 0 && word.count >= prefix.count && memcmp(word.at, prefix.at, prefix.count) == 0;
        const size_t skip = goes_on ? prefix.count : 0;
        fine = (i == 0 || goes_on || attn_bytes_put(&to->text, " ", 1)) && attn_bytes_put(&to->text, word.at + skip, word.count - skip);
        for (size_t k = 0; (s->flags & STEP_CLEANUP) && fine && k < sizeof dirty / sizeof *dirty; k++)
            shorten(&to->text, begun, dirty[k][0], dirty[k][1]);
        fine = fine && attn_words_end(to);
    }
    free(prefix.at);
    return fine;
}

static bool metaspace(const struct step *s, const struct words *from, struct words *to)
{
    char mark[4];
    const size_t size = attn_utf8_write(s->content.code[0], mark);
    for (size_t i = 0; i < from->count; i++) {
        const struct bytes word = word_at(from, i);
        for (size_t k = 0; k < word.count;) {
            const bool hit = word.count - k >= size && memcmp(word.at + k, mark, size) == 0,
                       nothing = i == 0 && (s->flags & STEP_ADD_SPACE);
            if (!(hit ? nothing || attn_bytes_put(&to->text, " ", 1) : attn_bytes_put(&to->text, word.at + k, 1)))
                return false;
            k += hit ? size : 1;
        }
        if (!attn_words_end(to))
            return false;
    }
    return true;
}

static attn_status replace(const struct step *s, const struct report *r, const struct words *from, struct words *to)
{
    struct runes text = {.count = 0};
    struct matches m = {.at = NULL};
    attn_status status = ATTN_OK;
    for (size_t i = 0; i < from->count && status == ATTN_OK; i++) {
        const struct bytes word = word_at(from, i);
        text.count = m.count = 0;
        bool fine = attn_runes_text(&text, word.at, word.count, 0);
        status = fine ? attn_pattern_find(s->pattern, r, text.code, text.count, &m) : ATTN_OK;
        for (size_t k = 0; k < m.count && fine && status == ATTN_OK; k++) {
            const struct match x = m.at[k];
            fine = x.hit ? attn_runes_utf8(s->content.code, s->content.count, &to->text)
                         : attn_runes_utf8(text.code + x.from, x.to - x.from, &to->text);
        }
        if (status == ATTN_OK && !(fine && attn_words_end(to)))
            status = attn_text_nomem(r);
    }
    attn_runes_free(&text);
    free(m.at);
    return status;
}

static int hex(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The byte that "<0x4F>" names, else -1. */
static int byte_of(struct bytes word)
{
    if (word.count != 6 || memcmp(word.at, "<0x", 3) != 0 || word.at[5] != '>' || hex(word.at[3]) < 0 || hex(word.at[4]) < 0)
        return -1;
    return hex(word.at[3]) * 16 + hex(word.at[4]);
}

/* A run of byte tokens is its text if it is UTF-8, else one U+FFFD for each. */
static bool end_run(struct bytes *run, struct words *to)
{
    bool fine = true;
    if (run->count > 0 && attn_utf8_valid(run->at, run->count) == run->count)
        fine = attn_words_put(to, run->at, run->count);
    else
        for (size_t i = 0; i < run->count && fine; i++)
            fine = attn_words_put(to, UNKNOWN_CHARACTER, 3);
    run->count = 0;
    return fine;
}

static bool byte_fallback(const struct words *from, struct words *to)
{
    struct bytes run = {.at = NULL};
    bool fine = true;
    for (size_t i = 0; i < from->count && fine; i++) {
        const struct bytes word = word_at(from, i);
        const int byte = byte_of(word);
        const char one = (char)byte;
        fine = byte >= 0 ? attn_bytes_put(&run, &one, 1) : end_run(&run, to) && attn_words_put(to, word.at, word.count);
    }
    fine = fine && end_run(&run, to);
    free(run.at);
    return fine;
}

static bool strip(const struct step *s, const struct words *from, struct words *to)
{
    char mark[4];
    const size_t size = attn_utf8_write(s->content.code[0], mark);
    for (size_t i = 0; i < from->count; i++) {
        struct bytes word = word_at(from, i);
        for (size_t k = 0; k < s->start && word.count >= size && memcmp(word.at, mark, size) == 0; k++) {
            word.at += size;
            word.count -= size;
        }
        for (size_t k = 0; k < s->stop && word.count >= size && memcmp(word.at + word.count - size, mark, size) == 0; k++)
            word.count -= size;
        if (!attn_words_put(to, word.at, word.count))
            return false;
    }
    return true;
}

static bool bpe_suffix(const struct step *s, const struct words *from, struct words *to)
{
    struct bytes suffix = {.at = NULL};
    bool fine = utf8_of(&s->content, &suffix);
    for (size_t i = 0; i < from->count && fine; i++) {
        const struct bytes word = word_at(from, i);
        for (size_t k = 0; k < word.count && fine;) {
            const bool hit = suffix.count > 0 && word.count - k >= suffix.count && memcmp(word.at + k, suffix.at, suffix.count) == 0;
            fine = hit ? i + 1 == from->count || attn_bytes_put(&to->text, " ", 1) : attn_bytes_put(&to->text, word.at + k, 1);
            k += hit ? suffix.count : 1;
        }
        fine = fine && attn_words_end(to);
    }
    free(suffix.at);
    return fine;
}

static attn_status one_step(const struct step *s, const struct report *r, const struct words *from, struct words *to)
{
    bool fine = true;
    switch (s->kind) {
    case STEP_BYTE_LEVEL:
        fine = byte_level(from, to);
        break;
    case STEP_WORDPIECE:
        fine = wordpiece(s, from, to);
        break;
    case STEP_METASPACE:
        fine = metaspace(s, from, to);
        break;
    case STEP_BYTE_FALLBACK:
        fine = byte_fallback(from, to);
        break;
    case STEP_STRIP_TOKENS:
        fine = strip(s, from, to);
        break;
    case STEP_BPE_SUFFIX:
        fine = bpe_suffix(s, from, to);
        break;
    case STEP_REPLACE:
        return replace(s, r, from, to);
    default:
        fine = attn_words_put(to, from->text.at, from->text.count); /* STEP_FUSE */
    }
    return fine ? ATTN_OK : attn_text_nomem(r);
}

attn_status attn_decode_steps(const struct steps *steps, const struct report *r, struct words *words, struct words *spare)
{
    attn_status s = ATTN_OK;
    for (size_t i = 0; i < steps->count && s == ATTN_OK; i++) {
        spare->count = spare->text.count = 0;
        s = one_step(&steps->at[i], r, words, spare);
        const struct words done = *spare;
        *spare = *words;
        *words = done;
    }
    return s;
}
