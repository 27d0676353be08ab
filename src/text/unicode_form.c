/* SPDX-License-Identifier: Apache-2.0 */
/* Unicode's normal forms on runes. The bytes of a composed character are those of all its parts. */
#include <utf8proc.h>

#include "step.h"

enum { HANGUL = 0xac00, LEAD = 0x1100, VOWEL = 0x1161, TAIL = 0x11a7, LEADS = 19, VOWELS = 21, TAILS = 28, CLASSES = 256 };

static int class_of(uint32_t c) { return c < 0x300 ? 0 : utf8proc_get_property((utf8proc_int32_t)c)->combining_class; }

/* The marks first..end - 1 in the order of their classes, equal ones as they were: counted, since a hostile text is one long run of
   them. */
static bool order_run(struct runes *r, size_t first, size_t end)
{
    size_t place[CLASSES + 1] = {0};
    struct runes old = {0};
    bool ok = true;
    for (size_t i = first; i < end && ok; i++) {
        place[class_of(r->code[i]) + 1]++;
        ok = attn_runes_put(&old, r->code[i], r->start[i], r->end[i]);
    }
    for (int k = 0; k < CLASSES; k++)
        place[k + 1] += place[k];
    for (size_t i = 0; i < old.count && ok; i++) {
        const size_t to = first + place[class_of(old.code[i])]++;
        r->code[to] = old.code[i];
        r->start[to] = old.start[i];
        r->end[to] = old.end[i];
    }
    attn_runes_free(&old);
    return ok;
}

/* Marks after a base in the order of their classes. */
static bool order_marks(struct runes *r)
{
    for (size_t first = 0, end; first < r->count; first = end) {
        bool sorted = true;
        int last = class_of(r->code[first]);
        end = first + 1;
        for (int k; last > 0 && end < r->count && (k = class_of(r->code[end])) > 0; end++) {
            sorted = sorted && last <= k;
            last = k;
        }
        if (!sorted && !order_run(r, first, end))
            return false;
    }
    return true;
}

static bool decompose(const struct runes *from, bool compatible, struct runes *to)
{
    const int options = UTF8PROC_DECOMPOSE | (compatible ? UTF8PROC_COMPAT : 0);
    for (size_t i = 0; i < from->count; i++) {
        utf8proc_int32_t parts[32];
        int boundary = 0;
        utf8proc_ssize_t n = 1;
        parts[0] = (utf8proc_int32_t)from->code[i];
        if (from->code[i] >= 0x80)
            n = utf8proc_decompose_char((utf8proc_int32_t)from->code[i], parts, 32, (utf8proc_option_t)options, &boundary);
        if (n <= 0 || n > 32) {
            n = 1;
            parts[0] = (utf8proc_int32_t)from->code[i];
        }
        for (utf8proc_ssize_t k = 0; k < n; k++) {
            if (!attn_runes_put(to, (uint32_t)parts[k], from->start[i], from->end[i]))
                return false;
        }
    }
    return order_marks(to);
}

/* The one character that a and b make, 0 when they make none. utf8proc composes strings of two as NFC does. */
static uint32_t composed(uint32_t a, uint32_t b)
{
    if (a - LEAD < LEADS && b - VOWEL < VOWELS)
        return HANGUL + ((a - LEAD) * VOWELS + (b - VOWEL)) * TAILS;
    if (a - HANGUL < LEADS * VOWELS * TAILS && (a - HANGUL) % TAILS == 0 && b - TAIL - 1 < TAILS - 1)
        return a + (b - TAIL);
    if (b < 0x300)
        return 0;
    utf8proc_int32_t pair[2] = {(utf8proc_int32_t)a, (utf8proc_int32_t)b};
    return utf8proc_normalize_utf32(pair, 2, UTF8PROC_COMPOSE | UTF8PROC_STABLE) == 1 ? (uint32_t)pair[0] : 0;
}

static void compose(struct runes *r)
{
    size_t base = 0, n = 0;
    bool have = false;
    int last = 0; /* the class of what stands before i after the base */
    for (size_t i = 0; i < r->count; i++) {
        const uint32_t c = r->code[i];
        const int k = class_of(c);
        const bool reachable = have && (n == base + 1 || (last != 0 && last < k));
        const uint32_t one = reachable ? composed(r->code[base], c) : 0;
        if (one != 0) {
            r->code[base] = one;
            r->end[base] = r->end[i] > r->end[base] ? r->end[i] : r->end[base];
            continue;
        }
        r->code[n] = c;
        r->start[n] = r->start[i];
        r->end[n] = r->end[i];
        if (k == 0) {
            base = n;
            have = true;
        }
        last = k;
        n++;
    }
    r->count = n;
}

attn_status attn_unicode_form(enum step_kind form, const struct report *r, const struct runes *from, struct runes *to)
{
    if (!decompose(from, form == STEP_NFKC || form == STEP_NFKD, to))
        return attn_text_nomem(r);
    if (form == STEP_NFC || form == STEP_NFKC)
        compose(to);
    return ATTN_OK;
}
