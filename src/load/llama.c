/* SPDX-License-Identifier: Apache-2.0 */
/* The Llama family: decoders of pre-norm layers with RMSNorm, RoPE, grouped heads and SwiGLU. Llama 1 to 3.2 and SmolLM2 (model_type llama;
   Touvron et al. 2023), Qwen2 and Qwen2.5 (qwen2), Qwen3 (qwen3: q and k of each head have a norm), Mistral (mistral). From a folder, or a
   .gguf whose architecture is llama, qwen2 or qwen3. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "decoder.h"

/* How the tensors are called. */
struct naming {
    const char *table, *product, *final_norm, *layer; /* layer: before ".N." */
    const char *self_norm, *q, *k, *v, *o, *mlp_norm, *gate, *up, *down, *q_norm, *k_norm;
};
static const struct naming folder = {"model.embed_tokens.weight", "lm_head.weight", "model.norm.weight", "model.layers",
                                     "input_layernorm", "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
                                     "post_attention_layernorm", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj", "self_attn.q_norm",
                                     "self_attn.k_norm"};
static const struct naming gguf = {"token_embd.weight", "output.weight", "output_norm.weight", "blk", "attn_norm", "attn_q", "attn_k",
                                   "attn_v", "attn_output", "ffn_norm", "ffn_gate", "ffn_up", "ffn_down", "attn_q_norm", "attn_k_norm"};

/* What is read of config.json beside model->info. */
struct facts {
    const struct naming *names;
    attn_rope_desc rope;
    attn_tensor divisors; /* of the frequencies */
    attn_activation activation;
    double eps;
    int q_bias, o_bias, mlp_bias, tied, head_norms;
    int64_t window, full_layers; /* window > 0: layers from full_layers on see that many keys */
};

enum { MOST = 1 << 24 };

/* layer_types, one word for each layer, else those from full_layers on slide. */
static attn_status read_layer_types(struct builder *b, const struct facts *f)
{
    struct config *c = b->config;
    struct stack *s = &b->model->decoder;
    json_t *types = json_object_get(c->root, "layer_types");
    const int given = json_is_array(types);
    if (given && json_array_size(types) != (size_t)s->layers)
        return attn_load_fail(&c->report, ATTN_E_FORMAT, "layer_types has %zu words for %lld layers", json_array_size(types),
                              (long long)s->layers);
    for (int64_t i = 0; i < s->layers; i++) {
        const char *word = given ? json_string_value(json_array_get(types, (size_t)i)) : NULL;
        const int slides = word ? !strcmp(word, "sliding_attention") : f->window > 0 && i >= f->full_layers;
        if (given && !slides && (!word || strcmp(word, "full_attention") != 0))
            return attn_load_fail(&c->report, ATTN_E_UNSUPPORTED,
                                  "layer_types has \"%.40s\"; full_attention and sliding_attention are computed here", word ? word : "?");
        if (slides && f->window <= 0)
            return attn_load_fail(&c->report, ATTN_E_FORMAT, "layer_types has sliding_attention, but there is no sliding_window");
        s->window[i] = slides ? f->window : 0;
    }
    return ATTN_OK;
}

static int is_type(const struct builder *b, const char *type) { return !strcmp(b->model->info.type, type); }

static void read_window(struct builder *b, struct facts *f)
{
    struct config *c = b->config;
    const attn_model_info *m = &b->model->info;
    const int is_qwen = is_type(b, "qwen2") || is_type(b, "qwen3");
    const int slides = is_qwen ? attn_config_bool_or(c, "use_sliding_window", 0) : 1;
    const int64_t window = attn_config_int_or(c, "sliding_window", 1, INT32_MAX, 0);
    f->full_layers = is_qwen ? attn_config_int_or(c, "max_window_layers", 0, INT32_MAX, 28) : 0;
    f->window = slides ? window : 0;
    if (!strcmp(m->type, "llama") && window)
        attn_load_fail(&c->report, c->status = ATTN_E_UNSUPPORTED, "sliding_window is %lld; a llama model has none", (long long)window);
}

