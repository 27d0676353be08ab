/* SPDX-License-Identifier: Apache-2.0 */
/* Every kernel of every table that this machine can run, on cases made to break it: odd shapes, layouts and data; arrays that end or begin
   at an inaccessible page; faults caught and named. Compared with the reference within the documented bound. */
#define _DEFAULT_SOURCE
#include "harness.h"

#include <fnmatch.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../src/cpu/cpu.h"

#if defined(HARNESS_EMULATED_PAIRS)
static const table tables[] = { { "avx512_bf16-emulated", "avx2", NULL, NULL, &attn_kernels_avx512_bf16 } };
#elif defined(HARNESS_EMULATED)
static const table tables[] = { { "avx512-emulated", "avx2", &attn_kernels_avx512_f32, &attn_kernels_avx512_f64, NULL } };
#else
static const table tables[] = {
    { "scalar", "scalar", &attn_kernels_scalar_f32, &attn_kernels_scalar_f64, NULL },
#if defined(__x86_64__)
    { "avx2", "avx2", &attn_kernels_avx2_f32, &attn_kernels_avx2_f64, NULL },
    { "avx512", "avx512", &attn_kernels_avx512_f32, &attn_kernels_avx512_f64, NULL },
    { "avx512_bf16", "avx512_bf16", NULL, NULL, &attn_kernels_avx512_bf16 },
#elif defined(__aarch64__)
    { "neon", "neon", &attn_kernels_neon_f32, &attn_kernels_neon_f64, NULL },
    { "neon_bf16", "neon_bf16", NULL, NULL, &attn_kernels_neon_bf16 },
#endif
};
#endif

static const struct kernel_test {
    const char *name;
    void (*run)(harness *h);
    bool is_of_pairs; /* a table of pairs has the kernel too */
} kernel_tests[] = {
#define KERNEL_TEST(ret, name, args) { #name, test_##name, true },
    ATTN_PAIR_KERNELS(KERNEL_TEST)
#undef KERNEL_TEST
#define KERNEL_TEST(ret, name, args) { #name, test_##name, false },
    ATTN_FLOAT_KERNELS(KERNEL_TEST)
#undef KERNEL_TEST
};

#define COUNT(array) (sizeof(array) / sizeof *(array))
enum { SHOWN = 10 }; /* complaints printed of each kernel */

void complain(harness *h, const char *format, ...)
{
    if (h->failures++ >= SHOWN)
        return;
    va_list args;
    va_start(args, format);
    fprintf(stderr, "FAILED %s.%s --seed=%llu --case=%lld: ", h->table, h->kernel, (unsigned long long)h->seed, (long long)h->number);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
}

/* ------------------------------------------------------------------- calls ---- */

static sigjmp_buf back;
static volatile sig_atomic_t is_in_kernel;
static void *volatile fault_address;

static void on_fault(int signal, siginfo_t *info, void *context)
{
    (void)context;
    if (!is_in_kernel) { /* a fault of the harness itself */
        fprintf(stderr, "the harness itself: %s\n", strsignal(signal));
        _Exit(3);
    }
    fault_address = info->si_addr;
    siglongjmp(back, signal);
}

static void catch_faults(void)
{
    static const int signals[] = { SIGILL, SIGSEGV, SIGFPE, SIGBUS };
    struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER };
    for (size_t i = 0; i < COUNT(signals); i++)
        sigaction(signals[i], &action, NULL);
}

/* The rounding mode, flush-to-zero and exception masks, without the flags that arithmetic raises. */
static unsigned long float_control(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_stmxcsr() & ~0x3fu;
#elif defined(__aarch64__)
    unsigned long control;
    __asm__ volatile("mrs %0, fpcr" : "=r"(control));
    return control;
#else
    return 0;
#endif
}

/* Which array is nearest to an address, and where in it that is. */
static void complain_of_fault(harness *h, int signal)
{
    const unsigned char *at = fault_address;
    for (int i = 0; (signal == SIGSEGV || signal == SIGBUS) && i < h->n_arrays; i++) {
        const guarded *g = &h->arrays[i].memory;
        if (at >= g->map - 4096 && at < g->map + g->map_size + 4096) {
            complain(h, "%s: touches byte %td of %s, which has %zu", strsignal(signal), at - g->data, h->arrays[i].name, g->size);
            return;
        }
    }
    complain(h, "%s at %p", strsignal(signal), (const void *)at);
}

bool call_kernel(harness *h, void (*call)(void *user), void *user)
{
    keep_inputs(h);
    const unsigned long control = float_control();
    const int signal = sigsetjmp(back, 1);
    if (signal == 0) {
        is_in_kernel = 1;
        call(user);
    }
    is_in_kernel = 0;
    if (signal != 0)
        complain_of_fault(h, signal);
    else if (float_control() != control)
        complain(h, "changed the floating-point control register from %lx to %lx", control, float_control());
    check_arrays(h);
    return signal == 0;
}

