/* SPDX-License-Identifier: Apache-2.0 */
/* attn_linear: random layers against ref_linear within the bound of a projection, on every ISA level. */
#include "compare.h"
#include "differential.h"

#include <math.h>
#include <stdlib.h>

typedef struct linear_call {
    pool memory;
    attn_tensor w, b, x, out;
    attn_linear_desc d;
    attn_dtype real;
    estimate want;
} linear_call;

static attn_tensor new_floats(linear_call *c, rng *r, int32_t ndim, const int64_t *shape, bool may_be_f64) {
    attn_dtype t = any_float(r);
    while (t == ATTN_F64 && !may_be_f64) {
        t = any_float(r);
    }
    const attn_tensor x = new_scattered(&c->memory, r, t, ndim, shape, true);
    fill_normal(&x, r, 1);
    return x;
}

static estimate exact(pool *m, const attn_tensor *t) {
    const estimate e = new_estimate(m, row_count(t), row_width(t));
    for (int64_t row = 0; row < e.rows; row++) {
        read_row(e.value + row * e.columns, t, row);
    }
    return e;
}

static void open_call(void *made, uint64_t seed, uint64_t number) {
    linear_call *c = made;
    rng r = rng_of(seed, number);
    *c = (linear_call){.d = {.struct_size = sizeof c->d, .flags = rng_chance(&r, 0.2) ? ATTN_LINEAR_F64 : 0}};
    const int64_t most = rng_chance(&r, 0.2) ? 300 : 20, in = rng_int(&r, 1, most), columns = rng_int(&r, 1, most);
    const int64_t shape[] = {rng_int(&r, 1, 3), rng_int(&r, 1, rng_chance(&r, 0.1) ? 200 : 12), in};
    const int skip = rng_chance(&r, 0.4);
    c->w = new_floats(c, &r, 2, SHAPE(in, columns), true);
    c->d.w = &c->w;
    if (rng_chance(&r, 0.6)) {
        c->b = new_floats(c, &r, 1, &columns, true);
        c->d.b = &c->b;
    }
    c->real = c->d.flags || c->w.dtype == ATTN_F64 || c->b.dtype == ATTN_F64 ? ATTN_F64 : ATTN_F32;
    c->x = new_floats(c, &r, 3 - skip, shape + skip, c->real == ATTN_F64);
    c->out = new_scattered(&c->memory, &r, any_float(&r), 3 - skip, SHAPE(shape[0], shape[1], columns) + skip, false);
    const estimate x = exact(&c->memory, &c->x), w = exact(&c->memory, &c->w);
    const estimate b = c->d.b ? exact(&c->memory, &c->b) : (estimate){0};
    c->want = linear_estimate(&c->memory, c->real, &x, w.value, b.value, columns);
}

/* Weights of 16 bits give the bits of the same weights widened. */
static bool has_bits_of_widened(linear_call *c, attn_ctx *ctx) {
    if (c->w.dtype != ATTN_F16 && c->w.dtype != ATTN_BF16) {
        return true;
    }
    const attn_tensor wide = new_tensor(&c->memory, ATTN_F32, 2, c->w.shape);
    for (int64_t t = 0; t < wide.shape[0]; t++) {
        for (int64_t i = 0; i < wide.shape[1]; i++) {
            set_element(&wide, 0, 0, t, i, ref_element(&c->w, 0, 0, t, i));
        }
    }
    attn_linear_desc d = c->d;
    attn_linear_weights *w = NULL;
    attn_tensor got = new_tensor(&c->memory, c->out.dtype, c->out.ndim, c->out.shape);
    d.w = &wide;
    assert_ok(ctx, attn_linear_prepare(ctx, &w, &d));
    assert_ok(ctx, attn_linear(ctx, &got, w, &c->x));
    attn_linear_destroy(w);
    return same_bits("of widened weights", &c->out, &got);
}

static bool run(void *made, attn_ctx *ctx, tally *t) {
    linear_call *c = made;
    attn_linear_weights *w = NULL;
    rng r = rng_of(0, 0);
    fill_normal(&c->out, &r, (double)NAN);
    attn_status s = attn_linear_prepare(ctx, &w, &c->d);
    s = s ? s : attn_linear(ctx, &c->out, w, &c->x);
    if (s != ATTN_OK) {
        print_error("%s: %s\n", attn_status_str(s), attn_ctx_error(ctx));
    }
    attn_linear_destroy(w);
    return s == ATTN_OK && meets_estimate(&c->out, &c->want, c->real, PROJECTED, t) && has_bits_of_widened(c, ctx);
}

static void print(const void *made) {
    const linear_call *c = made;
    print_error("  %lld x %lld %s, x %s, out %s%s\n", (long long)c->w.shape[0], (long long)c->w.shape[1], attn_dtype_name(c->w.dtype),
                attn_dtype_name(c->x.dtype), attn_dtype_name(c->out.dtype), c->d.b ? ", with bias" : "");
}

static void close_call(void *made) {
    pool_free(&((linear_call *)made)->memory);
}

static void random_layers_meet_the_reference(void **state) {
    (void)state;
    const trial t = {open_call, run, print, close_call};
    linear_call c;
    run_trials(&t, &c, 1000);
}

/* Bytes that the weights of a layer hold. */
static void *counted_alloc(void *user, size_t align, size_t size) {
    *(size_t *)user += size;
    return aligned_alloc(align, (size + align - 1) / align * align);
}

static void counted_free(void *user, void *memory) {
    (void)user;
    free(memory);
}

static void narrow_weights_stay_narrow(void **state) {
    (void)state;
    pool memory = {0};
    size_t bytes = 0;
    attn_ctx *ctx = NULL;
    const attn_ctx_opts o = {.threads = 1, .alloc = counted_alloc, .free = counted_free, .user = &bytes};
    assert_int_equal(attn_ctx_create(&ctx, &o, NULL, 0), ATTN_OK);
    for (int i = 0; i < 3; i++) {
        const attn_tensor w = new_tensor(&memory, ((const attn_dtype[]){ATTN_F32, ATTN_F16, ATTN_BF16})[i], 2, SHAPE(512, 256));
        attn_linear_weights *made = NULL;
        bytes = 0;
        assert_ok(ctx, attn_linear_prepare(ctx, &made, &(attn_linear_desc){.w = &w}));
        assert_in_range(bytes, 512 * 256 * attn_dtype_size(w.dtype), 512 * 256 * attn_dtype_size(w.dtype) + 1024);
        attn_linear_destroy(made);
    }
    attn_ctx_destroy(ctx);
    pool_free(&memory);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_layers_meet_the_reference), cmocka_unit_test(narrow_weights_stay_narrow)};
    return cmocka_run_group_tests_name("model_linear", tests, NULL, NULL);
}
