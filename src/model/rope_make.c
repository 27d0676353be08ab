/* SPDX-License-Identifier: Apache-2.0 */
/* attn_rope_create: the frequencies of every kind of scaling. */
#include "../core/tensor.h"
#include "rope.h"

#include <math.h>
#include <string.h>

#define TWO_PI 6.283185307179586
enum { MOST_DIM = 1 << 24 };

static double at_least(double x, double least) { return x > least ? x : least; }
static double at_most(double x, double most) { return x < most ? x : most; }

/* ---------------------------------------------------------------- checks ---- */

static attn_status check_dims(attn_ctx *ctx, const attn_rope_desc *d)
{
    if (d->flags & ~(uint32_t)ATTN_ROPE_INTERLEAVED)
        return attn_fail(ctx, ATTN_E_ARG, "attn_rope_desc.flags has unknown bits 0x%x", d->flags & ~(uint32_t)ATTN_ROPE_INTERLEAVED);
    if (d->head_dim < 1 || d->head_dim > MOST_DIM)
        return attn_fail(ctx, ATTN_E_ARG, "head_dim is %lld; it must be from 1 to %d", (long long)d->head_dim, MOST_DIM);
    if (d->rotary_dim < 2 || d->rotary_dim > d->head_dim || d->rotary_dim % 2)
        return attn_fail(ctx, ATTN_E_ARG, "rotary_dim is %lld; it must be even, and from 2 to the head_dim of %lld",
                         (long long)d->rotary_dim, (long long)d->head_dim);
    return ATTN_OK;
}

/* The defaults have been filled in. */
static attn_status check_scaling(attn_ctx *ctx, const attn_rope_desc *d)
{
    if (!(d->theta > 1 && d->theta < INFINITY))
        return attn_fail(ctx, ATTN_E_ARG, "theta is %g; it must be a number greater than 1", d->theta);
    if ((unsigned)d->scaling > ATTN_ROPE_YARN)
        return attn_fail(ctx, ATTN_E_ARG, "scaling is %d; it is one of ATTN_ROPE_PLAIN (0) to ATTN_ROPE_YARN (%d)", (int)d->scaling,
                         (int)ATTN_ROPE_YARN);
    if (!(d->factor >= 1 && d->factor < INFINITY))
        return attn_fail(ctx, ATTN_E_ARG, "factor is %g; it must be at least 1", d->factor);
    if (d->scaling >= ATTN_ROPE_DYNAMIC && d->original_length < 1)
        return attn_fail(ctx, ATTN_E_ARG,
                         "original_length is %lld; this scaling needs the positive number of positions that the model was trained on",
                         (long long)d->original_length);
    if (d->scaling == ATTN_ROPE_DYNAMIC && (d->rotary_dim < 4 || d->length < 0))
        return attn_fail(ctx, ATTN_E_ARG, "rotary_dim is %lld and length %lld; dynamic scaling needs at least 4 and 0",
                         (long long)d->rotary_dim, (long long)d->length);
    if (d->scaling == ATTN_ROPE_LLAMA3 && !(d->low_freq > 0 && d->low_freq < d->high_freq && d->high_freq < INFINITY))
        return attn_fail(ctx, ATTN_E_ARG, "low_freq is %g and high_freq %g; 0 < low_freq < high_freq is needed", d->low_freq, d->high_freq);
    if (d->scaling == ATTN_ROPE_YARN && !(d->beta_slow > 0 && d->beta_slow < d->beta_fast && d->beta_fast < INFINITY))
        return attn_fail(ctx, ATTN_E_ARG, "beta_fast is %g and beta_slow %g; 0 < beta_slow < beta_fast is needed", d->beta_fast,
                         d->beta_slow);
    if (d->scaling == ATTN_ROPE_YARN && !(d->attention_factor > 0 && d->attention_factor < INFINITY))
        return attn_fail(ctx, ATTN_E_ARG, "attention_factor is %g; it must be positive", d->attention_factor);
    return ATTN_OK;
}

