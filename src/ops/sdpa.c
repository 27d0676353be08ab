/* SPDX-License-Identifier: Apache-2.0 */
/* attn_sdpa: plan, cut into work items, run the kernel. */
#include "sdpa_plan.h"

#include "../core/threads.h"
#include <stdatomic.h>

typedef struct sdpa_run {
    const attn_plan *plan;
    const attn_kernels *kernels;
    char *scratch;
    int64_t scratch_part;       /* bytes of each thread */
    int64_t chunks, chunk_rows; /* pieces that the rows of a KV head are cut into */
    int64_t kv_heads;           /* KV heads that one item of work runs in their order: 1, or all */
    int is_whole;               /* an item of work runs all chunks in their order */
    int64_t pieces, state_part; /* of the keys of a KV head, where they are cut instead of the rows; bytes of the state of each */
    char *states;
    _Atomic int64_t *missing; /* pieces of each KV head that are not computed yet */
} sdpa_run;

/* One item of work: a chunk of the rows of a KV head; or more, where sums over rows (mass) or heads (average) must have one order. */
static void run_item(void *user, int64_t index, int thread)
{
    const sdpa_run *r = user;
    void *scratch = r->scratch + thread * r->scratch_part;
    int64_t chunks = r->is_whole ? 1 : r->chunks, groups = r->plan->kv_heads / r->kv_heads;
    int64_t chunk = index % chunks, group = index / chunks % groups, item = index / chunks / groups;
    for (int64_t head = group * r->kv_heads; head < (group + 1) * r->kv_heads; head++) {
        attn_sdpa_job job;
        attn_plan_job(&job, r->plan, item, head);
        int64_t rows = job.positions * job.heads, first = r->is_whole ? 0 : chunk * r->chunk_rows;
        int64_t end = r->is_whole || first + r->chunk_rows > rows ? rows : first + r->chunk_rows;
        if (first < end)
            r->kernels->sdpa_rows(&job, first, end, scratch);
    }
}

/* One piece of the keys of a KV head, for all its rows. The last one joins them. */
static void run_piece(void *user, int64_t index, int thread)
{
    const sdpa_run *r = user;
    int64_t group = index / r->pieces;
    attn_sdpa_job job;
    attn_plan_job(&job, r->plan, group / r->plan->kv_heads, group % r->plan->kv_heads);
    char *scratch = r->scratch + thread * r->scratch_part;
    r->kernels->sdpa_piece(&job, index % r->pieces, r->states + index * r->state_part, scratch);
    if (--r->missing[group] == 0)
        r->kernels->sdpa_join(&job, r->states + group * r->pieces * r->state_part, scratch);
}

static void zero_view(const attn_view *v, const int64_t size[AXES])
{
    if (!v->data || !size[0] || !size[1] || !size[2] || !size[3])
        return;
    for (int64_t i = 0; i < size[0]; i++)
        for (int64_t j = 0; j < size[1]; j++)
            for (int64_t k = 0; k < size[2]; k++)
                for (int64_t l = 0; l < size[3]; l++) {
                    int64_t at = i * v->stride[0] + j * v->stride[1] + k * v->stride[2] + l * v->stride[3];
                    if (v->dtype == ATTN_F64)
                        ((double *)v->data)[at] = 0;
                    else
                        ((float *)v->data)[at] = 0;
                }
}

/* What rows or heads add to. */
static void zero_sums(const attn_plan *p)
{
    int64_t entries = p->is_packed ? 1 : p->items;
    zero_view(&p->mass, (const int64_t[AXES]){entries, p->heads, 1, p->keys});
    if (p->opts.flags & ATTN_AVERAGE)
        zero_view(&p->weights, (const int64_t[AXES]){entries, 1, p->rows, p->keys});
}

/* Enough chunks that the threads finish together, of nearly equal size in multiples of 192 rows, which fill the lanes of every level, but
   of no more rows than share a sweep over the keys. */
