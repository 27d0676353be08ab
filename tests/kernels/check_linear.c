/* SPDX-License-Identifier: Apache-2.0 */
/* The linear layer, and the small kernels. */
#include "harness.h"

#include "../../src/kernels/convert.h"

#include <float.h>
#include <math.h>

/* 0, 1, what lies around the vector and tile sizes of every level, and primes. */
static int64_t any_size(rng *r, bool may_be_zero)
{
    static const int64_t sizes[] = { 1,  2,  3,  4,  5,  6,  7,  8,  9,  12, 13,  15,  16,  17,
                                     23, 31, 32, 33, 47, 61, 63, 64, 65, 97, 127, 128, 129, 191 };
    return may_be_zero && rng_chance(r, 0.05) ? 0 : sizes[rng_int(r, 0, (int64_t)(sizeof sizes / sizeof *sizes) - 1)];
}

typedef struct linear_case {
    harness *h;
    attn_linear_job job;
    array *a, *w, *bias, *packed, *packed_rows, *c;
} linear_case;

static void run_pack(void *user)
{
    const linear_case *x = user;
    x->h->kernels->linear_pack(x->packed->rows.data, x->w->rows.data, x->w->rows.dtype, x->w->rows.position, x->w->rows.column,
                               x->job.terms, x->job.columns);
}
static void run_rows(void *user)
{
    const linear_case *x = user;
    x->h->kernels->linear_rows(x->packed_rows->rows.data, x->a->rows.data, x->a->rows.position, x->job.rows, x->job.terms);
}
static void run_linear(void *user)
{
    const linear_case *x = user;
    x->h->kernels->linear(&x->job);
}

static void fill(harness *h, const array *a)
{
    const attn_tensor t = tensor_of_array(a);
    const double sizes[] = { 1, 1, 1, 100, 0, h->real == ATTN_F64 ? 1e-310 : 1e-41 };
    fill_normal(&t, &h->random, sizes[rng_int(&h->random, 0, 5)]);
}

static array *new_output(harness *h, const char *name, int64_t rows, int64_t columns)
{
    array *a = new_plain_array(h, name, h->real, rows, 1, columns);
    a->is_output = true;
    return a;
}

/* Rows with columns side by side and a gap after each: what linear may be given. */
static array *new_strided(harness *h, const char *name, int64_t rows, int64_t columns)
{
    array *a;
    do
        a = new_array(h, name, h->real, rows, 1, columns);
    while (columns > 1 && a->rows.column != 1);
    return a;
}

/* What weights may be in memory. */
static attn_dtype any_weights(harness *h)
{
    return rng_chance(&h->random, 0.5) ? h->real : rng_chance(&h->random, 0.5) ? ATTN_F16 : ATTN_BF16;
}

static array *new_packed(const linear_case *x, attn_dtype dtype)
{
    const int64_t size = x->h->kernels->linear_size(dtype, x->job.terms, x->job.columns), one = (int64_t)attn_dtype_size(dtype);
    if (size < x->job.terms * x->job.columns * one || size % one != 0)
        complain(x->h, "linear_size(%s, %lld, %lld) = %lld", attn_dtype_name(dtype), (long long)x->job.terms, (long long)x->job.columns,
                 (long long)size);
    array *a = new_plain_array(x->h, "packed", dtype, 1, 1, size / one);
    a->is_output = true;
    return a;
}

/* Packed weights of a random W; false if packing faults. */
static bool pack(linear_case *x, harness *h, bool may_be_zero)
{
    *x = (linear_case){ .h = h };
    x->job.terms = any_size(&h->random, may_be_zero);
    x->job.columns = any_size(&h->random, may_be_zero);
    if (rng_chance(&h->random, 0.02)) { /* many chains */
        x->job.terms = rng_int(&h->random, 300, 4100);
        x->job.columns %= 80;
    }
    x->job.dtype = any_weights(h);
    x->w = new_array(h, "w", x->job.dtype, x->job.terms, 1, x->job.columns);
    fill(h, x->w);
    x->packed = new_packed(x, x->job.dtype);
    return call_kernel(h, run_pack, x);
}

