/* SPDX-License-Identifier: Apache-2.0 */
#include "matrix.h"

#include "../core/tensor.h"
#include "../kernels/convert.h"
#include "sdpa_plan.h"

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

static double weight_at(const attn_weight_source *s, int64_t term, int64_t column)
{
    const attn_tensor *w = s->w;
    column += s->first_column;
    if (w->ndim == 2)
        return attn_load_float(w->data, w->dtype, term * w->stride[0] + column * w->stride[1]);
    int64_t dim = w->shape[2];
    return attn_load_float(w->data, w->dtype, column / dim * w->stride[0] + term * w->stride[1] + column % dim * w->stride[2]);
}

static double bias_at(const attn_weight_source *s, int64_t column)
{
    const attn_tensor *b = s->b;
    column += s->first_column;
    if (b->ndim == 1)
        return attn_load_float(b->data, b->dtype, column * b->stride[0]);
    return attn_load_float(b->data, b->dtype, column / b->shape[1] * b->stride[0] + column % b->shape[1] * b->stride[1]);
}

/* Through a plain copy in reals. */
attn_status attn_matrix_pack(attn_ctx *ctx, attn_matrix *m, int is_f64, const attn_weight_source *s)
{
    const attn_dtype real = is_f64 ? ATTN_F64 : ATTN_F32;
    const attn_kernels *kernels = is_f64 ? ctx->isa->f64 : ctx->isa->f32;
    const int64_t size = (int64_t)attn_dtype_size(real);
    m->terms = s->terms;
    m->columns = s->columns;
    void *plain = attn_alloc(ctx, s->terms * s->columns * size);
    m->packed = plain ? attn_alloc(ctx, kernels->linear_size(s->terms, s->columns)) : NULL;
    m->bias = s->b && m->packed ? attn_alloc(ctx, s->columns * size) : NULL;
    if (!m->packed || (s->b && !m->bias)) {
        attn_free(ctx, plain);
        return attn_fail(ctx, ATTN_E_NOMEM, "out of memory: %s of %lld x %lld was refused", s->name, (long long)s->terms,
                         (long long)s->columns);
    }
    for (int64_t t = 0; t < s->terms; t++)
        for (int64_t c = 0; c < s->columns; c++)
            attn_store_float(plain, real, t * s->columns + c, weight_at(s, t, c));
    for (int64_t c = 0; s->b && c < s->columns; c++)
        attn_store_float(m->bias, real, c, bias_at(s, c));
    kernels->linear_pack(m->packed, plain, s->columns, 1, s->terms, s->columns);
    attn_free(ctx, plain);
    return ATTN_OK;
}

void attn_matrix_free(const attn_matrix *m, void (*release)(void *user, void *p), void *user)
{
    if (m->packed)
        release(user, m->packed);
    if (m->bias)
        release(user, m->bias);
}
