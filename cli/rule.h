/* SPDX-License-Identifier: Apache-2.0 */
/* --dialect: the calls of the library, by the rule of another system. Without the option they are those calls and nothing else. */
#ifndef ATTN_CLI_RULE_H
#define ATTN_CLI_RULE_H

#include "setup.h"

/* After setup_attention: writes what options can say of the rule into opts, and keeps the rest for the calls. q, k and v as in
   dialect_settle. 0, or an exit code after a message. */
int rule_settle(session *s, attn_sdpa_opts *opts, const attn_tensor *q, const attn_tensor *k, const attn_tensor *v, bool lse);

/* Between session_begin and results; each returns what session_end would. The rest of the arguments are those of the library. */
int rule_sdpa(session *s, attn_tensor *out, const attn_tensor *q, const attn_tensor *k, const attn_tensor *v, const attn_sdpa_opts *opts);
int rule_mha(session *s, attn_tensor *out, const attn_mha_weights *prepared, const attn_mha_desc *w, const attn_tensor *x,
             const attn_tensor *memory, const attn_tensor *memory_v, const attn_mha_opts *opts);
int rule_cell(session *s, attn_row *row, const attn_tensor *q, const attn_tensor *k, const attn_tensor *v, const attn_sdpa_opts *opts,
              int64_t b, int64_t h, int64_t i);
#endif
