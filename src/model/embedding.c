/* SPDX-License-Identifier: Apache-2.0 */
/* attn_embed: rows of tables, added. */
#include <attn/attn_model.h>

#include "../core/tensor.h"
#include "../core/threads.h"
#include "../kernels/convert.h"
#include "../ops/overlap.h"
#include "rows.h"
#include <math.h>

enum { TOKEN, POSITION, TYPE, TABLES, SMALL_WORK = 1 << 16 };

/* One table and the row of it that each place takes. */
typedef struct embed_source {
    const attn_tensor *table, *ids; /* table NULL: absent. ids NULL: row offset + i * step */
    const char *name, *ids_name;
    int64_t offset, step;
} embed_source;

typedef struct embed_call {
    attn_ctx *ctx;
    embed_source from[TABLES];
    double scale;
    int64_t items, rows, n;
    const attn_tensor *out;
    double *scratch; /* of every thread: two rows */
} embed_call;

static int64_t id_of(const embed_source *s, int64_t item, int64_t i)
{
    const attn_tensor *t = s->ids;
    if (!t)
        return s->offset + i * s->step;
    const int last = t->ndim - 1;
    return attn_load_int(t->data, t->dtype,
                         (last && t->shape[0] > 1 ? item * t->stride[0] : 0) + (t->shape[last] > 1 ? i * t->stride[last] : 0));
}

/* ---------------------------------------------------------------- checks ---- */

static attn_status check_ids(const embed_call *c, const embed_source *s)
{
    char shape[ATTN_SHAPE_TEXT];
    const attn_tensor *t = s->ids;
    if (!t)
        return ATTN_OK;
    attn_status status = attn_model_check_ints(c->ctx, t, s->ids_name);
    if (status != ATTN_OK)
        return status;
    if ((t->ndim == 1 && t->shape[0] == c->rows) || (t->ndim == 2 && t->shape[0] == c->items && t->shape[1] == c->rows))
        return ATTN_OK;
    return attn_fail(c->ctx, ATTN_E_SHAPE, "%s has shape %s; [%lld], or the shape of ids, is needed", s->ids_name,
                     attn_shape_text(shape, t), (long long)c->rows);
}

static attn_status check_range(const embed_call *c, const embed_source *s)
{
    const int64_t most = s->table->shape[0];
    if (!s->ids && c->rows > 0 && (s->offset >= most || (c->rows - 1) * s->step > most - 1 - s->offset))
        return attn_fail(c->ctx, ATTN_E_ARG, "%lld rows from row %lld on are needed of %s, which has %lld",
                         (long long)((c->rows - 1) * s->step + 1), (long long)s->offset, s->name, (long long)most);
    for (int64_t b = 0; s->ids && b < c->items; b++)
        for (int64_t i = 0; i < c->rows; i++) {
            const int64_t id = id_of(s, b, i);
            if (id < 0 || id >= most)
                return attn_fail(c->ctx, ATTN_E_ARG, "%s has %lld at place %lld of item %lld; %s has the rows 0 to %lld", s->ids_name,
                                 (long long)id, (long long)i, (long long)b, s->name, (long long)most - 1);
        }
    return ATTN_OK;
}

static attn_status check_source(embed_call *c, const embed_source *s)
{
    char shape[ATTN_SHAPE_TEXT];
    if (!s->table)
        return s->ids ? attn_fail(c->ctx, ATTN_E_ARG, "%s are given without the table %s", s->ids_name, s->name) : ATTN_OK;
    attn_status status = attn_model_check_floats(c->ctx, s->table, s->name, 2, 2, "[rows,n]");
    if (status != ATTN_OK)
        return status;
    if (s->table->shape[1] != c->n)
        return attn_fail(c->ctx, ATTN_E_SHAPE, "%s %s has %lld columns but token has %lld", s->name, attn_shape_text(shape, s->table),
                         (long long)s->table->shape[1], (long long)c->n);
    status = check_ids(c, s);
    return status ? status : check_range(c, s);
}

static attn_status check_out(const embed_call *c, const attn_tensor *ids)
{
    attn_tensor needed = *ids;
    attn_named_list outputs = {.n = 0}, inputs = {.n = 0};
    needed.ndim = ids->ndim + 1;
    needed.shape[ids->ndim] = c->n;
    attn_status status = attn_model_check_like(c->ctx, c->out, "out", &needed, "the rows of ids");
    if (status != ATTN_OK)
        return status;
    attn_list_add(&outputs, c->out, "out");
    for (int s = 0; s < TABLES; s++) {
        attn_list_add(&inputs, c->from[s].table, c->from[s].name);
        attn_list_add(&inputs, c->from[s].ids, c->from[s].ids_name);
    }
    return attn_check_apart(c->ctx, &outputs, &inputs);
}

