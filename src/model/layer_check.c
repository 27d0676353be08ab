/* SPDX-License-Identifier: Apache-2.0 */
/* What can be wrong with a call of attn_layer_run. */
#include "../core/tensor.h"
#include "../ops/overlap.h"
#include "../ops/sdpa_plan.h"
#include "layer.h"
#include "rope.h"
#include "rows.h"
#include <string.h>

/* ---------------------------------------------------------------- stages ---- */

typedef struct stage {
    attn_tensor *t;
    const char *name;
    int part;             /* that gives it */
    int64_t heads, width; /* heads 0: [B,L,width]; else [B,heads,L,width] */
} stage;
enum { STAGES = 18 };

static void list_stages(const attn_layer_call *c, stage list[STAGES])
{
    const attn_layer *l = c->layer;
    const attn_layer_stages *s = &c->stages;
    const attn_mha_weights *w = l->mha[SELF], *x = l->mha[CROSS];
    const int64_t n = l->n, hidden = l->up.columns;
    const stage all[STAGES] = {{s->self_norm, "self_norm", SELF, 0, n},
                               {s->q, "q", SELF, w->heads, w->dim},
                               {s->k, "k", SELF, w->kv_heads, w->dim},
                               {s->v, "v", SELF, w->kv_heads, w->value_dim},
                               {s->heads, "heads", SELF, w->heads, w->value_dim},
                               {s->self_out, "self_out", SELF, 0, n},
                               {s->self_sum, "self_sum", SELF, 0, n},
                               {s->cross_norm, "cross_norm", CROSS, 0, n},
                               {s->cross_q, "cross_q", CROSS, x ? x->heads : 0, x ? x->dim : 0},
                               {s->cross_heads, "cross_heads", CROSS, x ? x->heads : 0, x ? x->value_dim : 0},
                               {s->cross_out, "cross_out", CROSS, 0, n},
                               {s->cross_sum, "cross_sum", CROSS, 0, n},
                               {s->mlp_norm, "mlp_norm", MLP, 0, n},
                               {s->mlp_gate, "mlp_gate", MLP, 0, hidden},
                               {s->mlp_up, "mlp_up", MLP, 0, hidden},
                               {s->mlp_hidden, "mlp_hidden", MLP, 0, hidden},
                               {s->mlp_out, "mlp_out", MLP, 0, n},
                               {s->mlp_sum, "mlp_sum", MLP, 0, n}};
    memcpy(list, all, sizeof all);
}

static attn_status check_stage(const attn_layer_call *c, const stage *s)
{
    char got[ATTN_SHAPE_TEXT], want[ATTN_SHAPE_TEXT];
    const attn_layer *l = c->layer;
    const attn_dtype real = l->is_f64 ? ATTN_F64 : ATTN_F32;
    const int64_t flat[] = {c->items, c->rows, s->width}, split[] = {c->items, s->heads, c->rows, s->width};
    const int skip = c->x->ndim == 2;
    const attn_tensor like = attn_tensor_of(NULL, real, (s->heads ? 4 : 3) - skip, (s->heads ? split : flat) + skip);
    if (!s->t)
        return ATTN_OK;
    const int is_norm = !strcmp(s->name + strlen(s->name) - 5 * (strlen(s->name) > 5), "_norm");
    if (!attn_layer_has(l, s->part) || (is_norm && !l->norm[s->part].is_there) || (!strcmp(s->name, "mlp_gate") && !l->gate.packed))
        return attn_fail(c->ctx, ATTN_E_ARG, "%s is asked for but this layer has none", s->name);
    attn_status status = attn_check_tensor(c->ctx, s->t, s->name);
    if (status != ATTN_OK)
        return status;
    if (s->t->dtype != real)
        return attn_fail(c->ctx, ATTN_E_DTYPE, "%s has dtype %s; %s is computed", s->name, attn_dtype_name(s->t->dtype),
                         attn_dtype_name(real));
    if (s->t->ndim != like.ndim || memcmp(s->t->shape, like.shape, (size_t)like.ndim * sizeof *like.shape))
        return attn_fail(c->ctx, ATTN_E_SHAPE, "%s has shape %s; %s is needed", s->name, attn_shape_text(got, s->t),
                         attn_shape_text(want, &like));
    return ATTN_OK;
}

/* ---------------------------------------------------------------- inputs ---- */

static attn_status check_x(attn_layer_call *c)
{
    char shape[ATTN_SHAPE_TEXT];
    const attn_layer *l = c->layer;
    attn_status status = attn_model_check_floats(c->ctx, c->x, "x", 2, 3, "[L,n] or [B,L,n]");
    status = status ? status : attn_model_check_like(c->ctx, c->out, "out", c->x, "x");
    if (status != ATTN_OK)
        return status;
    const int r = c->x->ndim - 2;
    c->items = r ? c->x->shape[0] : 1;
    c->rows = c->x->shape[r];
    if (c->x->shape[r + 1] != l->n)
        return attn_fail(c->ctx, ATTN_E_SHAPE, "x %s has width %lld but the layer %lld", attn_shape_text(shape, c->x),
                         (long long)c->x->shape[r + 1], (long long)l->n);
    if (c->x->dtype == ATTN_F64 && !l->is_f64)
        return attn_fail(c->ctx, ATTN_E_DTYPE, "x is f64 but the layer was prepared for f32; set ATTN_LAYER_F64 in attn_layer_desc.flags");
    return ATTN_OK;
}

