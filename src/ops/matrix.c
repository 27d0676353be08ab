/* SPDX-License-Identifier: Apache-2.0 */
#include "matrix.h"

#include "../core/tensor.h"
#include "../core/threads.h"
#include "../kernels/convert.h"
#include "sdpa_plan.h"

enum { SMALL_WORK = 1 << 16 }; /* weights below which packing stays on one thread */

attn_status attn_check_floats(attn_ctx *ctx, const attn_tensor *t, const char *name, int least, int most, const char *forms)
{
    char shape[ATTN_SHAPE_TEXT];
    attn_status status = attn_check_tensor(ctx, t, name);
    if (status != ATTN_OK)
        return status;
    if (!attn_dtype_is_float(t->dtype))
        return attn_fail(ctx, ATTN_E_DTYPE, "%s has dtype %s; f32, f64, f16 or bf16 is needed", name, attn_dtype_name(t->dtype));
    if (t->ndim < least || t->ndim > most)
        return attn_fail(ctx, ATTN_E_SHAPE, "%s has shape %s; %s is needed", name, attn_shape_text(shape, t), forms);
    return ATTN_OK;
}

attn_status attn_check_matrix_size(attn_ctx *ctx, const attn_weight_source *s)
{
    char shape[ATTN_SHAPE_TEXT];
    if (s->terms <= ATTN_MAX_COLUMNS && s->columns <= ATTN_MAX_COLUMNS)
        return ATTN_OK;
    return attn_fail(ctx, ATTN_E_SHAPE, "%s %s is too big; a projection has at most %d rows and columns", s->name,
                     attn_shape_text(shape, s->w), ATTN_MAX_COLUMNS);
}

attn_status attn_check_bias(attn_ctx *ctx, const attn_weight_source *s, int64_t whole)
{
    char shape[ATTN_SHAPE_TEXT];
    if (!s->b)
        return ATTN_OK;
    attn_status status = attn_check_floats(ctx, s->b, s->bias_name, 1, 2, "one number for each column, or (H, d),");
    if (status != ATTN_OK)
        return status;
    int fits = s->b->ndim == 1 ? s->b->shape[0] == whole : s->b->shape[0] == s->heads && s->b->shape[0] * s->b->shape[1] == whole;
    return fits ? ATTN_OK
                : attn_fail(ctx, ATTN_E_SHAPE, "%s has shape %s; %s has %lld columns", s->bias_name, attn_shape_text(shape, s->b), s->name,
                            (long long)whole);
}

/* A job of attn_parallel: columns of each matrix in turn, as many at a time as a part of a job may begin with. */
typedef struct pack_job {
    const attn_packing *list;
    int64_t slab; /* the largest of the list */
    char *slabs;
} pack_job;

/* Element (0, column) of W, and the elements between its terms and between the columns of its head. */
static int64_t weight_at(const attn_weight_source *s, int64_t column, int64_t *term_stride, int64_t *column_stride)
{
    const attn_tensor *w = s->w;
    const int is_table = w->ndim == 3;
    const int64_t dim = is_table ? w->shape[2] : 0, at = column + s->first_column;
    *term_stride = w->stride[is_table];
    *column_stride = w->stride[1 + is_table];
    return is_table ? at / dim * w->stride[0] + at % dim * *column_stride : at * *column_stride;
}

/* The columns [column, column + n) as they will be packed, side by side. */
static void copy_columns(const attn_packing *p, char *to, int64_t column, int64_t n)
{
    const attn_tensor *w = p->source.w;
    for (int64_t c = 0; c < n; c++) {
        int64_t term_stride, column_stride;
        const int64_t at = weight_at(&p->source, column + c, &term_stride, &column_stride);
        for (int64_t t = 0; t < p->m->terms; t++)
            attn_store_float(to, p->m->dtype, t * n + c, attn_load_float(w->data, w->dtype, at + t * term_stride));
    }
}

static int64_t parts_of(const attn_matrix *m) { return (m->columns + ATTN_LINEAR_COLUMNS - 1) / ATTN_LINEAR_COLUMNS; }

