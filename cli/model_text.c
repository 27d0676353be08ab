/* SPDX-License-Identifier: Apache-2.0 */
#include "model_text.h"
#include "message.h"

#include <attn/attn_io.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SENTENCE = 1024 };

/* Spans of an array of strings; *count is how many. free() it. */
static attn_span *spans_of(const attn_file *f, const char *key, size_t *count)
{
    const attn_gguf_value v = attn_gguf_find(f, key);
    size_t cursor = 0, n = 0;
    attn_span *spans = need_zeroed(v.key && v.type == ATTN_GGUF_STRING ? v.count : 0, sizeof *spans);
    while (attn_gguf_string(&v, &cursor, &spans[n].text, &spans[n].size) && ++n < v.count)
        continue;
    *count = n;
    return spans;
}

/* A string of the file with a 0 behind it, or NULL. free() it. */
static char *text_of(const attn_file *f, const char *key)
{
    const attn_gguf_value v = attn_gguf_find(f, key);
    size_t cursor = 0, size;
    const char *from;
    if (v.key == NULL || v.is_array || !attn_gguf_string(&v, &cursor, &from, &size))
        return NULL;
    char *text = need_memory(size + 1);
    memcpy(text, from, size);
    text[size] = '\0';
    return text;
}

static int choice_of(const attn_file *f, const char *key)
{
    const attn_gguf_value v = attn_gguf_find(f, key);
    int64_t yes;
    return attn_gguf_integer(&v, 0, &yes) ? yes ? 1 : -1 : 0;
}

static void *numbers_of(const attn_file *f, const char *key, size_t count, int as_float)
{
    const attn_gguf_value v = attn_gguf_find(f, key);
    if (v.key == NULL || v.count != count)
        return NULL;
    float *floats = need_zeroed(count, sizeof *floats);
    int32_t *wholes = (int32_t *)(void *)floats;
    for (size_t i = 0; i < count; i++) {
        double number = 0;
        attn_gguf_number(&v, i, &number);
        if (as_float)
            floats[i] = (float)number;
        else
            wholes[i] = (int32_t)number;
    }
    return floats;
}

static attn_status from_gguf(const attn_file *f, const char *path, attn_tokenizer **out, char *err)
{
    static const char *const kinds[ATTN_SPECIAL_COUNT] = {"bos", "eos", "unknown", "padding", "cls", "seperator", "mask"};
    int32_t special[ATTN_SPECIAL_COUNT];
    attn_tokenizer_desc d = {.struct_size = sizeof d, .name = path, .special = special};
    for (int i = 0; i < ATTN_SPECIAL_COUNT; i++) {
        char key[64];
        int64_t id;
        snprintf(key, sizeof key, "tokenizer.ggml.%s_token_id", kinds[i]);
        const attn_gguf_value v = attn_gguf_find(f, key);
        special[i] = attn_gguf_integer(&v, 0, &id) && id >= 0 && id <= INT32_MAX ? (int32_t)id : -1;
    }
    attn_span *tokens = spans_of(f, "tokenizer.ggml.tokens", &d.count), *merges = spans_of(f, "tokenizer.ggml.merges", &d.merge_count);
    float *scores = numbers_of(f, "tokenizer.ggml.scores", d.count, 1);
    int32_t *types = numbers_of(f, "tokenizer.ggml.token_type", d.count, 0);
    char *model = text_of(f, "tokenizer.ggml.model"), *pre = text_of(f, "tokenizer.ggml.pre");
    char *template = text_of(f, "tokenizer.chat_template");
    d.tokens = tokens;
    d.merges = merges;
    d.scores = scores;
    d.types = types;
    d.model = model ? model : "";
    d.pre = pre;
    d.chat_template = template;
    d.add_bos = choice_of(f, "tokenizer.ggml.add_bos_token");
    d.add_eos = choice_of(f, "tokenizer.ggml.add_eos_token");
    d.space_prefix = choice_of(f, "tokenizer.ggml.add_space_prefix");
    const attn_status s = attn_tokenizer_create(out, &d, err, SENTENCE);
    free(tokens);
    free(merges);
    free(scores);
    free(types);
    free(model);
    free(pre);
    free(template);
    return s;
}

int model_tokenizer(const char *path, attn_tokenizer **out)
{
    char err[SENTENCE];
    attn_file *f = NULL;
    attn_status s;
    if (attn_format_of(path) != ATTN_FORMAT_GGUF) {
        s = attn_tokenizer_open(out, path, err, sizeof err);
    } else {
        s = attn_file_open(&f, path, err, sizeof err);
        s = s ? s : from_gguf(f, path, out, err);
        attn_file_close(f);
    }
    return s == ATTN_OK ? 0 : trouble("%s", err);
}
