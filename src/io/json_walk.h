/* SPDX-License-Identifier: Apache-2.0 */
/* Large JSON objects, one member at a time: the text is cut into members here, each is parsed by jansson. A tree of a whole 25 MB header
   would take hundreds of megabytes. */
#ifndef ATTN_IO_JSON_WALK_H
#define ATTN_IO_JSON_WALK_H

#include <jansson.h>

#include "report.h"

struct json_text {
    const char *start, *at, *end; /* start: byte `base` of the file */
    size_t base;
    const struct report *report;
};

struct json_piece {
    const char *text;
    size_t size;
};

/* Takes the '{' of an object and blanks before it. */
attn_status attn_json_enter(struct json_text *t);
/* Takes a member and the comma before it, or the '}' : then key->text is NULL. first: no member was taken yet. */
attn_status attn_json_next(struct json_text *t, int first, struct json_piece *key, struct json_piece *value);
/* Nothing but blanks may follow. */
attn_status attn_json_leave(struct json_text *t);

/* How many members the object at t has and how many bytes their keys take in all, each with a 0; t is not moved. */
attn_status attn_json_count(struct json_text t, size_t *members, size_t *key_bytes);

/* The string that the piece is, into out (piece.size bytes suffice), with its 0. */
attn_status attn_json_piece_string(const struct json_text *t, struct json_piece p, const char *what, char *out);
/* The value that a piece of at most 4096 bytes is; *value is to be json_decref'ed. */
attn_status attn_json_piece_value(const struct json_text *t, struct json_piece p, const char *what, json_t **value);

#endif
