/* SPDX-License-Identifier: Apache-2.0 */
/* Norms, activations, softmax and embeddings: random calls against ref/model_ref.c within the bounds of docs/numerics.md, and each call
   again in another layout, on another number of threads and in parts, with the same bits. */
#include "compare.h"

#include <math.h>

/* A random call of one function: x and out, and what else it takes. */
typedef struct row_call {
    pool memory;
    int kind; /* of kinds[] */
    attn_tensor x, up, out, weight, bias;
    attn_norm_opts norm;
    attn_activation f;
} row_call;

enum { LAYER_NORM, RMS_NORM, ACTIVATE, GLU, SOFTMAX, KINDS };
static const char *const kinds[KINDS] = {"layer_norm", "rms_norm", "activate", "glu", "softmax"};

static attn_status run(attn_ctx *ctx, row_call *c) {
    switch (c->kind) {
    case LAYER_NORM: return attn_layer_norm(ctx, &c->out, &c->x, &c->norm);
    case RMS_NORM: return attn_rms_norm(ctx, &c->out, &c->x, &c->norm);
    case ACTIVATE: return attn_activate(ctx, &c->out, &c->x, c->f);
    case GLU: return attn_glu(ctx, &c->out, &c->x, &c->up, c->f);
    default: return attn_softmax(ctx, &c->out, &c->x);
    }
}

/* ------------------------------------------------------------- random calls ---- */

static attn_tensor new_numbers(row_call *c, rng *r, int32_t ndim, const int64_t *shape) {
    const attn_dtype t = any_float(r);
    const attn_tensor x = new_scattered(&c->memory, r, t, ndim, shape, true);
    fill_adversarial(&x, r, t == ATTN_F16 ? 4 : t == ATTN_F64 ? 100 : 30);
    return x;
}

static void choose_norm(row_call *c, rng *r) {
    const int64_t n = row_width(&c->x);
    static const double eps[] = {0, 1e-12, 1e-6, 1e-5, 0.1};
    c->norm = (attn_norm_opts){.struct_size = sizeof c->norm};
    if (rng_chance(r, 0.7)) {
        c->norm.flags |= ATTN_NORM_EPS;
        c->norm.eps = eps[rng_int(r, 0, 4)];
    }
    if (rng_chance(r, 0.7)) {
        c->weight = new_scattered(&c->memory, r, any_float(r), 1, &n, true);
        fill_normal(&c->weight, r, 1);
        c->norm.weight = &c->weight;
        c->norm.flags |= rng_chance(r, 0.3) ? ATTN_NORM_PLUS_ONE : 0;
    }
    if (rng_chance(r, 0.5)) {
        c->bias = new_scattered(&c->memory, r, any_float(r), 1, &n, true);
        fill_normal(&c->bias, r, 1);
        c->norm.bias = &c->bias;
    }
}

static void random_call(row_call *c, rng *r) {
    int64_t shape[4];
    const int32_t ndim = (int32_t)rng_int(r, 1, 4);
    for (int32_t axis = 0; axis < ndim; axis++) {
        shape[axis] = rng_int(r, rng_chance(r, 0.02) ? 0 : 1, axis == ndim - 1 ? (rng_chance(r, 0.1) ? 3000 : 70) : 5);
    }
    *c = (row_call){.kind = (int)rng_int(r, 0, KINDS - 1), .f = (attn_activation)rng_int(r, 0, 3)};
    c->x = new_numbers(c, r, ndim, shape);
    c->up = new_numbers(c, r, ndim, shape);
    c->out = new_scattered(&c->memory, r, any_float(r), ndim, shape, false);
    fill_normal(&c->out, r, (double)NAN);
    choose_norm(c, r);
}

/* ------------------------------------------------------------------- bounds ---- */

static double *numbers(row_call *c, int64_t n) {
    return pool_get(&c->memory, (size_t)n * sizeof(double));
}

static double *vector_of(row_call *c, const attn_tensor *t) {
    if (!t) {
        return NULL;
    }
    double *v = numbers(c, row_width(t));
    read_row(v, t, 0);
    return v;
}

static void norm_error(double *error, const double *x, int64_t n, const ref_norm_options *o) {
    const double roundings = ceil((double)n / 8) + 10;
    double mean = 0, size = 0, square = 0;
    for (int64_t i = 0; i < n; i++) {
        mean += o->rms ? 0 : x[i] / (double)n;
        size += fabs(x[i]) / (double)n;
    }
    for (int64_t i = 0; i < n; i++) {
        square += (x[i] - mean) * (x[i] - mean) / (double)n;
    }
    const double shift = o->rms ? 0 : roundings * U64 * size, scale = 1 / sqrt(square + o->eps);
    const double share = (shift * shift + (roundings + 6) * U64 * (square + shift * shift)) / (square + o->eps);
    for (int64_t i = 0; i < n; i++) {
        const double w = fabs((o->weight ? o->weight[i] : 1) + (o->plus_one ? 1 : 0)), d = fabs(x[i] - mean), b = o->bias ? o->bias[i] : 0;
        error[i] = w * scale * (shift + U64 * d) * (1 + share) + w * d * scale * (share + 7 * U64) + 3 * U64 * fabs(b);
        error[i] = share <= 0.5 ? error[i] : (double)INFINITY;
    }
}

