/* SPDX-License-Identifier: Apache-2.0 */
/* What `attn bench` measures. */
#include "bench.h"
#include "tensor.h"

#include <stdio.h>
#include <string.h>

/* After the sizes: the flags, then other members by name. */
#define CASE(suite_, kind_, dtype_, heads_, kv_heads_, queries_, keys_, dim_, ...)                                                         \
    {                                                                                                                                      \
        .suite = suite_, .kind = kind_, .dtype = dtype_, .heads = heads_, .kv_heads = kv_heads_, .queries = queries_, .keys = keys_,       \
        .dim = dim_, .flags = __VA_ARGS__                                                                                                  \
    }
#define SQUARE(suite, dtype, heads, length, dim, ...) CASE(suite, BENCH_SDPA, dtype, heads, heads, length, length, dim, __VA_ARGS__)
/* A model with 14 query heads and 2 KV heads that writes one word more. */
#define DECODE(dtype, keys, ...) CASE("decode", BENCH_SDPA, dtype, 14, 2, 1, keys, 64, __VA_ARGS__)
#define DECODES(keys)                                                                                                                      \
    DECODE(ATTN_F32, keys, 0), DECODE(ATTN_F32, keys, ATTN_RELAXED, .beside = 1), DECODE(ATTN_F16, keys, 0, .beside = 2),                  \
        DECODE(ATTN_BF16, keys, 0, .beside = 3)
#define PROJECTION(rows, terms, columns) CASE("gemm", BENCH_PROJECTION, ATTN_F32, 1, 1, rows, terms, columns, 0)

const bench_case bench_cases[] = {
    SQUARE("quick", ATTN_F32, 8, 2048, 64, 0),

    SQUARE("paper", ATTN_F32, 8, 10, 64, 0), /* ten words of Transformer base */
    CASE("paper", BENCH_MHA, ATTN_F32, 8, 8, 10, 10, 64, 0),

    SQUARE("prefill", ATTN_F32, 12, 128, 64, 0),
    SQUARE("prefill", ATTN_F32, 12, 512, 64, 0),
    SQUARE("prefill", ATTN_F32, 8, 2048, 64, 0),
    SQUARE("prefill", ATTN_F32, 8, 4096, 128, 0),
    SQUARE("prefill", ATTN_F32, 8, 16384, 64, 0),

    CASE("causal", BENCH_SDPA, ATTN_F32, 14, 2, 2048, 2048, 64, ATTN_CAUSAL),

    DECODES(4096),
    DECODES(32768),
    DECODES(131072),

    CASE("mha", BENCH_MHA, ATTN_F32, 12, 12, 512, 512, 64, 0),

    PROJECTION(1, 512, 512),
    PROJECTION(1, 512, 2304),
    PROJECTION(10, 512, 512),
    PROJECTION(128, 768, 768),
    PROJECTION(512, 768, 2304),
    PROJECTION(2048, 768, 768),

    SQUARE("16bit", ATTN_F32, 8, 2048, 64, 0),
    SQUARE("16bit", ATTN_BF16, 8, 2048, 64, 0, .beside = 1),
    SQUARE("16bit", ATTN_F16, 8, 2048, 64, 0, .beside = 2),
    SQUARE("16bit", ATTN_F32, 8, 4096, 128, 0),
    SQUARE("16bit", ATTN_BF16, 8, 4096, 128, 0, .beside = 1),
    SQUARE("16bit", ATTN_F16, 8, 4096, 128, 0, .beside = 2),

    SQUARE("mask", ATTN_F32, 8, 2048, 64, 0),
    SQUARE("mask", ATTN_F32, 8, 2048, 64, 0, .mask = BENCH_BOOL, .beside = 1),
    SQUARE("mask", ATTN_F32, 8, 2048, 64, 0, .mask = BENCH_ADDITIVE, .beside = 2),
    SQUARE("mask", ATTN_F32, 8, 4096, 64, 0),
    SQUARE("mask", ATTN_F32, 8, 4096, 64, ATTN_CAUSAL | ATTN_WINDOW, .window = 255, .beside = 1),

    SQUARE("long", ATTN_F32, 1, 131072, 64, ATTN_CAUSAL | ATTN_WINDOW, .window = 1023),

    SQUARE("threads", ATTN_F32, 8, 512, 64, 0, .threads = BENCH_ONE),
    SQUARE("threads", ATTN_F32, 8, 512, 64, 0, .threads = BENCH_ALL, .beside = 1),
    SQUARE("threads", ATTN_F32, 8, 2048, 64, 0, .threads = BENCH_ONE),
    SQUARE("threads", ATTN_F32, 8, 2048, 64, 0, .threads = BENCH_ALL, .beside = 1),
};

const int bench_case_count = sizeof bench_cases / sizeof bench_cases[0];

void bench_name(char out[BENCH_NAME], const bench_case *c)
{
    const long long heads = c->heads, queries = c->queries, keys = c->keys, dim = c->dim;
    const char *dtype = attn_dtype_name(c->dtype);
    char shared[24] = "";
    if (c->kind == BENCH_PROJECTION) {
        snprintf(out, BENCH_NAME, "%s (%lld,%lld)x(%lld,%lld)", dtype, queries, keys, keys, dim);
        return;
    }
    if (c->kind == BENCH_MHA) {
        snprintf(out, BENCH_NAME, "%s mha (%lld,%lld), %lld heads", dtype, queries, heads * dim, heads);
        return;
    }
    if (c->kv_heads != c->heads)
        snprintf(shared, sizeof shared, "/%lld", (long long)c->kv_heads);
    int at = snprintf(out, BENCH_NAME, "%s (%lld%s,%lld,%lld)", dtype, heads, shared, keys, dim);
    const char *masks[] = {"", " bool mask", " additive mask"};
    if (c->flags & ATTN_WINDOW)
        at += snprintf(out + at, (size_t)(BENCH_NAME - at), " window %lld", (long long)c->window + 1);
    else if (c->flags & ATTN_CAUSAL)
        at += snprintf(out + at, (size_t)(BENCH_NAME - at), " causal");
    snprintf(out + at, (size_t)(BENCH_NAME - at), "%s%s", masks[c->mask], c->flags & ATTN_RELAXED ? " relaxed" : "");
}

/* Query-key pairs that are not hidden; masks are counted as if they hid nothing. */
static double visible_cells(const bench_case *c)
{
    double cells = 0;
    for (int64_t i = 0; i < c->queries; i++) {
        const int64_t last = c->flags & ATTN_CAUSAL ? i : c->keys - 1, first = c->flags & ATTN_WINDOW && i > c->window ? i - c->window : 0;
        cells += (double)(last - first + 1);
    }
    return cells;
}

double bench_flops(const bench_case *c)
{
    const double width = (double)(c->heads * c->dim), rows = (double)c->queries;
    if (c->kind == BENCH_PROJECTION)
        return 2 * rows * (double)c->keys * (double)c->dim;
    return 4 * visible_cells(c) * width + (c->kind == BENCH_MHA ? 4 * 2 * rows * width * width : 0);
}

int64_t bench_bytes(const bench_case *c)
{
    if (c->queries > 1 || c->kind == BENCH_MHA)
        return 0;
    return (c->kind == BENCH_PROJECTION ? 1 : 2 * c->kv_heads) * c->keys * c->dim * (int64_t)attn_dtype_size(c->dtype);
}
