/* SPDX-License-Identifier: Apache-2.0 */
/* attn_mha: projections into heads, attention, the heads joined, the output projection. */
#include "mha_weights.h"

#include "../core/tensor.h"
#include "../kernels/convert.h"
#include "overlap.h"
#include "project.h"
#include <string.h>

/* -------------------------------------------------------------------- checks ---- */

typedef struct mha_call {
    attn_ctx *ctx;
    const attn_mha_weights *w;
    const attn_tensor *x, *memory, *memory_v;
    attn_tensor *out;
    attn_mha_opts opts;
    attn_sdpa_opts sdpa; /* a copy of opts.sdpa that is whole */
    int64_t items, rows, keys;
    uint32_t threads;       /* the most that a step ran on */
    attn_tensor q, k, v, z; /* the buffers of this call: [B,H,L,d] views, without B when x has rank 2 */
} mha_call;

static attn_status check_rows(const mha_call *c, const attn_tensor *t, const char *name, int64_t width, const char *of)
{
    char shape[ATTN_SHAPE_TEXT], x_shape[ATTN_SHAPE_TEXT];
    attn_status status = attn_check_tensor(c->ctx, t, name);
    if (status != ATTN_OK)
        return status;
    attn_shape_text(shape, t);
    if (!attn_dtype_is_float(t->dtype))
        return attn_fail(c->ctx, ATTN_E_DTYPE, "%s has dtype %s; f32, f64, f16 or bf16 is needed", name, attn_dtype_name(t->dtype));
    if (t->ndim < 2 || t->ndim > 3 || t->ndim != c->x->ndim)
        return attn_fail(c->ctx, ATTN_E_SHAPE, "%s has shape %s; [L,width] or [B,L,width] is needed, all of one rank (x has %s)", name,
                         shape, attn_shape_text(x_shape, c->x));
    if (t->shape[t->ndim - 1] != width)
        return attn_fail(c->ctx, ATTN_E_SHAPE, "%s %s has width %lld but %s %lld", name, shape, (long long)t->shape[t->ndim - 1], of,
                         (long long)width);
    if (t->ndim == 3 && t->shape[0] != c->x->shape[0])
        return attn_fail(c->ctx, ATTN_E_SHAPE, "%s %s has %lld batch items but x %s has %lld", name, shape, (long long)t->shape[0],
                         attn_shape_text(x_shape, c->x), (long long)c->x->shape[0]);
    return ATTN_OK;
}

static attn_status check_f64(const mha_call *c, const attn_tensor *t, const char *name)
{
    return t->dtype != ATTN_F64 || c->w->is_f64
               ? ATTN_OK
               : attn_fail(c->ctx, ATTN_E_DTYPE, "%s is f64 but the weights were prepared for f32; set ATTN_MHA_F64 in attn_mha_desc.flags",
                           name);
}

/* What the options of the attention inside name is checked again by attn_sdpa; here, so that its memory may be looked at. */
static attn_status check_named(const mha_call *c, const attn_named_list *list)
{
    attn_status status = ATTN_OK;
    for (int i = 0; status == ATTN_OK && i < list->n; i++)
        status = attn_check_tensor(c->ctx, list->item[i].t, list->item[i].name);
    return status;
}

static attn_status check_overlap(const mha_call *c)
{
    attn_named_list outputs = {.n = 0}, inputs = {.n = 0};
    attn_list_add(&outputs, c->out, "out");
    attn_list_add(&outputs, c->opts.q, "q");
    attn_list_add(&outputs, c->opts.k, "k");
    attn_list_add(&outputs, c->opts.v, "v");
    attn_list_add(&outputs, c->opts.z, "z");
    attn_list_outputs(&outputs, &c->sdpa);
    attn_list_add(&inputs, c->x, "x");
    attn_list_add(&inputs, c->memory, "memory");
    attn_list_add(&inputs, c->memory_v, "memory_v");
    attn_list_inputs(&inputs, &c->sdpa);
    attn_status status = check_named(c, &outputs);
    status = status ? status : check_named(c, &inputs);
    return status ? status : attn_check_apart(c->ctx, &outputs, &inputs);
}

