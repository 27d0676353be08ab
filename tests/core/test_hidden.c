/* SPDX-License-Identifier: Apache-2.0 */
/* What is hidden changes no bit, whatever it holds; rows that see nothing; sizes of 0; visible NaN and Inf stay in the rows that see
   them. */
#include "bound.h"
#include "call.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PROBLEMS = 400 };

/* --------------------------------------------------------- random problems ---- */

/* Outputs of a call that a hidden key must not change, packed. */
typedef struct outputs {
    attn_tensor t[7];
} outputs;

static const attn_tensor *output_of(const problem *p, int n) {
    const attn_sdpa_opts *o = &p->opts;
    const attn_tensor *all[7] = {&p->out, o->lse, o->row_max, o->entropy, o->mass, o->weights, o->masked};
    return all[n];
}

static outputs run(attn_ctx *ctx, problem *p) {
    outputs x = {{{0}}};
    assert_ok(ctx, attn_sdpa(ctx, &p->out, &p->q, &p->k, &p->v, &p->opts));
    for (int n = 0; n < 7; n++) {
        const attn_tensor *t = output_of(p, n);
        x.t[n] = t ? packed_copy(&p->memory, t) : (attn_tensor){0};
    }
    return x;
}

/* A problem whose K and V share no memory between rows, so that one row can be poisoned alone. */
static void unshared_problem(problem *p, int64_t n) {
    random_problem(p, test_seed() + 1000, (uint64_t)n);
    p->k = packed_copy(&p->memory, &p->k);
    p->v = packed_copy(&p->memory, &p->v);
}

/* Is key j of KV head g of entry b hidden from the rows i of [i0, i1) of all its query heads? */
static bool hidden_from(const problem *p, const ref_result *r, int64_t b, int64_t g, int64_t j, int64_t i0, int64_t i1) {
    const int64_t group = p->H / p->Hkv;
    for (int64_t h = g * group; h < (g + 1) * group; h++) {
        for (int64_t i = i0; i < i1; i++) {
            if (!r->hidden[((b * r->H + h) * r->Lq + i) * r->Lk + j]) {
                return false;
            }
        }
    }
    return true;
}

/* Fills the row of key j with NaN, +-Inf, all bits set or the greatest number. */
static void poison_row(const problem *p, const attn_tensor *t, int64_t b, int64_t g, int64_t j, int kind) {
    static const double poisons[] = {0, 0, 0, 0, 60000};
    const double x = kind == 0 ? (double)NAN : kind == 1 ? (double)INFINITY : kind == 2 ? -(double)INFINITY : poisons[kind];
    for (int64_t c = 0; c < axis_extent(t, 3); c++) {
        const int64_t at[4] = {p->packed ? 0 : b, p->packed ? j : g, p->packed ? g : j, c};
        set_element(t, at[0], at[1], at[2], at[3], x);
        if (kind == 3) {
            int64_t offset = 0;
            for (int32_t axis = 0; axis < t->ndim; axis++) {
                offset += t->shape[axis] == 1 ? 0 : at[4 - t->ndim + axis] * t->stride[axis];
            }
            const size_t size = attn_dtype_size(t->dtype);
            memset((char *)t->data + (size_t)offset * size, 0xFF, size);
        }
    }
}

/* Poisons every key that no row of [i0, i1) sees; how many that were. */
static int64_t poison_hidden(const problem *p, const ref_result *r, int64_t i0, int64_t i1, int kind) {
    int64_t n = 0;
    for (int64_t b = 0; b < r->B; b++) {
        for (int64_t g = 0; g < p->Hkv; g++) {
            for (int64_t j = 0; j < r->Lk; j++) {
                if (hidden_from(p, r, b, g, j, i0, i1)) {
                    poison_row(p, &p->k, b, g, j, kind);
                    poison_row(p, &p->v, b, g, j, kind);
                    n++;
                }
            }
        }
    }
    return n;
}

static void say(const problem *p, const attn_ctx *ctx, int64_t n, const char *what) {
    print_error("%s: problem %lld of seed %llu on %s\n", what, (long long)n, (unsigned long long)test_seed(), attn_ctx_info(ctx).isa);
    print_problem(p);
    fail();
}

