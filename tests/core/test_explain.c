/* SPDX-License-Identifier: Apache-2.0 */
/* attn_explain_cell over random calls: why each key is hidden, as the reference says it; stages, weights and output, as attn_sdpa's
   bits. */
#include "problem.h"

#include <string.h>

enum { PROBLEMS = 1000 };

/* Rows of attn_sdpa's stages, wanted whatever the problem wanted. */
static void want_stages(problem *p) {
    const bool wide = p->q.dtype == ATTN_F64 || p->k.dtype == ATTN_F64 || p->v.dtype == ATTN_F64;
    const attn_dtype t = wide ? ATTN_F64 : ATTN_F32;
    const int64_t cells[4] = {p->B, p->H, p->Lq, p->Lk}, rows[3] = {p->B, p->H, p->Lq};
    const int32_t lost = 4 - p->rank;
    p->scores = new_tensor(&p->memory, t, p->rank, cells + lost);
    p->scaled = new_tensor(&p->memory, t, p->rank, cells + lost);
    p->capped = new_tensor(&p->memory, t, p->rank, cells + lost);
    p->masked = new_tensor(&p->memory, t, p->rank, cells + lost);
    p->weights = new_tensor(&p->memory, t, p->rank, cells + lost);
    p->lse = new_tensor(&p->memory, t, p->rank - 1, rows + lost);
    p->opts.scores = &p->scores;
    p->opts.scaled = &p->scaled;
    p->opts.capped = &p->capped;
    p->opts.masked = &p->masked;
    p->opts.weights = &p->weights;
    p->opts.lse = &p->lse;
    p->opts.flags &= ~(unsigned)ATTN_AVERAGE;
}

/* The same number, NaN included. */
static bool same(double a, double b) {
    return a == b || (a != a && b != b);
}

static bool explained_as_computed(attn_ctx *ctx, problem *p, const ref_result *r, int64_t b, int64_t h, int64_t i) {
    const attn_dtype t = p->lse.dtype;
    attn_tensor stage[5], output = TENSOR(&p->memory, t, p->d_v);
    const attn_tensor *const whole[5] = {&p->scores, &p->scaled, &p->capped, &p->masked, &p->weights};
    uint8_t *hidden = pool_get(&p->memory, (size_t)p->Lk);
    for (int n = 0; n < 5; n++) {
        stage[n] = TENSOR(&p->memory, t, p->Lk);
    }
    attn_row row = {.scores = &stage[0], .scaled = &stage[1], .capped = &stage[2], .masked = &stage[3], .weights = &stage[4],
                    .output = &output, .hidden = hidden, .out_dtype = p->out.dtype};
    assert_ok(ctx, attn_explain_cell(ctx, &row, &p->q, &p->k, &p->v, &p->opts, b, h, i));
    int64_t visible = 0;
    for (int64_t j = 0; j < p->Lk; j++) {
        const uint8_t want = r->hidden[((b * p->H + h) * p->Lq + i) * p->Lk + j];
        visible += want == 0;
        if (hidden[j] != want) {
            print_error("key %lld is hidden by %d, should be %d\n", (long long)j, hidden[j], want);
            return false;
        }
        for (int n = 0; n < 5; n++) {
            if (!same(ref_element(&stage[n], 0, 0, 0, j), ref_element(whole[n], b, h, i, j))) {
                print_error("stage %d of key %lld is %.9g, attn_sdpa has %.9g\n", n, (long long)j, ref_element(&stage[n], 0, 0, 0, j),
                            ref_element(whole[n], b, h, i, j));
                return false;
            }
        }
    }
    for (int64_t c = 0; c < p->d_v; c++) {
        if (!same(rounded_to(p->out.dtype, ref_element(&output, 0, 0, 0, c)), ref_element(&p->out, b, h, i, c))) {
            print_error("output %lld differs\n", (long long)c);
            return false;
        }
    }
    return same(row.lse, ref_element(&p->lse, 0, b, h, i)) && row.visible == visible && row.kv_head == h / (p->H / p->Hkv);
}

static void random_cells(void **state) {
    (void)state;
    const char *isa;
    const int64_t count = test_is_short() ? PROBLEMS / 5 : PROBLEMS;
    for (int level = 0; (isa = usable_isa(level)); level++) {
        attn_ctx *ctx = new_ctx(isa, 2);
        for (int64_t n = 0; n < count; n++) {
            problem p;
            ref_result r;
            rng random = rng_of(test_seed(), (uint64_t)n);
            random_problem(&p, test_seed() + 2000, (uint64_t)n);
            if (!p.packed && p.B * p.H * p.Lq > 0) {
                want_stages(&p);
                assert_int_equal(ref_sdpa(&r, &p.q, &p.k, &p.v, &p.opts), 0);
                assert_ok(ctx, attn_sdpa(ctx, &p.out, &p.q, &p.k, &p.v, &p.opts));
                for (int m = 0; m < 3; m++) {
                    const int64_t b = rng_int(&random, 0, p.B - 1), h = rng_int(&random, 0, p.H - 1), i = rng_int(&random, 0, p.Lq - 1);
                    if (!explained_as_computed(ctx, &p, &r, b, h, i)) {
                        print_problem(&p);
                        fail_msg("%s: problem %lld, cell (%lld,%lld,%lld)", isa, (long long)n, (long long)b, (long long)h, (long long)i);
                    }
                }
                ref_free(&r);
            }
            pool_free(&p.memory);
        }
        attn_ctx_destroy(ctx);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_cells)};
    return cmocka_run_group_tests_name("explain", tests, NULL, NULL);
}
