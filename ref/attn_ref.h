/* SPDX-License-Identifier: Apache-2.0 */
/* The definition of attention, in float64, written to be read. It is not fast and not small: it holds every Lq x Lk matrix.
   Every kernel of the library is tested against it. Arguments must be valid: attn_sdpa checks, this does not. */
#ifndef ATTN_REF_H
#define ATTN_REF_H
#include <attn/attn.h>

/* Everything that attention is made of, packed row-major. Free with ref_free. */
typedef struct ref_result {
    int64_t B, H, Lq, Lk, d, d_v; /* packed (cu_seqlens) input: B = 1 and Lq, Lk the rows of all sequences */
    double *scores, *scaled, *capped, *masked, *weights; /* [B,H,Lq,Lk]; weights after dropout; packed input: cells between two
                                                             sequences are hidden, scores 0 and masked -inf there */
    double *output;                                      /* [B,H,Lq,d_v] */
    double *lse, *row_max, *entropy;                     /* [B,H,Lq] */
    double *mass;                                        /* [B,H,Lk] */
    double *average;                                     /* [B,Lq,Lk]: weights averaged over the heads */
    uint8_t *hidden;                                     /* [B,H,Lq,Lk]: ATTN_HIDDEN_* bits, 0 = visible; a key of another sequence
                                                            is ATTN_HIDDEN_KV_LEN */
} ref_result;

/* q, k, v, opts as in attn_sdpa; struct_size and the output tensors of opts are ignored. |offset| < 2^53. Non-finite values follow IEEE
   arithmetic with the row maximum taken off: a visible score of -inf has weight 0, a row of nothing else is NaN.
   Returns 0, or -1 when memory runs out; then *r holds nothing. */
int ref_sdpa(ref_result *r, const attn_tensor *q, const attn_tensor *k, const attn_tensor *v, const attn_sdpa_opts *opts);
void ref_free(ref_result *r);

/* Element [i0,i1,i2,i3] of a tensor of rank <= 4 as a double: leading axes that it lacks are ignored, axes of size 1 spread. */
double ref_element(const attn_tensor *t, int64_t i0, int64_t i1, int64_t i2, int64_t i3);

/* c = Philox4x32-10 (Salmon et al. 2011) of the counter c under the key {key0, key1}. */
void ref_philox4x32_10(uint32_t c[4], uint32_t key0, uint32_t key1);

/* 1 if dropout keeps the weight of (b, h, i, j): word j % 4 of Philox4x32-10 with the key {seed low, seed high} and the
   counter {j / 4, i, h, b} (each modulo 2^32), as a fraction of 2^32, is at least p. */
int ref_dropout_keeps(uint64_t seed, double p, int64_t b, int64_t h, int64_t i, int64_t j);

/* C [m,n] = A [m,k] B [k,n] + bias [n] (bias may be NULL), all packed. */
void ref_linear(double *c, const double *a, const double *b, const double *bias, int64_t m, int64_t k, int64_t n);
#endif
