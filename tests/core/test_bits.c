/* SPDX-License-Identifier: Apache-2.0 */
/* A row's bits depend on nothing but the row: outputs are compared by memcmp across threads, batches, layouts, runs, chunks and the
   cache. */
#include "call.h"

#include <stdio.h>

typedef struct scene {
    const char *name;
    attn_dtype dtype;
    sizes s;
    unsigned features;
} scene;

/* Lk beyond one piece of keys (1024) and two; head_dim below, at and beside multiples of any vector. */
static const scene scenes[] = {
    {"small", ATTN_F32, {2, 4, 2, 70, 70, 8, 8}, CAUSAL},
    {"odd sizes", ATTN_F32, {2, 3, 3, 65, 131, 33, 17}, 0},
    {"one column", ATTN_F32, {1, 6, 1, 66, 200, 1, 1}, CAUSAL | SINKS},
    {"bias", ATTN_F32, {2, 4, 2, 66, 300, 64, 64}, BIAS | SOFTCAP},
    {"mask", ATTN_F32, {2, 4, 2, 66, 300, 64, 64}, MASK},
    {"window", ATTN_F32, {2, 4, 2, 66, 1200, 40, 64}, WINDOW},
    {"causal window", ATTN_F32, {1, 4, 4, 90, 400, 64, 64}, CAUSAL | WINDOW | SINKS},
    {"alibi", ATTN_F32, {2, 6, 2, 66, 300, 64, 64}, ALIBI | CAUSAL},
    {"dropout", ATTN_F32, {2, 4, 2, 66, 150, 16, 16}, DROPOUT | CAUSAL},
    {"all", ATTN_F32, {2, 4, 1, 66, 1100, 24, 24}, CAUSAL | WINDOW | ALIBI | BIAS | MASK | SINKS | SOFTCAP | DROPOUT},
    {"long", ATTN_F32, {1, 2, 1, 80, 3000, 64, 64}, CAUSAL},
    {"long, two-sided", ATTN_F32, {1, 2, 2, 80, 2500, 128, 128}, BIAS},
    {"far window", ATTN_F32, {1, 2, 1, 140, 2500, 24, 24}, WINDOW | FAR | STEEP},
    {"far causal window", ATTN_F32, {1, 2, 1, 140, 1300, 24, 24}, CAUSAL | WINDOW | FAR | STEEP},
    {"steep", ATTN_F32, {2, 4, 2, 66, 600, 40, 40}, CAUSAL | STEEP},
    {"signs of zero", ATTN_F32, {1, 4, 2, 70, 70, 16, 16}, CAUSAL | TINY},
    {"signs of zero, mask", ATTN_F32, {1, 4, 2, 66, 200, 16, 16}, MASK | WINDOW | TINY},
    {"f16", ATTN_F16, {2, 4, 2, 66, 300, 64, 64}, CAUSAL},
    {"bf16", ATTN_BF16, {2, 4, 2, 66, 1100, 80, 80}, CAUSAL | ALIBI},
    {"bf16, odd sizes", ATTN_BF16, {2, 3, 3, 65, 131, 33, 17}, CAUSAL},
    {"bf16, one column", ATTN_BF16, {1, 6, 1, 66, 201, 1, 1}, SINKS},
    {"bf16, mask", ATTN_BF16, {2, 4, 2, 66, 301, 64, 64}, MASK | WINDOW},
    {"bf16, all", ATTN_BF16, {2, 4, 1, 66, 1101, 24, 24}, CAUSAL | WINDOW | ALIBI | BIAS | MASK | SINKS | SOFTCAP | DROPOUT},
    {"bf16, long", ATTN_BF16, {1, 2, 1, 80, 3000, 64, 64}, CAUSAL | STEEP},
    {"f64", ATTN_F64, {2, 4, 2, 66, 1100, 20, 20}, CAUSAL | MASK},
    {"relaxed", ATTN_F32, {2, 14, 2, 1, 2300, 64, 64}, CAUSAL | RELAXED},
    {"relaxed, bf16", ATTN_BF16, {1, 9, 3, 2, 1100, 64, 64}, RELAXED},
    {"relaxed, odd sizes", ATTN_F32, {1, 9, 3, 2, 300, 33, 17}, RELAXED},
    {"relaxed, many heads", ATTN_F32, {1, 20, 1, 4, 300, 64, 64}, CAUSAL | WINDOW | SINKS | RELAXED},
    {"relaxed, all", ATTN_F16, {2, 6, 2, 3, 1100, 24, 24}, CAUSAL | WINDOW | ALIBI | BIAS | MASK | SINKS | SOFTCAP | DROPOUT | RELAXED},
    {"relaxed, steep", ATTN_F64, {2, 4, 2, 4, 1100, 40, 40}, CAUSAL | STEEP | RELAXED},
    {"relaxed prompt", ATTN_F32, {2, 4, 2, 66, 300, 64, 64}, CAUSAL | RELAXED},
};
enum { SCENES = sizeof scenes / sizeof *scenes };

