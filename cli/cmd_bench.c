/* SPDX-License-Identifier: Apache-2.0 */
#include "commands.h"
#include "finish.h"
#include "json_out.h"
#include "message.h"
#include "setup.h"

#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 9, HEADS = 8, LENGTH = 2048, HEAD_DIM = 64 };

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, by_size);
    return count % 2 ? values[count / 2] : 0.5 * (values[count / 2 - 1] + values[count / 2]);
}

/* Numbers in [-1,1), the same on every machine (Knuth's 64-bit linear congruence). */
static void fill(attn_tensor *t, uint64_t seed)
{
    float *x = t->data;
    const int64_t count = tensor_count(t);
    for (int64_t i = 0; i < count; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        x[i] = (float)((double)(seed >> 40) * 0x1p-23 - 1.0);
    }
}

typedef struct measured {
    double seconds, gflops, peak; /* medians; peak of all threads together */
} measured;

/* Seconds on the clock of the calling thread's own CPU time, where one thread does the work: waiting for a busy CPU is not slowness. */
static double now(bool one_thread)
{
    struct timespec t;
    clock_gettime(one_thread ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Peak and attention in turns, so that a clock that changes changes both. */
static attn_status measure(session *s, attn_tensor t[4], measured *m)
{
    double seconds[SAMPLES], peak[SAMPLES];
    attn_status status = attn_sdpa(s->ctx, &t[3], &t[0], &t[1], &t[2], NULL); /* warms up, allocates */
    const uint32_t threads = attn_ctx_info(s->ctx).threads;
    for (int i = 0; i < SAMPLES && status == ATTN_OK; i++) {
        status = attn_measure_peak(s->ctx, ATTN_F32, &peak[i]);
        const double start = now(threads == 1);
        if (status == ATTN_OK)
            status = attn_sdpa(s->ctx, &t[3], &t[0], &t[1], &t[2], NULL);
        seconds[i] = now(threads == 1) - start;
    }
    if (status != ATTN_OK)
        return status;
    m->seconds = median(seconds, SAMPLES);
    m->peak = median(peak, SAMPLES) * threads;
    m->gflops = 4.0 * LENGTH * LENGTH * HEAD_DIM * HEADS / m->seconds * 1e-9;
    return ATTN_OK;
}

static int print_text(const measured *m, const attn_info *info)
{
    printf("prefill  f32, %d heads, L = %d, d = %d, %s, %u thread%s, %s\n", HEADS, LENGTH, HEAD_DIM, info->isa, info->threads,
           info->threads == 1 ? "" : "s", info->path);
    printf("  attention  %8.2f GFLOP/s   (%.1f ms%s, median of %d)\n", m->gflops, 1e3 * m->seconds,
           info->threads == 1 ? " of CPU time" : "", SAMPLES);
    printf("  peak       %8.2f GFLOP/s   (multiply-add, measured in turns with it)\n", m->peak);
    printf("  share      %8.1f %%\n", 100 * m->gflops / m->peak);
    return finish_stdout();
}

static int print_json(const measured *m, const attn_info *info)
{
    json_writer j = jw_begin_document("bench");
    jw_string(&j, "suite", "prefill");
    jw_begin(&j, "results", '[');
    jw_begin(&j, NULL, '{');
    jw_string(&j, "name", "prefill");
    jw_string(&j, "dtype", "f32");
    jw_int(&j, "heads", HEADS);
    jw_int(&j, "length", LENGTH);
    jw_int(&j, "head_dim", HEAD_DIM);
    jw_string(&j, "path", info->path);
    jw_string(&j, "isa", info->isa);
    jw_int(&j, "threads", info->threads);
    jw_int(&j, "samples", SAMPLES);
    jw_number(&j, "seconds", m->seconds, ATTN_F32);
    jw_number(&j, "gflops", m->gflops, ATTN_F32);
    jw_number(&j, "peak_gflops", m->peak, ATTN_F32);
    jw_number(&j, "share", m->gflops / m->peak, ATTN_F32);
    jw_end(&j, '}');
    jw_end(&j, ']');
    return jw_end_document(&j);
}

int cmd_bench(const options *o)
{
    session s;
    options one = *o;
    attn_tensor t[4] = {0};
    measured m = {0};
    const int64_t shape[] = {HEADS, LENGTH, HEAD_DIM};
    if (opt_choice(o, OPT_SUITE) == -2)
        return EXIT_TROUBLE;
    if (!opt_given(o, OPT_THREADS))
        one.value[OPT_THREADS] = "1";
    int status = session_open(&s, &one);
    if (status)
        return status;
    for (int i = 0; i < 4 && !status; i++) {
        status = tensor_new(&t[i], "an array", ATTN_F32, 3, shape);
        if (!status)
            fill(&t[i], (uint64_t)i);
    }
    if (!status) {
        session_begin(&s);
        status = session_end(&s, measure(&s, t, &m));
    }
    const attn_info info = attn_ctx_info(s.ctx);
    if (!status)
        status = opt_given(o, OPT_JSON) ? print_json(&m, &info) : print_text(&m, &info);
    for (int i = 0; i < 4; i++)
        free(t[i].data);
    session_close(&s);
    return status;
}
