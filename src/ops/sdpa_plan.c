/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of the tensors of attn_sdpa: dtypes, ranks, shapes, sizes, overlap; and the kernel jobs that follow. */
#include "sdpa_plan.h"

#include "../core/tensor.h"
#include "overlap.h"
#include <math.h>
#include <string.h>

enum { MAX_DIM = 1 << 20 }; /* head_dim up to which the tiles of a thread stay below some GiB */

attn_status attn_check_tensor(attn_ctx *ctx, const attn_tensor *t, const char *name)
{
    char shape[ATTN_SHAPE_TEXT];
    if (!t)
        return attn_fail(ctx, ATTN_E_ARG, "%s is NULL", name);
    if (!attn_dtype_size(t->dtype))
        return attn_fail(ctx, ATTN_E_DTYPE, "%s has dtype %d, which is no attn_dtype", name, (int)t->dtype);
    if (t->ndim < 0 || t->ndim > ATTN_MAX_DIMS)
        return attn_fail(ctx, ATTN_E_SHAPE, "%s has %d axes; a tensor has 0 to %d", name, t->ndim, ATTN_MAX_DIMS);
    for (int i = 0; i < t->ndim; i++)
        if (t->shape[i] < 0)
            return attn_fail(ctx, ATTN_E_SHAPE, "%s %s has a negative size in axis %d", name, attn_shape_text(shape, t), i);
    if (!attn_tensor_fits(t))
        return attn_fail(ctx, ATTN_E_SHAPE, "%s %s of %s is too big: its bytes or strides exceed 63 bits", name, attn_shape_text(shape, t),
                         attn_dtype_name(t->dtype));
    if (!t->data && !attn_tensor_is_empty(t))
        return attn_fail(ctx, ATTN_E_ARG, "%s %s has no data (NULL)", name, attn_shape_text(shape, t));
    return ATTN_OK;
}

attn_view attn_bind(const attn_tensor *t, const int *axes)
{
    /* An empty tensor may have NULL data; the view must still count as present. Nothing of it is ever read. */
    static char nothing;
    attn_view v = {.data = t->data ? t->data : &nothing, .dtype = t->dtype};
    for (int i = 0; i < t->ndim && !attn_tensor_is_empty(t); i++)
        v.stride[axes[i]] = t->shape[i] == 1 ? 0 : t->stride[i];
    return v;
}

/* The axes of a tensor of Q, K or V's kind: rank 2 (row, column), 3 with heads, 4 with items; packed: (row, head, column). */
static const int plain_axes[] = {ITEM, HEAD, ROW, COLUMN}, packed_axes[] = {ROW, HEAD, COLUMN};

static attn_view bind_main(const attn_plan *p, const attn_tensor *t)
{
    return attn_bind(t, p->is_packed ? packed_axes : plain_axes + (AXES - t->ndim));
}

/* The size along one of the four axes; 1 where the tensor lacks it. */
static int64_t size_along(const attn_plan *p, const attn_tensor *t, int axis)
{
    if (p->is_packed)
        return axis == ITEM ? 1 : t->shape[axis == ROW ? 0 : axis == HEAD ? 1 : 2];
    int i = axis - (AXES - t->ndim);
    return i < 0 ? 1 : t->shape[i];
}

static attn_status check_main(attn_ctx *ctx, const attn_plan *p, const attn_tensor *t, const char *name, int32_t rank)
{
    char shape[ATTN_SHAPE_TEXT];
    attn_status status = attn_check_tensor(ctx, t, name);
    if (status != ATTN_OK)
        return status;
    if (!attn_dtype_is_float(t->dtype))
        return attn_fail(ctx, ATTN_E_DTYPE, "%s has dtype %s; f32, f64, f16 or bf16 is needed", name, attn_dtype_name(t->dtype));
    if (p->is_packed && t->ndim != 3)
        return attn_fail(ctx, ATTN_E_SHAPE, "%s %s has %d axes; packed input (cu_seqlens) needs 3: [rows of all sequences, heads, columns]",
                         name, attn_shape_text(shape, t), t->ndim);
    if (t->ndim < 2 || t->ndim > AXES)
        return attn_fail(ctx, ATTN_E_SHAPE, "%s %s has %d axes; 2 [L,d], 3 [H,L,d] or 4 [B,H,L,d] are possible", name,
                         attn_shape_text(shape, t), t->ndim);
    if (t->ndim != rank)
        return attn_fail(ctx, ATTN_E_SHAPE, "%s %s has %d axes but q has %d; q, k, v and out need the same number", name,
                         attn_shape_text(shape, t), t->ndim, rank);
    return ATTN_OK;
}

