/* SPDX-License-Identifier: Apache-2.0 */
/* How far an ordinary f32 computation is off (docs/numerics.md, "What is usual"). */
#ifndef ATTN_DIAGNOSE_USUAL_H
#define ATTN_DIAGNOSE_USUAL_H

#include "evaluator.h"

typedef struct usual_error {
    double abs;   /* the greatest, beside the last rounding */
    double share; /* of its bound, at most 1 */
} usual_error;

static const usual_error usual_unknown = {0, 1};
/* Others sum in another order, or take a less exact power: no rounding is so many times off. */
static const double times_usual_allowed = 64;

/* Of this variation of mha on these rows; unknown of attention alone, where a bound has to be wide, nothing is promised, or the
   computation would take too long. */
usual_error usual_error_of(evaluator *e, const variation *v, const int64_t *rows, int64_t count);
#endif
