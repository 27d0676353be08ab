/* SPDX-License-Identifier: Apache-2.0 */
/* config.json and its like, read without trust. A getter that fails writes the sentence, sets config.status and returns 0; those after it
   do nothing, so that a reader asks for all its fields and looks at the status once. A field that is null is absent. */
#ifndef ATTN_LOAD_CONFIG_H
#define ATTN_LOAD_CONFIG_H
#include <jansson.h>

#include "report.h"

enum { CONFIG_FIELDS = 256 };

struct config {
    json_t *root;                    /* an object; NULL before opening */
    char file[LOAD_PATH];
    struct load_report report;       /* its file is the one above, or what stands for it */
    attn_status status;
    const char *asked[CONFIG_FIELDS]; /* fields that a getter was asked for */
    size_t asked_count;
};

/* Reads DIR/NAME, at most 16 MB, which must hold an object. config may be all-zero garbage before; attn_config_close after, either way. */
attn_status attn_config_open(struct config *c, const char *dir, const char *name, const struct load_report *r);
/* The same of an object inside another file: "rope_scaling" of a config. Closed before its parent. A missing one is an error. */
attn_status attn_config_enter(struct config *inner, struct config *outer, const char *field);
/* The same of a file that must hold an array, whose element i, below json_array_size(root), must be an object. */
attn_status attn_config_open_list(struct config *c, const char *dir, const char *name, const struct load_report *r);
attn_status attn_config_item(struct config *inner, struct config *list, size_t i);
void attn_config_close(struct config *c);

int attn_config_has(const struct config *c, const char *field);

/* Needed fields. */
int64_t attn_config_int(struct config *c, const char *field, int64_t least, int64_t most);
double attn_config_number(struct config *c, const char *field, double least, double most); /* an integer is a number too */
int attn_config_bool(struct config *c, const char *field);
const char *attn_config_text(struct config *c, const char *field); /* lives as long as c; "" after a failure */
/* The same, or `otherwise` where the field is absent. */
int64_t attn_config_int_or(struct config *c, const char *field, int64_t least, int64_t most, int64_t otherwise);
double attn_config_number_or(struct config *c, const char *field, double least, double most, double otherwise);
int attn_config_bool_or(struct config *c, const char *field, int otherwise);
const char *attn_config_text_or(struct config *c, const char *field, const char *otherwise);

/* A field that may be absent, but can have no other value here: another is ATTN_E_UNSUPPORTED, by name. */
void attn_config_only_text(struct config *c, const char *field, const char *value);
void attn_config_only_bool(struct config *c, const char *field, int value);
/* Absent, or an object or list without a member. */
void attn_config_only_empty(struct config *c, const char *field);

/* The activation of that name in Hugging Face's libraries. */
attn_activation attn_config_activation(struct config *c, const char *field);

/* Every field that was not asked for must be in `harmless` (ends with NULL) or among those of every model that change no hidden state and
   no logit; else it is ATTN_E_UNSUPPORTED by name. Returns config.status. */
attn_status attn_config_rest(struct config *c, const char *const *harmless);
#endif