static attn_status check_memory(attn_layer_call *c)
{
    char shape[ATTN_SHAPE_TEXT], x_shape[ATTN_SHAPE_TEXT];
    const attn_mha_weights *w = c->layer->mha[CROSS];
    const attn_tensor *m = c->opts.memory;
    if (!w || (!m && !c->opts.memory_kv) || (m && c->opts.memory_kv)) {
        const char *what = m && c->opts.memory_kv ? "memory and memory_kv are both given" : m ? "memory is given"
                           : c->opts.memory_kv ? "memory_kv is given" : "neither memory nor memory_kv is given";
        return w || m || c->opts.memory_kv
                   ? attn_fail(c->ctx, ATTN_E_ARG, "%s; a layer with cross-attention needs one of the two, another takes none", what)
                   : ATTN_OK;
    }
    if (!m)
        return ATTN_OK;
    attn_status status = attn_model_check_floats(c->ctx, m, "memory", 2, 3, "[Lm,width] or [B,Lm,width]");
    if (status != ATTN_OK)
        return status;
    const int r = m->ndim - 2;
    c->keys = m->shape[r];
    if (m->ndim != c->x->ndim || (r && m->shape[0] != c->items) || m->shape[r + 1] != w->k.terms)
        return attn_fail(c->ctx, ATTN_E_SHAPE,
                         "memory has shape %s; the rank and items of x %s and the %lld columns of cross's w_k are needed",
                         attn_shape_text(shape, m), attn_shape_text(x_shape, c->x), (long long)w->k.terms);
    if (m->dtype == ATTN_F64 && !c->layer->is_f64)
        return attn_fail(c->ctx, ATTN_E_DTYPE, "memory is f64 but the layer was prepared for f32; set ATTN_LAYER_F64");
    return ATTN_OK;
}

/* A cache of these heads, with room for `more` rows? */
static attn_status check_cache(const attn_layer_call *c, const attn_kv *kv, const attn_mha_weights *w, const char *name, int64_t more)
{
    char shape[ATTN_SHAPE_TEXT];
    attn_tensor k, v;
    if (!kv)
        return ATTN_OK;
    attn_kv_view(kv, &k, &v);
    if (k.shape[0] != c->items || k.shape[1] != w->kv_heads || k.shape[3] != w->dim || v.shape[3] != w->value_dim)
        return attn_fail(c->ctx, ATTN_E_SHAPE,
                         "%s holds keys of %s and values of %lld; %lld items, %lld KV heads of %lld and %lld are needed", name,
                         attn_shape_text(shape, &k), (long long)v.shape[3], (long long)c->items, (long long)w->kv_heads,
                         (long long)w->dim, (long long)w->value_dim);
    if (k.dtype == ATTN_F64 && !c->layer->is_f64)
        return attn_fail(c->ctx, ATTN_E_DTYPE, "%s is f64 but the layer was prepared for f32; set ATTN_LAYER_F64", name);
    if (more > attn_kv_capacity(kv) - k.shape[2])
        return attn_fail(c->ctx, ATTN_E_FULL,
                         "%s holds %lld of %lld rows and has no room for %lld more; make a greater one or truncate it", name,
                         (long long)k.shape[2], (long long)attn_kv_capacity(kv), (long long)more);
    return ATTN_OK;
}

static attn_status check_rope(attn_layer_call *c)
{
    const attn_rope *rope = c->layer->rope;
    if (!rope)
        return c->opts.offset || c->opts.positions
                   ? attn_fail(c->ctx, ATTN_E_ARG, "%s given but the layer has no rope",
                               c->opts.positions ? "positions are" : "an offset is")
                   : ATTN_OK;
    if (c->opts.kv && c->opts.offset)
        return attn_fail(c->ctx, ATTN_E_ARG, "offset is %lld; with a cache rows stand behind those that it holds: give positions instead",
                         (long long)c->opts.offset);
    if (c->opts.kv && !c->opts.positions)
        c->opts.offset = attn_kv_length(c->opts.kv);
    return attn_rope_check(c->ctx, rope, (attn_rope_places){c->opts.offset, c->opts.positions}, c->items, c->rows);
}

