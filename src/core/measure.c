/* SPDX-License-Identifier: Apache-2.0 */
/* What this machine can do at most: the two limits that the speed of attention is compared with. */
#define _POSIX_C_SOURCE 200809L
#include "ctx.h"
#include "threads.h"

#include <time.h>

enum { PEAK_ROUNDS = 100000, STREAM_PIECE = 1 << 18, LEAST_TRIES = 5 };
static const double measured_for = 0.03; /* seconds */

static double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct measure {
    const attn_kernels *kernels;
    const char *memory;
    int64_t bytes;
    int64_t items;
} measure;

static void run_peak(void *user, int64_t item, int thread)
{
    const measure *m = user;
    double factor = 0.999;
    (void)item;
    (void)thread;
    m->kernels->peak(PEAK_ROUNDS, &factor);
}

static void read_piece(void *user, int64_t item, int thread)
{
    const measure *m = user;
    const int64_t first = item * STREAM_PIECE, left = m->bytes - first;
    double sink;
    (void)thread;
    m->kernels->stream(m->memory + first, (left < STREAM_PIECE ? left : STREAM_PIECE) / (int64_t)sizeof(float), &sink);
}

/* The shortest time of a call of the task on all threads. What attn_ctx_info tells stays what it was. */
static attn_status shortest(attn_ctx *ctx, attn_task *task, measure *m, double *seconds)
{
    const attn_info info = ctx->info;
    int (*const progress)(void *, double) = ctx->progress;
    ctx->progress = NULL;
    attn_status status = attn_parallel(ctx, (int)ctx->threads, m->items, task, m); /* wakes threads and vector units */
    *seconds = 1e30;
    const double start = seconds_now();
    double before = start;
    for (int tries = 0; status == ATTN_OK && (tries < LEAST_TRIES || before < start + measured_for); tries++) {
        status = attn_parallel(ctx, (int)ctx->threads, m->items, task, m);
        const double after = seconds_now();
        *seconds = after - before < *seconds ? after - before : *seconds;
        before = after;
    }
    ctx->progress = progress;
    ctx->info = info;
    return status;
}

attn_status attn_measure_peak(attn_ctx *ctx, attn_dtype dtype, double *gflops)
{
    if (!ctx)
        return ATTN_E_ARG;
    attn_begin(ctx);
    if (!gflops || (dtype != ATTN_F32 && dtype != ATTN_F64 && dtype != ATTN_BF16))
        return attn_fail(ctx, ATTN_E_ARG,
                         "attn_measure_peak: dtype is %s and gflops %s; f32, f64 or bf16 and a place for the result are needed",
                         attn_dtype_name(dtype), gflops ? "given" : "NULL");
    if (dtype == ATTN_BF16 && !ctx->isa->bf16)
        return attn_fail(ctx, ATTN_E_UNSUPPORTED, "attn_measure_peak: the ISA level %s has no dot product of bf16; ask for f32",
                         ctx->isa->name);
    measure m = {.kernels = dtype == ATTN_F64 ? ctx->isa->f64 : dtype == ATTN_BF16 ? ctx->isa->bf16 : ctx->isa->f32,
                 .items = ctx->threads};
    double seconds, factor = 0.999;
    const double flops = m.kernels->peak(PEAK_ROUNDS, &factor) * (double)m.items;
    const attn_status status = shortest(ctx, run_peak, &m, &seconds);
    *gflops = flops / seconds * 1e-9;
    return status;
}

attn_status attn_measure_stream(attn_ctx *ctx, const void *memory, int64_t bytes, double *gb_per_second)
{
    if (!ctx)
        return ATTN_E_ARG;
    attn_begin(ctx);
    if (!memory || !gb_per_second || bytes < (int64_t)sizeof(float))
        return attn_fail(ctx, ATTN_E_ARG,
                         "attn_measure_stream: memory is %s, bytes %lld and gb_per_second %s; at least 4 bytes and a place for the result "
                         "are needed",
                         memory ? "given" : "NULL", (long long)bytes, gb_per_second ? "given" : "NULL");
    measure m = {.kernels = ctx->isa->f32, .memory = memory, .bytes = bytes, .items = (bytes + STREAM_PIECE - 1) / STREAM_PIECE};
    double seconds;
    const attn_status status = shortest(ctx, read_piece, &m, &seconds);
    *gb_per_second = (double)bytes / seconds * 1e-9;
    return status;
}
