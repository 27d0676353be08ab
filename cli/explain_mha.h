/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of `attn explain mha` share. */
#ifndef ATTN_CLI_EXPLAIN_MHA_H
#define ATTN_CLI_EXPLAIN_MHA_H

#include "explain.h"
#include "mha_weights.h"

/* Everything of a page of multi-head attention; z are the heads before they are joined. 0, or an exit code after a message. */
int explain_mha_page(const explanation *e, page *p, const mha_files *w, const mha_inputs *m, const attn_tensor *z, const attn_tensor *out);
#endif
