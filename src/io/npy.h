/* SPDX-License-Identifier: Apache-2.0 */
/* The header of a .npy: "\x93NUMPY", version, header length, a Python dictionary, the numbers. */
#ifndef ATTN_IO_NPY_H
#define ATTN_IO_NPY_H

#include "file.h"

enum { NPY_WORD_SIZE = 24, NPY_HEADER_SIZE = 512 };

struct npy_header {
    size_t data_at;           /* where the numbers begin */
    uint64_t bytes;           /* of the numbers; 0 when dtype is 0 */
    char word[NPY_WORD_SIZE]; /* the dtype as written, cut */
    attn_dtype dtype;         /* 0: one that is not read */
    bool fortran, swap;
    int32_t ndim; /* may exceed ATTN_MAX_DIMS */
    int64_t shape[ATTN_MAX_DIMS];
};

/* How many bytes of a .npy must be seen to know more about it; <= size when nothing more is needed (or it is malformed). */
size_t attn_npy_need(const unsigned char *bytes, size_t size);
/* Parses a header that must lie wholly in bytes[size]. Whether the numbers are there is not checked. */
attn_status attn_npy_header(struct npy_header *h, const unsigned char *bytes, size_t size, const struct report *r);
/* The sentence about a dtype that is not read. */
attn_status attn_npy_refuse_dtype(const char *word, const struct report *r);
/* Into *a, without its data and name. */
void attn_npy_describe(struct array *a, const struct npy_header *h);

/* The header that is written: NUL-free, its length (a multiple of 64) returned. t is valid. */
size_t attn_npy_write_header(char text[NPY_HEADER_SIZE], const attn_tensor *t);

#endif
