/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers at the edges, where the right answer is known by hand: finite biases of any size are added as they are, the maximum is taken off,
   a stored -inf hides and a computed one does not. Each on every ISA level, in f32 and f64. */
#include "support.h"

#include <float.h>
#include <math.h>

/* One row of q [1,1] against n keys, scale 1, v = identity: the output is the weights. */
typedef struct row_case {
    attn_ctx *ctx;
    attn_dtype dtype;
    pool memory;
    attn_tensor q, k, v, out, lse, weights, bias;
    attn_sdpa_opts o;
} row_case;

static void open_row(row_case *c, attn_ctx *ctx, attn_dtype t, int64_t n) {
    *c = (row_case){.ctx = ctx, .dtype = t, .o = {.flags = ATTN_SCALE, .scale = 1}};
    c->q = TENSOR(&c->memory, t, 1, 1);
    c->k = TENSOR(&c->memory, t, n, 1);
    c->v = TENSOR(&c->memory, t, n, n);
    c->out = TENSOR(&c->memory, t, 1, n);
    c->lse = TENSOR(&c->memory, t, 1);
    c->weights = TENSOR(&c->memory, t, 1, n);
    c->bias = TENSOR(&c->memory, t, 1, n);
    for (int64_t j = 0; j < n; j++) {
        set_element(&c->v, 0, 0, j, j, 1);
    }
    set_element(&c->q, 0, 0, 0, 0, 1);
    c->o.lse = &c->lse;
    c->o.weights = &c->weights;
}

static void set_keys(row_case *c, const double *scores) {
    for (int64_t j = 0; j < c->k.shape[0]; j++) {
        set_element(&c->k, 0, 0, j, 0, scores[j]);
    }
}

static void set_bias(row_case *c, const double *bias) {
    for (int64_t j = 0; j < c->k.shape[0]; j++) {
        set_element(&c->bias, 0, 0, 0, j, bias[j]);
    }
    c->o.bias = &c->bias;
}

static double got(const row_case *c, int64_t j) {
    return ref_element(&c->out, 0, 0, 0, j);
}

static void run(row_case *c) {
    assert_ok(c->ctx, attn_sdpa(c->ctx, &c->out, &c->q, &c->k, &c->v, &c->o));
}

/* Runs and compares the weights (output and by-product) within `bound`; then the row is closed. */
static void expect(row_case *c, const double *weights, double bound, int line) {
    run(c);
    for (int64_t j = 0; j < c->k.shape[0]; j++) {
        const double w = ref_element(&c->weights, 0, 0, 0, j);
        if (!(fabs(got(c, j) - weights[j]) <= bound) || !(fabs(w - weights[j]) <= bound)) {
            print_error("%s %s: weight %lld is %.9g (output %.9g), should be %.9g\n", attn_ctx_info(c->ctx).isa, attn_dtype_name(c->dtype),
                        (long long)j, w, got(c, j), weights[j]);
            _fail(__FILE__, line);
        }
    }
    pool_free(&c->memory);
}
#define LIST(...) ((const double[]){__VA_ARGS__})
#define EXPECT(bound, ...) expect(&c, LIST(__VA_ARGS__), bound, __LINE__)

static void for_each_level(void (*check)(attn_ctx *, attn_dtype)) {
    const char *isa;
    for (int level = 0; (isa = usable_isa(level)); level++) {
        attn_ctx *ctx = new_ctx(isa, 1);
        check(ctx, ATTN_F32);
        check(ctx, ATTN_F64);
        attn_ctx_destroy(ctx);
    }
}

static void check_finite_biases(attn_ctx *ctx, attn_dtype t) {
    const double lowest = -(double)FLT_MAX;
    row_case c;
    open_row(&c, ctx, t, 4);
    set_keys(&c, LIST(1, -2, 3, 0.5));
    set_bias(&c, LIST(lowest, lowest, lowest, lowest)); /* absorbs the scores: the mean */
    EXPECT(1e-7, 0.25, 0.25, 0.25, 0.25);

    open_row(&c, ctx, t, 4);
    set_keys(&c, LIST(1, 1, 1, 1));
    set_bias(&c, LIST(lowest, 0, lowest, 0));
    EXPECT(1e-7, 0, 0.5, 0, 0.5);

    open_row(&c, ctx, t, 3); /* a -10000 that loses, and one that wins */
    set_keys(&c, LIST(0, 0, 0));
    set_bias(&c, LIST(-10000, -10000, 0));
    EXPECT(1e-7, 0, 0, 1);

    open_row(&c, ctx, t, 3);
    set_keys(&c, LIST(-20000, -20000, -20001));
    set_bias(&c, LIST(-10000, -10000, 0));
    EXPECT(1e-7, 0, 0, 1);

    open_row(&c, ctx, t, 3);
    set_keys(&c, LIST(0, 0, 0));
    set_bias(&c, LIST(-(double)INFINITY, -10000, -10000)); /* hidden, and two alike */
    EXPECT(1e-7, 0, 0.5, 0.5);
}

