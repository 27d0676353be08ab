/* SPDX-License-Identifier: Apache-2.0 */
/* A call of attn_sdpa that can be cut into calls over some of its rows, heads and batch entries. */
#ifndef TESTS_CORE_CALL_H
#define TESTS_CORE_CALL_H
#include "support.h"

enum feature {
    CAUSAL = 1,
    WINDOW = 2,
    ALIBI = 4,
    BIAS = 8,
    MASK = 16,
    SINKS = 32,
    SOFTCAP = 64,
    DROPOUT = 128,
    FAR = 256,   /* with WINDOW: 700 keys to the left instead of 45 */
    STEEP = 512, /* logits of +-30, so that running maxima grow */
    TINY = 1024, /* values of a denormal or two, so that weighted sums become zeros of either sign */
    RELAXED = 2048,
};

typedef struct sizes {
    int64_t B, H, Hkv, Lq, Lk, d, d_v;
} sizes;

/* Rows i of heads h of entries b, each from the first up to but not including the second. */
typedef struct range {
    int64_t b0, b1, h0, h1, i0, i1;
} range;

/* Tensors of ndim 0 are absent. The rows stand at the last positions of the keys: offset Lk - Lq. */
typedef struct call {
    sizes s;
    attn_tensor q, k, v, mask, bias, slopes, sinks; /* inputs */
    attn_tensor out, lse, row_max, entropy, weights;
    attn_sdpa_opts o; /* its tensors are set by call_run */
} call;

call new_call(pool *p, rng *r, attn_dtype t, sizes s, unsigned features);
/* The same call over a part of the rows, with outputs of its own; its inputs are views. */
call part_of(pool *p, const call *whole, range part);
/* The same values in other layouts. */
call scattered(pool *p, rng *r, const call *c);
/* Without the keys from n on. */
call first_keys(pool *p, const call *c, int64_t n);

attn_status call_run(attn_ctx *ctx, call *c);
attn_status call_attend(attn_ctx *ctx, const attn_kv *kv, call *c);
/* Are the outputs of `part` the bits of those rows of `whole`? A cut of the keys cuts the weights that are compared. */
bool same_rows(const char *what, const call *whole, range part, const call *c);
#endif
