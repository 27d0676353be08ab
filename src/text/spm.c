/* SPDX-License-Identifier: Apache-2.0 */
/* SentencePiece's files: a protobuf of pieces, the trainer's options and the normalizer's. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "marian.h"
#include "utf8.h"

struct proto {
    const unsigned char *at, *end;
    const struct report *report;
};

struct field {
    unsigned number;
    uint64_t integer; /* varint or fixed */
    struct proto bytes;
    unsigned wire;
};

static attn_status cut_off(const struct proto *p)
{
    return attn_text_fail(p->report, ATTN_E_FORMAT, "the SentencePiece model is cut or malformed");
}

static bool varint(struct proto *p, uint64_t *to)
{
    *to = 0;
    for (unsigned shift = 0; shift < 64 && p->at < p->end; shift += 7) {
        const unsigned char byte = *p->at++;
        *to |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return true;
    }
    return false;
}

static bool fixed(struct proto *p, size_t size, uint64_t *to)
{
    *to = 0;
    if ((size_t)(p->end - p->at) < size)
        return false;
    for (size_t i = 0; i < size; i++)
        *to |= (uint64_t)*p->at++ << (8 * i);
    return true;
}

static attn_status next_field(struct proto *p, struct field *f)
{
    uint64_t tag = 0;
    bool fine = varint(p, &tag);
    f->number = (unsigned)(tag >> 3);
    f->wire = tag & 7;
    f->bytes = (struct proto){p->at, p->at, p->report};
    if (f->wire == 0)
        fine = fine && varint(p, &f->integer);
    else if (f->wire == 1 || f->wire == 5)
        fine = fine && fixed(p, f->wire == 1 ? 8 : 4, &f->integer);
    else
        fine = fine && f->wire == 2 && varint(p, &f->integer) && f->integer <= (uint64_t)(p->end - p->at);
    if (fine && f->wire == 2) {
        f->bytes = (struct proto){p->at, p->at + f->integer, p->report};
        p->at += f->integer;
    }
    return fine ? ATTN_OK : cut_off(p);
}

enum { PIECE_NORMAL = 1, PIECE_UNKNOWN = 2, PIECE_CONTROL = 3, PIECE_USER = 4, PIECE_UNUSED = 5 };

struct piece_field {
    struct proto text;
    float score;
    uint64_t type;
};

static attn_status piece(struct proto p, struct piece_field *out)
{
    *out = (struct piece_field){.text = {NULL, NULL, NULL}, .type = PIECE_NORMAL};
    while (p.at < p.end) {
        struct field f;
        const attn_status s = next_field(&p, &f);
        if (s != ATTN_OK)
            return s;
        if (f.number == 1 && f.wire == 2)
            out->text = f.bytes;
        if (f.number == 2 && f.wire == 5) {
            const uint32_t bits = (uint32_t)f.integer;
            memcpy(&out->score, &bits, sizeof bits);
        }
        if (f.number == 3 && f.wire == 0)
            out->type = f.integer;
    }
    const size_t size = (size_t)(out->text.end - out->text.at);
    if (size == 0 || attn_utf8_valid((const char *)out->text.at, size) < size || !isfinite(out->score))
        return attn_text_fail(p.report, ATTN_E_FORMAT, "a piece of the SentencePiece model has no text, or no UTF-8, or no finite score");
    return ATTN_OK;
}

static attn_status put_piece(struct side *side, const struct report *r, struct proto bytes, size_t *capacity)
{
    struct model *m = &side->model;
    struct piece_field p;
    const size_t id = m->vocab.count;
    attn_status s = piece(bytes, &p);
    if (s != ATTN_OK)
        return s;
    const char *text = (const char *)p.text.at;
    const size_t size = (size_t)(p.text.end - p.text.at);
    if (p.type == PIECE_USER)
        return attn_text_fail(r, ATTN_E_UNSUPPORTED, "the piece \"%.*s\" is user-defined, which is not supported",
                              (int)(size < 60 ? size : 60), text);
    if (!attn_text_grow(&m->scores, capacity, id + 1, sizeof *m->scores))
        return attn_text_nomem(r);
    m->scores[id] = (double)p.score;
    if (p.type == PIECE_UNKNOWN)
        m->unk = (int32_t)id;
    /* Control, unknown and unused pieces are never found in text: their text is under no key. */
    s = p.type == PIECE_NORMAL ? attn_vocab_add(&m->vocab, r, text, size, (int64_t)id)
                               : attn_vocab_alias(&m->vocab, r, text, size, (int64_t)id);
    return s;
}

static attn_status trainer(const struct report *r, struct proto p)
{
    while (p.at < p.end) {
        struct field f;
        const attn_status s = next_field(&p, &f);
        if (s != ATTN_OK)
            return s;
        if (f.number == 3 && f.wire == 0 && f.integer != 1)
            return attn_text_fail(r, ATTN_E_UNSUPPORTED, "the SentencePiece model is of type %llu; only 1, unigram, is read",
                                  (unsigned long long)f.integer);
        if ((f.number == 24 || f.number == 35) && f.wire == 0 && f.integer != 0)
            return attn_text_fail(r, ATTN_E_UNSUPPORTED, "%s is set in the SentencePiece model, which is not supported",
                                  f.number == 24 ? "treat_whitespace_as_suffix" : "byte_fallback");
    }
    return ATTN_OK;
}

static attn_status normalizer(struct side *side, const struct report *r, struct proto p)
{
    while (p.at < p.end) {
        struct field f;
        attn_status s = next_field(&p, &f);
        if (s != ATTN_OK)
            return s;
        if (f.number == 2 && f.wire == 2 && f.integer > 0) {
            attn_charsmap_free(side->map);
            s = attn_charsmap_make(&side->map, r, f.bytes.at, (size_t)f.integer);
            if (s != ATTN_OK)
                return s;
        }
        if (f.number == 3 && f.wire == 0)
            side->dummy_prefix = f.integer != 0;
        if (f.number == 4 && f.wire == 0)
            side->squeeze = f.integer != 0;
        if (f.number == 5 && f.wire == 0)
            side->escape = f.integer != 0;
    }
    return ATTN_OK;
}

attn_status attn_spm_read(struct side *side, const struct report *r, const unsigned char *bytes, size_t size)
{
    struct proto p = {bytes, bytes + size, r};
    size_t capacity = 0;
    side->model.kind = MODEL_UNIGRAM;
    side->model.flags = MODEL_SINGLE;
    side->model.unk = -1;
    side->dummy_prefix = side->squeeze = side->escape = true;
    attn_status s = ATTN_OK;
    while (s == ATTN_OK && p.at < p.end) {
        struct field f;
        s = next_field(&p, &f);
        if (s != ATTN_OK || f.wire != 2)
            continue;
        s = f.number == 1   ? put_piece(side, r, f.bytes, &capacity)
            : f.number == 2 ? trainer(r, f.bytes)
            : f.number == 3 ? normalizer(side, r, f.bytes)
                            : ATTN_OK;
    }
    if (s == ATTN_OK && (side->model.vocab.count == 0 || side->model.unk < 0))
        s = attn_text_fail(r, ATTN_E_FORMAT, "the SentencePiece model has no pieces, or none for unknown text");
    return s == ATTN_OK ? attn_model_finish(&side->model, r) : s;
}

void attn_side_free(struct side *side)
{
    if (side == NULL)
        return;
    attn_model_free(&side->model);
    attn_charsmap_free(side->map);
    free(side->ids);
    free(side);
}
