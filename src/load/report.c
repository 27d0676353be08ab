/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

attn_status attn_load_fail(const struct load_report *r, attn_status status, const char *format, ...)
{
    if (!r->text || !r->size)
        return status;
    const int n = snprintf(r->text, r->size, "%s: ", r->file);
    if (n >= 0 && (size_t)n < r->size) {
        va_list args;
        va_start(args, format);
        vsnprintf(r->text + n, r->size - (size_t)n, format, args);
        va_end(args);
    }
    for (char *c = r->text; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
    return status;
}

attn_status attn_load_fail_ctx(const struct load_report *r, attn_status status, const attn_ctx *ctx, const char *what)
{
    return attn_load_fail(r, status, "%s: %s", what, attn_ctx_error(ctx));
}

attn_status attn_load_fail_nomem(const struct load_report *r) { return attn_load_fail(r, ATTN_E_NOMEM, "out of memory"); }

attn_status attn_load_path(char path[LOAD_PATH], const char *dir, const char *name, const struct load_report *r)
{
    const int n = snprintf(path, LOAD_PATH, "%s/%s", dir, name);
    return n > 0 && n < LOAD_PATH ? ATTN_OK : attn_load_fail(r, ATTN_E_IO, "the path of %s in it exceeds %d bytes", name, LOAD_PATH - 1);
}

int attn_load_exists(const char *dir, const char *name)
{
    char path[LOAD_PATH];
    const int n = snprintf(path, sizeof path, "%s/%s", dir, name);
    return n > 0 && n < LOAD_PATH && access(path, F_OK) == 0;
}
