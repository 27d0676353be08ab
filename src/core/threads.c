/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "threads.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>
#include <unistd.h>
#ifdef _OPENMP
#include <omp.h>
#endif
#ifdef __linux__
#include <sys/prctl.h>
#endif

typedef struct work {
    attn_ctx *ctx;
    attn_task *task;
    void *user;
    int64_t items;
    _Atomic int64_t next, done;
    _Atomic int cancelled;
    _Atomic int arrived; /* threads that run, beside the caller's own */
    int cpu;             /* of the caller */
} work;

static double share_of_call(const attn_ctx *ctx, double done)
{
    return ctx->progress_span > 0 ? ctx->progress_from + ctx->progress_span * done : done;
}

/* Takes an item; false if none is left. Thread 0 is the caller's own: it tells the progress. */
static bool take_item(work *w, int thread)
{
    const int64_t item = w->next++;
    if (w->cancelled || item >= w->items)
        return false;
    w->task(w->user, item, thread);
    if (!w->ctx->progress)
        return true;
    const int64_t done = ++w->done;
    if (thread == 0 && w->ctx->progress(w->ctx->progress_user, share_of_call(w->ctx, (double)done / (double)w->items)))
        w->cancelled = 1;
    return true;
}

#ifdef _OPENMP
/* The process that loaded the library, written once before main. A forked child has another id: OpenMP's threads, the library's or the
   caller's own, do not survive a fork, and a parallel region in the child would wait for them for ever. */
static pid_t loaded_in;
__attribute__((constructor)) static void remember_process(void) { loaded_in = getpid(); }

/* A team that has slept is woken on the caller's CPU where the kernel takes an idle CPU for one that the host has taken away (Linux in
   virtual machines), and waits there for as long as the caller computes, and spins in OpenMP's barrier: milliseconds for a call of
   microseconds. So the caller lets the others begin, and who finds itself on the caller's CPU leaves it. docs/adr/0016 has the numbers. */
#ifdef __linux__
static int current_cpu(void) { return sched_getcpu(); }

/* A filter of system calls may end the process for choosing CPUs (systemd's @resources): where there is one, nobody moves. */
static void leave_cpu(int cpu)
{
    cpu_set_t allowed, others;
    if (sched_getcpu() != cpu || prctl(PR_GET_SECCOMP) != 0 || sched_getaffinity(0, sizeof allowed, &allowed))
        return;
    others = allowed;
    CPU_CLR(cpu, &others);
    if (CPU_COUNT(&others) && !sched_setaffinity(0, sizeof others, &others)) /* moves this thread at once */
        sched_setaffinity(0, sizeof allowed, &allowed);
}
#else
static int current_cpu(void) { return -1; }
static void leave_cpu(int cpu) { (void)cpu; }
#endif

static void lead_team(work *w)
{
    const int others = omp_get_num_threads() - 1;
    w->ctx->info.threads = (uint32_t)others + 1;
    for (bool more = true; more || w->arrived < others;) {
        more = more && take_item(w, 0);
        if (w->arrived < others)
            sched_yield();
    }
}

static void follow_team(work *w)
{
    leave_cpu(w->cpu);
    w->arrived++;
    while (take_item(w, omp_get_thread_num()))
        ;
}

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
        while (take_item(&w, 0))
            ;
    } else {
#ifdef _OPENMP
        w.cpu = current_cpu();
#pragma omp parallel num_threads(threads)
        if (omp_get_thread_num() == 0)
            lead_team(&w);
        else
            follow_team(&w);
#endif
    }
    return w.cancelled ? attn_fail(ctx, ATTN_E_CANCELLED, "cancelled by the progress hook") : ATTN_OK;
}