/* Do two tensors agree along an axis? */
static attn_status check_same(attn_ctx *ctx, const attn_plan *p, const attn_tensor *a, const char *a_name, const attn_tensor *b,
                              const char *b_name, int axis, const char *what, const char *remedy)
{
    char a_shape[ATTN_SHAPE_TEXT], b_shape[ATTN_SHAPE_TEXT];
    int64_t x = size_along(p, a, axis), y = size_along(p, b, axis);
    if (x == y)
        return ATTN_OK;
    return attn_fail(ctx, ATTN_E_SHAPE, "%s %s has %lld %s but %s %s has %lld; %s", b_name, attn_shape_text(b_shape, b), (long long)y, what,
                     a_name, attn_shape_text(a_shape, a), (long long)x, remedy);
}

static attn_status check_heads(attn_ctx *ctx, const attn_plan *p, const attn_tensor *q, const attn_tensor *k)
{
    char q_shape[ATTN_SHAPE_TEXT], k_shape[ATTN_SHAPE_TEXT];
    if (p->heads == 0 ? p->kv_heads == 0 : p->kv_heads && p->heads % p->kv_heads == 0)
        return ATTN_OK;
    return attn_fail(ctx, ATTN_E_SHAPE,
                     "q %s has %lld heads and k %s has %lld; the query heads must be a multiple of the KV heads that they share",
                     attn_shape_text(q_shape, q), (long long)p->heads, attn_shape_text(k_shape, k), (long long)p->kv_heads);
}

static attn_status check_shapes(attn_ctx *ctx, attn_plan *p, const attn_tensor *out, const attn_tensor *q, const attn_tensor *k,
                                const attn_tensor *v)
{
    char shape[ATTN_SHAPE_TEXT];
    const char *spread = "batch sizes must be equal (spread one by stride 0)";
    const char *one_cache = "K and V are rows of the same keys";
    p->items = size_along(p, q, ITEM);
    p->heads = size_along(p, q, HEAD);
    p->kv_heads = size_along(p, k, HEAD);
    p->rows = size_along(p, q, ROW);
    p->keys = size_along(p, k, ROW);
    p->dim = size_along(p, q, COLUMN);
    p->value_dim = size_along(p, v, COLUMN);
    attn_status status = check_same(ctx, p, q, "q", k, "k", ITEM, "batch items", spread);
    status = status ? status : check_same(ctx, p, q, "q", v, "v", ITEM, "batch items", spread);
    status = status ? status : check_same(ctx, p, q, "q", k, "k", COLUMN, "columns (head_dim)", "Q K^T needs the same head_dim");
    status = status ? status : check_same(ctx, p, k, "k", v, "v", HEAD, "heads", one_cache);
    status = status ? status : check_same(ctx, p, k, "k", v, "v", ROW, "rows (keys)", one_cache);
    status = status ? status : check_heads(ctx, p, q, k);
    if (status == ATTN_OK && (p->dim < 1 || p->dim > MAX_DIM || p->value_dim > MAX_DIM))
        return attn_fail(ctx, ATTN_E_SHAPE, "%s %s has head_dim %lld; it must be from 1 to %d", p->dim < 1 || p->dim > MAX_DIM ? "q" : "v",
                         attn_shape_text(shape, p->dim < 1 || p->dim > MAX_DIM ? q : v),
                         (long long)(p->dim < 1 || p->dim > MAX_DIM ? p->dim : p->value_dim), MAX_DIM);
    if (status != ATTN_OK || !out)
        return status;
    const char *rule = "the output is [B,H,Lq,d_v] in the rank of q";
    status = check_same(ctx, p, q, "q", out, "out", ITEM, "batch items", rule);
    status = status ? status : check_same(ctx, p, q, "q", out, "out", HEAD, "heads", rule);
    status = status ? status : check_same(ctx, p, q, "q", out, "out", ROW, "rows", rule);
    return status ? status : check_same(ctx, p, v, "v", out, "out", COLUMN, "columns", rule);
}

