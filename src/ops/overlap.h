/* SPDX-License-Identifier: Apache-2.0 */
/* No output may share an element with an input or another output. */
#ifndef ATTN_OVERLAP_H
#define ATTN_OVERLAP_H
#include "../core/ctx.h"

typedef struct attn_named {
    const attn_tensor *t; /* NULL: absent */
    const char *name;
} attn_named;

enum { ATTN_MAX_NAMED = 64 };
typedef struct attn_named_list {
    attn_named item[ATTN_MAX_NAMED];
    int n;
} attn_named_list;

ATTN_PRIVATE void attn_list_add(attn_named_list *list, const attn_tensor *t, const char *name);
/* The tensors that the options name, by what the call does with them. */
ATTN_PRIVATE void attn_list_outputs(attn_named_list *list, const attn_sdpa_opts *o);
ATTN_PRIVATE void attn_list_inputs(attn_named_list *list, const attn_sdpa_opts *o);

/* All have been checked by attn_check_tensor. */
ATTN_PRIVATE attn_status attn_check_apart(attn_ctx *ctx, const attn_named_list *outputs, const attn_named_list *inputs);
#endif