static attn_status check_tables(attn_ctx *ctx, const attn_rope_desc *d)
{
    char cos_shape[ATTN_SHAPE_TEXT], sin_shape[ATTN_SHAPE_TEXT];
    if (!d->cos || !d->sin)
        return attn_fail(ctx, ATTN_E_ARG, "%s is given without %s; a rope is made of both tables or of theta", d->cos ? "cos" : "sin",
                         d->cos ? "sin" : "cos");
    if (d->theta != 0 || d->scaling != ATTN_ROPE_PLAIN || d->factor != 0 || d->divisors)
        return attn_fail(ctx, ATTN_E_ARG, "cos and sin are given together with theta, a scaling or divisors; the tables say it all");
    attn_status status = attn_model_check_floats(ctx, d->cos, "cos", 2, 2, "[positions, rotary_dim/2]");
    status = status ? status : attn_model_check_like(ctx, d->sin, "sin", d->cos, "cos");
    if (status != ATTN_OK)
        return status;
    if (d->cos->shape[0] < 1 || (d->rotary_dim != 0 && d->cos->shape[1] != d->rotary_dim / 2))
        return attn_fail(ctx, ATTN_E_SHAPE, "cos has shape %s and sin %s; [positions, %lld] with a position at least is needed",
                         attn_shape_text(cos_shape, d->cos), attn_shape_text(sin_shape, d->sin), (long long)d->rotary_dim / 2);
    return ATTN_OK;
}

static double divisor_of(const attn_rope_desc *d, int64_t p)
{
    double divisor = 1;
    if (d->divisors)
        attn_load_row(&divisor, d->divisors, p * attn_row_stride(d->divisors), 1, 1);
    return divisor;
}

static attn_status check_divisors(attn_ctx *ctx, const attn_rope_desc *d)
{
    if (!d->divisors)
        return ATTN_OK;
    const attn_status status = attn_model_check_vector(ctx, d->divisors, "divisors", d->rotary_dim / 2, "half the rotary_dim is");
    for (int64_t p = 0; status == ATTN_OK && p < d->rotary_dim / 2; p++) {
        const double divisor = divisor_of(d, p);
        if (!(divisor > 0 && divisor < INFINITY))
            return attn_fail(ctx, ATTN_E_ARG, "divisors[%lld] is %g; a positive number is needed", (long long)p, divisor);
    }
    return status;
}

/* Every field that was left 0, but those whose default is 0. */
static void fill_defaults(attn_rope_desc *d)
{
    d->theta = d->theta != 0 ? d->theta : 10000;
    d->factor = d->factor != 0 ? d->factor : 1;
    d->low_freq = d->low_freq != 0 ? d->low_freq : 1;
    d->high_freq = d->high_freq != 0 ? d->high_freq : 4;
    d->beta_fast = d->beta_fast != 0 ? d->beta_fast : 32;
    d->beta_slow = d->beta_slow != 0 ? d->beta_slow : 1;
    d->attention_factor = d->attention_factor != 0 ? d->attention_factor : d->factor > 1 ? 0.1 * log(d->factor) + 1 : 1;
}

/* ----------------------------------------------------------- frequencies ---- */

static double llama3(const attn_rope_desc *d, double f)
{
    const double turns = (double)d->original_length * f / TWO_PI; /* N / w */
    if (turns < d->low_freq)
        return f / d->factor;
    if (turns > d->high_freq)
        return f;
    const double m = (turns - d->low_freq) / (d->high_freq - d->low_freq);
    return (1 - m) * f / d->factor + m * f;
}

/* The pair, as a real number, that makes t turns over the original length. */
static double pair_of_turns(const attn_rope_desc *d, double t)
{
    return (double)d->rotary_dim * log((double)d->original_length / (t * TWO_PI)) / (2 * log(d->theta));
}

static double yarn(const attn_rope_desc *d, double f, int64_t p)
{
    const double low = at_least(floor(pair_of_turns(d, d->beta_fast)), 0);
    const double high = at_most(ceil(pair_of_turns(d, d->beta_slow)), (double)(d->rotary_dim - 1));
    const double width = high == low ? 0.001 : high - low; /* as the reference code avoids a division by 0 */
    const double m = 1 - at_least(at_most(((double)p - low) / width, 1), 0);
    return (1 - m) * f / d->factor + m * f;
}