static void pack_part(void *user, int64_t part, int thread)
{
    const pack_job *job = user;
    const attn_packing *p = job->list;
    for (; part >= parts_of(p->m); p++)
        part -= parts_of(p->m);
    const attn_matrix *m = p->m;
    const int64_t column = part * ATTN_LINEAR_COLUMNS, left = m->columns - column;
    const int64_t n = left < ATTN_LINEAR_COLUMNS ? left : ATTN_LINEAR_COLUMNS;
    const int64_t size = (int64_t)attn_dtype_size(m->dtype);
    int64_t term_stride = n, column_stride = 1;
    char *from;
    if (p->slab) {
        from = job->slabs + thread * job->slab;
        copy_columns(p, from, column, n);
    } else {
        from = (char *)p->source.w->data + weight_at(&p->source, column, &term_stride, &column_stride) * size;
    }
    p->kernels->linear_pack((char *)m->packed + column * m->terms * size, from, m->dtype, term_stride, column_stride, m->terms, n);
}

static attn_status pack_list(attn_ctx *ctx, const attn_packing *list, int count)
{
    pack_job job = {.list = list};
    int64_t parts = 0, weights = 0;
    for (int i = 0; i < count; i++) {
        parts += parts_of(list[i].m);
        weights += list[i].m->terms * list[i].m->columns;
        job.slab = list[i].slab > job.slab ? list[i].slab : job.slab;
    }
    const int threads = weights < SMALL_WORK ? 1 : (int)ctx->threads;
    attn_status status = attn_reserve(ctx, &ctx->scratch, job.slab * threads);
    job.slabs = ctx->scratch.data;
    return status ? status : attn_parallel(ctx, threads, parts, pack_part, &job);
}

static double bias_at(const attn_weight_source *s, int64_t column)
{
    const attn_tensor *b = s->b;
    column += s->first_column;
    if (b->ndim == 1)
        return attn_load_float(b->data, b->dtype, column * b->stride[0]);
    return attn_load_float(b->data, b->dtype, column / b->shape[1] * b->stride[0] + column % b->shape[1] * b->stride[1]);
}

static int64_t packed_size(const attn_packing *p)
{
    const int64_t size = p->kernels->linear_size(p->m->dtype, p->m->terms, p->m->columns);
    return (size + ATTN_ALIGN - 1) / ATTN_ALIGN * ATTN_ALIGN;
}

static attn_status fail_memory(attn_ctx *ctx, const attn_weight_source *s)
{
    return attn_fail(ctx, ATTN_E_NOMEM, "out of memory: %s of %lld x %lld was refused", s->name, (long long)s->terms,
                     (long long)s->columns);
}

attn_status attn_matrix_pack(attn_ctx *ctx, attn_matrix *m, int is_f64, const attn_weight_source *s)
{
    const attn_dtype real = is_f64 ? ATTN_F64 : ATTN_F32, given = s->w->dtype;
    attn_packing p = {.kernels = is_f64 ? ctx->isa->f64 : ctx->isa->f32, .source = *s, .m = m};
    m->terms = s->terms;
    m->columns = s->columns;
    m->dtype = given == ATTN_F16 || given == ATTN_BF16 ? given : real;
    m->bias = s->b ? attn_alloc(ctx, s->columns * (int64_t)attn_dtype_size(real)) : NULL;
    if (s->b && !m->bias)
        return fail_memory(ctx, s);
    for (int64_t c = 0; s->b && c < s->columns; c++)
        attn_store_float(m->bias, real, c, bias_at(s, c));
    if (m->dtype != given || s->w->ndim == 3)
        p.slab = (s->terms * ATTN_LINEAR_COLUMNS * (int64_t)attn_dtype_size(m->dtype) + ATTN_ALIGN - 1) / ATTN_ALIGN * ATTN_ALIGN;
    if (ctx->together) {
        ctx->together->list[ctx->together->count++] = p;
        return ATTN_OK;
    }
    m->packed = attn_alloc(ctx, packed_size(&p));
    return m->packed ? pack_list(ctx, &p, 1) : fail_memory(ctx, s);
}

attn_status attn_matrix_pack_together(attn_ctx *ctx, attn_together *all, void **block)
{
    int64_t size = 0;
    for (int i = 0; i < all->count; i++)
        size += packed_size(&all->list[i]);
    char *at = *block = attn_alloc(ctx, size);
    if (!at)
        return attn_fail(ctx, ATTN_E_NOMEM, "out of memory: the %lld bytes of its matrices were refused", (long long)size);
    for (int i = 0; i < all->count; i++) {
        all->list[i].m->packed = at;
        all->list[i].m->is_lent = 1;
        at += packed_size(&all->list[i]);
    }
    return pack_list(ctx, all->list, all->count);
}

void attn_matrix_free(const attn_matrix *m, void (*release)(void *user, void *p), void *user)
{
    if (m->packed && !m->is_lent)
        release(user, m->packed);
    if (m->bias)
        release(user, m->bias);
}
