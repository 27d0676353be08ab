/* SPDX-License-Identifier: Apache-2.0 */
/* MarianMT: the encoder-decoder of Vaswani et al. 2017, post-norm, with sinusoidal positions, one table for source, target and the
   product with the vocabulary, and a bias of the logits. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "seq2seq.h"

enum { MOST = 1 << 24, MOST_POSITIONS = 1 << 16 };

/* What is read of config.json beside model->info. */
struct facts {
    int64_t positions, hidden[2]; /* of encoder and decoder */
    attn_activation activation;
    double scale;
};

static void read_fixed(struct config *c)
{
    attn_config_only_bool(c, "share_encoder_decoder_embeddings", 1);
    attn_config_only_bool(c, "tie_word_embeddings", 1);
    attn_config_only_bool(c, "normalize_before", 0);
    attn_config_only_bool(c, "normalize_embedding", 0);
    attn_config_only_bool(c, "add_final_layer_norm", 0);
    attn_config_only_bool(c, "static_position_embeddings", 1);
    attn_config_only_bool(c, "is_decoder", 0);
}

static attn_status read_config(struct builder *b, struct facts *f)
{
    static const char *const harmless[] = {"activation_dropout", "attention_dropout", "add_bias_logits", "classif_dropout",
                                           "decoder_layerdrop", "dropout", "encoder_layerdrop", "extra_pos_embeddings", "init_std",
                                           "num_hidden_layers", "num_attention_heads", "hidden_size", NULL};
    struct config *c = b->config;
    attn_model_info *m = &b->model->info;
    m->layers = attn_config_int(c, "encoder_layers", 1, 1000);
    m->decoder_layers = attn_config_int(c, "decoder_layers", 1, 1000);
    m->width = attn_config_int(c, "d_model", 1, MOST);
    m->heads = m->kv_heads = attn_config_int(c, "encoder_attention_heads", 1, m->width > 0 ? m->width : 1);
    const int64_t decoder_heads = attn_config_int(c, "decoder_attention_heads", 1, MOST);
    m->hidden = f->hidden[0] = attn_config_int(c, "encoder_ffn_dim", 1, MOST);
    f->hidden[1] = attn_config_int(c, "decoder_ffn_dim", 1, MOST);
    m->vocab = attn_config_int(c, "vocab_size", 1, INT32_MAX);
    const int64_t decoder_vocab = attn_config_int_or(c, "decoder_vocab_size", 1, INT32_MAX, m->vocab);
    m->max_positions = m->max_tokens = f->positions = attn_config_int(c, "max_position_embeddings", 1, MOST_POSITIONS);
    f->activation = attn_config_activation(c, "activation_function");
    f->scale = attn_config_bool(c, "scale_embedding") ? sqrt((double)m->width) : 1;
    read_fixed(c);
    if (attn_config_rest(c, harmless) != ATTN_OK)
        return c->status;
    if (decoder_heads != m->heads)
        return attn_load_fail(&c->report, ATTN_E_UNSUPPORTED, "encoder_attention_heads is %lld and decoder_attention_heads %lld; only one "
                              "number for both is computed here", (long long)m->heads, (long long)decoder_heads);
    if (decoder_vocab != m->vocab)
        return attn_load_fail(&c->report, ATTN_E_UNSUPPORTED, "vocab_size is %lld and decoder_vocab_size %lld; only one vocabulary for "
                              "both is computed here", (long long)m->vocab, (long long)decoder_vocab);
    if (m->width % m->heads)
        return attn_load_fail(&c->report, ATTN_E_FORMAT, "encoder_attention_heads is %lld, which does not divide d_model, %lld",
                              (long long)m->heads, (long long)m->width);
    m->head_dim = m->width / m->heads;
    return ATTN_OK;
}

/* ---------------------------------------------------------------- layers ---- */

struct linear {
    attn_tensor w, b;
};
static struct linear linear_of(struct builder *b, const char *layer, const char *name, int64_t in, int64_t out)
{
    return (struct linear){attn_weights_linear(b->weights, in, out, "%s.%s.weight", layer, name),
                           attn_weights_vector(b->weights, out, "%s.%s.bias", layer, name)};
}

static struct norm norm_of(struct builder *b, const char *layer, const char *name)
{
    char whole[WEIGHT_NAME];
    snprintf(whole, sizeof whole, "%s.%s", layer, name);
    return attn_build_layer_norm(b, b->model->info.width, 1e-5, whole);
}

/* Views that a description points to. */
struct attention {
    struct linear q, k, v, o;
    attn_mha_desc desc;
};
static void read_attention(struct builder *b, struct attention *a, const char *layer, const char *name)
{
    const int64_t n = b->model->info.width;
    char part[WEIGHT_NAME];
    snprintf(part, sizeof part, "%s.%s", layer, name);
    a->q = linear_of(b, part, "q_proj", n, n);
    a->k = linear_of(b, part, "k_proj", n, n);
    a->v = linear_of(b, part, "v_proj", n, n);
    a->o = linear_of(b, part, "out_proj", n, n);
    a->desc = (attn_mha_desc){.heads = b->model->info.heads, .w_q = &a->q.w, .w_k = &a->k.w, .w_v = &a->v.w, .w_o = &a->o.w,
                              .b_q = &a->q.b, .b_k = &a->k.b, .b_v = &a->v.b, .b_o = &a->o.b};
}