static attn_status check_stage(const mha_call *c, const attn_tensor *t, const attn_tensor *like, const char *name)
{
    char got[ATTN_SHAPE_TEXT], want[ATTN_SHAPE_TEXT];
    if (!t)
        return ATTN_OK;
    attn_status status = attn_check_tensor(c->ctx, t, name);
    if (status != ATTN_OK)
        return status;
    if (t->dtype != like->dtype)
        return attn_fail(c->ctx, ATTN_E_DTYPE, "%s has dtype %s; %s is computed", name, attn_dtype_name(t->dtype),
                         attn_dtype_name(like->dtype));
    if (t->ndim != like->ndim || memcmp(t->shape, like->shape, (size_t)t->ndim * sizeof *t->shape))
        return attn_fail(c->ctx, ATTN_E_SHAPE, "%s has shape %s; %s is needed", name, attn_shape_text(got, t), attn_shape_text(want, like));
    return ATTN_OK;
}

static attn_status check_call(mha_call *c)
{
    const attn_mha_weights *w = c->w;
    if (c->opts.flags)
        return attn_fail(c->ctx, ATTN_E_ARG, "attn_mha_opts.flags is 0x%x; it must be 0", c->opts.flags);
    if (w->isa != c->ctx->isa)
        return attn_fail(c->ctx, ATTN_E_ARG,
                         "the weights were prepared for ISA level %s but the context runs %s; prepare them with this context", w->isa->name,
                         c->ctx->isa->name);
    if (c->sdpa.cu_seqlens_q || c->sdpa.cu_seqlens_k)
        return attn_fail(c->ctx, ATTN_E_UNSUPPORTED,
                         "packed input (cu_seqlens) is not defined for attn_mha; give a batch with kv_len and q_len");
    attn_status status = attn_check_tensor(c->ctx, c->x, "x");
    status = status ? status : check_rows(c, c->x, "x", w->q.terms, "w_q takes");
    status = status ? status : check_rows(c, c->memory, "memory", w->k.terms, "w_k takes");
    status = status ? status : check_rows(c, c->memory_v, "memory_v", w->v.terms, "w_v takes");
    status = status ? status : check_f64(c, c->x, "x");
    status = status ? status : check_f64(c, c->memory, "memory");
    status = status ? status : check_f64(c, c->memory_v, "memory_v");
    if (status != ATTN_OK)
        return status;
    int r = c->x->ndim - 2;
    c->items = r ? c->x->shape[0] : 1;
    c->rows = c->x->shape[r];
    c->keys = c->memory->shape[r];
    if (c->memory_v->shape[r] != c->keys)
        return attn_fail(c->ctx, ATTN_E_SHAPE, "memory has %lld rows and memory_v %lld; K and V are rows of the same keys",
                         (long long)c->keys, (long long)c->memory_v->shape[r]);
    status = check_rows(c, c->out, "out", w->o.packed ? w->o.columns : w->heads * w->value_dim,
                        w->o.packed ? "w_o gives" : "the joined heads have");
    if (status == ATTN_OK && c->out->shape[r] != c->rows)
        status = attn_fail(c->ctx, ATTN_E_SHAPE, "out has %lld rows but x has %lld", (long long)c->out->shape[r], (long long)c->rows);
    return status ? status : check_overlap(c);
}

/* ---------------------------------------------------------------------- call ---- */