static double theta_of(const attn_rope_desc *d)
{
    const double r = (double)d->rotary_dim, n = (double)d->original_length;
    if (d->scaling != ATTN_ROPE_DYNAMIC || d->length <= d->original_length)
        return d->theta;
    return d->theta * pow(d->factor * (double)d->length / n - (d->factor - 1), r / (r - 2));
}

static double frequency_of(const attn_rope_desc *d, int64_t p)
{
    const double f = pow(theta_of(d), -(double)(2 * p) / (double)d->rotary_dim);
    switch (d->scaling) {
    case ATTN_ROPE_LINEAR: return f / d->factor;
    case ATTN_ROPE_LLAMA3: return llama3(d, f);
    case ATTN_ROPE_YARN: return yarn(d, f, p);
    default: return f;
    }
}

/* ------------------------------------------------------------------ make ---- */

static void load_table(double *to, const attn_tensor *t)
{
    for (int64_t i = 0; i < t->shape[0]; i++)
        attn_load_row(to + i * t->shape[1], t, attn_row_at(t, i), attn_row_stride(t), t->shape[1]);
}

static attn_status make(attn_ctx *ctx, attn_rope **out, const attn_rope_desc *d)
{
    const int64_t pairs = d->rotary_dim / 2, rows = d->cos ? d->cos->shape[0] : 0;
    int64_t numbers = 0, bytes = -1;
    if (__builtin_mul_overflow(2 * pairs, rows, &numbers) || __builtin_add_overflow(numbers, pairs, &numbers) ||
        __builtin_mul_overflow(numbers, (int64_t)sizeof(double), &bytes))
        return attn_fail(ctx, ATTN_E_SHAPE, "tables of %lld positions exceed 63 bits of bytes", (long long)rows);
    attn_rope *rope = attn_alloc(ctx, sizeof *rope);
    double *memory = rope ? attn_alloc(ctx, bytes) : NULL;
    if (!memory) {
        attn_free(ctx, rope);
        return attn_fail(ctx, ATTN_E_NOMEM, "out of memory: a rope of %lld bytes was refused", (long long)bytes);
    }
    *rope = (attn_rope){.dim = d->head_dim,
                        .pairs = pairs,
                        .interleaved = (d->flags & ATTN_ROPE_INTERLEAVED) != 0,
                        .factor = d->scaling == ATTN_ROPE_YARN ? d->attention_factor : 1,
                        .table_rows = rows,
                        .frequency = memory,
                        .cos = memory + pairs,
                        .sin = memory + pairs + pairs * rows,
                        .free = ctx->free,
                        .user = ctx->user};
    for (int64_t p = 0; p < pairs; p++)
        rope->frequency[p] = rows ? (double)NAN : frequency_of(d, p) / divisor_of(d, p);
    if (rows) {
        load_table(rope->cos, d->cos);
        load_table(rope->sin, d->sin);
    }
    *out = rope;
    return ATTN_OK;
}

attn_status attn_rope_create(attn_ctx *ctx, attn_rope **out, const attn_rope_desc *desc)
{
    attn_rope_desc d;
    if (!ctx)
        return ATTN_E_ARG;
    attn_begin(ctx);
    if (!out || !desc)
        return attn_fail(ctx, ATTN_E_ARG, "%s is NULL", out ? "desc" : "out");
    *out = NULL;
    attn_status status = attn_copy_struct(ctx, &d, sizeof d, desc, "attn_rope_desc");
    const int has_tables = d.cos || d.sin;
    if (status == ATTN_OK && has_tables)
        status = check_tables(ctx, &d);
    if (status != ATTN_OK)
        return status;
    d.rotary_dim = d.rotary_dim ? d.rotary_dim : has_tables ? 2 * d.cos->shape[1] : d.head_dim;
    fill_defaults(&d);
    status = check_dims(ctx, &d);
    status = status || has_tables ? status : check_scaling(ctx, &d);
    status = status ? status : check_divisors(ctx, &d);
    return status ? status : make(ctx, out, &d);
}

void attn_rope_destroy(attn_rope *rope)
{
    if (!rope)
        return;
    rope->free(rope->user, rope->frequency);
    rope->free(rope->user, rope);
}

double attn_rope_frequency(const attn_rope *rope, int64_t p) { return p < 0 || p >= rope->pairs ? (double)NAN : rope->frequency[p]; }
