/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens -> text, at once or one by one. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

static attn_status bad_id(const attn_tokenizer *t, const struct report *r, int32_t id)
{
    return attn_text_fail(r, ATTN_E_ARG, "id %d is no token; ids are below %zu", id, attn_tokenizer_count(t));
}

static attn_status token_words(const attn_tokenizer *t, const struct report *r, const int32_t *ids, size_t count, uint32_t flags,
                               struct words *w)
{
    for (size_t i = 0; i < count; i++) {
        size_t size = 0;
        const char *text = attn_tokenizer_token(t, ids[i], &size);
        if (text == NULL)
            return bad_id(t, r, ids[i]);
        if ((flags & ATTN_DECODE_SKIP_SPECIAL) && attn_tokenizer_is_special(t, ids[i]))
            continue;
        if ((w->count > 0 && !t->has_decoder && !attn_bytes_put(&w->text, " ", 1)) || !attn_words_put(w, text, size))
            return attn_text_nomem(r);
    }
    return ATTN_OK;
}

static attn_status decode(const attn_tokenizer *t, const struct report *r, const int32_t *ids, size_t count, uint32_t flags,
                          struct bytes *to)
{
    struct words words = {.count = 0}, spare = {.count = 0};
    attn_status s = token_words(t, r, ids, count, flags, &words);
    if (s == ATTN_OK)
        s = attn_decode_steps(&t->decoders, r, &words, &spare);
    to->count = 0;
    if (s == ATTN_OK && !attn_bytes_put(to, words.text.at, words.text.count))
        s = attn_text_nomem(r);
    attn_words_free(&words);
    attn_words_free(&spare);
    return s;
}

attn_status attn_tokenizer_decode(const attn_tokenizer *t, const int32_t *ids, size_t count, uint32_t flags, char **text, size_t *size,
                                  char *err, size_t err_size)
{
    const struct report r = {err, err_size, "tokenizer"};
    struct bytes out = {.at = NULL};
    *text = NULL;
    const attn_status s = decode(t, &r, ids, count, flags, &out);
    if (s != ATTN_OK) {
        free(out.at);
        return s;
    }
    *text = out.at;
    if (size != NULL)
        *size = out.count;
    return ATTN_OK;
}

void attn_text_free(char *text) { free(text); }

/* The tokens since some place where the text was whole, and how many of them have been given out: what a token adds depends on those
   before it. */
struct attn_decoder {
    const attn_tokenizer *t;
    uint32_t flags;
    int32_t *ids;
    size_t count, capacity, given;
    struct bytes before, now; /* the text of ids [0, given) and of all */
};

enum { MAX_WAITING = 64 };

attn_status attn_decoder_create(attn_decoder **out, const attn_tokenizer *t, uint32_t flags, char *err, size_t err_size)
{
    const struct report r = {err, err_size, "tokenizer"};
    attn_decoder *d = calloc(1, sizeof *d);
    *out = d;
    if (d == NULL || !attn_bytes_put(&d->before, "", 0) || !attn_bytes_put(&d->now, "", 0)) {
        attn_decoder_destroy(d);
        *out = NULL;
        return attn_text_nomem(&r);
    }
    d->t = t;
    d->flags = flags;
    return ATTN_OK;
}

static bool is_incomplete(const struct bytes *b) { return b->count >= 3 && memcmp(b->at + b->count - 3, "\xef\xbf\xbd", 3) == 0; }

/* The part of `now` behind `before`, at a character. */
static void added(const attn_decoder *d, const char **text, size_t *size)
{
    size_t from = d->before.count < d->now.count ? d->before.count : d->now.count;
    while (from > 0 && from < d->now.count && ((unsigned char)d->now.at[from] & 0xc0) == 0x80)
        from--;
    *text = d->now.at + from;
    if (size != NULL)
        *size = d->now.count - from;
}

attn_status attn_decoder_put(attn_decoder *d, int32_t id, const char **text, size_t *size, char *err, size_t err_size)
{
    const struct report r = {err, err_size, "tokenizer"};
    *text = "";
    if (size != NULL)
        *size = 0;
    if (attn_tokenizer_token(d->t, id, NULL) == NULL)
        return bad_id(d->t, &r, id);
    if ((d->flags & ATTN_DECODE_SKIP_SPECIAL) && attn_tokenizer_is_special(d->t, id))
        return ATTN_OK;
    if (!attn_text_grow(&d->ids, &d->capacity, d->count + 1, sizeof *d->ids))
        return attn_text_nomem(&r);
    d->ids[d->count] = id;
    attn_status s = decode(d->t, &r, d->ids, d->count + 1, d->flags, &d->now);
    if (s != ATTN_OK)
        return s;
    d->count++;
    const bool waits = d->now.count <= d->before.count || is_incomplete(&d->now);
    if (waits && d->count - d->given < MAX_WAITING)
        return ATTN_OK;
    added(d, text, size);
    /* What was given out before is not needed any more; what is given out now is the next one's past. */
    memmove(d->ids, d->ids + d->given, (d->count - d->given) * sizeof *d->ids);
    d->count -= d->given;
    d->given = d->count;
    return decode(d->t, &r, d->ids, d->given, d->flags, &d->before);
}

attn_status attn_decoder_end(attn_decoder *d, const char **text, size_t *size, char *err, size_t err_size)
{
    const struct report r = {err, err_size, "tokenizer"};
    *text = "";
    if (size != NULL)
        *size = 0;
    const attn_status s = decode(d->t, &r, d->ids, d->count, d->flags, &d->now);
    if (s == ATTN_OK)
        added(d, text, size);
    d->count = d->given = d->before.count = 0;
    return s;
}

void attn_decoder_destroy(attn_decoder *d)
{
    if (d == NULL)
        return;
    free(d->ids);
    free(d->before.at);
    free(d->now.at);
    free(d);
}
