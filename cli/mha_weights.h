/* SPDX-License-Identifier: Apache-2.0 */
/* The weights file of multi-head attention: our names and PyTorch's. */
#ifndef ATTN_CLI_MHA_WEIGHTS_H
#define ATTN_CLI_MHA_WEIGHTS_H

#include "attention.h"

typedef struct mha_files {
    attn_mha_desc desc; /* points into this struct: do not copy it */
    attn_tensor w_q, w_k, w_v, w_qkv, w_o, b_q, b_k, b_v, b_qkv, b_o;
    int64_t columns_q, columns_k, columns_v; /* the inner widths H*d, Hkv*d, Hkv*d_v */
} mha_files;

/* Reads WEIGHTS, --heads, --kv-heads and --torch. 0, or an exit code after a message. */
int read_mha_weights(mha_files *w, inputs *in, const char *path);
/* The sentence for a width that `heads` do not divide; returns an exit code. */
int refuse_heads(const char *what, int64_t width, int64_t heads);
/* X, --memory and --memory-v; the pointers are NULL for those not given. */
typedef struct mha_inputs {
    attn_tensor x, memory, memory_v;
    const attn_tensor *memory_given, *memory_v_given;
} mha_inputs;
int read_mha_inputs(mha_inputs *m, inputs *in, const char *path);

/* Computes in f64 if any of X, the memories and the weights is f64. After both have been read, before the rest here. */
void choose_mha_precision(mha_files *w, const mha_inputs *m);

/* The sizes of the attention inside; its stages have rank 4, or 3 for an X of rank 2. false: the ranks do not fit; the library says why. */
bool mha_sizes(sizes *z, const mha_files *w, const mha_inputs *m);
/* The shape of the output, of the rank of X. */
void mha_output_shape(const mha_files *w, const mha_inputs *m, const sizes *z, int64_t shape[ATTN_MAX_DIMS]);
/* The stages q, k, v and z, and where opts keeps them. */
void mha_stage_list(extra_stage extra[4], const sizes *z, attn_mha_opts *opts);
#endif
