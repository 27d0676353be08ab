/* SPDX-License-Identifier: Apache-2.0 */
/* A model and a text, run once for somebody who watches. */
#ifndef ATTN_CLI_MODEL_RUN_H
#define ATTN_CLI_MODEL_RUN_H

#include "model_tokens.h"
#include "setup.h"

#include <attn/attn_load.h>

typedef struct model_run {
    session *s;
    const char *path;
    attn_tokenizer *tokenizer;
    attn_pretrained *model;
    attn_model_info info;
    token_list text, target; /* target: of encoder-decoders, what the decoder reads */
} model_run;

/* Opens the model at path, and reads --text, --text2 and --target; without --target what the model says itself, greedily. 0, or an exit
   code after a message. model_run_close in either case. */
int model_run_open(model_run *m, session *s, const char *path);
void model_run_close(model_run *m);
/* Runs it. 0, or an exit code after a message. */
int model_run_watched(model_run *m, const attn_watch *watch);

/* The attentions of a model. */
typedef enum model_part { MODEL_ENCODER, MODEL_DECODER, MODEL_CROSS, MODEL_PARTS } model_part;
extern const char *const model_part_name[MODEL_PARTS];
/* Does the model have that one? */
bool model_has(const model_run *m, model_part part);
/* Of a part: its layers, and the tokens that its rows and its keys are. */
int64_t model_part_layers(const model_run *m, model_part part);
const token_list *model_part_rows(const model_run *m, model_part part);
const token_list *model_part_keys(const model_run *m, model_part part);
/* --part, else the first that the model has. 0, or an exit code after a message. */
int model_part_chosen(const model_run *m, model_part *part);
/* --layer or --head: a whole number below count, 0 when not given. 0, or an exit code after a message. */
int model_place_chosen(const model_run *m, opt_id id, int64_t count, int64_t *place);
#endif
