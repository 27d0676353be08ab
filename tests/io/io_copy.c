/* SPDX-License-Identifier: Apache-2.0 */
/* usage: io_copy IN [OUT...]     every array of IN into each OUT; without OUT, one line for each array, and for each value of a .gguf.
   Tensors of a .gguf that are stored in blocks are copied as f32.
   The library seen from outside: exit code 2 and the sentence on stderr after a failure; SIGTERM removes the temporaries. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "attn/attn_io.h"

static attn_outputs *volatile outputs; /* for the signal handler */

static void on_signal(int signal_number)
{
    attn_outputs_unlink(outputs);
    signal(signal_number, SIG_DFL);
    raise(signal_number); /* ends the process when this handler returns */
}

static void must(attn_status s, const char *err)
{
    if (s == ATTN_OK)
        return;
    fprintf(stderr, "%d %s\n", (int)s, err);
    attn_outputs_destroy(outputs);
    exit(2);
}

static void list_value(const attn_gguf_value *v)
{
    size_t cursor = 0, size;
    const char *text;
    int64_t whole;
    double number;
    printf("%s %s%s:", v->key, attn_gguf_type_name(v->type), v->is_array ? "[]" : "");
    while (attn_gguf_string(v, &cursor, &text, &size))
        printf(" '%.*s'", (int)size, text);
    for (uint64_t i = 0; i < v->count && v->type != ATTN_GGUF_STRING; i++) {
        if (attn_gguf_integer(v, i, &whole))
            printf(" %lld", (long long)whole);
        else if (attn_gguf_number(v, i, &number))
            printf(" %.17g", number);
        else
            printf(" ?");
    }
    putchar('\n');
}

/* All rows in two calls, into memory that the caller frees. */
static attn_tensor read_blocks(const attn_file *f, size_t i, char *err, size_t err_size)
{
    const attn_array_info info = attn_file_info(f, i);
    int64_t rows = 1, row = info.ndim > 0 ? info.shape[info.ndim - 1] : 1;
    for (int32_t axis = 0; axis + 1 < info.ndim; axis++)
        rows *= info.shape[axis];
    float *numbers = malloc((size_t)(rows * row) * sizeof numbers[0] + 1);
    must(numbers ? ATTN_OK : ATTN_E_NOMEM, "no memory");
    must(attn_gguf_rows(f, i, 0, rows / 2, numbers, err, err_size), err);
    must(attn_gguf_rows(f, i, rows / 2, rows - rows / 2, numbers + rows / 2 * row, err, err_size), err);
    return attn_tensor_of(numbers, ATTN_F32, info.ndim, info.shape);
}

static void list(const attn_file *f)
{
    for (size_t i = 0; i < attn_gguf_count(f); i++) {
        const attn_gguf_value v = attn_gguf_at(f, i);
        list_value(&v);
    }
    for (size_t i = 0; i < attn_file_count(f); i++) {
        const attn_array_info info = attn_file_info(f, i);
        printf("'%s' %s [", info.name, info.dtype_name);
        for (int j = 0; j < info.ndim && j < ATTN_MAX_DIMS; j++)
            printf("%s%lld", j ? "," : "", (long long)info.shape[j]);
        printf("]\n");
    }
}

int main(int argc, char **argv)
{
    char err[512] = "no sentence";
    attn_file *f;
    attn_outputs *o;
    signal(SIGTERM, on_signal);
    must(attn_file_open(&f, argc > 1 ? argv[1] : "-", err, sizeof err), err);
    const size_t count = attn_file_count(f);
    const char **names = calloc(count + 1, sizeof names[0]);
    void **blocks = calloc(count + 1, sizeof blocks[0]);
    attn_tensor *tensors = calloc(count + 1, sizeof tensors[0]);
    if (names == NULL || blocks == NULL || tensors == NULL)
        return 2;
    if (argc <= 2)
        list(f);
    for (size_t i = 0; i < count && argc > 2; i++) {
        names[i] = attn_file_info(f, i).name;
        if (names[i][0] == '\0')
            names[i] = "array";
        if (attn_file_format(f) == ATTN_FORMAT_GGUF && attn_file_info(f, i).dtype == 0) {
            tensors[i] = read_blocks(f, i, err, sizeof err);
            blocks[i] = tensors[i].data;
        } else {
            must(attn_file_tensor(f, i, &tensors[i], err, sizeof err), err);
        }
    }
    must(attn_outputs_create(&o, err, sizeof err), err);
    outputs = o;
    for (int i = 2; i < argc; i++)
        must(attn_outputs_arrays(o, argv[i], count, names, tensors, err, sizeof err), err);
    must(attn_outputs_commit(o, err, sizeof err), err);
    outputs = NULL;
    attn_outputs_destroy(o);
    attn_file_close(f);
    for (size_t i = 0; i < count; i++)
        free(blocks[i]);
    free(blocks);
    free(names);
    free(tensors);
    return 0;
}
