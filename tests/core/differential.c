/* SPDX-License-Identifier: Apache-2.0 */
#include "differential.h"

#include <stdlib.h>

enum { MAX_LEVELS = 4 };

typedef struct level {
    const char *isa;
    attn_ctx *ctx;
    tally t;
    int64_t failed;
} level;

static void report(const level *l, int64_t count) {
    print_message("%s: %lld problems, %lld failed; rows not promised %lld; greatest share of the bound (elements):\n", l->isa,
                  (long long)count, (long long)l->failed, (long long)l->t.not_promised);
    for (int n = 0; n < QUANTITIES; n++) {
        if (l->t.compared[n]) {
            print_message("    %-8s %.3f (%lld)\n", quantity_name[n], l->t.share[n], (long long)l->t.compared[n]);
        }
    }
}

static int open_levels(level levels[MAX_LEVELS]) {
    int n = 0;
    for (const char *isa; n < MAX_LEVELS && (isa = usable_isa(n)); n++) {
        levels[n] = (level){.isa = isa, .ctx = new_ctx(isa, 2)};
    }
    return n;
}

void run_trials(const trial *t, void *made, int64_t otherwise) {
    const uint64_t seed = test_seed();
    const int64_t count = test_count(otherwise);
    const char *first_text = getenv("ATTN_TEST_FIRST");
    const int64_t first = first_text ? strtoll(first_text, NULL, 10) : 0;
    level levels[MAX_LEVELS];
    const int n_levels = open_levels(levels);
    int64_t failed = 0;
    print_message("seed %llu, problems %lld to %lld\n", (unsigned long long)seed, (long long)first, (long long)(first + count - 1));
    for (int64_t n = first; n < first + count && failed < 10; n++) {
        t->open(made, seed, (uint64_t)n);
        for (int m = 0; m < n_levels; m++) {
            if (!t->run(made, levels[m].ctx, &levels[m].t)) {
                print_error("  ATTN_TEST_SEED=%llu ATTN_TEST_FIRST=%lld ATTN_TEST_COUNT=1 on %s\n", (unsigned long long)seed, (long long)n,
                            levels[m].isa);
                t->print(made);
                levels[m].failed++;
                failed++;
            }
        }
        t->close(made);
    }
    for (int m = 0; m < n_levels; m++) {
        report(&levels[m], count);
        attn_ctx_destroy(levels[m].ctx);
    }
    assert_int_equal(failed, 0);
}
