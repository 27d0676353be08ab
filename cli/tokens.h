/* SPDX-License-Identifier: Apache-2.0 */
/* The words of --tokens. */
#ifndef ATTN_CLI_TOKENS_H
#define ATTN_CLI_TOKENS_H

#include <stdint.h>

typedef struct tokens {
    char *text;        /* owns the words */
    const char **word; /* NULL when none were given */
    int64_t count;
} tokens;

/* The words of `text`, or of the file of that name: separated by white space. 0, or an exit code after a message. NULL gives none. */
int tokens_read(tokens *t, const char *text);
void tokens_free(tokens *t);
#endif