static attn_status build_layer(struct builder *b, const struct facts *f, int is_decoder, int64_t i)
{
    const int64_t n = b->model->info.width, hidden = f->hidden[is_decoder];
    struct attention self, cross;
    char layer[64];
    snprintf(layer, sizeof layer, "model.%s.layers.%lld", is_decoder ? "decoder" : "encoder", (long long)i);
    read_attention(b, &self, layer, "self_attn");
    const struct linear up = linear_of(b, layer, "fc1", n, hidden), down = linear_of(b, layer, "fc2", hidden, n);
    const struct norm self_norm = norm_of(b, layer, "self_attn_layer_norm"), mlp_norm = norm_of(b, layer, "final_layer_norm");
    struct norm cross_norm = {.is_there = 0};
    if (is_decoder) {
        read_attention(b, &cross, layer, "encoder_attn");
        cross_norm = norm_of(b, layer, "encoder_attn_layer_norm");
    }
    const attn_norm_opts self_opts = attn_norm_opts_of(&self_norm), cross_opts = attn_norm_opts_of(&cross_norm),
                         mlp_opts = attn_norm_opts_of(&mlp_norm);
    const attn_mlp_desc mlp = {.activation = f->activation, .w_up = &up.w, .b_up = &up.b, .w_down = &down.w, .b_down = &down.b};
    const attn_layer_desc desc = {.flags = ATTN_LAYER_POST_NORM | (is_decoder ? ATTN_LAYER_CAUSAL : 0),
                                  .self = &self.desc,
                                  .self_norm = &self_opts,
                                  .cross = is_decoder ? &cross.desc : NULL,
                                  .cross_norm = is_decoder ? &cross_opts : NULL,
                                  .mlp = &mlp,
                                  .mlp_norm = &mlp_opts};
    return attn_build_layer(b, is_decoder ? &b->model->decoder : &b->model->encoder, i, &desc);
}

/* ---------------------------------------------------------------- tables ---- */

/* sin of the even angles in the first half of the columns, cos in the second: angle = pos / 10000^(2p/n). */
static attn_status make_positions(struct builder *b, int64_t rows)
{
    struct seq2seq *s = &b->model->seq2seq;
    const int64_t n = b->model->info.width, half = n / 2 + n % 2;
    s->positions = malloc((size_t)(rows * n) * sizeof *s->positions);
    if (!s->positions)
        return attn_load_fail_nomem(&b->report);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t c = 0; c < n; c++) {
            const int64_t p = c < half ? c : c - half;
            const double angle = (double)i / pow(10000, 2 * (double)p / (double)n);
            s->positions[i * n + c] = (float)(c < half ? sin(angle) : cos(angle));
        }
    return ATTN_OK;
}

static attn_status build_tables(struct builder *b, const struct facts *f)
{
    struct attn_pretrained *m = b->model;
    const int64_t n = m->info.width, V = m->info.vocab, shape[] = {f->positions, n};
    const attn_tensor bias = attn_weights_matrix(b->weights, 1, V, "final_logits_bias");
    const attn_tensor b_v = {.data = bias.data, .dtype = bias.dtype, .ndim = 1, .shape = {V}, .stride = {bias.stride[1]}};
    const attn_tensor w = attn_weights_linear(b->weights, n, V, "model.shared.weight");
    const attn_tensor table = attn_weights_matrix(b->weights, V, n, "model.shared.weight");
    if (b->weights->status != ATTN_OK)
        return b->weights->status;
    const attn_linear_desc desc = {.flags = b->is_f64 ? ATTN_LINEAR_F64 : 0, .w = &w, .b = &b_v};
    attn_status status = attn_linear_prepare(b->ctx, &m->seq2seq.product, &desc);
    if (status != ATTN_OK)
        return attn_load_fail_ctx(&b->report, status, b->ctx, "the vocabulary's product");
    status = make_positions(b, f->positions);
    if (status != ATTN_OK)
        return status;
    m->encoder.in = (struct embeddings){.token = table, .position = attn_tensor_of(m->seq2seq.positions, ATTN_F32, 2, shape),
                                        .has_scale = 1, .scale = f->scale};
    m->decoder.in = m->encoder.in;
    return ATTN_OK;
}

static attn_status build(struct builder *b)
{
    static const char *const ignored[] = {"model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight",
                                          "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight", NULL};
    struct facts f;
    attn_status status = read_config(b, &f);
    status = status ? status : attn_seq2seq_rules(b);
    status = status ? status : build_tables(b, &f);
    status = status ? status : attn_build_stack(b, &b->model->encoder, b->model->info.layers);
    status = status ? status : attn_build_stack(b, &b->model->decoder, b->model->info.decoder_layers);
    for (int64_t i = 0; status == ATTN_OK && i < b->model->info.layers; i++)
        status = build_layer(b, &f, 0, i);
    for (int64_t i = 0; status == ATTN_OK && i < b->model->info.decoder_layers; i++)
        status = build_layer(b, &f, 1, i);
    return status ? status : attn_weights_rest(b->weights, ignored);
}

static const char *const types[] = {"marian", NULL};
const struct family attn_family_marian = {types, ATTN_MODEL_ENCODER_DECODER, build};
