/* SPDX-License-Identifier: Apache-2.0 */
/* Any sequence of calls on a KV cache: its length is what was appended and kept, what it holds is what was given, and attn_kv_attend has
   the bits of attn_sdpa over its view. */
#include "fuzz_program.h"

enum { MOST_CALLS = 32 };

typedef struct cache {
    attn_kv *kv;
    shapes s; /* Lk is the length that it should have; Lq is that of the rows of a call */
    attn_dtype dtype;
} cache;

/* The rows of a call, of rank 3 now and then when there is one item. */
static attn_tensor *call_rows(program *p, shapes *s, int64_t heads, int64_t columns)
{
    s->ndim = s->B == 1 && chance(p, 3) ? 3 : 4;
    return rows(p, s, heads, s->Lq, columns);
}

/* Rows of the cache's own dtype are held as they are: the last n of each head of view (whose rows have a stride) are those of t. */
static void check_held(const cache *c, const attn_tensor *view, const attn_tensor *t)
{
    const int64_t n = t->shape[t->ndim - 2], width = view->shape[3], item = (int64_t)attn_dtype_size(c->dtype);
    if (t->dtype != c->dtype || n == 0)
        return;
    for (int64_t b = 0; b < view->shape[0]; b++)
        for (int64_t h = 0; h < view->shape[1]; h++)
            for (int64_t i = 0; i < n; i++) {
                const int64_t at = b * view->stride[0] + h * view->stride[1] + (view->shape[2] - n + i) * view->stride[2];
                const int64_t from = ((b * view->shape[1] + h) * n + i) * width;
                require(!memcmp((const char *)view->data + at * item, (const char *)t->data + from * item, (size_t)(width * item)));
            }
}

static void append(program *p, attn_ctx *ctx, cache *c)
{
    attn_tensor k_view, v_view;
    c->s.Lq = chance(p, 9) ? size(p) : byte(p) % 5;
    const attn_tensor *k = call_rows(p, &c->s, c->s.Hkv, c->s.d), *v = call_rows(p, &c->s, c->s.Hkv, c->s.d_v);
    const attn_status s = attn_kv_append(ctx, c->kv, k, v);
    if (s == ATTN_E_FULL)
        require(c->s.Lk + k->shape[k->ndim - 2] > attn_kv_capacity(c->kv));
    if (!is_done(ctx, s))
        return;
    c->s.Lk += k->shape[k->ndim - 2];
    attn_kv_view(c->kv, &k_view, &v_view);
    check_held(c, &k_view, k);
    check_held(c, &v_view, v);
}

static void truncate_to(program *p, attn_ctx *ctx, cache *c)
{
    const int64_t length = chance(p, 5) ? size(p) : byte(p) % (c->s.Lk + 1);
    const int is_valid = length >= 0 && length <= c->s.Lk;
    require(is_done(ctx, attn_kv_truncate(ctx, c->kv, length)) == is_valid);
    c->s.Lk = is_valid ? length : c->s.Lk;
}

/* A view without the batch axis. */
static attn_tensor first_item(const attn_tensor *t)
{
    attn_tensor r = attn_tensor_permute(t, (const int32_t[]){ 1, 2, 3, 0 });
    r.ndim = 3;
    return r;
}

static void attend(program *p, attn_ctx *ctx, cache *c)
{
    attn_tensor k, v;
    c->s.Lq = chance(p, 9) ? size(p) : byte(p) % (c->s.Lk + 1);
    c->s.H = product(c->s.Hkv, byte(p) % 4);
    const attn_tensor *q = call_rows(p, &c->s, c->s.H, c->s.d);
    attn_tensor *out = rows(p, &c->s, c->s.H, c->s.Lq, c->s.d_v);
    attn_sdpa_opts o = any_options(p, &c->s);
    if (!chance(p, 8)) {
        o.align = ATTN_ALIGN_DEFAULT;
        o.flags &= ~(uint32_t)ATTN_OFFSET;
        o.offsets = o.cu_seqlens_q = o.cu_seqlens_k = NULL;
    }
    if (!is_done(ctx, attn_kv_attend(ctx, c->kv, out, q, &o)))
        return;
    attn_kv_view(c->kv, &k, &v);
    if (q->ndim == 3) {
        k = first_item(&k);
        v = first_item(&v);
    }
    o.flags |= ATTN_CAUSAL | ATTN_OFFSET;
    o.offset = c->s.Lk - q->shape[q->ndim - 2];
    const attn_tensor *const outputs[] = { out, o.lse, o.weights, o.masked };
    char *attended[4] = { NULL };
    size_t bytes[4];
    for (int i = 0; i < 4; i++)
        if (outputs[i])
            attended[i] = copy_of(outputs[i], &bytes[i]);
    require(is_done(ctx, attn_sdpa(ctx, out, q, &k, &v, &o)));
    for (int i = 0; i < 4; i++) {
        require(!outputs[i] || has_bytes(outputs[i], attended[i], bytes[i]));
        free(attended[i]);
    }
}

static void run(program *p, attn_ctx *ctx)
{
    attn_kv_desc d = { .dtype = chance(p, 5) ? (attn_dtype)(byte(p) % 15) : any_float(p), .batch = size(p), .kv_heads = size(p),
                       .capacity = chance(p, 3) ? size(p) : byte(p), .head_dim = size(p), .value_dim = size(p) };
    cache c = { .kv = NULL };
    if (!is_done(ctx, attn_kv_create(ctx, &c.kv, &d)))
        return;
    c.dtype = d.dtype ? d.dtype : ATTN_F32;
    c.s = (shapes){ .B = d.batch ? d.batch : 1, .Hkv = d.kv_heads, .d = d.head_dim, .d_v = d.value_dim ? d.value_dim : d.head_dim };
    for (int n = 0; n < MOST_CALLS && p->next < p->end; n++) {
        switch (byte(p) % 4) {
        case 0:
        case 1: append(p, ctx, &c); break;
        case 2: truncate_to(p, ctx, &c); break;
        default: attend(p, ctx, &c);
        }
        require(attn_kv_length(c.kv) == c.s.Lk && c.s.Lk <= d.capacity && attn_kv_capacity(c.kv) == d.capacity);
        free_tensors(p);
    }
    attn_kv_destroy(c.kv);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_of_data) { return run_program(run, data, size_of_data); }
