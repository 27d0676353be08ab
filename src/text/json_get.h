/* SPDX-License-Identifier: Apache-2.0 */
/* Fields of small JSON objects. The first thing that is wrong stays in status; what is read after that is harmless. */
#ifndef ATTN_TEXT_JSON_GET_H
#define ATTN_TEXT_JSON_GET_H

#include <jansson.h>

#include "report.h"

struct get {
    const struct report *report;
    const char *what; /* "normalizer", for sentences */
    attn_status status;
};

void attn_get_wrong(struct get *g, const char *key, const char *rule);
/* Every key must be one of `keys`, which are separated by blanks. */
void attn_get_only(struct get *g, json_t *object, const char *type, const char *keys);
bool attn_get_bool(struct get *g, json_t *object, const char *key, bool otherwise);
/* "" and size 0 when absent or null. */
const char *attn_get_string(struct get *g, json_t *object, const char *key, size_t *size);
/* The same where it must be there. */
const char *attn_get_name(struct get *g, json_t *object, const char *key);
int64_t attn_get_integer(struct get *g, json_t *object, const char *key, int64_t otherwise);
bool attn_get_nomem(struct get *g);

#endif