/* Keys hidden from all rows. */
static void poisoned_keys(attn_ctx *ctx, int64_t n) {
    problem p;
    ref_result r;
    unshared_problem(&p, n);
    assert_int_equal(ref_sdpa(&r, &p.q, &p.k, &p.v, &p.opts), 0);
    const outputs clean = run(ctx, &p);
    for (int kind = 0; kind < 5; kind++) {
        poison_hidden(&p, &r, 0, r.Lq, kind);
        const outputs now = run(ctx, &p);
        for (int m = 0; m < 7; m++) {
            if (clean.t[m].ndim > 0 && !same_bits("a poisoned hidden key", &clean.t[m], &now.t[m])) {
                say(&p, ctx, n, "a hidden key was not hidden");
            }
        }
    }
    ref_free(&r);
    pool_free(&p.memory);
}

/* Keys hidden from one row i (of all heads): that row's bits stay, whatever the other rows become. */
static void poisoned_row(attn_ctx *ctx, int64_t n) {
    problem p;
    ref_result r;
    unshared_problem(&p, n);
    assert_int_equal(ref_sdpa(&r, &p.q, &p.k, &p.v, &p.opts), 0);
    rng random = rng_of(test_seed(), (uint64_t)n);
    const int64_t i = rng_int(&random, 0, r.Lq > 0 ? r.Lq - 1 : 0);
    const outputs clean = run(ctx, &p);
    if (r.Lq > 0 && poison_hidden(&p, &r, i, i + 1, (int)(n % 5)) > 0) {
        const outputs now = run(ctx, &p);
        const bool averaged = (p.opts.flags & ATTN_AVERAGE) != 0;
        for (int m = 0; m < 7; m++) {
            if (m == 4 || clean.t[m].ndim == 0) {
                continue; /* mass is a sum over the rows */
            }
            const bool by_cell = m == 6 || (m == 5 && !averaged), packed_out = m == 0 && p.packed;
            const int axis = clean.t[m].ndim - (packed_out ? 3 : by_cell || m == 0 || m == 5 ? 2 : 1);
            const attn_tensor a = slice(clean.t[m], axis, i, i + 1), b = slice(now.t[m], axis, i, i + 1);
            if (!same_bits("a row beside poisoned keys", &a, &b)) {
                say(&p, ctx, n, "a hidden key was not hidden from one row");
            }
        }
    }
    ref_free(&r);
    pool_free(&p.memory);
}

/* One visible NaN in V: the rows that see it are not finite in its column; the rows that do not keep their bits. */
static void visible_nan(attn_ctx *ctx, int64_t n) {
    problem p;
    ref_result r;
    unshared_problem(&p, n);
    assert_int_equal(ref_sdpa(&r, &p.q, &p.k, &p.v, &p.opts), 0);
    rng random = rng_of(test_seed(), (uint64_t)n);
    if (r.B * r.Lk * r.d_v > 0) {
        const int64_t b = rng_int(&random, 0, r.B - 1), g = rng_int(&random, 0, p.Hkv - 1), j = rng_int(&random, 0, r.Lk - 1);
        const int64_t c = rng_int(&random, 0, r.d_v - 1), group = p.H / p.Hkv;
        const outputs clean = run(ctx, &p);
        set_element(&p.v, p.packed ? 0 : b, p.packed ? j : g, p.packed ? g : j, c, n % 2 ? (double)NAN : (double)INFINITY);
        const outputs now = run(ctx, &p);
        for (int64_t h = 0; h < r.H * r.B; h++) {
            for (int64_t i = 0; i < r.Lq; i++) {
                const bool sees = h / group == b * p.Hkv + g && !r.hidden[(h * r.Lq + i) * r.Lk + j];
                const attn_tensor *t = &now.t[0];
                const double x = p.packed ? ref_element(t, 0, i, h, c) : ref_element(t, h / r.H, h % r.H, i, c);
                const double y = p.packed ? ref_element(&clean.t[0], 0, i, h, c) : ref_element(&clean.t[0], h / r.H, h % r.H, i, c);
                if (sees ? isfinite(x) : memcmp(&x, &y, sizeof x) != 0) {
                    print_error("row %lld of head %lld: %g, before %g; sees it: %d\n", (long long)i, (long long)h, x, y, sees);
                    say(&p, ctx, n, "a visible NaN or Inf");
                }
            }
        }
    }
    ref_free(&r);
    pool_free(&p.memory);
}