static double activation_share(attn_activation f, double x) {
    switch (f) {
    case ATTN_GELU: return 2 * x * x + 22;
    case ATTN_GELU_TANH: return 9 * 1.6 * fabs(x + 0.044715 * x * x * x) + 7;
    case ATTN_SILU: return 2 * fabs(x) + 7;
    default: return 0;
    }
}

/* Computed in f32 where nothing is f64. */
static void activation_row(const row_call *c, double *want, double *error, const double *x, const double *up, int64_t n) {
    const bool wide = c->x.dtype == ATTN_F64 || c->out.dtype == ATTN_F64 || (c->kind == GLU && c->up.dtype == ATTN_F64);
    const double u = wide ? U64 : 0x1p-24, least = wide ? 0x1p-1022 : 0x1p-126;
    for (int64_t i = 0; i < n; i++) {
        const double y = ref_activation(c->f, x[i]), factor = c->kind == GLU ? up[i] : 1;
        want[i] = y * factor;
        error[i] = fabs(want[i]) * (activation_share(c->f, x[i]) + 2) * u + (fabs(x[i]) + 1) * (fabs(factor) + 1) * least;
    }
}

static void softmax_error(double *error, const double *x, const double *w, int64_t n) {
    double top = -INFINITY, mean = 0;
    for (int64_t i = 0; i < n; i++) {
        top = fmax(top, x[i]);
    }
    for (int64_t i = 0; i < n; i++) {
        mean += w[i] > 0 ? w[i] * (top - x[i]) : 0;
    }
    for (int64_t i = 0; i < n; i++) {
        error[i] = w[i] * (top - x[i] + mean + (double)n + 8) * U64 + 2 * TINY64;
    }
}

static bool all_finite(const double *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(x[i])) {
            return false;
        }
    }
    return true;
}

static bool is_right(row_call *c, double *share) {
    const int64_t n = row_width(&c->x), rows = row_count(&c->x);
    double *x = numbers(c, n), *up = numbers(c, n), *want = numbers(c, n), *error = numbers(c, n);
    const ref_norm_options o = {.rms = c->kind == RMS_NORM,
                                .plus_one = c->norm.flags & ATTN_NORM_PLUS_ONE,
                                .eps = c->norm.flags & ATTN_NORM_EPS ? c->norm.eps : 1e-5,
                                .weight = vector_of(c, c->norm.weight),
                                .bias = vector_of(c, c->norm.bias)};
    for (int64_t row = 0; row < rows; row++) {
        read_row(x, &c->x, row);
        read_row(up, &c->up, row);
        if (c->kind == LAYER_NORM || c->kind == RMS_NORM) {
            ref_norm(want, x, n, &o);
            norm_error(error, x, n, &o);
            if (o.eps == 0 && n > 0 && isnan(want[0]) && all_finite(x, n)) { /* equal numbers and no eps: 0/0, however it is rounded */
                continue;
            }
        } else if (c->kind == SOFTMAX) {
            ref_softmax(want, x, n);
            softmax_error(error, x, want, n);
        } else {
            activation_row(c, want, error, x, up, n);
        }
        if (!row_is_near(kinds[c->kind], &c->out, row, want, error, &share[c->kind])) {
            return false;
        }
    }
    return true;
}

/* -------------------------------------------------------------------- tests ---- */

/* Element [..., i] of the leading axis `axis` 0 alone, in another layout, by a context of another thread count. */
static bool parts_have_the_same_bits(attn_ctx *other, row_call *c, rng *r) {
    row_call part = *c;
    attn_tensor whole = c->out;
    const int64_t first = c->x.ndim > 1 && c->x.shape[0] > 0 ? rng_int(r, 0, c->x.shape[0] - 1) : 0;
    attn_tensor *const all[] = {&part.x, &part.up};
    for (int n = 0; n < 2; n++) {
        const attn_tensor t = c->x.ndim > 1 && c->x.shape[0] > 0 ? slice(*all[n], 0, first, first + 1) : *all[n];
        *all[n] = new_scattered(&c->memory, r, t.dtype, t.ndim, t.shape, false);
        copy_elements(all[n], &t);
    }
    whole = c->x.ndim > 1 && c->x.shape[0] > 0 ? slice(whole, 0, first, first + 1) : whole;
    part.out = new_scattered(&c->memory, r, c->out.dtype, whole.ndim, whole.shape, false);
    assert_ok(other, run(other, &part));
    const bool same = same_bits(kinds[c->kind], &whole, &part.out);
    return same;
}

