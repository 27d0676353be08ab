/* SPDX-License-Identifier: Apache-2.0 */
#include "sink.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "shape.h"

/* CRC-32 of ISO 3309 (the one of zip), four bits at a time: table[i] is the remainder of i * x^32. */
static uint32_t crc32_of(uint32_t crc, const unsigned char *p, size_t size)
{
    static const uint32_t table[16] = {0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
                                       0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c, 0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};
    crc = ~crc;
    for (size_t i = 0; i < size; i++) {
        crc ^= p[i];
        crc = crc >> 4 ^ table[crc & 15];
        crc = crc >> 4 ^ table[crc & 15];
    }
    return ~crc;
}

static void write_all(struct sink *s, const unsigned char *p, size_t size)
{
    while (size > 0 && s->error == 0) {
        const ssize_t n = write(s->fd, p, size);
        if (n > 0) {
            p += n;
            size -= (size_t)n;
        } else if (n == 0) {
            s->error = EIO; /* no file or pipe does this; trying again could take for ever */
        } else if (errno == EAGAIN) {
            struct pollfd ready = {.fd = s->fd, .events = POLLOUT};
            poll(&ready, 1, -1);
        } else if (errno != EINTR) {
            s->error = errno;
        }
    }
}

void attn_sink_flush(struct sink *s)
{
    write_all(s, s->buffer, s->used);
    s->used = 0;
}

void attn_sink_bytes(struct sink *s, const void *bytes, size_t size)
{
    const unsigned char *p = bytes;
    s->count += size;
    if (s->sum)
        s->crc = crc32_of(s->crc, p, size);
    if (s->fd < 0 || size == 0)
        return;
    if (size > SINK_BUFFER - s->used)
        attn_sink_flush(s);
    if (size >= SINK_BUFFER) {
        write_all(s, p, size);
        return;
    }
    memcpy(s->buffer + s->used, p, size);
    s->used += size;
}

static bool is_packed(const attn_tensor *t)
{
    int64_t stride = 1;
    for (int32_t i = t->ndim - 1; i >= 0; i--) {
        if (t->shape[i] != 1 && t->stride[i] != stride)
            return false;
        stride *= t->shape[i];
    }
    return true;
}

void attn_sink_tensor(struct sink *s, const attn_tensor *t)
{
    struct extent e;
    const size_t item = attn_dtype_size(t->dtype);
    if (!attn_io_tensor_extent(t, &e) || e.elements == 0)
        return;
    if (is_packed(t)) {
        attn_sink_bytes(s, t->data, (size_t)e.elements * item);
        return;
    }
    int64_t index[ATTN_MAX_DIMS] = {0};
    int64_t at = 0;
    for (int64_t n = 0; n < e.elements && s->error == 0; n++) {
        attn_sink_bytes(s, (const unsigned char *)t->data + at * (int64_t)item, item);
        for (int32_t axis = t->ndim - 1; axis >= 0; axis--) {
            if (++index[axis] < t->shape[axis]) {
                at += t->stride[axis];
                break;
            }
            at -= t->stride[axis] * (t->shape[axis] - 1); /* the stride of an axis of size 1 may be anything */
            index[axis] = 0;
        }
    }
}