/* Two float masks of -FLT_MAX add up to -inf by computation: visible, weight 0 beside an ordinary key. */
static void check_sum_of_biases(attn_ctx *ctx, attn_dtype t) {
    row_case c;
    open_row(&c, ctx, t, 3);
    const double lowest = t == ATTN_F64 ? -DBL_MAX : -(double)FLT_MAX;
    set_bias(&c, LIST(lowest, 0, 0));
    c.o.mask = &c.bias;
    EXPECT(1e-7, 0, 0.5, 0.5);

    open_row(&c, ctx, t, 2); /* nothing but such: visible, so not the 0 of a row that sees nothing */
    set_bias(&c, LIST(lowest, lowest));
    c.o.mask = &c.bias;
    run(&c);
    assert_true(got(&c, 0) != 0);
    pool_free(&c.memory);

    open_row(&c, ctx, t, 2); /* the same, stored: hidden, so 0 */
    set_bias(&c, LIST(-(double)INFINITY, -(double)INFINITY));
    run(&c);
    assert_true(got(&c, 0) == 0);
    assert_true(ref_element(&c.lse, 0, 0, 0, 0) == -(double)INFINITY);
    pool_free(&c.memory);
}

/* A finite f64 bias beyond f32 is finite in the call too: it hides nothing. */
static void check_wide_bias(attn_ctx *ctx, attn_dtype t) {
    row_case c;
    open_row(&c, ctx, t, 2);
    c.bias = TENSOR(&c.memory, ATTN_F64, 1, 2);
    set_bias(&c, LIST(-1e300, -1e300));
    EXPECT(1e-7, 0.5, 0.5);
    open_row(&c, ctx, t, 2);
    c.bias = TENSOR(&c.memory, ATTN_F64, 1, 2);
    set_bias(&c, LIST(-1e300, 0));
    EXPECT(1e-7, 0, 1);
}

static void check_large_logits(attn_ctx *ctx, attn_dtype t) {
    const double e = exp(1), sum4 = 1 + 1 / e + 1 / (e * e) + 1 / (e * e * e);
    row_case c;
    open_row(&c, ctx, t, 4); /* exp would overflow without the maximum taken off */
    set_keys(&c, LIST(1e6, 1e6 - 1, 1e6 - 2, 1e6 - 3));
    EXPECT(1e-6, 1 / sum4, 1 / e / sum4, 1 / (e * e) / sum4, 1 / (e * e * e) / sum4);
    open_row(&c, ctx, t, 4); /* ... and underflow to a row of 0 */
    set_keys(&c, LIST(-1e6, -1e6 - 1, -1e6 - 2, -1e6 - 3));
    EXPECT(1e-6, 1 / sum4, 1 / e / sum4, 1 / (e * e) / sum4, 1 / (e * e * e) / sum4);
    open_row(&c, ctx, t, 3); /* 80 apart: the small one is not lost in f32 */
    set_keys(&c, LIST(0, -80, 0));
    run(&c);
    assert_true(fabs(got(&c, 1) / (exp(-80) / 2) - 1) < 1e-5);
    pool_free(&c.memory);
    open_row(&c, ctx, t, 2);
    set_keys(&c, LIST(3e38, -3e38));
    EXPECT(1e-7, 1, 0);
    open_row(&c, ctx, t, 2);
    set_keys(&c, LIST(-0.0, 0.0));
    EXPECT(1e-7, 0.5, 0.5);
    open_row(&c, ctx, t, 3);
    set_keys(&c, LIST(1e-45, -1e-45, 1e-40));
    EXPECT(1e-7, 1 / 3.0, 1 / 3.0, 1 / 3.0);
    open_row(&c, ctx, t, 1); /* one visible key: its value to the bit */
    set_keys(&c, LIST(-12345.678));
    EXPECT(0, 1);
}

/* Scores that overflow: the row is not finite, its neighbours are as before. */
static void check_overflow(attn_ctx *ctx, attn_dtype t) {
    pool memory = {0};
    attn_tensor q = TENSOR(&memory, t, 3, 2), k = TENSOR(&memory, t, 2, 2), v = TENSOR(&memory, t, 2, 1), out = TENSOR(&memory, t, 3, 1);
    const double big = t == ATTN_F64 ? 1e200 : 1e30;
    set_element(&q, 0, 0, 1, 0, big);
    for (int64_t j = 0; j < 2; j++) {
        set_element(&k, 0, 0, j, 0, big);
        set_element(&v, 0, 0, j, 0, 7);
    }
    assert_ok(ctx, attn_sdpa(ctx, &out, &q, &k, &v, NULL));
    assert_true(ref_element(&out, 0, 0, 0, 0) == 7);
    assert_false(isfinite(ref_element(&out, 0, 0, 1, 0)));
    assert_true(ref_element(&out, 0, 0, 2, 0) == 7);
    pool_free(&memory);
}

