/* SPDX-License-Identifier: Apache-2.0 */
/* What a call of attn_sdpa means once every argument has been checked: shapes spread to four axes, options resolved. From here on nothing
   can be wrong with the arguments. */
#ifndef ATTN_SDPA_PLAN_H
#define ATTN_SDPA_PLAN_H
#include "../core/ctx.h"

/* The four axes that everything is spread to: item (batch entry), head, row, and column (of Q, K, V) or key. */
enum { ITEM, HEAD, ROW, COLUMN, KEY = COLUMN, AXES };

/* A tensor on those axes. An axis that it lacks, or of size 1, has stride 0. */
typedef struct attn_view {
    void *data; /* NULL: absent */
    attn_dtype dtype;
    int64_t stride[AXES];
} attn_view;

typedef struct attn_plan {
    int64_t items, heads, kv_heads, group; /* group = heads / kv_heads */
    int64_t rows, keys;                    /* Lq, Lk; packed: of all sequences */
    int64_t dim, value_dim;
    int64_t longest;                       /* rows of the longest item */
    double cells;                          /* rows times keys, of all items */
    int is_f64, is_packed;
    attn_view q, k, v, out;

    attn_sdpa_opts opts; /* the caller's, whole */
    double scale;
    int64_t left, right;
    attn_view keep, added[ATTN_MAX_ADDED], dropout_keep;
    attn_view lse, row_max, entropy, mass, scores, scaled, capped, masked, weights;
    int slopes_per_item;
    double *slopes; /* [heads], or [items][heads]; in memory of ctx */
    double *sinks;  /* [heads] */
} attn_plan;

/* Checks everything; out NULL = the call has no output of its own (attn_explain_cell). Holds until the next plan of ctx. */
attn_status attn_plan_make(attn_ctx *ctx, attn_plan *p, const attn_tensor *out, const attn_tensor *q, const attn_tensor *k,
                           const attn_tensor *v, const attn_sdpa_opts *opts);

/* The kernels for it, which attn_ctx_info tells from here on: what p->out.dtype is matters too, with or without data. */
const attn_kernels *attn_plan_kernels(attn_ctx *ctx, const attn_plan *p);

/* The kernel's job for the query heads of one KV head of one item. */
void attn_plan_job(attn_sdpa_job *j, const attn_plan *p, int64_t item, int64_t kv_head);

/* Position of row 0 of an item; its valid keys and rows; where its rows and keys begin (packed input), and how many there are. */
typedef struct attn_item {
    int64_t offset, kv_len, q_len, first_row, rows, first_key, keys;
} attn_item;
attn_item attn_plan_item(const attn_plan *p, int64_t item);

/* ---- shared by the two files that make a plan ---- */

/* Does the tensor have a dtype, 0..ATTN_MAX_DIMS axes whose bytes fit 63 bits, and data? name is what the sentence calls it. */
ATTN_PRIVATE attn_status attn_check_tensor(attn_ctx *ctx, const attn_tensor *t, const char *name);
/* Binds axis i of t to axes[i] of the view; t has been checked. */
attn_view attn_bind(const attn_tensor *t, const int *axes);
/* Checks an optional by-product: dtype f32 or f64 as computed, shape as given; binds it. axes: which of AXES its dimensions are. */
attn_status attn_bind_output(attn_ctx *ctx, attn_view *view, const attn_plan *p, const attn_tensor *t, const char *name, int n,
                             const int *axes);
/* Resolves p->opts (sdpa_options.c); rank is that of q. */
attn_status attn_plan_options(attn_ctx *ctx, attn_plan *p, int rank);
#endif
