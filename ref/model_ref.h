/* SPDX-License-Identifier: Apache-2.0 */
/* The definition of what attn_model.h puts around attention, in long double, written to be read: one row at a time, doubles in and out.
   Arguments must be valid: the library checks, this does not. */
#ifndef MODEL_REF_H
#define MODEL_REF_H
#include <attn/attn_model.h>
#include <stdbool.h>

/* out[n] = (x - mean) / sqrt(var + eps) * weight + bias; rms: out = x / sqrt(mean(x^2) + eps) * weight + bias.
   weight and bias may be NULL; plus_one: the factor is 1 + weight. */
typedef struct ref_norm_options {
    bool rms, plus_one;
    double eps;
    const double *weight, *bias;
} ref_norm_options;
void ref_norm(double *out, const double *x, int64_t n, const ref_norm_options *o);

double ref_activation(attn_activation f, double x);
/* A row of nothing but -inf gives 0. */
void ref_softmax(double *out, const double *x, int64_t n);

/* What the fields of d mean when they are 0. */
attn_rope_desc ref_rope_defaults(const attn_rope_desc *d);
/* Radians per position of pair p; d with its defaults, and without tables. */
double ref_rope_frequency(const attn_rope_desc *d, int64_t p);
/* row [head_dim] turned at a position. */
void ref_rope(double *row, const attn_rope_desc *d, int64_t position);
#endif