void test_linear_size(harness *h)
{
    const int64_t terms = any_size(&h->random, true), columns = any_size(&h->random, true);
    const attn_dtype dtype = any_weights(h);
    const int64_t one = (int64_t)attn_dtype_size(dtype), size = h->kernels->linear_size(dtype, terms, columns);
    if (size < terms * columns * one || size % one != 0 || size > (columns + ATTN_LINEAR_COLUMNS) * terms * one)
        complain(h, "%lld bytes for %lld terms and %lld columns of %s", (long long)size, (long long)terms, (long long)columns,
                 attn_dtype_name(dtype));
}

/* All of W is in the packed weights, the rest of them is zero. */
void test_linear_pack(harness *h)
{
    linear_case x;
    if (!pack(&x, h, true))
        return;
    const attn_tensor w = tensor_of_array(x.w), packed = tensor_of_array(x.packed);
    double sum = 0, packed_sum = 0;
    for (int64_t t = 0; t < x.job.terms; t++)
        for (int64_t c = 0; c < x.job.columns; c++)
            sum += fabs(ref_element(&w, 0, 0, t, c));
    for (int64_t i = 0; i < x.packed->columns; i++)
        packed_sum += fabs(ref_element(&packed, 0, 0, 0, i));
    if (!(fabs(sum - packed_sum) <= 1e-9 * sum))
        complain(h, "the magnitudes of %lld x %lld weights add up to %g, packed to %g", (long long)x.job.terms, (long long)x.job.columns,
                 sum, packed_sum);
}

static const char *row_of(const array *a, int64_t row)
{
    return (const char *)a->rows.data + row * a->rows.position * (int64_t)attn_dtype_size(a->rows.dtype);
}

/* The rows of x->a packed anew, for all products of them. A row alone is packed as it lies. */
static bool pack_rows(linear_case *x)
{
    x->packed_rows = new_output(x->h, "packed rows", 1, x->job.rows * x->job.terms);
    if (!call_kernel(x->h, run_rows, x))
        return false;
    if (x->job.rows == 1 && memcmp(x->packed_rows->rows.data, row_of(x->a, 0), (size_t)x->job.terms * attn_dtype_size(x->h->real)) != 0)
        complain(x->h, "a row of %lld terms alone is not packed as it lies", (long long)x->job.terms);
    x->packed_rows->is_output = false;
    x->job.a = x->packed_rows->rows.data;
    return true;
}

/* Rows to multiply, strided. */
static void take_rows(linear_case *x, int64_t rows)
{
    x->job.rows = rows;
    x->a = new_strided(x->h, "a", rows, x->job.terms);
    fill(x->h, x->a);
}

/* Each element is in the packed rows once. */
void test_linear_rows(harness *h)
{
    linear_case x = { .h = h, .job = { .terms = any_size(&h->random, true) } };
    take_rows(&x, any_size(&h->random, true));
    if (!pack_rows(&x))
        return;
    const attn_tensor a = tensor_of_array(x.a), packed = tensor_of_array(x.packed_rows);
    double sum = 0, packed_sum = 0;
    for (int64_t i = 0; i < x.packed_rows->columns; i++) {
        sum += fabs(ref_element(&a, 0, 0, i / x.job.terms, i % x.job.terms));
        packed_sum += fabs(ref_element(&packed, 0, 0, 0, i));
    }
    if (!(fabs(sum - packed_sum) <= 1e-9 * sum))
        complain(h, "the magnitudes of %lld rows of %lld terms add up to %g, packed to %g", (long long)x.job.rows, (long long)x.job.terms,
                 sum, packed_sum);
}

