/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "utf8.h"

/* A file's own words may hold anything; a terminal must not obey them, and the sentence is to be UTF-8. */
static void hide_what_is_no_text(char *text)
{
    const size_t size = strlen(text);
    for (size_t i = 0; i < size;) {
        uint32_t c = 0;
        const size_t n = attn_utf8_read(text + i, size - i, &c);
        if (n == 0 || c < 0x20 || (c >= 0x7f && c < 0xa0))
            memset(text + i, '?', n ? n : 1);
        i += n ? n : 1;
    }
}

attn_status attn_text_fail(const struct report *r, attn_status status, const char *format, ...)
{
    if (r->text == NULL || r->size == 0)
        return status;
    const int n = r->file ? snprintf(r->text, r->size, "%s: ", r->file) : 0;
    if (n >= 0 && (size_t)n < r->size) {
        va_list args;
        va_start(args, format);
        vsnprintf(r->text + n, r->size - (size_t)n, format, args);
        va_end(args);
    }
    hide_what_is_no_text(r->text);
    return status;
}

attn_status attn_text_nomem(const struct report *r) { return attn_text_fail(r, ATTN_E_NOMEM, "out of memory"); }

bool attn_text_grow(void *array, size_t *capacity, size_t need, size_t size)
{
    void **at = array;
    if (need <= *capacity)
        return true;
    size_t more = *capacity < 8 ? 8 : *capacity + *capacity / 2;
    more = more < need ? need : more;
    if (more > SIZE_MAX / 2 / size)
        return false;
    void *grown = realloc(*at, more * size);
    if (grown == NULL)
        return false;
    *at = grown;
    *capacity = more;
    return true;
}

bool attn_bytes_put(struct bytes *b, const char *text, size_t size)
{
    if (!attn_text_grow(&b->at, &b->capacity, b->count + size + 1, 1))
        return false;
    if (size > 0)
        memcpy(b->at + b->count, text, size);
    b->count += size;
    b->at[b->count] = '\0';
    return true;
}
