/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../common/sentence.h"

attn_status attn_text_fail(const struct report *r, attn_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    attn_sentence(r->text, r->size, r->file, NULL, format, args);
    va_end(args);
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
