/* SPDX-License-Identifier: Apache-2.0 */
/* The patterns of tokenizer files, on PCRE2 with characters as code units, so that places in text are indices of runes. */
#ifndef ATTN_TEXT_PATTERN_H
#define ATTN_TEXT_PATTERN_H

#include "report.h"

/* Immutable: any number of threads. */
struct pattern;

/* A regular expression, or (literal) a string. ATTN_E_FORMAT: PCRE2's reason, with the place. */
attn_status attn_pattern_make(struct pattern **out, const struct report *r, const char *text, size_t size, bool literal);
void attn_pattern_free(struct pattern *p);

/* Stretches of text that match and those between, in order; together all of it. */
struct match {
    size_t from, to;
    bool hit;
};
struct matches {
    struct match *at;
    size_t count, capacity;
};
bool attn_matches_put(struct matches *m, size_t from, size_t to, bool hit);

/* Adds the stretches of `count` characters. ATTN_E_FORMAT: a text on which the pattern exceeds its limits. */
attn_status attn_pattern_find(const struct pattern *p, const struct report *r, const uint32_t *text, size_t count, struct matches *to);

#endif
