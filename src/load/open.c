/* SPDX-License-Identifier: Apache-2.0 */
/* attn_pretrained_open: which family, then the family's own file makes the model. */
#include <stdlib.h>
#include <string.h>

#include "../core/ctx.h"
#include "gguf.h"
#include "model.h"

static attn_status choose_family(struct attn_pretrained *m, struct config *c)
{
    char known[256];
    const char *type = attn_config_text(c, "model_type");
    if (c->status != ATTN_OK)
        return c->status;
    m->family = attn_family_of(type);
    if (!m->family)
        return attn_load_fail(&c->report, ATTN_E_UNSUPPORTED, "model_type is \"%.60s\", a model that is not known here; known are %s", type,
                              attn_family_types(known, sizeof known));
    m->type = strdup(type);
    m->info = (attn_model_info){.type = m->type, .kind = m->family->kind};
    return m->type ? ATTN_OK : attn_load_fail_nomem(&c->report);
}

static attn_status open_gguf(attn_ctx *ctx, struct attn_pretrained *m, struct config *config, const struct load_report *r)
{
    static const char *const known[] = {"llama", "qwen2", "qwen3"};
    *config = (struct config){.root = NULL};
    attn_status status = attn_weights_open_gguf(&m->weights, ctx, m->path, r);
    status = status ? status : attn_gguf_config(config, m->weights.file, r);
    const char *type = status ? known[0] : json_string_value(json_object_get(config->root, "model_type"));
    if (strcmp(type, known[0]) != 0 && strcmp(type, known[1]) != 0 && strcmp(type, known[2]) != 0)
        return attn_load_fail(r, ATTN_E_UNSUPPORTED, "general.architecture is \"%.32s\", which is not known here; known are llama, qwen2 "
                              "and qwen3", type);
    return status ? status : choose_family(m, config);
}

static attn_status open_folder(struct attn_pretrained *m, struct config *config, const struct load_report *r)
{
    attn_status status = attn_config_open(config, m->path, "config.json", r);
    status = status ? status : choose_family(m, config);
    return status ? status : attn_weights_open(&m->weights, m->path, NULL, r);
}

static attn_status open_model(attn_ctx *ctx, struct attn_pretrained *m, uint32_t flags, const struct load_report *r)
{
    struct config config;
    const int is_gguf = attn_format_of(m->path) == ATTN_FORMAT_GGUF;
    attn_status status = is_gguf ? open_gguf(ctx, m, &config, r) : open_folder(m, &config, r);
    if (status == ATTN_OK) {
        struct builder b = {.ctx = ctx, .model = m, .config = &config, .weights = &m->weights, .report = *r,
                            .is_f64 = (flags & ATTN_PRETRAINED_F64) != 0};
        status = m->family->build(&b);
        m->info.parameters = m->weights.parameters;
        m->info.compute = b.is_f64 ? ATTN_F64 : ATTN_F32;
        m->info.max_tokens = m->info.max_tokens ? m->info.max_tokens : m->info.max_positions;
        if (status == ATTN_OK && m->info.kind == ATTN_MODEL_ENCODER)
            status = attn_modules_read(&b);
    }
    attn_config_close(&config);
    attn_weights_forget(&m->weights);
    m->weights.report.text = NULL; /* the caller's */
    return status;
}

attn_status attn_pretrained_open(attn_ctx *ctx, attn_pretrained **out, const char *path, const attn_pretrained_opts *opts, char *err,
                                 size_t err_size)
{
    struct load_report r = {.text = err, .size = err_size, .file = path ? path : "attn_pretrained_open"};
    attn_pretrained_opts own;
    if (out)
        *out = NULL;
    if (!ctx || !out || !path)
        return attn_load_fail(&r, ATTN_E_ARG, "%s is NULL", !ctx ? "ctx" : !out ? "out" : "path");
    attn_begin(ctx);
    attn_status status = attn_copy_struct(ctx, &own, sizeof own, opts, "attn_pretrained_opts");
    if (status == ATTN_OK && (own.flags & ~(uint32_t)ATTN_PRETRAINED_F64))
        status = attn_fail(ctx, ATTN_E_ARG, "flags 0x%x of attn_pretrained_opts are not known", (unsigned)own.flags);
    if (status != ATTN_OK)
        return attn_load_fail_ctx(&r, status, ctx, "options");
    struct attn_pretrained *m = calloc(1, sizeof *m);
    char *copy = strdup(path);
    if (!m || !copy) {
        free(m);
        free(copy);
        return attn_load_fail_nomem(&r);
    }
    m->path = copy;
    status = open_model(ctx, m, own.flags, &r);
    if (status == ATTN_OK)
        *out = m;
    else
        attn_pretrained_destroy(m);
    return status;
}

void attn_pretrained_destroy(attn_pretrained *m)
{
    if (!m)
        return;
    attn_stack_free(&m->encoder);
    attn_stack_free(&m->decoder);
    attn_linear_destroy(m->head);
    attn_linear_destroy(m->seq2seq.product);
    free(m->seq2seq.positions);
    attn_modules_free(&m->vectors);
    attn_weights_close(&m->weights);
    free(m->type);
    free(m->path);
    free(m);
}

attn_model_info attn_pretrained_info(const attn_pretrained *m) { return m ? m->info : (attn_model_info){.type = NULL}; }

const attn_layer *attn_pretrained_layer(const attn_pretrained *m, attn_part part, int64_t layer, int64_t *window)
{
    const struct stack *s = !m ? NULL : part == ATTN_PART_DECODER ? &m->decoder : &m->encoder;
    if (!s || layer < 0 || layer >= s->layers)
        return NULL;
    if (window)
        *window = s->window[layer];
    return s->layer[layer];
}
