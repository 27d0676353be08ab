/* SPDX-License-Identifier: Apache-2.0 */
/* Measuring one case: its arguments, its turns with the machine's limit, the middle of many samples. */
#include "bench.h"
#include "message.h"
#include "setup.h"
#include "tensor.h"

#include <stdlib.h>
#include <time.h>

enum { MOST_SAMPLES = 501, LEAST_SAMPLES = 3, MOST_CALLS = 4096 };
static const double sample_seconds = 2e-3; /* short calls are repeated for so long, so that the clock's own cost does not count */

/* A case with all that a call needs. */
typedef struct bench_work {
    const bench_case *c;
    attn_ctx *ctx;
    bool one_thread;
    attn_tensor q, kv, k, v, out, mask; /* k and v: views of the two halves of kv. Of mha and projections: q is x, kv the weights */
    attn_tensor nothing, projected;     /* projections: a memory without rows, and the result */
    attn_sdpa_opts opts;
    attn_mha_opts mha_opts;
    attn_mha_weights *weights;
    attn_dtype peak;         /* whose multiply-adds or dot products limit the case */
    int64_t held, most_held; /* bytes that the library has taken */
} bench_work;

/* ------------------------------------------------------------------- memory ---- */

/* The allocator of the library, which keeps account: before each block lie its size and where it really begins. */
typedef struct block_head {
    void *start;
    int64_t size;
} block_head;

static void *counted_alloc(void *user, size_t align, size_t size)
{
    bench_work *w = user;
    const size_t lead = align > sizeof(block_head) ? align : sizeof(block_head);
    char *start = aligned_alloc(lead, (lead + size + lead - 1) / lead * lead);
    if (!start)
        return NULL;
    ((block_head *)(void *)(start + lead))[-1] = (block_head){start, (int64_t)size};
    w->held += (int64_t)size;
    w->most_held = w->held > w->most_held ? w->held : w->most_held;
    return start + lead;
}

static void counted_free(void *user, void *p)
{
    bench_work *w = user;
    if (!p)
        return;
    w->held -= ((block_head *)p)[-1].size;
    free(((block_head *)p)[-1].start);
}

/* ---------------------------------------------------------------- arguments ---- */

static int filled(attn_tensor *t, attn_dtype dtype, int32_t ndim, const int64_t *shape, uint64_t seed)
{
    const int status = tensor_new(t, "an argument", dtype, ndim, shape);
    if (!status && dtype != ATTN_BOOL)
        tensor_fill(t, seed);
    return status;
}

/* One of the two halves of the first axis. */
static attn_tensor half_of(const attn_tensor *t, int64_t which)
{
    attn_tensor half = attn_tensor_of(t->data, t->dtype, t->ndim - 1, t->shape + 1);
    half.data = (char *)t->data + which * t->stride[0] * (int64_t)attn_dtype_size(t->dtype);
    return half;
}

static int prepare_mask(bench_work *w)
{
    const bench_case *c = w->c;
    const int64_t shape[] = {c->queries, c->keys};
    const int status = filled(&w->mask, c->mask == BENCH_BOOL ? ATTN_BOOL : ATTN_F32, 2, shape, 3);
    uint8_t *visible = w->mask.data;
    uint32_t random = 1;
    for (int64_t i = 0; !status && c->mask == BENCH_BOOL && i < c->queries * c->keys; i++) {
        random = random * 1664525u + 1013904223u;
        visible[i] = random >> 30 != 0; /* a quarter is hidden, without a pattern */
    }
    w->opts.mask = &w->mask;
    return status;
}

static int prepare_sdpa(bench_work *w)
{
    const bench_case *c = w->c;
    const attn_dtype dtype = c->queries == 1 ? ATTN_F32 : c->dtype;
    const int64_t q_shape[] = {c->heads, c->queries, c->dim}, kv_shape[] = {2, c->kv_heads, c->keys, c->dim};
    int status = filled(&w->q, dtype, 3, q_shape, 1);
    if (!status)
        status = filled(&w->kv, c->dtype, 4, kv_shape, 2);
    if (!status)
        status = filled(&w->out, dtype, 3, q_shape, 0);
    if (status)
        return status;
    w->k = half_of(&w->kv, 0);
    w->v = half_of(&w->kv, 1);
    w->opts.flags = c->flags;
    w->opts.window_left = c->window;
    return c->mask ? prepare_mask(w) : EXIT_DONE;
}

