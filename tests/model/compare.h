/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of libattn_model share: rows against their reference, each element within its bound, and calls cut into parts whose bits
   must be those of the whole. */
#ifndef TESTS_MODEL_COMPARE_H
#define TESTS_MODEL_COMPARE_H
#include <attn/attn_model.h>
#include <model_ref.h>

#include "support.h"

#define U64 0x1p-53
#define TINY64 0x1p-1074

/* A float dtype at random. */
attn_dtype any_float(rng *r);

/* A row of t (rank <= 4), counted over its leading axes, as doubles. */
int64_t row_count(const attn_tensor *t);
int64_t row_width(const attn_tensor *t);
void read_row(double *to, const attn_tensor *t, int64_t row);

/* Is every element of a row of t within error[i] and one rounding of want[i]? error NULL = 0; INFINITY: not promised. Prints the first that
   is not. *share: the greatest share of a bound so far. */
bool row_is_near(const char *what, const attn_tensor *t, int64_t row, const double *want, const double *error, double *share);

/* Adversarial numbers: normal, on a high ground, equal, tiny, huge, zeros, one that stands out. `limit`: the greatest power of ten. */
void fill_adversarial(const attn_tensor *t, rng *r, int limit);
#endif
