/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTN_NORM_H
#define ATTN_NORM_H
#include <attn/attn_model.h>

#include "rows.h"

/* Copies and checks the options of a norm of rows of n; eps is then what is added. */
attn_status attn_norm_check(attn_ctx *ctx, attn_norm_opts *own, const attn_norm_opts *theirs, int64_t n);
/* out = norm of x, by checked options; ATTN_NORM_RMS says which. out may be x. */
attn_status attn_norm_run(attn_ctx *ctx, const attn_tensor *out, const attn_tensor *x, const attn_norm_opts *o);
/* out = norm of x + other, where the sum is rounded to the dtype of out, f32 or f64, first: the bits of attn_add_run and attn_norm_run. x
   and other are of that dtype or shorter. out may be either. */
attn_status attn_add_norm_run(attn_ctx *ctx, const attn_tensor *out, const attn_tensor *x, const attn_tensor *other,
                              const attn_norm_opts *o);
#endif
