/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the core share: memory that is freed together, random numbers, tensors of any dtype and layout, contexts. */
#ifndef TESTS_CORE_SUPPORT_H
#define TESTS_CORE_SUPPORT_H
#include <attn/attn.h>
#include <attn_ref.h>
#include <stdbool.h>

/* cmocka.h needs these before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

/* Memory that lives until pool_free. Running out of it ends the test program. */
typedef struct pool {
    struct pool_block *blocks;
} pool;
void *pool_get(pool *p, size_t size); /* zeroed */
void pool_free(pool *p);

/* xorshift64*: the same numbers on every machine. */
typedef struct rng {
    uint64_t state;
} rng;
rng rng_of(uint64_t seed, uint64_t stream);
uint64_t rng_next(rng *r);
int64_t rng_int(rng *r, int64_t low, int64_t high); /* both included */
double rng_unit(rng *r);                            /* [0,1) */
double rng_normal(rng *r);
bool rng_chance(rng *r, double p);

/* ATTN_TEST_SEED (default 1) and ATTN_TEST_COUNT (default given); an argument overrides neither. */
uint64_t test_seed(void);
int64_t test_count(int64_t otherwise);
/* ATTN_TEST_COUNT asks for fewer than the full 20000: an emulated CPU or an instrumented build. Tests of a fixed size do less then. */
bool test_is_short(void);

bool is_float_dtype(attn_dtype t);
/* x rounded to nearest even in dtype t, as a double. */
double rounded_to(attn_dtype t, double x);
/* Element [i0,i1,i2,i3] (leading axes that t lacks are ignored) = x, rounded to its dtype. */
void set_element(const attn_tensor *t, int64_t i0, int64_t i1, int64_t i2, int64_t i3, double x);

/* Packed, zeroed. */
attn_tensor new_tensor(pool *p, attn_dtype t, int32_t ndim, const int64_t *shape);
attn_tensor new_vector(pool *p, attn_dtype t, int64_t n);
#define SHAPE(...) ((const int64_t[]){__VA_ARGS__})
#define TENSOR(p, t, ...) new_tensor(p, t, (int32_t)(sizeof SHAPE(__VA_ARGS__) / sizeof(int64_t)), SHAPE(__VA_ARGS__))
/* Axes in a random order, some backwards, some with gaps; with `spread` now and then an axis of stride 0. Zeroed. */
attn_tensor new_scattered(pool *p, rng *r, attn_dtype t, int32_t ndim, const int64_t *shape, bool spread);

int64_t axis_extent(const attn_tensor *t, int axis); /* of [i0,i1,i2,i3]; 1 for axes that t lacks */
int64_t element_count(const attn_tensor *t);
void fill_normal(const attn_tensor *t, rng *r, double size);
/* Every element of to = that of from, rounded. */
void copy_elements(const attn_tensor *to, const attn_tensor *from);
/* Elements [begin, end) of one axis. */
attn_tensor slice(attn_tensor t, int axis, int64_t begin, int64_t end);
/* A packed copy. */
attn_tensor packed_copy(pool *p, const attn_tensor *t);
/* Are all elements the same bits? Prints the first that is not. */
bool same_bits(const char *what, const attn_tensor *a, const attn_tensor *b);
void fill_bytes(const attn_tensor *t, int byte); /* of a packed tensor */

/* A context of an ISA level (NULL = best) and thread count, or the test fails. */
attn_ctx *new_ctx(const char *isa, uint32_t threads);
/* Level i of those this CPU can run, NULL after the last. Levels that are built but cannot run are named once as skipped. */
const char *usable_isa(int i);
/* Fails with the sentence of the context unless s is ATTN_OK. */
#define assert_ok(ctx, call) assert_status(ctx, call, ATTN_OK, #call, __FILE__, __LINE__)
void assert_status(const attn_ctx *ctx, attn_status got, attn_status want, const char *call, const char *file, int line);
#endif
