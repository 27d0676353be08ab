/* SPDX-License-Identifier: Apache-2.0 */
/* What the file fuzzers share: the bytes as a file of one format, every array of it read to the last element. */
#ifndef ATTN_FUZZ_FILE_H
#define ATTN_FUZZ_FILE_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "attn/attn_io.h"
#include "fuzz_require.h"

static inline unsigned read_all(const attn_tensor *t)
{
    const size_t item = attn_dtype_size(t->dtype);
    int64_t index[ATTN_MAX_DIMS] = {0}, at = 0;
    unsigned sum = 0;
    for (int32_t i = 0; i < t->ndim; i++) {
        if (t->shape[i] == 0)
            return 0;
    }
    require((uintptr_t)t->data % item == 0);
    for (int32_t axis = 0; axis >= 0;) {
        for (size_t i = 0; i < item; i++)
            sum += ((const unsigned char *)t->data)[at * (int64_t)item + (int64_t)i];
        for (axis = t->ndim - 1; axis >= 0; axis--) {
            at += t->stride[axis];
            if (++index[axis] < t->shape[axis])
                break;
            at -= t->stride[axis] * t->shape[axis];
            index[axis] = 0;
        }
    }
    return sum;
}

static inline void fuzz_file(attn_format format, const char *name, const uint8_t *data, size_t size)
{
    char err[200] = "";
    volatile unsigned sum = 0;
    attn_file *f = NULL;
    uint8_t *copy = malloc(size ? size : 1); /* of exactly that size, so that one byte too far is seen */
    require(copy != NULL);
    memcpy(copy, data, size);
    const attn_status s = attn_file_from_memory(&f, format, copy, size, name, err, sizeof err);
    require((s == ATTN_OK) == (f != NULL) && (s == ATTN_OK) == (err[0] == '\0'));
    for (size_t i = 0; f != NULL && i < attn_file_count(f); i++) {
        attn_tensor t;
        require(attn_file_find(f, attn_file_info(f, i).name) == (int64_t)i);
        if (attn_file_tensor(f, i, &t, err, sizeof err) == ATTN_OK)
            sum += read_all(&t);
    }
    attn_file_close(f);
    (void)sum;
    free(copy);
}

#endif
