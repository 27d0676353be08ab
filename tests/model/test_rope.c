/* SPDX-License-Identifier: Apache-2.0 */
/* RoPE: random calls of every scaling and layout against ref/model_ref.c within the bound of docs/numerics.md; the same bits head by head,
   position by position and from other threads; answers known from configurations. */
#include "compare.h"

#include <math.h>

typedef struct rope_call {
    pool memory;
    attn_rope_desc d;
    attn_tensor cos, sin, positions, x, out;
    attn_rope_opts o;
} rope_call;

static const char *const scalings[] = {"plain", "linear", "dynamic", "llama3", "yarn"};

/* ------------------------------------------------------------- random calls ---- */

static void choose_scaling(rope_call *c, rng *r) {
    static const double theta[] = {0, 10000, 500000, 1000000}, factor[] = {1, 2, 4, 8.5, 32};
    attn_rope_desc *d = &c->d;
    d->theta = theta[rng_int(r, 0, 3)];
    d->scaling = (attn_rope_scaling)rng_int(r, 0, d->rotary_dim == 2 ? 1 : 4);
    if (d->scaling == ATTN_ROPE_PLAIN) {
        return;
    }
    d->factor = factor[rng_int(r, 0, 4)];
    d->original_length = rng_chance(r, 0.5) ? 8192 : rng_int(r, 100, 40000);
    d->length = rng_int(r, 0, 100000);
    if (rng_chance(r, 0.5)) {
        d->low_freq = 1 + rng_unit(r);
        d->high_freq = 3 + rng_unit(r);
        d->beta_fast = rng_int(r, 20, 50);
        d->attention_factor = 0.5 + rng_unit(r);
    }
}

/* Any numbers: nothing says that they lie on a circle. */
static void choose_tables(rope_call *c, rng *r) {
    const int64_t rows = rng_int(r, 12, 40);
    c->cos = new_scattered(&c->memory, r, any_float(r), 2, SHAPE(rows, c->d.rotary_dim / 2), false);
    c->sin = new_scattered(&c->memory, r, any_float(r), 2, SHAPE(rows, c->d.rotary_dim / 2), false);
    fill_normal(&c->cos, r, 1);
    fill_normal(&c->sin, r, 1);
    c->d.cos = &c->cos;
    c->d.sin = &c->sin;
}

static void choose_positions(rope_call *c, rng *r, int64_t B, int64_t L) {
    const int64_t most = c->d.cos ? c->cos.shape[0] - L : rng_chance(r, 0.1) ? INT64_C(1) << 40 : 100000;
    if (rng_chance(r, 0.5)) {
        c->o.offset = rng_int(r, c->d.cos ? 0 : -most, most);
        return;
    }
    c->positions = rng_chance(r, 0.5) ? new_scattered(&c->memory, r, ATTN_I64, 1, &L, false)
                                      : new_scattered(&c->memory, r, ATTN_I64, 2, SHAPE(rng_chance(r, 0.3) ? 1 : B, L), false);
    for (int64_t b = 0; b < axis_extent(&c->positions, 2); b++) {
        for (int64_t i = 0; i < L; i++) {
            set_element(&c->positions, 0, 0, b, i, (double)rng_int(r, 0, most));
        }
    }
    c->o.positions = &c->positions;
}

static void random_call(rope_call *c, rng *r) {
    *c = (rope_call){.memory = {0}};
    const int32_t ndim = (int32_t)rng_int(r, 2, 4);
    const int64_t B = ndim > 3 ? rng_int(r, 1, 3) : 1, H = ndim > 2 ? rng_int(r, 1, 4) : 1, L = rng_int(r, 1, 9);
    const int64_t r_dim = 2 * rng_int(r, 1, 33), dim = r_dim + (rng_chance(r, 0.4) ? rng_int(r, 1, 20) : 0), shape[] = {B, H, L, dim};
    c->d = (attn_rope_desc){.struct_size = sizeof c->d, .flags = rng_chance(r, 0.5) ? ATTN_ROPE_INTERLEAVED : 0, .head_dim = dim};
    c->d.rotary_dim = r_dim;
    if (rng_chance(r, 0.15)) {
        choose_tables(c, r);
    } else {
        choose_scaling(c, r);
    }
    if (rng_chance(r, 0.5) && (r_dim == dim || c->d.cos)) {
        c->d.rotary_dim = 0;
    }
    choose_positions(c, r, B, L);
    c->x = new_scattered(&c->memory, r, any_float(r), ndim, shape + 4 - ndim, true);
    fill_normal(&c->x, r, 1);
    c->out = new_scattered(&c->memory, r, any_float(r), ndim, shape + 4 - ndim, false);
    fill_normal(&c->out, r, (double)NAN);
}

