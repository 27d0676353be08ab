/* SPDX-License-Identifier: Apache-2.0 */
#include "json_walk.h"

#include <stdbool.h>
#include <string.h>

enum { MAX_DEPTH = 32, MAX_PIECE = 4096 };

static attn_status expected(const struct json_text *t, const char *what)
{
    if (t->at == t->end)
        return attn_io_fail(t->report, ATTN_E_FORMAT, "the JSON ends where %s is expected", what);
    const char shown = *t->at >= 0x20 && *t->at <= 0x7e ? *t->at : '?';
    return attn_io_fail(t->report, ATTN_E_FORMAT, "byte %zu: '%c' where %s is expected", t->base + (size_t)(t->at - t->start), shown, what);
}

static void skip_blanks(struct json_text *t)
{
    while (t->at < t->end && (*t->at == ' ' || *t->at == '\n' || *t->at == '\t' || *t->at == '\r'))
        t->at++;
}

static bool take(struct json_text *t, char c)
{
    skip_blanks(t);
    if (t->at == t->end || *t->at != c)
        return false;
    t->at++;
    return true;
}

static attn_status skip_string(struct json_text *t, const char *what)
{
    if (!take(t, '"'))
        return expected(t, what);
    for (; t->at < t->end && *t->at != '"'; t->at++) {
        if (*t->at == '\\' && t->at + 1 < t->end)
            t->at++;
    }
    return take(t, '"') ? ATTN_OK : expected(t, "the end of a string");
}

/* To the end of a value: brackets and strings matched, the rest left to the parser. */
static attn_status skip_value(struct json_text *t)
{
    int depth = 0;
    for (skip_blanks(t); t->at < t->end; skip_blanks(t)) {
        const char c = *t->at;
        if (depth == 0 && (c == ',' || c == '}' || c == ']'))
            return ATTN_OK;
        if (c == '"') {
            const attn_status s = skip_string(t, "a string");
            if (s != ATTN_OK)
                return s;
            continue;
        }
        depth += c == '{' || c == '[';
        depth -= c == '}' || c == ']';
        if (depth > MAX_DEPTH)
            return attn_io_fail(t->report, ATTN_E_FORMAT, "byte %zu: JSON nested deeper than %d", t->base + (size_t)(t->at - t->start),
                                MAX_DEPTH);
        t->at++;
    }
    return expected(t, "the end of a value");
}

attn_status attn_json_enter(struct json_text *t) { return take(t, '{') ? ATTN_OK : expected(t, "the '{' of an object"); }

attn_status attn_json_next(struct json_text *t, int first, struct json_piece *key, struct json_piece *value)
{
    *key = *value = (struct json_piece){.text = NULL};
    if (take(t, '}'))
        return ATTN_OK;
    if (!first && !take(t, ','))
        return expected(t, "',' or '}'");
    skip_blanks(t);
    key->text = t->at;
    attn_status s = skip_string(t, "a key");
    if (s != ATTN_OK)
        return s;
    key->size = (size_t)(t->at - key->text);
    if (!take(t, ':'))
        return expected(t, "':'");
    skip_blanks(t);
    value->text = t->at;
    s = skip_value(t);
    value->size = (size_t)(t->at - value->text);
    return s;
}

attn_status attn_json_leave(struct json_text *t)
{
    skip_blanks(t);
    return t->at == t->end ? ATTN_OK : expected(t, "the end of the JSON");
}

attn_status attn_json_count(struct json_text t, size_t *members, size_t *key_bytes)
{
    *members = *key_bytes = 0;
    attn_status s = attn_json_enter(&t);
    for (int first = 1; s == ATTN_OK; first = 0) {
        struct json_piece key, value;
        s = attn_json_next(&t, first, &key, &value);
        if (s == ATTN_OK && key.text == NULL)
            return attn_json_leave(&t);
        *members += 1;
        *key_bytes += key.size;
    }
    return s;
}

static attn_status parse(const struct json_text *t, struct json_piece p, const char *what, json_t **value)
{
    const size_t flags = JSON_REJECT_DUPLICATES | JSON_DECODE_ANY;
    json_error_t e, ignored;
    *value = json_loadb(p.text, p.size, flags, &e);
    if (*value != NULL)
        return ATTN_OK;
    /* jansson reports some failed allocations as a wrong token. A text that parses at a second try was right. */
    json_t *again = json_loadb(p.text, p.size, flags, &ignored);
    const bool right = again != NULL;
    json_decref(again);
    if (right || e.text[0] == '\0' || json_error_code(&e) == json_error_out_of_memory)
        return attn_io_fail_nomem(t->report);
    return attn_io_fail(t->report, ATTN_E_FORMAT, "byte %zu: %s: %s", t->base + (size_t)(p.text - t->start), what, e.text);
}

/* Most strings are plain and stand for themselves. */
static bool is_plain(struct json_piece p)
{
    for (size_t i = 1; i + 1 < p.size; i++) {
        if (p.text[i] < 0x20 || p.text[i] > 0x7e || p.text[i] == '\\' || p.text[i] == '"')
            return false;
    }
    return p.size >= 2 && p.text[0] == '"' && p.text[p.size - 1] == '"';
}

attn_status attn_json_piece_string(const struct json_text *t, struct json_piece p, const char *what, char *out)
{
    if (is_plain(p)) {
        memcpy(out, p.text + 1, p.size - 2);
        out[p.size - 2] = '\0';
        return ATTN_OK;
    }
    json_t *value;
    attn_status s = parse(t, p, what, &value);
    if (s != ATTN_OK)
        return s;
    if (json_is_string(value))
        memcpy(out, json_string_value(value), json_string_length(value) + 1);
    else
        s = attn_io_fail(t->report, ATTN_E_FORMAT, "byte %zu: %s is no string", t->base + (size_t)(p.text - t->start), what);
    json_decref(value);
    return s;
}

attn_status attn_json_piece_value(const struct json_text *t, struct json_piece p, const char *what, json_t **value)
{
    *value = NULL;
    if (p.size > MAX_PIECE)
        return attn_io_fail(t->report, ATTN_E_FORMAT, "byte %zu: %s takes %zu bytes; at most %d are read",
                            t->base + (size_t)(p.text - t->start), what, p.size, MAX_PIECE);
    return parse(t, p, what, value);
}
