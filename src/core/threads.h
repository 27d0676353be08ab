/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTN_THREADS_H
#define ATTN_THREADS_H
#include "ctx.h"

enum { ATTN_MAX_THREADS = 4096 };

/* One item of work; thread is 0..threads-1. */
typedef void attn_task(void *user, int64_t item, int thread);

/* Runs task(user, 0..items-1) on up to `threads` threads of this call and sets ctx->info.threads. One thread inside a caller's parallel
   region, and in a process that was forked after the library was loaded (OpenMP's threads do not survive a fork). What an item computes
   must not depend on the thread or the order. ATTN_E_CANCELLED if the progress hook says so. */
ATTN_PRIVATE attn_status attn_parallel(attn_ctx *ctx, int threads, int64_t items, attn_task *task, void *user);
#endif
