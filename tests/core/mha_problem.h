/* SPDX-License-Identifier: Apache-2.0 */
/* A random call of attn_mha: projections of every form around a random problem of attn_sdpa. */
#ifndef TESTS_CORE_MHA_PROBLEM_H
#define TESTS_CORE_MHA_PROBLEM_H
#include "problem.h"

enum { OF_Q, OF_K, OF_V, OF_O, PROJECTIONS };

/* W [terms][columns] and its bias, wherever they are stored. */
typedef struct weights_view {
    const attn_tensor *w, *b; /* NULL: absent */
    int64_t first_column;     /* of a fused matrix */
    int64_t terms, columns;
} weights_view;

typedef struct mha_problem {
    problem p; /* the attention inside, in rank 3 or 4; q, k and v are not filled in, out is opts.z */
    attn_tensor x, memory, memory_v, out;
    const attn_tensor *given_memory, *given_memory_v; /* what attn_mha is called with: NULL, or the two */
    attn_tensor w[PROJECTIONS], b[PROJECTIONS];       /* a fused matrix is the first */
    weights_view view[PROJECTIONS];
    attn_tensor q, k, v; /* outputs */
    attn_mha_desc desc;
    attn_mha_opts opts;
} mha_problem;

/* Problem number `stream` of `seed`. Free with pool_free(&m->p.memory). */
void random_mha_problem(mha_problem *m, uint64_t seed, uint64_t stream);
void print_mha_problem(const mha_problem *m);
#endif
