/* SPDX-License-Identifier: Apache-2.0 */
/* A page of one attention: its inputs and options, and what the production kernel makes of them. */
#include "page_data.h"
#include "tensor.h"

#include <stdio.h>
#include <string.h>

/* What the rows need after page_add_attention has returned. */
typedef struct attention {
    page *p;
    attn_ctx *ctx;
    attn_tensor q, k, v; /* rank 4 */
    attn_sdpa_opts opts;
    attn_tensor zeros; /* a query that agrees with every key alike */
    double zero;
    attn_sdpa_opts dropout; /* only what decides which weights dropout keeps */
    attn_dtype dtype;
    void *row;              /* [Lk] of dtype */
    attn_tensor bias, plus; /* both of one shape */
} attention;

static attn_status library_failed(page *p, attn_ctx *ctx, attn_status status) { return page_fail(p, status, "%s", attn_ctx_error(ctx)); }

/* One row of weights, out of the kernel. */
static attn_status explain_weights(const attention *a, const attn_tensor *q, const attn_sdpa_opts *opts, const int64_t place[3],
                                   double *row, char *err, size_t err_size)
{
    const int64_t Lk = a->p->shape.Lk;
    attn_tensor weights = attn_tensor_of(a->row, a->dtype, 1, &Lk);
    attn_row wanted = {.struct_size = sizeof wanted, .weights = &weights};
    const attn_status s = attn_explain_cell(a->ctx, &wanted, q, &a->k, &a->v, opts, place[0], place[1], place[2]);
    if (s != ATTN_OK && err)
        snprintf(err, err_size, "%s", attn_ctx_error(a->ctx));
    for (int64_t j = 0; j < Lk && s == ATTN_OK; j++)
        row[j] = a->dtype == ATTN_F64 ? ((const double *)a->row)[j] : ((const float *)a->row)[j];
    return s;
}

static attn_status read_weights(void *user, const int64_t place[3], double *row, char *err, size_t err_size)
{
    const attention *a = user;
    return explain_weights(a, &a->q, &a->opts, place, row, err, err_size);
}

/* 1 where dropout keeps. All shares of a row of equal scores are 1/Lk, so that a weight is 0 only where it was dropped. */
static attn_status read_kept(void *user, const int64_t place[3], double *row, char *err, size_t err_size)
{
    const attention *a = user;
    const attn_status s = explain_weights(a, &a->zeros, &a->dropout, place, row, err, err_size);
    for (int64_t j = 0; j < a->p->shape.Lk && s == ATTN_OK; j++)
        row[j] = row[j] != 0;
    return s;
}

static page_array array_of(const char *name, const attn_tensor *t, page_form form)
{
    page_array a = {
        .name = name, .dtype = t->dtype == ATTN_F64 ? ATTN_F64 : ATTN_F32, .ndim = t->ndim, .form = form, .part = t, .parts = 1};
    if (form != PAGE_NUMBERS)
        a.dtype = ATTN_U8;
    memcpy(a.shape, t->shape, sizeof a.shape);
    return a;
}

/* t spread over the axes of size 1 that it has where `shape` is larger. */
static attn_tensor spread(const attn_tensor *t, const int64_t shape[4])
{
    attn_tensor wide = tensor_rank4(*t);
    for (int i = 0; i < 4; i++)
        if (wide.shape[i] == 1) {
            wide.shape[i] = shape[i];
            wide.stride[i] = 0;
        }
    return wide;
}

/* A float mask and a bias are one bias in the page: their sum. */
static attn_status add_bias(page *p, attention *a, const attn_tensor *first, const attn_tensor *second)
{
    page_array array;
    if (!first || !second) {
        array = array_of("bias", first ? first : second, PAGE_NUMBERS);
        return page_add_array(p, &array, true);
    }
    int64_t shape[4];
    const attn_tensor one = tensor_rank4(*first), two = tensor_rank4(*second);
    for (int i = 0; i < 4; i++)
        shape[i] = one.shape[i] == 1 ? two.shape[i] : one.shape[i];
    a->bias = spread(first, shape);
    a->plus = spread(second, shape);
    array = array_of("bias", &a->bias, PAGE_NUMBERS);
    array.dtype = ATTN_F64;
    array.plus = &a->plus;
    return page_add_array(p, &array, true);
}

