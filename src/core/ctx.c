/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* sched_getaffinity */
#include "ctx.h"

#include "../cpu/cpu.h"
#include "threads.h"
#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const attn_isa isas[] = {
    {"scalar", &attn_kernels_scalar_f32, &attn_kernels_scalar_f64, NULL},
#if defined(__x86_64__)
    {"avx2", &attn_kernels_avx2_f32, &attn_kernels_avx2_f64, NULL},
    {"avx512", &attn_kernels_avx512_f32, &attn_kernels_avx512_f64, NULL},
    {"avx512_bf16", &attn_kernels_avx512_f32, &attn_kernels_avx512_f64, &attn_kernels_avx512_bf16},
#elif defined(__aarch64__)
    {"neon", &attn_kernels_neon_f32, &attn_kernels_neon_f64, NULL},
    {"neon_bf16", &attn_kernels_neon_f32, &attn_kernels_neon_f64, &attn_kernels_neon_bf16},
#endif
};
enum { N_ISAS = sizeof isas / sizeof *isas };

const char *attn_isa_name(int i) { return i >= 0 && i < N_ISAS ? isas[i].name : NULL; }
int attn_isa_usable(const char *name) { return attn_cpu_usable(name); }

/* Big blocks, such as prepared weights and KV caches, ask for huge pages: with pages of 4 KiB a pass over 8 MiB misses the TLB. */
static void *default_alloc(void *user, size_t align, size_t size)
{
    enum { HUGE_PAGE = 2 << 20 };
    (void)user;
    const size_t unit = size < 2 * HUGE_PAGE ? align : HUGE_PAGE;
    if (size > SIZE_MAX - unit)
        return NULL;
    void *p = aligned_alloc(unit, (size + unit - 1) / unit * unit);
#ifdef MADV_HUGEPAGE
    if (p && unit == HUGE_PAGE)
        madvise(p, size, MADV_HUGEPAGE); /* a kernel without them changes nothing */
#endif
    return p;
}
static void default_free(void *user, void *p)
{
    (void)user;
    free(p);
}

attn_status attn_fail(attn_ctx *ctx, attn_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(ctx->error, sizeof ctx->error, format, args);
    va_end(args);
    return status;
}

void attn_begin(attn_ctx *ctx) { ctx->error[0] = 0; }

const char *attn_ctx_error(const attn_ctx *ctx) { return ctx ? ctx->error : "the context is NULL"; }
attn_info attn_ctx_info(const attn_ctx *ctx) { return ctx ? ctx->info : (attn_info){.isa = "none", .path = "none"}; }

void *attn_alloc(attn_ctx *ctx, int64_t size)
{
    return size < 0 || (uint64_t)size > SIZE_MAX - ATTN_ALIGN ? NULL : ctx->alloc(ctx->user, ATTN_ALIGN, size ? (size_t)size : 1);
}

void attn_free(attn_ctx *ctx, void *p)
{
    if (p)
        ctx->free(ctx->user, p);
}

attn_status attn_reserve(attn_ctx *ctx, attn_buffer *b, int64_t size)
{
    if (size <= b->size)
        return ATTN_OK;
    attn_free(ctx, b->data);
    b->data = attn_alloc(ctx, size);
    b->size = b->data ? size : 0;
    return b->data ? ATTN_OK : attn_fail(ctx, ATTN_E_NOMEM, "out of memory: %lld bytes of scratch were refused", (long long)size);
}

attn_status attn_copy_struct(attn_ctx *ctx, void *own, size_t own_size, const void *theirs, const char *what)
{
    uint32_t size = 0;
    memset(own, 0, own_size);
    if (!theirs)
        return ATTN_OK;
    memcpy(&size, theirs, sizeof size);
    if (size == 0)
        size = (uint32_t)own_size;
    if (size < 2 * sizeof(uint32_t))
        return attn_fail(ctx, ATTN_E_ARG, "%s.struct_size is %u, which is less than its first two members; use sizeof", what, size);
    for (size_t i = own_size; i < size; i++)
        if (((const unsigned char *)theirs)[i])
            return attn_fail(ctx, ATTN_E_ARG, "%s has %u bytes and uses options that this libattn (%s, %zu bytes) does not know", what,
                             size, attn_version(), own_size);
    memcpy(own, theirs, size < own_size ? size : own_size);
    return ATTN_OK;
}

/* CPUs that this process may use. */
static uint32_t usable_cpus(void)
{
    cpu_set_t set;
    if (!sched_getaffinity(0, sizeof set, &set))
        return (uint32_t)CPU_COUNT(&set);
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (uint32_t)n : 1;
}

