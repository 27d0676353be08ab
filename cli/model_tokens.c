/* SPDX-License-Identifier: Apache-2.0 */
#include "model_tokens.h"
#include "message.h"
#include "text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SENTENCE = 1024 };

static const char blank[] = "\xE2\x96\x81"; /* U+2581 */

/* --------------------------------------------------------------- one token ---- */

/* The byte that a letter of a byte-level token stands for, -1 for another letter: printable Latin-1 is itself, the 68 others are
   U+0100 and up, in order. */
static int byte_of(uint32_t letter)
{
    const bool itself = (letter >= 33 && letter <= 126) || (letter >= 161 && letter <= 172) || (letter >= 174 && letter <= 255);
    const int n = (int)letter - 256;
    if (itself)
        return (int)letter;
    return n < 0 || n >= 68 ? -1 : n < 33 ? n : n < 67 ? 127 + n - 33 : 173;
}

/* Every byte-level vocabulary has the letter of the blank; WordPiece, which may have it as a letter of Maltese, has "##s". */
static bool is_byte_level(const attn_tokenizer *t)
{
    return attn_tokenizer_id(t, "\xC4\xA0", 2) >= 0 && attn_tokenizer_id(t, "##s", 3) < 0;
}

/* The bytes of a byte-level token, 0 at the end; false when it is none. */
static bool to_bytes(char *out, const char *token)
{
    int length;
    for (; *token; token += length) {
        const int byte = byte_of(text_decode(token, &length));
        if (byte <= 0)
            return false;
        *out++ = (char)byte;
    }
    *out = '\0';
    return true;
}

/* Fit to be shown anywhere. */
static char *printable(const char *text)
{
    char *out = need_memory(6 * strlen(text) + 1), *at = out;
    int length;
    for (; *text; text += length) {
        const uint32_t c = text_decode(text, &length);
        if (c == ' ')
            at += sprintf(at, "%s", blank);
        else if (c == '\n' || c == '\t')
            at += sprintf(at, "%s", c == '\n' ? "\\n" : "\\t");
        else if (c == NOT_UTF8)
            at += sprintf(at, "<0x%02X>", (unsigned)(unsigned char)*text);
        else if (text_is_control(c))
            at += sprintf(at, "\\x%02X", (unsigned)c);
        else
            at += sprintf(at, "%.*s", length, text);
    }
    *at = '\0';
    return out;
}

static char *name_of(const attn_tokenizer *t, int32_t id, bool byte_level)
{
    const char *token = attn_tokenizer_token(t, id, NULL);
    if (!token || !*token)
        return printable("?");
    char *bytes = need_memory(strlen(token) + 1);
    const bool bare = byte_level && !attn_tokenizer_is_special(t, id) && to_bytes(bytes, token);
    char *name = printable(bare ? bytes : token);
    free(bytes);
    return name;
}

/* ------------------------------------------------------------------- words ---- */

static void reserve(token_list *l, size_t count)
{
    *l = (token_list){.count = (int64_t)count};
    l->ids = need_zeroed(count + 1, sizeof *l->ids);
    l->types = need_zeroed(count + 1, sizeof *l->types);
    l->name = need_zeroed(count + 1, sizeof *l->name);
    l->word = need_zeroed(count + 1, sizeof *l->word);
    l->word_name = need_zeroed(count + 1, sizeof *l->word_name);
}

/* Bytes start..end of a text without the blanks at its ends. */
static char *cut_of(const char *text, int64_t start, int64_t end)
{
    while (start < end && strchr(" \t\n\r", text[start]))
        start++;
    while (start < end && strchr(" \t\n\r", text[end - 1]))
        end--;
    char *piece = need_memory((size_t)(end - start) + 1);
    memcpy(piece, text + start, (size_t)(end - start));
    piece[end - start] = '\0';
    char *name = printable(piece);
    free(piece);
    return name;
}

/* The tokens first..i-1 joined, without the blank before them. */
static char *join_of(const token_list *l, int64_t first, int64_t i)
{
    size_t room = 1;
    for (int64_t n = first; n < i; n++)
        room += strlen(l->name[n]);
    char *word = need_zeroed(room, 1);
    for (int64_t n = first; n < i; n++)
        strcat(word, l->name[n]);
    const size_t skip = strncmp(word, blank, sizeof blank - 1) == 0 && word[sizeof blank - 1] ? sizeof blank - 1 : 0;
    memmove(word, word + skip, strlen(word + skip) + 1);
    return word;
}

