/* SPDX-License-Identifier: Apache-2.0 */
/* The part of cmocka's interface that our tests use, in one header: Debian packages no cmocka for a cross compiler's target, and
   installing a foreign architecture would change the user's machine. Native builds use the real one. Written from cmocka's
   documentation. */
#ifndef ATTN_TESTS_CMOCKA_H
#define ATTN_TESTS_CMOCKA_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef int (*CMFixtureFunction)(void **state);

struct CMUnitTest {
    const char *name;
    void (*test_func)(void **state);
    CMFixtureFunction setup_func, teardown_func;
    void *initial_state;
};

#define cmocka_unit_test(f) {#f, f, NULL, NULL, NULL}
#define cmocka_unit_test_prestate(f, state) {#f, f, NULL, NULL, state}
#define cmocka_unit_test_setup(f, setup) {#f, f, setup, NULL, NULL}
#define cmocka_unit_test_teardown(f, teardown) {#f, f, NULL, teardown, NULL}
#define cmocka_unit_test_setup_teardown(f, setup, teardown) {#f, f, setup, teardown, NULL}

enum { CM_FAILED = 1, CM_SKIPPED = 2 };

/* Where a failing or skipped test returns to; one for all files of a test program. */
__attribute__((weak)) jmp_buf cm_return;

#define print_message(...) ((void)printf(__VA_ARGS__))
#define print_error(...) ((void)fprintf(stderr, __VA_ARGS__))
#define fail_msg(...)                                                                                                                      \
    (print_error("%s:%d: ", __FILE__, __LINE__), print_error(__VA_ARGS__), print_error("\n"), longjmp(cm_return, CM_FAILED))
#define fail() fail_msg("failed")
#define skip() longjmp(cm_return, CM_SKIPPED)
#define cm_check(holds, ...) ((holds) ? (void)0 : fail_msg(__VA_ARGS__))

#define assert_true(c) cm_check(c, "%s is false", #c)
#define assert_false(c) cm_check(!(c), "%s is true", #c)
#define assert_non_null(p) cm_check((p) != NULL, "%s is NULL", #p)
#define assert_null(p) cm_check((p) == NULL, "%s is not NULL", #p)
#define assert_ptr_equal(a, b) cm_check((const void *)(a) == (const void *)(b), "%s and %s differ", #a, #b)
#define assert_int_equal(a, b) cm_assert_int((intmax_t)(a), (intmax_t)(b), 1, #a " and " #b, __FILE__, __LINE__)
#define assert_int_not_equal(a, b) cm_assert_int((intmax_t)(a), (intmax_t)(b), 0, #a " and " #b, __FILE__, __LINE__)
#define assert_string_equal(a, b) cm_assert_string((a), (b), __FILE__, __LINE__)
#define assert_string_not_equal(a, b) cm_check(strcmp((a), (b)) != 0, "%s and %s are equal", #a, #b)
#define assert_memory_equal(a, b, size) cm_check(memcmp((a), (b), (size)) == 0, "%s and %s differ", #a, #b)
#define assert_memory_not_equal(a, b, size) cm_check(memcmp((a), (b), (size)) != 0, "%s and %s are equal", #a, #b)
#define assert_in_range(x, low, high) cm_check((x) >= (low) && (x) <= (high), "%s is not from %s to %s", #x, #low, #high)

static inline void cm_assert_int(intmax_t a, intmax_t b, int equal, const char *what, const char *file, int line)
{
    if ((a == b) != equal) {
        print_error("%s:%d: %s: %jd and %jd\n", file, line, what, a, b);
        longjmp(cm_return, CM_FAILED);
    }
}

static inline void cm_assert_string(const char *a, const char *b, const char *file, int line)
{
    if (strcmp(a, b) != 0) {
        print_error("%s:%d: \"%s\" and \"%s\" differ\n", file, line, a, b);
        longjmp(cm_return, CM_FAILED);
    }
}

static inline void _fail(const char *file, int line)
{
    print_error("%s:%d: failed\n", file, line);
    longjmp(cm_return, CM_FAILED);
}

/* 0, CM_FAILED or CM_SKIPPED. */
static inline int cm_run(const struct CMUnitTest *test, void **state)
{
    const int ended = setjmp(cm_return);
    if (ended != 0)
        return ended;
    if (test->setup_func != NULL && test->setup_func(state) != 0)
        return CM_FAILED;
    test->test_func(state);
    return 0;
}

/* How many tests failed. */
static inline int cm_run_group(const char *group, const struct CMUnitTest *tests, size_t count, CMFixtureFunction setup,
                               CMFixtureFunction teardown)
{
    static const char *const verdict[] = {"OK", "FAILED", "SKIPPED"};
    void *group_state = NULL;
    int failed = 0;
    if (setup != NULL && setup(&group_state) != 0)
        return (int)count;
    for (size_t i = 0; i < count; i++) {
        void *state = tests[i].initial_state != NULL ? tests[i].initial_state : group_state;
        const int ended = cm_run(&tests[i], &state);
        const int undone = tests[i].teardown_func != NULL ? tests[i].teardown_func(&state) : 0;
        failed += ended == CM_FAILED || undone != 0;
        print_message("[ %s ] %s\n", verdict[ended], tests[i].name);
    }
    if (teardown != NULL && teardown(&group_state) != 0)
        failed++;
    print_message("[ %s ] %zu tests, %d failed\n", group, count, failed);
    return failed;
}

#define cmocka_run_group_tests_name(group, tests, setup, teardown)                                                                         \
    cm_run_group(group, tests, sizeof(tests) / sizeof((tests)[0]), setup, teardown)
#define cmocka_run_group_tests(tests, setup, teardown) cmocka_run_group_tests_name(#tests, tests, setup, teardown)

#endif
