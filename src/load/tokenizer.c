/* SPDX-License-Identifier: Apache-2.0 */
/* attn_pretrained_tokenizer: of a folder as libattn_text opens it, of a .gguf out of its arrays. */
#include <attn/attn_io.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"

/* What is made for attn_tokenizer_create, which copies it. */
struct arrays {
    attn_span *tokens, *merges;
    float *scores;
    int32_t *types;
    char *model, *pre, *template;
};

static void arrays_free(struct arrays *a)
{
    free(a->tokens);
    free(a->merges);
    free(a->scores);
    free(a->types);
    free(a->model);
    free(a->pre);
    free(a->template);
}

/* Where a value is looked for, and the first failure. */
struct reading {
    const attn_file *f;
    struct load_report report;
    attn_status status;
};

/* Room for the elements of v; NULL where there are none, or after a failure. */
static void *room_for(struct reading *r, const attn_gguf_value *v, size_t element)
{
    void *room = v->key && v->count ? calloc(v->count, element) : NULL;
    if (v->key && v->count && !room && r->status == ATTN_OK)
        r->status = attn_load_fail_nomem(&r->report);
    return room;
}

/* The strings of an array, as they lie in the file; *count is how many. */
static attn_span *spans_of(struct reading *r, const char *key, size_t *count)
{
    const attn_gguf_value v = attn_gguf_find(r->f, key);
    size_t cursor = 0, n = 0;
    attn_span *spans = v.type == ATTN_GGUF_STRING ? room_for(r, &v, sizeof *spans) : NULL;
    while (spans && n < v.count && attn_gguf_string(&v, &cursor, &spans[n].text, &spans[n].size))
        n++;
    *count = n;
    return spans;
}

/* A string with a 0 behind it, or NULL. */
static char *text_of(struct reading *r, const char *key)
{
    const attn_gguf_value v = attn_gguf_find(r->f, key);
    size_t cursor = 0, size;
    const char *from;
    if (v.key == NULL || v.is_array || !attn_gguf_string(&v, &cursor, &from, &size))
        return NULL;
    char *text = malloc(size + 1);
    if (text) {
        memcpy(text, from, size);
        text[size] = '\0';
    } else if (r->status == ATTN_OK) {
        r->status = attn_load_fail_nomem(&r->report);
    }
    return text;
}

/* 1 yes, -1 no, 0 not said. */
static int32_t choice_of(const struct reading *r, const char *key)
{
    const attn_gguf_value v = attn_gguf_find(r->f, key);
    int64_t yes;
    return attn_gguf_integer(&v, 0, &yes) ? yes ? 1 : -1 : 0;
}

/* A number for each token; key NULL where the file has none. */
static attn_gguf_value one_each(struct reading *r, const char *key, size_t count)
{
    const attn_gguf_value v = attn_gguf_find(r->f, key);
    double number;
    const int right = v.key == NULL || (v.count == count && (count == 0 || attn_gguf_number(&v, 0, &number)));
    if (!right && r->status == ATTN_OK)
        r->status = attn_load_fail(&r->report, ATTN_E_FORMAT, "%s must have %zu numbers, one for each token", key, count);
    return right ? v : (attn_gguf_value){.key = NULL};
}

static float *scores_of(struct reading *r, size_t count)
{
    const attn_gguf_value v = one_each(r, "tokenizer.ggml.scores", count);
    float *scores = room_for(r, &v, sizeof *scores);
    for (size_t i = 0; scores && i < count; i++) {
        double number = 0;
        attn_gguf_number(&v, i, &number);
        scores[i] = (float)number;
    }
    return scores;
}

static int32_t *types_of(struct reading *r, size_t count)
{
    const attn_gguf_value v = one_each(r, "tokenizer.ggml.token_type", count);
    int32_t *types = room_for(r, &v, sizeof *types);
    for (size_t i = 0; types && i < count; i++) {
        int64_t type;
        types[i] = attn_gguf_integer(&v, i, &type) && type >= 0 && type <= INT32_MAX ? (int32_t)type : 0;
    }
    return types;
}

static void read_special(const struct reading *r, int32_t special[ATTN_SPECIAL_COUNT])
{
    static const char *const kinds[ATTN_SPECIAL_COUNT] = {"bos", "eos", "unknown", "padding", "cls", "seperator", "mask"};
    for (int i = 0; i < ATTN_SPECIAL_COUNT; i++) {
        char key[64];
        int64_t id;
        snprintf(key, sizeof key, "tokenizer.ggml.%s_token_id", kinds[i]);
        const attn_gguf_value v = attn_gguf_find(r->f, key);
        special[i] = attn_gguf_integer(&v, 0, &id) && id >= 0 && id <= INT32_MAX ? (int32_t)id : -1;
    }
}

static attn_status of_gguf(attn_tokenizer **out, const attn_file *f, const char *path, char *err, size_t err_size)
{
    struct reading r = {.f = f, .report = {.text = err, .size = err_size, .file = path}};
    int32_t special[ATTN_SPECIAL_COUNT];
    attn_tokenizer_desc d = {.struct_size = sizeof d, .name = path, .special = special};
    struct arrays a = {.tokens = spans_of(&r, "tokenizer.ggml.tokens", &d.count),
                       .merges = spans_of(&r, "tokenizer.ggml.merges", &d.merge_count),
                       .model = text_of(&r, "tokenizer.ggml.model"),
                       .pre = text_of(&r, "tokenizer.ggml.pre"),
                       .template = text_of(&r, "tokenizer.chat_template")};
    a.scores = scores_of(&r, d.count);
    a.types = types_of(&r, d.count);
    read_special(&r, special);
    d.tokens = a.tokens;
    d.merges = a.merges;
    d.scores = a.scores;
    d.types = a.types;
    d.model = a.model ? a.model : "";
    d.pre = a.pre;
    d.chat_template = a.template;
    d.add_bos = choice_of(&r, "tokenizer.ggml.add_bos_token");
    d.add_eos = choice_of(&r, "tokenizer.ggml.add_eos_token");
    d.space_prefix = choice_of(&r, "tokenizer.ggml.add_space_prefix");
    if (r.status == ATTN_OK)
        r.status = attn_tokenizer_create(out, &d, err, err_size);
    arrays_free(&a);
    return r.status;
}

attn_status attn_pretrained_tokenizer(attn_tokenizer **out, const char *path, char *err, size_t err_size)
{
    const struct load_report r = {.text = err, .size = err_size, .file = path ? path : "attn_pretrained_tokenizer"};
    attn_file *f = NULL;
    if (out)
        *out = NULL;
    if (!out || !path)
        return attn_load_fail(&r, ATTN_E_ARG, "%s is NULL", out ? "path" : "out");
    if (attn_format_of(path) != ATTN_FORMAT_GGUF)
        return attn_tokenizer_open(out, path, err, err_size);
    attn_status status = attn_load_regular(path, &r);
    status = status ? status : attn_file_open(&f, path, err, err_size);
    status = status ? status : of_gguf(out, f, path, err, err_size);
    attn_file_close(f);
    return status;
}