static bool begins_word(const token_list *l, int64_t i) { return strncmp(l->name[i], blank, sizeof blank - 1) == 0; }

/* Does token i go on with the word of the one before it? */
static bool goes_on(const attn_encoding *e, const token_list *l, int64_t i)
{
    return i > 0 && e->sequence[i] >= 0 && e->sequence[i] == e->sequence[i - 1] && e->word[i] >= 0 && e->word[i] == e->word[i - 1] &&
           !begins_word(l, i);
}

static void find_words(token_list *l, const attn_encoding *e, const char *const texts[2])
{
    for (int64_t i = 0, first = 0; i < l->count; i++) {
        first = goes_on(e, l, i) ? first : i;
        l->word[i] = first == i ? l->words++ : l->word[i - 1];
        if (i + 1 < l->count && goes_on(e, l, i + 1))
            continue;
        char *name = e->sequence[i] < 0 ? NULL : cut_of(texts[e->sequence[i]], e->start[first], e->end[i]);
        if (name && !*name) {
            free(name);
            name = NULL;
        }
        l->word_name[l->word[i]] = name ? name : join_of(l, first, i + 1);
    }
}

int tokens_of_text(token_list *l, const attn_tokenizer *t, const char *text, const char *pair, uint32_t flags)
{
    char err[SENTENCE];
    attn_encoding *e = NULL;
    const bool bytes = is_byte_level(t);
    const char *const texts[] = {text, pair};
    *l = (token_list){.count = 0};
    if (attn_tokenizer_encode(t, text, strlen(text), pair, pair ? strlen(pair) : 0, ATTN_ENCODE_SPECIAL | flags, 0, &e, err, sizeof err) !=
        ATTN_OK)
        return trouble("%s", err);
    reserve(l, e->count);
    bool typed = false;
    for (size_t i = 0; i < e->count; i++) {
        l->ids[i] = e->ids[i];
        l->types[i] = e->type_ids[i];
        typed = typed || e->type_ids[i];
        l->name[i] = name_of(t, e->ids[i], bytes);
    }
    find_words(l, e, texts);
    attn_encoding_destroy(e);
    if (!typed) {
        free(l->types);
        l->types = NULL;
    }
    return l->count ? EXIT_DONE : trouble("the text has no token; give a text that is not empty");
}

void tokens_of_ids(token_list *l, const attn_tokenizer *t, const int32_t *ids, size_t count)
{
    const bool bytes = is_byte_level(t);
    reserve(l, count);
    for (int64_t i = 0, first = 0; i < l->count; i++) {
        l->ids[i] = ids[i];
        l->name[i] = name_of(t, ids[i], bytes);
        const bool apart = i == 0 || begins_word(l, i) || attn_tokenizer_is_special(t, ids[i]) || attn_tokenizer_is_special(t, ids[i - 1]);
        if (apart && i > 0)
            l->word_name[l->words - 1] = join_of(l, first, i);
        first = apart ? i : first;
        l->word[i] = apart ? l->words++ : l->word[i - 1];
        if (i + 1 == l->count)
            l->word_name[l->words - 1] = join_of(l, first, i + 1);
    }
    free(l->types);
    l->types = NULL;
}

void tokens_prepend(token_list *l, const attn_tokenizer *t, int32_t id)
{
    token_list more;
    reserve(&more, (size_t)l->count + 1);
    more.ids[0] = id;
    more.name[0] = name_of(t, id, is_byte_level(t));
    more.word_name[0] = printable(more.name[0]);
    memcpy(more.ids + 1, l->ids, (size_t)l->count * sizeof *l->ids);
    memcpy(more.name + 1, l->name, (size_t)l->count * sizeof *l->name);
    memcpy(more.word_name + 1, l->word_name, (size_t)l->words * sizeof *l->word_name);
    for (int64_t i = 0; i < l->count; i++)
        more.word[i + 1] = l->word[i] + 1;
    more.words = l->words + 1;
    l->count = l->words = 0; /* the names are more's now */
    token_list_free(l);
    free(more.types);
    more.types = NULL;
    *l = more;
}

void token_list_free(token_list *l)
{
    for (int64_t i = 0; i < l->count; i++)
        free(l->name[i]);
    for (int64_t i = 0; i < l->words; i++)
        free(l->word_name[i]);
    free(l->ids);
    free(l->types);
    free(l->name);
    free(l->word);
    free(l->word_name);
    *l = (token_list){.count = 0};
}
