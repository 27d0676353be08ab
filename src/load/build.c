/* SPDX-License-Identifier: Apache-2.0 */
/* What the families share when they make a model. */
#include <stdio.h>
#include <stdlib.h>

#include "model.h"

attn_status attn_build_stack(struct builder *b, struct stack *s, int64_t layers)
{
    s->layer = calloc((size_t)layers + 1, sizeof *s->layer);
    s->window = calloc((size_t)layers + 1, sizeof *s->window);
    s->layers = layers;
    return s->layer && s->window ? ATTN_OK : attn_load_fail_nomem(&b->report);
}

attn_status attn_build_layer(struct builder *b, struct stack *s, int64_t i, const attn_layer_desc *desc)
{
    char what[32];
    attn_layer_desc d = *desc;
    if (attn_weights_decode(b->weights) != ATTN_OK)
        return b->weights->status;
    d.flags |= b->is_f64 ? ATTN_LAYER_F64 : 0;
    const attn_status status = attn_layer_prepare(b->ctx, &s->layer[i], &d);
    snprintf(what, sizeof what, "layer %lld", (long long)i);
    attn_weights_next(b->weights);
    return status ? attn_load_fail_ctx(&b->report, status, b->ctx, what) : ATTN_OK;
}

attn_norm_opts attn_norm_opts_of(const struct norm *n)
{
    return (attn_norm_opts){.flags = ATTN_NORM_EPS | n->flags, .eps = n->eps, .weight = n->weight.ndim ? &n->weight : NULL,
                            .bias = n->bias.ndim ? &n->bias : NULL};
}

struct norm attn_build_layer_norm(struct builder *b, int64_t n, double eps, const char *name)
{
    const int old = attn_weights_has(b->weights, "%s.gamma", name);
    struct norm norm = {.is_there = 1, .eps = eps};
    norm.weight = attn_weights_vector(b->weights, n, "%s.%s", name, old ? "gamma" : "weight");
    norm.bias = attn_weights_vector(b->weights, n, "%s.%s", name, old ? "beta" : "bias");
    return norm;
}

void attn_stack_free(struct stack *s)
{
    for (int64_t i = 0; s->layer && i < s->layers; i++)
        attn_layer_destroy(s->layer[i]);
    free(s->layer);
    free(s->window);
    attn_rope_destroy(s->rope);
    *s = (struct stack){.layers = 0};
}