static attn_status check_options(attn_ctx *ctx, const attn_embed_opts *o)
{
    if (o->flags & ~(uint32_t)ATTN_EMBED_SCALE)
        return attn_fail(ctx, ATTN_E_ARG, "attn_embed_opts.flags has unknown bits 0x%x", o->flags & ~(uint32_t)ATTN_EMBED_SCALE);
    if (o->flags & ATTN_EMBED_SCALE ? !isfinite(o->scale) : o->scale != 0)
        return attn_fail(ctx, ATTN_E_ARG, "scale is %g; it must be finite, and ATTN_EMBED_SCALE says that it is given", o->scale);
    if (o->offset < 0 || (o->offset && (o->position_ids || !o->position)))
        return attn_fail(ctx, ATTN_E_ARG, "offset is %lld; it must not be negative, and needs the table position without position_ids",
                         (long long)o->offset);
    return ATTN_OK;
}

/* ------------------------------------------------------------------ work ---- */

static void embed_place(void *user, int64_t place, int thread)
{
    const embed_call *c = user;
    double *row = c->scratch + thread * 2 * c->n, *term = row + c->n;
    for (int s = 0; s < TABLES; s++) {
        const attn_tensor *t = c->from[s].table;
        if (!t)
            continue;
        double *to = s == TOKEN ? row : term;
        attn_load_row(to, t, attn_row_at(t, id_of(&c->from[s], place / c->rows, place % c->rows)), attn_row_stride(t), c->n);
        for (int64_t i = 0; i < c->n; i++)
            row[i] = s == TOKEN ? row[i] * c->scale : row[i] + term[i];
    }
    attn_store_row(c->out, attn_row_at(c->out, place), attn_row_stride(c->out), c->n, row);
}

static attn_status run(embed_call *c)
{
    const int64_t count = attn_tensor_count(c->out), threads = count < SMALL_WORK ? 1 : c->ctx->threads;
    int64_t bytes;
    if (count == 0)
        return ATTN_OK;
    if (__builtin_mul_overflow(c->n, 2 * threads * (int64_t)sizeof(double), &bytes))
        return attn_fail(c->ctx, ATTN_E_SHAPE, "a row of %lld numbers is too big", (long long)c->n);
    attn_status status = attn_reserve(c->ctx, &c->ctx->scratch, bytes);
    c->scratch = c->ctx->scratch.data;
    return status ? status : attn_parallel(c->ctx, (int)threads, count / c->n, embed_place, c);
}

attn_status attn_embed(attn_ctx *ctx, attn_tensor *out, const attn_tensor *ids, const attn_embed_opts *opts)
{
    char shape[ATTN_SHAPE_TEXT];
    attn_embed_opts o;
    if (!ctx)
        return ATTN_E_ARG;
    attn_begin(ctx);
    if (!ids || !opts)
        return attn_fail(ctx, ATTN_E_ARG, "%s is NULL", ids ? "opts" : "ids");
    attn_status status = attn_copy_struct(ctx, &o, sizeof o, opts, "attn_embed_opts");
    status = status ? status : check_options(ctx, &o);
    status = status ? status : attn_model_check_ints(ctx, ids, "ids");
    if (status == ATTN_OK && ids->ndim != 1 && ids->ndim != 2)
        status = attn_fail(ctx, ATTN_E_SHAPE, "ids has shape %s; [L] or [B,L] is needed", attn_shape_text(shape, ids));
    status = status ? status : attn_model_check_floats(ctx, o.token, "token", 2, 2, "[rows,n]");
    if (status != ATTN_OK)
        return status;
    embed_call c = {.ctx = ctx,
                    .from = {{o.token, ids, "token", "ids", 0, 0},
                             {o.position, o.position_ids, "position", "position_ids", o.offset, 1},
                             {o.type, o.type_ids, "type", "type_ids", 0, 0}},
                    .scale = o.flags & ATTN_EMBED_SCALE ? o.scale : 1,
                    .items = ids->ndim == 2 ? ids->shape[0] : 1,
                    .rows = ids->shape[ids->ndim - 1],
                    .n = o.token->shape[1],
                    .out = out};
    for (int s = 0; status == ATTN_OK && s < TABLES; s++)
        status = check_source(&c, &c.from[s]);
    status = status ? status : check_out(&c, ids);
    return status ? status : run(&c);
}