/* A buffer [B,L,heads*dim] seen as [B,heads,L,dim]: the split into heads is this view (reshape, then transpose). */
static attn_tensor split_view(const mha_call *c, void *data, int64_t rows, int64_t heads, int64_t dim)
{
    static const int32_t batched[] = {0, 2, 1, 3}, alone[] = {1, 0, 2};
    const int64_t shape[] = {c->items, rows, heads, dim};
    int skip = c->x->ndim == 2;
    attn_tensor t = attn_tensor_of(data, c->w->is_f64 ? ATTN_F64 : ATTN_F32, 4 - skip, shape + skip);
    return attn_tensor_permute(&t, skip ? alone : batched);
}

/* A stage that was asked for is computed where it shall be if its heads lie side by side; else it is copied there in the end. */
static void place_in(attn_tensor *buffer, const attn_tensor *wanted)
{
    if (!wanted)
        return;
    const int h = wanted->ndim - 3;
    const int64_t heads = wanted->shape[h], dim = wanted->shape[h + 2];
    if (heads == 1 || dim == 1 || wanted->stride[h] == dim * wanted->stride[h + 2])
        *buffer = *wanted;
}

static attn_status place_buffers(mha_call *c)
{
    const attn_mha_weights *w = c->w;
    const int64_t size = w->is_f64 ? 8 : 4;
    int64_t q = 0, k = 0, v = 0, z = 0, all = 0;
    if (__builtin_mul_overflow(c->items * c->rows, w->heads * w->dim * size, &q) ||
        __builtin_mul_overflow(c->items * c->keys, w->kv_heads * w->dim * size, &k) ||
        __builtin_mul_overflow(c->items * c->keys, w->kv_heads * w->value_dim * size, &v) ||
        __builtin_mul_overflow(c->items * c->rows, w->heads * w->value_dim * size, &z) || __builtin_add_overflow(q, k, &all) ||
        __builtin_add_overflow(all, v, &all) || __builtin_add_overflow(all, z, &all))
        return attn_fail(c->ctx, ATTN_E_SHAPE, "x and the projections are too big: Q, K, V and the heads exceed 63 bits of bytes");
    attn_status status = attn_reserve(c->ctx, &c->ctx->temporary, all);
    if (status != ATTN_OK)
        return status;
    char *data = c->ctx->temporary.data;
    c->q = split_view(c, data, c->rows, w->heads, w->dim);
    c->k = split_view(c, data + q, c->keys, w->kv_heads, w->dim);
    c->v = split_view(c, data + q + k, c->keys, w->kv_heads, w->value_dim);
    c->z = split_view(c, data + q + k + v, c->rows, w->heads, w->value_dim);
    status = check_stage(c, c->opts.q, &c->q, "q");
    status = status ? status : check_stage(c, c->opts.k, &c->k, "k");
    status = status ? status : check_stage(c, c->opts.v, &c->v, "v");
    status = status ? status : check_stage(c, c->opts.z, &c->z, "z");
    if (status != ATTN_OK)
        return status;
    place_in(&c->q, c->opts.q);
    place_in(&c->k, c->opts.k);
    place_in(&c->v, c->opts.v);
    place_in(&c->z, c->opts.z);
    return ATTN_OK;
}

/* Rows [B,L,heads*dim] seen as the heads of `like` [B,heads,L,dim]. */
static attn_tensor heads_of(const attn_tensor *rows, const attn_tensor *like)
{
    const int r = rows->ndim - 2;
    attn_tensor t = *like;
    t.data = rows->data;
    t.dtype = rows->dtype;
    t.stride[0] = rows->stride[0]; /* of the batch, if there is one */
    t.stride[r] = like->shape[r + 2] * rows->stride[r + 1];
    t.stride[r + 1] = rows->stride[r];
    t.stride[r + 2] = rows->stride[r + 1];
    return t;
}

/* to and from have one shape. */
static void copy_tensor(const attn_tensor *to, const attn_tensor *from)
{
    if (!to || to->data == from->data)
        return;
    int64_t index[ATTN_MAX_DIMS] = {0};
    for (int64_t n = attn_tensor_count(to); n > 0; n--) {
        int64_t a = 0, b = 0;
        for (int i = 0; i < to->ndim; i++) {
            a += index[i] * to->stride[i];
            b += index[i] * from->stride[i];
        }
        attn_store_float(to->data, to->dtype, a, attn_load_float(from->data, from->dtype, b));
        for (int i = to->ndim - 1; i >= 0 && ++index[i] == to->shape[i]; i--)
            index[i] = 0;
    }
}

