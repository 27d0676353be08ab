/* SPDX-License-Identifier: Apache-2.0 */
#define _DEFAULT_SOURCE /* getentropy */
#include "hash.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

struct hash_key attn_hash_key(void)
{
    struct hash_key key;
    struct timespec now = {0};
    if (getentropy(&key, sizeof key) == 0)
        return key;
    /* A kernel that gives none: the clock and where the stack is. */
    clock_gettime(CLOCK_MONOTONIC, &now);
    key.k[0] = (uint64_t)(uintptr_t)&key * 0x9e3779b97f4a7c15U;
    key.k[1] = ((uint64_t)now.tv_sec << 30 ^ (uint64_t)now.tv_nsec) * 0x9e3779b97f4a7c15U;
    return key;
}

static uint64_t rotated(uint64_t x, int by) { return x << by | x >> (64 - by); }

static void mix(uint64_t v[4])
{
    v[0] += v[1];
    v[2] += v[3];
    v[1] = rotated(v[1], 13) ^ v[0];
    v[3] = rotated(v[3], 16) ^ v[2];
    v[0] = rotated(v[0], 32) + v[3];
    v[2] += v[1];
    v[1] = rotated(v[1], 17) ^ v[2];
    v[3] = rotated(v[3], 21) ^ v[0];
    v[2] = rotated(v[2], 32);
}

/* Bytes are read as this machine has them: a hash lives no longer than its process. */
uint64_t attn_hash(const struct hash_key *key, const void *bytes, size_t size)
{
    const unsigned char *p = bytes;
    uint64_t v[4] = {key->k[0] ^ 0x736f6d6570736575U, key->k[1] ^ 0x646f72616e646f6dU, key->k[0] ^ 0x6c7967656e657261U,
                     key->k[1] ^ 0x7465646279746573U};
    for (size_t left = size;; left -= 8, p += 8) {
        uint64_t word = 0;
        memcpy(&word, p, left < 8 ? left : 8);
        word |= left < 8 ? (uint64_t)size << 56 : 0;
        v[3] ^= word;
        mix(v);
        v[0] ^= word;
        if (left < 8)
            break;
    }
    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++)
        mix(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}
