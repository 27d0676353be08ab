/* SPDX-License-Identifier: Apache-2.0 */
/* The modules that sentence-transformers declares beside an encoder: modules.json and the config.json of each, sentence_bert_config.json,
   config_sentence_transformers.json. Without modules.json it ignores the others and takes the mean of the rows; so does this. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

enum { MOST_COLUMNS = 1 << 24 };

/* ---- the Transformer ---- */

/* A tokenizer that lowers no letters would get another text than the model was trained with. */
static attn_status check_lower_case(struct builder *b, struct config *c)
{
    static const char *const texts[] = {"Attention is ALL you need", "attention is all you need"};
    const struct load_report *r = &c->report;
    attn_tokenizer *t = NULL;
    attn_encoding *e[2] = {NULL, NULL};
    attn_status status = attn_tokenizer_open(&t, b->model->path, r->text, r->size);
    for (int i = 0; i < 2 && status == ATTN_OK; i++)
        status = attn_tokenizer_encode(t, texts[i], strlen(texts[i]), NULL, 0, 0, 0, &e[i], r->text, r->size);
    if (status == ATTN_OK && (e[0]->count != e[1]->count || memcmp(e[0]->ids, e[1]->ids, e[0]->count * sizeof *e[0]->ids) != 0))
        status = attn_load_fail(r, ATTN_E_UNSUPPORTED, "do_lower_case is true, but the tokenizer keeps capital letters; only a tokenizer "
                                "that lowers them itself is read");
    attn_encoding_destroy(e[0]);
    attn_encoding_destroy(e[1]);
    attn_tokenizer_destroy(t);
    return status;
}

/* {"text": {"method": "forward", "method_output_name": "last_hidden_state"}} */
static attn_status check_modality(struct config *c)
{
    struct config modality, text;
    if (!attn_config_has(c, "modality_config"))
        return c->status;
    attn_status status = attn_config_enter(&modality, c, "modality_config");
    if (status == ATTN_OK) {
        status = attn_config_enter(&text, &modality, "text");
        attn_config_only_text(&text, "method", "forward");
        attn_config_only_text(&text, "method_output_name", "last_hidden_state");
        status = status ? status : attn_config_rest(&text, NULL);
        attn_config_close(&text);
        status = status ? status : attn_config_rest(&modality, NULL);
    }
    attn_config_close(&modality);
    return status;
}

static attn_status read_transformer(struct builder *b)
{
    static const char *const names[] = {"sentence_bert_config.json", "sentence_roberta_config.json", "sentence_distilbert_config.json",
                                        "sentence_camembert_config.json", "sentence_xlm-roberta_config.json", NULL};
    static const char *const empty[] = {"model_args", "tokenizer_args", "config_args", "model_kwargs", "processor_kwargs",
                                        "config_kwargs", "processing_kwargs", NULL};
    static const char *const harmless[] = {"modality_config", "unpad_inputs", NULL};
    attn_model_info *m = &b->model->info;
    const char *const *name = names;
    struct config c;
    while (*name && !attn_load_exists(b->model->path, *name))
        name++;
    if (!*name)
        return ATTN_OK;
    attn_status status = attn_config_open(&c, b->model->path, *name, &b->report);
    if (status == ATTN_OK) {
        const int64_t most = attn_config_int_or(&c, "max_seq_length", 1, MOST_COLUMNS, m->max_tokens);
        const int lower = attn_config_bool_or(&c, "do_lower_case", 0);
        attn_config_only_text(&c, "transformer_task", "feature-extraction");
        attn_config_only_text(&c, "module_output_name", "token_embeddings");
        for (const char *const *field = empty; *field; field++)
            attn_config_only_empty(&c, *field);
        status = attn_config_rest(&c, harmless);
        status = status ? status : check_modality(&c);
        status = status || !lower ? status : check_lower_case(b, &c);
        m->max_tokens = m->max_tokens && m->max_tokens < most ? m->max_tokens : most;
    }
    attn_config_close(&c);
    return status;
}

/* ---- Pooling ---- */

static attn_status add_mode(struct vectors *v, struct config *c, const char *name)
{
    for (int p = ATTN_POOL_CLS; p <= ATTN_POOL_LAST; p++)
        if (!strcmp(name, attn_pooling_name((attn_pooling)p)) && v->modes < POOL_MODES) {
            v->mode[v->modes++] = (attn_pooling)p;
            return ATTN_OK;
        }
    return attn_load_fail(&c->report, ATTN_E_UNSUPPORTED, "pooling_mode has \"%.60s\"; cls, mean, max, mean_sqrt_len_tokens, weightedmean "
                          "and lasttoken, at most %d, are computed here", name, POOL_MODES);
}

