/* SPDX-License-Identifier: Apache-2.0 */
/* Random small calls over the whole option space against the float64 reference: 20000 problems. */
#include "differential.h"

#include <string.h>

typedef struct sdpa_trial {
    problem p;
    ref_result r;
} sdpa_trial;

static void open_problem(void *made, uint64_t seed, uint64_t number) {
    sdpa_trial *x = made;
    random_problem(&x->p, seed, number);
    assert_int_equal(ref_sdpa(&x->r, &x->p.q, &x->p.k, &x->p.v, &x->p.opts), 0);
}

static bool run(void *made, attn_ctx *ctx, tally *t) {
    sdpa_trial *x = made;
    const attn_status s = attn_sdpa(ctx, &x->p.out, &x->p.q, &x->p.k, &x->p.v, &x->p.opts);
    if (s != ATTN_OK) {
        print_error("%s: %s\n", attn_status_str(s), attn_ctx_error(ctx));
        return false;
    }
    const problem *p = &x->p; /* the wider bound is for calls of nothing but bf16 */
    const bool is_bf16 = p->q.dtype == ATTN_BF16 && p->k.dtype == ATTN_BF16 && p->v.dtype == ATTN_BF16 && p->out.dtype == ATTN_BF16;
    x->p.rounds_weights = strcmp(attn_ctx_info(ctx).path, "tiled bf16") == 0;
    assert_true(is_bf16 || !x->p.rounds_weights);
    return within_bounds(&x->p, &x->r, t);
}

static void print(const void *made) {
    print_problem(&((const sdpa_trial *)made)->p);
}

static void close_problem(void *made) {
    sdpa_trial *x = made;
    ref_free(&x->r);
    pool_free(&x->p.memory);
}

static void random_calls_meet_the_reference(void **state) {
    (void)state;
    const trial t = {open_problem, run, print, close_problem};
    sdpa_trial x;
    run_trials(&t, &x, 20000);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_calls_meet_the_reference)};
    return cmocka_run_group_tests_name("differential", tests, NULL, NULL);
}
