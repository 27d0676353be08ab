/* SPDX-License-Identifier: Apache-2.0 */
/* Any weights, inputs and options: attn_mha_prepare and attn_mha refuse them, or compute the same bits twice, with and without stages. */
#include "fuzz_program.h"

/* (in, heads*dim), or a table per head. */
static attn_tensor *matrix(program *p, int64_t heads, int64_t in, int64_t dim)
{
    if (chance(p, 4))
        return tensor(p, any_float(p), 3, (const int64_t[]){ heads, in, dim }, 0);
    return tensor(p, any_float(p), 2, (const int64_t[]){ in, product(heads, dim) }, 0);
}

/* NULL, one number for each column, or (heads, dim). */
static attn_tensor *bias(program *p, int64_t heads, int64_t dim)
{
    if (chance(p, 2))
        return NULL;
    if (chance(p, 4))
        return tensor(p, any_float(p), 2, (const int64_t[]){ heads, dim }, 0);
    return tensor(p, any_float(p), 1, (const int64_t[]){ product(heads, dim) }, 0);
}

static attn_mha_desc any_desc(program *p, const shapes *s, const int64_t in[3], int64_t width)
{
    attn_mha_desc d = { .flags = chance(p, 6) ? byte(p) % 3 : 0, .heads = s->H, .kv_heads = chance(p, 5) ? 0 : s->Hkv };
    const int64_t parts = product(s->Hkv, 2) < 0 || s->H > INT64_MAX / 4 ? -1 : s->H + 2 * s->Hkv;
    const int fused = chance(p, 4);
    if (fused) {
        d.w_qkv = matrix(p, parts, in[0], s->d);
        d.b_qkv = bias(p, parts, s->d);
    }
    if (!fused || chance(p, 30)) {
        d.w_q = matrix(p, s->H, in[0], s->d);
        d.w_k = matrix(p, s->Hkv, in[1], s->d);
        d.w_v = matrix(p, s->Hkv, in[2], s->d_v);
        d.b_q = bias(p, s->H, s->d);
        d.b_k = bias(p, s->Hkv, s->d);
        d.b_v = bias(p, s->Hkv, s->d_v);
    }
    if (!chance(p, 4)) {
        d.w_o = tensor(p, any_float(p), 2, (const int64_t[]){ product(s->H, s->d_v), width }, 0);
        d.b_o = bias(p, 1, width);
    }
    return d;
}

static attn_tensor *batch(program *p, const shapes *s, int64_t n, int64_t width)
{
    const int64_t shape[] = { s->B, n, width };
    return tensor(p, any_float(p), s->ndim - 1, shape + (4 - s->ndim), 0);
}

/* A tensor of projected heads, or NULL. */
static attn_tensor *stage(program *p, const shapes *s, attn_dtype dtype, int64_t heads, int64_t n, int64_t dim)
{
    const int64_t shape[] = { s->B, heads, n, dim };
    return chance(p, 4) ? tensor(p, dtype, s->ndim, shape + (4 - s->ndim), 0) : NULL;
}

static void call(program *p, attn_ctx *ctx, const attn_mha_weights *w, const shapes *s, const int64_t in[3], int64_t width)
{
    const attn_tensor *x = batch(p, s, s->Lq, in[0]), *memory = chance(p, 2) ? batch(p, s, s->Lk, in[1]) : NULL;
    const attn_tensor *memory_v = memory && chance(p, 2) ? batch(p, s, s->Lk, in[2]) : NULL;
    const attn_sdpa_opts o = any_options(p, s);
    const attn_dtype real = (attn_dtype)(ATTN_F32 + byte(p) % 2);
    attn_tensor *out = batch(p, s, s->Lq, width);
    attn_mha_opts m = { .flags = chance(p, 50), .sdpa = chance(p, 2) ? &o : NULL };
    m.q = stage(p, s, real, s->H, s->Lq, s->d);
    m.k = stage(p, s, real, s->Hkv, s->Lk, s->d);
    m.v = stage(p, s, real, s->Hkv, s->Lk, s->d_v);
    m.z = stage(p, s, real, s->H, s->Lq, s->d_v);
    if (!is_done(ctx, attn_mha(ctx, out, w, x, memory, memory_v, &m)))
        return;
    size_t bytes;
    char *first = copy_of(out, &bytes);
    m.q = m.k = m.v = m.z = NULL;
    require(is_done(ctx, attn_mha(ctx, out, w, x, memory, memory_v, &m)) && has_bytes(out, first, bytes));
    free(first);
}

static void run(program *p, attn_ctx *ctx)
{
    shapes s = any_shapes(p);
    s.ndim += s.ndim == 2;
    int64_t in[3] = { size(p), 0, 0 };
    const int is_self = chance(p, 3);
    in[1] = is_self ? in[0] : size(p);
    in[2] = chance(p, 2) ? size(p) : in[1];
    s.Lk = is_self ? s.Lq : s.Lk;
    if (product(product(s.B, s.H), product(s.Lq, s.Lk)) > 2 * MAX_ELEMENTS)
        return; /* few weights make many scores: slow, and no more is seen */
    const int64_t width = chance(p, 6) ? product(s.H, s.d_v) : size(p);
    const attn_mha_desc d = any_desc(p, &s, in, width);
    attn_mha_weights *w;
    const int is_prepared = is_done(ctx, attn_mha_prepare(ctx, &w, &d));
    require(is_prepared == (w != NULL));
    free_tensors(p); /* the weights are copied */
    if (is_prepared)
        call(p, ctx, w, &s, in, width);
    attn_mha_weights_destroy(w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_of_data) { return run_program(run, data, size_of_data); }