static void for_each_problem(void (*check)(attn_ctx *, int64_t)) {
    const char *isa;
    const int64_t count = test_is_short() ? PROBLEMS / 8 : PROBLEMS;
    for (int level = 0; (isa = usable_isa(level)); level++) {
        attn_ctx *ctx = new_ctx(isa, 2);
        for (int64_t n = 0; n < count; n++) {
            check(ctx, n);
        }
        attn_ctx_destroy(ctx);
    }
}

static void hidden_keys_change_no_bit(void **state) {
    (void)state;
    for_each_problem(poisoned_keys);
}

static void keys_hidden_from_a_row_change_no_bit_of_it(void **state) {
    (void)state;
    for_each_problem(poisoned_row);
}

static void visible_nan_stays_in_its_rows(void **state) {
    (void)state;
    for_each_problem(visible_nan);
}

/* ----------------------------------------------------------------- the cache ---- */

/* Memory that is not zero. */
static void *dirty_alloc(void *user, size_t align, size_t size) {
    (void)user;
    void *memory = aligned_alloc(align, (size + align - 1) / align * align);
    return memory ? memset(memory, 0xFF, size) : NULL;
}

static void plain_free(void *user, void *memory) {
    (void)user;
    free(memory);
}

/* Capacity beyond the length holds 0xFF (NaN in every dtype). */
static void cache_tail_changes_no_bit(void **state) {
    (void)state;
    static const attn_dtype dtypes[] = {ATTN_F32, ATTN_F16, ATTN_BF16, ATTN_F64};
    const char *isa;
    for (int level = 0; (isa = usable_isa(level)); level++) {
        for (int n = 0; n < 4; n++) {
            pool memory = {0};
            rng r = rng_of(test_seed(), (uint64_t)n);
            const attn_ctx_opts dirty = {.isa = isa, .threads = 2, .alloc = dirty_alloc, .free = plain_free};
            attn_ctx *ctx = NULL;
            assert_int_equal(attn_ctx_create(&ctx, &dirty, NULL, 0), ATTN_OK);
            call whole = new_call(&memory, &r, dtypes[n], (sizes){2, 4, 2, 5, 43, 20, 12}, CAUSAL);
            const attn_kv_desc desc = {.dtype = dtypes[n], .batch = 2, .kv_heads = 2, .capacity = 300, .head_dim = 20, .value_dim = 12};
            attn_kv *kv = NULL;
            assert_ok(ctx, attn_kv_create(ctx, &kv, &desc));
            assert_ok(ctx, attn_kv_append(ctx, kv, &whole.k, &whole.v));
            assert_ok(ctx, call_run(ctx, &whole));
            call c = part_of(&memory, &whole, (range){0, 2, 0, 4, 0, 5});
            assert_ok(ctx, call_attend(ctx, kv, &c));
            assert_true(same_rows("cache tail", &whole, (range){0, 2, 0, 4, 0, 5}, &c));
            attn_kv_destroy(kv);
            attn_ctx_destroy(ctx);
            pool_free(&memory);
        }
    }
}

/* --------------------------------------------------------- nothing to do ---- */

