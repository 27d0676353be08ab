/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTN_LAYER_H
#define ATTN_LAYER_H
#include <attn/attn_model.h>

#include "../ops/mha_weights.h"

/* The parts of a layer, in order. */
enum { SELF, CROSS, MLP, PARTS };

typedef struct attn_layer_norm_of {
    int is_there;
    attn_norm_opts opts;      /* its tensors are the two below */
    attn_tensor weight, bias; /* f64 [n], the layer's own */
} attn_layer_norm_of;

struct attn_layer {
    const attn_isa *isa;
    int is_f64;
    uint32_t flags;
    int64_t n;
    attn_layer_norm_of norm[PARTS];
    attn_layer_norm_of head_norm[2]; /* of self's q and k */
    attn_mha_weights *mha[2]; /* of SELF and CROSS; NULL: absent */
    int has_mlp;
    attn_matrix up, gate, down; /* gate.packed NULL: no gate */
    void *block;                /* where every matrix is packed, those of mha too */
    attn_activation activation;
    const attn_rope *rope;
    void (*free)(void *user, void *p);
    void *user;
};

static inline int attn_layer_has(const attn_layer *l, int part) { return part == MLP ? l->has_mlp : l->mha[part] != NULL; }

/* Where the parts of a call keep their numbers: packed tensors of the layer's real, [B,L,...] or [L,...] as x is. */
typedef struct attn_layer_call {
    attn_ctx *ctx;
    const attn_layer *layer;
    const attn_tensor *x, *out;
    attn_layer_opts opts;
    attn_layer_stages stages; /* a copy of opts.stages that is whole */
    attn_sdpa_opts sdpa[2];   /* copies of opts.self and opts.cross that are whole */
    int64_t items, rows, keys; /* keys: rows of the memory */
    uintptr_t base;                        /* of the buffers: */
    attn_tensor normed, given, sum;        /* of every part */
    attn_tensor q, k, v, z, up, gate;      /* of the part that runs */
    int step, steps;
    uint32_t threads;
} attn_layer_call;

/* Checks everything that can be wrong with a call, but what attn_sdpa and the cache check. The copies have been made. */
attn_status attn_layer_check(attn_layer_call *c);
/* The same of attn_layer_memory: c->x is the memory. */
attn_status attn_layer_check_memory_call(attn_layer_call *c, const attn_kv *kv);
#endif
