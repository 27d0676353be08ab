/* SPDX-License-Identifier: Apache-2.0 */
/* What the verbs sdpa, mha and explain share: the operands, the shapes of everything that attention gives, the outputs asked for. */
#ifndef ATTN_CLI_ATTENTION_H
#define ATTN_CLI_ATTENTION_H

#include "inputs.h"
#include "results.h"
#include "setup.h"

/* Q, K and V as the library takes them: (L,d), (H,L,d) or (B,H,L,d) views. */
typedef struct qkv {
    attn_tensor q, k, v;
} qkv;

/* Reads the operands of sdpa and explain sdpa, turned round with --layout blhd. 0, or an exit code after a message. */
int read_qkv(inputs *in, qkv *t);

/* The sizes of one attention; leading sizes that the tensors lack are 1. */
typedef struct sizes {
    int32_t rank; /* of Q: 2, 3 or 4 */
    int64_t B, H, Hkv, Lq, Lk, d, d_v;
    attn_dtype dtype; /* that it is computed in: f32 or f64 */
    bool packed;      /* (T,H,d) with --cu-q */
} sizes;

/* false when the ranks do not fit each other: the library says why. */
bool sizes_of(sizes *z, const qkv *t, bool packed);

/* The shape of a stage (B,H,Lq,Lk), or of another product per row or key, with the rank that Q's gives it. Returns the rank. */
typedef enum part { PART_CELLS, PART_AVERAGE, PART_ROWS, PART_KEYS, PART_OUTPUT } part;
int32_t part_shape(const sizes *z, part p, int64_t shape[ATTN_MAX_DIMS]);

/* --weights, --lse, --mass and every --stage: memory, paths, and the fields of opts. `extra` names the stages of mha that are not in opts;
 *of_extra[i] is set to the tensor asked for. */
typedef struct extra_stage {
    const char *name;
    int32_t ndim;
    int64_t shape[ATTN_MAX_DIMS];
    attn_tensor **where;
} extra_stage;
int want_results(results *r, const sizes *z, attn_sdpa_opts *opts, const extra_stage *extra, int extras);
/* The field of opts that holds the stage of that name, or NULL. */
attn_tensor **stage_field(attn_sdpa_opts *opts, const char *name, part *p);

/* The dtype of --dtype, else `otherwise`; 0 after a message. */
attn_dtype output_dtype(const options *o, attn_dtype otherwise);
#endif
