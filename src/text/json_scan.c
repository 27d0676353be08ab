/* SPDX-License-Identifier: Apache-2.0 */
#include "json_scan.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "utf8.h"

enum { MAX_DEPTH = 64, MAX_TREE = 4 << 20 };

static attn_status expected(const struct scan *s, const char *at, const char *what)
{
    if (at >= s->end)
        return attn_text_fail(s->report, ATTN_E_FORMAT, "the JSON ends where %s is expected", what);
    return attn_text_fail(s->report, ATTN_E_FORMAT, "byte %zu: '%c' where %s is expected", (size_t)(at - s->start),
                          *at > ' ' && *at < 0x7f ? *at : '?', what);
}

static void skip_blanks(struct scan *s)
{
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\n' || *s->at == '\t' || *s->at == '\r'))
        s->at++;
}

static bool take(struct scan *s, char c)
{
    skip_blanks(s);
    if (s->at == s->end || *s->at != c)
        return false;
    s->at++;
    return true;
}

static attn_status skip_string(struct scan *s)
{
    const char *begin = s->at;
    if (!take(s, '"'))
        return expected(s, s->at, "a string");
    while (s->at < s->end && *s->at != '"')
        s->at += *s->at == '\\' && s->at + 1 < s->end ? 2 : 1;
    return s->at < s->end && *s->at++ == '"' ? ATTN_OK : expected(s, s->end, begin < s->end ? "the end of a string" : "a string");
}

/* Brackets and strings matched; what is between them is looked at by whoever takes it. */
static attn_status skip_value(struct scan *s)
{
    int depth = 0;
    const char *begin = s->at;
    for (skip_blanks(s); s->at < s->end; skip_blanks(s)) {
        const char c = *s->at;
        if (depth == 0 && (c == ',' || c == '}' || c == ']'))
            break;
        if (c == '"') {
            const attn_status status = skip_string(s);
            if (status != ATTN_OK)
                return status;
            continue;
        }
        depth += c == '{' || c == '[';
        depth -= c == '}' || c == ']';
        if (depth > MAX_DEPTH)
            return attn_text_fail(s->report, ATTN_E_FORMAT, "byte %zu: JSON nested deeper than %d", (size_t)(s->at - s->start), MAX_DEPTH);
        s->at++;
    }
    return s->at > begin && s->at < s->end ? ATTN_OK : expected(s, s->at, "a value and what follows it");
}

attn_status attn_scan_enter(struct scan *s, char bracket)
{
    return take(s, bracket) ? ATTN_OK : expected(s, s->at, bracket == '{' ? "the '{' of an object" : "the '[' of an array");
}

attn_status attn_scan_next(struct scan *s, bool first, struct value *key, struct value *value, bool *more)
{
    *more = !take(s, key ? '}' : ']');
    if (!*more)
        return ATTN_OK;
    if (!first && !take(s, ','))
        return expected(s, s->at, key ? "',' or '}'" : "',' or ']'");
    skip_blanks(s);
    if (key != NULL) {
        key->text = s->at;
        const attn_status status = skip_string(s);
        if (status != ATTN_OK)
            return status;
        key->size = (size_t)(s->at - key->text);
        if (!take(s, ':'))
            return expected(s, s->at, "':'");
        skip_blanks(s);
    }
    value->text = s->at;
    const attn_status status = skip_value(s);
    value->size = (size_t)(s->at - value->text);
    while (value->size > 0 && strchr(" \n\t\r", value->text[value->size - 1]) != NULL)
        value->size--;
    return status;
}

struct scan attn_scan_value(const struct scan *s, struct value v) { return (struct scan){s->start, v.text, v.text + v.size, s->report}; }

static int hex4(const char *p, const char *end, uint32_t *c)
{
    *c = 0;
    if (end - p < 4)
        return 0;
    for (int i = 0; i < 4; i++) {
        const char d = p[i];
        const int v = d >= '0' && d <= '9' ? d - '0' : d >= 'a' && d <= 'f' ? d - 'a' + 10 : d >= 'A' && d <= 'F' ? d - 'A' + 10 : -1;
        if (v < 0)
            return 0;
        *c = *c << 4 | (uint32_t)v;
    }
    return 1;
}

