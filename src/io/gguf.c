/* SPDX-License-Identifier: Apache-2.0 */
/* .gguf, versions 2 and 3, little endian: "GGUF", the version, how many tensors and values; the values; a description of each tensor; then,
   from a multiple of general.alignment on, the numbers. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gguf.h"

enum { MAX_AXES = 4, DEFAULT_ALIGNMENT = 32, LEAST_TENSOR = 8 + 4 + 4 + 8 };

/* ---- the cursor ---- */

static attn_status take(struct gguf_reader *g, const char *what, int bytes, uint64_t *out)
{
    if (g->end - g->at < bytes)
        return attn_io_fail(g->report, ATTN_E_FORMAT, "the file ends inside %s", what);
    *out = gguf_little(g->at, bytes);
    g->at += bytes;
    return ATTN_OK;
}

attn_status attn_gguf_take_u64(struct gguf_reader *g, const char *what, uint64_t *out) { return take(g, what, 8, out); }

attn_status attn_gguf_take_u32(struct gguf_reader *g, const char *what, uint32_t *out)
{
    uint64_t v = 0;
    const attn_status s = take(g, what, 4, &v);
    *out = (uint32_t)v;
    return s;
}

attn_status attn_gguf_take_text(struct gguf_reader *g, const char *what, const char **text, size_t *size)
{
    uint64_t length = 0;
    const attn_status s = take(g, what, 8, &length);
    if (s != ATTN_OK)
        return s;
    if (length > (uint64_t)(g->end - g->at))
        return attn_io_fail(g->report, ATTN_E_FORMAT, "%s is said to have %" PRIu64 " bytes, but only %td follow", what, length,
                            g->end - g->at);
    *text = (const char *)g->at;
    *size = (size_t)length;
    g->at += length;
    return ATTN_OK;
}

attn_status attn_gguf_take_name(struct gguf_reader *g, const char *what, const char **text, size_t *size)
{
    attn_status s = attn_gguf_take_text(g, what, text, size);
    for (size_t i = 0; s == ATTN_OK && i < *size;) {
        char four[5] = {0}; /* the text goes on behind with anything, and needs a 0 */
        memcpy(four, *text + i, *size - i < 4 ? *size - i : 4);
        const size_t n = attn_utf8_length(four);
        if (n == 0 || four[0] == '\0')
            return attn_io_fail(g->report, ATTN_E_FORMAT, "%s is no UTF-8 text: byte %zu of it is 0x%02x", what, i, (unsigned char)four[0]);
        i += n;
    }
    return s;
}

/* ---- tensors ---- */

static attn_status take_shape(struct gguf_reader *g, struct array *a, struct extent *e)
{
    uint32_t axes = 0;
    attn_status s = attn_gguf_take_u32(g, "a tensor's shape", &axes);
    if (s == ATTN_OK && axes > MAX_AXES)
        return attn_io_fail(g->report, ATTN_E_FORMAT, "the tensor has %" PRIu32 " axes; the format allows %d", axes, MAX_AXES);
    a->ndim = s ? 0 : (int32_t)axes;
    *e = extent_of_scalar();
    for (int32_t i = a->ndim - 1; i >= 0 && s == ATTN_OK; i--) { /* the file's first axis is the innermost */
        uint64_t axis = 0;
        s = attn_gguf_take_u64(g, "a tensor's shape", &axis);
        if (s == ATTN_OK && (axis > INT64_MAX || !attn_io_extent_add(e, (int64_t)axis)))
            return attn_io_fail(g->report, ATTN_E_FORMAT, "the product of the shape exceeds 63 bits");
        a->shape[i] = s ? 0 : (int64_t)axis;
    }
    return s;
}

static attn_status take_type(struct gguf_reader *g, struct array *a, const struct extent *e)
{
    uint32_t id = 0;
    const attn_status s = attn_gguf_take_u32(g, "a tensor's type", &id);
    if (s != ATTN_OK)
        return s;
    const struct gguf_block *block = attn_gguf_block(id);
    if (block == NULL)
        return attn_io_fail(g->report, ATTN_E_FORMAT, "tensor type %" PRIu32 " is not one of the format's", id);
    const int64_t row = a->ndim > 0 ? a->shape[a->ndim - 1] : 1;
    int64_t bytes;
    if (row % block->elements != 0)
        return attn_io_fail(g->report, ATTN_E_FORMAT, "rows of %" PRId64 " numbers are no whole blocks of %d, as %s has", row,
                            block->elements, block->name);
    if (__builtin_mul_overflow(e->nonzero, (int64_t)block->bytes, &bytes))
        return attn_io_fail(g->report, ATTN_E_FORMAT, "the tensor's size exceeds 63 bits");
    a->dtype = (uint8_t)block->dtype;
    a->dtype_name = block->name;
    a->inner = id;
    a->bytes = (uint64_t)(e->elements / block->elements) * block->bytes;
    return ATTN_OK;
}