static attn_status check_options(const attn_layer_call *c)
{
    const int is_packed = c->sdpa[SELF].cu_seqlens_q || c->sdpa[SELF].cu_seqlens_k;
    if (c->sdpa[CROSS].cu_seqlens_q || c->sdpa[CROSS].cu_seqlens_k || (is_packed && (c->opts.kv || c->layer->mha[CROSS])))
        return attn_fail(c->ctx, ATTN_E_UNSUPPORTED,
                         "packed input (cu_seqlens) is defined for self-attention without a cache alone; give a batch with lengths");
    if (is_packed && (c->x->ndim != 2 || !c->sdpa[SELF].cu_seqlens_q))
        return attn_fail(c->ctx, ATTN_E_ARG, "x has rank %d and cu_seqlens_q is %sgiven; packed input is x [T,n] with both cu_seqlens",
                         (int)c->x->ndim, c->sdpa[SELF].cu_seqlens_q ? "" : "not ");
    if (is_packed && c->layer->rope && !c->opts.positions)
        return attn_fail(c->ctx, ATTN_E_ARG, "packed input without positions; the rope needs positions [T], counted in each sequence");
    if (c->opts.cross && !c->layer->mha[CROSS])
        return attn_fail(c->ctx, ATTN_E_ARG, "options of cross-attention are given but the layer has none");
    return c->opts.flags || c->stages.flags
               ? attn_fail(c->ctx, ATTN_E_ARG, "the flags of attn_layer_opts and attn_layer_stages must be 0")
               : ATTN_OK;
}

attn_status attn_layer_check_memory_call(attn_layer_call *c, const attn_kv *kv)
{
    char shape[ATTN_SHAPE_TEXT];
    const attn_mha_weights *w = c->layer->mha[CROSS];
    if (c->layer->isa != c->ctx->isa)
        return attn_fail(c->ctx, ATTN_E_ARG, "the layer was prepared for ISA level %s but the context runs %s", c->layer->isa->name,
                         c->ctx->isa->name);
    if (!w)
        return attn_fail(c->ctx, ATTN_E_ARG, "the layer has no cross-attention; it takes no memory");
    attn_status status = attn_model_check_floats(c->ctx, c->x, "memory", 2, 3, "[Lm,width] or [B,Lm,width]");
    if (status != ATTN_OK)
        return status;
    const int r = c->x->ndim - 2;
    c->items = r ? c->x->shape[0] : 1;
    c->rows = c->x->shape[r];
    if (c->x->shape[r + 1] != w->k.terms)
        return attn_fail(c->ctx, ATTN_E_SHAPE, "memory %s has width %lld but cross's w_k takes %lld", attn_shape_text(shape, c->x),
                         (long long)c->x->shape[r + 1], (long long)w->k.terms);
    if (c->x->dtype == ATTN_F64 && !c->layer->is_f64)
        return attn_fail(c->ctx, ATTN_E_DTYPE, "memory is f64 but the layer was prepared for f32; set ATTN_LAYER_F64");
    return check_cache(c, kv, w, "kv", c->rows);
}

/* ----------------------------------------------------------------- memory ---- */

static attn_status check_apart(const attn_layer_call *c, const stage list[STAGES])
{
    attn_named_list outputs = {.n = 0}, inputs = {.n = 0};
    attn_status status = ATTN_OK;
    attn_list_add(&outputs, c->out, "out");
    for (int i = 0; i < STAGES; i++)
        attn_list_add(&outputs, list[i].t, list[i].name);
    attn_list_add(&inputs, c->x, "x");
    attn_list_add(&inputs, c->opts.memory, "memory");
    attn_list_add(&inputs, c->opts.positions, "positions");
    for (int part = 0; part < 2; part++) {
        attn_list_outputs(&outputs, &c->sdpa[part]);
        attn_list_inputs(&inputs, &c->sdpa[part]);
    }
    for (int i = 0; status == ATTN_OK && i < outputs.n; i++)
        status = attn_check_tensor(c->ctx, outputs.item[i].t, outputs.item[i].name);
    for (int i = 0; status == ATTN_OK && i < inputs.n; i++)
        status = attn_check_tensor(c->ctx, inputs.item[i].t, inputs.item[i].name);
    return status ? status : attn_check_apart(c->ctx, &outputs, &inputs);
}

attn_status attn_layer_check(attn_layer_call *c)
{
    const attn_layer *l = c->layer;
    stage list[STAGES];
    if (l->isa != c->ctx->isa)
        return attn_fail(c->ctx, ATTN_E_ARG,
                         "the layer was prepared for ISA level %s but the context runs %s; prepare it with this context", l->isa->name,
                         c->ctx->isa->name);
    attn_status status = check_x(c);
    status = status ? status : check_options(c);
    status = status ? status : check_memory(c);
    status = status ? status : check_cache(c, c->opts.kv, l->mha[SELF], "kv", c->rows);
    status = status ? status : check_cache(c, c->opts.memory_kv, l->mha[CROSS], "memory_kv", 0);
    status = status ? status : check_rope(c);
    list_stages(c, list);
    for (int i = 0; status == ATTN_OK && i < STAGES; i++)
        status = check_stage(c, &list[i]);
    return status ? status : check_apart(c, list);
}
