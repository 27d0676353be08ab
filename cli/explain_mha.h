/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of `attn explain mha` share. */
#ifndef ATTN_CLI_EXPLAIN_MHA_H
#define ATTN_CLI_EXPLAIN_MHA_H

#include "explain.h"
#include "mha_weights.h"

/* Everything of a page of multi-head attention; z are the heads before they are joined. 0, or an exit code after a message. */
int explain_mha_page(const explanation *e, page *p, const mha_files *w, const mha_inputs *m, const attn_tensor *z, const attn_tensor *out);

/* --npz: explain_bundle with each head's part of the output, whose memory (to be freed) *head_results gets, and the output. */
int explain_mha_bundle(const explanation *e, results *r, const attn_mha_opts *stages, const attn_tensor *out, attn_tensor *head_results);
/* z (B,H,L,d_v) as the rows of concat (B,L,H*d_v); both may lack B. */
void explain_join(const attn_tensor *z, const attn_tensor *concat);
/* out[b,i,h,:] = z[b,h,i,:] times the rows of w_o that belong to head h; summed over the heads, and with b_o added, the output. */
void explain_head_results(const attn_tensor *z, const attn_tensor *w_o, const attn_tensor *out);
#endif
