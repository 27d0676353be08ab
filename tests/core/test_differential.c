/* SPDX-License-Identifier: Apache-2.0 */
/* Random small calls over the whole option space against the float64 reference, on every ISA level that this CPU can run.
   ATTN_TEST_COUNT problems (20000) from ATTN_TEST_SEED on; ATTN_TEST_FIRST = n starts at problem n, to meet one again. */
#include "bound.h"

#include <stdlib.h>

enum { MAX_LEVELS = 4 };

typedef struct level {
    const char *isa;
    attn_ctx *ctx;
    tally t;
    int64_t failed;
} level;

/* One call on one level; false when it is refused or out of bound. */
static bool run(level *l, problem *p, const ref_result *r) {
    const attn_status s = attn_sdpa(l->ctx, &p->out, &p->q, &p->k, &p->v, &p->opts);
    if (s != ATTN_OK) {
        print_error("%s: %s\n", attn_status_str(s), attn_ctx_error(l->ctx));
        return false;
    }
    return within_bounds(p, r, &l->t);
}

static void report(const level *l, int64_t count) {
    print_message("%s: %lld problems, %lld failed; rows not promised %lld; greatest share of the bound (elements):\n", l->isa,
                  (long long)count, (long long)l->failed, (long long)l->t.not_promised);
    for (int n = 0; n < QUANTITIES; n++) {
        print_message("    %-8s %.3f (%lld)\n", quantity_name[n], l->t.share[n], (long long)l->t.compared[n]);
    }
}

static void random_calls_meet_the_reference(void **state) {
    (void)state;
    const uint64_t seed = test_seed();
    const int64_t count = test_count(20000);
    const char *first_text = getenv("ATTN_TEST_FIRST");
    const int64_t first = first_text ? strtoll(first_text, NULL, 10) : 0;
    level levels[MAX_LEVELS] = {{0}};
    int n_levels = 0;
    int64_t failed = 0;
    for (const char *isa; n_levels < MAX_LEVELS && (isa = usable_isa(n_levels)); n_levels++) {
        levels[n_levels].isa = isa;
        levels[n_levels].ctx = new_ctx(isa, 2);
    }
    print_message("seed %llu, problems %lld to %lld\n", (unsigned long long)seed, (long long)first, (long long)(first + count - 1));
    for (int64_t n = first; n < first + count && failed < 10; n++) {
        problem p;
        ref_result r;
        random_problem(&p, seed, (uint64_t)n);
        assert_int_equal(ref_sdpa(&r, &p.q, &p.k, &p.v, &p.opts), 0);
        for (int m = 0; m < n_levels; m++) {
            if (!run(&levels[m], &p, &r)) {
                print_error("  ATTN_TEST_SEED=%llu ATTN_TEST_FIRST=%lld ATTN_TEST_COUNT=1 on %s\n", (unsigned long long)seed, (long long)n,
                            levels[m].isa);
                print_problem(&p);
                levels[m].failed++;
                failed++;
            }
        }
        ref_free(&r);
        pool_free(&p.memory);
    }
    for (int m = 0; m < n_levels; m++) {
        report(&levels[m], count);
        attn_ctx_destroy(levels[m].ctx);
    }
    assert_int_equal(failed, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_calls_meet_the_reference)};
    return cmocka_run_group_tests_name("differential", tests, NULL, NULL);
}
