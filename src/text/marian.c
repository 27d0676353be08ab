/* SPDX-License-Identifier: Apache-2.0 */
#include "marian.h"

#include <stdlib.h>
#include <string.h>

#include "json_scan.h"
#include "utf8.h"

#define MARK 0x2581U /* a blank, written */

/* The pieces' ids in vocab.json; what it lacks is unknown. */
static attn_status map_ids(attn_tokenizer *t, struct side *side, const struct report *r)
{
    const struct vocab *pieces = &side->model.vocab;
    side->ids = malloc((pieces->count + 1) * sizeof *side->ids);
    if (side->ids == NULL)
        return attn_text_nomem(r);
    for (size_t i = 0; i < pieces->count; i++) {
        size_t size = 0;
        const char *text = attn_vocab_text(pieces, (int64_t)i, &size);
        const int32_t id = text ? attn_vocab_id(&t->model.vocab, text, size) : -1;
        side->ids[i] = id >= 0 ? id : t->special[ATTN_SPECIAL_UNK];
    }
    return ATTN_OK;
}

static attn_status read_side(attn_tokenizer *t, struct side **out, const struct report *r, const char *bytes, size_t size)
{
    struct side *side = calloc(1, sizeof *side);
    *out = side;
    if (side == NULL)
        return attn_text_nomem(r);
    const attn_status s = attn_spm_read(side, r, (const unsigned char *)bytes, size);
    return s == ATTN_OK ? map_ids(t, side, r) : s;
}

static attn_status specials(attn_tokenizer *t, const struct report *r)
{
    static const struct {
        const char *text;
        attn_special kind;
    } names[] = {{"</s>", ATTN_SPECIAL_EOS}, {"<unk>", ATTN_SPECIAL_UNK}, {"<pad>", ATTN_SPECIAL_PAD}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const int32_t id = attn_vocab_id(&t->model.vocab, names[i].text, strlen(names[i].text));
        if (id < 0)
            return attn_text_fail(r, ATTN_E_FORMAT, "the vocabulary lacks %s, which Marian's models have", names[i].text);
        t->special[names[i].kind] = id;
        const attn_status s = attn_added_put(t, r, names[i].text, strlen(names[i].text), id, ADDED_SPECIAL);
        if (s != ATTN_OK)
            return s;
    }
    t->model.unk = t->special[ATTN_SPECIAL_UNK];
    return ATTN_OK;
}

attn_status attn_read_marian(attn_tokenizer *t, const struct marian_files *f)
{
    const struct scan vocab = {f->vocab, f->vocab, f->vocab + f->vocab_size, f->vocab_report};
    struct step decoder = {.kind = STEP_METASPACE, .flags = STEP_ADD_SPACE};
    t->model.kind = MODEL_BPE; /* a vocabulary without merges: the sides do the work */
    attn_status s = attn_scan_vocab(vocab, &t->model.vocab);
    s = s != ATTN_OK ? s : specials(t, f->vocab_report);
    s = s != ATTN_OK ? s : attn_model_finish(&t->model, f->vocab_report);
    s = s != ATTN_OK ? s : read_side(t, &t->source, f->source_report, f->source, f->source_size);
    s = s != ATTN_OK ? s : read_side(t, &t->target, f->target_report, f->target, f->target_size);
    if (s != ATTN_OK)
        return s;
    if (!attn_runes_put(&decoder.content, MARK, 0, 0) || !attn_steps_put(&t->decoders, decoder)) {
        attn_runes_free(&decoder.content);
        return attn_text_nomem(f->vocab_report);
    }
    t->has_decoder = true;
    const int32_t eos = t->special[ATTN_SPECIAL_EOS];
    t->one = (struct template){{{TEMPLATE_TEXT, 0}, {eos, 0}}, 2};
    t->two = (struct template){{{TEMPLATE_TEXT, 0}, {TEMPLATE_PAIR, 0}, {eos, 0}}, 3};
    return ATTN_OK;
}

/* ------------------------------------------------------------- normalize ---- */

