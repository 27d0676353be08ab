/* SPDX-License-Identifier: Apache-2.0 */
/* The KV cache: [B,Hkv,capacity,d] of K and V, filled from the front. */
#include "../core/ctx.h"
#include "../core/tensor.h"
#include "../kernels/convert.h"
#include "kv.h"
#include "sdpa_plan.h"
#include <string.h>

struct attn_kv {
    attn_tensor k, v; /* of the whole capacity, rank 4 */
    int64_t length;
    void (*free)(void *user, void *p);
    void *user;
};

static attn_status check_desc(attn_ctx *ctx, const attn_kv_desc *d)
{
    if (!attn_dtype_is_float(d->dtype))
        return attn_fail(ctx, ATTN_E_DTYPE, "attn_kv_desc.dtype is %d; f32, f16, bf16 or f64 is needed", (int)d->dtype);
    if (d->batch < 1 || d->kv_heads < 1 || d->head_dim < 1 || d->value_dim < 1 || d->capacity < 0)
        return attn_fail(ctx, ATTN_E_ARG,
                         "attn_kv_desc has batch %lld, kv_heads %lld, capacity %lld, head_dim %lld, value_dim %lld; all must be positive "
                         "(capacity may be 0)",
                         (long long)d->batch, (long long)d->kv_heads, (long long)d->capacity, (long long)d->head_dim,
                         (long long)d->value_dim);
    return ATTN_OK;
}

attn_status attn_kv_create(attn_ctx *ctx, attn_kv **out, const attn_kv_desc *desc)
{
    attn_kv_desc d;
    if (!ctx)
        return ATTN_E_ARG;
    attn_begin(ctx);
    if (!out || !desc)
        return attn_fail(ctx, ATTN_E_ARG, "%s is NULL", out ? "desc" : "out");
    *out = NULL;
    attn_status status = attn_copy_struct(ctx, &d, sizeof d, desc, "attn_kv_desc");
    d.dtype = d.dtype ? d.dtype : ATTN_F32;
    d.batch = d.batch ? d.batch : 1;
    d.value_dim = d.value_dim ? d.value_dim : d.head_dim;
    status = status ? status : check_desc(ctx, &d);
    if (status != ATTN_OK)
        return status;
    attn_kv draft = {.k = attn_tensor_of(NULL, d.dtype, 4, (const int64_t[]){d.batch, d.kv_heads, d.capacity, d.head_dim}),
                     .v = attn_tensor_of(NULL, d.dtype, 4, (const int64_t[]){d.batch, d.kv_heads, d.capacity, d.value_dim}),
                     .free = ctx->free,
                     .user = ctx->user};
    if (!attn_tensor_fits(&draft.k) || !attn_tensor_fits(&draft.v))
        return attn_fail(ctx, ATTN_E_SHAPE, "a cache of %lld x %lld x %lld rows of %lld exceeds 63 bits", (long long)d.batch,
                         (long long)d.kv_heads, (long long)d.capacity, (long long)d.head_dim);
    attn_kv *kv = attn_alloc(ctx, sizeof *kv);
    const int64_t size = (int64_t)attn_dtype_size(d.dtype);
    draft.k.data = kv ? attn_alloc(ctx, attn_tensor_count(&draft.k) * size) : NULL;
    draft.v.data = draft.k.data ? attn_alloc(ctx, attn_tensor_count(&draft.v) * size) : NULL;
    if (!draft.v.data) {
        attn_free(ctx, draft.k.data);
        attn_free(ctx, kv);
        return attn_fail(ctx, ATTN_E_NOMEM, "out of memory: a cache of %lld x %lld x %lld rows was refused", (long long)d.batch,
                         (long long)d.kv_heads, (long long)d.capacity);
    }
    *kv = draft;
    *out = kv;
    return ATTN_OK;
}

