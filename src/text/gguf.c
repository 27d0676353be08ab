/* SPDX-License-Identifier: Apache-2.0 */
/* A tokenizer from arrays, as GGUF files hold it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "utf8.h"

enum { TYPE_UNKNOWN = 2, TYPE_CONTROL = 3, TYPE_USER = 4, TYPE_UNUSED = 5, TYPE_BYTE = 6 };

#define QWEN2_PATTERN                                                                                                                      \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define LLAMA3_PATTERN                                                                                                                     \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

const char attn_qwen2_pattern[] = QWEN2_PATTERN;

/* How each named pre-tokenizer cuts text. */
static const struct pre {
    const char *name;
    const char *pattern; /* NULL: GPT-2's */
    bool digits;         /* each digit is cut off first */
    bool nfc, ignore_merges, add_bos;
} pres[] = {{"default", NULL, false, false, false, false},
            {"gpt-2", NULL, false, false, false, false},
            {"smollm", NULL, true, false, false, false},
            {"starcoder", NULL, true, false, false, false},
            {"refact", NULL, true, false, false, false},
            {"command-r", NULL, true, false, false, false},
            {"phi-2", NULL, false, false, false, false},
            {"qwen2", QWEN2_PATTERN, false, true, false, false},
            {"llama-bpe", LLAMA3_PATTERN, false, false, true, true},
            {"llama3", LLAMA3_PATTERN, false, false, true, true}};

static bool is_found_in_text(const attn_tokenizer_desc *d, size_t i)
{
    return d->types != NULL && (d->types[i] == TYPE_CONTROL || d->types[i] == TYPE_USER || d->types[i] == TYPE_UNKNOWN);
}

/* spm: tokens that are found in text are no pieces. Two tokens of the same text happen in such files: the first one is the text's. */
static attn_status put_tokens(attn_tokenizer *t, const struct report *r, const attn_tokenizer_desc *d)
{
    struct vocab *v = &t->model.vocab;
    attn_status s = ATTN_OK;
    for (size_t i = 0; i < d->count && s == ATTN_OK; i++) {
        const char *text = d->tokens[i].text;
        const size_t size = d->tokens[i].size;
        if (attn_utf8_valid(text, size) < size)
            return attn_text_fail(r, ATTN_E_FORMAT, "token %zu is no UTF-8", i);
        const bool twice = attn_vocab_id(v, text, size) >= 0;
        s = size == 0 || twice ? attn_vocab_alias(v, r, text, size, (int64_t)i) : attn_vocab_add(v, r, text, size, (int64_t)i);
        if (s == ATTN_OK && size > 0 && !twice && is_found_in_text(d, i))
            s = attn_added_put(t, r, text, size, (int64_t)i, d->types[i] == TYPE_USER ? 0 : ADDED_SPECIAL);
    }
    return s;
}

static attn_status specials(attn_tokenizer *t, const struct report *r, const attn_tokenizer_desc *d)
{
    for (int i = 0; d->special != NULL && i < ATTN_SPECIAL_COUNT; i++) {
        if (d->special[i] < -1 || (d->special[i] >= 0 && (size_t)d->special[i] >= d->count))
            return attn_text_fail(r, ATTN_E_FORMAT, "special token %d has the id %d, but there are %zu tokens", i, d->special[i], d->count);
        t->special[i] = d->special[i];
    }
    return ATTN_OK;
}

/* <s> before and </s> after, each where it is wanted. */
static attn_status around(attn_tokenizer *t, const struct report *r, bool bos, bool eos)
{
    const int32_t first = t->special[ATTN_SPECIAL_BOS], last = t->special[ATTN_SPECIAL_EOS];
    if ((bos && first < 0) || (eos && last < 0))
        return attn_text_fail(r, ATTN_E_FORMAT, "%s tokens are to be added, but none is named", bos && first < 0 ? "BOS" : "EOS");
    struct template *const both[2] = {&t->one, &t->two};
    for (int k = 0; k < 2; k++) {
        struct template *x = both[k];
        x->count = 0;
        for (int text = 0; text <= k; text++) {
            if (bos)
                x->at[x->count++] = (struct template_part){first, text};
            x->at[x->count++] = (struct template_part){text ? TEMPLATE_PAIR : TEMPLATE_TEXT, text};
            if (eos)
                x->at[x->count++] = (struct template_part){last, text};
        }
    }
    return ATTN_OK;
}

