/* SPDX-License-Identifier: Apache-2.0 */
/* The one sentence of a failure, and memory that grows. */
#ifndef ATTN_TEXT_REPORT_H
#define ATTN_TEXT_REPORT_H

#include <stdbool.h>

#include "attn/attn_text.h"

struct report {
    char *text; /* NULL: nowhere */
    size_t size;
    const char *file;
};

/* Writes "file: sentence" and returns status. */
__attribute__((format(printf, 3, 4))) attn_status attn_text_fail(const struct report *r, attn_status status, const char *format, ...);
attn_status attn_text_nomem(const struct report *r);

/* *array of items of `size` bytes gets room for `need` of them. false: no memory; *array stays. */
bool attn_text_grow(void *array, size_t *capacity, size_t need, size_t size);

/* A growing string of bytes. */
struct bytes {
    char *at;
    size_t count, capacity;
};
bool attn_bytes_put(struct bytes *b, const char *text, size_t size);

#endif
