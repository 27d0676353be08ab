/* SPDX-License-Identifier: Apache-2.0 */
/* Where written bytes go: a file descriptor through a buffer, with a checksum on the way. */
#ifndef ATTN_IO_SINK_H
#define ATTN_IO_SINK_H

#include <stdbool.h>

#include "attn/attn.h"

enum { SINK_BUFFER = 64 * 1024 };

struct sink {
    int fd;         /* -1: nowhere, only counted and summed */
    int error;      /* errno of the first failure; nothing is written after it */
    bool sum;       /* keep crc */
    uint32_t crc;   /* CRC-32 of what went in since it was last set to 0 */
    uint64_t count; /* bytes that went in */
    size_t used;
    unsigned char *buffer; /* SINK_BUFFER bytes */
};

void attn_sink_bytes(struct sink *s, const void *bytes, size_t size);
/* The elements of t in row-major order. */
void attn_sink_tensor(struct sink *s, const attn_tensor *t);
void attn_sink_flush(struct sink *s);

#endif
