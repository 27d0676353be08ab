/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts in several caller threads, inside a parallel region, after fork; progress and cancelling. */
#define _GNU_SOURCE
#include "call.h"

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

enum { CALLERS = 6 };

static const sizes size = {2, 4, 2, 200, 300, 32, 32};
static const range all = {0, 2, 0, 4, 0, 200};

/* A call and the bits that it must give, computed alone by one thread. */
typedef struct problem {
    pool memory;
    call want;
} problem;

static void open_problem(problem *p) {
    rng r = rng_of(test_seed(), 1);
    memset(p, 0, sizeof *p);
    p->want = new_call(&p->memory, &r, ATTN_F32, size, CAUSAL | ALIBI | SINKS | MASK);
    attn_ctx *ctx = new_ctx(NULL, 1);
    assert_ok(ctx, call_run(ctx, &p->want));
    attn_ctx_destroy(ctx);
}

/* Runs the call some times in a context of its own; true if the bits are right every time, and no more than `most` threads ran. Uses no
   cmocka: it runs in any thread. */
static bool right_bits(const problem *p, uint32_t threads, uint32_t most) {
    const attn_ctx_opts o = {.threads = threads};
    attn_ctx *ctx = NULL;
    bool ok = attn_ctx_create(&ctx, &o, NULL, 0) == ATTN_OK;
    for (int n = 0; ok && n < 5; n++) {
        pool memory = {0};
        call c = part_of(&memory, &p->want, all);
        ok = call_run(ctx, &c) == ATTN_OK && same_rows("a caller thread", &p->want, all, &c) &&
             attn_ctx_info(ctx).threads <= most;
        pool_free(&memory);
    }
    attn_ctx_destroy(ctx);
    return ok;
}

static void *caller(void *p) {
    return right_bits(p, 2, 2) ? p : NULL;
}

static void contexts_are_independent(void **state) {
    (void)state;
    problem p;
    open_problem(&p);
    pthread_t thread[CALLERS];
    for (int n = 0; n < CALLERS; n++) {
        assert_int_equal(pthread_create(&thread[n], NULL, caller, &p), 0);
    }
    for (int n = 0; n < CALLERS; n++) {
        void *ok = NULL;
        pthread_join(thread[n], &ok);
        assert_non_null(ok);
    }
    pool_free(&p.memory);
}

static void inside_a_parallel_region(void **state) {
    (void)state;
    problem p;
    open_problem(&p);
    int right = 0, callers = 0;
#ifdef _OPENMP
#pragma omp parallel num_threads(3) reduction(+ : right, callers)
#endif
    {
        callers += 1;
        right += right_bits(&p, 4, 1);
    }
    assert_int_equal(right, callers);
    pool_free(&p.memory);
}

/* The parent has used its threads; the child runs on one, with the same bits. */
static void fork_after_use(void **state) {
    (void)state;
    problem p;
    open_problem(&p);
    attn_ctx *ctx = new_ctx(NULL, 2);
    call c = part_of(&p.memory, &p.want, all);
    assert_ok(ctx, call_run(ctx, &c));
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(60);
        call again = part_of(&p.memory, &p.want, all);
        const bool ran = call_run(ctx, &again) == ATTN_OK && same_rows("a forked child", &p.want, all, &again);
        _exit(!ran ? 1 : attn_ctx_info(ctx).threads != 1 ? 2 : right_bits(&p, 2, 1) ? 0 : 3);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_ok(ctx, call_run(ctx, &c));
    assert_true(same_rows("the parent", &p.want, all, &c));
    attn_ctx_destroy(ctx);
    pool_free(&p.memory);
}

typedef struct watch {
    pthread_t self;
    int called, wrong;
    int cancel_at; /* the call of the hook that cancels; 0: none */
} watch;

static int watch_progress(void *user, double done) {
    watch *w = user;
    w->wrong += !pthread_equal(w->self, pthread_self()) || !(done >= 0 && done <= 1);
    return ++w->called == w->cancel_at;
}

