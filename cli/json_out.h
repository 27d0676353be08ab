/* SPDX-License-Identifier: Apache-2.0 */
/* JSON as docs/json.md describes it: %.9g for f32 and shorter, %.17g for f64, non-finite numbers as "inf", "-inf", "nan". */
#ifndef ATTN_CLI_JSON_OUT_H
#define ATTN_CLI_JSON_OUT_H

#include "tensor.h"

#include <stdio.h>

typedef struct json_writer {
    FILE *f;
    int depth;
    bool comma; /* something stands before on this level */
} json_writer;

/* `{"schema": 1, "command": command, "version": ...`; closed by jw_end_document, which returns an exit code. */
json_writer jw_begin_document(const char *command);
int jw_end_document(json_writer *j);

/* key NULL inside an array. */
void jw_begin(json_writer *j, const char *key, char bracket);
void jw_end(json_writer *j, char bracket);
void jw_string(json_writer *j, const char *key, const char *value); /* NULL gives null */
void jw_int(json_writer *j, const char *key, int64_t value);
void jw_bool(json_writer *j, const char *key, bool value);
void jw_number(json_writer *j, const char *key, double value, attn_dtype dtype);
void jw_shape(json_writer *j, const char *key, int32_t ndim, const int64_t *shape);
/* The numbers as nested arrays, the last axis on one line. */
void jw_values(json_writer *j, const char *key, const attn_tensor *t);
/* count numbers in one line. */
void jw_numbers(json_writer *j, const char *key, const double *values, int64_t count, attn_dtype dtype);
/* An array as an object: dtype, shape, and its values, or the file that has them. `formula` may be NULL. */
void jw_array(json_writer *j, const char *key, const char *formula, const attn_tensor *t, const char *file);
#endif
