/* SPDX-License-Identifier: Apache-2.0 */
/* The outputs of a call against the reference, each element within the error bound of docs/numerics.md for its own data. */
#ifndef TESTS_CORE_BOUND_H
#define TESTS_CORE_BOUND_H
#include "problem.h"

enum quantity { OUTPUT, LSE, ROW_MAX, ENTROPY, MASS, WEIGHTS, AVERAGE, SCORES, SCALED, CAPPED, MASKED, QUANTITIES };
extern const char *const quantity_name[QUANTITIES];

/* The greatest share of its bound that any element of a quantity used, and how many elements were compared. */
typedef struct tally {
    double share[QUANTITIES];
    int64_t compared[QUANTITIES];
    int64_t not_promised; /* rows whose arithmetic may overflow, where nothing is compared */
} tally;

/* Prints the first element out of its bound; false then. */
bool within_bounds(problem *p, const ref_result *r, tally *t);
#endif