/* What stands for the text at rune i: *count runes of it, as UTF-8 in `to`. */
static bool replacement(const struct side *side, const struct runes *r, size_t i, size_t end, size_t *count, struct bytes *to)
{
    enum { LOOK = 32 };
    char text[4 * LOOK];
    size_t ends[LOOK + 1] = {0}, n = 0;
    for (; i + n < end && n < LOOK; n++)
        ends[n + 1] = ends[n] + attn_utf8_write(r->code[i + n], text + ends[n]);
    const char *other = text;
    size_t size = ends[1];
    const size_t found = side->map ? attn_charsmap_find(side->map, text, ends[n], true, &other, &size) : 0;
    *count = 1;
    while (found > 0 && *count < n && ends[*count] < found)
        ++*count;
    to->count = 0;
    return found > 0 ? attn_bytes_put(to, other, size) : attn_bytes_put(to, text, ends[1]);
}

/* One text: characters mapped, blanks squeezed and marked. */
static bool normalize(const struct side *side, const struct runes *from, struct piece p, struct runes *to)
{
    const size_t first = to->count, mark = side->escape ? MARK : ' ';
    struct bytes other = {.at = NULL};
    bool fine = true, after_blank = side->squeeze; /* blanks before the text go too */
    bool begun = !side->dummy_prefix;
    for (size_t i = p.from, n; i < p.to && fine; i += n) {
        fine = replacement(side, from, i, p.to, &n, &other);
        for (size_t k = 0, m; k < other.count && fine; k += m) {
            uint32_t c = 0;
            m = attn_utf8_read(other.at + k, other.count - k, &c);
            m = m ? m : 1;
            const bool blank = c == ' ';
            if (blank && after_blank && side->squeeze)
                continue;
            const uint32_t start = from->start[i], end = from->end[i + n - 1];
            if (!begun)
                fine = attn_runes_put(to, (uint32_t)mark, start, end);
            begun = true;
            after_blank = blank;
            fine = fine && attn_runes_put(to, blank ? (uint32_t)mark : c, start, end);
        }
    }
    while (side->squeeze && to->count > first && to->code[to->count - 1] == mark)
        to->count--;
    free(other.at);
    return fine;
}

/* The end of ">>...<<" at the beginning of the text, as transformers takes it: up to the last "<<" of the line. 0: none. */
static size_t language_code(const struct runes *r)
{
    size_t end = 0;
    if (r->count < 5 || r->code[0] != '>' || r->code[1] != '>')
        return 0;
    for (size_t i = 3; i + 1 < r->count && r->code[i] != '\n'; i++) {
        if (r->code[i] == '<' && r->code[i + 1] == '<')
            end = i + 2;
    }
    return end;
}

attn_status attn_marian_normalize(const attn_tokenizer *t, const struct side *side, const struct report *r, struct flow *flow,
                                  struct flow *spare)
{
    struct bytes code = {.at = NULL};
    bool fine = true;
    spare->runes.count = spare->pieces.count = 0;
    for (size_t i = 0; i < flow->pieces.count && fine; i++) {
        struct piece p = flow->pieces.at[i];
        const size_t language = p.id < 0 && p.from == 0 ? language_code(&flow->runes) : 0;
        if (language > 0 && language <= p.to) {
            fine = attn_runes_utf8(flow->runes.code, language, &code) && attn_runes_copy(&spare->runes, &flow->runes, 0, language);
            const int32_t id = fine ? attn_vocab_id(&t->model.vocab, code.at, code.count) : -1;
            fine = fine && attn_pieces_put(&spare->pieces, 0, language, id >= 0 ? id : t->model.unk);
            p.from = language;
        }
        const size_t first = spare->runes.count;
        if (p.id < 0)
            fine = fine && normalize(side, &flow->runes, p, &spare->runes);
        else
            fine = fine && attn_runes_copy(&spare->runes, &flow->runes, p.from, p.to);
        fine = fine && attn_pieces_put(&spare->pieces, first, spare->runes.count, p.id);
    }
    free(code.at);
    const struct flow done = *spare;
    *spare = *flow;
    *flow = done;
    return fine ? ATTN_OK : attn_text_nomem(r);
}
