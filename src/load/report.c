/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../common/sentence.h"

attn_status attn_load_fail(const struct load_report *r, attn_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    attn_sentence(r->text, r->size, r->file, NULL, format, args);
    va_end(args);
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

attn_status attn_load_regular(const char *path, const struct load_report *r)
{
    struct stat st;
    if (stat(path, &st) != 0 || S_ISREG(st.st_mode) || S_ISDIR(st.st_mode))
        return ATTN_OK;
    return attn_load_fail(r, ATTN_E_IO, "this is no regular file; a model's weights are mapped and read more than once");
}
