/* SPDX-License-Identifier: Apache-2.0 */
#include "json_out.h"
#include "finish.h"
#include "text.h"

#include <math.h>
#include <string.h>

static void print_string(FILE *f, const char *s)
{
    fputc('"', f);
    for (int bytes; *s; s += bytes) {
        const uint32_t c = text_decode(s, &bytes);
        if (c == '"' || c == '\\')
            fprintf(f, "\\%c", *s);
        else if (c == NOT_UTF8 || text_is_control(c))
            fprintf(f, "\\u%04x", c == NOT_UTF8 ? 0xFFFDu : (unsigned)c);
        else
            fwrite(s, 1, (size_t)bytes, f);
    }
    fputc('"', f);
}

static void start(json_writer *j, const char *key)
{
    fprintf(j->f, "%s\n%*s", j->comma ? "," : "", 2 * j->depth, "");
    if (key) {
        print_string(j->f, key);
        fputs(": ", j->f);
    }
    j->comma = true;
}

void jw_begin(json_writer *j, const char *key, char bracket)
{
    start(j, key);
    fputc(bracket, j->f);
    j->depth++;
    j->comma = false;
}

void jw_end(json_writer *j, char bracket)
{
    j->depth--;
    if (j->comma)
        fprintf(j->f, "\n%*s", 2 * j->depth, "");
    fputc(bracket, j->f);
    j->comma = true;
}

json_writer jw_begin_document(const char *command)
{
    json_writer j = {.f = stdout, .depth = 1};
    fputc('{', j.f);
    jw_int(&j, "schema", 1);
    jw_string(&j, "command", command);
    jw_string(&j, "version", attn_version());
    return j;
}

int jw_end_document(json_writer *j)
{
    jw_end(j, '}');
    fputc('\n', j->f);
    return finish_stdout();
}

void jw_string(json_writer *j, const char *key, const char *value)
{
    start(j, key);
    if (value)
        print_string(j->f, value);
    else
        fputs("null", j->f);
}

void jw_int(json_writer *j, const char *key, int64_t value)
{
    start(j, key);
    fprintf(j->f, "%lld", (long long)value);
}

void jw_bool(json_writer *j, const char *key, bool value)
{
    start(j, key);
    fputs(value ? "true" : "false", j->f);
}

static void print_number(FILE *f, double value, attn_dtype dtype)
{
    if (isnan(value) || isinf(value))
        fputs(isnan(value) ? "\"nan\"" : value > 0 ? "\"inf\"" : "\"-inf\"", f);
    else
        fprintf(f, dtype == ATTN_F64 ? "%.17g" : "%.9g", value);
}

void jw_number(json_writer *j, const char *key, double value, attn_dtype dtype)
{
    start(j, key);
    print_number(j->f, value, dtype);
}

void jw_shape(json_writer *j, const char *key, int32_t ndim, const int64_t *shape)
{
    start(j, key);
    fputc('[', j->f);
    for (int32_t i = 0; i < ndim && i < ATTN_MAX_DIMS; i++)
        fprintf(j->f, "%s%lld", i ? ", " : "", (long long)shape[i]);
    fputc(']', j->f);
}

void jw_numbers(json_writer *j, const char *key, const double *values, int64_t count, attn_dtype dtype)
{
    start(j, key);
    for (int64_t i = 0; i < count; i++) {
        fputs(i ? ", " : "[", j->f);
        print_number(j->f, values[i], dtype);
    }
    fputs(count ? "]" : "[]", j->f);
}

static void print_element(FILE *f, const attn_tensor *t, const int64_t *index)
{
    if (dtype_is_float(t->dtype))
        print_number(f, tensor_value(t, index), t->dtype);
    else if (t->dtype == ATTN_BOOL)
        fputs(tensor_integer(t, index) ? "true" : "false", f);
    else if (t->dtype == ATTN_U64)
        fprintf(f, "%llu", (unsigned long long)tensor_integer(t, index));
    else
        fprintf(f, "%lld", (long long)tensor_integer(t, index));
}

static void print_axis(json_writer *j, const attn_tensor *t, int32_t axis, int64_t *index)
{
    if (axis == t->ndim) {
        print_element(j->f, t, index);
        return;
    }
    const bool last = axis == t->ndim - 1;
    fputc('[', j->f);
    for (index[axis] = 0; index[axis] < t->shape[axis]; index[axis]++) {
        if (!last)
            fprintf(j->f, "%s\n%*s", index[axis] ? "," : "", 2 * (j->depth + axis + 1), "");
        else if (index[axis])
            fputs(", ", j->f);
        print_axis(j, t, axis + 1, index);
    }
    if (!last)
        fprintf(j->f, "\n%*s", 2 * (j->depth + axis), "");
    fputc(']', j->f);
}

void jw_values(json_writer *j, const char *key, const attn_tensor *t)
{
    int64_t index[ATTN_MAX_DIMS] = {0};
    start(j, key);
    if (tensor_count(t) == 0)
        fputs("[]", j->f); /* 2^50 rows of nothing are no text */
    else
        print_axis(j, t, 0, index);
}

void jw_array(json_writer *j, const char *key, const char *formula, const attn_tensor *t, const char *file)
{
    jw_begin(j, key, '{');
    if (formula)
        jw_string(j, "formula", formula);
    jw_string(j, "dtype", attn_dtype_name(t->dtype));
    jw_shape(j, "shape", t->ndim, t->shape);
    if (file)
        jw_string(j, "file", file);
    else
        jw_values(j, "values", t);
    jw_end(j, '}');
}
