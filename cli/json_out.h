/* SPDX-License-Identifier: Apache-2.0 */
/* JSON as docs/json.md describes it: %.9g for f32 and shorter, %.17g for f64, non-finite numbers as "inf", "-inf", "nan". */
#ifndef ATTN_CLI_JSON_OUT_H
#define ATTN_CLI_JSON_OUT_H

#include "tensor.h"

#include <stdio.h>

typedef struct json {
    FILE *f;
    int depth;
    bool comma; /* something stands before on this level */
} json;

/* `{"schema": 1, "command": command, "version": ...`; closed by json_end_document, which returns an exit code. */
json json_begin_document(const char *command);
int json_end_document(json *j);

/* key NULL inside an array. */
void json_begin(json *j, const char *key, char bracket);
void json_end(json *j, char bracket);
void json_string(json *j, const char *key, const char *value); /* NULL gives null */
void json_int(json *j, const char *key, int64_t value);
void json_bool(json *j, const char *key, bool value);
void json_number(json *j, const char *key, double value, attn_dtype dtype);
void json_shape(json *j, const char *key, int32_t ndim, const int64_t *shape);
/* The numbers as nested arrays, the last axis on one line. */
void json_values(json *j, const char *key, const attn_tensor *t);
/* count numbers in one line. */
void json_numbers(json *j, const char *key, const double *values, int64_t count, attn_dtype dtype);
/* An array as an object: dtype, shape, and its values, or the file that has them. `formula` may be NULL. */
void json_array(json *j, const char *key, const char *formula, const attn_tensor *t, const char *file);
#endif
