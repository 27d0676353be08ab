/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays from files, each read for its part: numbers, a mask, integers. Everything stays until inputs_close. */
#ifndef ATTN_CLI_INPUTS_H
#define ATTN_CLI_INPUTS_H

#include "options.h"
#include "tensor.h"

#include <attn/attn_io.h>

enum { MAX_INPUT_FILES = 24, MAX_INPUT_COPIES = 48 };

typedef struct inputs {
    const options *o;
    attn_file *file[MAX_INPUT_FILES];
    int files;
    void *copy[MAX_INPUT_COPIES];
    int copies;
    const char *reads_stdin; /* which input "-" went to, or NULL */
} inputs;

void inputs_close(inputs *in);

/* `what` names the input in messages ("Q", "--mask"). All return 0, or an exit code after a message. */
int inputs_open(inputs *in, const char *what, const char *path, attn_file **f);

/* The one array of the file (of several, the one called `name`) as f32, f64, f16 or bf16; integers become f64 with a note. */
int inputs_float(inputs *in, const char *what, const char *name, const char *path, attn_tensor *t);
/* The arrays of a file: "a (2,3), b (4), ..." */
void inputs_list(const attn_file *f, char *out, size_t size);
/* The array `name` of an open file in the same way. */
int inputs_named(inputs *in, attn_file *f, const char *path, const char *name, attn_tensor *t);
/* As it is; a text file that holds only 0 and 1 becomes bool. */
int inputs_mask(inputs *in, const char *what, const char *path, attn_tensor *t);
/* As it is, uint16 as bf16 with --in-dtype. */
int inputs_bias(inputs *in, const char *what, const char *path, attn_tensor *t);
/* int32 or int64, from a file or a list such as "5,7"; a text file gives rank 1. */
int inputs_integers(inputs *in, const char *what, const char *text, attn_tensor *t);
/* f32 or f64, from a file or a list such as "0.5,0.25"; a text file gives rank 1. */
int inputs_numbers(inputs *in, const char *what, const char *text, attn_tensor *t);
#endif
