/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTN_ACTIVATION_H
#define ATTN_ACTIVATION_H
#include <attn/attn_model.h>

#include "rows.h"

attn_status attn_activation_check(attn_ctx *ctx, attn_activation f);
/* f, which has been checked, of a table. */
attn_activate_kernel *attn_activation_kernel(const attn_kernels *k, attn_activation f);
/* out = f(x), or f(x) * up with up; all checked. out may be either. */
attn_status attn_activation_run(attn_ctx *ctx, const attn_tensor *out, const attn_tensor *x, const attn_tensor *up, attn_activation f);
/* to = from, of one shape. */
attn_status attn_copy_run(attn_ctx *ctx, const attn_tensor *to, const attn_tensor *from);
/* out = a + b, of one shape. out may be either. */
attn_status attn_add_run(attn_ctx *ctx, const attn_tensor *out, const attn_tensor *a, const attn_tensor *b);
#endif
