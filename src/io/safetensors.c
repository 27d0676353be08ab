/* SPDX-License-Identifier: Apache-2.0 */
/* .safetensors: a header length of 8 bytes, a JSON object of at most 25 MB, the numbers without a gap. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "file.h"
#include "json_walk.h"

enum { PREFIX = 8, MAX_HEADER = 25000000, FEW = 64 };

static const struct {
    const char *word;
    attn_dtype dtype; /* 0: known to the format, not read */
    unsigned bits;
} dtypes[] = {{"F32", ATTN_F32, 32}, {"F16", ATTN_F16, 16}, {"BF16", ATTN_BF16, 16}, {"F64", ATTN_F64, 64}, {"BOOL", ATTN_BOOL, 8},
              {"I8", ATTN_I8, 8},    {"U8", ATTN_U8, 8},    {"I16", ATTN_I16, 16},   {"U16", ATTN_U16, 16}, {"I32", ATTN_I32, 32},
              {"U32", ATTN_U32, 32}, {"I64", ATTN_I64, 64}, {"U64", ATTN_U64, 64},   {"F8_E4M3", 0, 8},     {"F8_E5M2", 0, 8},
              {"F8_E8M0", 0, 8},     {"F8_E4M3FNUZ", 0, 8}, {"F8_E5M2FNUZ", 0, 8},   {"F6_E2M3", 0, 6},     {"F6_E3M2", 0, 6},
              {"F4", 0, 4},          {"C64", 0, 64}};

/* ---- one tensor ---- */

static attn_status take_dtype(struct array *a, const json_t *value, unsigned *bits, const struct report *r)
{
    const char *word = json_string_value(value);
    if (word == NULL)
        return attn_io_fail(r, ATTN_E_FORMAT, "the dtype is missing or no string");
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        if (strcmp(word, dtypes[i].word) == 0) {
            a->dtype = (uint8_t)dtypes[i].dtype;
            a->dtype_name = dtypes[i].dtype ? attn_dtype_name(dtypes[i].dtype) : dtypes[i].word;
            *bits = dtypes[i].bits;
            return ATTN_OK;
        }
    }
    return attn_io_fail(r, ATTN_E_FORMAT, "dtype '%.32s' is not one of the format's", word);
}

/* Whole numbers >= 0; jansson has refused what exceeds 63 bits. */
static bool is_size(const json_t *value) { return json_is_integer(value) && json_integer_value(value) >= 0; }

static attn_status take_shape(struct array *a, const json_t *value, unsigned bits, const struct report *r)
{
    struct extent e = extent_of_scalar();
    if (!json_is_array(value))
        return attn_io_fail(r, ATTN_E_FORMAT, "the shape is missing or no list");
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *axis = json_array_get(value, i);
        if (!is_size(axis))
            return attn_io_fail(r, ATTN_E_FORMAT, "axis %zu of the shape is no whole number of at most 63 bits", i);
        if (i < ATTN_MAX_DIMS)
            a->shape[i] = json_integer_value(axis);
        if (!attn_io_extent_add(&e, json_integer_value(axis)))
            return attn_io_fail(r, ATTN_E_FORMAT, "the product of the shape exceeds 63 bits");
    }
    a->ndim = (int32_t)json_array_size(value);
    if (!attn_io_extent_bytes(&e, bits, &a->bytes))
        return attn_io_fail(r, ATTN_E_FORMAT, "%" PRId64 " elements of %s are no whole number of bytes of at most 63 bits", e.elements,
                            a->dtype_name);
    return ATTN_OK;
}

