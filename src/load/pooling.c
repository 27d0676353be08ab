/* SPDX-License-Identifier: Apache-2.0 */
/* attn_pretrained_embed: the rows of each sequence pooled to one, then the declared modules. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../core/ctx.h"
#include "../core/tensor.h"
#include "../core/threads.h"
#include "../ops/sdpa_plan.h"
#include "run_encoder.h"

const char *attn_pooling_name(attn_pooling p)
{
    static const char *const names[] = {"declared", "cls", "mean", "max", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"};
    return (unsigned)p < sizeof names / sizeof *names ? names[p] : "?";
}

const char *attn_pretrained_prompt_name(const attn_pretrained *model, size_t i)
{
    return model && i < model->vectors.prompts ? model->vectors.prompt[i].name : NULL;
}

const char *attn_pretrained_prompt(const attn_pretrained *model, const char *name)
{
    if (!model || !name)
        return model ? model->vectors.default_prompt : NULL;
    for (size_t i = 0; i < model->vectors.prompts; i++)
        if (!strcmp(model->vectors.prompt[i].name, name))
            return model->vectors.prompt[i].text;
    return NULL;
}

/* ---- what is to be done ---- */

enum { KNOWN_FLAGS = ATTN_VECTOR_NORMALIZE | ATTN_VECTOR_RAW };

struct embed {
    struct encode run;
    attn_vector_opts opts;
    attn_pooling mode[POOL_MODES];
    int modes, modules;
    int64_t columns; /* of the result */
    int64_t wide;    /* of the widest vector between the pooling and the result */
    char *now, *next; /* [B, wide] */
};

/* The modes and the columns. ATTN_E_SHAPE: a Dense takes another width. */
static attn_status plan(struct embed *e, const attn_pretrained *model)
{
    const struct vectors *v = &model->vectors;
    const int is_declared = e->opts.pooling == ATTN_POOL_DECLARED;
    e->modes = is_declared ? v->modes : 1;
    e->modules = e->opts.flags & ATTN_VECTOR_RAW ? 0 : v->modules;
    memcpy(e->mode, is_declared ? v->mode : &e->opts.pooling, (size_t)e->modes * sizeof *e->mode);
    e->columns = e->wide = e->modes * model->info.width;
    for (int i = 0; i < e->modules; i++) {
        if (v->module[i].dense && v->module[i].in != e->columns)
            return ATTN_E_SHAPE;
        e->columns = v->module[i].dense ? v->module[i].out : e->columns;
        e->wide = e->columns > e->wide ? e->columns : e->wide;
    }
    return ATTN_OK;
}

static int opts_are_known(const attn_vector_opts *o)
{
    return !(o->flags & ~(uint32_t)KNOWN_FLAGS) && (unsigned)o->pooling <= ATTN_POOL_LAST && o->skip >= 0;
}

int64_t attn_pretrained_columns(const attn_pretrained *model, const attn_vector_opts *opts)
{
    struct embed e = {.modes = 0};
    const size_t size = !opts ? 0 : opts->struct_size && opts->struct_size < sizeof e.opts ? opts->struct_size : sizeof e.opts;
    if (!model || model->info.kind != ATTN_MODEL_ENCODER)
        return 0;
    if (opts)
        memcpy(&e.opts, opts, size);
    return opts_are_known(&e.opts) && plan(&e, model) == ATTN_OK ? e.columns : 0;
}

/* ---- pooling ---- */

static double row_weight(attn_pooling mode, int64_t i) { return mode == ATTN_POOL_WEIGHTED_MEAN ? (double)(i + 1) : 1; }

/* What the sum of the rows first .. count-1 is divided by. */
static double divisor(attn_pooling mode, int64_t first, int64_t count)
{
    const double n = (double)(count - first);
    if (mode == ATTN_POOL_WEIGHTED_MEAN)
        return ((double)first + 1 + (double)count) * n / 2;
    return mode == ATTN_POOL_MEAN_SQRT_LEN ? sqrt(n) : n;
}

/* sum (or, column by column, the largest) of the rows first .. count-1 of one sequence. A NaN stays one. */
#define POOL_ROWS(NAME, REAL)                                                                                                             \
    static void NAME(double *restrict sum, const REAL *row, int64_t n, int64_t first, int64_t count, attn_pooling mode)                   \
    {                                                                                                                                     \
        for (int64_t i = first; i < count; i++) {                                                                                         \
            const REAL *restrict x = row + i * n;                                                                                         \
            const double weight = row_weight(mode, i);                                                                                    \
            for (int64_t j = 0; j < n; j++)                                                                                               \
                sum[j] = mode != ATTN_POOL_MAX ? sum[j] + weight * (double)x[j] : x[j] > sum[j] || isnan(x[j]) ? (double)x[j] : sum[j];   \
        }                                                                                                                                 \
    }