static attn_status put_step(struct steps *to, const struct report *r, struct step s)
{
    return attn_steps_put(to, s) ? ATTN_OK : attn_text_nomem(r);
}

static attn_status gpt2(attn_tokenizer *t, const struct report *r, const attn_tokenizer_desc *d)
{
    const char *name = d->pre ? d->pre : "default";
    const struct pre *pre = NULL;
    for (size_t i = 0; i < sizeof pres / sizeof *pres && pre == NULL; i++)
        pre = strcmp(pres[i].name, name) == 0 ? &pres[i] : NULL;
    if (pre == NULL)
        return attn_text_fail(r, ATTN_E_UNSUPPORTED, "the pre-tokenizer \"%.60s\" is not known", name);
    t->model.kind = MODEL_BPE;
    t->model.flags = pre->ignore_merges ? MODEL_IGNORE_MERGES : 0;
    attn_status s = ATTN_OK;
    for (size_t i = 0; i < d->merge_count && s == ATTN_OK; i++) {
        const attn_span m = d->merges[i];
        const char *blank = m.size > 1 ? memchr(m.text + 1, ' ', m.size - 1) : NULL;
        if (blank == NULL)
            return attn_text_fail(r, ATTN_E_FORMAT, "merge %zu must be two tokens with a blank between", i);
        const size_t left = (size_t)(blank - m.text);
        s = attn_model_merge_texts(&t->model, r, m.text, left, blank + 1, m.size - left - 1, (uint32_t)i);
    }
    if (s == ATTN_OK && pre->nfc)
        s = put_step(&t->normalizers, r, (struct step){.kind = STEP_NFC});
    if (s == ATTN_OK && pre->digits)
        s = put_step(&t->pre_tokenizers, r, (struct step){.kind = STEP_DIGITS, .behavior = BEHAVIOR_ISOLATED});
    if (s == ATTN_OK && pre->pattern != NULL)
        s = attn_step_pattern(&t->pre_tokenizers, r, pre->pattern, BEHAVIOR_ISOLATED);
    s = s != ATTN_OK ? s : attn_step_byte_level(&t->pre_tokenizers, r, pre->pattern ? 0 : STEP_CUT);
    s = s != ATTN_OK ? s : put_step(&t->decoders, r, (struct step){.kind = STEP_BYTE_LEVEL});
    s = s != ATTN_OK ? s : around(t, r, d->add_bos ? d->add_bos > 0 : pre->add_bos, d->add_eos > 0);
    return s != ATTN_OK ? s : attn_model_finish(&t->model, r);
}

/* " " is written U+2581, and stands before every text. */
static attn_status llama_steps(attn_tokenizer *t, const struct report *r, bool prefix)
{
    struct step mark = {.kind = STEP_REPLACE}, before = {.kind = STEP_PREPEND};
    struct step blank = {.kind = STEP_REPLACE}, strip = {.kind = STEP_STRIP_TOKENS, .start = 1};
    attn_status s = attn_pattern_make(&mark.pattern, r, " ", 1, true);
    s = s != ATTN_OK ? s : attn_pattern_make(&blank.pattern, r, "\xe2\x96\x81", 3, true);
    const bool fine = attn_runes_put(&mark.content, 0x2581, 0, 0) && attn_runes_put(&before.content, 0x2581, 0, 0) &&
                      attn_runes_put(&blank.content, ' ', 0, 0) && attn_runes_put(&strip.content, ' ', 0, 0);
    s = s == ATTN_OK && !fine ? attn_text_nomem(r) : s;
    /* The lists own what they hold even where a later one fails. */
    const struct steps all = {(struct step[]){before, mark, blank, strip}, 4, 4};
    struct steps *const to[] = {&t->normalizers, &t->normalizers, &t->decoders, &t->decoders};
    for (size_t i = 0; i < all.count; i++) {
        const bool wanted = prefix || (i != 0 && i != 3);
        if (s == ATTN_OK && wanted && attn_steps_put(to[i], all.at[i])) {
            if (i == 2)
                s = put_step(&t->decoders, r, (struct step){.kind = STEP_BYTE_FALLBACK});
            if (i == 2 && s == ATTN_OK)
                s = put_step(&t->decoders, r, (struct step){.kind = STEP_FUSE});
            continue;
        }
        s = s == ATTN_OK && wanted ? attn_text_nomem(r) : s;
        struct step unused = all.at[i];
        attn_runes_free(&unused.content);
        attn_pattern_free(unused.pattern);
    }
    return s;
}

