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
} problem;

/* Problem number `stream` of `seed`. Free with pool_free(&p->memory). */
void random_problem(problem *p, uint64_t seed, uint64_t stream);
/* One line that says what it is. */
void print_problem(const problem *p);
#endif