static int prepare_weights(bench_work *w, const attn_mha_desc *desc)
{
    return attn_mha_prepare(w->ctx, &w->weights, desc) == ATTN_OK ? EXIT_DONE : library_trouble(attn_ctx_error(w->ctx));
}

static int prepare_mha(bench_work *w)
{
    const bench_case *c = w->c;
    const int64_t width = c->heads * c->dim, x_shape[] = {c->queries, width}, w_shape[] = {width, 4 * width};
    int status = filled(&w->q, c->dtype, 2, x_shape, 1);
    if (!status)
        status = filled(&w->kv, c->dtype, 2, w_shape, 2);
    if (!status)
        status = filled(&w->out, c->dtype, 2, x_shape, 0);
    if (status)
        return status;
    attn_tensor w_qkv = w->kv, w_o = w->kv;
    w_qkv.shape[1] = 3 * width;
    w_o.shape[1] = width;
    w_o.data = (char *)w->kv.data + 3 * width * (int64_t)attn_dtype_size(c->dtype);
    return prepare_weights(w, &(attn_mha_desc){.heads = c->heads, .w_qkv = &w_qkv, .w_o = &w_o});
}

/* attn_mha with a memory that has no rows: all that is left is to project x into Q. */
static int prepare_projection(bench_work *w)
{
    const bench_case *c = w->c;
    const int64_t x_shape[] = {c->queries, c->keys}, w_shape[] = {c->keys, c->dim}, one_shape[] = {1, c->dim},
                  q_shape[] = {1, c->queries, c->dim};
    const int64_t out_shape[] = {c->queries, 1}, nothing[] = {0, 1};
    int status = filled(&w->q, c->dtype, 2, x_shape, 1);
    if (!status)
        status = filled(&w->kv, c->dtype, 2, w_shape, 2);
    if (!status)
        status = filled(&w->out, c->dtype, 2, out_shape, 0);
    if (!status)
        status = filled(&w->projected, c->dtype, 3, q_shape, 0);
    if (status)
        return status;
    w->nothing = attn_tensor_of(NULL, c->dtype, 2, nothing);
    w->mha_opts.q = &w->projected;
    const attn_tensor w_k = attn_tensor_of(w->kv.data, c->dtype, 2, one_shape),
                      w_v = attn_tensor_of(w->kv.data, c->dtype, 2, (int64_t[]){1, 1});
    return prepare_weights(w, &(attn_mha_desc){.heads = 1, .w_q = &w->kv, .w_k = &w_k, .w_v = &w_v});
}

static int work_open(bench_work *w, const bench_case *c, const options *o)
{
    char sentence[512];
    uint64_t threads = c->threads == BENCH_ALL ? 0 : 1;
    *w = (bench_work){.c = c};
    const int status = c->threads == BENCH_ONE ? EXIT_DONE : opt_whole(o, OPT_THREADS, 1, 4096, &threads);
    if (status)
        return status;
    const attn_ctx_opts opts = {
        .threads = (uint32_t)threads, .isa = o->value[OPT_ISA], .alloc = counted_alloc, .free = counted_free, .user = w};
    if (attn_ctx_create(&w->ctx, &opts, sentence, sizeof sentence) != ATTN_OK)
        return library_trouble(sentence);
    w->one_thread = attn_ctx_info(w->ctx).threads == 1;
    double unused;
    const bool in_pairs = c->kind == BENCH_SDPA && c->dtype == ATTN_BF16 && !bench_bytes(c);
    w->peak = in_pairs && attn_measure_peak(w->ctx, ATTN_BF16, &unused) == ATTN_OK ? ATTN_BF16 : ATTN_F32;
    return c->kind == BENCH_SDPA ? prepare_sdpa(w) : c->kind == BENCH_MHA ? prepare_mha(w) : prepare_projection(w);
}

static void work_close(bench_work *w)
{
    attn_tensor *const owned[] = {&w->q, &w->kv, &w->out, &w->mask, &w->projected};
    attn_mha_weights_destroy(w->weights);
    attn_ctx_destroy(w->ctx);
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++)
        free(owned[i]->data);
}

/* ------------------------------------------------------------------- timing ---- */