static attn_status add_masks(page *p, attention *a)
{
    const attn_sdpa_opts *o = &a->opts;
    const bool is_bias = o->mask && dtype_is_float(o->mask->dtype);
    attn_status s = ATTN_OK;
    if (o->mask && !is_bias) {
        const page_array mask = array_of("mask", o->mask, o->flags & ATTN_MASK_DROP ? PAGE_HIDDEN : PAGE_SEEN);
        s = page_add_array(p, &mask, true);
    }
    if (s == ATTN_OK && (is_bias || o->bias))
        s = add_bias(p, a, is_bias ? o->mask : NULL, o->bias);
    return s;
}

static attn_status add_keep(page *p, attention *a)
{
    const page_shape *s = &p->shape;
    if (!(a->opts.dropout > 0))
        return ATTN_OK;
    if (a->opts.keep) {
        const page_array given = array_of("keep", a->opts.keep, PAGE_SEEN);
        return page_add_array(p, &given, true);
    }
    if (page_cells(p) > PAGE_OVERVIEW_CELLS) {
        p->left_out[p->left++] = "keep";
        page_note(p, "keep is left out: which of so many weights dropout kept is not in the page",
                  "keep은 뺐다: dropout이 이렇게 많은 가중치 가운데 무엇을 남겼는지는 페이지에 없다");
        return ATTN_OK;
    }
    const attn_sdpa_opts *o = &a->opts;
    a->dropout = (attn_sdpa_opts){.struct_size = sizeof a->dropout,
                                  .dropout = o->dropout,
                                  .seed = o->seed,
                                  .first_batch = o->first_batch,
                                  .first_head = o->first_head,
                                  .first_row = o->first_row};
    a->zeros = (attn_tensor){.data = &a->zero, .dtype = a->dtype, .ndim = 4, .shape = {s->B, s->H, s->Lq, s->d_k}};
    const page_array drawn = {
        .name = "keep", .dtype = ATTN_U8, .ndim = 4, .shape = {s->B, s->H, s->Lq, s->Lk}, .rows = {.read = read_kept, .user = a}};
    return page_add_array(p, &drawn, true);
}

/* An array that the kernel is to fill. NULL after a sentence. */
static attn_tensor *result(page *p, const attention *a, const char *name, int32_t ndim, int64_t last)
{
    const page_shape *s = &p->shape;
    const int64_t shape[4] = {s->B, s->H, s->Lq, last};
    const page_array array = {.name = name, .dtype = a->dtype, .ndim = ndim, .shape = {s->B, s->H, s->Lq, last}, .parts = 1};
    if (page_add_array(p, &array, false) != ATTN_OK)
        return NULL;
    attn_tensor *t = page_memory(p, 1, sizeof *t);
    void *data = t ? page_memory(p, page_elements(&array), attn_dtype_size(a->dtype)) : NULL;
    if (!data)
        return NULL;
    *t = attn_tensor_of(data, a->dtype, ndim, shape);
    p->array[p->arrays - 1].part = t;
    return t;
}

/* The call itself, with every stage where these are few. */
static attn_status compute(page *p, attention *a)
{
    const int64_t Lk = p->shape.Lk;
    attn_sdpa_opts all = a->opts;
    attn_tensor *out = result(p, a, "output", 4, p->shape.d_v);
    all.lse = out ? result(p, a, "lse", 3, 1) : NULL;
    all.row_max = all.lse ? result(p, a, "row_max", 3, 1) : NULL;
    bool ready = all.row_max;
    if (p->weights == PAGE_WEIGHTS_EXACT) {
        static const char *const names[] = {"scores", "scaled", "capped", "masked", "weights"};
        attn_tensor **const fields[] = {&all.scores, &all.scaled, &all.capped, &all.masked, &all.weights};
        for (int i = 0; i < 5 && ready; i++) {
            *fields[i] = result(p, a, names[i], 4, Lk);
            ready = *fields[i];
        }
    }
    if (!ready)
        return ATTN_E_NOMEM; /* the sentence is there */
    const attn_status s = attn_sdpa(a->ctx, out, &a->q, &a->k, &a->v, &all);
    return s == ATTN_OK ? ATTN_OK : library_failed(p, a->ctx, s);
}

/* Where each batch item stands, and the scale: as the kernel says. */
static attn_status ask_positions(page *p, attention *a)
{
    p->offset = page_memory(p, p->shape.B, sizeof *p->offset);
    if (!p->offset)
        return ATTN_E_NOMEM;
    for (int64_t b = 0; b < p->shape.B; b++) {
        attn_row row = {.struct_size = sizeof row};
        const attn_status s = attn_explain_cell(a->ctx, &row, &a->q, &a->k, &a->v, &a->opts, b, 0, 0);
        if (s != ATTN_OK)
            return library_failed(p, a->ctx, s);
        p->offset[b] = row.position;
        p->scale = row.scale;
    }
    return ATTN_OK;
}

