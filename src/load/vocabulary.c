/* SPDX-License-Identifier: Apache-2.0 */
/* Where a decoder's text begins and ends: the table of tokens, the product with the vocabulary, the ids that end a text. */
#include <string.h>

#include "decoder.h"

static attn_status prepare_head(struct builder *b, const attn_tensor *w)
{
    const attn_linear_desc desc = {.flags = b->is_f64 ? ATTN_LINEAR_F64 : 0, .w = w};
    if (attn_weights_decode(b->weights) != ATTN_OK)
        return b->weights->status;
    const attn_status status = attn_linear_prepare(b->ctx, &b->model->head, &desc);
    attn_weights_forget(b->weights);
    return status ? attn_load_fail_ctx(&b->report, status, b->ctx, "the vocabulary's product") : ATTN_OK;
}

attn_status attn_build_vocabulary(struct builder *b, const char *table, const char *product)
{
    const attn_model_info *m = &b->model->info;
    struct embeddings *in = &b->model->decoder.in;
    const attn_tensor w = attn_weights_linear(b->weights, m->width, m->vocab, "%s", product ? product : table);
    const attn_status status = prepare_head(b, &w);
    if (status != ATTN_OK)
        return status;
    if (attn_file_format(b->weights->file) == ATTN_FORMAT_GGUF)
        in->gguf_table = attn_weights_rows(b->weights, m->vocab, m->width, "%s", table);
    else
        in->token = attn_weights_matrix(b->weights, m->vocab, m->width, "%s", table);
    return b->weights->status;
}

/* 0: there are too many. An id that the vocabulary does not have never comes. */
static int add_stop(struct attn_pretrained *m, int64_t id)
{
    for (int i = 0; i < m->stop_count; i++)
        if (m->stop[i] == id)
            return 1;
    if (id < 0 || id >= m->info.vocab)
        return 1;
    if (m->stop_count == MODEL_STOPS)
        return 0;
    m->stop[m->stop_count++] = (int32_t)id;
    return 1;
}

/* A number, or a list of them. */
static attn_status stops_of_config(struct attn_pretrained *m, const struct config *c)
{
    const json_t *value = json_object_get(c->root, "eos_token_id");
    const size_t count = json_is_array(value) ? json_array_size(value) : (size_t)attn_config_has(c, "eos_token_id");
    for (size_t i = 0; i < count; i++) {
        const json_t *id = json_is_array(value) ? json_array_get(value, i) : value;
        if (!json_is_integer(id))
            return attn_load_fail(&c->report, ATTN_E_FORMAT, "eos_token_id must be a whole number or a list of them");
        if (!add_stop(m, json_integer_value(id)))
            return attn_load_fail(&c->report, ATTN_E_UNSUPPORTED, "eos_token_id has more than %d ids", MODEL_STOPS);
    }
    return ATTN_OK;
}

static void stops_of_gguf(struct attn_pretrained *m, const attn_file *f)
{
    static const char *const keys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const attn_gguf_value v = attn_gguf_find(f, keys[i]);
        int64_t id;
        if (attn_gguf_integer(&v, 0, &id))
            add_stop(m, id);
    }
}

attn_status attn_build_stops(struct builder *b)
{
    struct attn_pretrained *m = b->model;
    if (attn_file_format(b->weights->file) == ATTN_FORMAT_GGUF) {
        stops_of_gguf(m, b->weights->file);
        return ATTN_OK;
    }
    attn_status status = stops_of_config(m, b->config);
    if (status != ATTN_OK || !attn_load_exists(m->path, "generation_config.json"))
        return status;
    struct config c;
    status = attn_config_open(&c, m->path, "generation_config.json", &b->report);
    status = status ? status : stops_of_config(m, &c);
    attn_config_close(&c);
    return status;
}
