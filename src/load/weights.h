/* SPDX-License-Identifier: Apache-2.0 */
/* The tensors of a model by name, with the shape that the configuration demands. As with config.h a failure writes the sentence and sets
   weights.status; getters after it give an all-zero tensor and do nothing. Names are made as printf does. */
#ifndef ATTN_LOAD_WEIGHTS_H
#define ATTN_LOAD_WEIGHTS_H
#include <attn/attn_io.h>

#include "report.h"

enum { WEIGHT_NAME = 256, WEIGHT_COPIES = 16 };

struct weights {
    attn_file *file;
    char path[LOAD_PATH];
    struct load_report report; /* its file is the path above */
    attn_status status;
    unsigned char *used;       /* [tensors of the file] */
    int64_t parameters;        /* numbers in the tensors that were used */
    attn_ctx *ctx;             /* whose threads decode blocks of a .gguf */
    struct weight_copy {
        size_t tensor;
        int64_t rows, columns, capacity; /* capacity: numbers that there is room for */
        float *numbers;
    } copies[WEIGHT_COPIES]; /* tensors of a .gguf as f32 */
    int copy_count, decoded; /* those that are in use, and those of them that have been decoded */
};

/* DIR/model.safetensors, else the shards of DIR/model.safetensors.index.json; NAME instead of "model" where it is given. Weights that were
   saved as a pickle are refused with the remedy. */
attn_status attn_weights_open(struct weights *w, const char *dir, const char *name, const struct load_report *r);
/* The tensors of a .gguf. Matrices that are stored in blocks become f32 in memory that attn_weights_next gives to others, so their views
   are for packing, not for keeping; and their numbers are there after attn_weights_decode only. */
attn_status attn_weights_open_gguf(struct weights *w, attn_ctx *ctx, const char *path, const struct load_report *r);
void attn_weights_close(struct weights *w);

__attribute__((format(printf, 2, 3))) int attn_weights_has(const struct weights *w, const char *format, ...);

/* Views, valid until attn_weights_close: [n]; the transposed view (in, out) of an (out, in) matrix, as PyTorch's Linear has it; the
   matrix (rows, columns) as it lies there. */
__attribute__((format(printf, 3, 4))) attn_tensor attn_weights_vector(struct weights *w, int64_t n, const char *format, ...);
__attribute__((format(printf, 4, 5))) attn_tensor attn_weights_linear(struct weights *w, int64_t in, int64_t out, const char *format, ...);
__attribute__((format(printf, 4, 5))) attn_tensor attn_weights_matrix(struct weights *w, int64_t rows, int64_t columns, const char *format,
                                                                      ...);

/* The index in the file of the matrix (rows, columns), of which rows will be read one by one (attn_gguf_rows); -1 after a failure. */
__attribute__((format(printf, 4, 5))) int64_t attn_weights_rows(struct weights *w, int64_t rows, int64_t columns, const char *format, ...);

/* Decodes the matrices of a .gguf that were got since attn_weights_next, on all threads at once. Returns weights.status. */
attn_status attn_weights_decode(struct weights *w);
/* What was read has been packed: the pages of the file are given back, its views stay valid and are read again where they are used. */
void attn_weights_next(struct weights *w);
/* The same, and the memory of the decoded. */
void attn_weights_forget(struct weights *w);

/* Every tensor must have been used, or match a pattern of `ignored` (ends with NULL; '*' at either end stands for anything); else the
   first is an error by name. Returns weights.status. */
attn_status attn_weights_rest(struct weights *w, const char *const *ignored);
#endif