/* Every row hidden by each means in turn: output, weights, entropy 0; lse and row_max -inf, or lse the sink. */
static void rows_that_see_nothing(void **state) {
    (void)state;
    const char *isa;
    for (int level = 0; (isa = usable_isa(level)); level++) {
        attn_ctx *ctx = new_ctx(isa, 2);
        for (int way = 0; way < 12; way++) {
            pool memory = {0};
            rng r = rng_of(test_seed(), (uint64_t)way);
            call c = new_call(&memory, &r, way % 2 ? ATTN_F32 : ATTN_F64, (sizes){2, 2, 1, 3, 5, 4, 3}, way >= 6 ? SINKS : 0);
            attn_tensor lengths = new_vector(&memory, ATTN_I64, 2);
            switch (way % 6) {
            case 0: c.mask = TENSOR(&memory, ATTN_BOOL, 1, 1); break;
            case 1:
                c.bias = TENSOR(&memory, ATTN_F16, 1, 5);
                for (int64_t j = 0; j < 5; j++) {
                    set_element(&c.bias, 0, 0, 0, j, -(double)INFINITY);
                }
                break;
            case 2:
                c.o.flags |= ATTN_CAUSAL;
                c.o.offset = -3;
                break;
            case 3:
                c.o.flags |= ATTN_WINDOW;
                c.o.window_left = c.o.window_right = 0;
                c.o.offset = 100;
                break;
            case 4: c.o.kv_len = &lengths; break;
            default: c = first_keys(&memory, &c, 0);
            }
            fill_bytes(&c.out, 0xFF);
            fill_bytes(&c.weights, 0xFF);
            assert_ok(ctx, call_run(ctx, &c));
            for (int64_t row = 0; row < 12; row++) {
                const int64_t b = row / 6, h = row / 3 % 2, i = row % 3;
                const double lse = c.sinks.ndim ? ref_element(&c.sinks, 0, 0, 0, h) : -(double)INFINITY;
                assert_true(fabs(ref_element(&c.lse, 0, b, h, i) - lse) <= 1e-6 * fabs(lse) || ref_element(&c.lse, 0, b, h, i) == lse);
                assert_true(ref_element(&c.row_max, 0, b, h, i) == -(double)INFINITY);
                assert_true(ref_element(&c.entropy, 0, b, h, i) == 0);
                for (int64_t n = 0; n < 3; n++) {
                    assert_true(ref_element(&c.out, b, h, i, n) == 0);
                }
                for (int64_t j = 0; j < c.s.Lk; j++) {
                    assert_true(ref_element(&c.weights, b, h, i, j) == 0);
                }
            }
            pool_free(&memory);
        }
        attn_ctx_destroy(ctx);
    }
}

/* B, Lq, Lk, d_v and H of 0, alone and together, with NULL data where a tensor has no element. */
static void sizes_of_zero(void **state) {
    (void)state;
    attn_ctx *ctx = new_ctx(NULL, 2);
    for (unsigned zero = 1; zero < 32; zero++) {
        pool memory = {0};
        rng r = rng_of(test_seed(), zero);
        const sizes s = {zero & 1 ? 0 : 2, zero & 2 ? 0 : 2, zero & 2 ? 0 : 1, zero & 4 ? 0 : 3, zero & 8 ? 0 : 5, 4, zero & 16 ? 0 : 3};
        call c = new_call(&memory, &r, ATTN_F32, s, CAUSAL | ALIBI);
        attn_tensor *const all[] = {&c.q, &c.k, &c.v, &c.out, &c.lse, &c.row_max, &c.entropy, &c.weights, &c.slopes};
        for (size_t n = 0; n < sizeof all / sizeof *all; n++) {
            int64_t elements = 1;
            for (int32_t axis = 0; axis < all[n]->ndim; axis++) {
                elements *= all[n]->shape[axis];
            }
            all[n]->data = elements ? all[n]->data : NULL;
        }
        assert_ok(ctx, call_run(ctx, &c));
        for (int64_t row = 0; zero == 8 && row < 12; row++) {
            assert_true(ref_element(&c.lse, 0, row / 6, row / 3 % 2, row % 3) == -(double)INFINITY);
        }
        pool_free(&memory);
    }
    attn_ctx_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hidden_keys_change_no_bit), cmocka_unit_test(keys_hidden_from_a_row_change_no_bit_of_it),
        cmocka_unit_test(visible_nan_stays_in_its_rows), cmocka_unit_test(cache_tail_changes_no_bit),
        cmocka_unit_test(rows_that_see_nothing), cmocka_unit_test(sizes_of_zero),
    };
    return cmocka_run_group_tests_name("hidden", tests, NULL, NULL);
}