attn_status attn_bind_output(attn_ctx *ctx, attn_view *view, const attn_plan *p, const attn_tensor *t, const char *name, int n,
                             const int *axes)
{
    char got[ATTN_SHAPE_TEXT], want[ATTN_SHAPE_TEXT];
    const int64_t sizes[AXES] = {p->items, p->heads, p->rows, p->keys};
    if (!t)
        return ATTN_OK;
    attn_tensor wanted = {.ndim = n};
    for (int i = 0; i < n; i++)
        wanted.shape[i] = sizes[axes[i]];
    attn_status status = attn_check_tensor(ctx, t, name);
    if (status != ATTN_OK)
        return status;
    if (t->dtype != (p->is_f64 ? ATTN_F64 : ATTN_F32))
        return attn_fail(ctx, ATTN_E_DTYPE, "%s has dtype %s; it is written as %s, in which q, k and v are computed", name,
                         attn_dtype_name(t->dtype), p->is_f64 ? "f64" : "f32");
    if (t->ndim != n || memcmp(t->shape, wanted.shape, (size_t)n * sizeof *t->shape))
        return attn_fail(ctx, ATTN_E_SHAPE, "%s has shape %s; %s is needed", name, attn_shape_text(got, t), attn_shape_text(want, &wanted));
    *view = attn_bind(t, axes);
    return ATTN_OK;
}

static attn_status check_overlap(attn_ctx *ctx, const attn_plan *p, const attn_tensor *out, const attn_tensor *q, const attn_tensor *k,
                                 const attn_tensor *v)
{
    attn_named_list outputs = {.n = 0}, inputs = {.n = 0};
    attn_list_add(&outputs, out, "out");
    attn_list_outputs(&outputs, &p->opts);
    attn_list_add(&inputs, q, "q");
    attn_list_add(&inputs, k, "k");
    attn_list_add(&inputs, v, "v");
    attn_list_inputs(&inputs, &p->opts);
    return attn_check_apart(ctx, &outputs, &inputs);
}

/* --------------------------------------------------------------------- plan ---- */

attn_status attn_plan_make(attn_ctx *ctx, attn_plan *p, const attn_tensor *out, const attn_tensor *q, const attn_tensor *k,
                           const attn_tensor *v, const attn_sdpa_opts *opts)
{
    *p = (attn_plan){0};
    attn_status status = attn_copy_struct(ctx, &p->opts, sizeof p->opts, opts, "attn_sdpa_opts");
    p->is_packed = p->opts.cu_seqlens_q || p->opts.cu_seqlens_k;
    status = status ? status : check_main(ctx, p, q, "q", q ? q->ndim : 0);
    status = status ? status : check_main(ctx, p, k, "k", q->ndim);
    status = status ? status : check_main(ctx, p, v, "v", q->ndim);
    if (status == ATTN_OK && out)
        status = check_main(ctx, p, out, "out", q->ndim);
    status = status ? status : check_shapes(ctx, p, out, q, k, v);
    if (status != ATTN_OK)
        return status;
    p->is_f64 = q->dtype == ATTN_F64 || k->dtype == ATTN_F64 || v->dtype == ATTN_F64;
    p->group = p->kv_heads ? p->heads / p->kv_heads : 1;
    p->q = bind_main(p, q);
    p->k = bind_main(p, k);
    p->v = bind_main(p, v);
    if (out)
        p->out = bind_main(p, out);
    status = attn_plan_options(ctx, p, q->ndim);
    return status ? status : check_overlap(ctx, p, out, q, k, v);
}

