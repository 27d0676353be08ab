/* SPDX-License-Identifier: Apache-2.0 */
/* --rope: q and k are turned before the attention, in mha behind the split into heads. Without the option nothing happens here. */
#ifndef ATTN_CLI_ROPE_H
#define ATTN_CLI_ROPE_H

#include "attention.h"
#include "mha_weights.h"

#include <attn/attn_model.h>

typedef struct rotation {
    bool given;
    const attn_rope *rope; /* of a model, instead of theta: NULL where --rope says it */
    double theta;
    bool interleaved;
    attn_tensor positions; /* of --positions: [L] or [B,L] of the keys; data NULL: not given */
    diagnose_rope where;   /* once turned: the positions of rows and keys */
    qkv before;            /* once turned: q, k, v as they came */
    qkv turned;            /* q and k in f32, or f64 where one of q, k, v is f64 */
    attn_tensor *wanted[2]; /* NULL, or arrays for the turned q and k */
    void *memory[8];        /* of all of it */
    int memories;
} rotation;

/* Reads --rope and --positions. 0, or an exit code after a message. */
int rope_read(rotation *r, inputs *in);
void rope_free(rotation *r);
/* Results q_rot and k_rot, which the next rope_turn fills, or which the last one has filled. */
int rope_add_results(rotation *r, results *to, const sizes *z);
/* t->q and t->k become the turned ones. opts says where the rows stand. */
int rope_turn(rotation *r, session *s, const attn_sdpa_opts *opts, qkv *t);
/* attn_mha with q and k turned on their way; opts may ask for q, k, v and z, which are those before. */
int rope_mha(rotation *r, session *s, attn_tensor *out, const attn_mha_weights *prepared, const mha_files *w, const mha_inputs *m,
             const attn_mha_opts *opts);
#endif