POOL_ROWS(pool_f32, float)
POOL_ROWS(pool_f64, double)

static void store(const struct embed *e, char *to, const double *from, int64_t n)
{
    for (int64_t j = 0; j < n; j++)
        if (e->run.real == ATTN_F64)
            ((double *)(void *)to)[j] = from[j];
        else
            ((float *)(void *)to)[j] = (float)from[j];
}

/* One mode of sequence b into n places at `to`; sum is room for n. */
static void pool_mode(const struct embed *e, int64_t b, attn_pooling mode, char *to, double *sum)
{
    const struct encode *r = &e->run;
    const int64_t n = r->model->info.width, count = r->starts[b + 1] - r->starts[b];
    const int64_t skip = e->opts.skip < count ? e->opts.skip : count;
    const int64_t first = mode == ATTN_POOL_LAST && skip < count ? count - 1 : skip;
    const int64_t last = mode == ATTN_POOL_CLS && skip < count ? skip + 1 : count;
    const char *rows = r->hidden + (size_t)r->starts[b] * r->row_size;
    if (first == last)
        return; /* zeros */
    for (int64_t j = 0; j < n; j++)
        sum[j] = mode == ATTN_POOL_MAX ? -INFINITY : 0;
    if (r->real == ATTN_F64)
        pool_f64(sum, (const double *)(const void *)rows, n, first, last, mode);
    else
        pool_f32(sum, (const float *)(const void *)rows, n, first, last, mode);
    const int is_sum = mode == ATTN_POOL_MEAN || mode == ATTN_POOL_MEAN_SQRT_LEN || mode == ATTN_POOL_WEIGHTED_MEAN;
    const double by = is_sum ? divisor(mode, first, last) : 1;
    for (int64_t j = 0; j < n; j++)
        sum[j] /= by;
    store(e, to, sum, n);
}

static size_t vector_size(const struct embed *e, int64_t columns) { return (size_t)columns * attn_dtype_size(e->run.real); }

static void pool_item(void *user, int64_t b, int thread)
{
    const struct embed *e = user;
    const int64_t n = e->run.model->info.width;
    (void)thread;
    for (int i = 0; i < e->modes; i++)
        pool_mode(e, b, e->mode[i], e->now + vector_size(e, b * e->modes * n + i * n), (double *)(void *)e->next + b * n);
}

/* ---- modules ---- */

static attn_tensor vectors_at(const struct embed *e, char *at, int64_t columns)
{
    return attn_tensor_of(at, e->run.real, 2, (const int64_t[]){e->run.s.items, columns});
}

static double at(const struct embed *e, int64_t i)
{
    return e->run.real == ATTN_F64 ? ((const double *)(const void *)e->now)[i] : ((const float *)(const void *)e->now)[i];
}

/* Each vector of `columns` to length 1. */
static void normalize(struct embed *e, int64_t columns)
{
    for (int64_t b = 0; b < e->run.s.items; b++) {
        double squares = 0;
        for (int64_t j = 0; j < columns; j++)
            squares += at(e, b * columns + j) * at(e, b * columns + j);
        const double length = sqrt(squares) > 1e-12 || isnan(squares) ? sqrt(squares) : 1e-12;
        for (int64_t j = b * columns; j < (b + 1) * columns; j++)
            store(e, e->now + vector_size(e, j), (const double[]){at(e, j) / length}, 1);
    }
}

static attn_status activate(struct embed *e, const struct module *m)
{
    static const attn_activation kernels[] = {[DENSE_RELU] = ATTN_RELU, [DENSE_GELU] = ATTN_GELU, [DENSE_SILU] = ATTN_SILU};
    const attn_tensor x = vectors_at(e, e->now, m->out);
    attn_tensor y = vectors_at(e, e->next, m->out);
    if (m->activation >= DENSE_RELU) {
        const attn_status status = attn_activate(e->run.ctx, &y, &x, kernels[m->activation]);
        char *swap = e->now;
        e->now = e->next;
        e->next = swap;
        return status;
    }
    for (int64_t i = 0; m->activation != DENSE_IDENTITY && i < e->run.s.items * m->out; i++) {
        const double v = at(e, i);
        store(e, e->now + vector_size(e, i), (const double[]){m->activation == DENSE_TANH ? tanh(v) : 1 / (1 + exp(-v))}, 1);
    }
    return ATTN_OK;
}

static attn_status run_module(struct embed *e, const struct module *m, int64_t *columns)
{
    if (!m->dense) {
        normalize(e, *columns);
        return ATTN_OK;
    }
    const attn_tensor x = vectors_at(e, e->now, m->in);
    attn_tensor y = vectors_at(e, e->next, m->out);
    const attn_status status = attn_linear(e->run.ctx, &y, m->dense, &x);
    char *swap = e->now;
    e->now = e->next;
    e->next = swap;
    *columns = m->out;
    return status ? status : activate(e, m);
}

