/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A file's own words may hold anything; a terminal must not obey them. */
static void hide_control_characters(char *text)
{
    for (char *c = text; *c != '\0'; c++) {
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
    }
}

attn_status attn_io_fail(const struct report *r, attn_status status, const char *format, ...)
{
    if (r->text == NULL || r->size == 0)
        return status;
    const char *part = r->part ? r->part : "";
    const int n = snprintf(r->text, r->size, "%s: %s%s", r->file, part, r->part ? ": " : "");
    if (n >= 0 && (size_t)n < r->size) {
        va_list args;
        va_start(args, format);
        vsnprintf(r->text + n, r->size - (size_t)n, format, args);
        va_end(args);
    }
    hide_control_characters(r->text);
    return status;
}

attn_status attn_io_fail_errno(const struct report *r, int error, const char *doing)
{
    const locale_t english = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    const char *reason = english ? strerror_l(error, english) : "the operating system refused it";
    const attn_status s = attn_io_fail(r, ATTN_E_IO, "%s: %s", doing, reason);
    if (english)
        freelocale(english);
    return s;
}

attn_status attn_io_fail_nomem(const struct report *r) { return attn_io_fail(r, ATTN_E_NOMEM, "out of memory"); }
