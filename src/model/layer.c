/* SPDX-License-Identifier: Apache-2.0 */
/* attn_layer_run: norm, part, residual, for each part of the layer. */
#include "layer.h"

#include "../core/tensor.h"
#include "../ops/kv.h"
#include "../ops/project.h"
#include "activation.h"
#include "norm.h"
#include "rope.h"

/* --------------------------------------------------------------- buffers ---- */

/* A packed tensor [B,rows,width] of the layer's real, without B where x has none, *at bytes behind the base. */
static attn_status place(const attn_layer_call *c, attn_tensor *t, int64_t rows, int64_t width, int64_t *at)
{
    const int64_t shape[] = {c->items, rows, width}, size = c->layer->is_f64 ? 8 : 4;
    const int skip = c->x->ndim == 2;
    int64_t bytes;
    *t = attn_tensor_of((void *)(c->base + (uintptr_t)*at), c->layer->is_f64 ? ATTN_F64 : ATTN_F32, 3 - skip, shape + skip);
    if (__builtin_mul_overflow(c->items * rows, width * size, &bytes) || __builtin_add_overflow(bytes, ATTN_ALIGN - 1, &bytes) ||
        __builtin_add_overflow(*at, bytes / ATTN_ALIGN * ATTN_ALIGN, at))
        return attn_fail(c->ctx, ATTN_E_SHAPE, "x is too big: the stages of the layer exceed 63 bits of bytes");
    return ATTN_OK;
}

static attn_status place_common(attn_layer_call *c, int64_t *at)
{
    attn_status status = place(c, &c->normed, c->rows, c->layer->n, at);
    status = status ? status : place(c, &c->given, c->rows, c->layer->n, at);
    return status ? status : place(c, &c->sum, c->rows, c->layer->n, at);
}

static attn_status place_part(attn_layer_call *c, int part, int64_t at, int64_t *end)
{
    const attn_layer *l = c->layer;
    attn_status status = ATTN_OK;
    if (part == MLP) {
        status = place(c, &c->up, c->rows, l->up.columns, &at);
        status = status ? status : place(c, &c->gate, c->rows, l->gate.columns, &at);
    } else {
        const attn_mha_weights *w = l->mha[part];
        const int64_t keys = part == SELF ? c->rows : c->keys;
        status = place(c, &c->q, c->rows, w->q.columns, &at);
        status = status ? status : place(c, &c->k, keys, w->k.columns, &at);
        status = status ? status : place(c, &c->v, keys, w->v.columns, &at);
        status = status ? status : place(c, &c->z, c->rows, w->heads * w->value_dim, &at);
    }
    *end = at > *end ? at : *end;
    return status;
}

/* The parts run one after the other, so theirs may lie in one place. */
static attn_status reserve(attn_layer_call *c, int64_t *common)
{
    *common = 0;
    attn_status status = place_common(c, common);
    int64_t end = *common;
    for (int part = 0; status == ATTN_OK && part < PARTS; part++)
        if (attn_layer_has(c->layer, part))
            status = place_part(c, part, *common, &end);
    status = status ? status : attn_reserve(c->ctx, &c->ctx->temporary, end);
    c->base = (uintptr_t)c->ctx->temporary.data;
    *common = 0;
    return status ? status : place_common(c, common);
}

/* ------------------------------------------------------------------ steps ---- */

/* Between two steps of a call: for the progress hook, and for the threads that are reported. */
static void step(attn_layer_call *c)
{
    attn_ctx *ctx = c->ctx;
    c->threads = ctx->info.threads > c->threads && c->step > 0 ? ctx->info.threads : c->threads;
    ctx->progress_from = (double)c->step / c->steps;
    ctx->progress_span = 1.0 / c->steps;
    c->step++;
}

static attn_status project(attn_layer_call *c, const attn_matrix *m, const attn_tensor *from, const attn_tensor *to)
{
    step(c);
    return attn_project(c->ctx, m, c->layer->is_f64, attn_rows_of(from), attn_rows_of(to));
}

/* k and v of the memory. */
static attn_status project_memory(attn_layer_call *c, const attn_mha_weights *w, const attn_tensor *memory)
{
    step(c);
    return attn_project_all(c->ctx, &(attn_projection){.is_f64 = c->layer->is_f64, .from = attn_rows_of(memory), .n = 2,
                                                       .product = {{&w->k, attn_rows_of(&c->k)}, {&w->v, attn_rows_of(&c->v)}}});
}