static void random_rows_meet_the_reference(void **state) {
    (void)state;
    attn_ctx *ctx = new_ctx(NULL, 2), *other = new_ctx(NULL, 3), *scalar = new_ctx("scalar", 1);
    const uint64_t seed = test_seed();
    const int64_t count = test_count(6000);
    double share[KINDS] = {0};
    for (int64_t n = 0; n < count; n++) {
        rng r = rng_of(seed, (uint64_t)n);
        row_call c;
        random_call(&c, &r);
        assert_ok(ctx, run(ctx, &c));
        if (!is_right(&c, share) || !parts_have_the_same_bits(c.kind == ACTIVATE || c.kind == GLU ? other : scalar, &c, &r)) {
            print_error("%s, ATTN_TEST_SEED=%llu problem %lld: x %s of %lld, activation %d, norm flags %u\n", kinds[c.kind],
                        (unsigned long long)seed, (long long)n, attn_dtype_name(c.x.dtype), (long long)row_width(&c.x), (int)c.f,
                        c.norm.flags);
            fail();
        }
        pool_free(&c.memory);
    }
    for (int kind = 0; kind < KINDS; kind++) {
        print_message("%-12s greatest share of the bound %.3f\n", kinds[kind], share[kind]);
        assert_true(share[kind] > 0.1);
    }
    attn_ctx_destroy(ctx);
    attn_ctx_destroy(other);
    attn_ctx_destroy(scalar);
}

static bool is_close(double got, double want) {
    return fabs(got - want) <= 1e-15 * (1 + fabs(want));
}

/* By hand: 1 2 3 4 has mean 2.5 and variance 1.25, mean square 7.5. */
static void known_answers(void **state) {
    (void)state;
    attn_ctx *ctx = new_ctx(NULL, 1);
    double x[] = {1, 2, 3, 4}, w[] = {0, 1, 2, 0}, got[4];
    const attn_tensor tx = attn_tensor_of(x, ATTN_F64, 1, SHAPE(4)), tw = attn_tensor_of(w, ATTN_F64, 1, SHAPE(4));
    attn_tensor out = attn_tensor_of(got, ATTN_F64, 1, SHAPE(4));
    attn_norm_opts o = {.flags = ATTN_NORM_EPS, .eps = 0};
    assert_ok(ctx, attn_layer_norm(ctx, &out, &tx, &o));
    assert_true(is_close(got[0], -1.3416407864998738));
    assert_true(is_close(got[2], 0.4472135954999579));
    o.weight = &tw;
    assert_ok(ctx, attn_rms_norm(ctx, &out, &tx, &o));
    assert_true(got[0] == 0 && fabs(got[2] - 2.1908902300206643) < 1e-15);
    o.flags |= ATTN_NORM_PLUS_ONE;
    assert_ok(ctx, attn_rms_norm(ctx, &out, &tx, &o));
    assert_true(is_close(got[2], 3.2863353450309964));
    o = (attn_norm_opts){.struct_size = 0};
    assert_ok(ctx, attn_layer_norm(ctx, &out, &tx, &o));
    assert_true(is_close(got[3], 1.5 / sqrt(1.25 + 1e-5))); /* the eps of no options */
    assert_ok(ctx, attn_activate(ctx, &out, &tx, ATTN_GELU));
    assert_true(is_close(got[0], 0.8413447460685429));
    assert_ok(ctx, attn_activate(ctx, &out, &tx, ATTN_GELU_TANH));
    assert_true(is_close(got[0], 0.8411919906082768));
    assert_ok(ctx, attn_activate(ctx, &out, &tx, ATTN_SILU));
    assert_true(is_close(got[0], 0.7310585786300049));
    attn_ctx_destroy(ctx);
}

/* A row with a NaN or an Inf spoils no other; -inf in softmax has no weight. */
static void non_finite_rows(void **state) {
    (void)state;
    attn_ctx *ctx = new_ctx(NULL, 1);
    float x[] = {1, NAN, 2, 1, -INFINITY, 1, -INFINITY, -INFINITY, -INFINITY}, got[9];
    const attn_tensor tx = attn_tensor_of(x, ATTN_F32, 2, SHAPE(3, 3));
    attn_tensor out = attn_tensor_of(got, ATTN_F32, 2, SHAPE(3, 3));
    assert_ok(ctx, attn_softmax(ctx, &out, &tx));
    assert_true(isnan(got[0]) && isnan(got[1]) && isnan(got[2]));
    assert_true(got[3] == 0.5F && got[4] == 0 && got[5] == 0.5F && got[6] == 0 && got[7] == 0 && got[8] == 0);
    assert_ok(ctx, attn_activate(ctx, &out, &tx, ATTN_RELU));
    assert_true(got[0] == 1 && isnan(got[1]) && got[2] == 2 && got[4] == 0);
    x[0] = INFINITY;
    for (int f = ATTN_GELU; f <= ATTN_RELU; f++) {
        assert_ok(ctx, attn_activate(ctx, &out, &tx, (attn_activation)f));
        assert_true(got[0] == INFINITY && isnan(got[1]) && got[2] > 1.7F && got[4] == 0);
    }
    attn_ctx_destroy(ctx);
}

