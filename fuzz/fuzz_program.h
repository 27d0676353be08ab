/* SPDX-License-Identifier: Apache-2.0 */
/* What the fuzzers of calls share. The input is a program: every decision takes its next byte. Arrays are of exact size, so that the
   sanitizer sees a step past one. */
#ifndef ATTN_FUZZ_PROGRAM_H
#define ATTN_FUZZ_PROGRAM_H
#define _POSIX_C_SOURCE 200809L /* posix_memalign, which takes any size */

#include <attn/attn.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz_require.h"

enum { MAX_ELEMENTS = 1 << 12, MAX_TENSORS = 64 };

typedef struct program {
    const uint8_t *next, *end;
    attn_tensor tensors[MAX_TENSORS];
    int n_tensors;
} program;

/* A refusal has a sentence. */
static inline int is_done(const attn_ctx *ctx, attn_status s)
{
    require((s == ATTN_OK) == !attn_ctx_error(ctx)[0]);
    return s == ATTN_OK;
}

static inline unsigned byte(program *p) { return p->next < p->end ? *p->next++ : 0; }
static inline int chance(program *p, unsigned one_in) { return byte(p) % one_in == 1; }

/* a b, or -1 where it does not fit */
static inline int64_t product(int64_t a, int64_t b)
{
    int64_t c;
    return __builtin_mul_overflow(a, b, &c) ? -1 : c;
}

/* Mostly a few, now and then enough for a second block of keys, rarely absurd. */
static inline int64_t size(program *p)
{
    unsigned x = byte(p);
    return x < 240 ? x % 7 : x < 252 ? 125 + x % 9 : x == 253 ? -1 : x == 254 ? INT64_MAX / 2 : 1;
}

static inline double number(program *p)
{
    static const double special[] = { 0,     -0.0,  1,     -1, 1e4, -1e4, 3e38, -3e38, 1e-40, 1e308, (double)__builtin_inff(),
                                      -(double)__builtin_inff(), (double)__builtin_nanf("") };
    unsigned x = byte(p);
    return x < 200 ? (x - 100) / 32. : special[x % (sizeof special / sizeof *special)];
}

/* Fills the elements with numbers that fit the dtype. */
static inline void fill(program *p, const attn_tensor *t, int64_t count, int64_t limit)
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
static inline attn_tensor *tensor(program *p, attn_dtype dtype, int ndim, const int64_t *expected, int64_t limit)
{
    int64_t shape[ATTN_MAX_DIMS] = { 0 }, count = 1;
    for (int i = 0; i < ndim; i++) {
        shape[i] = chance(p, 50) ? size(p) : chance(p, 9) ? 1 : expected[i];
        count = product(count, shape[i]);
    }
    if (chance(p, 50))
        dtype = (attn_dtype)(byte(p) % 15);
    require(p->n_tensors < MAX_TENSORS);
    attn_tensor *t = &p->tensors[p->n_tensors++];
    *t = attn_tensor_of(NULL, dtype, ndim, shape);
    if (count > 0 && count <= MAX_ELEMENTS && attn_dtype_size(dtype)) {
        t->data = malloc((size_t)count * attn_dtype_size(dtype));
        fill(p, t, count, limit);
    }
    return t;
}

static inline attn_dtype any_float(program *p) { return (attn_dtype)(ATTN_F32 + byte(p) % 4); }

typedef struct shapes {
    int ndim;
    int64_t B, H, Hkv, Lq, Lk, d, d_v;
} shapes;

static inline shapes any_shapes(program *p)
{
    shapes s = { .ndim = 2 + (int)(byte(p) % 3), .B = 1, .H = 1, .Hkv = 1, .Lq = size(p), .Lk = size(p), .d = size(p), .d_v = size(p) };
    if (s.ndim == 4)
        s.B = size(p);
    if (s.ndim >= 3) {
        s.Hkv = size(p);
        s.H = product(s.Hkv, byte(p) % 4);
    }
    return s;
}

static inline attn_tensor *rows(program *p, const shapes *s, int64_t heads, int64_t n, int64_t columns)
{
    const int64_t shape[] = { s->B, heads, n, columns };
    return tensor(p, any_float(p), s->ndim, shape + 4 - s->ndim, 0);
}
static inline attn_tensor *cells(program *p, const shapes *s, attn_dtype dtype)
{
    const int64_t shape[] = { s->B, s->H, s->Lq, s->Lk };
    return tensor(p, dtype, s->ndim, shape + 4 - s->ndim, 0);
}
static inline attn_tensor *per_item(program *p, const shapes *s, int64_t limit) { return tensor(p, ATTN_I64, 1, &s->B, limit); }

static inline attn_sdpa_opts any_options(program *p, const shapes *s)
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

/* The elements of a packed tensor, whose memory ends there; *bytes may be 0. Free it. */
static inline char *copy_of(const attn_tensor *t, size_t *bytes)
{
    *bytes = attn_dtype_size(t->dtype);
    for (int i = 0; i < t->ndim; i++)
        *bytes *= (size_t)t->shape[i];
    char *copy = malloc(*bytes + 1);
    if (*bytes)
        memcpy(copy, t->data, *bytes);
    return copy;
}

static inline int has_bytes(const attn_tensor *t, const char *expected, size_t bytes)
{
    return !bytes || !memcmp(t->data, expected, bytes);
}

/* Ends the life of every tensor so far. */
static inline void free_tensors(program *p)
{
    while (p->n_tensors > 0)
        free(p->tensors[--p->n_tensors].data);
}

enum { MOST_MEMORY = 1 << 24 };
static inline void *alloc_some(void *user, size_t align, size_t n)
{
    void *memory = NULL;
    (void)user;
    return n > MOST_MEMORY || posix_memalign(&memory, align, n) ? NULL : memory;
}
static inline void free_some(void *user, void *memory)
{
    (void)user;
    free(memory);
}

/* Runs the program on each ISA level that this CPU has, on one thread; absurd sizes that fit 63 bits find no memory. */
static inline int run_program(void (*run)(program *p, attn_ctx *ctx), const uint8_t *data, size_t size_of_data)
{
    for (int i = 0; attn_isa_name(i); i++) {
        program p = { .next = data, .end = data + size_of_data };
        const attn_ctx_opts c = { .isa = attn_isa_name(i), .threads = 1, .alloc = alloc_some, .free = free_some };
        attn_ctx *ctx;
        if (attn_ctx_create(&ctx, &c, NULL, 0) != ATTN_OK)
            continue;
        run(&p, ctx);
        attn_ctx_destroy(ctx);
        free_tensors(&p);
    }
    return 0;
}

#endif
