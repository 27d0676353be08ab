/* SPDX-License-Identifier: Apache-2.0 */
/* A weight matrix and its bias: checked, and packed for the linear kernel. */
#ifndef ATTN_MATRIX_H
#define ATTN_MATRIX_H
#include "../core/ctx.h"

/* W [terms][columns] packed for the linear kernel of one ISA level, and its bias [columns]. */
typedef struct attn_matrix {
    void *packed;     /* NULL: the matrix is absent */
    int is_lent;      /* packed lies in a block that somebody else frees */
    attn_dtype dtype; /* of the packed weights: f16 and bf16 as they were given, else what is computed in */
    void *bias;       /* reals; NULL: none */
    int64_t terms, columns;
} attn_matrix;

/* A weight matrix of any form as (terms, columns): rank 2, a table per head (H, in, d), or some columns of a fused one. */
typedef struct attn_weight_source {
    const attn_tensor *w, *b;
    const char *name, *bias_name;
    int64_t heads;        /* whose columns lie side by side */
    int64_t first_column; /* of a fused matrix */
    int64_t terms, columns;
} attn_weight_source;

enum { ATTN_MAX_COLUMNS = 1 << 24 }; /* of a projection, and its terms: far beyond any model, and their products stay below 63 bits */

/* Is t a tensor of a float dtype with `least` to `most` axes? forms: what the sentence says is needed. */
ATTN_PRIVATE attn_status attn_check_floats(attn_ctx *ctx, const attn_tensor *t, const char *name, int least, int most, const char *forms);
/* terms and columns have been filled in. */
ATTN_PRIVATE attn_status attn_check_matrix_size(attn_ctx *ctx, const attn_weight_source *s);
/* whole: the columns of the matrix that the bias belongs to. */
ATTN_PRIVATE attn_status attn_check_bias(attn_ctx *ctx, const attn_weight_source *s, int64_t whole);

/* Packs what has been checked, on all threads. On failure m may be half filled: free it. */
ATTN_PRIVATE attn_status attn_matrix_pack(attn_ctx *ctx, attn_matrix *m, int is_f64, const attn_weight_source *s);

/* Matrices of a layer that are packed together: the threads meet once instead of once for each, and one block has room for all, big enough
   for huge pages. While ctx->together is set, attn_matrix_pack fills in m but for m->packed; m and the tensors of s must stay. */
enum { ATTN_MOST_TOGETHER = 11 };
typedef struct attn_packing {
    const attn_kernels *kernels;
    attn_weight_source source;
    attn_matrix *m;
    int64_t slab; /* bytes of the copy of some columns that each thread has; 0: packed from where they are */
} attn_packing;
typedef struct attn_together {
    attn_packing list[ATTN_MOST_TOGETHER];
    int count;
} attn_together;
/* Packs those that wait. *block: their memory, to be freed behind them; attn_matrix_free leaves it alone. */
ATTN_PRIVATE attn_status attn_matrix_pack_together(attn_ctx *ctx, attn_together *all, void **block);
ATTN_PRIVATE void attn_matrix_free(const attn_matrix *m, void (*release)(void *user, void *p), void *user);
#endif
