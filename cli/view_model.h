/* SPDX-License-Identifier: Apache-2.0 */
/* attn view of a model: the attentions of all layers while it reads a text. */
#ifndef ATTN_CLI_VIEW_MODEL_H
#define ATTN_CLI_VIEW_MODEL_H

#include "explain.h"
#include "model_run.h"

/* What was seen. whole: (layers,H,Lq,Lk), data NULL where the model has no such attention; layer: each as (1,H,Lq,Lk). */
typedef struct model_view {
    const options *o;
    model_run run;
    attn_tensor whole[MODEL_PARTS], *layer[MODEL_PARTS];
    int64_t at_layer[MODEL_PARTS], at_head; /* --layer and --head; a part that has fewer layers shows its last */
    model_part first;                       /* --part */
} model_view;

/* Is the operand a model, not a file of saved attention? */
bool is_model(const char *path);
int view_model(const options *o);

/* view_model_text.c: the tokens, how sharp every head is, and one head. */
int view_model_print(const model_view *v, const explanation *how);
#endif
