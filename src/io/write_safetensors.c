/* SPDX-License-Identifier: Apache-2.0 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "outputs.h"

enum { PREFIX = 8, MAX_HEADER = 25000000 };

static const char *word_of(attn_dtype t)
{
    static const char *const words[] = {
        [ATTN_F32] = "F32", [ATTN_F64] = "F64", [ATTN_F16] = "F16", [ATTN_BF16] = "BF16", [ATTN_BOOL] = "BOOL",
        [ATTN_I8] = "I8",   [ATTN_U8] = "U8",   [ATTN_I16] = "I16", [ATTN_U16] = "U16",   [ATTN_I32] = "I32",
        [ATTN_U32] = "U32", [ATTN_I64] = "I64", [ATTN_U64] = "U64"};
    return words[t];
}

/* The next member with elements of `item` bytes, from i on; count when there is none. */
static size_t next_of_size(const struct output *o, size_t i, size_t item)
{
    while (i < o->count && attn_dtype_size(o->members[i].tensor.dtype) != item)
        i++;
    return i;
}

static int describe(json_t *header, const struct member *m, uint64_t begin)
{
    json_t *shape = json_array();
    int failed = shape == NULL;
    for (int32_t i = 0; !failed && i < m->tensor.ndim; i++)
        failed = json_array_append_new(shape, json_integer(m->tensor.shape[i]));
    json_t *description = json_pack("{s:s, s:o, s:[I, I]}", "dtype", word_of(m->tensor.dtype), "shape", shape, "data_offsets",
                                    (json_int_t)begin, (json_int_t)(begin + m->bytes));
    return json_object_set_new(header, m->name, description) || failed;
}

/* The JSON object; NULL when memory is out. */
static json_t *header_of(const struct output *o)
{
    json_t *header = json_object();
    uint64_t at = 0;
    int failed = header == NULL;
    for (size_t item = 8; item > 0; item /= 2) {
        for (size_t i = next_of_size(o, 0, item); !failed && i < o->count; i = next_of_size(o, i + 1, item)) {
            failed = describe(header, &o->members[i], at);
            at += o->members[i].bytes;
        }
    }
    if (!failed)
        return header;
    json_decref(header);
    return NULL;
}

attn_status attn_safetensors_head(struct output *o, const struct report *r)
{
    json_t *header = header_of(o);
    const size_t used = header ? json_dumpb(header, NULL, 0, JSON_COMPACT) : 0;
    const size_t length = (used + 7) / 8 * 8;
    attn_status s = ATTN_OK;
    if (length > MAX_HEADER)
        s = attn_io_fail(r, ATTN_E_ARG, "the names need a header of %zu bytes; at most %d are allowed", length, MAX_HEADER);
    else
        o->head = malloc(PREFIX + length);
    if (s == ATTN_OK && (used == 0 || o->head == NULL || json_dumpb(header, o->head + PREFIX, used, JSON_COMPACT) != used))
        s = attn_io_fail_nomem(r);
    json_decref(header);
    if (s != ATTN_OK)
        return s;
    for (int i = 0; i < PREFIX; i++)
        o->head[i] = (char)(length >> (8 * i) & 0xff);
    memset(o->head + PREFIX + used, ' ', length - used);
    o->head_size = PREFIX + length;
    return ATTN_OK;
}

void attn_write_safetensors(struct sink *s, const struct output *o)
{
    attn_sink_bytes(s, o->head, o->head_size);
    for (size_t item = 8; item > 0; item /= 2) {
        for (size_t i = next_of_size(o, 0, item); i < o->count; i = next_of_size(o, i + 1, item))
            attn_sink_tensor(s, &o->members[i].tensor);
    }
}
