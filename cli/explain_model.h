/* SPDX-License-Identifier: Apache-2.0 */
/* explain mha --from: X, memory and weights of a layer of a model while it reads a text. */
#ifndef ATTN_CLI_EXPLAIN_MODEL_H
#define ATTN_CLI_EXPLAIN_MODEL_H

#include "mha_weights.h"
#include "model_run.h"
#include "rope.h"

typedef struct model_layer {
    model_run run;
    model_part part;
    int64_t number, window; /* window: keys that a row sees, itself included; 0 = no limit */
    const attn_layer *layer;
    attn_layer_part facts;
    attn_tensor states, memory; /* [L,n]: what the layer takes, and what the encoder gives */
    void *weights[8];
} model_layer;

/* Reads --from and the options beside it, runs the model, and fills m and w, whose tensors stay until model_layer_close. 0, or an exit code
   after a message. model_layer_close in either case. */
int model_layer_open(model_layer *l, session *s, mha_inputs *m, mha_files *w);
void model_layer_close(model_layer *l);
/* What the layer hides, and how it turns. */
void model_layer_settle(const model_layer *l, attn_sdpa_opts *opts, rotation *turn);
#endif
