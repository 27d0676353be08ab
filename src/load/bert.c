/* SPDX-License-Identifier: Apache-2.0 */
/* The BERT family: encoders with post-norm layers and learned absolute positions. BERT (Devlin et al. 2019; also MiniLM, BGE, E5 and most
   others of sentence-transformers), RoBERTa, XLM-R and CamemBERT, DistilBERT. What stands on top of the hidden states (pooler, heads of
   masked LM and classification) is knowingly left out. */
#include <stdio.h>
#include <string.h>

#include "model.h"

/* How config.json and the tensors call things. */
struct naming {
    const char *layers, *heads, *width, *hidden, *activation; /* fields */
    double eps;                                               /* 0: layer_norm_eps says */
    const char *prefix;                                       /* before every tensor, where a head stands on the model */
    const char *layer;                                        /* + ".%d." */
    const char *q, *k, *v, *o, *self_norm, *up, *down, *mlp_norm;
};

static const struct naming bert = {
    "num_hidden_layers", "num_attention_heads", "hidden_size", "intermediate_size", "hidden_act", 0, "bert", "encoder.layer",
    "attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense", "attention.output.LayerNorm",
    "intermediate.dense", "output.dense", "output.LayerNorm"};
static const struct naming distilbert = {
    "n_layers", "n_heads", "dim", "hidden_dim", "activation", 1e-12, "distilbert", "transformer.layer",
    "attention.q_lin", "attention.k_lin", "attention.v_lin", "attention.out_lin", "sa_layer_norm", "ffn.lin1", "ffn.lin2",
    "output_layer_norm"};

/* What is read of config.json beside model->info. */
struct facts {
    struct naming names;
    char prefix[24]; /* "bert." or "" */
    int64_t types, positions, pad;
    attn_activation activation;
    double eps;
    int counts_from_pad; /* the first position is pad_token_id + 1 */
};

enum { MOST = 1 << 24 };

static attn_status read_config(struct builder *b, struct facts *f)
{
    static const char *const harmless[] = {"attention_dropout", "attention_probs_dropout_prob", "dropout", "hidden_dropout_prob",
                                           "pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers",
                                           "pooler_size_per_head", "pooler_type", "qa_dropout", "seq_classif_dropout",
                                           "sinusoidal_pos_embds", "tie_weights_", NULL};
    struct config *c = b->config;
    attn_model_info *m = &b->model->info;
    const int is_distilbert = !strcmp(m->type, "distilbert");
    f->names = is_distilbert ? distilbert : bert;
    f->counts_from_pad = !is_distilbert && strcmp(m->type, "bert") != 0;
    m->layers = attn_config_int(c, f->names.layers, 1, 1000);
    m->width = attn_config_int(c, f->names.width, 1, MOST);
    m->heads = m->kv_heads = attn_config_int(c, f->names.heads, 1, m->width);
    m->hidden = attn_config_int(c, f->names.hidden, 1, MOST);
    m->vocab = attn_config_int(c, "vocab_size", 1, INT32_MAX);
    f->positions = attn_config_int(c, "max_position_embeddings", 1, MOST);
    f->types = is_distilbert ? 0 : attn_config_int(c, "type_vocab_size", 1, MOST);
    f->pad = attn_config_int_or(c, "pad_token_id", 0, m->vocab - 1, f->counts_from_pad ? 1 : 0);
    f->eps = f->names.eps > 0 ? f->names.eps : attn_config_number(c, "layer_norm_eps", 0, 1);
    f->activation = attn_config_activation(c, f->names.activation);
    attn_config_only_text(c, "position_embedding_type", "absolute");
    attn_config_only_bool(c, "is_decoder", 0);
    attn_config_only_bool(c, "add_cross_attention", 0);
    if (attn_config_rest(c, harmless) != ATTN_OK)
        return c->status;
    if (m->width % m->heads)
        return attn_load_fail(&c->report, ATTN_E_FORMAT, "%s is %lld, which does not divide %s, %lld", f->names.heads, (long long)m->heads,
                              f->names.width, (long long)m->width);
    m->head_dim = m->width / m->heads;
    m->max_positions = f->positions - (f->counts_from_pad ? f->pad + 1 : 0);
    return m->max_positions > 0 ? ATTN_OK
                                : attn_load_fail(&c->report, ATTN_E_FORMAT,
                                                 "max_position_embeddings is %lld but positions begin behind pad_token_id, %lld",
                                                 (long long)f->positions, (long long)f->pad);
}

