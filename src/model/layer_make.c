/* SPDX-License-Identifier: Apache-2.0 */
/* attn_layer_prepare: every weight checked, copied and packed. */
#include "../core/tensor.h"
#include "activation.h"
#include "layer.h"
#include "linear.h"
#include "norm.h"
#include "rope.h"
#include <stdio.h>
#include <string.h>

enum { KNOWN_FLAGS = ATTN_LAYER_POST_NORM | ATTN_LAYER_CAUSAL | ATTN_LAYER_F64 };
static const char *const part_names[PARTS] = {"self", "cross", "mlp"};

/* Which of two sets of equal names a sentence is about. */
static attn_status within(attn_ctx *ctx, attn_status status, const char *part)
{
    char sentence[sizeof ctx->error];
    if (status == ATTN_OK)
        return status;
    memcpy(sentence, ctx->error, sizeof sentence);
    return attn_fail(ctx, status, "%s: %s", part, sentence);
}

/* ----------------------------------------------------------------- norms ---- */

static attn_status copy_vector(attn_ctx *ctx, attn_tensor *own, const attn_tensor *theirs)
{
    const int64_t n = theirs->shape[0];
    double *memory = attn_alloc(ctx, n * (int64_t)sizeof(double));
    if (!memory)
        return attn_fail(ctx, ATTN_E_NOMEM, "out of memory: the %lld numbers of a norm were refused", (long long)n);
    attn_load_row(memory, theirs, 0, attn_row_stride(theirs), n);
    *own = attn_tensor_of(memory, ATTN_F64, 1, &n);
    return ATTN_OK;
}

static attn_status make_norm(attn_ctx *ctx, attn_layer_norm_of *norm, const attn_norm_opts *theirs, int64_t n)
{
    if (!theirs)
        return ATTN_OK;
    attn_status status = attn_norm_check(ctx, &norm->opts, theirs, n);
    if (status == ATTN_OK && norm->opts.weight) {
        status = copy_vector(ctx, &norm->weight, norm->opts.weight);
        norm->opts.weight = &norm->weight;
    }
    if (status == ATTN_OK && norm->opts.bias) {
        status = copy_vector(ctx, &norm->bias, norm->opts.bias);
        norm->opts.bias = &norm->bias;
    }
    norm->is_there = 1;
    return status;
}

/* ------------------------------------------------------------- attention ---- */

static attn_status make_attention(attn_ctx *ctx, attn_layer *l, int part, const attn_mha_desc *theirs)
{
    attn_mha_desc d;
    attn_status status = attn_copy_struct(ctx, &d, sizeof d, theirs, "attn_mha_desc");
    if (status != ATTN_OK || !theirs)
        return status;
    d.struct_size = sizeof d;
    d.flags |= l->is_f64 ? ATTN_MHA_F64 : 0;
    if (!d.w_o)
        return attn_fail(ctx, ATTN_E_ARG, "w_o is NULL; a layer adds what comes out to its input");
    status = attn_mha_prepare(ctx, &l->mha[part], &d);
    if (status != ATTN_OK)
        return status;
    const attn_mha_weights *w = l->mha[part];
    l->n = part == SELF ? w->q.terms : l->n;
    if (w->q.terms != l->n || w->o.columns != l->n)
        return attn_fail(ctx, ATTN_E_SHAPE, "w_q takes %lld columns and w_o gives %lld; the layer's width is %lld", (long long)w->q.terms,
                         (long long)w->o.columns, (long long)l->n);
    if (part == SELF && (w->k.terms != l->n || w->v.terms != l->n))
        return attn_fail(ctx, ATTN_E_SHAPE, "w_k takes %lld columns and w_v %lld; the layer's width is %lld", (long long)w->k.terms,
                         (long long)w->v.terms, (long long)l->n);
    if (part == CROSS && w->k.terms != w->v.terms)
        return attn_fail(ctx, ATTN_E_SHAPE, "w_k takes %lld columns and w_v %lld; the memory has one width", (long long)w->k.terms,
                         (long long)w->v.terms);
    return ATTN_OK;
}

