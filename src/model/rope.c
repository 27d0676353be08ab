/* SPDX-License-Identifier: Apache-2.0 */
/* attn_rope_apply: angles of each position once, in f64, for all heads. */
#include "rope.h"

#include "../core/tensor.h"
#include "../core/threads.h"
#include "../kernels/convert.h"
#include "../ops/overlap.h"
#include <math.h>

#define FAR (INT64_C(1) << 53) /* positions that a double holds */
enum { SMALL_WORK = 1 << 15 }; /* elements below which a call stays on one thread */

static int64_t position_of(attn_rope_places at, int64_t item, int64_t row)
{
    const attn_tensor *t = at.positions;
    if (!t)
        return at.offset + row;
    const int last = t->ndim - 1;
    const int64_t items_apart = last && t->shape[0] > 1 ? t->stride[0] : 0;
    return attn_load_int(t->data, t->dtype, item * items_apart + (t->shape[last] > 1 ? row * t->stride[last] : 0));
}

attn_status attn_rope_check(attn_ctx *ctx, const attn_rope *rope, attn_rope_places at, int64_t items, int64_t rows)
{
    char shape[ATTN_SHAPE_TEXT];
    const attn_tensor *t = at.positions;
    attn_status status = t ? attn_model_check_ints(ctx, t, "positions") : ATTN_OK;
    if (status != ATTN_OK)
        return status;
    if (t && at.offset)
        return attn_fail(ctx, ATTN_E_ARG, "offset is %lld and positions are given too; give either", (long long)at.offset);
    if (t && !(t->ndim == 1 && t->shape[0] == rows) &&
        !(t->ndim == 2 && (t->shape[0] == items || t->shape[0] == 1) && t->shape[1] == rows))
        return attn_fail(ctx, ATTN_E_SHAPE, "positions have shape %s; [%lld], or one for each item [%lld,%lld], is needed",
                         attn_shape_text(shape, t), (long long)rows, (long long)items, (long long)rows);
    const int64_t least = rope->table_rows ? 0 : -FAR, most = rope->table_rows ? rope->table_rows - 1 : FAR;
    if (!t && rows > 0 && (at.offset < least || at.offset > most || rows - 1 > most - at.offset))
        return attn_fail(ctx, ATTN_E_ARG, "rows stand at the positions from %lld on, %lld of them; they must be from %lld to %lld",
                         (long long)at.offset, (long long)rows, (long long)least, (long long)most);
    for (int64_t b = 0; t && b < (t->ndim == 2 ? t->shape[0] : 1); b++)
        for (int64_t i = 0; i < rows; i++) {
            const int64_t position = position_of(at, b, i);
            if (position < least || position > most)
                return attn_fail(ctx, ATTN_E_ARG, "the position of row %lld of item %lld is %lld; it must be from %lld to %lld",
                                 (long long)i, (long long)b, (long long)position, (long long)least, (long long)most);
        }
    return ATTN_OK;
}

/* ------------------------------------------------------------------ work ---- */

typedef struct rope_run {
    const attn_rope *rope;
    const attn_tensor *out, *x;
    attn_rope_places at;
    int64_t heads, rows;
    double *scratch; /* of every thread: cos, sin [pairs], row [dim] */
} rope_run;

static void angles(const attn_rope *rope, int64_t position, double *cosine, double *sine)
{
    for (int64_t p = 0; p < rope->pairs; p++) {
        const double angle = (double)position * (rope->table_rows ? 0 : rope->frequency[p]);
        cosine[p] = rope->table_rows ? rope->cos[position * rope->pairs + p] : rope->factor * cos(angle);
        sine[p] = rope->table_rows ? rope->sin[position * rope->pairs + p] : rope->factor * sin(angle);
    }
}

/* row [d] */
static void turn(const attn_rope *rope, const double *cosine, const double *sine, double *row)
{
    const int64_t step = rope->interleaved ? 2 : 1, apart = rope->interleaved ? 1 : rope->pairs;
    for (int64_t p = 0; p < rope->pairs; p++) {
        double *a = row + p * step, *b = a + apart;
        const double x = *a, y = *b;
        *a = x * cosine[p] - y * sine[p];
        *b = y * cosine[p] + x * sine[p];
    }
}