/* The slopes that the kernel uses: what it adds to a score of 0 one step from the position. */
static attn_status ask_slopes(page *p, attention *a)
{
    const page_shape *s = &p->shape;
    if (!(a->opts.flags & ATTN_ALIBI) && !a->opts.alibi_slopes)
        return ATTN_OK;
    double zero = 0, masked[2];
    const attn_tensor q = {.data = &zero, .dtype = ATTN_F64, .ndim = 4, .shape = {s->B, s->H, 1, 1}};
    const attn_tensor k = {.data = &zero, .dtype = ATTN_F64, .ndim = 4, .shape = {s->B, s->H, 2, 1}};
    attn_tensor added = attn_tensor_of(masked, ATTN_F64, 1, (const int64_t[]){2});
    const attn_sdpa_opts opts = {.struct_size = sizeof opts, .flags = ATTN_ALIBI | ATTN_OFFSET, .alibi_slopes = a->opts.alibi_slopes};
    p->slopes = page_memory(p, s->B * s->H, sizeof *p->slopes);
    if (!p->slopes)
        return ATTN_E_NOMEM;
    for (int64_t n = 0; n < s->B * s->H; n++) {
        attn_row row = {.struct_size = sizeof row, .masked = &added};
        const attn_status status = attn_explain_cell(a->ctx, &row, &q, &k, &k, &opts, n / s->H, n % s->H, 0);
        if (status != ATTN_OK)
            return library_failed(p, a->ctx, status);
        p->slopes[n] = 0 - masked[1];
    }
    return ATTN_OK;
}

static attn_status add_inputs(page *p, const attention *a)
{
    attn_status s = page_add(p, "q", &a->q, 4, a->q.shape);
    if (s == ATTN_OK)
        s = page_add(p, "k", &a->k, 4, a->k.shape);
    return s == ATTN_OK ? page_add(p, "v", &a->v, 4, a->v.shape) : s;
}

static attention *remember(page *p, attn_ctx *ctx, const attn_tensor *q, const attn_tensor *k, const attn_tensor *v,
                           const attn_sdpa_opts *opts)
{
    attention *a = page_memory(p, 1, sizeof *a);
    if (!a)
        return NULL;
    *a = (attention){.p = p, .ctx = ctx, .q = tensor_rank4(*q), .k = tensor_rank4(*k), .v = tensor_rank4(*v), .opts = *opts};
    a->dtype = q->dtype == ATTN_F64 || k->dtype == ATTN_F64 || v->dtype == ATTN_F64 ? ATTN_F64 : ATTN_F32;
    p->opts = &a->opts;
    p->shape.B = a->q.shape[0];
    p->shape.H = a->q.shape[1];
    p->shape.Hkv = a->k.shape[1];
    p->shape.Lq = a->q.shape[2];
    p->shape.Lk = a->k.shape[2];
    p->shape.d_k = a->q.shape[3];
    p->shape.d_v = a->v.shape[3];
    p->shape.layers = 1;
    p->shape.width = p->shape.H * p->shape.d_k; /* of multi-head attention its own */
    p->shape.memory_width = p->shape.Hkv * p->shape.d_k;
    p->shape.out_width = p->shape.H * p->shape.d_v;
    a->row = page_memory(p, p->shape.Lk, attn_dtype_size(a->dtype));
    return a->row ? a : NULL;
}

attn_status page_add_attention(page *p, attn_ctx *ctx, const attn_tensor *q, const attn_tensor *k, const attn_tensor *v,
                               const attn_sdpa_opts *opts)
{
    attention *a = remember(p, ctx, q, k, v, opts);
    if (!a)
        return ATTN_E_NOMEM;
    page_choose_weights(p, PAGE_EXACT_CELLS);
    p->weight_rows = (page_rows){.read = read_weights, .user = a};
    p->isa = attn_ctx_info(ctx).isa;
    attn_status s = add_inputs(p, a);
    s = s == ATTN_OK ? add_masks(p, a) : s;
    s = s == ATTN_OK ? add_keep(p, a) : s;
    s = s == ATTN_OK ? ask_positions(p, a) : s;
    s = s == ATTN_OK ? ask_slopes(p, a) : s;
    return s == ATTN_OK ? compute(p, a) : s;
}
