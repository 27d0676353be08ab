/* SPDX-License-Identifier: Apache-2.0 */
#include "model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "utf8.h"

void attn_model_free(struct model *m)
{
    attn_vocab_free(&m->vocab);
    attn_prefixes_free(&m->prefixes);
    free(m->prefix);
    free(m->suffix);
    free(m->merges);
    free(m->scores);
    *m = (struct model){.unk = -1};
}

static attn_status all_prefixes(struct model *m, const struct report *r)
{
    int32_t *ids = malloc((m->vocab.used + 1) * sizeof *ids);
    size_t n = 0;
    for (size_t i = 0; ids != NULL && i < m->vocab.slot_count; i++) {
        if (m->vocab.slots[i] != 0)
            ids[n++] = m->vocab.slots[i] - 1;
    }
    return ids != NULL && attn_prefixes_make(&m->prefixes, &m->vocab, ids, n) ? ATTN_OK : attn_text_nomem(r);
}

attn_status attn_model_finish(struct model *m, const struct report *r)
{
    for (int i = 0; i < 256; i++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", (unsigned)i);
        m->bytes[i] = attn_vocab_id(&m->vocab, name, 6);
    }
    for (uint32_t c = 0; c < sizeof m->letters / sizeof *m->letters; c++) {
        char text[4];
        m->letters[c] = attn_vocab_id(&m->vocab, text, attn_utf8_write(c, text));
    }
    if (m->kind == MODEL_UNIGRAM) {
        double least = INFINITY; /* sentencepiece's kUnkPenalty below the least likely token */
        for (size_t i = 0; i < m->vocab.count; i++)
            least = m->scores[i] < least ? m->scores[i] : least;
        m->unk_score = least - 10;
    }
    return m->kind == MODEL_BPE ? ATTN_OK : all_prefixes(m, r);
}

void attn_work_free(struct work *w)
{
    free(w->found);
    free(w->text.at);
    free(w->rune_of);
    free(w->nodes);
    free(w->heap);
}

bool attn_work_put(struct work *w, int32_t id, size_t from, size_t to)
{
    if (!attn_text_grow(&w->found, &w->found_capacity, w->found_count + 1, sizeof *w->found))
        return false;
    w->found[w->found_count++] = (struct found){id, from, to};
    return true;
}

bool attn_work_word(struct work *w, const struct runes *runes, size_t from, size_t to, size_t room)
{
    const size_t need = 4 * (to - from) + room + 1;
    if (!attn_text_grow(&w->text.at, &w->text.capacity, need, 1) ||
        !attn_text_grow(&w->rune_of, &w->rune_capacity, need, sizeof *w->rune_of))
        return false;
    w->text.count = room;
    for (size_t i = from; i < to; i++) {
        const size_t n = attn_utf8_write(runes->code[i], w->text.at + w->text.count);
        for (size_t k = 0; k < n; k++)
            w->rune_of[w->text.count++] = i;
    }
    w->rune_of[w->text.count] = to;
    return true;
}

attn_status attn_no_token(const struct report *r, const struct runes *runes, size_t at)
{
    return attn_text_fail(r, ATTN_E_FORMAT, "the vocabulary has no token for U+%04X at byte %u of the text, and no token for unknown text",
                          (unsigned)runes->code[at], (unsigned)runes->start[at]);
}

attn_status attn_model_run(const struct model *m, const struct report *r, struct work *w, const struct runes *runes, size_t from, size_t to)
{
    switch (m->kind) {
    case MODEL_WORDPIECE:
        return attn_wordpiece(m, r, w, runes, from, to);
    case MODEL_BPE:
        return attn_bpe(m, r, w, runes, from, to);
    default:
        return attn_unigram(m, r, w, runes, from, to);
    }
}
