/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel harness: what the tests of the kernels share. A case is made from a seed and a number alone, so that it can be repeated. */
#ifndef ATTN_HARNESS_H
#define ATTN_HARNESS_H
#include "bound.h"
#include "guarded.h"

#include "../../src/kernels/kernels.h"

/* A table of kernels, and the level that a machine needs to run it. */
typedef struct table {
    const char *name, *needs;
    const attn_kernels *f32, *f64;
    const attn_kernels *bf16; /* of pairs, or NULL */
} table;

/* An array [positions][heads][columns] in memory of its exact size. */
typedef struct array {
    const char *name;
    guarded memory;
    attn_rows rows;
    int64_t positions, heads, columns;
    bool is_output;
    unsigned char *before; /* of an input: its bytes when the kernel was called */
} array;

enum { MAX_ARRAYS = 48 };

typedef struct harness {
    /* What is under test. */
    const char *table, *kernel;
    const attn_kernels *kernels;
    attn_dtype real;
    bool is_of_pairs; /* real is float, q, k and v are bf16 */
    uint64_t seed;
    /* The case. */
    int64_t number;
    rng random;
    enum guard_side side;
    pool memory;
    array arrays[MAX_ARRAYS];
    int n_arrays;
    /* So far. */
    int64_t failures;
    tally worst;
} harness;

/* Reports a failure of the case, with what repeats it. */
void complain(harness *h, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* An array at a random place: layout, gaps between rows and the guarded side vary. plain: rows side by side. It holds canaries. */
array *new_array(harness *h, const char *name, attn_dtype dtype, int64_t positions, int64_t heads, int64_t columns);
array *new_plain_array(harness *h, const char *name, attn_dtype dtype, int64_t positions, int64_t heads, int64_t columns);
/* [1, heads, positions, columns] */
attn_tensor tensor_of_array(const array *a);

/* Keeps the bytes of the inputs; complains of every byte that was written outside an element of an output. */
void keep_inputs(harness *h);
void check_arrays(harness *h);

/* Runs call(user). False if it faults; complains of that, of a changed rounding mode, and of what check_arrays finds. */
bool call_kernel(harness *h, void (*call)(void *user), void *user);

/* One case of one kernel; the kernels' list in kernels.h names them all. */
#define DECLARE_TEST(ret, name, args) void test_##name(harness *h);
ATTN_KERNELS(DECLARE_TEST)
#undef DECLARE_TEST

/* Speed of every kernel of a table, beside its peak. */
void bench_table(const table *t);
#endif
