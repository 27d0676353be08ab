/* SPDX-License-Identifier: Apache-2.0 */
/* What every format fills in. */
#ifndef ATTN_IO_FILE_H
#define ATTN_IO_FILE_H

#include "bytes.h"
#include "shape.h"

/* One array of a file. A safetensors header may describe half a million, so this stays small. */
struct array {
    const char *name;       /* in attn_file.names */
    const char *dtype_name; /* static, or in attn_file.names */
    int64_t shape[ATTN_MAX_DIMS];
    const unsigned char *data; /* in attn_file.bytes or in `owned`; NULL while not loaded (.npz) */
    void *owned;               /* free() it */
    uint64_t bytes;            /* of the numbers; 0 for a dtype that is not read (.gguf: of the blocks) */
    uint32_t shard;            /* an index: which of attn_file.shards */
    uint32_t inner;            /* an index: which array there; .npz: which entry; .gguf: which tensor type */
    int32_t ndim;
    uint8_t dtype;      /* attn_dtype, or 0 */
    bool fortran, swap; /* Fortran order; the other byte order */
};

struct attn_file {
    attn_format format;
    char *path;
    struct bytes bytes;
    struct array *arrays;
    struct array **by_name; /* sorted */
    size_t count;
    char *names;
    struct zip *zip; /* .npz */
    struct attn_file **shards;
    size_t shard_count;
    attn_gguf_value *values; /* .gguf */
    attn_gguf_value **values_by_key;
    size_t value_count;
    char *keys;
};

/* Each fills arrays, count and names from bytes; what it allocated is freed by attn_file_close, also after a failure. */
attn_status attn_npy_parse(struct attn_file *f, const struct report *r);
attn_status attn_npz_parse(struct attn_file *f, const struct report *r);
attn_status attn_safetensors_parse(struct attn_file *f, const struct report *r);
attn_status attn_shards_parse(struct attn_file *f, const struct report *r);
attn_status attn_csv_parse(struct attn_file *f, const struct report *r);
attn_status attn_gguf_parse(struct attn_file *f, const struct report *r);

/* Reads the entry of a into a->owned and sets a->data. */
attn_status attn_npz_load(struct attn_file *f, struct array *a, const struct report *r);
void attn_npz_close(struct zip *z);

/* file.c: room for count arrays, all-zero, and for names of name_bytes in all. */
attn_status attn_io_allocate(struct attn_file *f, size_t count, size_t name_bytes, const struct report *r);
/* file.c: by_name by place in the file, an empty array before the one that begins where it lies. */
void attn_io_sort_by_place(struct attn_file *f);

#endif