/* One name, or a list of them. */
static attn_status read_modes(struct vectors *v, struct config *c)
{
    const json_t *modes = json_object_get(c->root, "pooling_mode");
    attn_status status = ATTN_OK;
    if (!json_is_array(modes))
        return add_mode(v, c, attn_config_text(c, "pooling_mode"));
    for (size_t i = 0; status == ATTN_OK && i < json_array_size(modes); i++) {
        const char *name = json_string_value(json_array_get(modes, i));
        status = add_mode(v, c, name ? name : "something that is no string");
    }
    return status || v->modes ? status : attn_load_fail(&c->report, ATTN_E_FORMAT, "pooling_mode is an empty list");
}

/* A field for each mode, as older releases wrote it; the order of the joined vectors is this one. */
static void read_flags(struct vectors *v, struct config *c)
{
    static const struct {
        const char *field;
        attn_pooling mode;
    } flags[POOL_MODES] = {{"pooling_mode_cls_token", ATTN_POOL_CLS},
                           {"pooling_mode_max_tokens", ATTN_POOL_MAX},
                           {"pooling_mode_mean_tokens", ATTN_POOL_MEAN},
                           {"pooling_mode_mean_sqrt_len_tokens", ATTN_POOL_MEAN_SQRT_LEN},
                           {"pooling_mode_weightedmean_tokens", ATTN_POOL_WEIGHTED_MEAN},
                           {"pooling_mode_lasttoken", ATTN_POOL_LAST}};
    const int is_new = attn_config_has(c, "pooling_mode");
    for (int i = 0; i < POOL_MODES; i++)
        if (attn_config_bool_or(c, flags[i].field, 0) && !is_new)
            v->mode[v->modes++] = flags[i].mode;
    if (!is_new && v->modes == 0)
        v->mode[v->modes++] = ATTN_POOL_MEAN;
}

static attn_status read_pooling(struct builder *b, struct config *c)
{
    static const char *const harmless[] = {"pooling_mode", NULL};
    struct vectors *v = &b->model->vectors;
    const int64_t n = b->model->info.width;
    const char *width = attn_config_has(c, "embedding_dimension") ? "embedding_dimension" : "word_embedding_dimension";
    attn_config_int(c, width, n, n);
    read_flags(v, c);
    b->model->info.skips_prompt = !attn_config_bool_or(c, "include_prompt", 1);
    attn_status status = attn_config_rest(c, harmless);
    if (status == ATTN_OK && attn_config_has(c, "pooling_mode"))
        status = read_modes(v, c);
    b->model->info.embedding = n * v->modes;
    return status;
}

/* ---- behind the pooling ---- */

static attn_status add_module(struct builder *b, struct config *c, struct module m)
{
    struct vectors *v = &b->model->vectors;
    if (v->modules == POOL_MODULES)
        return attn_load_fail(&c->report, ATTN_E_UNSUPPORTED, "more than %d modules stand behind the pooling", POOL_MODULES);
    v->module[v->modules++] = m;
    return ATTN_OK;
}

static void only_sentences(struct config *c)
{
    attn_config_only_text(c, "module_input_name", "sentence_embedding");
    attn_config_only_text(c, "module_output_name", "sentence_embedding");
}

/* The file of a Normalize is younger than most folders, and may be missing. */
static attn_status read_normalize(struct builder *b, struct config *c)
{
    only_sentences(c);
    const attn_status status = attn_config_rest(c, NULL);
    return status ? status : add_module(b, c, (struct module){.dense = NULL});
}

static enum dense_activation activation_of(struct config *c, attn_status *status)
{
    static const char *const names[] = {[DENSE_IDENTITY] = "torch.nn.modules.linear.Identity",
                                        [DENSE_TANH] = "torch.nn.modules.activation.Tanh",
                                        [DENSE_SIGMOID] = "torch.nn.modules.activation.Sigmoid",
                                        [DENSE_RELU] = "torch.nn.modules.activation.ReLU",
                                        [DENSE_GELU] = "torch.nn.modules.activation.GELU",
                                        [DENSE_SILU] = "torch.nn.modules.activation.SiLU"};
    const char *name = attn_config_text_or(c, "activation_function", names[DENSE_TANH]);
    for (int i = 0; i <= DENSE_SILU; i++)
        if (!strcmp(name, names[i]))
            return (enum dense_activation)i;
    if (c->status == ATTN_OK)
        *status = attn_load_fail(&c->report, ATTN_E_UNSUPPORTED, "activation_function is \"%.60s\"; torch's Identity, Tanh, Sigmoid, ReLU, "
                                 "GELU and SiLU are computed here", name);
    return DENSE_IDENTITY;
}

