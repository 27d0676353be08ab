/* SPDX-License-Identifier: Apache-2.0 */
/* The values by key of a .gguf: a key, a type, and a number, a string, or an array of either. They stay where they are in the file. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gguf.h"

enum { LONGEST_KEY = 65535, LEAST_VALUE = 8 + 4 + 1 };

/* Bytes of one element; 0 for strings, which have a length of their own, and for what is no type. */
static unsigned element_bytes(attn_gguf_type type)
{
    static const unsigned char bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    return (unsigned)type < sizeof bytes ? bytes[type] : 0;
}

const char *attn_gguf_type_name(attn_gguf_type type)
{
    static const char *const names[] = {"u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64", "f64"};
    return (unsigned)type < sizeof names / sizeof names[0] ? names[type] : "?";
}

/* ---- reading ---- */

static attn_status check_bools(const attn_gguf_value *v, const struct report *r)
{
    const unsigned char *p = v->data;
    for (uint64_t i = 0; v->type == ATTN_GGUF_BOOL && i < v->count; i++) {
        if (p[i] > 1)
            return attn_io_fail(r, ATTN_E_FORMAT, "a bool is %u; it must be 0 or 1", p[i]);
    }
    return ATTN_OK;
}

static attn_status take_elements(struct gguf_reader *g, attn_gguf_value *v)
{
    const unsigned bytes = element_bytes(v->type);
    const char *text;
    size_t size;
    v->data = g->at;
    if (bytes > 0) {
        if (v->count > (size_t)(g->end - g->at) / bytes)
            return attn_io_fail(g->report, ATTN_E_FORMAT, "%" PRIu64 " elements of %s are said to follow, but only %td bytes do", v->count,
                                attn_gguf_type_name(v->type), g->end - g->at);
        g->at += v->count * bytes;
        return check_bools(v, g->report);
    }
    attn_status s = ATTN_OK;
    for (uint64_t i = 0; i < v->count && s == ATTN_OK; i++)
        s = attn_gguf_take_text(g, "a string", &text, &size);
    return s;
}

static attn_status take_type(struct gguf_reader *g, const char *what, attn_gguf_type *type)
{
    uint32_t number = 0;
    const attn_status s = attn_gguf_take_u32(g, what, &number);
    if (s == ATTN_OK && number > ATTN_GGUF_F64)
        return attn_io_fail(g->report, ATTN_E_FORMAT, "%s is %" PRIu32 "; the format has 0 to 12", what, number);
    *type = s == ATTN_OK ? (attn_gguf_type)number : ATTN_GGUF_U8;
    return s;
}

static attn_status take_value(struct gguf_reader *g, attn_gguf_value *v)
{
    attn_status s = take_type(g, "the type of a value", &v->type);
    v->count = 1;
    if (s == ATTN_OK && v->type == ATTN_GGUF_ARRAY) {
        v->is_array = 1;
        s = take_type(g, "the type of an array", &v->type);
        if (s == ATTN_OK && v->type == ATTN_GGUF_ARRAY)
            return attn_io_fail(g->report, ATTN_E_UNSUPPORTED, "an array of arrays; arrays of numbers and strings are read");
        s = s ? s : attn_gguf_take_u64(g, "the length of an array", &v->count);
    }
    s = s ? s : take_elements(g, v);
    v->bytes = s ? 0 : (size_t)(g->at - (const unsigned char *)v->data);
    return s;
}

static int compare_keys(const void *a, const void *b)
{
    const attn_gguf_value *const *x = a, *const *y = b;
    return strcmp((*x)->key, (*y)->key);
}

static attn_status sort_values(struct attn_file *f, const struct report *r)
{
    for (size_t i = 0; i < f->value_count; i++)
        f->values_by_key[i] = &f->values[i];
    qsort(f->values_by_key, f->value_count, sizeof f->values_by_key[0], compare_keys);
    for (size_t i = 1; i < f->value_count; i++) {
        if (strcmp(f->values_by_key[i - 1]->key, f->values_by_key[i]->key) == 0)
            return attn_io_fail(r, ATTN_E_FORMAT, "the key '%s' is there twice", f->values_by_key[i]->key);
    }
    return ATTN_OK;
}

