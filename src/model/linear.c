/* SPDX-License-Identifier: Apache-2.0 */
/* attn_linear: the projections of attn_mha on their own. */
#include "linear.h"

#include "../core/tensor.h"
#include "../ops/overlap.h"
#include "../ops/project.h"
#include "rows.h"

attn_status attn_linear_pack(attn_ctx *ctx, attn_matrix *m, int is_f64, const attn_tensor *w, const attn_tensor *b, const char *w_name,
                             const char *b_name)
{
    attn_weight_source s = {.w = w, .b = b, .name = w_name, .bias_name = b_name, .heads = 1};
    attn_status status = attn_model_check_floats(ctx, w, w_name, 2, 2, "(in, out)");
    if (status != ATTN_OK)
        return status;
    s.terms = w->shape[0];
    s.columns = w->shape[1];
    status = attn_check_matrix_size(ctx, &s);
    status = status ? status : attn_model_check_vector(ctx, b, b_name, s.columns, "the matrix has");
    return status ? status : attn_matrix_pack(ctx, m, is_f64, &s);
}

attn_status attn_linear_prepare(attn_ctx *ctx, attn_linear_weights **out, const attn_linear_desc *desc)
{
    attn_linear_desc d;
    if (!ctx)
        return ATTN_E_ARG;
    attn_begin(ctx);
    if (!out || !desc)
        return attn_fail(ctx, ATTN_E_ARG, "%s is NULL", out ? "desc" : "out");
    *out = NULL;
    attn_status status = attn_copy_struct(ctx, &d, sizeof d, desc, "attn_linear_desc");
    if (status != ATTN_OK)
        return status;
    if (d.flags & ~(uint32_t)ATTN_LINEAR_F64)
        return attn_fail(ctx, ATTN_E_ARG, "attn_linear_desc.flags has unknown bits 0x%x", d.flags & ~(uint32_t)ATTN_LINEAR_F64);
    attn_linear_weights *w = attn_alloc(ctx, sizeof *w);
    if (!w)
        return attn_fail(ctx, ATTN_E_NOMEM, "out of memory: %zu bytes were refused", sizeof *w);
    *w = (attn_linear_weights){.isa = ctx->isa, .free = ctx->free, .user = ctx->user};
    w->is_f64 = (d.flags & ATTN_LINEAR_F64) || (d.w && d.w->dtype == ATTN_F64) || (d.b && d.b->dtype == ATTN_F64);
    status = attn_linear_pack(ctx, &w->m, w->is_f64, d.w, d.b, "w", "b");
    if (status == ATTN_OK)
        *out = w;
    else
        attn_linear_destroy(w);
    return status;
}

void attn_linear_destroy(attn_linear_weights *w)
{
    if (!w)
        return;
    attn_matrix_free(&w->m, w->free, w->user);
    w->free(w->user, w);
}

static attn_status check_call(attn_ctx *ctx, const attn_tensor *out, const attn_linear_weights *w, const attn_tensor *x)
{
    char got[ATTN_SHAPE_TEXT];
    attn_named_list outputs = {.n = 0}, inputs = {.n = 0};
    if (w->isa != ctx->isa)
        return attn_fail(ctx, ATTN_E_ARG,
                         "the weights were prepared for ISA level %s but the context runs %s; prepare them with this context", w->isa->name,
                         ctx->isa->name);
    attn_status status = attn_model_check_floats(ctx, x, "x", 2, 3, "[L,in] or [B,L,in]");
    status = status ? status : attn_model_check_floats(ctx, out, "out", 2, 3, "[L,out] or [B,L,out]");
    if (status != ATTN_OK)
        return status;
    const int last = x->ndim - 1;
    if (x->shape[last] != w->m.terms)
        return attn_fail(ctx, ATTN_E_SHAPE, "x %s has width %lld but w takes %lld", attn_shape_text(got, x), (long long)x->shape[last],
                         (long long)w->m.terms);
    attn_tensor needed = *x;
    needed.shape[last] = w->m.columns;
    status = attn_model_check_like(ctx, out, "out", &needed, "x W");
    if (status == ATTN_OK && x->dtype == ATTN_F64 && !w->is_f64)
        return attn_fail(ctx, ATTN_E_DTYPE,
                         "x %s is f64 but the weights were prepared for f32; set ATTN_LINEAR_F64 in attn_linear_desc.flags",
                         attn_shape_text(got, x));
    if (status != ATTN_OK)
        return status;
    attn_list_add(&outputs, out, "out");
    attn_list_add(&inputs, x, "x");
    return attn_check_apart(ctx, &outputs, &inputs);
}

attn_status attn_linear(attn_ctx *ctx, attn_tensor *out, const attn_linear_weights *w, const attn_tensor *x)
{
    if (!ctx)
        return ATTN_E_ARG;
    attn_begin(ctx);
    if (!w)
        return attn_fail(ctx, ATTN_E_ARG, "w is NULL");
    attn_status status = check_call(ctx, out, w, x);
    return status ? status : attn_project(ctx, &w->m, w->is_f64, attn_rows_of(x), attn_rows_of(out));
}
