/* SPDX-License-Identifier: Apache-2.0 */
/* Any combination of shapes, dtypes and options: attn_sdpa refuses it, or computes the same bits twice, and attn_explain_cell has them too.
   The input is a program: every decision takes its next byte. Arrays are of exact size, so that the sanitizer sees a step past one. */
#include <attn/attn.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ELEMENTS = 1 << 12, MAX_TENSORS = 32 };

typedef struct program {
    const uint8_t *next, *end;
    attn_tensor tensors[MAX_TENSORS];
    int n_tensors;
} program;

static unsigned byte(program *p) { return p->next < p->end ? *p->next++ : 0; }
static int chance(program *p, unsigned one_in) { return byte(p) % one_in == 1; }

/* Mostly a few, now and then enough for a second block of keys, rarely absurd. */
static int64_t size(program *p)
{
    unsigned x = byte(p);
    return x < 240 ? x % 7 : x < 252 ? 125 + x % 9 : x == 253 ? -1 : x == 254 ? INT64_MAX / 2 : 1;
}

static double number(program *p)
{
    static const double special[] = { 0,     -0.0,  1,     -1, 1e4, -1e4, 3e38, -3e38, 1e-40, 1e308, (double)__builtin_inff(),
                                      -(double)__builtin_inff(), (double)__builtin_nanf("") };
    unsigned x = byte(p);
    return x < 200 ? (x - 100) / 32. : special[x % (sizeof special / sizeof *special)];
}

/* Fills the elements with numbers that fit the dtype. */
static void fill(program *p, const attn_tensor *t, int64_t count, int64_t limit)
{
    for (int64_t i = 0; i < count; i++) {
        double x = number(p);
        switch (t->dtype) {
        case ATTN_F32: ((float *)t->data)[i] = (float)x; break;
        case ATTN_F64: ((double *)t->data)[i] = x; break;
        case ATTN_I32: ((int32_t *)t->data)[i] = (int32_t)(byte(p) % (unsigned)(limit + 2)); break;
        case ATTN_I64: ((int64_t *)t->data)[i] = (int64_t)(byte(p) % (unsigned)(limit + 2)); break;
        default: memset((char *)t->data + i * (int64_t)attn_dtype_size(t->dtype), (int)(byte(p) % 3), attn_dtype_size(t->dtype));
        }
    }
}

/* A packed tensor of a dtype and shape that are what is expected, or now and then not. limit: of its integers. */
static attn_tensor *tensor(program *p, attn_dtype dtype, int ndim, const int64_t *expected, int64_t limit)
{
    int64_t shape[ATTN_MAX_DIMS] = { 0 }, count = 1;
    for (int i = 0; i < ndim; i++) {
        shape[i] = chance(p, 50) ? size(p) : chance(p, 9) ? 1 : expected[i];
        if (__builtin_mul_overflow(count, shape[i], &count))
            count = -1;
    }
    if (chance(p, 50))
        dtype = (attn_dtype)(byte(p) % 15);
    attn_tensor *t = &p->tensors[p->n_tensors++];
    *t = attn_tensor_of(NULL, dtype, ndim, shape);
    if (count > 0 && count <= MAX_ELEMENTS && attn_dtype_size(dtype)) {
        t->data = malloc((size_t)count * attn_dtype_size(dtype));
        fill(p, t, count, limit);
    }
    return t;
}

static attn_dtype any_float(program *p) { return (attn_dtype)(ATTN_F32 + byte(p) % 4); }

typedef struct shapes {
    int ndim;
    int64_t B, H, Hkv, Lq, Lk, d, d_v;
} shapes;

static shapes any_shapes(program *p)
{
    shapes s = { .ndim = 2 + (int)(byte(p) % 3), .B = 1, .H = 1, .Hkv = 1, .Lq = size(p), .Lk = size(p), .d = size(p), .d_v = size(p) };
    if (s.ndim == 4)
        s.B = size(p);
    if (s.ndim >= 3) {
        s.Hkv = size(p);
        if (__builtin_mul_overflow(s.Hkv, (int64_t)(byte(p) % 4), &s.H))
            s.H = -1;
    }
    return s;
}

static attn_tensor *rows(program *p, const shapes *s, int64_t heads, int64_t n, int64_t columns)
{
    const int64_t shape[] = { s->B, heads, n, columns };
    return tensor(p, any_float(p), s->ndim, shape + 4 - s->ndim, 0);
}
static attn_tensor *cells(program *p, const shapes *s, attn_dtype dtype)
{
    const int64_t shape[] = { s->B, s->H, s->Lq, s->Lk };
    return tensor(p, dtype, s->ndim, shape + 4 - s->ndim, 0);
}
static attn_tensor *per_item(program *p, const shapes *s, int64_t limit) { return tensor(p, ATTN_I64, 1, &s->B, limit); }