/* ------------------------------------------------------------------- bounds ---- */

/* The relative error of a frequency, in units of 2^-53. */
static double frequency_share(const attn_rope_desc *d) {
    const double stretch = d->scaling == ATTN_ROPE_DYNAMIC && d->length > d->original_length
                               ? d->factor * (double)d->length / (double)d->original_length
                               : 1;
    const double mixing = d->scaling == ATTN_ROPE_LLAMA3 ? d->high_freq / (d->high_freq - d->low_freq) : 1;
    return 16 + 2 * (log(d->theta) + 2 * log(stretch)) + 8 * stretch + 8 * d->factor * mixing;
}

static void rope_error(double *error, const double *x, const attn_rope_desc *d, int64_t position) {
    const int64_t pairs = d->rotary_dim / 2;
    for (int64_t i = 0; i < d->head_dim; i++) {
        error[i] = 0;
    }
    for (int64_t p = 0; p < pairs; p++) {
        const bool interleaved = d->flags & ATTN_ROPE_INTERLEAVED;
        const int64_t a = interleaved ? 2 * p : p, b = interleaved ? 2 * p + 1 : p + pairs;
        const double cosine = d->cos ? fabs(ref_element(d->cos, 0, 0, position, p)) + fabs(ref_element(d->sin, 0, 0, position, p)) : 1;
        const double angle = d->cos ? 0 : fabs((double)position) * ref_rope_frequency(d, p) * (frequency_share(d) + 2);
        const double factor = d->scaling == ATTN_ROPE_YARN ? d->attention_factor : 1;
        error[a] = error[b] = (fabs(x[a]) + fabs(x[b])) * factor * cosine * (angle + 8) * U64;
    }
}

static int64_t position_of(const rope_call *c, int64_t item, int64_t i) {
    return c->o.positions ? (int64_t)ref_element(&c->positions, 0, 0, item, i) : c->o.offset + i;
}

static bool is_right(rope_call *c, double *share) {
    const int64_t H = axis_extent(&c->x, 1), L = axis_extent(&c->x, 2), n = row_width(&c->x);
    double *want = pool_get(&c->memory, (size_t)n * sizeof *want), *error = pool_get(&c->memory, (size_t)n * sizeof *error);
    const attn_rope_desc full = ref_rope_defaults(&c->d);
    for (int64_t row = 0; row < row_count(&c->x); row++) {
        const int64_t position = position_of(c, row / L / H, row % L);
        read_row(want, &c->x, row);
        rope_error(error, want, &full, position);
        ref_rope(want, &c->d, position);
        if (!row_is_near(c->d.cos ? "tables" : scalings[c->d.scaling], &c->out, row, want, error, share)) {
            return false;
        }
    }
    return true;
}

/* -------------------------------------------------------------------- tests ---- */

/* One row of one head, alone at its position. */
static bool part_has_the_same_bits(attn_ctx *other, rope_call *c, const attn_rope *rope, rng *r) {
    const int64_t b = rng_int(r, 0, axis_extent(&c->x, 0) - 1), i = rng_int(r, 0, axis_extent(&c->x, 2) - 1);
    attn_tensor x = slice(c->x, c->x.ndim - 2, i, i + 1), whole = slice(c->out, c->x.ndim - 2, i, i + 1);
    if (c->x.ndim == 4) {
        x = slice(x, 0, b, b + 1);
        whole = slice(whole, 0, b, b + 1);
    }
    attn_tensor out = new_scattered(&c->memory, r, c->out.dtype, x.ndim, x.shape, false);
    const attn_rope_opts o = {.offset = position_of(c, b, i)};
    assert_ok(other, attn_rope_apply(other, &out, &x, rope, &o));
    return same_bits("a row alone", &whole, &out);
}