/* A stage that was asked for. */
static attn_status keep(attn_layer_call *c, const attn_tensor *stage, const attn_tensor *from)
{
    return stage ? attn_copy_run(c->ctx, stage, from) : ATTN_OK;
}

/* [B,L,heads*dim] seen as [B,heads,L,dim]: the split into heads is this view (reshape, then transpose). */
static attn_tensor heads_of(const attn_tensor *rows, int64_t heads, int64_t dim)
{
    static const int32_t batched[] = {0, 2, 1, 3}, alone[] = {1, 0, 2};
    const int r = rows->ndim - 2;
    const int64_t shape[] = {r ? rows->shape[0] : 1, rows->shape[r], heads, dim};
    const attn_tensor t = attn_tensor_of(rows->data, rows->dtype, rows->ndim + 1, shape + 1 - r);
    return attn_tensor_permute(&t, r ? batched : alone);
}

/* [heads,T,dim] seen as the [T,heads,dim] of packed sequences. */
static attn_tensor packed_of(const attn_tensor *heads) { return attn_tensor_permute(heads, (const int32_t[]){1, 0, 2}); }

/* A cache of one item, for x without a batch. */
static attn_tensor without_batch(const attn_tensor *t)
{
    attn_tensor one = attn_tensor_permute(t, (const int32_t[]){1, 2, 3, 0});
    one.ndim = 3;
    return one;
}

/* ------------------------------------------------------------------ parts ---- */

/* q (which 0) or k (1): each head's row normed, then turned. */
static attn_status turn(attn_layer_call *c, const attn_tensor *heads, int which)
{
    const attn_layer_norm_of *norm = &c->layer->head_norm[which];
    step(c);
    const attn_status status = norm->is_there ? attn_norm_run(c->ctx, heads, heads, &norm->opts) : ATTN_OK;
    if (status != ATTN_OK)
        return status;
    return c->layer->rope ? attn_rope_run(c->ctx, heads, heads, c->layer->rope, (attn_rope_places){c->opts.offset, c->opts.positions})
                          : ATTN_OK;
}

/* z = attention of h to itself, or to what the cache holds and itself. */
static attn_status attend_self(attn_layer_call *c, const attn_tensor *h)
{
    const attn_mha_weights *w = c->layer->mha[SELF];
    attn_tensor q = heads_of(&c->q, w->heads, w->dim), k = heads_of(&c->k, w->kv_heads, w->dim);
    attn_tensor v = heads_of(&c->v, w->kv_heads, w->value_dim), z = heads_of(&c->z, w->heads, w->value_dim);
    attn_sdpa_opts *o = &c->sdpa[SELF];
    o->flags |= c->layer->flags & ATTN_LAYER_CAUSAL ? ATTN_CAUSAL : 0;
    step(c);
    attn_status status = attn_project_all(c->ctx, &(attn_projection){.is_f64 = c->layer->is_f64, .from = attn_rows_of(h), .n = 3,
                                                                     .product = {{&w->q, attn_rows_of(&c->q)},
                                                                                 {&w->k, attn_rows_of(&c->k)},
                                                                                 {&w->v, attn_rows_of(&c->v)}}});
    status = status ? status : keep(c, c->stages.q, &q);
    status = status ? status : keep(c, c->stages.k, &k);
    status = status ? status : keep(c, c->stages.v, &v);
    status = status ? status : turn(c, &q, 0);
    status = status ? status : turn(c, &k, 1);
    step(c);
    if (status == ATTN_OK && o->cu_seqlens_q) {
        const attn_tensor packed_q = packed_of(&q), packed_k = packed_of(&k), packed_v = packed_of(&v);
        attn_tensor packed_z = packed_of(&z);
        status = attn_sdpa(c->ctx, &packed_z, &packed_q, &packed_k, &packed_v, o);
    } else if (status == ATTN_OK && !c->opts.kv) {
        status = attn_sdpa(c->ctx, &z, &q, &k, &v, o);
    } else if (status == ATTN_OK) {
        status = attn_kv_append(c->ctx, c->opts.kv, &k, &v);
        status = status ? status : attn_kv_attend(c->ctx, c->opts.kv, &z, &q, o);
    }
    return status ? status : keep(c, c->stages.heads, &z);
}