/* Where one thread does the work, the CPU time that it got: waiting for a busy CPU is not slowness. */
static double now(bool one_thread)
{
    struct timespec t;
    clock_gettime(one_thread ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static attn_status call(bench_work *w)
{
    if (w->c->kind == BENCH_SDPA)
        return attn_sdpa(w->ctx, &w->out, &w->q, &w->k, &w->v, &w->opts);
    const attn_tensor *memory = w->c->kind == BENCH_PROJECTION ? &w->nothing : NULL;
    return attn_mha(w->ctx, &w->out, w->weights, &w->q, memory, NULL, &w->mha_opts);
}

/* Seconds of one call: the mean of as many as fill a sample. */
static attn_status time_call(bench_work *w, bool one_thread, double *seconds)
{
    const double start = now(one_thread);
    int calls = 0;
    do {
        const attn_status status = call(w);
        if (status != ATTN_OK)
            return status;
        *seconds = now(one_thread) - start;
    } while (++calls < MOST_CALLS && *seconds < sample_seconds);
    *seconds /= calls;
    return ATTN_OK;
}

/* GFLOP/s or GB/s, whichever bounds the case. */
static attn_status time_limit(bench_work *w, double *limit)
{
    const int64_t bytes = bench_bytes(w->c);
    return bytes ? attn_measure_stream(w->ctx, w->kv.data, bytes, limit) : attn_measure_peak(w->ctx, w->peak, limit);
}

/* ------------------------------------------------------------------ samples ---- */

typedef struct samples {
    double seconds[MOST_SAMPLES], limit[MOST_SAMPLES], share[MOST_SAMPLES], beside[MOST_SAMPLES];
    int count;
} samples;

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The sample at this share of a sorted row, between two samples in proportion. */
static double quantile(const double *sorted, int count, double share)
{
    const double place = share * (count - 1);
    const int below = (int)place, above = below + 1 < count ? below + 1 : below;
    return sorted[below] + (place - below) * (sorted[above] - sorted[below]);
}

static bench_spread spread_of(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, by_size);
    return (bench_spread){quantile(values, count, 0.5), quantile(values, count, 0.25), quantile(values, count, 0.75)};
}

/* Other case, limit, this case, in turns, so that what changes on the machine changes all of them. The limit wakes the threads of this
   case, which sleep while another case runs on one. The first turn warms up; it counts when it took all the time that there is, and is all
   where it took ten times as long. */
static attn_status take_samples(bench_work *w, bench_work *other, double seconds, samples *s)
{
    const double start = now(false), work = bench_bytes(w->c) ? (double)bench_bytes(w->c) : bench_flops(w->c);
    const bool one_thread = w->one_thread && (!other || other->one_thread);
    bool warm = false;
    for (;;) {
        double other_seconds = 0;
        const int i = s->count;
        attn_status status = other ? time_call(other, one_thread, &other_seconds) : ATTN_OK;
        if (status == ATTN_OK)
            status = time_limit(w, &s->limit[i]);
        if (status == ATTN_OK)
            status = time_call(w, one_thread, &s->seconds[i]);
        if (status != ATTN_OK)
            return status;
        s->share[i] = work / s->seconds[i] * 1e-9 / s->limit[i];
        s->beside[i] = other_seconds / s->seconds[i];
        const double passed = now(false) - start;
        s->count += warm || passed >= seconds;
        if (s->count == MOST_SAMPLES || (passed >= seconds && s->count >= LEAST_SAMPLES) || passed >= 10 * seconds)
            return ATTN_OK;
        warm = true;
    }
}

int bench_run(bench_result *r, const bench_case *c, const options *o, double seconds)
{
    bench_work work, other = {0};
    samples *s = need_zeroed(1, sizeof *s);
    int status = work_open(&work, c, o);
    if (!status && c->beside)
        status = work_open(&other, c - c->beside, o);
    if (!status && take_samples(&work, c->beside ? &other : NULL, seconds, s) != ATTN_OK) {
        const char *sentence = attn_ctx_error(work.ctx);
        status = library_trouble(*sentence || !other.ctx ? sentence : attn_ctx_error(other.ctx));
    }
    if (!status)
        *r = (bench_result){.c = c,
                            .info = attn_ctx_info(work.ctx),
                            .samples = s->count,
                            .seconds = spread_of(s->seconds, s->count),
                            .peak = work.peak,
                            .limit = spread_of(s->limit, s->count),
                            .share = spread_of(s->share, s->count),
                            .beside = spread_of(s->beside, s->count),
                            .memory = work.most_held};
    work_close(&work);
    work_close(&other);
    free(s);
    return status;
}