static void build_embeddings(struct builder *b, const struct facts *f)
{
    const attn_model_info *m = &b->model->info;
    struct weights *w = b->weights;
    struct embeddings *in = &b->model->encoder.in;
    char name[64];
    in->token = attn_weights_matrix(w, m->vocab, m->width, "%sembeddings.word_embeddings.weight", f->prefix);
    in->position = attn_weights_matrix(w, f->positions, m->width, "%sembeddings.position_embeddings.weight", f->prefix);
    if (f->types)
        in->type = attn_weights_matrix(w, f->types, m->width, "%sembeddings.token_type_embeddings.weight", f->prefix);
    in->first_position = f->counts_from_pad ? f->pad + 1 : 0;
    snprintf(name, sizeof name, "%sembeddings.LayerNorm", f->prefix);
    in->norm = attn_build_layer_norm(b, m->width, f->eps, name);
}

/* The weight and the bias of a Linear of layer i. */
struct linear {
    attn_tensor w, b;
};
static struct linear linear_of(struct builder *b, const struct facts *f, int64_t i, const char *name, int64_t in, int64_t out)
{
    struct linear l;
    l.w = attn_weights_linear(b->weights, in, out, "%s%s.%lld.%s.weight", f->prefix, f->names.layer, (long long)i, name);
    l.b = attn_weights_vector(b->weights, out, "%s%s.%lld.%s.bias", f->prefix, f->names.layer, (long long)i, name);
    return l;
}

static struct norm norm_of(struct builder *b, const struct facts *f, int64_t i, const char *name)
{
    char whole[WEIGHT_NAME];
    snprintf(whole, sizeof whole, "%s%s.%lld.%s", f->prefix, f->names.layer, (long long)i, name);
    return attn_build_layer_norm(b, b->model->info.width, f->eps, whole);
}

static attn_status build_layer(struct builder *b, const struct facts *f, int64_t i)
{
    const attn_model_info *m = &b->model->info;
    const struct naming *names = &f->names;
    const struct linear q = linear_of(b, f, i, names->q, m->width, m->width), k = linear_of(b, f, i, names->k, m->width, m->width);
    const struct linear v = linear_of(b, f, i, names->v, m->width, m->width), o = linear_of(b, f, i, names->o, m->width, m->width);
    const struct linear up = linear_of(b, f, i, names->up, m->width, m->hidden);
    const struct linear down = linear_of(b, f, i, names->down, m->hidden, m->width);
    const struct norm self_norm = norm_of(b, f, i, names->self_norm), mlp_norm = norm_of(b, f, i, names->mlp_norm);
    const attn_norm_opts self_opts = attn_norm_opts_of(&self_norm), mlp_opts = attn_norm_opts_of(&mlp_norm);
    const attn_mha_desc self = {.heads = m->heads, .w_q = &q.w, .w_k = &k.w, .w_v = &v.w, .w_o = &o.w, .b_q = &q.b, .b_k = &k.b,
                                .b_v = &v.b, .b_o = &o.b};
    const attn_mlp_desc mlp = {.activation = f->activation, .w_up = &up.w, .b_up = &up.b, .w_down = &down.w, .b_down = &down.b};
    const attn_layer_desc layer = {.flags = ATTN_LAYER_POST_NORM, .self = &self, .self_norm = &self_opts, .mlp = &mlp,
                                   .mlp_norm = &mlp_opts};
    return attn_build_layer(b, &b->model->encoder, i, &layer);
}

static attn_status build(struct builder *b)
{
    static const char *const ignored[] = {"pooler.*", "*.pooler.dense.weight", "*.pooler.dense.bias", "*embeddings.position_ids",
                                          "*embeddings.token_type_ids", "cls.*", "classifier.*", "pre_classifier.*", "qa_outputs.*",
                                          "lm_head.*", "vocab_transform.*", "vocab_layer_norm.*", "vocab_projector.*", NULL};
    struct facts f;
    attn_status status = read_config(b, &f);
    if (status != ATTN_OK)
        return status;
    const char *prefix = f.counts_from_pad ? "roberta" : f.names.prefix;
    const int has_prefix = attn_weights_has(b->weights, "%s.embeddings.word_embeddings.weight", prefix);
    snprintf(f.prefix, sizeof f.prefix, "%s%s", has_prefix ? prefix : "", has_prefix ? "." : "");
    build_embeddings(b, &f);
    status = b->weights->status;
    status = status ? status : attn_build_stack(b, &b->model->encoder, b->model->info.layers);
    for (int64_t i = 0; status == ATTN_OK && i < b->model->info.layers; i++)
        status = build_layer(b, &f, i);
    return status ? status : attn_weights_rest(b->weights, ignored);
}

static const char *const types[] = {"bert", "roberta", "xlm-roberta", "camembert", "distilbert", NULL};
const struct family attn_family_bert = {types, ATTN_MODEL_ENCODER, build};