static void cut_rows(sdpa_run *r, int64_t rows, int threads)
{
    const int64_t unit = r->kernels->sdpa_unit(), heads = r->plan->items * r->plan->kv_heads;
    const int64_t wanted = threads > 1 && heads ? (4 * threads + heads - 1) / heads : 1, needed = (rows + unit - 1) / unit;
    const int64_t chunks = wanted > needed ? wanted : needed;
    r->chunk_rows = ((rows + chunks - 1) / chunks + 191) / 192 * 192;
    r->chunk_rows = r->chunk_rows > unit ? unit : r->chunk_rows;
    r->chunks = (rows + r->chunk_rows - 1) / r->chunk_rows;
}

/* Below about 20 microseconds of work a second thread costs more than it does. */
static int threads_for(const attn_ctx *ctx, const attn_plan *p)
{
    double flops = 2.0 * p->cells * (double)p->heads * (double)(p->dim + p->value_dim);
    return flops < 1e6 ? 1 : (int)ctx->threads;
}

/* Too few rows to be cut for all threads, over keys that can be: decoding, mostly. */
static int cuts_keys(const sdpa_run *r, const attn_sdpa_job *job, int threads)
{
    const attn_plan *p = r->plan;
    int64_t rows = p->rows * p->group;
    return threads > 1 && !p->is_packed && !r->is_whole && r->kv_heads == 1 && rows <= r->kernels->sdpa_block() &&
           p->items * p->kv_heads < 4 * threads && r->kernels->sdpa_pieces(job) > 1;
}

static attn_status run_pieces(attn_ctx *ctx, sdpa_run *r, const attn_sdpa_job *first, int threads)
{
    const int64_t groups = r->plan->items * r->plan->kv_heads;
    r->pieces = r->kernels->sdpa_pieces(first);
    r->state_part = r->kernels->sdpa_state(first);
    threads = groups * r->pieces < threads ? (int)(groups * r->pieces) : threads;
    const int64_t scratch = r->scratch_part * threads, states = r->state_part * r->pieces * groups;
    attn_status status = attn_reserve(ctx, &ctx->scratch, scratch + states + groups * (int64_t)sizeof *r->missing);
    if (status != ATTN_OK)
        return status;
    r->scratch = ctx->scratch.data;
    r->states = r->scratch + scratch;
    r->missing = (_Atomic int64_t *)(void *)(r->states + states);
    for (int64_t group = 0; group < groups; group++)
        atomic_init(&r->missing[group], r->pieces);
    return attn_parallel(ctx, threads, groups * r->pieces, run_piece, r);
}

static attn_status run_plan(attn_ctx *ctx, const attn_plan *p)
{
    sdpa_run r = {.plan = p, .kernels = attn_plan_kernels(ctx, p), .kv_heads = 1};
    int threads = threads_for(ctx, p);
    zero_sums(p);
    ctx->info.threads = 1;
    if (p->items == 0 || p->kv_heads == 0 || p->longest == 0)
        return ATTN_OK;
    cut_rows(&r, p->longest * p->group, threads);
    if (p->opts.flags & ATTN_AVERAGE)
        r.kv_heads = p->kv_heads;
    r.is_whole = p->mass.data != NULL;
    int64_t items = p->items * (p->kv_heads / r.kv_heads) * (r.is_whole ? 1 : r.chunks);
    attn_sdpa_job job;
    attn_plan_job(&job, p, 0, 0);
    r.scratch_part = (r.kernels->sdpa_scratch(&job) + ATTN_ALIGN - 1) / ATTN_ALIGN * ATTN_ALIGN;
    if (cuts_keys(&r, &job, threads))
        return run_pieces(ctx, &r, &job, threads);
    threads = items < threads ? (int)items : threads;
    attn_status status = attn_reserve(ctx, &ctx->scratch, r.scratch_part * threads);
    r.scratch = ctx->scratch.data;
    return status ? status : attn_parallel(ctx, threads, items, run_item, &r);
}

attn_status attn_sdpa(attn_ctx *ctx, attn_tensor *out, const attn_tensor *q, const attn_tensor *k, const attn_tensor *v,
                      const attn_sdpa_opts *opts)
{
    attn_plan p;
    if (!ctx)
        return ATTN_E_ARG;
    attn_begin(ctx);
    if (!out)
        return attn_fail(ctx, ATTN_E_ARG, "out is NULL");
    attn_status status = attn_plan_make(ctx, &p, out, q, k, v, opts);
    return status ? status : run_plan(ctx, &p);
}
