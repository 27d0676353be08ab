/* SPDX-License-Identifier: Apache-2.0 */
/* What is diagnosed, read into float64 once, with the facts that decide which mistakes are possible. */
#ifndef ATTN_DIAGNOSE_PROBLEM_H
#define ATTN_DIAGNOSE_PROBLEM_H

#include "diagnose.h"

#include <stdbool.h>
#include <stdint.h>

/* Memory that is freed together. */
typedef struct arena {
    void **block;
    int blocks, room;
    bool failed; /* an allocation was refused: what was asked for since is not usable */
} arena;
void *arena_zeroed(arena *m, int64_t count, size_t size); /* NULL only when memory runs out */
void arena_free(arena *m);

/* The constants of docs/numerics.md for the precision that OUT was computed in. */
typedef struct arithmetic {
    double u;           /* unit roundoff */
    double exp, tanh;   /* relative errors of these functions, argument exact */
    double tiny, least; /* smallest denormal, smallest normal */
    double most;
    double slack; /* second-order terms; f64: and the reference's own errors, which are of the same size */
} arithmetic;
arithmetic arithmetic_of(attn_dtype t); /* f64, else f32 */
double roundoff_of(attn_dtype t);
double denormal_of(attn_dtype t);
double greatest_of(attn_dtype t);

/* What a problem has; a mistake needs some of it. */
enum fact {
    FACT_SDPA = 1 << 0,
    FACT_MHA = 1 << 1,
    FACT_MASK = 1 << 2,  /* bool or integer */
    FACT_ADDED = 1 << 3, /* bias or float mask */
    FACT_HIDES = 1 << 4, /* mask, added, causal, window or kv_len */
    FACT_MASK_OR_ADDED = 1 << 5,
    FACT_KV_LEN = 1 << 6,
    FACT_Q_LEN = 1 << 7,
    FACT_CAUSAL = 1 << 8,
    FACT_POSITION = 1 << 9, /* causal, window or ALiBi */
    FACT_WINDOW = 1 << 10,
    FACT_LEFT = 1 << 11, /* a limit on that side of the window */
    FACT_RIGHT = 1 << 12,
    FACT_CAP = 1 << 13,
    FACT_SHARED = 1 << 14, /* Hkv < H */
    FACT_HEADS = 1 << 15,  /* H > 1 */
    FACT_ROPE = 1 << 16,
    FACT_SQUARE = 1 << 17, /* Lq == Lk */
    FACT_D_IS_LK = 1 << 18,
    FACT_D_IS_DV = 1 << 19,
    FACT_SINKS = 1 << 20,
    FACT_ALIBI = 1 << 21,
    FACT_SLOPES = 1 << 22, /* given in a file */
    FACT_DROPOUT = 1 << 23,
    FACT_SEEN_WEIGHTS = 1 << 24, /* the weights are known: given, or solved for */
    FACT_SCALE = 1 << 25,        /* given */
    FACT_KEY_MASK = 1 << 26,     /* a mask with one row for all queries */
    FACT_PACKED = 1 << 27,
    FACT_LAYOUT = 1 << 28, /* heads to confuse with positions */
    FACT_NO_DROPOUT = 1 << 30,
    FACT_BOTH = 1 << 29 /* mask and added */
};

typedef struct problem {
    attn_sdpa_opts o;
    bool packed, blhd;
    int64_t B, H, Hkv, Lq, Lk, d, d_v;
    const diagnose_rope *rope; /* NULL: none */
    const double *q, *k, *v; /* [B,H,Lq,d] [B,Hkv,Lk,d] [B,Hkv,Lk,d_v]; NULL in mha */
    bool mha;
    const double *x[3]; /* what the projections of q, k, v read: [B,Lq,in[0]] [B,Lk,in[1]] [B,Lk,in[2]] */
    int64_t in[3];
    const double *w[3]; /* [in][columns], columns = heads * head size; in the order q, k, v */
    const double *b[3]; /* [columns] or NULL */
    int64_t columns[3];
    const double *w_o, *b_o; /* [H*d_v][out]; w_o NULL: the output is the heads joined */
    int64_t out;
    attn_dtype dtype; /* of OUT */
    arithmetic a;
    bool given; /* tolerances were given */
    double rtol, atol;
    int64_t rows, width;       /* of what is compared: [B*H*Lq][d_v], or [B*Lq][out] */
    int decimals;              /* that all numbers of OUT have, -1: many */
    const double *got;         /* [rows][width] */
    const double *got_weights; /* [B,H,Lq,Lk] or NULL */
    const uint8_t *seen_kept;  /* [B,H,Lq,Lk]: which weights were kept, with FACT_SEEN_WEIGHTS */
    double seen_p;
    unsigned facts;
} problem;

/* How far a number of the dtype of OUT may be from `want`, whose computation is off by `bound` at most. */
double limit_of(const problem *p, double want, double bound);

/* Reads everything but OUT. The arguments must be valid: attn_sdpa or attn_mha took them. false: memory ran out. */
bool problem_read(problem *p, arena *m, const diagnose_input *in);
/* Precision, tolerances and facts, once the dtype of OUT is known. */
void problem_settle(problem *p, const diagnose_input *in, attn_dtype dtype);
/* Sets decimals. */
void problem_count_decimals(problem *p);
/* Sets p->facts from the rest of p. */
void problem_facts(problem *p);
/* The shape of the right answer; returns its rank. */
int32_t problem_shape(const problem *p, const diagnose_input *in, int64_t shape[4]);
/* Element i of a vector of integers, or `otherwise` when there is no vector. */
int64_t integer_or(const attn_tensor *t, int64_t i, int64_t otherwise);
double right_scale(const problem *p);
bool tensor_is_float(const attn_tensor *t);
#endif
