/* SPDX-License-Identifier: Apache-2.0 */
/* Which variations give OUT? */
#ifndef ATTN_DIAGNOSE_SEARCH_H
#define ATTN_DIAGNOSE_SEARCH_H

#include "evaluator.h"
#include "mistakes.h"

/* How near a variation comes to OUT. */
typedef struct judgement {
    double max_abs, max_bounds;
    double finite; /* the greatest difference of two finite numbers */
    double beyond; /* the same where it is beyond the bound of the right answer, 0: nowhere */
    double square; /* sum of the squared differences of the first rows */
    bool changes;  /* it does not give the right answer on this data */
    bool silent;   /* it promises no number where OUT differs: it explains nothing */
    bool whole;    /* every row was compared; otherwise it was out of its bounds before */
} judgement;

/* A mistake or a pair that was judged. */
typedef struct finding {
    const mistake *part[2];
    int parts;
    const char *dialect; /* or NULL */
    variation v;
    judgement j;
    bool matches;
    double times_usual; /* how far off it is, in parts of what its own rounding makes; 0: not known, its bound is wide */
    int number; /* in the order of being found */
} finding;

typedef struct search {
    const problem *p;
    arena *m;
    evaluator e;
    const int64_t *rows; /* that are compared */
    int64_t count;
    int64_t *order;              /* places in rows: those that tell most first */
    double *right, *right_bound; /* [count][width] */
    judgement right_is;          /* of the right answer */
    double work;                 /* multiply-adds that one mistake may take */
    bool weights_known;          /* what dropout does could be seen */
    finding *found;
    int findings, room, tried, left_out;
} search;

/* The difference of one cell, in bounds: 0 = the same. NaN is met by NaN and an infinity by that infinity, unless the right answer itself
   is not finite: docs/numerics.md does not say which it is then. */
double share_of(const problem *p, double got, double want, double bound, double right, double *abs);
/* Is nothing promised of a cell with this bound? */
bool is_not_promised(const problem *p, double bound);
/* Judges the right answer on the rows of s, and orders them. */
void search_right(search *s);
/* Every mistake alone, and where none matches every two of them; the dialects. */
void search_all(search *s);
judgement search_judge(search *s, const variation *v, bool stop_early);
#endif
