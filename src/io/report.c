/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#include <locale.h>
#include <string.h>

attn_status attn_io_fail(const struct report *r, attn_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    attn_sentence(r->text, r->size, r->file, r->part, format, args);
    va_end(args);
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
