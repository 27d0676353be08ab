/* SPDX-License-Identifier: Apache-2.0 */
/* The engine of attn diagnose on random problems: what it takes for right is the float64 reference to the bit, what the library computes is
   right, and one cell beyond its bound is found. */
#include "problem.h"

#include <diagnose.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A random problem, and the reference's output and weights as f64 arrays that somebody hands in. */
typedef struct handed {
    problem p;
    ref_result r;
    attn_tensor got, weights;
} handed;

static void *copy_of(handed *x, const double *from, int64_t count) {
    double *all = pool_get(&x->p.memory, (size_t)count * sizeof *all);
    memcpy(all, from, (size_t)count * sizeof *all);
    return all;
}

/* Packed output is (T,H,d_v). */
static double *tokens_first(handed *x) {
    const ref_result *r = &x->r;
    double *all = pool_get(&x->p.memory, (size_t)(r->H * r->Lq * r->d_v) * sizeof *all);
    for (int64_t h = 0; h < r->H; h++) {
        for (int64_t i = 0; i < r->Lq; i++) {
            memcpy(all + (i * r->H + h) * r->d_v, r->output + (h * r->Lq + i) * r->d_v, (size_t)r->d_v * sizeof *all);
        }
    }
    return all;
}

static void open_problem(handed *x, uint64_t seed, uint64_t number) {
    random_problem(&x->p, seed, number);
    assert_int_equal(ref_sdpa(&x->r, &x->p.q, &x->p.k, &x->p.v, &x->p.opts), 0);
    const ref_result *r = &x->r;
    const int64_t cells[] = {r->B, r->H, r->Lq, r->Lk}, outputs[] = {r->B, r->H, r->Lq, r->d_v}, tokens[] = {r->Lq, r->H, r->d_v};
    const int32_t rank = x->p.q.ndim;
    double *output = x->p.packed ? tokens_first(x) : copy_of(x, r->output, r->B * r->H * r->Lq * r->d_v);
    x->got = attn_tensor_of(output, ATTN_F64, rank, x->p.packed ? tokens : outputs + 4 - rank);
    x->weights = attn_tensor_of(copy_of(x, r->weights, r->B * r->H * r->Lq * r->Lk), ATTN_F64, rank, cells + 4 - rank);
}

static void close_problem(handed *x) {
    ref_free(&x->r);
    pool_free(&x->p.memory);
}

static diagnose_report *judge(const handed *x) {
    char why[256];
    diagnose_report *report;
    const diagnose_input in = {.q = &x->p.q, .k = &x->p.k, .v = &x->p.v, .opts = &x->p.opts, .got = &x->got,
                               .got_weights = x->p.packed ? NULL : &x->weights, .work = 1e6};
    assert_int_equal(diagnose_run(&report, &in, why, sizeof why), DIAGNOSE_OK);
    return report;
}

static void the_right_answer_is_the_reference_to_the_bit(void **state) {
    (void)state;
    const uint64_t seed = test_seed();
    for (int64_t n = 0; n < test_count(3000); n++) {
        handed x;
        open_problem(&x, seed, (uint64_t)n);
        diagnose_report *report = judge(&x);
        if (report->verdict != DIAGNOSE_EQUAL || report->max_abs != 0 || report->weights_max_bounds != 0) {
            print_problem(&x.p);
            fail_msg("problem %lld: differs by %g, weights by %g bounds", (long long)n, report->max_abs, report->weights_max_bounds);
        }
        assert_int_equal(report->candidates, 0);
        diagnose_free(report);
        close_problem(&x);
    }
}

/* In its own dtype; an f64 output of a call in f32 is off by more than f64 may be. */
static void the_library_is_right(void **state) {
    (void)state;
    const uint64_t seed = test_seed();
    attn_ctx *ctx = new_ctx(NULL, 1);
    for (int64_t n = 0; n < test_count(1500); n++) {
        handed x;
        open_problem(&x, seed, (uint64_t)n);
        assert_ok(ctx, attn_sdpa(ctx, &x.p.out, &x.p.q, &x.p.k, &x.p.v, &x.p.opts));
        if (x.p.out.dtype != ATTN_F64 || computed_in(&x.p) == ATTN_F64) {
            char why[256];
            diagnose_report *report;
            const diagnose_input in = {.q = &x.p.q, .k = &x.p.k, .v = &x.p.v, .opts = &x.p.opts, .got = &x.p.out, .work = 1e6};
            assert_int_equal(diagnose_run(&report, &in, why, sizeof why), DIAGNOSE_OK);
            if (report->verdict != DIAGNOSE_EQUAL) {
                print_problem(&x.p);
                fail_msg("problem %lld: off by %g bounds", (long long)n, report->max_bounds);
            }
            diagnose_free(report);
        }
        close_problem(&x);
    }
    attn_ctx_destroy(ctx);
}

/* A finite cell of the output, or -1. */
static int64_t some_cell(const handed *x, rng *r) {
    const int64_t count = x->r.B * x->r.H * x->r.Lq * x->r.d_v, at = count ? (int64_t)(rng_next(r) % (uint64_t)count) : -1;
    return at >= 0 && isfinite(((const double *)x->got.data)[at]) ? at : -1;
}

static void one_cell_beyond_its_bound_is_found(void **state) {
    (void)state;
    const uint64_t seed = test_seed();
    int64_t found = 0, tried = 0;
    for (int64_t n = 0; n < test_count(60); n++) {
        handed x;
        rng r = rng_of(seed, (uint64_t)n);
        open_problem(&x, seed, (uint64_t)n);
        const int64_t at = some_cell(&x, &r);
        if (at >= 0) {
            ((double *)x.got.data)[at] += 1e3;
            diagnose_report *report = judge(&x);
            int64_t place = 0;
            for (int32_t i = 0; i < report->rank; i++) {
                place = place * x.got.shape[i] + report->first[i];
            }
            tried++;
            if (report->verdict != DIAGNOSE_EQUAL && report->differing > 0) { /* bounds may be wider, or nothing promised */
                assert_int_equal(report->differing, 1);
                assert_int_equal(place, at);
                assert_true(fabs(report->first_got - report->first_right - 1e3) < 1e-6);
                found++;
            }
            diagnose_free(report);
        }
        close_problem(&x);
    }
    assert_true(found * 10 >= tried * 7);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_right_answer_is_the_reference_to_the_bit),
                                       cmocka_unit_test(the_library_is_right),
                                       cmocka_unit_test(one_cell_beyond_its_bound_is_found)};
    return cmocka_run_group_tests_name("engine", tests, NULL, NULL);
}