static void random_ropes_meet_the_reference(void **state) {
    (void)state;
    attn_ctx *ctx = new_ctx(NULL, 2), *other = new_ctx("scalar", 3);
    double share = 0;
    for (int64_t n = 0; n < test_count(4000); n++) {
        rng r = rng_of(test_seed(), (uint64_t)n);
        rope_call c;
        attn_rope *rope = NULL;
        random_call(&c, &r);
        assert_ok(ctx, attn_rope_create(ctx, &rope, &c.d));
        assert_ok(ctx, attn_rope_apply(ctx, &c.out, &c.x, rope, &c.o));
        if (!is_right(&c, &share) || !part_has_the_same_bits(other, &c, rope, &r)) {
            print_error("ATTN_TEST_SEED=%llu problem %lld: %s%s, theta %g, factor %g, length %lld of %lld\n",
                        (unsigned long long)test_seed(), (long long)n, scalings[c.d.scaling], c.d.flags ? ", interleaved" : "", c.d.theta,
                        c.d.factor, (long long)c.d.length, (long long)c.d.original_length);
            fail();
        }
        attn_rope_destroy(rope);
        pool_free(&c.memory);
    }
    print_message("greatest share of the bound %.3f\n", share);
    assert_true(share > 0.1);
    attn_ctx_destroy(ctx);
    attn_ctx_destroy(other);
}

static void expect_frequency(const attn_rope_desc *d, int64_t p, double want) {
    attn_ctx *ctx = new_ctx(NULL, 1);
    attn_rope *rope = NULL;
    assert_ok(ctx, attn_rope_create(ctx, &rope, d));
    const double got = attn_rope_frequency(rope, p);
    if (!(fabs(got - want) <= 1e-6 * want)) {
        fail_msg("pair %lld turns by %.9g, should be %.9g", (long long)p, got, want);
    }
    assert_true(isnan(attn_rope_frequency(rope, -1)) && isnan(attn_rope_frequency(rope, d->head_dim)));
    attn_rope_destroy(rope);
    attn_ctx_destroy(ctx);
}

/* As transformers 4 computes them in f32 (within 1e-6: its powers and logarithms are f32 too): Llama 3.1's configuration, Qwen2's yarn, and
   dynamic NTK at twice the length. */
static void known_frequencies(void **state) {
    (void)state;
    const attn_rope_desc llama = {.head_dim = 128, .theta = 500000, .scaling = ATTN_ROPE_LLAMA3, .factor = 8, .original_length = 8192};
    const attn_rope_desc qwen = {.head_dim = 64, .theta = 1000000, .scaling = ATTN_ROPE_YARN, .factor = 4, .original_length = 32768};
    const attn_rope_desc dynamic = {.head_dim = 64, .scaling = ATTN_ROPE_DYNAMIC, .factor = 2, .original_length = 2048, .length = 4096};
    static const int64_t pairs[3][4] = {{20, 31, 40, 63}, {10, 17, 20, 31}, {0, 1, 16, 31}};
    static const double want[3][4] = {{0.0165604409, 0.00085675146, 3.42810235e-05, 3.06892588e-07},
                                      {0.0133352149, 0.000324690831, 4.44569851e-05, 3.84981632e-07},
                                      {1, 0.72378397, 0.0056721, 4.44507132e-05}};
    for (int n = 0; n < 4; n++) {
        expect_frequency(&llama, pairs[0][n], want[0][n]);
        expect_frequency(&qwen, pairs[1][n], want[1][n]);
        expect_frequency(&dynamic, pairs[2][n], want[2][n]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_ropes_meet_the_reference), cmocka_unit_test(known_frequencies)};
    return cmocka_run_group_tests_name("model_rope", tests, NULL, NULL);
}