/* ------------------------------------------------------------------- MLP ---- */

static attn_status make_mlp(attn_ctx *ctx, attn_layer *l, const attn_mlp_desc *d)
{
    attn_status status = attn_activation_check(ctx, d->activation);
    if (status == ATTN_OK && d->b_gate && !d->w_gate)
        status = attn_fail(ctx, ATTN_E_ARG, "b_gate is given without w_gate");
    status = status ? status : attn_linear_pack(ctx, &l->up, l->is_f64, d->w_up, d->b_up, "w_up", "b_up");
    if (status == ATTN_OK && d->w_gate)
        status = attn_linear_pack(ctx, &l->gate, l->is_f64, d->w_gate, d->b_gate, "w_gate", "b_gate");
    status = status ? status : attn_linear_pack(ctx, &l->down, l->is_f64, d->w_down, d->b_down, "w_down", "b_down");
    if (status != ATTN_OK)
        return status;
    l->has_mlp = 1;
    l->activation = d->activation;
    if (l->up.terms != l->n || l->down.columns != l->n || l->down.terms != l->up.columns)
        return attn_fail(ctx, ATTN_E_SHAPE, "w_up is %lld x %lld and w_down %lld x %lld; (n, hidden) and (hidden, n) are needed, n = %lld",
                         (long long)l->up.terms, (long long)l->up.columns, (long long)l->down.terms, (long long)l->down.columns,
                         (long long)l->n);
    if (d->w_gate && (l->gate.terms != l->n || l->gate.columns != l->up.columns))
        return attn_fail(ctx, ATTN_E_SHAPE, "w_gate is %lld x %lld but w_up %lld x %lld; they must be equal", (long long)l->gate.terms,
                         (long long)l->gate.columns, (long long)l->up.terms, (long long)l->up.columns);
    return ATTN_OK;
}

/* ------------------------------------------------------------------ make ---- */

/* Is a matrix or a bias f64? Pointers of desc may be NULL; what they point at is checked where it is used. */
static int any_f64(const attn_mha_desc *a, const attn_mlp_desc *m)
{
    const attn_tensor *all[] = {a ? a->w_q : NULL, a ? a->w_k : NULL, a ? a->w_v : NULL, a ? a->w_qkv : NULL, a ? a->w_o : NULL,
                                a ? a->b_q : NULL, a ? a->b_k : NULL, a ? a->b_v : NULL, a ? a->b_qkv : NULL, a ? a->b_o : NULL,
                                m->w_up,           m->w_gate,         m->w_down,         m->b_up,             m->b_gate,
                                m->b_down};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i] && all[i]->dtype == ATTN_F64)
            return 1;
    return a && a->flags & ATTN_MHA_F64;
}

/* The norms of q's and k's heads. */
static attn_status make_head_norms(attn_ctx *ctx, attn_layer *l, const attn_layer_desc *d)
{
    if (!d->q_norm != !d->k_norm)
        return attn_fail(ctx, ATTN_E_ARG, "%s is given without %s", d->q_norm ? "q_norm" : "k_norm", d->q_norm ? "k_norm" : "q_norm");
    const attn_status status = within(ctx, make_norm(ctx, &l->head_norm[0], d->q_norm, l->mha[SELF]->dim), "q_norm");
    return status ? status : within(ctx, make_norm(ctx, &l->head_norm[1], d->k_norm, l->mha[SELF]->dim), "k_norm");
}

static void free_norm(attn_layer *l, attn_layer_norm_of *norm)
{
    if (norm->weight.data)
        l->free(l->user, norm->weight.data);
    if (norm->bias.data)
        l->free(l->user, norm->bias.data);
}