/* Q, K, V, attention and W_O are the five steps of a call: for the progress hook, and for the threads that are reported. */
static attn_status next_step(mha_call *c, int step, attn_status status)
{
    attn_ctx *ctx = c->ctx;
    ctx->progress_from = step / 5.0;
    ctx->progress_span = 1 / 5.0;
    c->threads = step > 0 && ctx->info.threads > c->threads ? ctx->info.threads : c->threads;
    return status;
}

/* Q, K and V: what is made of the same rows, in one pass over them. */
static attn_status project_heads(mha_call *c)
{
    const attn_mha_weights *w = c->w;
    const attn_matrix *const matrix[] = {&w->q, &w->k, &w->v};
    const attn_tensor *const from[] = {c->x, c->memory, c->memory_v}, *const heads[] = {&c->q, &c->k, &c->v};
    attn_status status = ATTN_OK;
    for (int first = 0, end; status == ATTN_OK && first < 3; first = end) {
        attn_projection p = {.is_f64 = w->is_f64, .from = attn_rows_of(from[first])};
        for (end = first; end < 3 && from[end] == from[first]; end++, p.n++) {
            p.product[p.n].w = matrix[end];
            p.product[p.n].to = attn_rows_of_heads(heads[end]);
        }
        next_step(c, first, ATTN_OK);
        c->ctx->progress_span = (end - first) / 5.0;
        status = next_step(c, end, attn_project_all(c->ctx, &p));
    }
    return status;
}

static attn_status run_call(mha_call *c)
{
    const attn_mha_weights *w = c->w;
    attn_status status = next_step(c, 0, place_buffers(c));
    status = status ? status : project_heads(c);
    status = status ? status : next_step(c, 4, attn_sdpa(c->ctx, &c->z, &c->q, &c->k, &c->v, &c->sdpa));
    if (status != ATTN_OK)
        return status;
    const attn_tensor out = heads_of(c->out, &c->z);
    if (w->o.packed)
        status = next_step(c, 5, attn_project(c->ctx, &w->o, w->is_f64, attn_rows_of_heads(&c->z), attn_rows_of(c->out)));
    else
        copy_tensor(&out, &c->z);
    c->ctx->info.threads = c->threads;
    copy_tensor(c->opts.q, &c->q);
    copy_tensor(c->opts.k, &c->k);
    copy_tensor(c->opts.v, &c->v);
    copy_tensor(c->opts.z, &c->z);
    return status;
}

attn_status attn_mha(attn_ctx *ctx, attn_tensor *out, const attn_mha_weights *w, const attn_tensor *x, const attn_tensor *memory,
                     const attn_tensor *memory_v, const attn_mha_opts *opts)
{
    mha_call c = {.ctx = ctx, .w = w, .x = x, .memory = memory ? memory : x, .out = out};
    if (!ctx)
        return ATTN_E_ARG;
    attn_begin(ctx);
    if (!w || !x || !out)
        return attn_fail(ctx, ATTN_E_ARG, "%s is NULL", !w ? "w" : !x ? "x" : "out");
    c.memory_v = memory_v ? memory_v : c.memory;
    attn_status status = attn_copy_struct(ctx, &c.opts, sizeof c.opts, opts, "attn_mha_opts");
    status = status ? status : attn_copy_struct(ctx, &c.sdpa, sizeof c.sdpa, c.opts.sdpa, "attn_sdpa_opts");
    c.sdpa.struct_size = sizeof c.sdpa;
    status = status ? status : check_call(&c);
    status = status ? status : run_call(&c);
    ctx->progress_span = 0;
    return status;
}
