/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
#include "threads.h"

#include <stdatomic.h>
#include <sys/types.h>
#include <unistd.h>
#ifdef _OPENMP
#include <omp.h>
#endif

typedef struct work {
    attn_ctx *ctx;
    attn_task *task;
    void *user;
    int64_t items;
    _Atomic int64_t next, done;
    _Atomic int cancelled;
} work;

static double share_of_call(const attn_ctx *ctx, double done)
{
    return ctx->progress_span > 0 ? ctx->progress_from + ctx->progress_span * done : done;
}

/* Takes items until none is left. Thread 0 is the caller's own: it tells the progress. */
static void take_items(work *w, int thread)
{
    int64_t item;
    while (!w->cancelled && (item = w->next++) < w->items) {
        w->task(w->user, item, thread);
        if (!w->ctx->progress)
            continue;
        int64_t done = ++w->done;
        if (thread == 0 && w->ctx->progress(w->ctx->progress_user, share_of_call(w->ctx, (double)done / (double)w->items)))
            w->cancelled = 1;
    }
}

#ifdef _OPENMP
/* The process that loaded the library, written once before main. A forked child has another id: OpenMP's threads, the library's or the
   caller's own, do not survive a fork, and a parallel region in the child would wait for them for ever. */
static pid_t loaded_in;
__attribute__((constructor)) static void remember_process(void) { loaded_in = getpid(); }

static int threads_allowed(int threads) { return threads <= 1 || omp_in_parallel() || getpid() != loaded_in ? 1 : threads; }
#else
static int threads_allowed(int threads)
{
    (void)threads;
    return 1;
}
#endif

attn_status attn_parallel(attn_ctx *ctx, int threads, int64_t items, attn_task *task, void *user)
{
    work w = {.ctx = ctx, .task = task, .user = user, .items = items};
    threads = threads_allowed(items < threads ? (int)items : threads);
    ctx->info.threads = 1;
    if (threads <= 1) {
        take_items(&w, 0);
    } else {
#ifdef _OPENMP
#pragma omp parallel num_threads(threads)
        {
            if (omp_get_thread_num() == 0)
                ctx->info.threads = (uint32_t)omp_get_num_threads();
            take_items(&w, omp_get_thread_num());
        }
#endif
    }
    return w.cancelled ? attn_fail(ctx, ATTN_E_CANCELLED, "cancelled by the progress hook") : ATTN_OK;
}
