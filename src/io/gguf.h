/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the .gguf reader share: how each of its tensor types is stored, and its values by key. */
#ifndef ATTN_IO_GGUF_H
#define ATTN_IO_GGUF_H

#include "file.h"

/* Rows are cut into blocks of `elements` numbers, each block stored in `bytes` bytes. */
struct gguf_block {
    uint32_t id; /* in the file */
    const char *name;
    attn_dtype dtype; /* 0: no plain numbers */
    uint16_t elements, bytes;
    /* Blocks from `from` (not aligned) to f32. NULL: not read as f32. */
    void (*decode)(float *to, const unsigned char *from, int64_t blocks);
};

/* NULL when the format has no such type. */
const struct gguf_block *attn_gguf_block(uint32_t id);

/* A cursor over the header. Each take_* writes a sentence that names `what` when the file ends before. */
struct gguf_reader {
    const unsigned char *start, *at, *end;
    const struct report *report;
};

attn_status attn_gguf_take_u32(struct gguf_reader *g, const char *what, uint32_t *out);
attn_status attn_gguf_take_u64(struct gguf_reader *g, const char *what, uint64_t *out);
/* A length and that many bytes, which stay where they are. */
attn_status attn_gguf_take_text(struct gguf_reader *g, const char *what, const char **text, size_t *size);
/* A name: UTF-8 without control of length 0. Its size is that of the bytes in the file. */
attn_status attn_gguf_take_name(struct gguf_reader *g, const char *what, const char **text, size_t *size);

/* gguf_values.c: `count` values into f->values, sorted by key. */
attn_status attn_gguf_take_values(struct attn_file *f, struct gguf_reader *g, uint64_t count);

static inline uint64_t gguf_little(const unsigned char *p, int bytes)
{
    uint64_t v = 0;
    for (int i = 0; i < bytes; i++)
        v |= (uint64_t)p[i] << (8 * i);
    return v;
}

#endif