const attn_kernels *attn_plan_kernels(attn_ctx *ctx, const attn_plan *p)
{
    const int is_bf16 = p->q.dtype == ATTN_BF16 && p->k.dtype == ATTN_BF16 && p->v.dtype == ATTN_BF16 && p->out.dtype == ATTN_BF16;
    const int of_pairs = is_bf16 && ctx->isa->bf16;
    ctx->info.path = p->is_f64 ? "tiled f64" : of_pairs ? "tiled bf16" : "tiled f32";
    return p->is_f64 ? ctx->isa->f64 : of_pairs ? ctx->isa->bf16 : ctx->isa->f32;
}

/* The rows of a view, if present, that belong to one KV head of one item: columns run along COLUMN. */
static void find_rows(attn_rows *rows, const attn_view *v, int64_t item, int64_t head, int64_t row)
{
    if (!v->data)
        return;
    const int64_t at = item * v->stride[ITEM] + head * v->stride[HEAD] + row * v->stride[ROW];
    *rows = (attn_rows){.data = (char *)v->data + at * (int64_t)attn_dtype_size(v->dtype),
                        .dtype = v->dtype,
                        .position = v->stride[ROW],
                        .head = v->stride[HEAD],
                        .column = v->stride[COLUMN]};
}

void attn_plan_job(attn_sdpa_job *j, const attn_plan *p, int64_t item, int64_t kv_head)
{
    const attn_sdpa_opts *o = &p->opts;
    const attn_item at = attn_plan_item(p, item);
    const int64_t head = kv_head * p->group, entry = p->is_packed ? 0 : item, row = at.first_row;
    *j = (attn_sdpa_job){.heads = p->group,
                         .positions = at.rows,
                         .n_keys = at.keys,
                         .dim = p->dim,
                         .value_dim = p->value_dim,
                         .any_order = (o->flags & ATTN_RELAXED) != 0 && at.rows <= ATTN_FREE_POSITIONS,
                         .scale = p->scale,
                         .softcap = o->softcap,
                         .offset = at.offset,
                         .left = p->left,
                         .right = p->right,
                         .kv_len = at.kv_len,
                         .q_len = at.q_len,
                         .keep_drops = (o->flags & ATTN_MASK_DROP) != 0,
                         .slopes = p->slopes ? p->slopes + (p->slopes_per_item ? item * p->heads : 0) + head : NULL,
                         .sinks = p->sinks ? p->sinks + head : NULL,
                         .drops_out = o->dropout > 0,
                         .dropout = o->dropout,
                         .seed = o->seed,
                         .drop_batch = o->first_batch + item,
                         .drop_head = o->first_head + head,
                         .drop_row = o->first_row,
                         .average = o->flags & ATTN_AVERAGE ? 1.0 / (double)(p->heads ? p->heads : 1) : 0};
    find_rows(&j->q, &p->q, entry, head, row);
    find_rows(&j->k, &p->k, entry, kv_head, at.first_key);
    find_rows(&j->v, &p->v, entry, kv_head, at.first_key);
    find_rows(&j->out, &p->out, entry, head, row);
    find_rows(&j->keep, &p->keep, entry, head, row);
    for (int i = 0; i < ATTN_MAX_ADDED; i++)
        find_rows(&j->added[i], &p->added[i], entry, head, row);
    find_rows(&j->dropout_keep, &p->dropout_keep, entry, head, row);
    find_rows(&j->lse, &p->lse, entry, head, row);
    find_rows(&j->row_max, &p->row_max, entry, head, row);
    find_rows(&j->entropy, &p->entropy, entry, head, row);
    find_rows(&j->scores, &p->scores, entry, head, row);
    find_rows(&j->scaled, &p->scaled, entry, head, row);
    find_rows(&j->capped, &p->capped, entry, head, row);
    find_rows(&j->masked, &p->masked, entry, head, row);
    find_rows(&j->weights, &p->weights, entry, head, row);
    find_rows(&j->mass, &p->mass, entry, head, 0);
    if (j->mass.data)
        j->mass.data = (char *)j->mass.data + at.first_key * j->mass.column * (int64_t)attn_dtype_size(j->mass.dtype);
}
