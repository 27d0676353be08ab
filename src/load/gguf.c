/* SPDX-License-Identifier: Apache-2.0 */
#include "gguf.h"

#include <stdio.h>
#include <string.h>

/* ARCHITECTURE.key -> field. */
static const struct {
    const char *key, *field; /* field NULL: looked at elsewhere */
} names[] = {{"block_count", "num_hidden_layers"},
             {"context_length", "max_position_embeddings"},
             {"embedding_length", "hidden_size"},
             {"feed_forward_length", "intermediate_size"},
             {"attention.head_count", "num_attention_heads"},
             {"attention.head_count_kv", "num_key_value_heads"},
             {"attention.key_length", "head_dim"},
             {"attention.value_length", NULL},
             {"attention.layer_norm_rms_epsilon", "rms_norm_eps"},
             {"rope.freq_base", "rope_theta"},
             {"rope.dimension_count", NULL},
             {"rope.scaling.type", NULL},
             {"rope.scaling.factor", NULL},
             {"rope.scaling.original_context_length", NULL},
             {"rope.scaling.attn_factor", NULL},
             {"rope.scaling.finetuned", NULL},
             {"vocab_size", NULL}};
enum { NAMES = sizeof names / sizeof names[0], KEY = 128 };

static attn_gguf_value value_of(const attn_file *f, const char *architecture, const char *key)
{
    char whole[KEY];
    snprintf(whole, sizeof whole, "%.60s.%s", architecture, key);
    return attn_gguf_find(f, whole);
}

/* A string of at most size - 1 bytes, or "" when it is none. */
static void text_of(char *text, size_t size, const attn_gguf_value *v)
{
    size_t cursor = 0, n = 0;
    const char *from = "";
    if (v->is_array || !attn_gguf_string(v, &cursor, &from, &n) || n >= size)
        n = 0;
    memcpy(text, from, n);
    text[n] = '\0';
}

static json_t *number_of(const attn_gguf_value *v)
{
    int64_t whole;
    double number;
    if (v->is_array || v->type == ATTN_GGUF_BOOL)
        return NULL;
    return attn_gguf_integer(v, 0, &whole) ? json_integer(whole) : attn_gguf_number(v, 0, &number) ? json_real(number) : NULL;
}

static void refuse(struct config *c, attn_status status, const char *key, const char *why)
{
    if (c->status == ATTN_OK)
        c->status = attn_load_fail(&c->report, status, "%s %s", key, why);
}

/* Every key of the architecture is known, and those that become fields are numbers. */
static void take_keys(struct config *c, const attn_file *f, const char *architecture)
{
    const size_t n = strlen(architecture);
    for (size_t i = 0; i < attn_gguf_count(f); i++) {
        const attn_gguf_value v = attn_gguf_at(f, i);
        int known = -1;
        if (strncmp(v.key, architecture, n) != 0 || v.key[n] != '.')
            continue;
        for (int j = 0; j < NAMES; j++)
            known = strcmp(v.key + n + 1, names[j].key) == 0 ? j : known;
        if (known < 0)
            refuse(c, ATTN_E_UNSUPPORTED, v.key, "is a value that is not known here, and may change what the model computes");
        if (known < 0 || names[known].field == NULL)
            continue;
        json_t *number = number_of(&v);
        if (number == NULL)
            refuse(c, ATTN_E_FORMAT, v.key, "is no number");
        else
            json_object_set_new(c->root, names[known].field, number);
    }
}

static void take_scaling(struct config *c, const attn_file *f, const char *architecture)
{
    char type[16];
    const attn_gguf_value kind = value_of(f, architecture, "rope.scaling.type");
    if (kind.key == NULL)
        return;
    text_of(type, sizeof type, &kind);
    if (strcmp(type, "none") == 0)
        return;
    json_t *scaling = json_object();
    const attn_gguf_value factor = value_of(f, architecture, "rope.scaling.factor");
    const attn_gguf_value original = value_of(f, architecture, "rope.scaling.original_context_length");
    const attn_gguf_value attention = value_of(f, architecture, "rope.scaling.attn_factor");
    json_object_set_new(scaling, "rope_type", json_string(type));
    json_object_set_new(scaling, "factor", factor.key ? number_of(&factor) : json_real(1));
    if (original.key)
        json_object_set_new(scaling, "original_max_position_embeddings", number_of(&original));
    if (attention.key)
        json_object_set_new(scaling, "attention_factor", number_of(&attention));
    json_object_set_new(c->root, "rope_scaling", scaling);
}

/* Heads are all of one size, of which all columns turn. */
static void check_heads(struct config *c, const attn_file *f, const char *architecture)
{
    const json_t *heads = json_object_get(c->root, "num_attention_heads"), *given = json_object_get(c->root, "head_dim");
    const json_int_t count = json_integer_value(heads), width = json_integer_value(json_object_get(c->root, "hidden_size"));
    const json_int_t dim = given ? json_integer_value(given) : count > 0 ? width / count : 0;
    static const char *const same[] = {"attention.value_length", "rope.dimension_count"};
    for (int i = 0; i < 2; i++) {
        const attn_gguf_value v = value_of(f, architecture, same[i]);
        int64_t n;
        if (v.key && (!attn_gguf_integer(&v, 0, &n) || n != dim))
            refuse(c, ATTN_E_UNSUPPORTED, v.key, "is not the size of a head; only equal ones are computed here");
    }
}

attn_status attn_gguf_config(struct config *c, const attn_file *f, const struct load_report *r)
{
    char architecture[32];
    const attn_gguf_value name = attn_gguf_find(f, "general.architecture"), tokens = attn_gguf_find(f, "tokenizer.ggml.tokens");
    const attn_gguf_value split = attn_gguf_find(f, "split.count");
    int64_t vocab, parts = 0;
    *c = (struct config){.root = json_object(), .status = ATTN_OK};
    snprintf(c->file, sizeof c->file, "%s", r->file);
    c->report = (struct load_report){.text = r->text, .size = r->size, .file = c->file};
    text_of(architecture, sizeof architecture, &name);
    if (architecture[0] == '\0')
        refuse(c, ATTN_E_FORMAT, "general.architecture", "is missing or no short string");
    if (attn_gguf_integer(&split, 0, &parts) && parts > 1)
        refuse(c, ATTN_E_UNSUPPORTED, "split.count", "says that the model is in several files; join them (llama-gguf-split --merge)");
    json_object_set_new(c->root, "model_type", json_string(architecture));
    json_object_set_new(c->root, "hidden_act", json_string("silu"));
    take_keys(c, f, architecture);
    take_scaling(c, f, architecture);
    check_heads(c, f, architecture);
    const attn_gguf_value said = value_of(f, architecture, "vocab_size");
    if (!attn_gguf_integer(&said, 0, &vocab))
        vocab = tokens.is_array ? (int64_t)tokens.count : 0;
    json_object_set_new(c->root, "vocab_size", json_integer(vocab));
    json_object_set_new(c->root, "tie_word_embeddings", json_boolean(attn_file_find(f, "output.weight") < 0));
    json_object_set_new(c->root, "attention_bias", json_boolean(attn_file_find(f, "blk.0.attn_q.bias") >= 0));
    return c->status;
}
