/* SPDX-License-Identifier: Apache-2.0 */
/* The logarithms at the end of a row, computed here once in double for every kernel. */
#include "../kernels/kernels.h"

#include <math.h>

/* Any NaN becomes the one NaN: which operand's bits an operation passes on is the compiler's choice. */
static double one_nan(double x) { return isnan(x) ? (double)NAN : x; }

double attn_log_sum(double max, double sum) { return sum == 0 ? -INFINITY : one_nan(max + log(sum)); }

/* -sum w ln w with ln w = (score - max) - ln sum */
double attn_entropy(double seen, double spread, double sum) { return seen == 0 ? 0 : one_nan(spread + seen * log(sum)); }