/* A positive number at the start of the text, or 0. */
static uint32_t leading_number(const char *text, char after)
{
    char *end;
    errno = 0;
    long n = strtol(text, &end, 10);
    return end != text && !errno && n > 0 && n <= ATTN_MAX_THREADS && (*end == 0 || *end == after) ? (uint32_t)n : 0;
}

static attn_status choose_threads(attn_ctx *ctx, uint32_t asked)
{
    const char *ours = getenv("ATTN_NUM_THREADS"), *omp = getenv("OMP_NUM_THREADS");
    if (asked > ATTN_MAX_THREADS)
        return attn_fail(ctx, ATTN_E_ARG, "threads is %u; at most %d are possible", asked, ATTN_MAX_THREADS);
    ctx->threads = asked;
    if (!ctx->threads && ours && *ours) {
        ctx->threads = leading_number(ours, 0);
        if (!ctx->threads)
            return attn_fail(ctx, ATTN_E_ARG, "ATTN_NUM_THREADS is '%.40s'; it must be a number from 1 to %d", ours, ATTN_MAX_THREADS);
    }
    if (!ctx->threads && omp)
        ctx->threads = leading_number(omp, ',');
    if (!ctx->threads)
        ctx->threads = usable_cpus();
    if (ctx->threads > ATTN_MAX_THREADS)
        ctx->threads = ATTN_MAX_THREADS;
    return ATTN_OK;
}

static void list_levels(char *text, size_t size)
{
    size_t n = 0;
    text[0] = 0;
    for (int i = 0; i < N_ISAS && n < size; i++)
        if (attn_isa_usable(isas[i].name))
            n += (size_t)snprintf(text + n, size - n, "%s%s", n ? ", " : "", isas[i].name);
}

static attn_status choose_isa(attn_ctx *ctx, const char *asked)
{
    const char *source = "isa", *env = getenv("ATTN_ISA");
    if (!asked && env && *env) {
        asked = env;
        source = "ATTN_ISA";
    }
    for (int i = 0; i < N_ISAS; i++)
        if (asked ? !strcmp(asked, isas[i].name) : attn_isa_usable(isas[i].name))
            ctx->isa = &isas[i];
    if (ctx->isa && attn_isa_usable(ctx->isa->name))
        return ATTN_OK;
    char usable[80];
    list_levels(usable, sizeof usable);
    return attn_fail(ctx, ATTN_E_UNSUPPORTED, "%s is '%.40s', %s; usable here: %s", source, asked ? asked : "",
                     ctx->isa ? "an ISA level that this CPU or its operating system cannot run" : "which is no ISA level of this library",
                     usable);
}

attn_status attn_ctx_create(attn_ctx **out, const attn_ctx_opts *opts, char *err, size_t err_size)
{
    attn_ctx draft = {.alloc = default_alloc, .free = default_free};
    attn_ctx_opts o;
    if (err && err_size)
        err[0] = 0;
    if (!out)
        return ATTN_E_ARG;
    *out = NULL;
    attn_status status = attn_copy_struct(&draft, &o, sizeof o, opts, "attn_ctx_opts");
    if (status == ATTN_OK && !o.alloc != !o.free)
        status = attn_fail(&draft, ATTN_E_ARG, "alloc and free must be given together: one of them is NULL");
    if (status == ATTN_OK)
        status = choose_threads(&draft, o.threads);
    if (status == ATTN_OK)
        status = choose_isa(&draft, o.isa);
    if (status == ATTN_OK && o.alloc) {
        draft.alloc = o.alloc;
        draft.free = o.free;
        draft.user = o.user;
    }
    attn_ctx *ctx = status == ATTN_OK ? attn_alloc(&draft, sizeof *ctx) : NULL;
    if (status == ATTN_OK && !ctx)
        status = attn_fail(&draft, ATTN_E_NOMEM, "out of memory: %zu bytes for a context were refused", sizeof *ctx);
    if (status != ATTN_OK) {
        if (err && err_size)
            snprintf(err, err_size, "%s", draft.error);
        return status;
    }
    draft.progress = o.progress;
    draft.progress_user = o.progress_user;
    draft.info = (attn_info){.isa = draft.isa->name, .path = "none", .threads = draft.threads};
    *ctx = draft;
    *out = ctx;
    return ATTN_OK;
}

void attn_ctx_destroy(attn_ctx *ctx)
{
    if (!ctx)
        return;
    attn_free(ctx, ctx->scratch.data);
    attn_free(ctx, ctx->per_head.data);
    attn_free(ctx, ctx->temporary.data);
    ctx->free(ctx->user, ctx);
}