static attn_status take_offsets(struct attn_file *f, struct array *a, const json_t *value, size_t data_at, const struct report *r)
{
    const json_t *begin = json_array_get(value, 0), *end = json_array_get(value, 1);
    if (json_array_size(value) != 2 || !is_size(begin) || !is_size(end))
        return attn_io_fail(r, ATTN_E_FORMAT, "data_offsets must be two whole numbers, begin and end");
    const int64_t b = json_integer_value(begin), e = json_integer_value(end);
    const size_t room = f->bytes.size - data_at;
    if (b > e)
        return attn_io_fail(r, ATTN_E_FORMAT, "data_offsets begin at %" PRId64 ", after their end %" PRId64, b, e);
    if ((uint64_t)e > room)
        return attn_io_fail(r, ATTN_E_FORMAT, "data_offsets end at %" PRId64 ", but only %zu bytes follow the header", e, room);
    if ((uint64_t)(e - b) != a->bytes) {
        char shape[SHAPE_TEXT_SIZE];
        return attn_io_fail(r, ATTN_E_FORMAT, "shape %s of %s needs %" PRIu64 " bytes, but data_offsets give %" PRId64,
                            attn_io_shape_text(shape, sizeof shape, a->ndim, a->shape), a->dtype_name, a->bytes, e - b);
    }
    a->data = f->bytes.data + data_at + b;
    return ATTN_OK;
}

static attn_status take_tensor(struct attn_file *f, struct array *a, const json_t *value, size_t data_at, const struct report *r)
{
    unsigned bits = 0;
    if (!json_is_object(value))
        return attn_io_fail(r, ATTN_E_FORMAT, "the description is no object with dtype, shape and data_offsets");
    attn_status s = take_dtype(a, json_object_get(value, "dtype"), &bits, r);
    if (s == ATTN_OK)
        s = take_shape(a, json_object_get(value, "shape"), bits, r);
    if (s == ATTN_OK)
        s = take_offsets(f, a, json_object_get(value, "data_offsets"), data_at, r);
    return s;
}

/* ---- the header ---- */