/* One escape after its backslash; the new place, NULL: malformed. */
static const char *escape(const char *p, const char *end, uint32_t *c)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char *plain = p < end && *p != '\0' ? strchr(from, *p) : NULL;
    if (plain != NULL) {
        *c = (unsigned char)to[plain - from];
        return p + 1;
    }
    if (p == end || *p != 'u' || !hex4(p + 1, end, c))
        return NULL;
    p += 5;
    if (*c >= 0xd800 && *c < 0xdc00) {
        uint32_t low = 0;
        if (end - p < 6 || p[0] != '\\' || p[1] != 'u' || !hex4(p + 2, end, &low) || low < 0xdc00 || low > 0xdfff)
            return NULL;
        *c = 0x10000 + ((*c - 0xd800) << 10) + (low - 0xdc00);
        return p + 6;
    }
    return *c >= 0xdc00 && *c < 0xe000 ? NULL : p;
}

attn_status attn_scan_string(const struct scan *s, struct value v, struct bytes *out)
{
    if (v.size < 2 || v.text[0] != '"' || v.text[v.size - 1] != '"')
        return expected(s, v.text, "a string");
    if (!attn_text_grow(&out->at, &out->capacity, v.size, 1))
        return attn_text_nomem(s->report);
    size_t n = 0;
    for (const char *p = v.text + 1, *end = v.text + v.size - 1; p < end;) {
        uint32_t c = 0;
        const char *begin = p;
        if (*p == '\\') {
            p = escape(p + 1, end, &c);
        } else {
            const size_t size = attn_utf8_read(p, (size_t)(end - p), &c);
            p = size == 0 || c < 0x20 || c == '"' ? NULL : p + size;
        }
        if (p == NULL)
            return expected(s, begin, "a character of a string");
        n += attn_utf8_write(c, out->at + n);
    }
    out->count = n;
    out->at[n] = '\0';
    return ATTN_OK;
}

attn_status attn_scan_integer(const struct scan *s, struct value v, int64_t *out)
{
    *out = 0;
    size_t i = 0;
    for (; i < v.size && i < 18 && v.text[i] >= '0' && v.text[i] <= '9'; i++)
        *out = *out * 10 + (v.text[i] - '0');
    return i == v.size && i > 0 ? ATTN_OK : expected(s, v.text, "an integer that is not negative");
}

attn_status attn_scan_number(const struct scan *s, struct value v, double *out)
{
    char text[64];
    json_error_t e;
    if (v.size + 3 > sizeof text)
        return expected(s, v.text, "a number");
    memcpy(text, v.text, v.size);
    json_t *number = json_loadb(text, v.size, JSON_DECODE_ANY, &e); /* strtod obeys the locale */
    const bool is = json_is_number(number);
    *out = is ? json_number_value(number) : 0;
    json_decref(number);
    return is ? ATTN_OK : expected(s, v.text, "a number");
}

attn_status attn_scan_tree(const struct scan *s, struct value v, const char *what, json_t **out)
{
    json_error_t e;
    *out = NULL;
    if (v.size > MAX_TREE)
        return attn_text_fail(s->report, ATTN_E_FORMAT, "%s takes %zu bytes; at most %d are read", what, v.size, MAX_TREE);
    *out = json_loadb(v.text, v.size, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &e);
    return *out != NULL ? ATTN_OK : attn_text_fail(s->report, ATTN_E_FORMAT, "byte %zu: %s: %s", (size_t)(v.text - s->start), what, e.text);
}

bool attn_scan_is(struct value v, const char *word) { return v.size == strlen(word) && memcmp(v.text, word, v.size) == 0; }

attn_status attn_scan_vocab(struct scan s, struct vocab *v)
{
    struct bytes text = {.at = NULL};
    attn_status status = attn_scan_enter(&s, '{');
    bool more = true;
    for (bool first = true; status == ATTN_OK; first = false) {
        struct value key, value;
        int64_t id = 0;
        status = attn_scan_next(&s, first, &key, &value, &more);
        if (status != ATTN_OK || !more)
            break;
        status = attn_scan_string(&s, key, &text);
        if (status == ATTN_OK)
            status = attn_scan_integer(&s, value, &id);
        if (status == ATTN_OK)
            status = attn_vocab_add(v, s.report, text.at, text.count, id);
    }
    free(text.at);
    return status;
}
