/* SPDX-License-Identifier: Apache-2.0 */
/* WordPiece: from the left, the longest token each time; a word that cannot be written so is one unknown token. */
#include <string.h>

#include "model.h"

attn_status attn_wordpiece(const struct model *m, const struct report *r, struct work *w, const struct runes *runes, size_t from, size_t to)
{
    const char *begins = m->begins ? m->begins : "";
    const size_t prefix = strlen(begins) > strlen(m->prefix) ? strlen(begins) : strlen(m->prefix), first = w->found_count;
    bool known = to - from <= m->max_chars;
    if (known && !attn_work_word(w, runes, from, to, prefix))
        return attn_text_nomem(r);
    for (size_t at = prefix; known && at < w->text.count;) {
        /* What a token begins with here is written over bytes that are done with. */
        const char *mark = at > prefix ? m->prefix : begins;
        const size_t lead = strlen(mark);
        memcpy(w->text.at + at - lead, mark, lead);
        const char *text = w->text.at + at - lead;
        const size_t size = w->text.count - at + lead;
        struct walk walk = attn_walk_from(&m->prefixes, text, size);
        size_t best = lead, n = 0;
        int32_t id = -1;
        for (int32_t next; (next = attn_walk_next(&m->prefixes, &m->vocab, &walk, text, size, &n)) >= 0;) {
            if (n > lead) {
                id = next;
                best = n;
            }
        }
        known = id >= 0;
        if (known && !attn_work_put(w, id, w->rune_of[at], w->rune_of[at + best - lead]))
            return attn_text_nomem(r);
        at += best - lead;
    }
    if (known)
        return ATTN_OK;
    if (m->unk < 0)
        return attn_no_token(r, runes, from);
    w->found_count = first;
    return attn_work_put(w, m->unk, from, to) ? ATTN_OK : attn_text_nomem(r);
}