static void progress_and_cancel(void **state) {
    (void)state;
    problem p;
    open_problem(&p);
    for (uint32_t threads = 1; threads <= 2; threads++) {
        watch w = {.self = pthread_self()};
        const attn_ctx_opts o = {.threads = threads, .progress = watch_progress, .progress_user = &w};
        attn_ctx *ctx = NULL;
        assert_int_equal(attn_ctx_create(&ctx, &o, NULL, 0), ATTN_OK);
        call c = part_of(&p.memory, &p.want, all);
        /* On a busy machine the other thread may do all of the work before the caller, which alone tells the progress, does any. */
        for (int tries = 0; w.called == 0 && tries < 1000; tries++) {
            assert_ok(ctx, call_run(ctx, &c));
        }
        assert_int_equal(w.wrong, 0);
        assert_true(w.called > 0);
        w = (watch){.self = pthread_self(), .cancel_at = 1};
        attn_status status = ATTN_OK;
        for (int tries = 0; w.called == 0 && tries < 1000; tries++) {
            status = call_run(ctx, &c);
        }
        assert_int_equal(status, ATTN_E_CANCELLED);
        assert_non_null(strstr(attn_ctx_error(ctx), "cancelled"));
        assert_int_equal(w.called, 1);
        w = (watch){.self = pthread_self()};
        assert_ok(ctx, call_run(ctx, &c)); /* the context is as good as before */
        assert_true(same_rows("after a cancelled call", &p.want, all, &c));
        attn_ctx_destroy(ctx);
    }
    pool_free(&p.memory);
}

/* What ran: the level, the path and the threads. */
static void info_tells_what_ran(void **state) {
    (void)state;
    problem p;
    open_problem(&p);
    const char *isa;
    for (int level = 0; (isa = usable_isa(level)); level++) {
        attn_ctx *ctx = new_ctx(isa, 2);
        assert_string_equal(attn_ctx_info(ctx).path, "none");
        assert_int_equal(attn_ctx_info(ctx).threads, 2);
        call c = part_of(&p.memory, &p.want, all);
        assert_ok(ctx, call_run(ctx, &c));
        assert_string_equal(attn_ctx_info(ctx).isa, isa);
        assert_string_equal(attn_ctx_info(ctx).path, "tiled f32");
        assert_in_range(attn_ctx_info(ctx).threads, 1, 2);
        attn_ctx_destroy(ctx);
    }
    pool_free(&p.memory);
}

/* Few rows of a wide projection are cut into parts of columns, the last of which is not full; many into parts of rows. */
static void projections_in_parts(void **state) {
    (void)state;
    static const int64_t rows[] = {1, 3, 300};
    const int64_t width = 1300;
    pool memory = {0};
    rng r = rng_of(test_seed(), 2);
    const attn_tensor w = TENSOR(&memory, ATTN_F32, width, width), b = TENSOR(&memory, ATTN_F32, width);
    const attn_mha_desc desc = {.heads = 4, .w_q = &w, .w_k = &w, .w_v = &w, .w_o = &w, .b_q = &b, .b_o = &b};
    fill_normal(&w, &r, 0.03);
    fill_normal(&b, &r, 1);
    for (int n = 0; n < (test_is_short() ? 4 : 6); n++) {
        const attn_tensor x = TENSOR(&memory, ATTN_F32, rows[n / 2], width);
        attn_tensor want = TENSOR(&memory, n % 2 ? ATTN_F16 : ATTN_F32, rows[n / 2], width);
        fill_normal(&x, &r, 1);
        for (uint32_t threads = 1; threads <= 3; threads++) {
            attn_tensor got = TENSOR(&memory, want.dtype, rows[n / 2], width);
            attn_ctx *ctx = new_ctx(NULL, threads);
            attn_mha_weights *weights = NULL;
            assert_ok(ctx, attn_mha_prepare(ctx, &weights, &desc));
            assert_ok(ctx, attn_mha(ctx, threads == 1 ? &want : &got, weights, &x, NULL, NULL, NULL));
            assert_true(threads == 1 || same_bits("attn_mha", &want, &got));
            attn_mha_weights_destroy(weights);
            attn_ctx_destroy(ctx);
        }
    }
    pool_free(&memory);
}

