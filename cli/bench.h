/* SPDX-License-Identifier: Apache-2.0 */
/* `attn bench`: a table of cases, one runner, three printers of the same results. */
#ifndef ATTN_CLI_BENCH_H
#define ATTN_CLI_BENCH_H

#include "options.h"

#include <attn/attn.h>

typedef enum bench_kind { BENCH_SDPA, BENCH_MHA, BENCH_PROJECTION } bench_kind;
typedef enum bench_mask { BENCH_NO_MASK, BENCH_BOOL, BENCH_ADDITIVE } bench_mask;
typedef enum bench_threads { BENCH_AS_TOLD, BENCH_ONE, BENCH_ALL } bench_threads; /* 1 unless told; always 1; all there are unless told */

/* BENCH_SDPA: q [heads,queries,dim], k and v [kv_heads,keys,dim]. With one query dtype is that of the cache alone, the rest is f32.
   BENCH_MHA: x [queries,heads*dim], self-attention with all four projections.
   BENCH_PROJECTION: [queries,keys] times weights [keys,dim]. */
typedef struct bench_case {
    const char *suite;
    bench_kind kind;
    attn_dtype dtype;
    int64_t heads, kv_heads, queries, keys, dim;
    unsigned flags; /* ATTN_CAUSAL, ATTN_RELAXED, ATTN_WINDOW */
    int64_t window; /* keys before the position, with ATTN_WINDOW */
    bench_mask mask;
    bench_threads threads;
    int beside; /* the case so many rows above is measured in turns with this one; 0: none */
} bench_case;

extern const bench_case bench_cases[];
extern const int bench_case_count;

enum { BENCH_NAME = 64 };
/* Tells the case apart from all others of its suite: "f32 (14/2,2048,64) causal". */
void bench_name(char out[BENCH_NAME], const bench_case *c);
/* Multiply-adds times two, of visible cells only. */
double bench_flops(const bench_case *c);
/* K and V, or the weights, where reading them is what takes the time; else 0. */
int64_t bench_bytes(const bench_case *c);

typedef struct bench_spread {
    double median, low, high; /* low and high: the quartiles */
} bench_spread;

typedef struct bench_result {
    const bench_case *c;
    attn_info info;
    int samples;
    bench_spread seconds;
    attn_dtype peak;     /* what the limit in GFLOP/s is of: f32, or dot products of bf16 */
    bench_spread limit;  /* GFLOP/s, or GB/s where bench_bytes is not 0 */
    bench_spread share;  /* of the limit measured in the same turn */
    bench_spread beside; /* time of the other case over this one's in the same turn */
    int64_t memory;      /* most bytes that the library held at a time */
    bool has_before;
    bench_spread before; /* --compare: the former time over this one */
} bench_result;

/* Measures one case for `seconds` at least. 0, or an exit code after a message. */
int bench_run(bench_result *r, const bench_case *c, const options *o, double seconds);

/* Reads what a former run printed with --json and fills in `before` of the cases that it has too. 0, or an exit code after a message. */
int bench_compare(bench_result *results, int count, const char *path);

/* Each returns an exit code. */
int bench_print_text(const bench_result *results, int count);
int bench_print_markdown(const bench_result *results, int count);
int bench_print_json(const bench_result *results, int count, const char *suite);
#endif
