/* SPDX-License-Identifier: Apache-2.0 */
/* The words of --tokens and --key-tokens. */
#ifndef ATTN_CLI_TOKENS_H
#define ATTN_CLI_TOKENS_H

#include "options.h"

#include <stdint.h>

typedef struct tokens {
    char *text;        /* owns the words */
    const char **word; /* NULL when none were given; valid UTF-8 without control characters */
    int64_t count;
} tokens;

/* The words of an option: a text, or the file of that name, separated by white space; a .json file is a list of strings, which may hold
   blanks. 0, or an exit code after a message. An option that was not given has none. */
int tokens_read(tokens *t, const options *o, opt_id id);
void tokens_free(tokens *t);

/* The words of both options. */
typedef struct labels {
    tokens row, key;
} labels;

int labels_read(labels *l, const options *o);
void labels_free(labels *l);

/* Which words name the Lq rows and the Lk keys; NULL: none. --tokens names what it fits, both when there are as many rows as keys, unless
   they are `apart` (cross-attention) or the keys have words of their own. 0, or an exit code after a message. */
int labels_fit(const labels *l, int64_t Lq, int64_t Lk, bool apart, const char *const **rows, const char *const **keys);
#endif
