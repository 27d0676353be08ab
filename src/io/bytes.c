/* SPDX-License-Identifier: Apache-2.0 */
#define _DEFAULT_SOURCE /* madvise: glibc gives nothing back for posix_madvise */
#include "bytes.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

attn_status attn_bytes_map(struct bytes *b, int fd, size_t size, const struct report *r)
{
    *b = (struct bytes){.kind = BYTES_BORROWED};
    if (size == 0)
        return ATTN_OK;
    void *p = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED)
        return errno == ENOMEM ? attn_io_fail_nomem(r) : attn_io_fail_errno(r, errno, "cannot map the file");
    *b = (struct bytes){.data = p, .size = size, .kind = BYTES_MAPPED};
    return ATTN_OK;
}

void attn_bytes_forget(const struct bytes *b)
{
    if (b->kind == BYTES_MAPPED)
        madvise((void *)(uintptr_t)b->data, b->size, MADV_DONTNEED);
}

void attn_bytes_release(struct bytes *b)
{
    if (b->kind == BYTES_MAPPED)
        munmap((void *)(uintptr_t)b->data, b->size);
    else if (b->kind == BYTES_HEAP)
        free((void *)(uintptr_t)b->data);
    *b = (struct bytes){.kind = BYTES_BORROWED};
}

static int64_t read_fd(void *user, void *to, size_t size, const struct report *r)
{
    const int fd = *(int *)user;
    for (;;) {
        const ssize_t n = read(fd, to, size);
        if (n >= 0)
            return n;
        if (errno != EINTR)
            return -(int64_t)attn_io_fail_errno(r, errno, "cannot read");
    }
}

struct source attn_source_of_fd(int *fd) { return (struct source){.read = read_fd, .user = fd}; }

static attn_status buffer_grow(struct buffer *b, size_t want, const struct report *r)
{
    const size_t first = 64 * 1024;
    size_t capacity = b->capacity < first ? first : b->capacity > SIZE_MAX / 2 ? SIZE_MAX : b->capacity * 2;
    if (capacity > want)
        capacity = want;
    unsigned char *data = realloc(b->data, capacity);
    if (data == NULL)
        return attn_io_fail_nomem(r);
    b->data = data;
    b->capacity = capacity;
    return ATTN_OK;
}

attn_status attn_buffer_fill(struct buffer *b, const struct source *s, size_t want, const struct report *r)
{
    while (b->size < want) {
        if (b->size == b->capacity) {
            const attn_status grown = buffer_grow(b, want, r);
            if (grown != ATTN_OK)
                return grown;
        }
        const size_t room = (b->capacity < want ? b->capacity : want) - b->size;
        const int64_t n = s->read(s->user, b->data + b->size, room, r);
        if (n < 0)
            return (attn_status)-n;
        if (n == 0)
            return ATTN_OK;
        b->size += (size_t)n;
    }
    return ATTN_OK;
}