/* z = attention of h to the memory. */
static attn_status attend_memory(attn_layer_call *c, const attn_tensor *h)
{
    const attn_mha_weights *w = c->layer->mha[CROSS];
    attn_tensor q = heads_of(&c->q, w->heads, w->dim), z = heads_of(&c->z, w->heads, w->value_dim);
    attn_tensor k = heads_of(&c->k, w->kv_heads, w->dim), v = heads_of(&c->v, w->kv_heads, w->value_dim);
    attn_status status = project(c, &w->q, h, &c->q);
    if (c->opts.memory_kv) {
        attn_kv_view(c->opts.memory_kv, &k, &v);
        k = c->x->ndim == 2 ? without_batch(&k) : k;
        v = c->x->ndim == 2 ? without_batch(&v) : v;
    } else {
        status = status ? status : project_memory(c, w, c->opts.memory);
    }
    status = status ? status : keep(c, c->stages.cross_q, &q);
    step(c);
    status = status ? status : attn_sdpa(c->ctx, &z, &q, &k, &v, &c->sdpa[CROSS]);
    return status ? status : keep(c, c->stages.cross_heads, &z);
}

/* What the MLP's last matrix takes. */
static const attn_tensor *widened(const attn_layer_call *c) { return c->layer->gate.packed ? &c->gate : &c->up; }

/* up = act(h W_up), or gate = act(h W_gate) * (h W_up). The activation runs with the products, unless they are asked for themselves. */
static attn_status widen(attn_layer_call *c, const attn_tensor *h)
{
    const attn_layer *l = c->layer;
    const attn_tensor *to = widened(c);
    const int has_gate = l->gate.packed != NULL, is_seen = c->stages.mlp_up || c->stages.mlp_gate;
    attn_projection p = {.is_f64 = l->is_f64, .from = attn_rows_of(h), .n = 1 + has_gate, .product = {{&l->up, attn_rows_of(&c->up)}}};
    if (has_gate) {
        p.product[1] = p.product[0];
        p.product[0].w = &l->gate;
        p.product[0].to = attn_rows_of(&c->gate);
    }
    if (!is_seen)
        p.activate = attn_activation_kernel(l->is_f64 ? l->isa->f64 : l->isa->f32, l->activation);
    step(c);
    attn_status status = attn_project_all(c->ctx, &p);
    status = status ? status : keep(c, c->stages.mlp_up, &c->up);
    status = status ? status : keep(c, c->stages.mlp_gate, &c->gate);
    step(c);
    if (status == ATTN_OK && is_seen)
        status = attn_activation_run(c->ctx, to, to, has_gate ? &c->up : NULL, l->activation);
    return status ? status : keep(c, c->stages.mlp_hidden, to);
}

/* given = f(h) */
static attn_status run_part(attn_layer_call *c, int part, const attn_tensor *h)
{
    const attn_layer *l = c->layer;
    attn_status status = part == MLP ? widen(c, h) : part == SELF ? attend_self(c, h) : attend_memory(c, h);
    return status ? status : project(c, part == MLP ? &l->down : &l->mha[part]->o, part == MLP ? widened(c) : &c->z, &c->given);
}

/* to = norm(from); they may be one */
static attn_status run_norm(attn_layer_call *c, int part, const attn_tensor *to, const attn_tensor *from, const attn_tensor *stage)
{
    const attn_layer_norm_of *norm = &c->layer->norm[part];
    step(c);
    attn_status status = attn_norm_run(c->ctx, to, from, &norm->opts);
    return status ? status : keep(c, stage, to);
}

/* to = norm(h + given), in one pass over the rows */
static attn_status add_and_norm(attn_layer_call *c, int part, const attn_tensor *h, const attn_tensor *to, const attn_tensor *stage)
{
    step(c);
    attn_status status = attn_add_norm_run(c->ctx, to, h, &c->given, &c->layer->norm[part].opts);
    step(c);
    return status ? status : keep(c, stage, to);
}

/* One part: h -> to, both [B,L,n]; they may be one. */
static attn_status add_part(attn_layer_call *c, int part, const attn_tensor *h, const attn_tensor *to)
{
    const attn_layer_stages *s = &c->stages;
    const attn_tensor *const norms[] = {s->self_norm, s->cross_norm, s->mlp_norm}, *const sums[] = {s->self_sum, s->cross_sum, s->mlp_sum};
    const attn_tensor *const outs[] = {s->self_out, s->cross_out, s->mlp_out};
    const int has_norm = c->layer->norm[part].is_there, is_post = has_norm && (c->layer->flags & ATTN_LAYER_POST_NORM);
    const attn_tensor *given_to = h, *sum = is_post ? &c->sum : to;
    attn_status status = ATTN_OK;
    if (has_norm && !is_post) {
        status = run_norm(c, part, &c->normed, h, norms[part]);
        given_to = &c->normed;
    }
    status = status ? status : run_part(c, part, given_to);
    status = status ? status : keep(c, outs[part], &c->given);
    if (status == ATTN_OK && is_post && !sums[part] && to->dtype == c->given.dtype)
        return add_and_norm(c, part, h, to, norms[part]);
    step(c);
    status = status ? status : attn_add_run(c->ctx, sum, h, &c->given);
    status = status ? status : keep(c, sums[part], sum);
    return status || !is_post ? status : run_norm(c, part, to, sum, norms[part]);
}

