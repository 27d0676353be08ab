/* SPDX-License-Identifier: Apache-2.0 */
/* attn_mha_prepare: the checks of the weights, and their packing. */
#include "mha_weights.h"

#include "../core/tensor.h"
#include "../kernels/convert.h"
#include <stdio.h>

static void list_divisors(char *text, size_t size, int64_t n)
{
    size_t used = 0;
    text[0] = 0;
    for (int64_t d = 1; d <= n && d <= ATTN_MAX_COLUMNS && used + 16 < size; d++)
        if (n % d == 0)
            used += (size_t)snprintf(text + used, size - used, "%s%lld", used ? ", " : "", (long long)d);
}

static attn_status check_divides(attn_ctx *ctx, const char *what, const char *name, int64_t columns, int64_t heads)
{
    char divisors[320];
    if (heads > 0 && columns % heads == 0)
        return ATTN_OK;
    list_divisors(divisors, sizeof divisors, columns);
    return attn_fail(ctx, ATTN_E_SHAPE,
                     "%s is %lld, but the %lld columns of %s must be cut into equal heads; head counts that divide %lld: %s", what,
                     (long long)heads, (long long)columns, name, (long long)columns, divisors);
}

/* Fills terms and columns of a matrix of its own, or of a table per head. */
static attn_status check_matrix(attn_ctx *ctx, attn_weight_source *s)
{
    char shape[ATTN_SHAPE_TEXT];
    attn_status status = attn_check_floats(ctx, s->w, s->name, 2, 3, "(in, H*d), or a table per head (H, in, d),");
    if (status != ATTN_OK)
        return status;
    int is_table = s->w->ndim == 3;
    if (is_table && s->w->shape[0] != s->heads)
        return attn_fail(ctx, ATTN_E_SHAPE, "%s %s is a table of %lld heads; there are %lld", s->name, attn_shape_text(shape, s->w),
                         (long long)s->w->shape[0], (long long)s->heads);
    s->terms = s->w->shape[is_table];
    if (is_table && s->w->shape[2] > ATTN_MAX_COLUMNS)
        return attn_fail(ctx, ATTN_E_SHAPE, "%s %s is too big; a head has at most %d columns", s->name, attn_shape_text(shape, s->w),
                         ATTN_MAX_COLUMNS);
    s->columns = s->w->shape[1 + is_table] * (is_table ? s->heads : 1);
    return attn_check_matrix_size(ctx, s);
}

/* The three sources, out of w_q, w_k, w_v or of w_qkv. */
static attn_status find_sources(attn_ctx *ctx, const attn_mha_desc *d, int64_t kv_heads, attn_weight_source s[3])
{
    s[0] = (attn_weight_source){d->w_q, d->b_q, "w_q", "b_q", d->heads, 0, 0, 0};
    s[1] = (attn_weight_source){d->w_k, d->b_k, "w_k", "b_k", kv_heads, 0, 0, 0};
    s[2] = (attn_weight_source){d->w_v, d->b_v, "w_v", "b_v", kv_heads, 0, 0, 0};
    if (!d->w_qkv) {
        attn_status status = ATTN_OK;
        if (d->b_qkv)
            return attn_fail(ctx, ATTN_E_ARG, "b_qkv is given without w_qkv; give b_q, b_k and b_v with separate matrices");
        for (int i = 0; status == ATTN_OK && i < 3; i++) {
            status = check_matrix(ctx, &s[i]);
            status = status ? status : attn_check_bias(ctx, &s[i], s[i].columns);
        }
        return status;
    }
    if (d->w_q || d->w_k || d->w_v || d->b_q || d->b_k || d->b_v)
        return attn_fail(ctx, ATTN_E_ARG, "w_qkv is given together with separate matrices or biases; give either");
    attn_status status = attn_check_floats(ctx, d->w_qkv, "w_qkv", 2, 2, "(in, (H + 2 Hkv) * d)");
    const int64_t parts = d->heads + 2 * kv_heads, whole = status == ATTN_OK ? d->w_qkv->shape[1] : 0;
    const attn_weight_source all = {d->w_qkv, d->b_qkv, "w_qkv", "b_qkv", parts, 0, status == ATTN_OK ? d->w_qkv->shape[0] : 0, whole};
    status = status ? status : attn_check_matrix_size(ctx, &all);
    status = status ? status : check_divides(ctx, "heads + 2 kv_heads", "w_qkv", whole, parts);
    for (int i = 0; status == ATTN_OK && i < 3; i++) {
        s[i] = (attn_weight_source){d->w_qkv, d->b_qkv, "w_qkv", "b_qkv", parts, 0, d->w_qkv->shape[0], s[i].heads * (whole / parts)};
        s[i].first_column = i == 0 ? 0 : s[i - 1].first_column + s[i - 1].columns;
        status = attn_check_bias(ctx, &s[i], whole);
    }
    return status;
}

