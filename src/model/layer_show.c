/* SPDX-License-Identifier: Apache-2.0 */
/* attn_layer_attention: what a layer was made of, for showing it. */
#include "layer.h"

#include <string.h>

#include "../core/tensor.h"
#include "../kernels/convert.h"
#include "../ops/project.h"
#include "rope.h"

enum { UNIT_ROWS = 64 };

/* Rows first..first+count of the identity. */
static void fill_units(const attn_tensor *units, int64_t first)
{
    memset(units->data, 0, (size_t)(units->shape[0] * units->shape[1]) * attn_dtype_size(units->dtype));
    for (int64_t i = 0; i < units->shape[0]; i++)
        attn_store_float(units->data, units->dtype, i * units->shape[1] + first + i, 1);
}

/* to = the matrix, by its products with unit vectors: how it is packed is the kernels' own affair. */
static attn_status unpack(attn_ctx *ctx, const attn_layer *l, const attn_matrix *m, const attn_tensor *to)
{
    const attn_dtype real = l->is_f64 ? ATTN_F64 : ATTN_F32;
    attn_matrix plain = *m;
    plain.bias = NULL;
    void *memory = attn_alloc(ctx, UNIT_ROWS * m->terms * (int64_t)attn_dtype_size(real));
    if (!memory)
        return attn_fail(ctx, ATTN_E_NOMEM, "out of memory: %d rows of %lld numbers were refused", UNIT_ROWS, (long long)m->terms);
    attn_status status = ATTN_OK;
    for (int64_t first = 0; status == ATTN_OK && first < m->terms; first += UNIT_ROWS) {
        const int64_t rows = m->terms - first < UNIT_ROWS ? m->terms - first : UNIT_ROWS, shape[] = {rows, m->terms};
        const attn_tensor units = attn_tensor_of(memory, real, 2, shape);
        attn_tensor part = *to;
        part.data = (char *)to->data + first * to->stride[0] * (int64_t)attn_dtype_size(to->dtype);
        part.shape[0] = rows;
        fill_units(&units, first);
        status = attn_project(ctx, &plain, l->is_f64, attn_rows_of(&units), attn_rows_of(&part));
    }
    ctx->free(ctx->user, memory);
    return status;
}

static attn_status check_place(attn_ctx *ctx, const attn_layer *l, const attn_tensor *to, const char *name, int32_t ndim,
                               const int64_t *shape)
{
    char got[ATTN_SHAPE_TEXT], want[ATTN_SHAPE_TEXT];
    const attn_dtype real = l->is_f64 ? ATTN_F64 : ATTN_F32;
    const attn_tensor like = attn_tensor_of(NULL, real, ndim, shape);
    const attn_status status = attn_check_tensor(ctx, to, name);
    if (status != ATTN_OK)
        return status;
    if (to->dtype != real)
        return attn_fail(ctx, ATTN_E_DTYPE, "%s has dtype %s; the layer is computed in %s", name, attn_dtype_name(to->dtype),
                         attn_dtype_name(real));
    if (to->ndim != ndim || memcmp(to->shape, shape, (size_t)ndim * sizeof *shape) != 0)
        return attn_fail(ctx, ATTN_E_SHAPE, "%s has shape %s; the layer's is %s", name, attn_shape_text(got, to),
                         attn_shape_text(want, &like));
    return ATTN_OK;
}

static attn_status give_matrix(attn_ctx *ctx, const attn_layer *l, const attn_matrix *m, const attn_tensor *w, const char *name)
{
    const attn_status status = w ? check_place(ctx, l, w, name, 2, (const int64_t[]){m->terms, m->columns}) : ATTN_OK;
    return status || !w ? status : unpack(ctx, l, m, w);
}

/* 0 where the layer has no bias. */
static attn_status give_bias(attn_ctx *ctx, const attn_layer *l, const attn_matrix *m, const attn_tensor *b, const char *name)
{
    const attn_dtype real = l->is_f64 ? ATTN_F64 : ATTN_F32;
    const attn_status status = b ? check_place(ctx, l, b, name, 1, &m->columns) : ATTN_OK;
    for (int64_t c = 0; status == ATTN_OK && b && c < m->columns; c++)
        attn_store_float(b->data, b->dtype, c * b->stride[0], m->bias ? attn_load_float(m->bias, real, c) : 0);
    return status;
}

static void tell(const attn_layer *l, int part, attn_layer_part *p)
{
    const attn_mha_weights *w = l->mha[part];
    const attn_rope *rope = part == SELF ? l->rope : NULL;
    p->flags = l->flags & (uint32_t) ~(part == CROSS ? ATTN_LAYER_CAUSAL : 0);
    p->compute = l->is_f64 ? ATTN_F64 : ATTN_F32;
    p->has_norm = l->norm[part].is_there;
    p->has_head_norms = part == SELF && l->head_norm[0].is_there;
    p->biases = (w->q.bias ? 1u : 0) | (w->k.bias ? 2u : 0) | (w->v.bias ? 4u : 0) | (w->o.bias ? 8u : 0);
    p->width = w->q.terms;
    p->memory_width = w->k.terms;
    p->heads = w->heads;
    p->kv_heads = w->kv_heads;
    p->head_dim = w->dim;
    p->value_dim = w->value_dim;
    p->rope = rope;
    p->rope_flags = rope && rope->interleaved ? ATTN_ROPE_INTERLEAVED : 0;
}

attn_status attn_layer_attention(attn_ctx *ctx, const attn_layer *layer, int32_t cross, attn_layer_part *part)
{
    attn_layer_part own;
    const int which = cross ? CROSS : SELF;
    if (!ctx)
        return ATTN_E_ARG;
    attn_begin(ctx);
    if (!layer || !part)
        return attn_fail(ctx, ATTN_E_ARG, "%s is NULL", layer ? "part" : "layer");
    attn_status status = attn_copy_struct(ctx, &own, sizeof own, part, "attn_layer_part");
    if (status == ATTN_OK && !attn_layer_has(layer, which))
        status = attn_fail(ctx, ATTN_E_ARG, "cross is asked for but this layer has no cross-attention");
    if (status != ATTN_OK)
        return status;
    const attn_mha_weights *w = layer->mha[which];
    const attn_matrix *const matrix[] = {&w->q, &w->k, &w->v, &w->o};
    const attn_tensor *const to[] = {own.w_q, own.w_k, own.w_v, own.w_o}, *const bias[] = {own.b_q, own.b_k, own.b_v, own.b_o};
    static const char *const names[] = {"w_q", "w_k", "w_v", "w_o"}, *const bias_names[] = {"b_q", "b_k", "b_v", "b_o"};
    for (int i = 0; i < 4 && status == ATTN_OK; i++) {
        status = give_matrix(ctx, layer, matrix[i], to[i], names[i]);
        status = status ? status : give_bias(ctx, layer, matrix[i], bias[i], bias_names[i]);
    }
    if (status != ATTN_OK)
        return status;
    tell(layer, which, &own);
    const size_t size = part->struct_size && part->struct_size < sizeof own ? part->struct_size : sizeof own;
    own.struct_size = part->struct_size;
    memcpy(part, &own, size);
    return ATTN_OK;
}
