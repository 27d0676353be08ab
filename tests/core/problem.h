/* SPDX-License-Identifier: Apache-2.0 */
/* A random call of attn_sdpa over the whole option space. */
#ifndef TESTS_CORE_PROBLEM_H
#define TESTS_CORE_PROBLEM_H
#include "support.h"

typedef struct problem {
    pool memory;
    bool packed;                      /* cu_seqlens are given */
    int32_t rank;                     /* of q, k, v */
    int64_t items;                    /* batch entries, or sequences */
    int64_t B, H, Hkv, Lq, Lk, d, d_v;/* packed: B = 1, Lq and Lk the rows of all sequences */
    attn_tensor q, k, v, out;
    attn_tensor mask, bias, offsets, kv_len, q_len, cu_q, cu_k, slopes, sinks, keep; /* those in use are pointed at by opts */
    attn_tensor lse, row_max, entropy, mass, weights, scores, scaled, capped, masked;
    attn_sdpa_opts opts;
    /* Where the library makes q, k and v itself (attn_mha), they are the reference's, in f64. Else all of this is zero. */
    attn_dtype real;                       /* what is computed in; 0: f64 if any of q, k, v is f64, else f32 */
    attn_tensor q_error, k_error, v_error; /* f64 in the shapes of q, k, v: how far the library's may be off; ndim 0: they are the same */
    bool rounds_weights;                   /* the call ran on dot products of bf16 (docs/numerics.md) */
    double *out_error;                     /* NULL, or [B,H,Lq,d_v]: within_bounds leaves the bound of `out` here; infinite: no promise */
} problem;

/* Problem number `stream` of `seed`. Free with pool_free(&p->memory). */
void random_problem(problem *p, uint64_t seed, uint64_t stream);
/* Its parts. Sizes, for a rank and `packed` that are set: */
void random_sizes(problem *p, rng *r);
/* Options and outputs, for sizes and what is computed in that are set: */
void random_options(problem *p, rng *r);
attn_dtype random_float(rng *r); /* mostly f32 */
attn_dtype computed_in(const problem *p);

/* One line that says what it is. */
void print_problem(const problem *p);
#endif
