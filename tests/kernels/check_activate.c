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
    array *x;
} activate_case;

static void run_activation(void *user)
{
    const activate_case *c = user;
    const attn_kernels *k = c->h->kernels;
    (c->f == ATTN_GELU ? k->gelu : c->f == ATTN_SILU ? k->silu : k->gelu_tanh)(c->x->rows.data, c->x->columns);
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
    return f == ATTN_GELU ? 2 * x * x + 22 : f == ATTN_SILU ? 2 * fabs(x) + 7 : 9 * t + 7;
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

static void test_activation(harness *h, attn_activation f)
{
    const int64_t n = rng_int(&h->random, 0, 70);
    activate_case c = { h, f, new_row(h, n) };
    double x[70];
    for (int64_t i = 0; i < n; i++) {
        attn_store_float(c.x->rows.data, h->real, i, any_number(h));
        x[i] = attn_load_float(c.x->rows.data, h->real, i);
    }
    if (!call_kernel(h, run_activation, &c))
        return;
    for (int64_t i = 0; i < n; i++)
        check_number(&c, x[i], attn_load_float(c.x->rows.data, h->real, i));
    if (n == 0)
        return;
    const int64_t place = rng_int(&h->random, 0, n - 1), size = (int64_t)attn_dtype_size(h->real);
    activate_case alone = { h, f, new_row(h, 1) };
    attn_store_float(alone.x->rows.data, h->real, 0, x[place]);
    if (call_kernel(h, run_activation, &alone) &&
        memcmp(alone.x->rows.data, (const char *)c.x->rows.data + place * size, (size_t)size) != 0 && !isnan(x[place]))
        complain(h, "f(%.17g) alone has other bits than at %lld of %lld", x[place], (long long)place, (long long)n);
}

void test_gelu(harness *h) { test_activation(h, ATTN_GELU); }
void test_gelu_tanh(harness *h) { test_activation(h, ATTN_GELU_TANH); }
void test_silu(harness *h) { test_activation(h, ATTN_SILU); }
