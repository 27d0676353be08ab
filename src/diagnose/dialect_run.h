/* SPDX-License-Identifier: Apache-2.0 */
/* Attention by the rule of another system: by the options of attn_sdpa where they can say it, else by the definition in float64. */
#ifndef ATTN_DIAGNOSE_DIALECT_RUN_H
#define ATTN_DIAGNOSE_DIALECT_RUN_H

#include "diagnose.h"

typedef struct dialect_rule {
    enum dialect dialect;
    bool in_options;  /* the options say all of it */
    bool window_said; /* they say its window */
} dialect_rule;

/* Where the rule anchors causal order, windows and ALiBi; ATTN_ALIGN_DEFAULT: where the caller says, or the lengths. */
attn_align dialect_anchor(enum dialect d);

/* Writes what options can say of the rule into opts: alignment, mask polarity, window. q, k and v (of mha: X and what keys and values are
   projected from; v NULL: k) tell how many rows and keys there are; k and v are searched for NaN and infinities, which spread from hidden
   keys in some systems. lse: it is asked for, and must be that system's for rows that see nothing. */
dialect_rule dialect_settle(attn_sdpa_opts *opts, enum dialect d, const attn_tensor *q, const attn_tensor *k, const attn_tensor *v,
                            bool lse);

/* The same outputs as attn_sdpa, attn_mha and attn_explain_cell write, which must have taken the arguments; q, k, v of mha are not written.
   In the row a key is hidden that has weight 0 and a reason to be hidden. false: memory ran out. */
bool dialect_sdpa(const dialect_rule *rule, attn_tensor *out, const attn_tensor *q, const attn_tensor *k, const attn_tensor *v,
                  const attn_sdpa_opts *opts);
bool dialect_mha(const dialect_rule *rule, attn_tensor *out, const attn_mha_desc *w, const attn_tensor *x, const attn_tensor *memory,
                 const attn_tensor *memory_v, const attn_mha_opts *opts);
bool dialect_cell(const dialect_rule *rule, attn_row *row, const attn_tensor *q, const attn_tensor *k, const attn_tensor *v,
                  const attn_sdpa_opts *opts, int64_t b, int64_t h, int64_t i);
#endif