static attn_status read_config(struct builder *b, struct facts *f)
{
    static const char *const harmless[] = {"attention_dropout", "hidden_dropout", "layer_types", "rope_scaling", "rope_parameters",
                                           "use_mrope", NULL};
    struct config *c = b->config;
    attn_model_info *m = &b->model->info;
    const int is_qwen2 = is_type(b, "qwen2");
    m->layers = attn_config_int(c, "num_hidden_layers", 1, 1000);
    m->width = attn_config_int(c, "hidden_size", 1, MOST);
    m->heads = attn_config_int(c, "num_attention_heads", 1, MOST);
    m->kv_heads = attn_config_int_or(c, "num_key_value_heads", 1, MOST, m->heads);
    m->hidden = attn_config_int(c, "intermediate_size", 1, MOST);
    m->vocab = attn_config_int(c, "vocab_size", 1, INT32_MAX);
    m->max_positions = attn_config_int(c, "max_position_embeddings", 1, 1 << 30);
    f->head_norms = is_type(b, "qwen3");
    m->head_dim = f->head_norms ? attn_config_int(c, "head_dim", 1, MOST) : attn_config_int_or(c, "head_dim", 1, MOST, 0);
    f->eps = attn_config_number(c, "rms_norm_eps", 0, 1);
    f->activation = attn_config_activation(c, "hidden_act");
    f->o_bias = attn_config_bool_or(c, "attention_bias", 0) && !is_qwen2;
    f->q_bias = f->o_bias || is_qwen2;
    f->mlp_bias = attn_config_bool_or(c, "mlp_bias", 0);
    f->tied = attn_config_bool_or(c, "tie_word_embeddings", 0);
    if (attn_config_int_or(c, "pretraining_tp", 0, MOST, 1) < 1)
        attn_config_int(c, "pretraining_tp", 1, MOST);
    attn_config_bool_or(c, "rope_interleaved", 0);
    attn_config_only_bool(c, "rope_interleaved", 0);
    attn_config_only_bool(c, "use_mrope", 0);
    attn_config_bool_or(c, "is_llama_config", 1);
    read_window(b, f);
    attn_config_rope(c, &f->rope, &m->max_positions, 10000);
    if (attn_config_rest(c, harmless) != ATTN_OK)
        return c->status;
    if (!m->head_dim && m->width % m->heads)
        return attn_load_fail(&c->report, ATTN_E_FORMAT, "num_attention_heads is %lld, which does not divide hidden_size, %lld",
                              (long long)m->heads, (long long)m->width);
    m->head_dim = m->head_dim ? m->head_dim : m->width / m->heads;
    if (m->heads % m->kv_heads || m->head_dim % 2)
        return attn_load_fail(&c->report, ATTN_E_FORMAT,
                              "num_attention_heads is %lld, num_key_value_heads %lld and a head has %lld columns; KV heads must divide the "
                              "heads, and columns turn in pairs",
                              (long long)m->heads, (long long)m->kv_heads, (long long)m->head_dim);
    return ATTN_OK;
}

/* The weight and the bias, if any, of a Linear of layer i. */
struct linear {
    attn_tensor w, b;
};
static struct linear linear_of(struct builder *b, const struct facts *f, int64_t i, const char *name, int64_t in, int64_t out, int bias)
{
    struct linear l = {.b = {.ndim = 0}};
    l.w = attn_weights_linear(b->weights, in, out, "%s.%lld.%s.weight", f->names->layer, (long long)i, name);
    if (bias)
        l.b = attn_weights_vector(b->weights, out, "%s.%lld.%s.bias", f->names->layer, (long long)i, name);
    return l;
}

static const attn_tensor *bias_of(const struct linear *l) { return l->b.ndim ? &l->b : NULL; }

static attn_norm_opts norm_of(struct builder *b, const struct facts *f, int64_t i, const char *name, int64_t n, attn_tensor *weight)
{
    *weight = attn_weights_vector(b->weights, n, "%s.%lld.%s.weight", f->names->layer, (long long)i, name);
    return (attn_norm_opts){.flags = ATTN_NORM_RMS | ATTN_NORM_EPS, .eps = f->eps, .weight = weight};
}