/* Do parts of the rows have the bits of the whole? In a relaxed call they need not; one of so few rows has one order, as its parts have. */
static bool rows_may_be_split(const scene *sc) {
    return !(sc->features & RELAXED) || sc->s.Lq <= 4;
}

static range all_of(const call *c) {
    return (range){0, c->s.B, 0, c->s.H, 0, c->s.Lq};
}

/* Runs `c` and compares it with those rows of `whole`. */
static void expect_rows(attn_ctx *ctx, const scene *sc, const char *what, const call *whole, range n, call *c) {
    char name[200];
    snprintf(name, sizeof name, "%s, %s: %s", attn_ctx_info(ctx).isa, sc->name, what);
    assert_ok(ctx, call_run(ctx, c));
    if (!same_rows(name, whole, n, c)) {
        fail();
    }
}

static void check_chunks(attn_ctx *ctx, const scene *sc, const call *whole, pool *memory, rng *r);

/* Does `check` for every scene on every level, after the whole has been computed by a context of two threads. */
static void for_each_scene(void (*check)(attn_ctx *, const scene *, const call *, pool *, rng *)) {
    const char *isa;
    for (int level = 0; (isa = usable_isa(level)); level++) {
        attn_ctx *ctx = new_ctx(isa, 2);
        for (int n = 0; n < SCENES; n++) {
            if (test_is_short() && scenes[n].s.Lk > 300 && check != check_chunks) {
                continue;
            }
            pool memory = {0};
            rng r = rng_of(test_seed(), (uint64_t)n);
            call whole = new_call(&memory, &r, scenes[n].dtype, scenes[n].s, scenes[n].features);
            assert_ok(ctx, call_run(ctx, &whole));
            check(ctx, &scenes[n], &whole, &memory, &r);
            pool_free(&memory);
        }
        attn_ctx_destroy(ctx);
    }
}

static void check_threads(attn_ctx *ctx, const scene *sc, const call *whole, pool *memory, rng *r) {
    static const uint32_t threads[] = {1, 2, 3, 8};
    (void)r;
    for (int n = 0; n < 4; n++) {
        attn_ctx *other = new_ctx(attn_ctx_info(ctx).isa, threads[n]);
        call c = part_of(memory, whole, all_of(whole));
        expect_rows(other, sc, "another thread count", whole, all_of(whole), &c);
        attn_ctx_destroy(other);
    }
}

static void check_runs(attn_ctx *ctx, const scene *sc, const call *whole, pool *memory, rng *r) {
    (void)r;
    call again = part_of(memory, whole, all_of(whole));
    expect_rows(ctx, sc, "a second run", whole, all_of(whole), &again);
}

static void check_layouts(attn_ctx *ctx, const scene *sc, const call *whole, pool *memory, rng *r) {
    for (int n = 0; n < (test_is_short() ? 1 : 3); n++) {
        call c = scattered(memory, r, whole);
        expect_rows(ctx, sc, "another layout", whole, all_of(whole), &c);
    }
}

