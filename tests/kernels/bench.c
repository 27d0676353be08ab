/* SPDX-License-Identifier: Apache-2.0 */
/* GFLOP/s of the kernels of a table on one thread, the best of some runs, beside the peak measured just before. */
#define _DEFAULT_SOURCE
#include "harness.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The best of 7 samples of at least 20 ms. */
static double seconds_of(void (*call)(void *user), void *user)
{
    double best = INFINITY;
    for (int sample = 0; sample < 7; sample++) {
        const double start = now();
        int calls = 0;
        do
            call(user);
        while (calls++, now() - start < 0.02);
        best = fmin(best, (now() - start) / calls);
    }
    return best;
}

/* n numbers near 1. */
static void *numbers(pool *p, attn_dtype dtype, int64_t n)
{
    rng r = rng_of(1, 1);
    const attn_tensor t = new_vector(p, dtype, n);
    fill_normal(&t, &r, 1);
    return t.data;
}

typedef struct bench {
    const attn_kernels *kernels;
    attn_sdpa_job sdpa;
    attn_linear_job linear;
    void *scratch;
    double operations, sink;
} bench;

static void run_peak(void *user)
{
    bench *b = user;
    b->operations = b->kernels->peak(100000, &b->sink);
}
static void run_sdpa(void *user)
{
    const bench *b = user;
    b->kernels->sdpa_rows(&b->sdpa, 0, b->sdpa.positions * b->sdpa.heads, b->scratch);
}
static void run_linear(void *user)
{
    const bench *b = user;
    b->kernels->linear(&b->linear);
}

static void print_speed(const char *what, double operations, double seconds, double peak)
{
    const double speed = operations / seconds;
    printf("  %-44s %8.1f us %7.1f GFLOP/s %5.1f %% of peak\n", what, 1e6 * seconds, 1e-9 * speed, 100 * speed / peak);
}

static void bench_sdpa(const attn_kernels *k, attn_dtype real, int64_t positions, int64_t keys, int64_t dim, double peak)
{
    pool memory = { 0 };
    const attn_rows queries = { numbers(&memory, real, positions * dim), real, dim, 0, 1 };
    const attn_rows kv = { numbers(&memory, real, keys * dim), real, dim, 0, 1 };
    const attn_rows out = { numbers(&memory, real, positions * dim), real, dim, 0, 1 };
    bench b = { .kernels = k };
    b.sdpa = (attn_sdpa_job){ .q = queries, .k = kv, .v = kv, .out = out, .heads = 1, .positions = positions, .n_keys = keys, .dim = dim,
                              .value_dim = dim, .scale = 1 / sqrt((double)dim), .left = ATTN_FAR, .right = ATTN_FAR, .kv_len = keys,
                              .q_len = positions };
    char *scratch = pool_get(&memory, (size_t)k->sdpa_scratch(&b.sdpa) + 64);
    b.scratch = scratch + (64 - (uintptr_t)scratch % 64);
    char what[64];
    snprintf(what, sizeof what, "sdpa_rows %lld x %lld keys, d %lld", (long long)positions, (long long)keys, (long long)dim);
    print_speed(what, 4.0 * (double)(positions * keys * dim), seconds_of(run_sdpa, &b), peak);
    pool_free(&memory);
}

static void bench_linear(const attn_kernels *k, attn_dtype real, attn_dtype weights, int64_t rows, int64_t terms, int64_t columns,
                         double peak)
{
    pool memory = { 0 };
    void *packed = pool_get(&memory, (size_t)k->linear_size(weights, terms, columns));
    k->linear_pack(packed, numbers(&memory, weights, terms * columns), weights, columns, 1, terms, columns);
    bench b = { .kernels = k };
    b.linear = (attn_linear_job){ .a = numbers(&memory, real, rows * terms), .c = numbers(&memory, real, rows * columns), .packed = packed,
                                  .dtype = weights, .rows = rows, .terms = terms, .columns = columns,
                                  .c_stride = columns };
    char what[64];
    snprintf(what, sizeof what, "linear %lld rows, %lld x %lld of %s", (long long)rows, (long long)terms, (long long)columns,
             attn_dtype_name(weights));
    print_speed(what, 2.0 * (double)(rows * terms * columns), seconds_of(run_linear, &b), peak);
    pool_free(&memory);
}

void bench_table(const table *t)
{
    const attn_dtype dtypes[] = { ATTN_F32, ATTN_F64, ATTN_BF16 };
    const attn_kernels *const tables[] = { t->f32, t->f64, t->bf16 };
    for (int n = 0; n < 3; n++) {
        const attn_dtype real = dtypes[n];
        const attn_kernels *k = tables[n];
        if (!k)
            continue;
        bench b = { .kernels = k, .sink = 0.5 };
        const double seconds = seconds_of(run_peak, &b), peak = b.operations / seconds;
        printf("%s.%s: peak %.1f GFLOP/s\n", t->name, attn_dtype_name(real), 1e-9 * peak);
        bench_sdpa(k, real, 1, 1024, 64, peak);
        bench_sdpa(k, real, 10, 10, 64, peak);
        bench_sdpa(k, real, 128, 128, 64, peak);
        bench_sdpa(k, real, 512, 2048, 64, peak);
        bench_sdpa(k, real, 512, 2048, 128, peak);
        if (!k->linear)
            continue;
        const attn_dtype weights[] = { real, ATTN_F16, ATTN_BF16 };
        for (int i = 0; i < 3; i++) {
            bench_linear(k, real, weights[i], 1, 512, 512, peak);
            bench_linear(k, real, weights[i], 10, 512, 512, peak);
            bench_linear(k, real, weights[i], 128, 768, 768, peak);
        }
    }
}