static attn_status llama(attn_tokenizer *t, const struct report *r, const attn_tokenizer_desc *d)
{
    if (d->scores == NULL)
        return attn_text_fail(r, ATTN_E_FORMAT, "the model llama needs scores, but there are none");
    unsigned char *usable = calloc(d->count + 1, 1);
    if (usable == NULL)
        return attn_text_nomem(r);
    attn_status s = ATTN_OK;
    for (size_t i = 0; i < d->count; i++) {
        usable[i] = !is_found_in_text(d, i) && !(d->types != NULL && (d->types[i] == TYPE_BYTE || d->types[i] == TYPE_UNUSED));
        if (isnan(d->scores[i]))
            s = attn_text_fail(r, ATTN_E_FORMAT, "the score of token %zu is NaN", i);
    }
    t->model.kind = MODEL_BPE;
    t->model.flags = MODEL_BYTE_FALLBACK | MODEL_FUSE_UNK;
    t->model.unk = t->special[ATTN_SPECIAL_UNK];
    s = s != ATTN_OK ? s : attn_model_merges_by_score(&t->model, r, d->scores, usable);
    free(usable);
    s = s != ATTN_OK ? s : llama_steps(t, r, d->space_prefix >= 0);
    s = s != ATTN_OK ? s : around(t, r, d->add_bos >= 0, d->add_eos > 0);
    return s != ATTN_OK ? s : attn_model_finish(&t->model, r);
}

/* GGUF writes WordPiece with a mark before the beginnings of words instead of ## before the rest: so does this vocabulary. */
static attn_status bert(attn_tokenizer *t, const struct report *r)
{
    t->model.kind = MODEL_WORDPIECE;
    t->model.max_chars = 100;
    t->model.begins = "\xe2\x96\x81";
    if (t->model.unk < 0)
        t->model.unk = t->special[ATTN_SPECIAL_UNK];
    attn_status s = attn_bert_steps(t, r);
    if (s == ATTN_OK) { /* the mark becomes a blank, but in the first token */
        struct step *join = &t->decoders.at[0];
        join->kind = STEP_METASPACE;
        join->flags = STEP_ADD_SPACE;
        join->content.count = 1;
        join->content.code[0] = 0x2581;
    }
    return s != ATTN_OK ? s : attn_model_finish(&t->model, r);
}

static attn_status make(attn_tokenizer *t, const struct report *r, const attn_tokenizer_desc *d)
{
    attn_status s = put_tokens(t, r, d);
    s = s != ATTN_OK ? s : specials(t, r, d);
    if (s != ATTN_OK)
        return s;
    if (d->chat_template != NULL)
        s = attn_replace_string(&t->chat_template, r, d->chat_template);
    if (s != ATTN_OK)
        return s;
    t->has_decoder = true;
    if (strcmp(d->model, "gpt2") == 0)
        return gpt2(t, r, d);
    if (strcmp(d->model, "llama") == 0)
        return llama(t, r, d);
    if (strcmp(d->model, "bert") == 0)
        return bert(t, r);
    return attn_text_fail(r, ATTN_E_UNSUPPORTED, "the tokenizer model \"%.60s\" is not known; known are gpt2, llama and bert", d->model);
}

attn_status attn_tokenizer_create(attn_tokenizer **out, const attn_tokenizer_desc *desc, char *err, size_t err_size)
{
    const struct report r = {err, err_size, desc->name ? desc->name : "tokenizer"};
    *out = NULL;
    if (desc->struct_size != sizeof *desc)
        return attn_text_fail(&r, ATTN_E_ARG, "struct_size = %zu, but attn_tokenizer_desc has %zu bytes here", desc->struct_size,
                              sizeof *desc);
    if (desc->model == NULL || (desc->count > 0 && desc->tokens == NULL) || (desc->merge_count > 0 && desc->merges == NULL))
        return attn_text_fail(&r, ATTN_E_ARG, "model, tokens and merges must be there");
    attn_tokenizer *t = attn_tokenizer_start(&r);
    if (t == NULL)
        return ATTN_E_NOMEM;
    return attn_tokenizer_done(t, &r, make(t, &r, desc), out);
}