/* mlp: whole, all-zero where there is none. */
static attn_status fill(attn_ctx *ctx, attn_layer *l, const attn_layer_desc *d, const attn_mlp_desc *mlp)
{
    const attn_norm_opts *const norms[PARTS] = {d->self_norm, d->cross_norm, d->mlp_norm};
    attn_status status = within(ctx, make_attention(ctx, l, SELF, d->self), "self");
    if (status == ATTN_OK && d->cross)
        status = within(ctx, make_attention(ctx, l, CROSS, d->cross), "cross");
    if (status == ATTN_OK && d->mlp)
        status = within(ctx, make_mlp(ctx, l, mlp), "mlp");
    for (int part = 0; status == ATTN_OK && part < PARTS; part++) {
        if (norms[part] && !attn_layer_has(l, part))
            return attn_fail(ctx, ATTN_E_ARG, "%s_norm is given without %s", part_names[part], part_names[part]);
        status = make_norm(ctx, &l->norm[part], norms[part], l->n);
        if (status != ATTN_OK) {
            char name[16];
            snprintf(name, sizeof name, "%s_norm", part_names[part]);
            return within(ctx, status, name);
        }
    }
    if (status == ATTN_OK && d->rope && d->rope->dim != l->mha[SELF]->dim)
        return attn_fail(ctx, ATTN_E_SHAPE, "the rope was made for a head_dim of %lld but self has %lld", (long long)d->rope->dim,
                         (long long)l->mha[SELF]->dim);
    l->rope = d->rope;
    return status ? status : make_head_norms(ctx, l, d);
}

attn_status attn_layer_prepare(attn_ctx *ctx, attn_layer **out, const attn_layer_desc *desc)
{
    attn_layer_desc d;
    attn_mlp_desc mlp;
    if (!ctx)
        return ATTN_E_ARG;
    attn_begin(ctx);
    if (!out || !desc)
        return attn_fail(ctx, ATTN_E_ARG, "%s is NULL", out ? "desc" : "out");
    *out = NULL;
    attn_status status = attn_copy_struct(ctx, &d, sizeof d, desc, "attn_layer_desc");
    status = status ? status : attn_copy_struct(ctx, &mlp, sizeof mlp, d.mlp, "attn_mlp_desc");
    if (status != ATTN_OK)
        return status;
    if (d.flags & ~(uint32_t)KNOWN_FLAGS)
        return attn_fail(ctx, ATTN_E_ARG, "attn_layer_desc.flags has unknown bits 0x%x", d.flags & ~(uint32_t)KNOWN_FLAGS);
    if (!d.self || mlp.flags)
        return attn_fail(ctx, ATTN_E_ARG, d.self ? "attn_mlp_desc.flags must be 0" : "self is NULL; every layer has self-attention");
    attn_layer *l = attn_alloc(ctx, sizeof *l);
    if (!l)
        return attn_fail(ctx, ATTN_E_NOMEM, "out of memory: %zu bytes were refused", sizeof *l);
    *l = (attn_layer){.isa = ctx->isa, .flags = d.flags, .free = ctx->free, .user = ctx->user};
    l->is_f64 = (d.flags & ATTN_LAYER_F64) || any_f64(d.self, &mlp) || any_f64(d.cross, &mlp);
    attn_together all = {.count = 0};
    ctx->together = &all;
    status = fill(ctx, l, &d, &mlp);
    ctx->together = NULL;
    status = status ? status : attn_matrix_pack_together(ctx, &all, &l->block);
    if (status == ATTN_OK)
        *out = l;
    else
        attn_layer_destroy(l);
    return status;
}

void attn_layer_destroy(attn_layer *l)
{
    if (!l)
        return;
    for (int part = 0; part < PARTS; part++)
        free_norm(l, &l->norm[part]);
    free_norm(l, &l->head_norm[0]);
    free_norm(l, &l->head_norm[1]);
    attn_mha_weights_destroy(l->mha[SELF]);
    attn_mha_weights_destroy(l->mha[CROSS]);
    attn_matrix_free(&l->up, l->free, l->user);
    attn_matrix_free(&l->gate, l->free, l->user);
    attn_matrix_free(&l->down, l->free, l->user);
    if (l->block)
        l->free(l->user, l->block);
    l->free(l->user, l);
}