/* --------------------------------------------------------------- embeddings ---- */

static attn_tensor new_ids(pool *m, rng *r, int32_t ndim, const int64_t *shape, int64_t rows) {
    const attn_tensor t = new_scattered(m, r, rng_chance(r, 0.5) ? ATTN_I32 : ATTN_I64, ndim, shape, false);
    for (int64_t b = 0; b < axis_extent(&t, 2); b++) {
        for (int64_t i = 0; i < axis_extent(&t, 3); i++) {
            set_element(&t, 0, 0, b, i, (double)rng_int(r, 0, rows - 1));
        }
    }
    return t;
}

static attn_tensor new_table(pool *m, rng *r, int64_t rows, int64_t n) {
    const attn_tensor t = new_scattered(m, r, any_float(r), 2, SHAPE(rows, n), false);
    fill_normal(&t, r, 1);
    return t;
}

static void embeddings_meet_their_sum(void **state) {
    (void)state;
    attn_ctx *ctx = new_ctx(NULL, 2);
    double share = 0;
    for (int64_t n = 0; n < test_count(1000) && n < 1000; n++) {
        rng r = rng_of(test_seed(), (uint64_t)n);
        pool m = {0};
        const int64_t B = rng_int(&r, 1, 3), L = rng_int(&r, 1, 9), width = rng_int(&r, 1, 40), shape[] = {B, L, width};
        const int skip = B == 1 && rng_chance(&r, 0.5);
        const int32_t ndim = 2 - skip;
        const attn_tensor ids = new_ids(&m, &r, ndim, shape + skip, 7), token = new_table(&m, &r, 7, width);
        const attn_tensor position = new_table(&m, &r, 20, width), type = new_table(&m, &r, 2, width);
        const attn_tensor places = rng_chance(&r, 0.5) ? new_ids(&m, &r, 1, &L, 20) : new_ids(&m, &r, ndim, shape + skip, 20);
        const attn_tensor types = new_ids(&m, &r, ndim, shape + skip, 2);
        attn_tensor out = new_scattered(&m, &r, any_float(&r), ndim + 1, shape + skip, false);
        attn_embed_opts o = {.token = &token};
        o.flags = rng_chance(&r, 0.3) ? ATTN_EMBED_SCALE : 0;
        o.scale = o.flags ? 22.6 : 0;
        o.position = rng_chance(&r, 0.7) ? &position : NULL;
        o.position_ids = o.position && rng_chance(&r, 0.5) ? &places : NULL;
        o.offset = o.position && !o.position_ids ? rng_int(&r, 0, 11) : 0;
        o.type = rng_chance(&r, 0.5) ? &type : NULL;
        o.type_ids = o.type && rng_chance(&r, 0.7) ? &types : NULL;
        assert_ok(ctx, attn_embed(ctx, &out, &ids, &o));
        double *want = pool_get(&m, (size_t)width * 8), *error = pool_get(&m, (size_t)width * 8);
        for (int64_t row = 0; row < B * L; row++) {
            const int64_t b = row / L, i = row % L, at = o.position_ids ? (int64_t)ref_element(&places, 0, 0, b, i) : o.offset + i;
            const int64_t id = (int64_t)ref_element(&ids, 0, 0, b, i), kind = o.type_ids ? (int64_t)ref_element(&types, 0, 0, b, i) : 0;
            for (int64_t c = 0; c < width; c++) {
                const double t = (o.flags ? o.scale : 1) * ref_element(&token, 0, 0, id, c);
                const double p = o.position ? ref_element(&position, 0, 0, at, c) : 0, s = o.type ? ref_element(&type, 0, 0, kind, c) : 0;
                want[c] = t + p + s;
                error[c] = 4 * U64 * (fabs(t) + fabs(p) + fabs(s));
            }
            assert_true(row_is_near("embed", &out, row, want, error, &share));
        }
        pool_free(&m);
    }
    attn_ctx_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_rows_meet_the_reference), cmocka_unit_test(known_answers),
                                       cmocka_unit_test(non_finite_rows), cmocka_unit_test(embeddings_meet_their_sum)};
    return cmocka_run_group_tests_name("model_rows", tests, NULL, NULL);
}
