/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of a file: borrowed, mapped, or read as they arrive. */
#ifndef ATTN_IO_BYTES_H
#define ATTN_IO_BYTES_H

#include <stdbool.h>

#include "report.h"

struct bytes {
    const unsigned char *data;
    size_t size;
    enum { BYTES_BORROWED, BYTES_MAPPED, BYTES_HEAP } kind;
};

attn_status attn_bytes_map(struct bytes *b, int fd, size_t size, const struct report *r);
void attn_bytes_release(struct bytes *b);
/* The pages of a mapping that were read may go; they are read again when used. */
void attn_bytes_forget(const struct bytes *b);

/* Anything that yields bytes in order. read returns how many, 0 at the end, -attn_status after having written the sentence. */
struct source {
    int64_t (*read)(void *user, void *to, size_t size, const struct report *r);
    void *user;
};
struct source attn_source_of_fd(int *fd);

/* A buffer that grows with what arrives: never more than twice that, whatever a header announces. */
struct buffer {
    unsigned char *data; /* free() it */
    size_t size, capacity;
};

/* Reads until b holds `want` bytes or the source has ended; b->size tells. */
attn_status attn_buffer_fill(struct buffer *b, const struct source *s, size_t want, const struct report *r);

#endif