void attn_kv_destroy(attn_kv *kv)
{
    if (!kv)
        return;
    kv->free(kv->user, kv->k.data);
    kv->free(kv->user, kv->v.data);
    kv->free(kv->user, kv);
}

int64_t attn_kv_length(const attn_kv *kv) { return kv->length; }
int64_t attn_kv_capacity(const attn_kv *kv) { return kv->k.shape[2]; }

void attn_kv_view(const attn_kv *kv, attn_tensor *k, attn_tensor *v)
{
    *k = kv->k;
    *v = kv->v;
    k->shape[2] = v->shape[2] = kv->length;
}

/* Rank 4, or rank 3 when the cache has one item, as rank 4. */
static attn_tensor with_batch(const attn_tensor *t)
{
    attn_tensor r = *t;
    if (t->ndim != 3)
        return r;
    r.ndim = 4;
    r.shape[0] = 1;
    r.stride[0] = 0;
    for (int i = 0; i < 3; i++) {
        r.shape[i + 1] = t->shape[i];
        r.stride[i + 1] = t->stride[i];
    }
    return r;
}

/* Are these rows for that part of the cache? Fills *rows with their rank-4 view. */
static attn_status check_rows(attn_ctx *ctx, const attn_tensor *cache, const attn_tensor *t, const char *name, attn_tensor *rows)
{
    char shape[ATTN_SHAPE_TEXT];
    attn_status status = attn_check_tensor(ctx, t, name);
    if (status != ATTN_OK)
        return status;
    if (!attn_dtype_is_float(t->dtype))
        return attn_fail(ctx, ATTN_E_DTYPE, "%s has dtype %s; f32, f64, f16 or bf16 is needed", name, attn_dtype_name(t->dtype));
    *rows = with_batch(t);
    if (rows->ndim != 4 || rows->shape[0] != cache->shape[0] || rows->shape[1] != cache->shape[1] || rows->shape[3] != cache->shape[3])
        return attn_fail(ctx, ATTN_E_SHAPE, "%s has shape %s; the cache takes [%lld,%lld,n,%lld]%s", name, attn_shape_text(shape, t),
                         (long long)cache->shape[0], (long long)cache->shape[1], (long long)cache->shape[3],
                         cache->shape[0] == 1 ? ", or the same without the first axis" : "");
    return ATTN_OK;
}

/* n elements; a row that is stored as the cache is copied as it is. */
static void copy_row(const attn_tensor *cache, int64_t to, const attn_tensor *rows, int64_t from, int64_t n)
{
    const int64_t step = rows->stride[3], size = (int64_t)attn_dtype_size(cache->dtype);
    if (rows->dtype == cache->dtype && step == 1)
        memcpy((char *)cache->data + to * size, (const char *)rows->data + from * size, (size_t)(n * size));
    else
        for (int64_t c = 0; c < n; c++)
            attn_store_float(cache->data, cache->dtype, to + c, attn_load_float(rows->data, rows->dtype, from + c * step));
}

static void copy_rows(const attn_tensor *cache, int64_t at, const attn_tensor *rows)
{
    for (int64_t b = 0; b < rows->shape[0]; b++)
        for (int64_t h = 0; h < rows->shape[1]; h++)
            for (int64_t i = 0; i < rows->shape[2]; i++)
                copy_row(cache, b * cache->stride[0] + h * cache->stride[1] + (at + i) * cache->stride[2], rows,
                         b * rows->stride[0] + h * rows->stride[1] + i * rows->stride[2], rows->shape[3]);
}

