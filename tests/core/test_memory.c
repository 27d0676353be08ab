/* SPDX-License-Identifier: Apache-2.0 */
/* 30 000 rows of 30 000 keys run in O(L) memory: what the context allocates does not grow with the length, and the process stays small. */
#define _DEFAULT_SOURCE /* getrusage */
#include "support.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* Bytes allocated by the context, and the most there were. */
typedef struct bytes {
    size_t now, most;
} bytes;

static void *counted_alloc(void *user, size_t align, size_t size) {
    bytes *b = user;
    size_t *memory = aligned_alloc(align, (size + 2 * align - 1) / align * align);
    if (!memory) {
        return NULL;
    }
    *memory = size;
    b->now += size;
    b->most = b->most > b->now ? b->most : b->now;
    return (char *)memory + align;
}

/* Every block of the library is 64-aligned. */
static void counted_free(void *user, void *memory) {
    bytes *b = user;
    size_t *block = (size_t *)(void *)((char *)memory - 64);
    b->now -= *block;
    free(block);
}

/* The most bytes that a causal call of L rows (1 head, d 64) on two threads took from the allocator; *spot = an output element. */
static size_t bytes_of(int64_t L, uint32_t threads) {
    pool memory = {0};
    rng r = rng_of(test_seed(), 1);
    bytes b = {0};
    const attn_ctx_opts o = {.threads = threads, .alloc = counted_alloc, .free = counted_free, .user = &b};
    attn_ctx *ctx = NULL;
    assert_int_equal(attn_ctx_create(&ctx, &o, NULL, 0), ATTN_OK);
    attn_tensor q = TENSOR(&memory, ATTN_F32, L, 64), v = TENSOR(&memory, ATTN_F32, L, 64), out = TENSOR(&memory, ATTN_F32, L, 64);
    attn_tensor lse = TENSOR(&memory, ATTN_F32, L);
    fill_normal(&q, &r, 1);
    fill_normal(&v, &r, 1);
    const attn_sdpa_opts options = {.flags = ATTN_CAUSAL, .lse = &lse};
    assert_ok(ctx, attn_sdpa(ctx, &out, &q, &q, &v, &options));
    for (int64_t c = 0; c < 64; c++) { /* the first row sees the first key only */
        assert_true(ref_element(&out, 0, 0, 0, c) == ref_element(&v, 0, 0, 0, c));
    }
    attn_ctx_destroy(ctx);
    assert_int_equal(b.now, 0);
    pool_free(&memory);
    return b.most;
}

static void memory_does_not_grow_with_the_length(void **state) {
    (void)state;
    const int64_t L = test_is_short() ? 3000 : 30000;
    const size_t few = bytes_of(1000, 2), many = bytes_of(L, 2), single = bytes_of(L, 1);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    print_message("scratch: %zu bytes for 1000 rows, %zu for %lld (one thread %zu); peak of the process %ld KiB\n", few, many, (long long)L,
                  single, usage.ru_maxrss);
    assert_true(many <= 4 * few);
    assert_true(many <= (size_t)16 << 20);
    /* q, v, out of 30000 x 64 floats are 23 MB; a 30000 x 30000 matrix would be 3.6 GB. */
    assert_true(usage.ru_maxrss < 200 * 1024);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(memory_does_not_grow_with_the_length)};
    return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