/* -------------------------------------------------------------------- runs ---- */

typedef struct options {
    const char *isa, *test; /* patterns */
    uint64_t seed;
    int64_t count, number; /* cases of each kernel; only this one, or -1 */
    bool list, bench;
} options;

static void run_case(harness *h, const struct kernel_test *test, int64_t number)
{
    h->number = number;
    h->random = rng_of(h->seed, (uint64_t)number);
    h->side = number % 2 ? GUARD_BEFORE : GUARD_AFTER;
    test->run(h);
    for (int i = 0; i < h->n_arrays; i++)
        guarded_free(&h->arrays[i].memory);
    h->n_arrays = 0;
    pool_free(&h->memory);
}

static void print_worst(const harness *h)
{
    for (int i = 0; i < QUANTITIES; i++)
        if (h->worst.compared[i])
            printf("  %-8s %10lld compared, worst %5.1f %% of the bound\n", quantity_name[i], (long long)h->worst.compared[i],
                   100 * h->worst.share[i]);
}

static const attn_kernels *kernels_of(const table *t, attn_dtype dtype)
{
    return dtype == ATTN_F64 ? t->f64 : dtype == ATTN_BF16 ? t->bf16 : t->f32;
}

static int64_t run_kernel(const table *t, attn_dtype dtype, const struct kernel_test *test, const options *o)
{
    char name[64];
    snprintf(name, sizeof name, "%s.%s", t->name, attn_dtype_name(dtype));
    harness h = { .table = name, .kernel = test->name, .kernels = kernels_of(t, dtype), .real = dtype == ATTN_F64 ? ATTN_F64 : ATTN_F32,
                  .is_of_pairs = dtype == ATTN_BF16, .seed = o->seed };
    if (fnmatch(o->test, test->name, 0) != 0 || !h.kernels || (h.is_of_pairs && !test->is_of_pairs))
        return 0;
    if (o->list) {
        printf("%s.%s\n", name, test->name);
        return 0;
    }
    for (int64_t i = o->number < 0 ? 0 : o->number; i < (o->number < 0 ? o->count : o->number + 1); i++)
        run_case(&h, test, i);
    printf("%s.%s: %lld failures\n", name, test->name, (long long)h.failures);
    print_worst(&h);
    return h.failures;
}

/* The value of --name=value, or NULL. */
static const char *value_of(const char *argument, const char *name)
{
    const size_t n = strlen(name);
    return strncmp(argument, name, n) == 0 && argument[n] == '=' ? argument + n + 1 : NULL;
}

static bool read_options(options *o, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *v;
        if ((v = value_of(argv[i], "--isa")))
            o->isa = v;
        else if ((v = value_of(argv[i], "--test")))
            o->test = v;
        else if ((v = value_of(argv[i], "--seed")))
            o->seed = strtoull(v, NULL, 0);
        else if ((v = value_of(argv[i], "--count")))
            o->count = strtoll(v, NULL, 0);
        else if ((v = value_of(argv[i], "--case")))
            o->number = strtoll(v, NULL, 0);
        else if (strcmp(argv[i], "--list") == 0)
            o->list = true;
        else if (strcmp(argv[i], "--bench") == 0)
            o->bench = true;
        else
            return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    options o = { .isa = "*", .test = "*", .seed = (uint64_t)time(NULL), .count = test_count(400), .number = -1 };
    o.seed = getenv("ATTN_TEST_SEED") ? test_seed() : o.seed;
    if (!read_options(&o, argc, argv)) {
        fprintf(stderr, "usage: harness [--isa=PATTERN] [--test=PATTERN] [--seed=N] [--count=N] [--case=N] [--list] [--bench]\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
    catch_faults();
    printf("seed %llu\n", (unsigned long long)o.seed);
    int64_t failures = 0;
    int ran = 0;
    for (size_t t = 0; t < COUNT(tables); t++) {
        if (fnmatch(o.isa, tables[t].name, 0) != 0)
            continue;
        if (!attn_cpu_usable(tables[t].needs)) {
            printf("SKIPPED: this machine cannot run %s\n", tables[t].name);
            continue;
        }
        ran++;
        for (size_t i = 0; i < COUNT(kernel_tests); i++)
            failures += run_kernel(&tables[t], ATTN_F32, &kernel_tests[i], &o) + run_kernel(&tables[t], ATTN_F64, &kernel_tests[i], &o) +
                        run_kernel(&tables[t], ATTN_BF16, &kernel_tests[i], &o);
    }
    for (size_t t = 0; o.bench && t < COUNT(tables); t++)
        if (failures == 0 && fnmatch(o.isa, tables[t].name, 0) == 0 && attn_cpu_usable(tables[t].needs))
            bench_table(&tables[t]);
    if (o.bench && failures)
        printf("no bench while something fails\n");
    return failures ? 1 : ran ? 0 : 77;
}