/* y = activation(W x + b) */
static attn_status pack_dense(struct builder *b, struct module *m, const char *folder, int has_bias)
{
    struct weights w;
    if (!attn_load_exists(folder, "model.safetensors") && attn_load_exists(folder, "pytorch_model.bin"))
        return attn_load_fail(&b->report, ATTN_E_UNSUPPORTED, "the weights of a Dense are in pytorch_model.bin, a pickle, which may run "
                              "any code when it is read; write model.safetensors with SentenceTransformer(DIR).save(DIR)");
    attn_status status = attn_weights_open(&w, folder, NULL, &b->report);
    if (status == ATTN_OK) {
        const attn_tensor matrix = attn_weights_linear(&w, m->in, m->out, "linear.weight");
        const attn_tensor bias = has_bias ? attn_weights_vector(&w, m->out, "linear.bias") : (attn_tensor){.ndim = 0};
        const attn_linear_desc desc = {.flags = b->is_f64 ? ATTN_LINEAR_F64 : 0, .w = &matrix, .b = has_bias ? &bias : NULL};
        status = attn_weights_rest(&w, NULL);
        if (status == ATTN_OK && attn_linear_prepare(b->ctx, &m->dense, &desc) != ATTN_OK)
            status = attn_load_fail_ctx(&w.report, ATTN_E_FORMAT, b->ctx, "linear.weight");
        b->model->info.parameters += w.parameters;
    }
    attn_weights_close(&w);
    return status;
}

static attn_status read_dense(struct builder *b, struct config *c, const char *folder)
{
    const int64_t in = b->model->info.embedding;
    attn_status status = ATTN_OK;
    struct module m = {.in = attn_config_int(c, "in_features", in, in), .out = attn_config_int(c, "out_features", 1, MOST_COLUMNS)};
    const int has_bias = attn_config_bool_or(c, "bias", 1);
    m.activation = activation_of(c, &status);
    only_sentences(c);
    attn_config_only_bool(c, "use_residual", 0);
    status = status ? status : attn_config_rest(c, NULL);
    status = status ? status : pack_dense(b, &m, folder, has_bias);
    if (status != ATTN_OK)
        return status;
    b->model->info.embedding = m.out;
    status = add_module(b, c, m);
    if (status != ATTN_OK)
        attn_linear_destroy(m.dense);
    return status;
}

/* ---- modules.json ---- */

/* The name of a class of sentence-transformers, whichever of its packages it was in when the folder was written; "" for another. */
static const char *class_of(const char *type)
{
    const char *dot = strrchr(type, '.');
    return dot && !strncmp(type, "sentence_transformers.", 22) ? dot + 1 : "";
}

static int leaves_folder(const char *path)
{
    for (const char *at = path; (at = strstr(at, "..")) != NULL; at += 2)
        if ((at == path || at[-1] == '/') && (at[2] == '/' || !at[2]))
            return 1;
    return path[0] == '/';
}

static attn_status read_module(struct builder *b, struct config *item, const char *name, const char *path)
{
    char folder[LOAD_PATH];
    struct config c = {.root = NULL};
    attn_status status = attn_load_path(folder, b->model->path, path, &b->report);
    if (status == ATTN_OK && !strcmp(name, "Normalize") && !attn_load_exists(folder, "config.json"))
        return add_module(b, item, (struct module){.dense = NULL});
    status = status ? status : attn_config_open(&c, folder, "config.json", &b->report);
    if (status == ATTN_OK)
        status = !strcmp(name, "Pooling") ? read_pooling(b, &c)
                 : !strcmp(name, "Dense") ? read_dense(b, &c, folder)
                                          : read_normalize(b, &c);
    attn_config_close(&c);
    return status;
}

