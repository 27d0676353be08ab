/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#include <locale.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

size_t attn_utf8_length(const char *text)
{
    const unsigned char *p = (const unsigned char *)text;
    const size_t n = p[0] < 0x80 ? 1 : p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : p[0] < 0xf5 ? 4 : 0;
    for (size_t i = 1; i < n; i++) {
        if (p[i] < 0x80 || p[i] > 0xbf)
            return 0;
    }
    const bool wrong =
        (p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) || (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f);
    return wrong ? 0 : n;
}

/* A file's own words may hold anything; a terminal must not obey them, and the sentence is to be UTF-8. */
static void hide_what_is_no_text(char *text)
{
    while (*text != '\0') {
        const size_t n = attn_utf8_length(text);
        const unsigned char c = (unsigned char)text[0];
        const bool control = c < 0x20 || c == 0x7f || (c == 0xc2 && (unsigned char)text[1] < 0xa0);
        for (size_t i = 0; i < n && control; i++)
            text[i] = '?';
        if (n == 0)
            *text = '?';
        text += n ? n : 1;
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
    hide_what_is_no_text(r->text);
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
