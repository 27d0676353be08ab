/* SPDX-License-Identifier: Apache-2.0 */
/* The activations: every number within the bound of docs/numerics.md in the precision of the table, and the same bits wherever it
   stands. */
#include "harness.h"

#include <model_ref.h>

#include "../../src/kernels/convert.h"

#include <math.h>
#include <string.h>

typedef struct activate_case {
    harness *h;
    attn_activation f;
    array *x, *other; /* other: NULL, or what a gate is multiplied with */
} activate_case;

static void run_activation(void *user)
{
    const activate_case *c = user;
    const attn_kernels *k = c->h->kernels;
    attn_activate_kernel *const kernels[] = { k->gelu, k->gelu_tanh, k->silu, k->relu };
    kernels[c->f](c->x->rows.data, c->other ? c->other->rows.data : NULL, c->x->columns);
}

static array *new_row(harness *h, int64_t n)
{
    array *a = new_plain_array(h, "x", h->real, 1, 1, n);
    a->is_output = true;
    return a;
}

/* Ordinary, in the tails, tiny, huge, and the limits. */
static double any_number(harness *h)
{
    static const double sizes[] = { 1, 1, 4, 12, 40, 300, 1e-3, 1e-30, 1e30 };
    static const double special[] = { 0, -0.0, INFINITY, -INFINITY, NAN };
    rng *r = &h->random;
    return rng_chance(r, 0.03) ? special[rng_int(r, 0, 4)] : sizes[rng_int(r, 0, 8)] * rng_normal(r);
}

/* Of the error, as a share of the result. */
static double share_of(attn_activation f, double x)
{
    const double t = 1.6 * fabs(x + 0.044715 * x * x * x);
    return f == ATTN_GELU ? 2 * x * x + 22 : f == ATTN_SILU ? 2 * fabs(x) + 7 : f == ATTN_RELU ? 0 : 9 * t + 7;
}

static void check_number(const activate_case *c, double x, double got)
{
    const bool wide = c->h->real == ATTN_F64;
    const double u = wide ? 0x1p-53 : 0x1p-24, least = wide ? 0x1p-1022 : 0x1p-126;
    const double want = x == -INFINITY ? 0 : x == INFINITY ? INFINITY : ref_activation(c->f, x);
    const double bound = want == 0 ? 0 : 1.01 * fabs(want) * share_of(c->f, x) * u;
    c->h->worst.compared[OUTPUT]++;
    if (isnan(x) ? isnan(got) : isinf(want) ? got == want : fabs(got - want) <= bound + (fmin(fabs(x), 1000) + 1) * least) {
        if (bound > 1e-20 && bound < (double)INFINITY)
            c->h->worst.share[OUTPUT] = fmax(c->h->worst.share[OUTPUT], fabs(got - want) / bound);
        return;
    }
    complain(c->h, "f(%.17g) is %.17g, should be %.17g; the bound is %g", x, got, want, bound);
}

/* Times another row: the bits of f alone, rounded once more. x: what f was taken of, f_x: what it gave. */
static void check_gate(harness *h, attn_activation f, const double *x, const array *f_x)
{
    activate_case c = { h, f, new_row(h, f_x->columns), new_plain_array(h, "other", h->real, 1, 1, f_x->columns) };
    for (int64_t i = 0; i < f_x->columns; i++) {
        attn_store_float(c.x->rows.data, h->real, i, x[i]);
        attn_store_float(c.other->rows.data, h->real, i, any_number(h));
    }
    if (!call_kernel(h, run_activation, &c))
        return;
    for (int64_t i = 0; i < f_x->columns; i++) {
        const double a = attn_load_float(f_x->rows.data, h->real, i), b = attn_load_float(c.other->rows.data, h->real, i);
        const double want = h->real == ATTN_F64 ? a * b : (double)((float)a * (float)b), got = attn_load_float(c.x->rows.data, h->real, i);
        if (memcmp(&want, &got, sizeof got) != 0 && !(isnan(want) && isnan(got)))
            complain(h, "f(%.17g) times %.17g is %.17g, should be %.17g", x[i], b, got, want);
    }
}

static void test_activation(harness *h, attn_activation f)
{
    const int64_t n = rng_int(&h->random, 0, 70);
    activate_case c = { h, f, new_row(h, n), NULL };
    double x[70];
    for (int64_t i = 0; i < n; i++) {
        attn_store_float(c.x->rows.data, h->real, i, any_number(h));
        x[i] = attn_load_float(c.x->rows.data, h->real, i);
    }
    if (!call_kernel(h, run_activation, &c))
        return;
    for (int64_t i = 0; i < n; i++)
        check_number(&c, x[i], attn_load_float(c.x->rows.data, h->real, i));
    check_gate(h, f, x, c.x);
    if (n == 0)
        return;
    const int64_t place = rng_int(&h->random, 0, n - 1), size = (int64_t)attn_dtype_size(h->real);
    activate_case alone = { h, f, new_row(h, 1), NULL };
    attn_store_float(alone.x->rows.data, h->real, 0, x[place]);
    if (call_kernel(h, run_activation, &alone) &&
        memcmp(alone.x->rows.data, (const char *)c.x->rows.data + place * size, (size_t)size) != 0 && !isnan(x[place]))
        complain(h, "f(%.17g) alone has other bits than at %lld of %lld", x[place], (long long)place, (long long)n);
}

void test_gelu(harness *h) { test_activation(h, ATTN_GELU); }
void test_gelu_tanh(harness *h) { test_activation(h, ATTN_GELU_TANH); }
void test_silu(harness *h) { test_activation(h, ATTN_SILU); }
void test_relu(harness *h) { test_activation(h, ATTN_RELU); }
