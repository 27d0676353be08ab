/* SPDX-License-Identifier: Apache-2.0 */
/* What a tokenizer says about itself. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "marian.h"

attn_tokenizer *attn_tokenizer_start(const struct report *r)
{
    attn_tokenizer *t = calloc(1, sizeof *t);
    if (t != NULL) {
        t->model.unk = -1;
        t->model.prefix = calloc(1, 1);
        t->model.suffix = calloc(1, 1);
        t->one = (struct template){.count = 0};
        for (int i = 0; i < ATTN_SPECIAL_COUNT; i++)
            t->special[i] = -1;
    }
    if (t == NULL || t->model.prefix == NULL || t->model.suffix == NULL) {
        attn_tokenizer_destroy(t);
        attn_text_nomem(r);
        return NULL;
    }
    return t;
}

attn_status attn_tokenizer_done(attn_tokenizer *t, const struct report *r, attn_status s, attn_tokenizer **out)
{
    if (s == ATTN_OK)
        s = attn_added_finish(t, r);
    if (t->one.count == 0) {
        t->one = (struct template){{{TEMPLATE_TEXT, 0}}, 1};
        t->two = (struct template){{{TEMPLATE_TEXT, 0}, {TEMPLATE_PAIR, 1}}, 2};
    }
    if (t->special[ATTN_SPECIAL_UNK] < 0)
        t->special[ATTN_SPECIAL_UNK] = t->model.unk;
    *out = s == ATTN_OK ? t : NULL;
    if (s != ATTN_OK)
        attn_tokenizer_destroy(t);
    return s;
}

attn_status attn_replace_string(char **string, const struct report *r, const char *text)
{
    const size_t size = strlen(text) + 1;
    char *copy = malloc(size);
    if (copy == NULL)
        return attn_text_nomem(r);
    memcpy(copy, text, size);
    free(*string);
    *string = copy;
    return ATTN_OK;
}

void attn_tokenizer_destroy(attn_tokenizer *t)
{
    if (t == NULL)
        return;
    attn_model_free(&t->model);
    attn_added_free(&t->added);
    attn_steps_free(&t->normalizers);
    attn_steps_free(&t->pre_tokenizers);
    attn_steps_free(&t->decoders);
    attn_side_free(t->source);
    attn_side_free(t->target);
    free(t->chat_template);
    free(t);
}

size_t attn_tokenizer_count(const attn_tokenizer *t)
{
    return t->model.vocab.count > t->added.vocab.count ? t->model.vocab.count : t->added.vocab.count;
}

const char *attn_tokenizer_token(const attn_tokenizer *t, int64_t id, size_t *size)
{
    const char *text = attn_vocab_text(&t->added.vocab, id, size);
    return text != NULL ? text : attn_vocab_text(&t->model.vocab, id, size);
}

int32_t attn_tokenizer_id(const attn_tokenizer *t, const char *token, size_t size)
{
    const int32_t id = attn_vocab_id(&t->added.vocab, token, size);
    return id >= 0 ? id : attn_vocab_id(&t->model.vocab, token, size);
}

int32_t attn_tokenizer_special(const attn_tokenizer *t, attn_special kind)
{
    return kind >= ATTN_SPECIAL_BOS && kind <= ATTN_SPECIAL_MASK ? t->special[kind] : -1;
}

int32_t attn_tokenizer_is_special(const attn_tokenizer *t, int64_t id)
{
    return id >= 0 && (uint64_t)id < t->added.vocab.count && (t->added.flags[id] & ADDED_SPECIAL) != 0;
}

int64_t attn_tokenizer_max_length(const attn_tokenizer *t) { return t->max_length; }

const char *attn_tokenizer_chat_template(const attn_tokenizer *t) { return t->chat_template; }