/* ---- the call ---- */

static attn_status check_out(const struct encode *r)
{
    char shape[ATTN_SHAPE_TEXT];
    const struct embed *e = (const struct embed *)(const void *)r; /* its first member */
    const attn_status status = attn_check_tensor(r->ctx, &r->out, "out");
    if (status != ATTN_OK)
        return status;
    if (r->out.ndim != 2 || r->out.shape[0] != r->s.items || r->out.shape[1] != e->columns)
        return attn_fail(r->ctx, ATTN_E_SHAPE, "out %s must be [%lld,%lld]: a vector for each sequence", attn_shape_text(shape, &r->out),
                         (long long)r->s.items, (long long)e->columns);
    return ATTN_OK;
}

static attn_status check_opts(struct embed *e)
{
    attn_ctx *ctx = e->run.ctx;
    const attn_vector_opts *o = &e->opts;
    if (!opts_are_known(o))
        return attn_fail(ctx, ATTN_E_ARG, "attn_vector_opts has flags 0x%x, pooling %d and skip %lld; flags are ATTN_VECTOR_NORMALIZE and "
                         "ATTN_VECTOR_RAW, pooling is one of attn_pooling, and skip is not negative", (unsigned)o->flags, (int)o->pooling,
                         (long long)o->skip);
    if (plan(e, e->run.model) != ATTN_OK)
        return attn_fail(ctx, ATTN_E_SHAPE, "pooling %s gives %lld columns, but a Dense that the folder declares behind it takes another "
                         "width; leave the declared modules out with ATTN_VECTOR_RAW", attn_pooling_name(o->pooling),
                         (long long)e->run.model->info.width);
    return ATTN_OK;
}

/* Rows -> vectors -> out. `buffers` is free()d by the caller. */
static attn_status pool(struct embed *e, char **buffers)
{
    const struct vectors *v = &e->run.model->vectors;
    const int64_t items = e->run.s.items, n = e->run.model->info.width;
    const size_t wide = (size_t)e->wide > 2 * (size_t)n ? (size_t)e->wide : 2 * (size_t)n; /* a row of doubles fits */
    const size_t size = (size_t)items * wide * attn_dtype_size(e->run.real);
    int32_t *order = malloc(((size_t)items + 1) * sizeof *order);
    *buffers = e->now = calloc(2, size + sizeof(double));
    if (!e->now || !order) {
        free(order);
        return attn_fail(e->run.ctx, ATTN_E_NOMEM, "out of memory for %lld vectors", (long long)items);
    }
    e->next = e->now + (size + sizeof(double) - 1) / sizeof(double) * sizeof(double);
    int64_t columns = e->modes * n;
    attn_status status = attn_parallel(e->run.ctx, (int)e->run.ctx->threads, items, pool_item, e);
    for (int i = 0; status == ATTN_OK && i < e->modules; i++)
        status = run_module(e, &v->module[i], &columns);
    if (e->opts.flags & ATTN_VECTOR_NORMALIZE)
        normalize(e, columns);
    for (int64_t b = 0; b < items; b++)
        order[b] = (int32_t)b;
    const attn_tensor table = vectors_at(e, e->now, columns), ids = attn_tensor_of(order, ATTN_I32, 1, &items);
    if (status == ATTN_OK && items)
        status = attn_embed(e->run.ctx, &e->run.out, &ids, &(attn_embed_opts){.token = &table}); /* the rows in their dtype */
    free(order);
    return status;
}

attn_status attn_pretrained_embed(attn_ctx *ctx, const attn_pretrained *model, attn_tensor *out, const attn_tensor *ids,
                                  const attn_encode_opts *encode, const attn_vector_opts *opts)
{
    char *buffers = NULL;
    if (!ctx)
        return ATTN_E_ARG;
    attn_begin(ctx);
    if (!model || !out || !ids)
        return attn_fail(ctx, ATTN_E_ARG, "%s is NULL", !model ? "model" : !out ? "out" : "ids");
    if (model->info.kind != ATTN_MODEL_ENCODER)
        return attn_fail(ctx, ATTN_E_UNSUPPORTED, "%s is no encoder; embeddings are those of encoders", model->info.type);
    struct embed e = {.run = {.ctx = ctx, .model = model, .out = *out, .check = check_out}};
    attn_status status = attn_copy_struct(ctx, &e.opts, sizeof e.opts, opts, "attn_vector_opts");
    status = status ? status : check_opts(&e);
    if (ids->ndim == 1 && out->ndim == 1)
        e.run.out = attn_with_item(out);
    status = status ? status : attn_encode_rows(&e.run, ids, encode);
    status = status ? status : pool(&e, &buffers);
    free(buffers);
    attn_encode_free(&e.run);
    return status;
}
