/* SPDX-License-Identifier: Apache-2.0 */
/* What a page of multi-head attention has besides the attention inside: X, the memories, the weights, the joined heads and the result. */
#include "explain.h"
#include "explain_mha.h"
#include "message.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A view that stays as long as the page; NULL after a sentence. */
static attn_tensor *keep(page *p, attn_tensor t)
{
    attn_tensor *kept = page_memory(p, 1, sizeof *kept);
    if (kept)
        *kept = t;
    return kept;
}

/* Columns from..from+count-1 of the last axis. */
static attn_tensor columns_of(const attn_tensor *t, int64_t from, int64_t count)
{
    attn_tensor cut = *t;
    const int32_t last = t->ndim - 1;
    cut.shape[last] = count;
    cut.data = (char *)t->data + from * t->stride[last] * (int64_t)attn_dtype_size(t->dtype);
    return cut;
}

/* W and b of Q, K or V: `own`, whose table per head (H,in,d) has its rows first here, or the columns of the packed one. */
static attn_status add_projection(page *p, const char *const names[2], const attn_tensor *own, const attn_tensor *own_bias,
                                  const attn_mha_desc *d, int64_t from, int64_t columns)
{
    const attn_tensor *w = NULL, *b = NULL;
    if (own && own->ndim == 3)
        w = keep(p, attn_tensor_permute(own, (const int32_t[]){1, 0, 2}));
    else
        w = keep(p, own ? *own : columns_of(d->w_qkv, from, columns));
    if (own_bias || d->b_qkv)
        b = keep(p, own_bias ? *own_bias : columns_of(d->b_qkv, from, columns));
    if (!w || ((own_bias || d->b_qkv) && !b))
        return ATTN_E_NOMEM;
    const attn_status s = page_add_optional(p, names[0], w, 2, (const int64_t[]){w->shape[0], columns}, PAGE_SAVED_CELLS);
    return s == ATTN_OK ? page_add(p, names[1], b, 1, &columns) : s;
}

static attn_status add_weights(page *p, const mha_files *w)
{
    const attn_mha_desc *d = &w->desc;
    attn_status s = add_projection(p, (const char *const[]){"w_q", "b_q"}, d->w_q, d->b_q, d, 0, w->columns_q);
    if (s == ATTN_OK)
        s = add_projection(p, (const char *const[]){"w_k", "b_k"}, d->w_k, d->b_k, d, w->columns_q, w->columns_k);
    if (s == ATTN_OK)
        s = add_projection(p, (const char *const[]){"w_v", "b_v"}, d->w_v, d->b_v, d, w->columns_q + w->columns_k, w->columns_v);
    if (s == ATTN_OK && d->w_o)
        s = page_add_optional(p, "w_o", d->w_o, 2, d->w_o->shape, PAGE_SAVED_CELLS);
    return s == ATTN_OK && d->b_o ? page_add(p, "b_o", d->b_o, 1, d->b_o->shape) : s;
}

/* What cos and sin are multiplied by: at position 0 a unit vector becomes as long. */
static double factor_of(attn_ctx *ctx, const attn_rope *rope, int64_t d)
{
    double *row = need_zeroed(2 * (size_t)d, sizeof *row);
    const attn_tensor x = attn_tensor_of(row, ATTN_F64, 2, (const int64_t[]){1, d});
    attn_tensor y = attn_tensor_of(row + d, ATTN_F64, 2, (const int64_t[]){1, d});
    row[0] = 1;
    const double factor = attn_rope_apply(ctx, &y, &x, rope, NULL) == ATTN_OK ? row[d] : 1;
    free(row);
    return factor;
}

/* q and k as the projections gave them, and how they were turned. */
static attn_status add_rope(page *p, const explanation *e)
{
    const rotation *turn = e->turn;
    const page_shape *s = &p->shape;
    if (!turn->given || !turn->where.rows)
        return ATTN_OK;
    double *frequency = page_memory(p, s->d_k / 2, sizeof *frequency);
    if (!frequency)
        return ATTN_E_NOMEM;
    p->rope = (page_rope){
        .interleaved = turn->interleaved, .factor = 1, .frequency = frequency, .rows = turn->where.rows, .keys = turn->where.keys};
    for (int64_t i = 0; i < s->d_k / 2; i++) {
        const double f = turn->rope ? attn_rope_frequency(turn->rope, i) : pow(turn->theta, -2 * (double)i / (double)s->d_k);
        if (!isnan(f)) /* of a rotation of fewer columns there are no more */
            frequency[p->rope.pairs++] = f;
    }
    p->rope.factor = turn->rope ? factor_of(e->s->ctx, turn->rope, s->d_k) : 1;
    const attn_status status = page_add(p, "q_plain", &turn->before.q, 4, (const int64_t[]){s->B, s->H, s->Lq, s->d_k});
    return status ? status : page_add(p, "k_plain", &turn->before.k, 4, (const int64_t[]){s->B, s->Hkv, s->Lk, s->d_k});
}

/* (L,width) or (B,L,width) as (B,L,width). */
static attn_status add_rows(page *p, const char *name, const attn_tensor *t)
{
    const int64_t *last = t ? t->shape + t->ndim - 2 : NULL;
    return t ? page_add(p, name, t, 3, (const int64_t[]){p->shape.B, last[0], last[1]}) : ATTN_OK;
}

static attn_status add_all(page *p, const explanation *e, const mha_files *w, const mha_inputs *m, const attn_tensor *z,
                           const attn_tensor *out)
{
    const page_shape *shape = &p->shape;
    const attn_tensor *joined = keep(p, tensor_swapped(z, 2, 3)); /* (L,H,d_v): its last two axes are one */
    attn_status s = joined ? add_rows(p, "x", &m->x) : ATTN_E_NOMEM;
    s = s == ATTN_OK ? add_rows(p, "m", m->memory_given) : s;
    s = s == ATTN_OK ? add_rows(p, "m_v", m->memory_v_given) : s;
    s = s == ATTN_OK ? add_weights(p, w) : s;
    s = s == ATTN_OK ? add_rope(p, e) : s;
    s = s == ATTN_OK ? page_add(p, "concat", joined, 3, (const int64_t[]){shape->B, shape->Lq, shape->H * shape->d_v}) : s;
    return s == ATTN_OK ? add_rows(p, "result", out) : s;
}

int explain_mha_page(const explanation *e, page *p, const mha_files *w, const mha_inputs *m, const attn_tensor *z, const attn_tensor *out)
{
    const int status = explain_page_attention(e, p);
    const attn_tensor *memory = m->memory_given ? m->memory_given : &m->x;
    p->shape.width = m->x.shape[m->x.ndim - 1];
    p->shape.memory_width = memory->shape[memory->ndim - 1];
    p->shape.out_width = out->shape[out->ndim - 1];
    return status ? status : explain_page_status(p, add_all(p, e, w, m, z, out));
}
