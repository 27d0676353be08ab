/* SPDX-License-Identifier: Apache-2.0 */
/* attn_activate, attn_glu and attn_softmax. */
#include "activation.h"

#include "../ops/overlap.h"
#include <math.h>

typedef struct activation {
    const attn_isa *isa;
    attn_activation f;
} activation;

attn_activate_kernel *attn_activation_kernel(const attn_kernels *k, attn_activation f)
{
    switch (f) {
    case ATTN_GELU: return k->gelu;
    case ATTN_GELU_TANH: return k->gelu_tanh;
    case ATTN_SILU: return k->silu;
    default: return k->relu;
    }
}

static void activate_f64(const void *how, const double *const vector[2], const double *other, double *row, int64_t n)
{
    (void)vector;
    attn_activation_kernel(((const activation *)how)->isa->f64, ((const activation *)how)->f)(row, other, n);
}

static void activate_f32(const void *how, const double *const vector[2], const float *other, float *row, int64_t n)
{
    (void)vector;
    attn_activation_kernel(((const activation *)how)->isa->f32, ((const activation *)how)->f)(row, other, n);
}

static void add_row(const void *how, const double *const vector[2], const double *other, double *row, int64_t n)
{
    (void)how;
    (void)vector;
    for (int64_t i = 0; i < n; i++)
        row[i] += other[i];
}

/* The same bits: a sum of two numbers of 24 bits that is rounded to 53 bits and then to 24 is the sum rounded once. */
static void add_row_f32(const void *how, const double *const vector[2], const float *other, float *row, int64_t n)
{
    (void)how;
    (void)vector;
    for (int64_t i = 0; i < n; i++)
        row[i] += other[i];
}

/* Not fmax: a NaN stays one. */
static double greatest(const double *x, int64_t n)
{
    double top = -INFINITY;
    for (int64_t i = 0; i < n; i++)
        top = x[i] > top || isnan(x[i]) ? x[i] : top;
    return top;
}

static void softmax_row(const void *how, const double *const vector[2], const double *other, double *row, int64_t n)
{
    const double top = greatest(row, n), shift = top == -INFINITY ? 0 : top;
    double sum = 0;
    (void)how;
    (void)vector;
    (void)other;
    for (int64_t i = 0; i < n; i++)
        sum += row[i] = exp(row[i] - shift);
    for (int64_t i = 0; i < n; i++)
        row[i] = sum == 0 ? 0 : row[i] / sum;
}

attn_status attn_activation_check(attn_ctx *ctx, attn_activation f)
{
    return (unsigned)f <= ATTN_RELU
               ? ATTN_OK
               : attn_fail(ctx, ATTN_E_ARG, "the activation is %d; it is one of ATTN_GELU (0) to ATTN_RELU (%d)", (int)f, (int)ATTN_RELU);
}

attn_status attn_activation_run(attn_ctx *ctx, const attn_tensor *out, const attn_tensor *x, const attn_tensor *up, attn_activation f)
{
    const activation how = {ctx->isa, f};
    attn_row_work w = {.out = out, .x = x, .other = up, .compute = activate_f64, .how = &how};
    if (out->dtype != ATTN_F64 && x->dtype != ATTN_F64 && (!up || up->dtype != ATTN_F64))
        w.compute_f32 = activate_f32;
    return attn_run_rows(ctx, &w);
}

attn_status attn_copy_run(attn_ctx *ctx, const attn_tensor *to, const attn_tensor *from)
{
    return attn_run_rows(ctx, &(attn_row_work){.out = to, .x = from});
}

attn_status attn_add_run(attn_ctx *ctx, const attn_tensor *out, const attn_tensor *a, const attn_tensor *b)
{
    attn_row_work w = {.out = out, .x = a, .other = b, .compute = add_row};
    if (out->dtype == ATTN_F32 && a->dtype != ATTN_F64 && b->dtype != ATTN_F64)
        w.compute_f32 = add_row_f32;
    return attn_run_rows(ctx, &w);
}

/* Shapes, dtypes and memory; up may be NULL where it is not an argument. */
static attn_status check(attn_ctx *ctx, const attn_tensor *out, const attn_tensor *x, const char *x_name, const attn_tensor *up)
{
    attn_named_list outputs = {.n = 0}, inputs = {.n = 0};
    attn_status status = attn_model_check_floats(ctx, x, x_name, 1, ATTN_MAX_DIMS, "1 to 8 axes");
    status = status ? status : attn_model_check_like(ctx, out, "out", x, x_name);
    status = status || !up ? status : attn_model_check_like(ctx, up, "up", x, x_name);
    if (status != ATTN_OK)
        return status;
    attn_list_add(&outputs, out, "out");
    attn_list_add(&inputs, x, x_name);
    attn_list_add(&inputs, up, "up");
    return attn_check_apart(ctx, &outputs, &inputs);
}

attn_status attn_activate(attn_ctx *ctx, attn_tensor *out, const attn_tensor *x, attn_activation f)
{
    if (!ctx)
        return ATTN_E_ARG;
    attn_begin(ctx);
    attn_status status = attn_activation_check(ctx, f);
    status = status ? status : check(ctx, out, x, "x", NULL);
    return status ? status : attn_activation_run(ctx, out, x, NULL, f);
}

attn_status attn_glu(attn_ctx *ctx, attn_tensor *out, const attn_tensor *gate, const attn_tensor *up, attn_activation f)
{
    if (!ctx)
        return ATTN_E_ARG;
    attn_begin(ctx);
    attn_status status = up ? attn_activation_check(ctx, f) : attn_fail(ctx, ATTN_E_ARG, "up is NULL; attn_activate takes one tensor");
    status = status ? status : check(ctx, out, gate, "gate", up);
    return status ? status : attn_activation_run(ctx, out, gate, up, f);
}

attn_status attn_softmax(attn_ctx *ctx, attn_tensor *out, const attn_tensor *x)
{
    if (!ctx)
        return ATTN_E_ARG;
    attn_begin(ctx);
    attn_status status = check(ctx, out, x, "x", NULL);
    return status ? status : attn_run_rows(ctx, &(attn_row_work){.out = out, .x = x, .compute = softmax_row});
}
