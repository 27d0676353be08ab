/* SPDX-License-Identifier: Apache-2.0 */
#define PCRE2_CODE_UNIT_WIDTH 32
#include "pattern.h"

#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "runes.h"

enum { MATCH_LIMIT = 10000000, DEPTH_LIMIT = 100000, HEAP_LIMIT_KB = 65536, MAX_PATTERN = 1 << 16 };

struct pattern {
    pcre2_code *code;
    pcre2_match_context *limits;
};

void attn_pattern_free(struct pattern *p)
{
    if (p != NULL) {
        pcre2_code_free(p->code);
        pcre2_match_context_free(p->limits);
        free(p);
    }
}

/* \s is Unicode's White_Space; PCRE2's has one more, U+180E, which no longer is one. (\S within a class stays PCRE2's.) */
static bool put_spaces(struct runes *to, bool not, bool in_class)
{
    const char *set = not ? "[^\\p{Z}\\x09-\\x0d\\x{85}]" : in_class ? "\\p{Z}\\x09-\\x0d\\x{85}" : "[\\p{Z}\\x09-\\x0d\\x{85}]";
    return attn_runes_text(to, set, strlen(set), 0);
}

/* The expression with \s spelt out. A class ends at the first ] that is neither escaped nor its first character. */
static bool spell_out(const struct runes *p, struct runes *to)
{
    bool in_class = false, fine = true;
    for (size_t i = 0; i < p->count && fine; i++) {
        const uint32_t c = p->code[i];
        if (c == '\\' && i + 1 < p->count) {
            i++;
            const bool not = p->code[i] == 'S' && !in_class;
            fine = not || p->code[i] == 's' ? put_spaces(to, not, in_class) : attn_runes_copy(to, p, i - 1, i + 1);
            continue;
        }
        fine = attn_runes_put(to, c, 0, 0);
        if (in_class && c == ']') {
            in_class = false;
        } else if (!in_class && c == '[') {
            in_class = true;
            for (int k = 0; k < 2 && i + 1 < p->count && (p->code[i + 1] == ']' || (k == 0 && p->code[i + 1] == '^')); k++)
                fine = fine && attn_runes_put(to, p->code[++i], 0, 0);
        }
    }
    return fine;
}

static attn_status compile(struct pattern *p, const struct report *r, const char *text, const struct runes *runes, bool literal)
{
    int error = 0;
    PCRE2_SIZE place = 0;
    const uint32_t common = PCRE2_UTF | PCRE2_NO_UTF_CHECK;
    const uint32_t options = literal ? common | PCRE2_LITERAL : common | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
    p->limits = pcre2_match_context_create(NULL);
    if (p->limits == NULL)
        return attn_text_nomem(r);
    pcre2_set_match_limit(p->limits, MATCH_LIMIT);
    pcre2_set_depth_limit(p->limits, DEPTH_LIMIT);
    pcre2_set_heap_limit(p->limits, HEAP_LIMIT_KB);
    p->code = pcre2_compile(runes->code, runes->count, options, &error, &place, NULL);
    if (p->code == NULL) {
        PCRE2_UCHAR wide[200];
        char reason[200] = "";
        const int n = pcre2_get_error_message(error, wide, sizeof wide / sizeof *wide);
        for (int i = 0; i < n; i++)
            reason[i] = (char)wide[i];
        return attn_text_fail(r, ATTN_E_FORMAT, "the pattern \"%.100s\" is none that is read: %s, at character %zu", text, reason,
                              (size_t)place);
    }
    (void)pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE); /* where it cannot be compiled it is interpreted */
    return ATTN_OK;
}

attn_status attn_pattern_make(struct pattern **out, const struct report *r, const char *text, size_t size, bool literal)
{
    *out = NULL;
    if (size > MAX_PATTERN)
        return attn_text_fail(r, ATTN_E_FORMAT, "a pattern of %zu bytes; at most %d are read", size, MAX_PATTERN);
    struct runes raw = {.count = 0}, spelt = {.count = 0};
    struct pattern *p = calloc(1, sizeof *p);
    attn_status s = ATTN_OK;
    if (p == NULL || !attn_runes_reserve(&raw, size + 1) || !attn_runes_text(&raw, text, size, 0) ||
        !attn_runes_reserve(&spelt, size + 1) || (!literal && !spell_out(&raw, &spelt)))
        s = attn_text_nomem(r);
    if (s == ATTN_OK)
        s = compile(p, r, text, literal ? &raw : &spelt, literal);
    attn_runes_free(&raw);
    attn_runes_free(&spelt);
    if (s == ATTN_OK)
        *out = p;
    else
        attn_pattern_free(p);
    return s;
}

bool attn_matches_put(struct matches *m, size_t from, size_t to, bool hit)
{
    if (!attn_text_grow(&m->at, &m->capacity, m->count + 1, sizeof *m->at))
        return false;
    m->at[m->count++] = (struct match){from, to, hit};
    return true;
}

/* The next match from `at`; ATTN_OK with *found false: none. */
static attn_status next(const struct pattern *p, const struct report *r, pcre2_match_data *data, const uint32_t *text, size_t count,
                        size_t at, bool *found)
{
    int n = pcre2_match(p->code, text, count, at, PCRE2_NO_UTF_CHECK, data, p->limits);
    if (n == PCRE2_ERROR_JIT_STACKLIMIT)
        n = pcre2_match(p->code, text, count, at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, data, p->limits);
    *found = n >= 0;
    if (n >= 0 || n == PCRE2_ERROR_NOMATCH)
        return ATTN_OK;
    if (n == PCRE2_ERROR_NOMEMORY)
        return attn_text_nomem(r);
    return attn_text_fail(r, ATTN_E_FORMAT, "the text exceeds what its pattern may cost (PCRE2's limit %d)", n);
}

attn_status attn_pattern_find(const struct pattern *p, const struct report *r, const uint32_t *text, size_t count, struct matches *to)
{
    pcre2_match_data *data = pcre2_match_data_create_from_pattern(p->code, NULL);
    if (data == NULL)
        return attn_text_nomem(r);
    const PCRE2_SIZE *place = pcre2_get_ovector_pointer(data);
    size_t done = 0;
    attn_status s = ATTN_OK;
    for (size_t at = 0; at <= count && s == ATTN_OK;) {
        bool found = false, fine = true;
        s = next(p, r, data, text, count, at, &found);
        if (s != ATTN_OK || !found)
            break;
        const size_t from = place[0] < at ? at : place[0], end = place[1] < from ? from : place[1]; /* \K may say anything */
        if (end > from || from > done) {
            fine = from == done || attn_matches_put(to, done, from, false);
            fine = fine && attn_matches_put(to, from, end, true);
            done = end;
        }
        at = end > from ? end : end + 1;
        s = fine ? s : attn_text_nomem(r);
    }
    if (s == ATTN_OK && done < count && !attn_matches_put(to, done, count, false))
        s = attn_text_nomem(r);
    pcre2_match_data_free(data);
    return s;
}