/* ------------------------------------------------------------------- calls ---- */

static attn_status run_parts(attn_layer_call *c)
{
    int64_t common, end = 0;
    int last = SELF;
    const attn_tensor *h = c->x;
    attn_status status = reserve(c, &common);
    for (int part = 0; part < PARTS; part++)
        last = attn_layer_has(c->layer, part) ? part : last;
    for (int part = 0; status == ATTN_OK && part < PARTS; part++)
        if (attn_layer_has(c->layer, part)) {
            const attn_tensor *to = part == last ? c->out : &c->sum;
            status = place_part(c, part, common, &end);
            status = status ? status : add_part(c, part, h, to);
            h = to;
        }
    c->ctx->info.threads = c->threads > c->ctx->info.threads ? c->threads : c->ctx->info.threads;
    return status;
}

static attn_status copy_options(attn_layer_call *c, const attn_layer_opts *opts)
{
    attn_status status = attn_copy_struct(c->ctx, &c->opts, sizeof c->opts, opts, "attn_layer_opts");
    status = status ? status : attn_copy_struct(c->ctx, &c->stages, sizeof c->stages, c->opts.stages, "attn_layer_stages");
    status = status ? status : attn_copy_struct(c->ctx, &c->sdpa[SELF], sizeof c->sdpa[SELF], c->opts.self, "attn_sdpa_opts");
    status = status ? status : attn_copy_struct(c->ctx, &c->sdpa[CROSS], sizeof c->sdpa[CROSS], c->opts.cross, "attn_sdpa_opts");
    c->sdpa[SELF].struct_size = c->sdpa[CROSS].struct_size = sizeof c->sdpa[SELF];
    return status;
}

attn_status attn_layer_run(attn_ctx *ctx, attn_tensor *out, const attn_layer *layer, const attn_tensor *x, const attn_layer_opts *opts)
{
    attn_layer_call c = {.ctx = ctx, .layer = layer, .x = x, .out = out, .steps = 24};
    if (!ctx)
        return ATTN_E_ARG;
    attn_begin(ctx);
    if (!layer)
        return attn_fail(ctx, ATTN_E_ARG, "layer is NULL");
    attn_status status = copy_options(&c, opts);
    status = status ? status : attn_layer_check(&c);
    if (status != ATTN_OK)
        return status;
    const int64_t held = c.opts.kv ? attn_kv_length(c.opts.kv) : 0;
    status = run_parts(&c);
    ctx->progress_span = 0;
    if (status != ATTN_OK && c.opts.kv && attn_kv_length(c.opts.kv) > held)
        attn_kv_forget(c.opts.kv, held);
    return status;
}

attn_status attn_layer_memory(attn_ctx *ctx, attn_kv *kv, const attn_layer *layer, const attn_tensor *memory)
{
    if (!ctx)
        return ATTN_E_ARG;
    attn_begin(ctx);
    if (!kv || !layer)
        return attn_fail(ctx, ATTN_E_ARG, "%s is NULL", kv ? "layer" : "kv");
    attn_layer_call c = {.ctx = ctx, .layer = layer, .x = memory, .steps = 3};
    attn_status status = attn_layer_check_memory_call(&c, kv);
    if (status != ATTN_OK)
        return status;
    const attn_mha_weights *w = layer->mha[CROSS];
    for (int pass = 0; status == ATTN_OK && pass < 2; pass++) { /* how much, then where */
        int64_t at = 0;
        status = place(&c, &c.k, c.rows, w->k.columns, &at);
        status = status ? status : place(&c, &c.v, c.rows, w->v.columns, &at);
        status = status ? status : attn_reserve(ctx, &ctx->temporary, at);
        c.base = (uintptr_t)ctx->temporary.data;
    }
    status = status ? status : project_memory(&c, w, memory);
    ctx->progress_span = 0;
    const attn_tensor k = heads_of(&c.k, w->kv_heads, w->dim), v = heads_of(&c.v, w->kv_heads, w->value_dim);
    return status ? status : attn_kv_append(ctx, kv, &k, &v);
}
