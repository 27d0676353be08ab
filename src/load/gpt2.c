/* SPDX-License-Identifier: Apache-2.0 */
/* GPT-2 (Radford et al. 2019): pre-norm layers, learned positions, q, k and v in one matrix. Its matrices are (in, out), as
   OpenAI's Conv1D. */
#include <stdio.h>
#include <string.h>

#include "decoder.h"

struct facts {
    const char *prefix; /* "transformer." or "" */
    attn_activation activation;
    double eps;
};

enum { MOST = 1 << 24 };

static attn_status read_config(struct builder *b, struct facts *f)
{
    static const char *const harmless[] = {"attn_pdrop", "embd_pdrop", "resid_pdrop", "summary_activation", "summary_first_dropout",
                                           "summary_proj_to_labels", "summary_type", "summary_use_proj", "n_ctx",
                                           "reorder_and_upcast_attn", NULL};
    struct config *c = b->config;
    attn_model_info *m = &b->model->info;
    m->layers = attn_config_int(c, "n_layer", 1, 1000);
    m->width = attn_config_int(c, "n_embd", 1, MOST);
    m->heads = m->kv_heads = attn_config_int(c, "n_head", 1, MOST);
    m->hidden = attn_config_int_or(c, "n_inner", 1, MOST, 4 * m->width);
    m->vocab = attn_config_int(c, "vocab_size", 1, INT32_MAX);
    m->max_positions = attn_config_int(c, "n_positions", 1, MOST);
    f->eps = attn_config_number(c, "layer_norm_epsilon", 0, 1);
    f->activation = attn_config_activation(c, "activation_function");
    attn_config_only_bool(c, "scale_attn_weights", 1);
    attn_config_only_bool(c, "scale_attn_by_inverse_layer_idx", 0);
    attn_config_only_bool(c, "add_cross_attention", 0);
    attn_config_only_bool(c, "tie_word_embeddings", 1);
    if (attn_config_rest(c, harmless) != ATTN_OK)
        return c->status;
    if (m->width % m->heads)
        return attn_load_fail(&c->report, ATTN_E_FORMAT, "n_head is %lld, which does not divide n_embd, %lld", (long long)m->heads,
                              (long long)m->width);
    m->head_dim = m->width / m->heads;
    return ATTN_OK;
}

static attn_tensor matrix_of(struct builder *b, const struct facts *f, int64_t i, const char *name, int64_t in, int64_t out)
{
    return attn_weights_matrix(b->weights, in, out, "%sh.%lld.%s.weight", f->prefix, (long long)i, name);
}

static attn_tensor bias_of(struct builder *b, const struct facts *f, int64_t i, const char *name, int64_t out)
{
    return attn_weights_vector(b->weights, out, "%sh.%lld.%s.bias", f->prefix, (long long)i, name);
}

static struct norm norm_of(struct builder *b, const struct facts *f, int64_t i, const char *name)
{
    char whole[WEIGHT_NAME];
    snprintf(whole, sizeof whole, "%sh.%lld.%s", f->prefix, (long long)i, name);
    return attn_build_layer_norm(b, b->model->info.width, f->eps, whole);
}

static attn_status build_layer(struct builder *b, const struct facts *f, int64_t i)
{
    const attn_model_info *m = &b->model->info;
    const attn_tensor w_qkv = matrix_of(b, f, i, "attn.c_attn", m->width, 3 * m->width);
    const attn_tensor b_qkv = bias_of(b, f, i, "attn.c_attn", 3 * m->width);
    const attn_tensor w_o = matrix_of(b, f, i, "attn.c_proj", m->width, m->width), b_o = bias_of(b, f, i, "attn.c_proj", m->width);
    const attn_tensor w_up = matrix_of(b, f, i, "mlp.c_fc", m->width, m->hidden), b_up = bias_of(b, f, i, "mlp.c_fc", m->hidden);
    const attn_tensor w_down = matrix_of(b, f, i, "mlp.c_proj", m->hidden, m->width), b_down = bias_of(b, f, i, "mlp.c_proj", m->width);
    const struct norm first = norm_of(b, f, i, "ln_1"), second = norm_of(b, f, i, "ln_2");
    const attn_norm_opts self_norm = attn_norm_opts_of(&first), mlp_norm = attn_norm_opts_of(&second);
    const attn_mha_desc self = {.heads = m->heads, .w_qkv = &w_qkv, .b_qkv = &b_qkv, .w_o = &w_o, .b_o = &b_o};
    const attn_mlp_desc mlp = {.activation = f->activation, .w_up = &w_up, .b_up = &b_up, .w_down = &w_down, .b_down = &b_down};
    const attn_layer_desc layer = {.flags = ATTN_LAYER_CAUSAL, .self = &self, .self_norm = &self_norm, .mlp = &mlp, .mlp_norm = &mlp_norm};
    return attn_build_layer(b, &b->model->decoder, i, &layer);
}

static attn_status build(struct builder *b)
{
    static const char *const ignored[] = {"*.attn.bias", "*.attn.masked_bias", "lm_head.weight", NULL};
    const int has_prefix = attn_weights_has(b->weights, "transformer.wte.weight");
    struct facts f = {.prefix = has_prefix ? "transformer." : ""};
    struct stack *s = &b->model->decoder;
    char name[64];
    attn_status status = read_config(b, &f);
    status = status ? status : attn_build_stack(b, s, b->model->info.layers);
    snprintf(name, sizeof name, "%swte.weight", f.prefix);
    status = status ? status : attn_build_vocabulary(b, name, NULL);
    for (int64_t i = 0; status == ATTN_OK && i < s->layers; i++)
        status = build_layer(b, &f, i);
    if (status != ATTN_OK)
        return status;
    snprintf(name, sizeof name, "%sln_f", f.prefix);
    s->final = attn_build_layer_norm(b, b->model->info.width, f.eps, name);
    s->in.position = attn_weights_matrix(b->weights, b->model->info.max_positions, b->model->info.width, "%swpe.weight", f.prefix);
    status = attn_build_stops(b);
    return status ? status : attn_weights_rest(b->weights, ignored);
}

static const char *const types[] = {"gpt2", NULL};
const struct family attn_family_gpt2 = {types, ATTN_MODEL_DECODER, build};
