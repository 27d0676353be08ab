/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz_file.h"

static unsigned read_values(const attn_file *f)
{
    unsigned sum = 0;
    for (size_t i = 0; i < attn_gguf_count(f); i++) {
        const attn_gguf_value v = attn_gguf_at(f, i), found = attn_gguf_find(f, v.key);
        size_t cursor = 0, size;
        const char *text;
        int64_t whole;
        double number;
        require(found.data == v.data);
        while (attn_gguf_string(&v, &cursor, &text, &size)) {
            for (size_t at = 0; at < size; at++)
                sum += (unsigned char)text[at];
        }
        for (uint64_t e = 0; e < v.count && v.type != ATTN_GGUF_STRING; e++)
            sum += (unsigned)attn_gguf_integer(&v, e, &whole) + (unsigned)attn_gguf_number(&v, e, &number);
    }
    return sum;
}

static unsigned read_rows(const attn_file *f, size_t i)
{
    const attn_array_info info = attn_file_info(f, i);
    const int64_t row = info.ndim > 0 ? info.shape[info.ndim - 1] : 1;
    char err[200];
    if (row > 1 << 16)
        return 0;
    float *numbers = malloc(sizeof(float) * (size_t)(row > 0 ? row : 1));
    require(numbers != NULL);
    const unsigned got = attn_gguf_rows(f, i, 0, 1, numbers, err, sizeof err);
    free(numbers);
    return got;
}

/* The values to the last byte, a row of every tensor, and what all formats have in common. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    volatile unsigned sum = 0;
    attn_file *f = NULL;
    uint8_t *copy = malloc(size ? size : 1);
    require(copy != NULL);
    memcpy(copy, data, size);
    if (attn_file_from_memory(&f, ATTN_FORMAT_GGUF, copy, size, "fuzz.gguf", NULL, 0) == ATTN_OK) {
        sum += read_values(f);
        for (size_t i = 0; i < attn_file_count(f); i++)
            sum += read_rows(f, i);
    }
    attn_file_close(f);
    free(copy);
    (void)sum;
    fuzz_file(ATTN_FORMAT_GGUF, "fuzz.gguf", data, size);
    return 0;
}
