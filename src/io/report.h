/* SPDX-License-Identifier: Apache-2.0 */
/* The one sentence of a failure. */
#ifndef ATTN_IO_REPORT_H
#define ATTN_IO_REPORT_H

#include "../common/sentence.h"
#include "attn/attn_io.h"

/* Where the sentence goes and which file, and which part of it, it is about. */
struct report {
    char *text; /* NULL: nowhere */
    size_t size;
    const char *file;
    const char *part; /* NULL or an entry of the file */
};

/* Writes "file: part: sentence" and returns status. */
__attribute__((format(printf, 3, 4))) attn_status attn_io_fail(const struct report *r, attn_status status, const char *format, ...);
/* ATTN_E_IO: "file: doing: strerror(error)". */
attn_status attn_io_fail_errno(const struct report *r, int error, const char *doing);
attn_status attn_io_fail_nomem(const struct report *r);

#endif