/* One row, one head of all rows, one entry of the batch, and some of each. */
static void check_batches(attn_ctx *ctx, const scene *sc, const call *whole, pool *memory, rng *r) {
    const sizes s = whole->s;
    for (int n = 0; n < (test_is_short() ? 1 : 8); n++) {
        const int64_t b = rng_int(r, 0, s.B - 1), h = rng_int(r, 0, s.H - 1), i = rng_int(r, 0, s.Lq - 1), group = s.H / s.Hkv;
        const int64_t first = h / group * group; /* of the heads that share a KV head */
        const range parts[] = {{b, b + 1, h, h + 1, i, i + 1}, {b, b + 1, h, h + 1, 0, s.Lq}, {b, b + 1, 0, s.H, 0, s.Lq},
                               {0, s.B, first, first + group, i, s.Lq}};
        for (int m = 0; m < 4; m++) {
            if (parts[m].i1 - parts[m].i0 < s.Lq && !rows_may_be_split(sc)) {
                continue;
            }
            call c = part_of(memory, whole, parts[m]);
            expect_rows(ctx, sc, "a part of the batch", whole, parts[m], &c);
        }
    }
}

/* Rows [i, i + n), of all keys and, where later keys are hidden by the causal rule, of no more keys than these rows see. */
static void check_chunk(attn_ctx *ctx, const scene *sc, const call *whole, pool *memory, int64_t i, int64_t n) {
    range rows = all_of(whole);
    rows.i0 = i;
    rows.i1 = i + n;
    call c = part_of(memory, whole, rows);
    expect_rows(ctx, sc, "a chunk", whole, rows, &c);
    if (sc->features & CAUSAL) {
        call cut = first_keys(memory, &c, whole->s.Lk - whole->s.Lq + i + n);
        expect_rows(ctx, sc, "a chunk without the keys after it", whole, rows, &cut);
    }
}

static void check_chunks(attn_ctx *ctx, const scene *sc, const call *whole, pool *memory, rng *r) {
    static const int64_t lengths[] = {1, 3, 17, 64};
    for (int n = 0; n < 4 && rows_may_be_split(sc); n++) {
        for (int64_t i = 0; i < whole->s.Lq; i += lengths[n]) {
            const int64_t rows = lengths[n] < whole->s.Lq - i ? lengths[n] : whole->s.Lq - i;
            if (rng_chance(r, test_is_short() ? 0.05 : rows > 3 ? 1 : 0.2)) {
                check_chunk(ctx, sc, whole, memory, i, rows);
            }
        }
    }
}

/* The rows of k and v from `begin` to `end` go into the cache. */
static void append(attn_ctx *ctx, attn_kv *kv, const call *c, int64_t begin, int64_t end) {
    const attn_tensor k = slice(c->k, 2, begin, end), v = slice(c->v, 2, begin, end);
    assert_ok(ctx, attn_kv_append(ctx, kv, &k, &v));
}

/* Decode: chunks of random lengths are appended, now and then too much and taken back, and attended. */
static void check_cache(attn_ctx *ctx, const scene *sc, const call *whole, pool *memory, rng *r) {
    const sizes s = whole->s;
    const int64_t past = s.Lk - s.Lq;
    if (!(sc->features & CAUSAL) || !rows_may_be_split(sc)) {
        return;
    }
    const attn_kv_desc desc = {.dtype = sc->dtype, .batch = s.B, .kv_heads = s.Hkv, .capacity = s.Lk + 3, .head_dim = s.d,
                               .value_dim = s.d_v};
    attn_kv *kv = NULL;
    assert_ok(ctx, attn_kv_create(ctx, &kv, &desc));
    append(ctx, kv, whole, 0, past / 3);
    append(ctx, kv, whole, past / 3, past);
    for (int64_t i = 0, n; i < s.Lq; i += n) {
        n = rng_chance(r, 0.7) ? 1 : rng_int(r, 2, 9);
        n = n < s.Lq - i ? n : s.Lq - i;
        if (rng_chance(r, 0.2)) {
            append(ctx, kv, whole, 0, 3);
            assert_ok(ctx, attn_kv_truncate(ctx, kv, past + i));
        }
        append(ctx, kv, whole, past + i, past + i + n);
        assert_int_equal(attn_kv_length(kv), past + i + n);
        range rows = all_of(whole);
        rows.i0 = i;
        rows.i1 = i + n;
        const call part = part_of(memory, whole, rows);
        call c = first_keys(memory, &part, past + i + n);
        assert_ok(ctx, call_attend(ctx, kv, &c));
        if (!same_rows(sc->name, whole, rows, &c)) {
            fail_msg("%s: the cache differs from the whole", attn_ctx_info(ctx).isa);
        }
    }
    attn_kv_destroy(kv);
}