static attn_status check_sources(attn_ctx *ctx, attn_mha_weights *w, const attn_weight_source s[3])
{
    attn_status status = check_divides(ctx, "heads", s[0].name, s[0].columns, w->heads);
    status = status ? status : check_divides(ctx, "kv_heads", s[1].name, s[1].columns, w->kv_heads);
    status = status ? status : check_divides(ctx, "kv_heads", s[2].name, s[2].columns, w->kv_heads);
    if (status != ATTN_OK)
        return status;
    w->dim = s[0].columns / w->heads;
    w->value_dim = s[2].columns / w->kv_heads;
    if (s[1].columns / w->kv_heads != w->dim)
        return attn_fail(ctx, ATTN_E_SHAPE,
                         "w_q has %lld columns for %lld heads of %lld but w_k has %lld for %lld KV heads of %lld; head_dim must be equal",
                         (long long)s[0].columns, (long long)w->heads, (long long)w->dim, (long long)s[1].columns, (long long)w->kv_heads,
                         (long long)(s[1].columns / w->kv_heads));
    if (w->dim == 0)
        return attn_fail(ctx, ATTN_E_SHAPE, "w_q has 0 columns; head_dim must be at least 1");
    return ATTN_OK;
}

static attn_status check_output(attn_ctx *ctx, const attn_mha_weights *w, attn_weight_source *o)
{
    char shape[ATTN_SHAPE_TEXT];
    if (!o->w)
        return o->b ? attn_fail(ctx, ATTN_E_ARG, "b_o is given without w_o") : ATTN_OK;
    attn_status status = attn_check_floats(ctx, o->w, "w_o", 2, 2, "(H*d_v, out)");
    if (status != ATTN_OK)
        return status;
    o->terms = o->w->shape[0];
    o->columns = o->w->shape[1];
    status = attn_check_matrix_size(ctx, o);
    if (status != ATTN_OK)
        return status;
    if (o->terms != w->heads * w->value_dim)
        return attn_fail(ctx, ATTN_E_SHAPE, "w_o %s has %lld rows but the %lld heads of %lld joined have %lld columns",
                         attn_shape_text(shape, o->w), (long long)o->terms, (long long)w->heads, (long long)w->value_dim,
                         (long long)(w->heads * w->value_dim));
    return attn_check_bias(ctx, o, o->columns);
}

static int any_f64(const attn_mha_desc *d)
{
    const attn_tensor *all[] = {d->w_q, d->w_k, d->w_v, d->w_qkv, d->w_o, d->b_q, d->b_k, d->b_v, d->b_qkv, d->b_o};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i] && all[i]->dtype == ATTN_F64)
            return 1;
    return (d->flags & ATTN_MHA_F64) != 0;
}

static attn_status check_heads(attn_ctx *ctx, const attn_mha_desc *d, int64_t kv_heads)
{
    if (d->flags & ~(uint32_t)ATTN_MHA_F64)
        return attn_fail(ctx, ATTN_E_ARG, "attn_mha_desc.flags has unknown bits 0x%x", d->flags & ~(uint32_t)ATTN_MHA_F64);
    if (d->heads <= 0 || d->heads > ATTN_MAX_COLUMNS)
        return attn_fail(ctx, ATTN_E_ARG, "heads is %lld; it must be from 1 to %d", (long long)d->heads, ATTN_MAX_COLUMNS);
    if (kv_heads <= 0 || d->heads % kv_heads)
        return attn_fail(ctx, ATTN_E_ARG, "kv_heads is %lld; it must divide the %lld heads that share them", (long long)kv_heads,
                         (long long)d->heads);
    return ATTN_OK;
}

static attn_status fill(attn_ctx *ctx, attn_mha_weights *w, const attn_mha_desc *d)
{
    attn_weight_source s[3], o = {d->w_o, d->b_o, "w_o", "b_o", 1, 0, 0, 0};
    attn_status status = check_heads(ctx, d, w->kv_heads);
    status = status ? status : find_sources(ctx, d, w->kv_heads, s);
    status = status ? status : check_sources(ctx, w, s);
    status = status ? status : check_output(ctx, w, &o);
    status = status ? status : attn_matrix_pack(ctx, &w->q, w->is_f64, &s[0]);
    status = status ? status : attn_matrix_pack(ctx, &w->k, w->is_f64, &s[1]);
    status = status ? status : attn_matrix_pack(ctx, &w->v, w->is_f64, &s[2]);
    return status || !o.w ? status : attn_matrix_pack(ctx, &w->o, w->is_f64, &o);
}

attn_status attn_mha_prepare(attn_ctx *ctx, attn_mha_weights **out, const attn_mha_desc *desc)
{
    attn_mha_desc d;
    if (!ctx)
        return ATTN_E_ARG;
    attn_begin(ctx);
    if (!out || !desc)
        return attn_fail(ctx, ATTN_E_ARG, "%s is NULL", out ? "desc" : "out");
    *out = NULL;
    attn_status status = attn_copy_struct(ctx, &d, sizeof d, desc, "attn_mha_desc");
    if (status != ATTN_OK)
        return status;
    attn_mha_weights *w = attn_alloc(ctx, sizeof *w);
    if (!w)
        return attn_fail(ctx, ATTN_E_NOMEM, "out of memory: %zu bytes were refused", sizeof *w);
    *w = (attn_mha_weights){.isa = ctx->isa,
                            .is_f64 = any_f64(&d),
                            .heads = d.heads,
                            .kv_heads = d.kv_heads ? d.kv_heads : d.heads,
                            .free = ctx->free,
                            .user = ctx->user};
    status = fill(ctx, w, &d);
    if (status == ATTN_OK)
        *out = w;
    else
        attn_mha_weights_destroy(w);
    return status;
}

void attn_mha_weights_destroy(attn_mha_weights *w)
{
    if (!w)
        return;
    const attn_matrix *all[] = {&w->q, &w->k, &w->v, &w->o};
    for (int i = 0; i < 4; i++)
        attn_matrix_free(all[i], w->free, w->user);
    w->free(w->user, w);
}
