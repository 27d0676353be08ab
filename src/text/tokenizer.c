/* SPDX-License-Identifier: Apache-2.0 */
/* What a tokenizer says about itself. */
#include "attn/attn_text.h"

#include <stdio.h>

static attn_status not_yet(const char *what, char *err, size_t err_size)
{
    if (err != NULL && err_size > 0)
        snprintf(err, err_size, "%s: tokenizers are not read yet", what);
    return ATTN_E_UNSUPPORTED;
}

attn_status attn_tokenizer_open(attn_tokenizer **out, const char *dir, char *err, size_t err_size)
{
    *out = NULL;
    return not_yet(dir, err, err_size);
}

attn_status attn_tokenizer_create(attn_tokenizer **out, const attn_tokenizer_desc *desc, char *err, size_t err_size)
{
    *out = NULL;
    return not_yet(desc->name ? desc->name : "tokenizer", err, err_size);
}

void attn_tokenizer_destroy(attn_tokenizer *t) { (void)t; }

size_t attn_tokenizer_count(const attn_tokenizer *t)
{
    (void)t;
    return 0;
}

const char *attn_tokenizer_token(const attn_tokenizer *t, int64_t id, size_t *size)
{
    (void)t, (void)id, (void)size;
    return NULL;
}

int32_t attn_tokenizer_id(const attn_tokenizer *t, const char *token, size_t size)
{
    (void)t, (void)token, (void)size;
    return -1;
}

int32_t attn_tokenizer_special(const attn_tokenizer *t, attn_special kind)
{
    (void)t, (void)kind;
    return -1;
}

int32_t attn_tokenizer_is_special(const attn_tokenizer *t, int64_t id)
{
    (void)t, (void)id;
    return 0;
}

int64_t attn_tokenizer_max_length(const attn_tokenizer *t)
{
    (void)t;
    return 0;
}

const char *attn_tokenizer_chat_template(const attn_tokenizer *t)
{
    (void)t;
    return NULL;
}

attn_status attn_tokenizer_encode(const attn_tokenizer *t, const char *text, size_t size, const char *pair, size_t pair_size,
                                  uint32_t flags, size_t max_length, attn_encoding **out, char *err, size_t err_size)
{
    (void)t, (void)text, (void)size, (void)pair, (void)pair_size, (void)flags, (void)max_length;
    *out = NULL;
    return not_yet("tokenizer", err, err_size);
}

void attn_encoding_destroy(attn_encoding *e) { (void)e; }

attn_status attn_tokenizer_decode(const attn_tokenizer *t, const int32_t *ids, size_t count, uint32_t flags, char **text, size_t *size,
                                  char *err, size_t err_size)
{
    (void)t, (void)ids, (void)count, (void)flags, (void)size;
    *text = NULL;
    return not_yet("tokenizer", err, err_size);
}

void attn_text_free(char *text) { (void)text; }

attn_status attn_decoder_create(attn_decoder **out, const attn_tokenizer *t, uint32_t flags, char *err, size_t err_size)
{
    (void)t, (void)flags;
    *out = NULL;
    return not_yet("tokenizer", err, err_size);
}

attn_status attn_decoder_put(attn_decoder *d, int32_t id, const char **text, size_t *size, char *err, size_t err_size)
{
    (void)d, (void)id, (void)size;
    *text = "";
    return not_yet("tokenizer", err, err_size);
}

attn_status attn_decoder_end(attn_decoder *d, const char **text, size_t *size, char *err, size_t err_size)
{
    (void)d, (void)size;
    *text = "";
    return not_yet("tokenizer", err, err_size);
}

void attn_decoder_destroy(attn_decoder *d) { (void)d; }
