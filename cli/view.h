/* SPDX-License-Identifier: Apache-2.0 */
/* Attention that other programs saved: which arrays of a file are which stage of which layer. */
#ifndef ATTN_CLI_VIEW_H
#define ATTN_CLI_VIEW_H

#include "inputs.h"

enum view_stage_id { VIEW_Q, VIEW_K, VIEW_V, VIEW_SCORES, VIEW_SCALED, VIEW_CAPPED, VIEW_MASKED, VIEW_WEIGHTS, VIEW_OUTPUT, VIEW_STAGES };
extern const char *const view_stage_name[VIEW_STAGES]; /* in the page and in our own files */

/* The axes of one layer's array, in the order in which they lie in the file. */
typedef enum view_axes {
    VIEW_CELLS, /* (B,H,Lq,Lk) */
    VIEW_HEADS, /* (B,H,L,d) */
    VIEW_TOKENS /* (B,L,H,d), as TransformerLens has it */
} view_axes;

/* What the name of an array says. layer is -1 where the name has none. false: it is no name of a stage. */
bool view_name(const char *name, enum view_stage_id *stage, view_axes *axes, int64_t *layer);
/* strcmp but for numbers, which are compared as such: arr_2 comes before arr_10. */
int view_natural_order(const char *a, const char *b);
/* Two names that differ in their numbers alone. */
bool view_same_stem(const char *a, const char *b);

/* A file as its stages. */
typedef struct view {
    int64_t layers, B, H, Hkv, Lq, Lk, d_k, d_v;
    const char **layer_name;         /* NULL, or [layers] */
    attn_tensor *stage[VIEW_STAGES]; /* [layers] each, all (B,H,L,..), or NULL */
    const char *unread;              /* NULL, or the arrays that are no stage: "a, b" */
    void *memory[VIEW_STAGES + 3];
    int memories;
} view;

/* Reads FILE: stages by their names, else every array as the weights of a layer. 0, or an exit code after a message. */
int view_read(view *w, inputs *in, const char *path);
void view_close(view *w);
#endif