static int compare_strings(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/* __metadata__: strings to strings, no key twice. Nothing of it is kept. */
static attn_status check_metadata(const struct json_text *whole, struct json_piece p)
{
    struct json_text t = *whole;
    size_t members, key_bytes, n = 0;
    t.at = p.text;
    t.end = p.text + p.size;
    attn_status s = attn_json_count(t, &members, &key_bytes);
    if (s != ATTN_OK)
        return s;
    char *text = malloc(p.size), *at = text;
    const char **keys = calloc(members + 1, sizeof keys[0]);
    if (text == NULL || keys == NULL)
        s = attn_io_fail_nomem(t.report);
    else
        s = attn_json_enter(&t);
    while (s == ATTN_OK && n < members) {
        struct json_piece key, value;
        s = attn_json_next(&t, n == 0, &key, &value);
        if (s == ATTN_OK)
            s = attn_json_piece_string(&t, value, "a value of __metadata__", at);
        if (s == ATTN_OK)
            s = attn_json_piece_string(&t, key, "a key of __metadata__", at);
        keys[n++] = at;
        at += s == ATTN_OK ? strlen(at) + 1 : 0;
    }
    if (s == ATTN_OK)
        qsort(keys, members, sizeof keys[0], compare_strings);
    for (size_t i = 1; s == ATTN_OK && i < members; i++) {
        if (strcmp(keys[i - 1], keys[i]) == 0)
            s = attn_io_fail(t.report, ATTN_E_FORMAT, "__metadata__ has the key '%s' twice", keys[i]);
    }
    free(text);
    free(keys);
    return s;
}

static attn_status take_member(struct attn_file *f, struct json_text *t, struct json_piece value, struct array *a, size_t data_at)
{
    json_t *description;
    const struct report here = {.text = t->report->text, .size = t->report->size, .file = t->report->file, .part = a->name};
    struct json_text part = *t;
    part.report = &here;
    attn_status s = attn_json_piece_value(&part, value, "its description", &description);
    if (s == ATTN_OK)
        s = take_tensor(f, a, description, data_at, &here);
    json_decref(description);
    return s;
}

static attn_status take_members(struct attn_file *f, struct json_text *t, size_t members, size_t data_at)
{
    char *name = f->names;
    size_t count = 0;
    bool metadata_seen = false;
    attn_status s = attn_json_enter(t);
    for (size_t i = 0; i < members && s == ATTN_OK; i++) {
        struct json_piece key, value;
        s = attn_json_next(t, i == 0, &key, &value);
        if (s == ATTN_OK)
            s = attn_json_piece_string(t, key, "a name", name);
        if (s != ATTN_OK)
            break;
        if (strcmp(name, "__metadata__") == 0) {
            s = metadata_seen ? attn_io_fail(t->report, ATTN_E_FORMAT, "the header has __metadata__ twice") : check_metadata(t, value);
            metadata_seen = true;
            continue;
        }
        f->arrays[count].name = name;
        s = take_member(f, t, value, &f->arrays[count++], data_at);
        name += strlen(name) + 1;
    }
    f->count = count;
    return s;
}

/* The tensors cover the rest of the file, without gap or overlap. */
static attn_status check_cover(struct attn_file *f, size_t data_at, const struct report *r)
{
    attn_io_sort_by_place(f);
    size_t at = data_at;
    for (size_t i = 0; i < f->count; i++) {
        const struct array *a = f->by_name[i];
        const size_t begin = (size_t)(a->data - f->bytes.data);
        if (begin < at)
            return attn_io_fail(r, ATTN_E_FORMAT, "tensor '%s' begins at byte %zu of the file, inside another tensor", a->name, begin);
        if (begin > at)
            return attn_io_fail(r, ATTN_E_FORMAT, "bytes %zu to %zu, before tensor '%s', belong to no tensor", at, begin, a->name);
        at = begin + (size_t)a->bytes;
    }
    if (at != f->bytes.size)
        return attn_io_fail(r, ATTN_E_FORMAT, "the last %zu bytes belong to no tensor", f->bytes.size - at);
    return ATTN_OK;
}

attn_status attn_safetensors_parse(struct attn_file *f, const struct report *r)
{
    static const char shortest[] = "{\"dtype\":\"F4\",\"shape\":[],\"data_offsets\":[0,0]}";
    const unsigned char *b = f->bytes.data;
    uint64_t length = 0;
    size_t members, name_bytes;
    if (f->bytes.size < PREFIX)
        return attn_io_fail(r, ATTN_E_FORMAT, "the file has %zu bytes, too few for a .safetensors", f->bytes.size);
    for (int i = 0; i < PREFIX; i++)
        length |= (uint64_t)b[i] << (8 * i);
    if (length > MAX_HEADER)
        return attn_io_fail(r, ATTN_E_FORMAT, "a header of %" PRIu64 " bytes; at most %d are read", length, MAX_HEADER);
    if (length > f->bytes.size - PREFIX)
        return attn_io_fail(r, ATTN_E_FORMAT, "the header is said to have %" PRIu64 " bytes, but only %zu follow", length,
                            f->bytes.size - PREFIX);
    const char *text = (const char *)b + PREFIX;
    if (length == 0 || text[0] != '{')
        return attn_io_fail(r, ATTN_E_FORMAT, "the header does not begin with '{'");
    struct json_text t = {.start = text, .at = text, .end = text + length, .base = PREFIX, .report = r};
    attn_status s = attn_json_count(t, &members, &name_bytes);
    if (s == ATTN_OK && members > FEW + length / (sizeof shortest - 1)) /* what is wrong with a few is said better below */
        return attn_io_fail(r, ATTN_E_FORMAT, "%zu members in a header of %" PRIu64 " bytes cannot all describe tensors", members, length);
    if (s == ATTN_OK)
        s = attn_io_allocate(f, members, name_bytes, r);
    if (s == ATTN_OK)
        s = take_members(f, &t, members, PREFIX + (size_t)length);
    if (s == ATTN_OK)
        s = check_cover(f, PREFIX + (size_t)length, r);
    return s;
}
