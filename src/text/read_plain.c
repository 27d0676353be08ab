/* SPDX-License-Identifier: Apache-2.0 */
/* The formats before tokenizer.json: BERT's vocab.txt; GPT-2's vocab.json and merges.txt. */
#include <string.h>

#include "json_scan.h"
#include "internal.h"
#include "utf8.h"

/* The next line of [*at, end), without its end. */
static bool line(const char **at, const char *end, const char **text, size_t *size)
{
    if (*at == end)
        return false;
    const char *stop = memchr(*at, '\n', (size_t)(end - *at));
    *text = *at;
    *size = (size_t)((stop ? stop : end) - *at);
    *at = stop ? stop + 1 : end;
    if (*size > 0 && (*text)[*size - 1] == '\r')
        --*size;
    return true;
}

static attn_status check_text(const struct report *r, const char *text, size_t size)
{
    const size_t valid = attn_utf8_valid(text, size);
    return valid == size ? ATTN_OK : attn_text_fail(r, ATTN_E_FORMAT, "byte %zu is no UTF-8", valid);
}

/* The tokens that BERT's tokenizer looks for in text. */
static attn_status bert_specials(attn_tokenizer *t, const struct report *r)
{
    static const struct {
        const char *text;
        attn_special kind;
    } names[] = {{"[UNK]", ATTN_SPECIAL_UNK},
                 {"[PAD]", ATTN_SPECIAL_PAD},
                 {"[CLS]", ATTN_SPECIAL_CLS},
                 {"[SEP]", ATTN_SPECIAL_SEP},
                 {"[MASK]", ATTN_SPECIAL_MASK}};
    attn_status s = ATTN_OK;
    for (size_t i = 0; i < sizeof names / sizeof *names && s == ATTN_OK; i++) {
        const size_t size = strlen(names[i].text);
        const int32_t id = attn_vocab_id(&t->model.vocab, names[i].text, size);
        t->special[names[i].kind] = id;
        if (id >= 0)
            s = attn_added_put(t, r, names[i].text, size, id, ADDED_SPECIAL);
    }
    t->model.unk = t->special[ATTN_SPECIAL_UNK];
    return s;
}

attn_status attn_bert_steps(attn_tokenizer *t, const struct report *r)
{
    const struct step clean = {.kind = STEP_BERT_NORMALIZER, .flags = STEP_CLEAN | STEP_CJK | STEP_LOWER | STEP_ACCENTS};
    const struct step split = {.kind = STEP_BERT_SPLIT};
    struct step join = {.kind = STEP_WORDPIECE, .flags = STEP_CLEANUP};
    const int32_t cls = t->special[ATTN_SPECIAL_CLS], sep = t->special[ATTN_SPECIAL_SEP];
    if (!attn_runes_text(&join.content, "##", 2, 0) || !attn_steps_put(&t->decoders, join)) {
        attn_runes_free(&join.content);
        return attn_text_nomem(r);
    }
    if (!attn_steps_put(&t->normalizers, clean) || !attn_steps_put(&t->pre_tokenizers, split))
        return attn_text_nomem(r);
    t->has_decoder = true;
    if (cls >= 0 && sep >= 0) {
        t->one = (struct template){{{cls, 0}, {TEMPLATE_TEXT, 0}, {sep, 0}}, 3};
        t->two = (struct template){{{cls, 0}, {TEMPLATE_TEXT, 0}, {sep, 0}, {TEMPLATE_PAIR, 1}, {sep, 1}}, 5};
    }
    return ATTN_OK;
}

attn_status attn_read_vocab_txt(attn_tokenizer *t, const struct report *r, const char *text, size_t size)
{
    const char *at = text, *word;
    size_t word_size;
    int64_t id = 0;
    attn_status s = check_text(r, text, size);
    for (; s == ATTN_OK && line(&at, text + size, &word, &word_size); id++) {
        if (word_size > 0) /* an empty line has a number too */
            s = attn_vocab_add(&t->model.vocab, r, word, word_size, id);
    }
    if (s == ATTN_OK && id == 0)
        s = attn_text_fail(r, ATTN_E_FORMAT, "there are no tokens");
    t->model.kind = MODEL_WORDPIECE;
    t->model.max_chars = 100;
    s = s != ATTN_OK ? s : attn_replace_string(&t->model.prefix, r, "##");
    s = s != ATTN_OK ? s : bert_specials(t, r);
    s = s != ATTN_OK ? s : attn_bert_steps(t, r);
    return s != ATTN_OK ? s : attn_model_finish(&t->model, r);
}

static attn_status read_merges(struct model *m, const struct report *r, const char *text, size_t size)
{
    const char *at = text, *word;
    size_t word_size;
    uint32_t rank = 0;
    attn_status s = check_text(r, text, size);
    for (bool first = true; s == ATTN_OK && line(&at, text + size, &word, &word_size); first = false) {
        if (word_size == 0 || (first && word_size >= 8 && memcmp(word, "#version", 8) == 0))
            continue;
        const char *blank = memchr(word, ' ', word_size);
        if (blank == NULL)
            return attn_text_fail(r, ATTN_E_FORMAT, "merge %u, \"%.*s\", must be two tokens with a blank between", (unsigned)rank,
                                  (int)(word_size < 60 ? word_size : 60), word);
        const size_t left = (size_t)(blank - word);
        s = attn_model_merge_texts(m, r, word, left, blank + 1, word_size - left - 1, rank++);
    }
    return s;
}

attn_status attn_read_gpt2(attn_tokenizer *t, const struct report *vocab_report, const char *vocab, size_t vocab_size,
                           const struct report *merges_report, const char *merges, size_t merges_size)
{
    const struct scan scan = {vocab, vocab, vocab + vocab_size, vocab_report};
    t->model.kind = MODEL_BPE;
    attn_status s = attn_scan_vocab(scan, &t->model.vocab);
    s = s != ATTN_OK ? s : read_merges(&t->model, merges_report, merges, merges_size);
    return s != ATTN_OK ? s : attn_model_finish(&t->model, vocab_report);
}