/* Everything but where the numbers are: *offset counts from where they begin, which is not known yet. */
static attn_status take_tensor(struct gguf_reader *g, struct array *a, uint64_t *offset)
{
    struct extent e;
    attn_status s = take_shape(g, a, &e);
    s = s ? s : take_type(g, a, &e);
    return s ? s : attn_gguf_take_u64(g, "a tensor's offset", offset);
}

static attn_status place(const struct attn_file *f, struct array *a, uint64_t offset, size_t data_at, uint64_t alignment,
                         const struct report *r)
{
    const size_t size = f->bytes.size, room = size > data_at ? size - data_at : 0;
    if (offset % alignment != 0)
        return attn_io_fail(r, ATTN_E_FORMAT, "the tensor's offset %" PRIu64 " is no multiple of the alignment %" PRIu64, offset,
                            alignment);
    if (a->bytes > 0 && (offset > room || a->bytes > room - offset))
        return attn_io_fail(r, ATTN_E_FORMAT, "the tensor's %" PRIu64 " bytes at offset %" PRIu64 " exceed the %zu bytes of numbers",
                            a->bytes, offset, room);
    a->data = f->bytes.data + (a->bytes > 0 ? data_at + (size_t)offset : 0);
    return ATTN_OK;
}

/* Tensors may lie in any order and with gaps, but no byte belongs to two. */
static attn_status check_apart(struct attn_file *f, const struct report *r)
{
    const struct array *before = NULL;
    attn_io_sort_by_place(f);
    for (size_t i = 0; i < f->count; i++) {
        const struct array *a = f->by_name[i];
        if (a->bytes == 0)
            continue;
        if (before != NULL && (size_t)(a->data - before->data) < before->bytes)
            return attn_io_fail(r, ATTN_E_FORMAT, "tensors '%s' and '%s' overlap", before->name, a->name);
        before = a;
    }
    return ATTN_OK;
}

static attn_status find_alignment(const struct attn_file *f, uint64_t *alignment, const struct report *r)
{
    const attn_gguf_value v = attn_gguf_find(f, "general.alignment");
    int64_t n = DEFAULT_ALIGNMENT;
    if (v.key != NULL && (v.type != ATTN_GGUF_U32 || v.is_array || !attn_gguf_integer(&v, 0, &n) || n <= 0 || (n & (n - 1)) != 0))
        return attn_io_fail(r, ATTN_E_FORMAT, "general.alignment must be a u32 that is a power of two");
    *alignment = (uint64_t)n;
    return ATTN_OK;
}

/* The names one after the other into f->names; the tensors' descriptions between them are passed over. */
static attn_status walk_tensors(struct attn_file *f, struct gguf_reader *g, uint64_t count, size_t *name_bytes, uint64_t *offsets)
{
    const struct report *outer = g->report;
    attn_status s = ATTN_OK;
    *name_bytes = 0;
    for (uint64_t i = 0; i < count && s == ATTN_OK; i++) {
        struct array one = {.name = NULL}, *a = offsets ? &f->arrays[i] : &one;
        const char *name;
        size_t size;
        uint64_t offset = 0;
        g->report = outer;
        s = attn_gguf_take_name(g, "a tensor's name", &name, &size);
        if (s != ATTN_OK)
            break;
        char part[80];
        snprintf(part, sizeof part, "%.*s", (int)(size < 64 ? size : 64), name);
        const struct report here = {.text = outer->text, .size = outer->size, .file = outer->file, .part = part};
        g->report = &here;
        s = take_tensor(g, a, &offset);
        g->report = outer;
        if (s == ATTN_OK && offsets != NULL) {
            a->name = memcpy(f->names + *name_bytes, name, size);
            f->names[*name_bytes + size] = '\0';
            offsets[i] = offset;
        }
        *name_bytes += size + 1;
    }
    return s;
}

