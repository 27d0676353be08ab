/* SPDX-License-Identifier: Apache-2.0 */
/* The dropout generator: Philox4x32-10 (Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3"), counter-based, so
   that the weight of (b, h, i, j) is kept or not whatever call, thread or tile asks. Key {seed low, seed high}, counter
   {j / 4, i, h, b}, each modulo 2^32; word j % 4 as a fraction of 2^32 is kept if it is at least p. */
#ifndef ATTN_DROPOUT_H
#define ATTN_DROPOUT_H
#include <stdint.h>

typedef struct attn_drop_row {
    uint32_t key[2], row, head, batch;
    int64_t quad;     /* j / 4 of the words held, -1 = none */
    uint32_t word[4];
} attn_drop_row;

static inline attn_drop_row attn_drop_row_of(uint64_t seed, int64_t b, int64_t h, int64_t i)
{
    return (attn_drop_row){ .key = { (uint32_t)seed, (uint32_t)(seed >> 32) },
                            .row = (uint32_t)i, .head = (uint32_t)h, .batch = (uint32_t)b, .quad = -1 };
}

static inline void attn_philox(uint32_t c[4], const uint32_t key[2])
{
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53 * c[0], b = (uint64_t)0xCD9E8D57 * c[2];
        uint32_t c0 = (uint32_t)(b >> 32) ^ c[1] ^ k0, c2 = (uint32_t)(a >> 32) ^ c[3] ^ k1;
        c[1] = (uint32_t)b;
        c[3] = (uint32_t)a;
        c[0] = c0;
        c[2] = c2;
        k0 += 0x9E3779B9;
        k1 += 0xBB67AE85;
    }
}

static inline int attn_drop_keeps(attn_drop_row *r, int64_t j, double p)
{
    if (r->quad != j / 4) {
        uint32_t counter[4] = { (uint32_t)(j / 4), r->row, r->head, r->batch };
        attn_philox(counter, r->key);
        for (int i = 0; i < 4; i++)
            r->word[i] = counter[i];
        r->quad = j / 4;
    }
    return r->word[j % 4] * 0x1p-32 >= p;
}
#endif
