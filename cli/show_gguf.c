/* SPDX-License-Identifier: Apache-2.0 */
/* attn show FILE.gguf: the values by key, of arrays the first few, and what each tensor is. Nothing is dequantised. */
#include "show_gguf.h"
#include "message.h"
#include "table.h"
#include "text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST = 3, LONGEST = 60 };

/* A copy that ends with a 0; zeros inside become blanks. */
static char *text_of(const char *text, size_t size)
{
    char *copy = need_memory(size + 1);
    memcpy(copy, text, size);
    copy[size] = '\0';
    for (size_t i = 0; i < size; i++) {
        if (copy[i] == '\0')
            copy[i] = ' ';
    }
    return copy;
}

static void print(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void print(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    text_print(stdout, format, args);
    va_end(args);
}

static void print_string(const char *text, size_t size)
{
    char *copy = text_of(text, size), cut[4 * LONGEST + 8];
    text_cut(cut, sizeof cut, copy, LONGEST);
    print("\"%s\"%s", cut, strlen(cut) < strlen(copy) ? "..." : "");
    free(copy);
}

static void print_element(const attn_gguf_value *v, uint64_t i, size_t *cursor)
{
    int64_t whole;
    double number;
    const char *text;
    size_t size;
    if (attn_gguf_string(v, cursor, &text, &size))
        print_string(text, size);
    else if (v->type == ATTN_GGUF_BOOL && attn_gguf_integer(v, i, &whole))
        print("%s", whole ? "true" : "false");
    else if (attn_gguf_integer(v, i, &whole))
        print("%" PRId64, whole);
    else if (attn_gguf_number(v, i, &number))
        print("%.*g", v->type == ATTN_GGUF_F32 ? 9 : 17, number);
    else
        print("more than 63 bits");
}

static void print_value(const attn_gguf_value *v)
{
    size_t cursor = 0;
    print("%s = ", v->key);
    if (v->is_array)
        print("%" PRIu64 " of %s:", v->count, attn_gguf_type_name(v->type));
    for (uint64_t i = 0; i < v->count && i < FIRST; i++) {
        print("%s", i ? ", " : v->is_array ? " " : "");
        print_element(v, i, &cursor);
    }
    puts(v->count > FIRST ? ", ..." : "");
}

void show_gguf_text(const attn_file *f)
{
    char shape[SHAPE_TEXT];
    for (size_t i = 0; i < attn_gguf_count(f); i++) {
        const attn_gguf_value v = attn_gguf_at(f, i);
        print_value(&v);
    }
    for (size_t i = 0; i < attn_file_count(f); i++) {
        const attn_array_info info = attn_file_info(f, i);
        print_heading(stdout, "%s %s %s", info.name, shape_text(shape, info.ndim, info.shape), info.dtype_name);
    }
}

/* ---- JSON ---- */

static void put_element(json_writer *j, const char *key, const attn_gguf_value *v, uint64_t i, size_t *cursor)
{
    int64_t whole;
    double number;
    const char *text;
    size_t size;
    if (attn_gguf_string(v, cursor, &text, &size)) {
        char *copy = text_of(text, size);
        jw_string(j, key, copy);
        free(copy);
    } else if (v->type == ATTN_GGUF_BOOL && attn_gguf_integer(v, i, &whole)) {
        jw_bool(j, key, whole != 0);
    } else if (attn_gguf_integer(v, i, &whole)) {
        jw_int(j, key, whole);
    } else if (attn_gguf_number(v, i, &number)) {
        jw_number(j, key, number, v->type == ATTN_GGUF_F32 ? ATTN_F32 : ATTN_F64);
    } else {
        jw_string(j, key, NULL);
    }
}

void show_gguf_json(json_writer *j, const attn_file *f)
{
    jw_begin(j, "metadata", '{');
    for (size_t i = 0; i < attn_gguf_count(f); i++) {
        const attn_gguf_value v = attn_gguf_at(f, i);
        size_t cursor = 0;
        jw_begin(j, v.key, '{');
        jw_string(j, "type", attn_gguf_type_name(v.type));
        if (v.is_array) {
            jw_int(j, "count", (int64_t)v.count);
            jw_begin(j, "first", '[');
            for (uint64_t e = 0; e < v.count && e < FIRST; e++)
                put_element(j, NULL, &v, e, &cursor);
            jw_end(j, ']');
        } else {
            put_element(j, "value", &v, 0, &cursor);
        }
        jw_end(j, '}');
    }
    jw_end(j, '}');
}
