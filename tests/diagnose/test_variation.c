/* SPDX-License-Identifier: Apache-2.0 */
/* What variation_possible lets through can be computed: it reads nothing beyond its arrays, whatever the sizes (the sanitizers see it). */
#include <evaluator.h>
#include <mistakes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

typedef struct dims {
    int64_t H, Hkv, Lq, Lk, d, d_v;
} dims;

static const dims all_dims[] = {{2, 2, 4, 4, 4, 4}, {2, 2, 4, 2, 4, 4}, {4, 2, 2, 2, 4, 3}, {2, 1, 3, 3, 3, 2},
                                {4, 1, 1, 4, 4, 4}, {1, 1, 6, 3, 2, 2}, {3, 3, 3, 3, 3, 3}};

static const double *numbers(arena *m, int64_t count) {
    double *all = arena_zeroed(m, count, sizeof *all);
    assert_non_null(all);
    for (int64_t i = 0; i < count; i++) {
        all[i] = (double)(i * 7 % 11) / 8 - 0.5;
    }
    return all;
}

static problem problem_of(arena *m, dims z, bool mha) {
    problem p = {.B = 2, .H = z.H, .Hkv = z.Hkv, .Lq = z.Lq, .Lk = z.Lk, .d = z.d, .d_v = z.d_v, .mha = mha};
    const int64_t columns[] = {z.H * z.d, z.Hkv * z.d, z.Hkv * z.d_v}, rows[] = {z.Lq, z.Lk, z.Lk};
    p.dtype = ATTN_F32;
    p.a = arithmetic_of(p.dtype);
    p.decimals = 2;
    for (int i = 0; i < 3 && mha; i++) {
        p.in[i] = z.H * z.d;
        p.columns[i] = columns[i];
        p.x[i] = numbers(m, p.B * rows[i] * p.in[i]);
        p.w[i] = numbers(m, p.in[i] * columns[i]);
        p.b[i] = numbers(m, columns[i]);
    }
    p.out = z.H * z.d_v;
    p.w_o = mha ? numbers(m, p.out * p.out) : NULL;
    p.b_o = mha ? numbers(m, p.out) : NULL;
    p.q = numbers(m, p.B * z.H * z.Lq * z.d);
    p.k = numbers(m, p.B * z.Hkv * z.Lk * z.d);
    p.v = numbers(m, p.B * z.Hkv * z.Lk * z.d_v);
    p.width = mha ? p.out : z.d_v;
    p.rows = mha ? p.B * z.Lq : p.B * z.H * z.Lq;
    problem_facts(&p);
    return p;
}

static void compute_all_rows(evaluator *e, const variation *v) {
    evaluator_set(e, v);
    for (int64_t row = 0; row < e->p->rows; row++) {
        evaluator_deliver(e, row);
    }
}

/* Every mistake, and every two of them, whether or not they are tried on such a problem. */
static void compute_all_pairs(const problem *p, arena *m) {
    evaluator e;
    int64_t computed = 0;
    assert_true(evaluator_open(&e, p, m));
    for (int b = 0; b < mistake_count; b++) {
        for (int a = 0; a <= b; a++) {
            variation v;
            if (variation_join(&v, &mistake_table[a].v, &mistake_table[b].v) && variation_possible(p, &v)) {
                compute_all_rows(&e, &v);
                computed++;
            }
        }
    }
    assert_true(computed > 100);
}

static void what_is_possible_can_be_computed(void **state) {
    (void)state;
    for (size_t n = 0; n < 2 * sizeof all_dims / sizeof all_dims[0]; n++) {
        arena m = {0};
        const problem p = problem_of(&m, all_dims[n / 2], n % 2);
        compute_all_pairs(&p, &m);
        arena_free(&m);
    }
}

static bool possible(dims z, variation v) {
    arena m = {0};
    const problem p = problem_of(&m, z, false);
    const bool is = variation_possible(&p, &v);
    arena_free(&m);
    return is;
}

static void arrays_of_other_sizes_do_not_take_each_others_places(void **state) {
    (void)state;
    const variation turned_k = {.keys = KEYS_NOT_TRANSPOSED}, swapped = {.keys = KEYS_SWAPPED}, v_as_k = {.keys = KEYS_V},
                    k_as_v = {.values = VALUES_K}, seen = {.keep = KEEP_SEEN};
    assert_true(possible((dims){2, 2, 3, 4, 4, 4}, turned_k));
    assert_false(possible((dims){2, 2, 3, 3, 4, 4}, turned_k));
    assert_true(possible((dims){2, 1, 3, 3, 4, 4}, swapped));
    assert_false(possible((dims){2, 2, 3, 6, 4, 4}, swapped));
    assert_true(possible((dims){2, 2, 3, 4, 4, 4}, v_as_k));
    assert_false(possible((dims){2, 2, 3, 4, 4, 2}, v_as_k));
    assert_false(possible((dims){2, 2, 3, 4, 4, 2}, k_as_v));
    assert_false(possible((dims){2, 2, 4, 4, 4, 4}, seen)); /* no weights were seen */
}

static void heads_taken_for_positions_have_sizes_too(void **state) {
    (void)state;
    const variation turned_k = {.keys = KEYS_NOT_TRANSPOSED, .in = {.layout = LAYOUT_AXES}},
                    swapped = {.keys = KEYS_SWAPPED, .in = {.layout = LAYOUT_AXES}};
    assert_true(possible((dims){4, 4, 2, 2, 4, 4}, turned_k));
    assert_false(possible((dims){2, 2, 4, 4, 4, 4}, turned_k));
    assert_true(possible((dims){2, 2, 4, 2, 4, 4}, swapped));
    assert_false(possible((dims){4, 2, 4, 4, 4, 4}, swapped));
}

static void the_widest_window_has_no_wider_one(void **state) {
    (void)state;
    arena m = {0};
    evaluator e;
    problem p = problem_of(&m, all_dims[0], false);
    p.o.flags = ATTN_WINDOW;
    p.o.window_left = p.o.window_right = INT64_MAX;
    const variation right = {.keys = KEYS_RIGHT}, wider = {.window_left = WINDOW_MORE, .window_right = WINDOW_MORE};
    assert_true(evaluator_open(&e, &p, &m));
    evaluator_set(&e, &right);
    evaluator_deliver(&e, 1);
    const double out = e.out[0];
    evaluator_set(&e, &wider);
    evaluator_deliver(&e, 1);
    assert_true(out != 0 && e.out[0] == out);
    arena_free(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_possible_can_be_computed),
                                       cmocka_unit_test(arrays_of_other_sizes_do_not_take_each_others_places),
                                       cmocka_unit_test(heads_taken_for_positions_have_sizes_too),
                                       cmocka_unit_test(the_widest_window_has_no_wider_one)};
    return cmocka_run_group_tests_name("variation", tests, NULL, NULL);
}