/* The CPUs that a thread of this process may use, as Linux writes them; "" elsewhere. */
static void cpus_of_thread(const char *id, char cpus[256]) {
    char path[300], line[256] = "";
    snprintf(path, sizeof path, "/proc/self/task/%s/status", id);
    FILE *file = fopen(path, "r");
    cpus[0] = 0;
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, "Cpus_allowed:", 13) == 0) {
            strcpy(cpus, line + 13);
        }
    }
    if (file) {
        fclose(file);
    }
}

/* Calls after pauses, in which the other threads fall asleep. */
static bool right_after_pauses(attn_ctx *ctx, problem *p) {
    bool ok = true;
    for (int n = 0; ok && n < 20; n++) {
        call c = part_of(&p->memory, &p->want, all);
        nanosleep(&(struct timespec){.tv_nsec = 20 * 1000 * 1000}, NULL);
        ok = call_run(ctx, &c) == ATTN_OK && same_rows("after a pause", &p->want, all, &c);
    }
    return ok;
}

/* A thread that leaves the caller's CPU may come back: all may use what they could before. */
static void threads_keep_their_cpus(void **state) {
    (void)state;
    problem p;
    open_problem(&p);
    attn_ctx *ctx = new_ctx(NULL, 2);
    assert_true(right_after_pauses(ctx, &p));
    char want[256], id[32], cpus[256];
    snprintf(id, sizeof id, "%d", (int)getpid());
    cpus_of_thread(id, want);
    DIR *threads = opendir("/proc/self/task");
    for (const struct dirent *entry; threads && (entry = readdir(threads));) {
        cpus_of_thread(entry->d_name, cpus);
        assert_true(entry->d_name[0] == '.' || strcmp(cpus, want) == 0);
    }
    if (threads) {
        closedir(threads);
    }
    attn_ctx_destroy(ctx);
    pool_free(&p.memory);
}

#if defined(__linux__) && defined(SECCOMP_FILTER_FLAG_TSYNC) && defined(SECCOMP_RET_KILL_PROCESS)
/* From now on sched_setaffinity ends the process; false if that cannot be had here. */
static bool forbid_to_choose_cpus(void) {
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_sched_setaffinity, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog filter = {sizeof steps / sizeof steps[0], steps};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter) == 0;
}

/* This program once more, since threads do not survive a fork. Exit code 0: right, or no filter to be had. */
static int run_filtered(void) {
    problem p;
    open_problem(&p);
    attn_ctx *ctx = new_ctx(NULL, 2);
    call c = part_of(&p.memory, &p.want, all);
    const bool ok = call_run(ctx, &c) == ATTN_OK && (!forbid_to_choose_cpus() || right_after_pauses(ctx, &p));
    attn_ctx_destroy(ctx);
    pool_free(&p.memory);
    return ok ? 0 : 1;
}

static void a_filter_ends_nobody(void **state) {
    (void)state;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        execl("/proc/self/exe", "test_threads", "filtered", (char *)NULL);
        _exit(127);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_true(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 127); /* 127: an emulator does not start it again */
}
#else
static int run_filtered(void) { return 0; }
static void a_filter_ends_nobody(void **state) { (void)state; }
#endif

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "filtered") == 0) {
        return run_filtered();
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contexts_are_independent), cmocka_unit_test(inside_a_parallel_region), cmocka_unit_test(fork_after_use),
        cmocka_unit_test(progress_and_cancel),      cmocka_unit_test(info_tells_what_ran),
        cmocka_unit_test(projections_in_parts),     cmocka_unit_test(threads_keep_their_cpus),
        cmocka_unit_test(a_filter_ends_nobody),
    };
    return cmocka_run_group_tests_name("threads", tests, NULL, NULL);
}