/* Element 0 of row i of a head of an item. */
static int64_t head_at(const attn_tensor *t, int64_t item, int64_t head, int64_t i)
{
    const int r = t->ndim - 2;
    return (r > 1 ? item * t->stride[0] : 0) + (r > 0 ? head * t->stride[r - 1] : 0) + i * t->stride[r];
}

static void turn_position(void *user, int64_t n, int thread)
{
    const rope_run *r = user;
    const int64_t item = n / r->rows, i = n % r->rows, dim = r->rope->dim;
    double *cosine = r->scratch + thread * (2 * r->rope->pairs + dim), *sine = cosine + r->rope->pairs, *row = sine + r->rope->pairs;
    angles(r->rope, position_of(r->at, item, i), cosine, sine);
    for (int64_t h = 0; h < r->heads; h++) {
        attn_load_row(row, r->x, head_at(r->x, item, h, i), attn_row_stride(r->x), dim);
        turn(r->rope, cosine, sine, row);
        attn_store_row(r->out, head_at(r->out, item, h, i), attn_row_stride(r->out), dim, row);
    }
}

attn_status attn_rope_run(attn_ctx *ctx, const attn_tensor *out, const attn_tensor *x, const attn_rope *rope, attn_rope_places at)
{
    const int r = x->ndim - 2;
    rope_run run = {.rope = rope, .out = out, .x = x, .at = at, .heads = r > 0 ? x->shape[r - 1] : 1, .rows = x->shape[r]};
    const int64_t count = attn_tensor_count(x), threads = count < SMALL_WORK ? 1 : ctx->threads;
    if (count == 0)
        return ATTN_OK;
    attn_status status = attn_reserve(ctx, &ctx->scratch, threads * (2 * rope->pairs + rope->dim) * (int64_t)sizeof(double));
    run.scratch = ctx->scratch.data;
    return status ? status : attn_parallel(ctx, (int)threads, (r > 1 ? x->shape[0] : 1) * run.rows, turn_position, &run);
}

attn_status attn_rope_apply(attn_ctx *ctx, attn_tensor *out, const attn_tensor *x, const attn_rope *rope, const attn_rope_opts *opts)
{
    char shape[ATTN_SHAPE_TEXT];
    attn_rope_opts o;
    attn_named_list outputs = {.n = 0}, inputs = {.n = 0};
    if (!ctx)
        return ATTN_E_ARG;
    attn_begin(ctx);
    if (!rope)
        return attn_fail(ctx, ATTN_E_ARG, "rope is NULL");
    attn_status status = attn_copy_struct(ctx, &o, sizeof o, opts, "attn_rope_opts");
    if (status == ATTN_OK && o.flags)
        status = attn_fail(ctx, ATTN_E_ARG, "attn_rope_opts.flags is 0x%x; it must be 0", o.flags);
    status = status ? status : attn_model_check_floats(ctx, x, "x", 2, 4, "[B,H,L,d], [H,L,d] or [L,d]");
    status = status ? status : attn_model_check_like(ctx, out, "out", x, "x");
    if (status != ATTN_OK)
        return status;
    if (x->shape[x->ndim - 1] != rope->dim)
        return attn_fail(ctx, ATTN_E_SHAPE, "x %s has head_dim %lld but the rope was made for %lld", attn_shape_text(shape, x),
                         (long long)x->shape[x->ndim - 1], (long long)rope->dim);
    const attn_rope_places at = {o.offset, o.positions};
    status = attn_rope_check(ctx, rope, at, x->ndim == 4 ? x->shape[0] : 1, x->shape[x->ndim - 2]);
    if (status != ATTN_OK)
        return status;
    attn_list_add(&outputs, out, "out");
    attn_list_add(&inputs, x, "x");
    attn_list_add(&inputs, o.positions, "positions");
    status = attn_check_apart(ctx, &outputs, &inputs);
    return status ? status : attn_rope_run(ctx, out, x, rope, at);
}
