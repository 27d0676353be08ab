/* SPDX-License-Identifier: Apache-2.0 */
/* The double array is that of Darts: a unit holds the label of the edge that leads to it, whether a value follows, and the offset of its
   children. */
#include "charsmap.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "utf8.h"

struct charsmap {
    uint32_t *units;
    size_t unit_count;
    char *text; /* the replacements, each with its 0 */
    size_t text_size;
};

static uint32_t little_endian(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

void attn_charsmap_free(struct charsmap *m)
{
    if (m != NULL) {
        free(m->units);
        free(m->text);
        free(m);
    }
}

attn_status attn_charsmap_make(struct charsmap **out, const struct report *r, const unsigned char *bytes, size_t size)
{
    *out = NULL;
    const size_t trie = size >= 4 ? little_endian(bytes) : 0;
    if (size < 4 || trie % 4 != 0 || trie == 0 || trie > size - 4)
        return attn_text_fail(r, ATTN_E_FORMAT, "precompiled_charsmap of %zu bytes says that its trie takes %zu", size, trie);
    const char *text = (const char *)bytes + 4 + trie;
    const size_t text_size = size - 4 - trie;
    if (text_size > 0 && (text[text_size - 1] != '\0' || attn_utf8_valid(text, text_size) < text_size))
        return attn_text_fail(r, ATTN_E_FORMAT, "precompiled_charsmap: its replacements are no UTF-8 text, or cut");
    struct charsmap *m = calloc(1, sizeof *m);
    *out = m;
    if (m != NULL) {
        m->unit_count = trie / 4;
        m->text_size = text_size;
        m->units = malloc(trie);
        m->text = malloc(text_size + 1);
    }
    if (m == NULL || m->units == NULL || m->text == NULL) {
        attn_charsmap_free(m);
        *out = NULL;
        return attn_text_nomem(r);
    }
    for (size_t i = 0; i < m->unit_count; i++)
        m->units[i] = little_endian(bytes + 4 + 4 * i);
    memcpy(m->text, text, text_size);
    m->text[text_size] = '\0';
    return ATTN_OK;
}

attn_status attn_charsmap_base64(struct charsmap **out, const struct report *r, const char *text, size_t size)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    *out = NULL;
    unsigned char *bytes = malloc(size + 1);
    if (bytes == NULL)
        return attn_text_nomem(r);
    size_t n = 0, i = 0;
    uint32_t bits = 0;
    for (int have = 0; i < size && text[i] != '='; i++) {
        const char *at = text[i] ? strchr(letters, text[i]) : NULL;
        if (at == NULL)
            break;
        bits = bits << 6 | (uint32_t)(at - letters);
        have += 6;
        if (have >= 8) {
            have -= 8;
            bytes[n++] = (unsigned char)(bits >> have);
        }
    }
    const attn_status s = i < size && text[i] != '=' ? attn_text_fail(r, ATTN_E_FORMAT, "precompiled_charsmap is not base64")
                                                     : attn_charsmap_make(out, r, bytes, n);
    free(bytes);
    return s;
}

static uint32_t children(uint32_t unit) { return (unit >> 10) << ((unit & (1U << 9)) >> 6); }

size_t attn_charsmap_find(const struct charsmap *m, const char *text, size_t size, bool longest, const char **to, size_t *to_size)
{
    size_t found = 0;
    uint32_t at = children(m->units[0]);
    for (size_t i = 0; i < size && text[i] != '\0'; i++) {
        at ^= (unsigned char)text[i];
        if (at >= m->unit_count || (m->units[at] & 0x800000ffU) != (unsigned char)text[i])
            break;
        const uint32_t unit = m->units[at];
        at ^= children(unit);
        if ((unit >> 8 & 1) == 0 || at >= m->unit_count)
            continue;
        const uint32_t value = m->units[at] & 0x7fffffffU;
        if (value >= m->text_size)
            continue;
        *to = m->text + value;
        *to_size = strlen(*to);
        found = i + 1;
        if (!longest)
            break;
    }
    return found;
}

/* Character i of the replacement came from character i of what is replaced; the last ones share what is left over. */
static bool put_replacement(const struct runes *from, size_t first, size_t count, const char *text, size_t size, struct runes *to)
{
    const size_t base = to->count;
    if (!attn_runes_text(to, text, size, 0))
        return false;
    for (size_t i = base; i < to->count; i++) {
        const size_t k = i - base < count - 1 ? i - base : count - 1;
        to->start[i] = from->start[first + k];
        to->end[i] = from->end[i + 1 == to->count ? first + count - 1 : first + k];
    }
    return true;
}

static bool replace(const struct charsmap *m, const struct runes *from, size_t first, size_t count, struct runes *to, bool *done)
{
    char text[8];
    size_t size = 0, bytes = 0;
    const char *other = NULL;
    for (size_t i = 0; i < count; i++) {
        char one[4];
        const size_t n = attn_utf8_write(from->code[first + i], one);
        if (bytes + n > sizeof text)
            return true;
        memcpy(text + bytes, one, n);
        bytes += n;
    }
    if ((count > 1 && bytes >= 6) || attn_charsmap_find(m, text, bytes, false, &other, &size) == 0)
        return true;
    *done = true;
    return put_replacement(from, first, count, other, size, to);
}

bool attn_charsmap_graphemes(const struct charsmap *m, const struct runes *from, struct runes *to)
{
    for (size_t i = 0, n; i < from->count; i += n) {
        utf8proc_int32_t state = 0;
        for (n = 1; i + n < from->count; n++) {
            if (utf8proc_grapheme_break_stateful((utf8proc_int32_t)from->code[i + n - 1], (utf8proc_int32_t)from->code[i + n], &state))
                break;
        }
        bool done = false;
        if (!replace(m, from, i, n, to, &done))
            return false;
        for (size_t k = i; k < i + n && !done; k++) {
            bool one = false;
            if (!replace(m, from, k, 1, to, &one) || (!one && !attn_runes_copy(to, from, k, k + 1)))
                return false;
        }
    }
    return true;
}
