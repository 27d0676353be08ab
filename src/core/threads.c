/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
#include "threads.h"

#include <stdatomic.h>
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

/* Takes items until none is left. Thread 0 is the caller's own: it tells the progress. */
static void take_items(work *w, int thread)
{
    int64_t item;
    while (!w->cancelled && (item = w->next++) < w->items) {
        w->task(w->user, item, thread);
        int64_t done = ++w->done;
        if (thread == 0 && w->ctx->progress && w->ctx->progress(w->ctx->progress_user, (double)done / (double)w->items))
            w->cancelled = 1;
    }
}

#ifdef _OPENMP
/* The process that used several threads first: the one variable of the library that changes. A forked child has another id. */
static _Atomic long parallel_process;

static int threads_allowed(int threads)
{
    long none = 0, self = (long)getpid();
    if (threads <= 1 || omp_in_parallel())
        return 1;
    return atomic_compare_exchange_strong(&parallel_process, &none, self) || none == self ? threads : 1;
}
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
    ctx->info.threads = threads < 1 ? 1 : (uint32_t)threads;
    if (threads <= 1) {
        take_items(&w, 0);
    } else {
#ifdef _OPENMP
#pragma omp parallel num_threads(threads)
        take_items(&w, omp_get_thread_num());
#endif
    }
    return w.cancelled ? attn_fail(ctx, ATTN_E_CANCELLED, "cancelled by the progress hook") : ATTN_OK;
}