/* A score of -inf that is computed is visible: weight 0 beside others, and a row of nothing else is not the 0 of a row that sees
   nothing. */
static void check_computed_infinity(attn_ctx *ctx, attn_dtype t) {
    const double minus = -(double)INFINITY;
    row_case c;
    open_row(&c, ctx, t, 3);
    set_keys(&c, LIST(minus, 0, 0));
    EXPECT(1e-7, 0, 0.5, 0.5);
    open_row(&c, ctx, t, 3);
    set_keys(&c, LIST(minus, minus, minus));
    run(&c);
    for (int64_t j = 0; j < 3; j++) {
        assert_false(isfinite(got(&c, j)));
    }
    pool_free(&c.memory);
}

/* The sink in the denominator: alone, far above and far below the scores. */
static void check_sinks(attn_ctx *ctx, attn_dtype t) {
    static const double sinks[] = {0, 50, 1000, -1000};
    for (int n = 0; n < 4; n++) {
        row_case c;
        open_row(&c, ctx, t, 2);
        attn_tensor sink = new_vector(&c.memory, ATTN_F32, 1);
        set_element(&sink, 0, 0, 0, 0, sinks[n]);
        c.o.sinks = &sink;
        set_keys(&c, LIST(0, 0));
        run(&c);
        const double weight = 1 / (2 + exp(sinks[n])), lse = sinks[n] > 100 ? sinks[n] : log(2 + exp(sinks[n]));
        assert_true(fabs(got(&c, 0) - weight) <= 1e-6 * (1 + fabs(sinks[n]) / 3) * weight); /* 4 u of the exponent */
        assert_true(fabs(ref_element(&c.lse, 0, 0, 0, 0) - lse) <= 1e-6 * fabs(lse));
        pool_free(&c.memory);
    }
}

/* Overflow of an f16 output is an infinity, as the rounding of a value out of range is. */
static void check_narrow_output(attn_ctx *ctx, attn_dtype t) {
    row_case c;
    open_row(&c, ctx, t, 2);
    attn_tensor out = TENSOR(&c.memory, ATTN_F16, 1, 2);
    set_element(&c.v, 0, 0, 0, 0, 65519);
    set_element(&c.v, 0, 0, 1, 0, 65519);
    set_element(&c.v, 0, 0, 0, 1, 65521);
    set_element(&c.v, 0, 0, 1, 1, 65521);
    assert_ok(ctx, attn_sdpa(ctx, &out, &c.q, &c.k, &c.v, &c.o));
    assert_true(ref_element(&out, 0, 0, 0, 0) == 65504);
    assert_true(ref_element(&out, 0, 0, 0, 1) == (double)INFINITY);
    pool_free(&c.memory);
}

/* An infinite value that is seen is the output, of its sign, whatever the sum of the weights is. */
static void check_infinite_value(attn_ctx *ctx, attn_dtype t) {
    for (int64_t n = 1; n <= 48; n++) {
        row_case c;
        open_row(&c, ctx, t, n);
        for (int64_t j = 0; j < n; j++) {
            set_element(&c.k, 0, 0, j, 0, (double)(j * j % 11) * 0.37);
            set_element(&c.v, 0, 0, n / 2, j, j % 2 ? (double)INFINITY : -(double)INFINITY);
        }
        run(&c);
        for (int64_t j = 0; j < n; j++) {
            assert_true(got(&c, j) == (j % 2 ? (double)INFINITY : -(double)INFINITY));
        }
        pool_free(&c.memory);
    }
}

#define TEST(name)                                                                                                                         \
    static void name(void **state) {                                                                                                       \
        (void)state;                                                                                                                       \
        for_each_level(check_##name);                                                                                                      \
    }
TEST(finite_biases)
TEST(sum_of_biases)
TEST(wide_bias)
TEST(large_logits)
TEST(overflow)
TEST(computed_infinity)
TEST(sinks)
TEST(narrow_output)
TEST(infinite_value)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finite_biases), cmocka_unit_test(sum_of_biases), cmocka_unit_test(wide_bias),     cmocka_unit_test(large_logits),
        cmocka_unit_test(overflow),      cmocka_unit_test(sinks),         cmocka_unit_test(narrow_output),
        cmocka_unit_test(computed_infinity), cmocka_unit_test(infinite_value),
    };
    return cmocka_run_group_tests_name("extremes", tests, NULL, NULL);
}
