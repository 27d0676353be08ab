/* SPDX-License-Identifier: Apache-2.0 */
/* The one sentence of a failure to load. */
#ifndef ATTN_LOAD_REPORT_H
#define ATTN_LOAD_REPORT_H
#include <attn/attn_load.h>

enum { LOAD_PATH = 4096 };

/* Where the sentence goes, and which file or folder it is about. */
struct load_report {
    char *text; /* NULL: nowhere */
    size_t size;
    const char *file;
};

/* Writes "file: sentence", control characters shown as '?', and returns status. */
__attribute__((format(printf, 3, 4))) attn_status attn_load_fail(const struct load_report *r, attn_status status, const char *format, ...);
/* The sentence of the last call on ctx. */
attn_status attn_load_fail_ctx(const struct load_report *r, attn_status status, const attn_ctx *ctx, const char *what);
attn_status attn_load_fail_nomem(const struct load_report *r);

/* DIR/NAME into path; ATTN_E_IO when it is too long. */
attn_status attn_load_path(char path[LOAD_PATH], const char *dir, const char *name, const struct load_report *r);
/* 1 when there is a file of that name in the folder. */
int attn_load_exists(const char *dir, const char *name);
/* ATTN_E_IO for a pipe or a device, which would be waited for. What else is wrong with the path is found by opening it. */
attn_status attn_load_regular(const char *path, const struct load_report *r);
#endif
