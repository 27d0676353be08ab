/* SPDX-License-Identifier: Apache-2.0 */
/* Attention as a variation computes it, in float64, with the error bound of docs/numerics.md for every number:

       heads.c    q, k, v: read, projected, split
       turn.c     q, k (v): turned by RoPE
       row.c      one row: scores -> scaled -> capped -> masked
       softmax.c  one row: weights -> dropout -> output
       deliver.c  a row of what is handed over: concat, W_O, the order of the memory

   The variation that is zero gives what ref/attn_ref.c gives. */
#ifndef ATTN_DIAGNOSE_EVALUATOR_H
#define ATTN_DIAGNOSE_EVALUATOR_H

#include "problem.h"
#include "variation.h"

/* How a hidden (or seen) key enters the row. */
enum fate {
    FATE_SEEN,   /* as a score */
    FATE_GONE,   /* not at all */
    FATE_ZEROED, /* in the softmax, its weight 0 afterwards */
    FATE_ADDED   /* in the softmax, something added to its weight afterwards */
};

/* Row i of query head h of batch entry b, and where it stands. */
typedef struct row_place {
    int64_t b, h, i;
    int64_t item;            /* b; packed input: the sequence that the row belongs to */
    int64_t local;           /* i; packed input: counted from the first row of the sequence */
    int64_t first_key, keys; /* the item's keys are first_key .. first_key + keys - 1 */
    int64_t q_len, kv_len;   /* valid rows of the item, as this variation sees them */
    int64_t pos;             /* position among the item's keys; anchors window and ALiBi */
    int64_t causal_pos;      /* and the causal order */
    bool padding;            /* a row of nothing: past q_len, or hidden as a query by mistake */
} row_place;

/* The numbers of one row, [Lk] each unless said otherwise. */
typedef struct row_values {
    double *scores, *scaled, *capped, *masked;
    double *error;           /* bound of the error of masked */
    uint8_t *hidden, *fate;  /* ATTN_HIDDEN_*, enum fate */
    uint8_t *overflows;      /* this score is beyond what docs/numerics.md promises */
    double *after;           /* what is added to the weight afterwards */
    double *weights, *drift; /* after dropout, and the bounds of their errors */
    double *output, *limit;  /* [d_v] and the bounds */
    double row_max, lse;
    double entropy; /* before dropout */
    bool risky;     /* its arithmetic may overflow: nothing is promised */
    bool coarse;    /* its logits are so large that rounding moves them by much: what is usual says little */
} row_values;

/* Rows that share a softmax: those of a head (columns, all cells) or those of the heads (one position). */
typedef struct softmax_group {
    int64_t b, h, i; /* what it was made for; the heads share one at each i, the rows of a head one at each h */
    bool made;
    double *top, *sum, *grown, *count; /* [Lk], or the first of them for all cells: greatest logit, sum of the powers, the same with
                                          every power as large as its error allows, members */
} softmax_group;

/* The angles of one array of rows. */
typedef struct turn_table {
    const int64_t *at; /* the positions that it was made for; NULL: not made yet */
    uint8_t places;
    bool rounded;  /* the angles are those of an f32 computation */
    int64_t width; /* columns that turn together */
    double theta;
    long double *cos, *sin; /* [B][L][width / 2] */
    double *angle;
} turn_table;

typedef struct evaluator {
    const problem *p;
    arena *m;
    variation v;
    arithmetic a; /* of the precision that this variation computes in */
    bool has_heads;
    int64_t B, H, Hkv, Lq, Lk, d, d_v;  /* of q, k, v as this variation sees them */
    double *q, *k, *v_, *dq, *dk, *dv;  /* [B,H,Lq,d] ...; dq, dk, dv bound their errors, NULL: exact */
    double *own[6];                     /* memory for them */
    double *projected[6];               /* mha: the right ones, before rows are moved or rounded; NULL: not made yet */
    turn_table table[2][3];             /* the right ones and another: of q, k, v */
    double *linear_size, *linear_error; /* scratch of one row of a projection */
    double *turned, *w_o_turned;        /* a matrix transposed or rounded */
    const double *w_o;                  /* as the variation has it */
    double *moved;                      /* one of q, k, v before its rows are moved */
    double work;                        /* multiply-adds done so far, about */
    bool all_scores;                    /* scores of keys that are left out are wanted too */
    double greatest;                    /* finite magnitude in q, k and v */
    bool coarse;                        /* one of the rows that were joined last was */
    double sharp;                       /* the part of its bounds that the right answer is allowed (usual.h) */
    row_values row;
    softmax_group group;
    double *joined, *joined_error;      /* one row of the heads joined, or projected */
    double *out, *out_limit;            /* [width]: one row delivered */
    double weights_bounds, weights_abs; /* the greatest difference of the weights to those given, since it was set to 0 */
} evaluator;

/* false: memory ran out. */
bool evaluator_open(evaluator *e, const problem *p, arena *m);
/* The part of its bounds that the variation is allowed: of the right answer less than all, others are judged by their own rounding. */
double sharpness(const evaluator *e);
/* Turns to a variation. It must be possible. */
void evaluator_set(evaluator *e, const variation *v);
/* Can this problem be computed so? */
bool variation_possible(const problem *p, const variation *v);
/* Multiply-adds of one row delivered, and of what is computed before the first of them. */
double evaluator_row_cost(const problem *p, const variation *v);
double evaluator_setup_cost(const problem *p, const variation *v);

/* Row `at` of what is handed over: out[width], and the bound of each error (before rounding to the dtype of OUT) in out_limit[width]. */
void evaluator_deliver(evaluator *e, int64_t at);
/* One row of attention, into e->row. */
void evaluator_row(evaluator *e, int64_t b, int64_t h, int64_t i);
/* Up to masked only. */
void row_logits(evaluator *e, const row_place *w);
row_place row_of(const evaluator *e, int64_t b, int64_t h, int64_t i);

/* q, k, v and their bounds for e->v.in */
void heads_make(evaluator *e);
/* Turns them as the variation has it; the bounds grow. There is a rope. */
void heads_turn(evaluator *e);
/* W_O as the variation has it, but for being left out. */
const double *output_matrix(evaluator *e);
int64_t kv_head_of(const evaluator *e, int64_t h);
/* y[n] = x[m] W[m][n] + bias[n] and the bound dy of its error; dx NULL: x is exact. */
void linear_row(evaluator *e, double *y, double *dy, const double *x, const double *dx, const double *w, const double *bias, int64_t m,
                int64_t n);
/* Rounded to the precision of the variation: what is stored, each sum as it grows, each product before it is added. */
double keep(const evaluator *e, double x);
double keep_input(const evaluator *e, double x); /* q, k, v themselves */
bool keeps_sums(const evaluator *e); /* sums are rounded as they grow */
double keep_sum(const evaluator *e, double x);
double keep_product(const evaluator *e, double x);
double round_to(attn_dtype t, double x);
#endif