attn_status attn_kv_append(attn_ctx *ctx, attn_kv *kv, const attn_tensor *k, const attn_tensor *v)
{
    attn_tensor k_rows, v_rows;
    if (!ctx)
        return ATTN_E_ARG;
    attn_begin(ctx);
    if (!kv)
        return attn_fail(ctx, ATTN_E_ARG, "kv is NULL");
    attn_status status = check_rows(ctx, &kv->k, k, "k", &k_rows);
    status = status ? status : check_rows(ctx, &kv->v, v, "v", &v_rows);
    if (status != ATTN_OK)
        return status;
    const int64_t n = k_rows.shape[2], room = attn_kv_capacity(kv) - kv->length;
    if (v_rows.shape[2] != n)
        return attn_fail(ctx, ATTN_E_SHAPE, "k has %lld rows and v has %lld; they must be equal", (long long)n, (long long)v_rows.shape[2]);
    if (n > room)
        return attn_fail(ctx, ATTN_E_FULL,
                         "the cache holds %lld of %lld rows and has no room for %lld more; make a greater one or truncate it",
                         (long long)kv->length, (long long)attn_kv_capacity(kv), (long long)n);
    copy_rows(&kv->k, kv->length, &k_rows);
    copy_rows(&kv->v, kv->length, &v_rows);
    kv->length += n;
    return ATTN_OK;
}

void attn_kv_forget(attn_kv *kv, int64_t length) { kv->length = length; }

attn_status attn_kv_truncate(attn_ctx *ctx, attn_kv *kv, int64_t length)
{
    if (!ctx)
        return ATTN_E_ARG;
    attn_begin(ctx);
    if (!kv)
        return attn_fail(ctx, ATTN_E_ARG, "kv is NULL");
    if (length < 0 || length > kv->length)
        return attn_fail(ctx, ATTN_E_ARG, "length is %lld; it must be from 0 to the %lld rows that the cache holds", (long long)length,
                         (long long)kv->length);
    kv->length = length;
    return ATTN_OK;
}

attn_status attn_kv_attend(attn_ctx *ctx, const attn_kv *kv, attn_tensor *out, const attn_tensor *q, const attn_sdpa_opts *opts)
{
    attn_sdpa_opts o;
    attn_tensor k, v;
    if (!ctx)
        return ATTN_E_ARG;
    attn_begin(ctx);
    if (!kv)
        return attn_fail(ctx, ATTN_E_ARG, "kv is NULL");
    attn_status status = attn_copy_struct(ctx, &o, sizeof o, opts, "attn_sdpa_opts");
    status = status ? status : attn_check_tensor(ctx, q, "q");
    if (status != ATTN_OK)
        return status;
    if (o.align != ATTN_ALIGN_DEFAULT || (o.flags & ATTN_OFFSET) || o.offsets)
        return attn_fail(ctx, ATTN_E_ARG, "align and offset are set by attn_kv_attend: the rows of q are the last positions of the cache");
    if (o.cu_seqlens_q || o.cu_seqlens_k)
        return attn_fail(ctx, ATTN_E_UNSUPPORTED, "packed input (cu_seqlens) is not defined for attn_kv_attend; q is [B,H,Lq,d]");
    if (q->ndim != 4 && !(q->ndim == 3 && kv->k.shape[0] == 1))
        return attn_fail(ctx, ATTN_E_SHAPE, "q has %d axes; [B,H,Lq,d] is needed, or [H,Lq,d] with a cache of one item", q->ndim);
    const int64_t rows = q->shape[q->ndim - 2];
    if (rows > kv->length)
        return attn_fail(ctx, ATTN_E_SHAPE, "q has %lld rows but the cache holds %lld; append the keys of all rows first", (long long)rows,
                         (long long)kv->length);
    attn_kv_view(kv, &k, &v);
    if (q->ndim == 3) {
        k = attn_tensor_permute(&k, (const int32_t[]){1, 2, 3, 0});
        v = attn_tensor_permute(&v, (const int32_t[]){1, 2, 3, 0});
        k.ndim = v.ndim = 3;
    }
    o.struct_size = sizeof o;
    o.flags |= ATTN_CAUSAL | ATTN_OFFSET;
    o.offset = kv->length - rows;
    return attn_sdpa(ctx, out, q, &k, &v, &o);
}