static attn_status place_all(struct attn_file *f, const uint64_t *offsets, const struct gguf_reader *g)
{
    uint64_t alignment = DEFAULT_ALIGNMENT;
    attn_status s = find_alignment(f, &alignment, g->report);
    const size_t header = (size_t)(g->at - g->start);
    const size_t data_at = s ? header : (header + alignment - 1) / alignment * alignment;
    for (size_t i = 0; i < f->count && s == ATTN_OK; i++) {
        const struct report here = {
            .text = g->report->text, .size = g->report->size, .file = g->report->file, .part = f->arrays[i].name};
        s = place(f, &f->arrays[i], offsets[i], data_at, alignment, &here);
    }
    return s ? s : check_apart(f, g->report);
}

static attn_status take_tensors(struct attn_file *f, struct gguf_reader *g, uint64_t count)
{
    struct gguf_reader again = *g;
    size_t name_bytes;
    if (count > (size_t)(g->end - g->at) / LEAST_TENSOR)
        return attn_io_fail(g->report, ATTN_E_FORMAT, "%" PRIu64 " tensors are said to follow, but only %td bytes do", count,
                            g->end - g->at);
    attn_status s = walk_tensors(f, g, count, &name_bytes, NULL);
    s = s ? s : attn_io_allocate(f, (size_t)count, name_bytes, g->report);
    if (s != ATTN_OK)
        return s;
    uint64_t *offsets = malloc((count + 1) * sizeof offsets[0]);
    if (offsets == NULL)
        return attn_io_fail_nomem(g->report);
    s = walk_tensors(f, &again, count, &name_bytes, offsets);
    s = s ? s : place_all(f, offsets, g);
    free(offsets);
    return s;
}

/* ---- the file ---- */

static attn_status take_version(struct gguf_reader *g)
{
    uint32_t version = 0;
    const attn_status s = attn_gguf_take_u32(g, "the version", &version);
    if (s != ATTN_OK || version == 2 || version == 3)
        return s;
    if (version >= 0x10000 && (version & 0xffff) == 0)
        return attn_io_fail(g->report, ATTN_E_UNSUPPORTED, "a big-endian .gguf; little-endian files are read");
    return attn_io_fail(g->report, ATTN_E_UNSUPPORTED, "version %" PRIu32 " of the format; 2 and 3 are read", version);
}

attn_status attn_gguf_parse(struct attn_file *f, const struct report *r)
{
    const unsigned char *b = f->bytes.data;
    struct gguf_reader g = {.start = b, .at = b, .end = b + f->bytes.size, .report = r};
    uint64_t tensors = 0, values = 0;
    if (f->bytes.size < 4 || memcmp(b, "GGUF", 4) != 0)
        return attn_io_fail(r, ATTN_E_FORMAT, "the file does not begin with 'GGUF'");
    g.at += 4;
    attn_status s = take_version(&g);
    s = s ? s : attn_gguf_take_u64(&g, "the header", &tensors);
    s = s ? s : attn_gguf_take_u64(&g, "the header", &values);
    s = s ? s : attn_gguf_take_values(f, &g, values);
    return s ? s : take_tensors(f, &g, tensors);
}

attn_status attn_gguf_rows(const attn_file *f, size_t i, int64_t first, int64_t count, float *out, char *err, size_t err_size)
{
    const struct report whole = {.text = err, .size = err_size, .file = f->path};
    if (f->format != ATTN_FORMAT_GGUF || i >= f->count)
        return attn_io_fail(&whole, ATTN_E_ARG, "there is no .gguf tensor %zu", i);
    const struct array *a = &f->arrays[i];
    const struct report r = {.text = err, .size = err_size, .file = f->path, .part = a->name};
    const struct gguf_block *block = attn_gguf_block(a->inner);
    const int64_t row = a->ndim > 0 ? a->shape[a->ndim - 1] : 1;
    int64_t rows = 1;
    for (int32_t axis = 0; axis + 1 < a->ndim; axis++)
        rows *= a->shape[axis];
    if (first < 0 || count < 0 || first > rows || count > rows - first)
        return attn_io_fail(&r, ATTN_E_ARG, "rows %" PRId64 " to %" PRId64 " are asked for; the tensor has %" PRId64, first,
                            first + count - 1, rows);
    if (block->decode == NULL)
        return attn_io_fail(&r, ATTN_E_DTYPE,
                            "%s is not read as numbers; F32, F16, BF16, F64, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0 and Q2_K to Q6_K are",
                            block->name);
    const int64_t blocks = row / block->elements;
    if (count > 0 && blocks > 0)
        block->decode(out, a->data + (size_t)first * (size_t)blocks * block->bytes, count * blocks);
    return ATTN_OK;
}
