/* SPDX-License-Identifier: Apache-2.0 */
/* --npz: the stages under the names that TransformerLens gives them, where it has one. */
#include "explain_mha.h"
#include "message.h"

#include <stdlib.h>
#include <string.h>

static void put(bundle *b, const char *name, attn_tensor t)
{
    b->name[b->count] = name;
    b->tensor[b->count++] = t;
}

/* (B,H,L,d) as (B,L,H,d). */
static attn_tensor tokens_first(const attn_tensor *t)
{
    const attn_tensor wide = tensor_rank4(*t);
    return tensor_swapped(&wide, 2, 3);
}

void explain_bundle(const explanation *e, results *r, const qkv *t, const attn_tensor *z)
{
    static const struct {
        const char *ours, *theirs;
    } names[] = {{"scores", "scores"},           {"scaled", "scaled"},        {"capped", "capped"},
                 {"masked", "hook_attn_scores"}, {"weights", "hook_pattern"}, {"lse", "lse"}};
    bundle *b = &r->also;
    b->path = r->o->value[OPT_NPZ];
    put(b, "hook_q", tokens_first(&t->q));
    put(b, "hook_k", tokens_first(&t->k));
    put(b, "hook_v", tokens_first(&t->v));
    if (e->turn->given) {
        put(b, "hook_rot_q", tokens_first(&results_find(r, "q_rot")->view));
        put(b, "hook_rot_k", tokens_first(&results_find(r, "k_rot")->view));
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const attn_tensor *stage = &results_find(r, names[i].ours)->view;
        const int64_t rows[] = {e->z->B, e->z->H, e->z->Lq};
        put(b, names[i].theirs,
            strcmp(names[i].ours, "lse") == 0 ? attn_tensor_of(stage->data, stage->dtype, 3, rows) : tensor_rank4(*stage));
    }
    put(b, "hook_z", tokens_first(z));
}

int explain_mha_bundle(const explanation *e, results *r, const attn_mha_opts *stages, const attn_tensor *out, attn_tensor *head_results)
{
    const sizes *z = e->z;
    const qkv t = {*stages->q, *stages->k, *stages->v};
    const int64_t width = out->shape[out->ndim - 1];
    const int status = tensor_new(head_results, "hook_result", z->dtype, 4, (const int64_t[]){z->B, z->Lq, z->H, width});
    if (status)
        return status;
    explain_bundle(e, r, &t, stages->z);
    put(&r->also, "hook_result", *head_results);
    put(&r->also, "output", attn_tensor_of(out->data, out->dtype, 3, (const int64_t[]){z->B, z->Lq, width}));
    return EXIT_DONE;
}

static void store(const attn_tensor *packed, int64_t at, double value)
{
    if (packed->dtype == ATTN_F64)
        ((double *)packed->data)[at] = value;
    else
        ((float *)packed->data)[at] = (float)value;
}

void explain_join(const attn_tensor *z, const attn_tensor *concat)
{
    const attn_tensor rows = tokens_first(z);
    int64_t index[ATTN_MAX_DIMS] = {0};
    const int64_t count = tensor_count(&rows);
    for (int64_t i = 0; i < count; i++, tensor_next(&rows, index))
        store(concat, i, tensor_value(&rows, index));
}

/* A packed copy as double; to be freed. */
static double *doubles_of(const attn_tensor *t)
{
    const int64_t count = tensor_count(t);
    int64_t index[ATTN_MAX_DIMS] = {0};
    double *copy = need_memory((size_t)count * sizeof *copy);
    for (int64_t i = 0; i < count; i++, tensor_next(t, index))
        copy[i] = tensor_value(t, index);
    return copy;
}

void explain_head_results(const attn_tensor *z, const attn_tensor *w_o, const attn_tensor *out)
{
    const attn_tensor rows = tokens_first(z);
    const int64_t d = rows.shape[3], width = w_o->shape[1], count = rows.shape[0] * rows.shape[1] * rows.shape[2];
    double *sum = need_memory((size_t)width * sizeof *sum), *w = doubles_of(w_o);
    int64_t index[ATTN_MAX_DIMS] = {0};
    for (int64_t n = 0; n < count; n++) { /* (b, i, h) in this order */
        memset(sum, 0, (size_t)width * sizeof *sum);
        for (int64_t c = 0; c < d; c++, tensor_next(&rows, index)) {
            const double x = tensor_value(&rows, index), *row = w + (index[2] * d + c) * width;
            for (int64_t j = 0; j < width; j++)
                sum[j] += x * row[j];
        }
        for (int64_t j = 0; j < width; j++)
            store(out, n * width + j, sum[j]);
    }
    free(sum);
    free(w);
}