/* Every element within the bound of docs/numerics.md: chains of 64 multiply-adds, added to the bias. */
static void check_linear(const linear_case *x)
{
    const attn_tensor a = tensor_of_array(x->a), w = tensor_of_array(x->w), c = tensor_of_array(x->c);
    const attn_tensor bias = x->bias ? tensor_of_array(x->bias) : a;
    const bool wide = x->h->real == ATTN_F64;
    const double u = wide ? 0x1p-53 : 0x1p-24, tiny = wide ? 0x1p-1074 : 0x1p-149;
    const double roundings = (double)((x->job.terms < 64 ? x->job.terms : 64) + (x->job.terms + 63) / 64 + 2);
    for (int64_t i = 0; i < x->job.rows; i++)
        for (int64_t j = 0; j < x->job.columns; j++) {
            long double want = x->bias ? ref_element(&bias, 0, 0, 0, j) : 0, size = fabsl(want);
            for (int64_t t = 0; t < x->job.terms; t++) {
                const long double product = (long double)ref_element(&a, 0, 0, i, t) * ref_element(&w, 0, 0, t, j);
                want += product;
                size += fabsl(product);
            }
            const double bound = 1.01 * (roundings * u * (double)size + ((double)x->job.terms + 2) * tiny);
            const double got = ref_element(&c, 0, 0, i, j), error = (double)fabsl(got - want);
            x->h->worst.compared[OUTPUT]++;
            if (!(error <= bound))
                complain(x->h, "[%lld,%lld] of %lld rows, %lld terms, %lld columns is %.17g, should be %.17g; the bound is %g",
                         (long long)i, (long long)j, (long long)x->job.rows, (long long)x->job.terms, (long long)x->job.columns, got,
                         (double)want, bound);
            else if (bound > 0)
                x->h->worst.share[OUTPUT] = fmax(x->h->worst.share[OUTPUT], error / bound);
        }
}

/* The part, computed alone into a c of its own, has the bits that it has in the whole. */
static void compare_part(linear_case *part, const attn_tensor *in_whole, const char *what, int64_t first)
{
    part->job.c = part->c->rows.data;
    part->job.c_stride = part->c->rows.position;
    if (!call_kernel(part->h, run_linear, part))
        return;
    const attn_tensor c = tensor_of_array(part->c);
    if (!same_bits("linear", in_whole, &c))
        complain(part->h, "the %s from %lld on alone have other bits", what, (long long)first);
}

/* The rows [first, first + rows) alone. */
static void check_part(linear_case *x, int64_t first, int64_t rows)
{
    const attn_tensor in_whole = slice(tensor_of_array(x->c), 2, first, first + rows);
    linear_case part = *x;
    array a = *x->a;
    a.rows.data = (void *)(uintptr_t)row_of(x->a, first);
    part.a = &a;
    part.c = new_output(x->h, "c of a part", rows, x->job.columns);
    part.job.rows = rows;
    if (pack_rows(&part))
        compare_part(&part, &in_whole, "rows", first);
}

/* The columns from a multiple of ATTN_LINEAR_COLUMNS on alone. */
static void check_columns(linear_case *x, int64_t first)
{
    const int64_t size = (int64_t)attn_dtype_size(x->h->real);
    const attn_tensor in_whole = slice(tensor_of_array(x->c), 3, first, x->job.columns);
    linear_case part = *x;
    part.c = new_output(x->h, "c of some columns", x->job.rows, x->job.columns - first);
    part.job.columns -= first;
    part.job.packed = (const char *)x->job.packed + first * x->job.terms * (int64_t)attn_dtype_size(x->job.dtype);
    part.job.bias = x->job.bias ? (const char *)x->job.bias + first * size : NULL;
    compare_part(&part, &in_whole, "columns", first);
}

/* The same weights widened to reals before. */
static void check_widened(linear_case *x)
{
    const attn_tensor narrow = tensor_of_array(x->w), in_whole = tensor_of_array(x->c);
    linear_case part = *x;
    part.w = new_plain_array(x->h, "w widened", x->h->real, x->job.terms, 1, x->job.columns);
    const attn_tensor wide = tensor_of_array(part.w);
    for (int64_t t = 0; t < x->job.terms; t++)
        for (int64_t c = 0; c < x->job.columns; c++)
            set_element(&wide, 0, 0, t, c, ref_element(&narrow, 0, 0, t, c));
    part.job.dtype = x->h->real;
    part.packed = new_packed(x, x->h->real);
    if (!call_kernel(x->h, run_pack, &part))
        return;
    part.packed->is_output = false;
    part.job.packed = part.packed->rows.data;
    part.c = new_output(x->h, "c of widened weights", x->job.rows, x->job.columns);
    compare_part(&part, &in_whole, "rows of widened weights", 0);
}

