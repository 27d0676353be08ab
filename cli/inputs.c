/* SPDX-License-Identifier: Apache-2.0 */
#include "inputs.h"
#include "message.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SENTENCE = 1024 };

void inputs_close(inputs *in)
{
    for (int i = 0; i < in->files; i++)
        attn_file_close(in->file[i]);
    for (int i = 0; i < in->copies; i++)
        free(in->copy[i]);
    in->files = in->copies = 0;
}

int inputs_open(inputs *in, const char *what, const char *path, attn_file **f)
{
    char sentence[SENTENCE];
    const bool is_stdin = strcmp(path, "-") == 0;
    if (is_stdin && in->reads_stdin)
        return trouble("%s and %s are both -, and standard input can be read once; give one of them as a file", in->reads_stdin, what);
    if (is_stdin && isatty(STDIN_FILENO))
        return trouble("%s is -, and standard input is a terminal; pipe a .npy file into it", what);
    if (is_stdin)
        in->reads_stdin = what;
    if (in->files == MAX_INPUT_FILES)
        return trouble("more than %d input files", MAX_INPUT_FILES);
    if (attn_file_open(f, path, sentence, sizeof sentence) != ATTN_OK)
        return trouble("%s: %s", what, sentence);
    in->file[in->files++] = *f;
    return EXIT_DONE;
}

void inputs_list(const attn_file *f, char *out, size_t size)
{
    size_t at = 0;
    char shape[SHAPE_TEXT];
    out[0] = 0;
    for (size_t i = 0; i < attn_file_count(f) && at + 1 < size; i++) {
        const attn_array_info info = attn_file_info(f, i);
        at += (size_t)snprintf(out + at, size - at, "%s%s %s", i ? ", " : "", *info.name ? info.name : "an array without a name",
                               shape_text(shape, info.ndim, info.shape));
    }
    if (at >= size)
        strcpy(out + size - 4, "...");
}

/* The array of a file that stands for one input. */
static int open_one(inputs *in, const char *what, const char *name, const char *path, attn_tensor *t)
{
    attn_file *f;
    char sentence[SENTENCE], names[300];
    const int status = inputs_open(in, what, path, &f);
    if (status)
        return status;
    int64_t at = attn_file_count(f) == 1 ? 0 : attn_file_find(f, name);
    if (at < 0) {
        inputs_list(f, names, sizeof names);
        return trouble("%s: %s holds %zu arrays%s%s%s, and none is called %s; give a file with one array", what, path, attn_file_count(f),
                       *names ? " (" : "", names, *names ? ")" : "", name);
    }
    if (attn_file_tensor(f, (size_t)at, t, sentence, sizeof sentence) != ATTN_OK)
        return trouble("%s: %s", what, sentence);
    return EXIT_DONE;
}

/* t becomes a packed copy of itself in f64 or i64. */
static int convert(inputs *in, const char *what, attn_tensor *t, attn_dtype dtype)
{
    attn_tensor copy;
    int64_t index[ATTN_MAX_DIMS] = {0};
    const int status = tensor_new(&copy, what, dtype, t->ndim, t->shape);
    if (status)
        return status;
    if (in->copies == MAX_INPUT_COPIES) {
        free(copy.data);
        return trouble("more than %d inputs to convert", MAX_INPUT_COPIES);
    }
    in->copy[in->copies++] = copy.data;
    const int64_t count = tensor_count(t);
    for (int64_t i = 0; i < count; i++, tensor_next(t, index)) {
        if (dtype == ATTN_F64)
            ((double *)copy.data)[i] = tensor_value(t, index);
        else if (dtype == ATTN_BOOL)
            ((uint8_t *)copy.data)[i] = tensor_value(t, index) != 0;
        else
            ((int64_t *)copy.data)[i] = dtype_is_float(t->dtype) ? (int64_t)tensor_value(t, index) : tensor_integer(t, index);
    }
    *t = copy;
    return EXIT_DONE;
}

static int as_float(inputs *in, const char *what, const char *path, attn_tensor *t)
{
    if (t->dtype == ATTN_U16 && opt_given(in->o, OPT_IN_DTYPE))
        t->dtype = ATTN_BF16;
    if (dtype_is_float(t->dtype))
        return EXIT_DONE;
    note(opt_given(in->o, OPT_QUIET), "%s: %s holds %s, which is read as f64%s", what, path, attn_dtype_name(t->dtype),
         t->dtype == ATTN_U16 ? " (--in-dtype bf16 reads it as bf16)" : "");
    return convert(in, what, t, ATTN_F64);
}

