/* SPDX-License-Identifier: Apache-2.0 */
/* Large JSON, walked in place: a tree of a vocabulary of 151 thousand tokens would take ten times the file. The small parts go to jansson.
 */
#ifndef ATTN_TEXT_JSON_SCAN_H
#define ATTN_TEXT_JSON_SCAN_H

#include <jansson.h>

#include "vocab.h"

struct scan {
    const char *start, *at, *end;
    const struct report *report;
};

/* A value as it stands in the text. */
struct value {
    const char *text;
    size_t size;
};

/* Takes '{' or '['. */
attn_status attn_scan_enter(struct scan *s, char bracket);
/* Takes the next member or element and the comma before it; key (NULL in arrays) as a string in its quotes. *more false: the end was
   taken. */
attn_status attn_scan_next(struct scan *s, bool first, struct value *key, struct value *value, bool *more);
struct scan attn_scan_value(const struct scan *s, struct value v);
/* The string that v is, unescaped; out->count is 0 before. */
attn_status attn_scan_string(const struct scan *s, struct value v, struct bytes *out);
attn_status attn_scan_integer(const struct scan *s, struct value v, int64_t *out);
attn_status attn_scan_number(const struct scan *s, struct value v, double *out);
/* By jansson, at most 4 MiB. */
attn_status attn_scan_tree(const struct scan *s, struct value v, const char *what, json_t **out);
bool attn_scan_is(struct value v, const char *word);
/* {"token": id, ...} at s. */
attn_status attn_scan_vocab(struct scan s, struct vocab *v);

#endif
