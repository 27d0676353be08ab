/* SPDX-License-Identifier: Apache-2.0 */
/* The texts of --text and --file. */
#ifndef ATTN_CLI_TEXTS_H
#define ATTN_CLI_TEXTS_H

#include "options.h"

#include <attn/attn_text.h>

typedef struct texts {
    attn_span *text; /* those of --text first, then the lines of --file */
    int64_t count;
    int64_t given; /* by --text; the others are lines of: */
    const char *file;
    char *bytes; /* of the file */
} texts;

/* 0, or an exit code after a message; none at all is one. texts_close after it, either way. */
int texts_read(texts *t, const options *o);
void texts_close(texts *t);

enum { TEXT_NAME = 256 };
/* Where text i came from, for a message: "--text 2" or "poems.txt, line 7"; returns name. */
const char *texts_name(const texts *t, int64_t i, char name[TEXT_NAME]);
/* The beginning of text i that fits `columns`, with "..." where it was cut and without control characters; returns out. */
const char *texts_shown(const texts *t, int64_t i, int columns, char out[TEXT_NAME]);
#endif