/* Module i of the list. Its class is one of five, in their places. */
static attn_status read_item(struct builder *b, struct config *list, size_t i)
{
    struct config c;
    attn_status status = attn_config_item(&c, list, i);
    const char *type = attn_config_text(&c, "type"), *path = attn_config_text_or(&c, "path", ""), *name = class_of(type);
    const int has_pooling = b->model->vectors.modes > 0;
    const int is_behind = !strcmp(name, "Dense") || !strcmp(name, "Normalize");
    status = c.status;
    if (status != ATTN_OK)
        ;
    else if (leaves_folder(path))
        status = attn_load_fail(&c.report, ATTN_E_FORMAT, "path is \"%.100s\", which is outside the model's folder", path);
    else if (i == 0 && !strcmp(name, "Transformer") && *path)
        status = attn_load_fail(&c.report, ATTN_E_UNSUPPORTED, "the Transformer stands in %.100s; only one in the folder itself is read",
                                path);
    else if (i == 0 && !strcmp(name, "Transformer"))
        status = read_transformer(b);
    else if ((i == 1 && !strcmp(name, "Pooling")) || (has_pooling && is_behind))
        status = read_module(b, &c, name, path);
    else if (!has_pooling || strcmp(name, "Dropout") != 0) /* which does nothing here */
        status = attn_load_fail(&c.report, ATTN_E_UNSUPPORTED, "the module is %.100s; a Transformer, a Pooling and then any Normalize, "
                                "Dense and Dropout of sentence-transformers are computed here", type);
    attn_config_close(&c);
    return status;
}

/* ---- config_sentence_transformers.json ---- */

static attn_status read_prompts(struct vectors *v, struct config *c)
{
    const char *name;
    json_t *text;
    struct config prompts;
    attn_status status = attn_config_enter(&prompts, c, "prompts");
    if (status == ATTN_OK) {
        v->prompt = calloc(json_object_size(prompts.root) + 1, sizeof *v->prompt);
        status = v->prompt ? ATTN_OK : attn_load_fail_nomem(&c->report);
    }
    json_object_foreach(status ? NULL : prompts.root, name, text) {
        const char *value = attn_config_text_or(&prompts, name, "");
        struct prompt *p = &v->prompt[v->prompts++];
        *p = (struct prompt){.name = strdup(name), .text = strdup(value)};
        status = prompts.status ? prompts.status : p->name && p->text ? ATTN_OK : attn_load_fail_nomem(&c->report);
        if (status != ATTN_OK)
            break;
    }
    attn_config_close(&prompts);
    return status;
}

static attn_status read_settings(struct builder *b)
{
    static const char *const harmless[] = {"__version__", "prompts", "requirements", "similarity_fn_name", NULL};
    struct vectors *v = &b->model->vectors;
    struct config c;
    if (!attn_load_exists(b->model->path, "config_sentence_transformers.json"))
        return ATTN_OK;
    attn_status status = attn_config_open(&c, b->model->path, "config_sentence_transformers.json", &b->report);
    if (status == ATTN_OK) {
        const char *chosen = attn_config_text_or(&c, "default_prompt_name", NULL);
        attn_config_only_text(&c, "model_type", "SentenceTransformer");
        status = attn_config_rest(&c, harmless);
        if (status == ATTN_OK && attn_config_has(&c, "prompts"))
            status = read_prompts(v, &c);
        v->default_prompt = status || !chosen ? NULL : attn_pretrained_prompt(b->model, chosen);
        if (status == ATTN_OK && chosen && !v->default_prompt)
            status = attn_load_fail(&c.report, ATTN_E_FORMAT, "default_prompt_name is \"%.60s\", which is not among prompts", chosen);
    }
    attn_config_close(&c);
    return status;
}

attn_status attn_modules_read(struct builder *b)
{
    struct vectors *v = &b->model->vectors;
    struct config list;
    if (!attn_load_exists(b->model->path, "modules.json")) {
        v->mode[v->modes++] = ATTN_POOL_MEAN;
        b->model->info.embedding = b->model->info.width;
        return ATTN_OK;
    }
    attn_status status = attn_config_open_list(&list, b->model->path, "modules.json", &b->report);
    for (size_t i = 0; status == ATTN_OK && i < json_array_size(list.root); i++)
        status = read_item(b, &list, i);
    if (status == ATTN_OK && v->modes == 0)
        status = attn_load_fail(&list.report, ATTN_E_UNSUPPORTED, "there is no Pooling; a Transformer and a Pooling are needed");
    attn_config_close(&list);
    return status ? status : read_settings(b);
}

void attn_modules_free(struct vectors *v)
{
    for (int i = 0; i < v->modules; i++)
        attn_linear_destroy(v->module[i].dense);
    for (size_t i = 0; i < v->prompts; i++) {
        free(v->prompt[i].name);
        free(v->prompt[i].text);
    }
    free(v->prompt);
}