static attn_sdpa_opts any_options(program *p, const shapes *s)
{
    attn_sdpa_opts o = { .flags = byte(p), .scale = number(p), .align = (attn_align)(byte(p) % 3), .seed = byte(p) };
    const int64_t per_row[] = { s->B, s->H, s->Lq };
    if (chance(p, 3))
        o.softcap = number(p);
    if (chance(p, 3))
        o.dropout = number(p);
    o.offset = chance(p, 9) ? INT64_MIN + (int64_t)byte(p) : (int64_t)byte(p) - 100;
    o.window_left = (int64_t)(byte(p) % 9) - 1;
    o.window_right = chance(p, 9) ? INT64_MAX : (int64_t)(byte(p) % 9) - 1;
    if (chance(p, 3))
        o.mask = cells(p, s, chance(p, 2) ? ATTN_BOOL : (attn_dtype)(1 + byte(p) % 13));
    if (chance(p, 3))
        o.bias = cells(p, s, any_float(p));
    if (chance(p, 4))
        o.kv_len = per_item(p, s, s->Lk);
    if (chance(p, 4))
        o.q_len = per_item(p, s, s->Lq);
    if (chance(p, 8))
        o.offsets = per_item(p, s, 50);
    if (chance(p, 4))
        o.alibi_slopes = tensor(p, ATTN_F32, 1, &s->H, 0);
    if (chance(p, 4))
        o.sinks = tensor(p, ATTN_F64, 1, &s->H, 0);
    if (chance(p, 8))
        o.keep = cells(p, s, ATTN_BOOL);
    if (chance(p, 3))
        o.lse = tensor(p, ATTN_F32, s->ndim - 1, per_row + (4 - s->ndim), 0);
    if (chance(p, 3))
        o.weights = cells(p, s, ATTN_F32);
    if (chance(p, 5))
        o.masked = cells(p, s, ATTN_F32);
    if (chance(p, 9)) {
        o.cu_seqlens_q = tensor(p, ATTN_I32, 1, (const int64_t[]){ 3 }, s->Lq);
        o.cu_seqlens_k = tensor(p, ATTN_I32, 1, (const int64_t[]){ 3 }, s->Lk);
    }
    return o;
}

/* The first row by attn_explain_cell must have the bits of the call. */
static void check_explained(attn_ctx *ctx, const attn_tensor *out, const attn_tensor *q, const attn_tensor *k, const attn_tensor *v,
                            const attn_sdpa_opts *o)
{
    float row_out[256];
    const int64_t d_v = out->shape[out->ndim - 1];
    attn_tensor to = attn_tensor_of(row_out, ATTN_F32, 1, &d_v);
    attn_row row = { .output = &to };
    const int is_f64 = q->dtype == ATTN_F64 || k->dtype == ATTN_F64 || v->dtype == ATTN_F64;
    if (is_f64 || out->dtype != ATTN_F32 || !out->data || d_v > 256 || o->cu_seqlens_q)
        return;
    if (attn_explain_cell(ctx, &row, q, k, v, o, 0, 0, 0) != ATTN_OK || memcmp(row_out, out->data, (size_t)d_v * sizeof *row_out))
        abort();
}

static void run(program *p, const char *isa)
{
    attn_ctx *ctx;
    attn_ctx_opts c = { .isa = isa, .threads = 1 };
    if (attn_ctx_create(&ctx, &c, NULL, 0) != ATTN_OK)
        return;
    const shapes s = any_shapes(p);
    const attn_tensor *q = rows(p, &s, s.H, s.Lq, s.d), *k = rows(p, &s, s.Hkv, s.Lk, s.d), *v = rows(p, &s, s.Hkv, s.Lk, s.d_v);
    attn_tensor *out = rows(p, &s, s.H, s.Lq, s.d_v);
    const attn_sdpa_opts o = any_options(p, &s);
    if (attn_sdpa(ctx, out, q, k, v, &o) == ATTN_OK) {
        size_t bytes = attn_dtype_size(out->dtype);
        for (int i = 0; i < out->ndim; i++)
            bytes *= (size_t)out->shape[i];
        char *first = malloc(bytes + 1);
        memcpy(first, bytes ? out->data : first, bytes);
        if (attn_sdpa(ctx, out, q, k, v, &o) != ATTN_OK || memcmp(first, bytes ? out->data : first, bytes))
            abort();
        free(first);
        if (bytes)
            check_explained(ctx, out, q, k, v, &o);
    } else if (!attn_ctx_error(ctx)[0]) {
        abort();
    }
    attn_ctx_destroy(ctx);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_of_data)
{
    for (int i = 0; attn_isa_name(i); i++) {
        program p = { .next = data, .end = data + size_of_data };
        run(&p, attn_isa_name(i));
        for (int n = 0; n < p.n_tensors; n++)
            free(p.tensors[n].data);
    }
    return 0;
}
