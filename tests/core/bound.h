/* SPDX-License-Identifier: Apache-2.0 */
/* The outputs of a call against the reference, each element within the error bound of docs/numerics.md for its own data. */
#ifndef TESTS_CORE_BOUND_H
#define TESTS_CORE_BOUND_H
#include "problem.h"

enum quantity { OUTPUT, LSE, ROW_MAX, ENTROPY, MASS, WEIGHTS, AVERAGE, SCORES, SCALED, CAPPED, MASKED, PROJECTED, JOINED, QUANTITIES };
extern const char *const quantity_name[QUANTITIES];

/* The greatest share of its bound that any element of a quantity used, and how many elements were compared. */
typedef struct tally {
    double share[QUANTITIES];
    int64_t compared[QUANTITIES];
    int64_t not_promised; /* rows (JOINED: elements) whose arithmetic may overflow, where nothing is compared */
} tally;

/* Prints the first element out of its bound; false then. */
bool within_bounds(problem *p, const ref_result *r, tally *t);

/* A matrix, and how far each element of the library's may be off. Both packed [rows][columns]. */
typedef struct estimate {
    int64_t rows, columns;
    double *value, *error;
} estimate;
estimate new_estimate(pool *m, int64_t rows, int64_t columns);
/* a W + bias computed in f32 or f64: W exact, [a->columns][columns], bias NULL or [columns]. */
estimate linear_estimate(pool *m, attn_dtype real, const estimate *a, const double *w, const double *bias, int64_t columns);
/* Is t, its elements in row-major order, what e says? Prints the first that is not. */
bool meets_estimate(const attn_tensor *t, const estimate *e, attn_dtype real, enum quantity what, tally *met);
#endif
