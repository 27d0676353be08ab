/* SPDX-License-Identifier: Apache-2.0 */
#include "runes.h"

#include <stdlib.h>
#include <string.h>

#include "utf8.h"

bool attn_runes_reserve(struct runes *r, size_t more)
{
    const size_t need = r->count + more;
    if (need <= r->capacity)
        return true;
    size_t a = r->capacity, b = r->capacity, c = r->capacity;
    if (!attn_text_grow(&r->code, &a, need, sizeof *r->code) || !attn_text_grow(&r->start, &b, need, sizeof *r->start) ||
        !attn_text_grow(&r->end, &c, need, sizeof *r->end))
        return false;
    r->capacity = a;
    return true;
}

bool attn_runes_put(struct runes *r, uint32_t code, uint32_t start, uint32_t end)
{
    if (!attn_runes_reserve(r, 1))
        return false;
    r->code[r->count] = code;
    r->start[r->count] = start;
    r->end[r->count++] = end;
    return true;
}

bool attn_runes_text(struct runes *r, const char *text, size_t size, size_t base)
{
    if (!attn_runes_reserve(r, size))
        return false;
    for (size_t i = 0, n; i < size; i += n) {
        uint32_t c = 0;
        n = attn_utf8_read(text + i, size - i, &c);
        if (n == 0)
            return true;
        r->code[r->count] = c;
        r->start[r->count] = (uint32_t)(base + i);
        r->end[r->count++] = (uint32_t)(base + i + n);
    }
    return true;
}

bool attn_runes_copy(struct runes *r, const struct runes *of, size_t from, size_t to)
{
    const size_t n = to - from;
    if (n == 0)
        return true;
    if (!attn_runes_reserve(r, n))
        return false;
    memcpy(r->code + r->count, of->code + from, n * sizeof *r->code);
    memcpy(r->start + r->count, of->start + from, n * sizeof *r->start);
    memcpy(r->end + r->count, of->end + from, n * sizeof *r->end);
    r->count += n;
    return true;
}

void attn_runes_free(struct runes *r)
{
    free(r->code);
    free(r->start);
    free(r->end);
    *r = (struct runes){.count = 0};
}

bool attn_runes_utf8(const uint32_t *code, size_t count, struct bytes *to)
{
    if (!attn_text_grow(&to->at, &to->capacity, to->count + 4 * count + 1, 1))
        return false;
    for (size_t i = 0; i < count; i++)
        to->count += attn_utf8_write(code[i], to->at + to->count);
    to->at[to->count] = '\0';
    return true;
}

bool attn_pieces_put(struct pieces *p, size_t from, size_t to, int32_t id)
{
    if (from == to && id < 0)
        return true;
    if (!attn_text_grow(&p->at, &p->capacity, p->count + 1, sizeof *p->at))
        return false;
    p->at[p->count++] = (struct piece){from, to, id};
    return true;
}

void attn_flow_free(struct flow *f)
{
    attn_runes_free(&f->runes);
    free(f->pieces.at);
    f->pieces = (struct pieces){.at = NULL};
}