static attn_status build_layer(struct builder *b, const struct facts *f, int64_t i)
{
    const attn_model_info *m = &b->model->info;
    const struct naming *n = f->names;
    const int64_t wide = m->heads * m->head_dim, narrow = m->kv_heads * m->head_dim;
    const struct linear q = linear_of(b, f, i, n->q, m->width, wide, f->q_bias), k = linear_of(b, f, i, n->k, m->width, narrow, f->q_bias);
    const struct linear v = linear_of(b, f, i, n->v, m->width, narrow, f->q_bias), o = linear_of(b, f, i, n->o, wide, m->width, f->o_bias);
    const struct linear gate = linear_of(b, f, i, n->gate, m->width, m->hidden, f->mlp_bias);
    const struct linear up = linear_of(b, f, i, n->up, m->width, m->hidden, f->mlp_bias);
    const struct linear down = linear_of(b, f, i, n->down, m->hidden, m->width, f->mlp_bias);
    attn_tensor self_weight, mlp_weight, q_weight, k_weight;
    const attn_norm_opts self_norm = norm_of(b, f, i, n->self_norm, m->width, &self_weight);
    const attn_norm_opts mlp_norm = norm_of(b, f, i, n->mlp_norm, m->width, &mlp_weight), none = {.weight = NULL};
    const attn_norm_opts q_norm = f->head_norms ? norm_of(b, f, i, n->q_norm, m->head_dim, &q_weight) : none;
    const attn_norm_opts k_norm = f->head_norms ? norm_of(b, f, i, n->k_norm, m->head_dim, &k_weight) : none;
    const attn_mha_desc self = {.heads = m->heads, .kv_heads = m->kv_heads, .w_q = &q.w, .w_k = &k.w, .w_v = &v.w, .w_o = &o.w,
                                .b_q = bias_of(&q), .b_k = bias_of(&k), .b_v = bias_of(&v), .b_o = bias_of(&o)};
    const attn_mlp_desc mlp = {.activation = f->activation, .w_up = &up.w, .b_up = bias_of(&up), .w_gate = &gate.w,
                               .b_gate = bias_of(&gate), .w_down = &down.w, .b_down = bias_of(&down)};
    const attn_layer_desc layer = {.flags = ATTN_LAYER_CAUSAL, .self = &self, .self_norm = &self_norm, .mlp = &mlp,
                                   .mlp_norm = &mlp_norm, .rope = b->model->decoder.rope,
                                   .q_norm = f->head_norms ? &q_norm : NULL, .k_norm = f->head_norms ? &k_norm : NULL};
    return attn_build_layer(b, &b->model->decoder, i, &layer);
}

static attn_status build_rope(struct builder *b, struct facts *f)
{
    /* llama.cpp reorders the rows of a llama's q and k, so that the pairs of RoPE lie side by side. */
    const int reordered = f->names == &gguf && !strcmp(b->model->info.type, "llama");
    f->rope.head_dim = b->model->info.head_dim;
    f->rope.flags = reordered ? ATTN_ROPE_INTERLEAVED : 0;
    if (f->names == &gguf && attn_weights_has(b->weights, "rope_freqs.weight")) { /* Llama 3.1's scaling, as llama.cpp writes it */
        f->divisors = attn_weights_vector(b->weights, b->model->info.head_dim / 2, "rope_freqs.weight");
        f->rope.divisors = &f->divisors;
        if (b->weights->status != ATTN_OK)
            return b->weights->status;
    }
    const attn_status status = attn_rope_create(b->ctx, &b->model->decoder.rope, &f->rope);
    return status ? attn_load_fail_ctx(&b->config->report, status, b->ctx, "the rotary embedding") : ATTN_OK;
}

static attn_status build(struct builder *b)
{
    static const char *const ignored[] = {"*.rotary_emb.inv_freq", NULL}, *const tied[] = {"*.rotary_emb.inv_freq", "lm_head.weight", NULL};
    struct facts f = {.names = attn_file_format(b->weights->file) == ATTN_FORMAT_GGUF ? &gguf : &folder};
    struct stack *s = &b->model->decoder;
    attn_status status = read_config(b, &f);
    status = status ? status : attn_build_stack(b, s, b->model->info.layers);
    status = status ? status : read_layer_types(b, &f);
    status = status ? status : build_rope(b, &f);
    /* First what is largest: its pages of the file are given back before the layers come. */
    status = status ? status : attn_build_vocabulary(b, f.names->table, f.tied ? NULL : f.names->product);
    for (int64_t i = 0; status == ATTN_OK && i < s->layers; i++)
        status = build_layer(b, &f, i);
    if (status != ATTN_OK)
        return status;
    s->final = (struct norm){.is_there = 1, .flags = ATTN_NORM_RMS, .eps = f.eps};
    s->final.weight = attn_weights_vector(b->weights, b->model->info.width, "%s", f.names->final_norm);
    status = attn_build_stops(b);
    return status ? status : attn_weights_rest(b->weights, f.tied ? tied : ignored);
}

static const char *const types[] = {"llama", "qwen2", "qwen3", "mistral", NULL};
const struct family attn_family_llama = {types, ATTN_MODEL_DECODER, build};
