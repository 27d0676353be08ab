/* SPDX-License-Identifier: Apache-2.0 */
/* SipHash-1-3 (Aumasson and Bernstein 2012): nobody who does not know the key can make texts that share their slots, which would turn the
   reading of a vocabulary quadratic. */
#ifndef ATTN_TEXT_HASH_H
#define ATTN_TEXT_HASH_H
#include <stddef.h>
#include <stdint.h>

struct hash_key {
    uint64_t k[2];
};

/* Another one each time. */
struct hash_key attn_hash_key(void);
uint64_t attn_hash(const struct hash_key *key, const void *bytes, size_t size);
#endif