void test_linear(harness *h)
{
    linear_case x;
    if (!pack(&x, h, true))
        return;
    x.packed->is_output = false;
    take_rows(&x, any_size(&h->random, true) % (x.job.terms > 1000 ? 8 : 1000));
    if (rng_chance(&h->random, 0.5)) {
        x.bias = new_plain_array(h, "bias", h->real, 1, 1, x.job.columns);
        fill(h, x.bias);
        x.job.bias = x.bias->rows.data;
    }
    x.c = new_strided(h, "c", x.job.rows, x.job.columns);
    x.c->is_output = true;
    x.job.c = x.c->rows.data;
    x.job.c_stride = x.c->rows.position;
    x.job.packed = x.packed->rows.data;
    if (!pack_rows(&x) || !call_kernel(h, run_linear, &x))
        return;
    check_linear(&x);
    check_part(&x, 0, x.job.rows);
    if (x.job.rows > 1) {
        const int64_t first = rng_int(&h->random, 0, x.job.rows - 1);
        check_part(&x, first, rng_int(&h->random, 1, x.job.rows - first));
    }
    if (x.job.columns > ATTN_LINEAR_COLUMNS)
        check_columns(&x, (x.job.columns - 1) / ATTN_LINEAR_COLUMNS * ATTN_LINEAR_COLUMNS);
    if (x.job.dtype != h->real)
        check_widened(&x);
}

/* ------------------------------------------------------------------- others ---- */

typedef struct peak_case {
    harness *h;
    int64_t rounds;
    double sink, done;
} peak_case;

static void run_peak(void *user)
{
    peak_case *x = user;
    x->done = x->h->kernels->peak(x->rounds, &x->sink);
}

void test_peak(harness *h)
{
    peak_case x = { h, 1 + h->number % 100, 0.5, 0 }, twice = { h, 2 * x.rounds, 0.5, 0 };
    if (!call_kernel(h, run_peak, &x) || !call_kernel(h, run_peak, &twice))
        return;
    if (!(x.done > 0) || twice.done != 2 * x.done || !isfinite(x.sink) || x.sink == 0.5)
        complain(h, "%lld rounds are %g operations, twice as many %g; sink %g", (long long)x.rounds, x.done, twice.done, x.sink);
}

typedef struct stream_case {
    harness *h;
    array *memory;
    double sink;
} stream_case;

static void run_stream(void *user)
{
    stream_case *x = user;
    x->h->kernels->stream(x->memory->rows.data, x->memory->columns, &x->sink);
}

/* Every real is read, and nothing beyond: the greatest lies anywhere. */
void test_stream(harness *h)
{
    stream_case x = { h, new_plain_array(h, "memory", h->real, 1, 1, rng_int(&h->random, 1, 300)), 0 };
    const int64_t place = rng_int(&h->random, 0, x.memory->columns - 1);
    for (int64_t i = 0; i < x.memory->columns; i++)
        attn_store_float(x.memory->rows.data, h->real, i, i == place ? 2 : 1);
    keep_inputs(h);
    if (call_kernel(h, run_stream, &x) && x.sink != 2)
        complain(h, "the maximum %g at %lld of %lld reals was not read", x.sink, (long long)place, (long long)x.memory->columns);
}

static void run_unit(void *user)
{
    *(int64_t *)((void **)user)[1] = ((harness *)((void **)user)[0])->kernels->sdpa_unit();
}

void test_sdpa_unit(harness *h)
{
    int64_t unit = 0;
    void *user[] = { h, &unit };
    if (call_kernel(h, run_unit, user) && (unit < 1 || unit > 1 << 20))
        complain(h, "%lld rows", (long long)unit);
}