/* One after the other; first with keys NULL to learn how many bytes the keys take, then into f->values. */
static attn_status walk(struct attn_file *f, struct gguf_reader *g, uint64_t count, char *keys, size_t *key_bytes)
{
    attn_status s = ATTN_OK;
    *key_bytes = 0;
    for (uint64_t i = 0; i < count && s == ATTN_OK; i++) {
        attn_gguf_value v = {.key = NULL};
        const char *key;
        size_t size;
        s = attn_gguf_take_name(g, "a key", &key, &size);
        if (s == ATTN_OK && size > LONGEST_KEY)
            return attn_io_fail(g->report, ATTN_E_FORMAT, "a key of %zu bytes; the format allows %d", size, LONGEST_KEY);
        if (s != ATTN_OK)
            return s;
        char part[64];
        snprintf(part, sizeof part, "%.*s", (int)(size < 48 ? size : 48), key);
        const struct report here = {.text = g->report->text, .size = g->report->size, .file = g->report->file, .part = part};
        struct gguf_reader inner = {g->start, g->at, g->end, &here};
        s = take_value(&inner, &v);
        g->at = inner.at;
        if (s == ATTN_OK && keys != NULL) {
            v.key = memcpy(keys + *key_bytes, key, size);
            keys[*key_bytes + size] = '\0';
            f->values[i] = v;
        }
        *key_bytes += size + 1;
    }
    return s;
}

attn_status attn_gguf_take_values(struct attn_file *f, struct gguf_reader *g, uint64_t count)
{
    struct gguf_reader again = *g;
    size_t key_bytes;
    if (count > (size_t)(g->end - g->at) / LEAST_VALUE)
        return attn_io_fail(g->report, ATTN_E_FORMAT, "%" PRIu64 " values are said to follow, but only %td bytes do", count,
                            g->end - g->at);
    attn_status s = walk(f, g, count, NULL, &key_bytes);
    if (s != ATTN_OK)
        return s;
    f->values = calloc(count + 1, sizeof f->values[0]);
    f->values_by_key = calloc(count + 1, sizeof f->values_by_key[0]);
    f->keys = malloc(key_bytes + 1);
    if (f->values == NULL || f->values_by_key == NULL || f->keys == NULL)
        return attn_io_fail_nomem(g->report);
    f->value_count = (size_t)count;
    s = walk(f, &again, count, f->keys, &key_bytes);
    return s ? s : sort_values(f, g->report);
}

/* ---- looking up ---- */

size_t attn_gguf_count(const attn_file *f) { return f->value_count; }

attn_gguf_value attn_gguf_at(const attn_file *f, size_t i)
{
    return i < f->value_count ? f->values[i] : (attn_gguf_value){.key = NULL};
}

attn_gguf_value attn_gguf_find(const attn_file *f, const char *key)
{
    const attn_gguf_value wanted = {.key = key}, *pointer = &wanted;
    attn_gguf_value *const *found =
        f->value_count ? bsearch(&pointer, f->values_by_key, f->value_count, sizeof f->values_by_key[0], compare_keys) : NULL;
    return found ? **found : (attn_gguf_value){.key = NULL};
}

int attn_gguf_integer(const attn_gguf_value *v, uint64_t i, int64_t *out)
{
    const unsigned bytes = v->key ? element_bytes(v->type) : 0;
    if (bytes == 0 || i >= v->count || v->type == ATTN_GGUF_F32 || v->type == ATTN_GGUF_F64)
        return 0;
    const uint64_t bits = gguf_little((const unsigned char *)v->data + i * bytes, (int)bytes);
    const bool is_signed =
        v->type == ATTN_GGUF_I8 || v->type == ATTN_GGUF_I16 || v->type == ATTN_GGUF_I32 || v->type == ATTN_GGUF_I64;
    const unsigned unused = 64 - 8 * bytes;
    if (!is_signed && bits > INT64_MAX)
        return 0;
    *out = is_signed ? (int64_t)(bits << unused) >> unused : (int64_t)bits;
    return 1;
}

int attn_gguf_number(const attn_gguf_value *v, uint64_t i, double *out)
{
    int64_t whole;
    if (attn_gguf_integer(v, i, &whole)) {
        *out = (double)whole;
        return 1;
    }
    if (v->key == NULL || i >= v->count || (v->type != ATTN_GGUF_F32 && v->type != ATTN_GGUF_F64))
        return 0;
    const unsigned bytes = element_bytes(v->type);
    const uint64_t bits = gguf_little((const unsigned char *)v->data + i * bytes, (int)bytes);
    const uint32_t low = (uint32_t)bits;
    float single;
    memcpy(&single, &low, sizeof single);
    memcpy(out, &bits, sizeof *out);
    if (v->type == ATTN_GGUF_F32)
        *out = single;
    return 1;
}

int attn_gguf_string(const attn_gguf_value *v, size_t *cursor, const char **text, size_t *size)
{
    if (v->key == NULL || v->type != ATTN_GGUF_STRING || *cursor >= v->bytes)
        return 0;
    const unsigned char *at = (const unsigned char *)v->data + *cursor;
    *size = (size_t)gguf_little(at, 8);
    *text = (const char *)at + 8;
    *cursor += 8 + *size;
    return 1;
}