int inputs_float(inputs *in, const char *what, const char *name, const char *path, attn_tensor *t)
{
    const int status = open_one(in, what, name, path, t);
    return status ? status : as_float(in, what, path, t);
}

int inputs_named(inputs *in, attn_file *f, const char *path, const char *name, attn_tensor *t)
{
    char sentence[SENTENCE];
    if (attn_file_named(f, name, t, sentence, sizeof sentence) != ATTN_OK)
        return trouble("%s", sentence);
    return as_float(in, name, path, t);
}

/* True when every number of t is one of 0 and 1 (and there is one). */
static bool only_zeros_and_ones(const attn_tensor *t)
{
    int64_t index[ATTN_MAX_DIMS] = {0};
    const int64_t count = tensor_count(t);
    for (int64_t i = 0; i < count; i++, tensor_next(t, index)) {
        const double v = tensor_value(t, index);
        if (v != 0 && v != 1)
            return false;
    }
    return count > 0;
}

int inputs_mask(inputs *in, const char *what, const char *path, attn_tensor *t)
{
    const int status = open_one(in, what, what + 2, path, t);
    if (status || attn_format_of(path) != ATTN_FORMAT_CSV || !only_zeros_and_ones(t))
        return status;
    note(opt_given(in->o, OPT_QUIET), "%s: %s holds only 0 and 1 and is read as a bool mask; --bias would add the numbers", what, path);
    return convert(in, what, t, ATTN_BOOL);
}

int inputs_bias(inputs *in, const char *what, const char *path, attn_tensor *t)
{
    const int status = open_one(in, what, what + 2, path, t);
    if (!status && t->dtype == ATTN_U16 && opt_given(in->o, OPT_IN_DTYPE))
        t->dtype = ATTN_BF16;
    return status;
}

/* A row or column of a text file as rank 1. */
static void flatten_text(const char *path, attn_tensor *t)
{
    if (attn_format_of(path) != ATTN_FORMAT_CSV || t->ndim != 2 || (t->shape[0] != 1 && t->shape[1] != 1))
        return;
    const int32_t axis = t->shape[0] == 1 ? 1 : 0;
    *t = (attn_tensor){.data = t->data, .dtype = t->dtype, .ndim = 1, .shape = {t->shape[axis]}, .stride = {t->stride[axis]}};
}

/* A list of numbers such as "5,7" as f64. false: text is no list. */
static bool read_list(inputs *in, const char *text, attn_tensor *t)
{
    int64_t count = 1;
    for (const char *c = text; *c; c++)
        count += *c == ',';
    double *numbers = need_memory((size_t)count * sizeof *numbers);
    const char *at = text;
    for (int64_t i = 0; i < count; i++) {
        char *end;
        numbers[i] = strtod(at, &end);
        if (end == at || *end != (i + 1 < count ? ',' : '\0') || in->copies == MAX_INPUT_COPIES) {
            free(numbers);
            return false;
        }
        at = end + 1;
    }
    in->copy[in->copies++] = numbers;
    *t = attn_tensor_of(numbers, ATTN_F64, 1, &count);
    return true;
}

static int read_vector(inputs *in, const char *what, const char *text, attn_tensor *t)
{
    if (attn_format_of(text) == ATTN_FORMAT_UNKNOWN && read_list(in, text, t))
        return EXIT_DONE;
    const int status = open_one(in, what, what + 2, text, t);
    if (!status)
        flatten_text(text, t);
    return status;
}

int inputs_integers(inputs *in, const char *what, const char *text, attn_tensor *t)
{
    int64_t index[ATTN_MAX_DIMS] = {0};
    const int status = read_vector(in, what, text, t);
    if (status || t->dtype == ATTN_I32 || t->dtype == ATTN_I64)
        return status;
    const int64_t count = tensor_count(t);
    for (int64_t i = 0; i < count && dtype_is_float(t->dtype); i++, tensor_next(t, index)) {
        const double v = tensor_value(t, index);
        if (!(fabs(v) < 0x1p53 && v == floor(v)))
            return trouble("%s: %s holds %g, and must hold whole numbers", what, text, v);
    }
    return convert(in, what, t, ATTN_I64);
}

int inputs_numbers(inputs *in, const char *what, const char *text, attn_tensor *t)
{
    const int status = read_vector(in, what, text, t);
    if (status || t->dtype == ATTN_F32 || t->dtype == ATTN_F64)
        return status;
    if (t->dtype == ATTN_U16 && opt_given(in->o, OPT_IN_DTYPE))
        t->dtype = ATTN_BF16;
    return convert(in, what, t, ATTN_F64);
}