/* attn_explain_cell: output, weights and lse are the call's bits. */
static void check_explained(attn_ctx *ctx, const scene *sc, const call *whole, pool *memory, rng *r) {
    const attn_dtype t = whole->lse.dtype;
    for (int n = 0; n < 10; n++) {
        const int64_t b = rng_int(r, 0, whole->s.B - 1), h = rng_int(r, 0, whole->s.H - 1), i = rng_int(r, 0, whole->s.Lq - 1);
        attn_tensor weights = TENSOR(memory, t, whole->s.Lk), output = TENSOR(memory, t, whole->s.d_v);
        attn_row row = {.weights = &weights, .output = &output};
        call c = *whole;
        attn_sdpa_opts o = c.o;
        o.mask = c.mask.ndim ? &c.mask : NULL;
        o.bias = c.bias.ndim ? &c.bias : NULL;
        o.alibi_slopes = c.slopes.ndim ? &c.slopes : NULL;
        o.sinks = c.sinks.ndim ? &c.sinks : NULL;
        assert_ok(ctx, attn_explain_cell(ctx, &row, &c.q, &c.k, &c.v, &o, b, h, i));
        for (int64_t j = 0; j < whole->s.Lk; j++) {
            assert_true(ref_element(&weights, 0, 0, 0, j) == ref_element(&whole->weights, b, h, i, j));
        }
        for (int64_t m = 0; m < whole->s.d_v; m++) {
            assert_true(rounded_to(sc->dtype, ref_element(&output, 0, 0, 0, m)) == ref_element(&whole->out, b, h, i, m));
        }
        assert_true(row.lse == ref_element(&whole->lse, 0, b, h, i));
        assert_true(row.row_max == ref_element(&whole->row_max, 0, b, h, i));
        assert_true(row.entropy == ref_element(&whole->entropy, 0, b, h, i));
        assert_int_equal(row.position, whole->o.offset + i);
    }
}

/* ATTN_RELAXED is another order of sums, and so other bits of the same numbers. */
static void relaxed_is_another_order(void **state) {
    (void)state;
    const char *isa;
    for (int level = 0; (isa = usable_isa(level)); level++) {
        attn_ctx *ctx = new_ctx(isa, 1);
        pool memory = {0};
        rng r = rng_of(test_seed(), 0);
        call c = new_call(&memory, &r, ATTN_F32, (sizes){1, 7, 1, 1, 300, 64, 64}, 0);
        assert_ok(ctx, call_run(ctx, &c));
        call relaxed = part_of(&memory, &c, all_of(&c));
        relaxed.o.flags |= ATTN_RELAXED;
        assert_ok(ctx, call_run(ctx, &relaxed));
        int64_t others = 0;
        for (int64_t h = 0; h < 7; h++) {
            for (int64_t i = 0; i < 64; i++) {
                others += ref_element(&c.out, 0, h, 0, i) != ref_element(&relaxed.out, 0, h, 0, i);
            }
        }
        assert_true(others > 0);
        pool_free(&memory);
        attn_ctx_destroy(ctx);
    }
}

#define TEST(name)                                                                                                                         \
    static void same_bits_##name(void **state) {                                                                                           \
        (void)state;                                                                                                                       \
        for_each_scene(check_##name);                                                                                                      \
    }
TEST(threads)
TEST(runs)
TEST(layouts)
TEST(batches)
TEST(chunks)
TEST(cache)
TEST(explained)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits_threads), cmocka_unit_test(same_bits_runs),   cmocka_unit_test(same_bits_layouts),
        cmocka_unit_test(same_bits_batches), cmocka_unit_test(same_bits_chunks), cmocka_unit_test(same_bits_cache),
        cmocka_unit_test(same_bits_explained), cmocka_unit_test(relaxed_is_another_order),
    };
    return cmocka_run_group_tests_name("bits", tests, NULL, NULL);
}
