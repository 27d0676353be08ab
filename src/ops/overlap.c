/* SPDX-License-Identifier: Apache-2.0 */
#include "overlap.h"

#include "../core/tensor.h"

void attn_list_add(attn_named_list *list, const attn_tensor *t, const char *name)
{
    if (t)
        list->item[list->n++] = (attn_named){t, name};
}

void attn_list_outputs(attn_named_list *list, const attn_sdpa_opts *o)
{
    attn_list_add(list, o->lse, "lse");
    attn_list_add(list, o->row_max, "row_max");
    attn_list_add(list, o->entropy, "entropy");
    attn_list_add(list, o->mass, "mass");
    attn_list_add(list, o->weights, "weights");
    attn_list_add(list, o->scores, "scores");
    attn_list_add(list, o->scaled, "scaled");
    attn_list_add(list, o->capped, "capped");
    attn_list_add(list, o->masked, "masked");
}

void attn_list_inputs(attn_named_list *list, const attn_sdpa_opts *o)
{
    attn_list_add(list, o->mask, "mask");
    attn_list_add(list, o->bias, "bias");
    attn_list_add(list, o->keep, "keep");
    attn_list_add(list, o->offsets, "offsets");
    attn_list_add(list, o->kv_len, "kv_len");
    attn_list_add(list, o->q_len, "q_len");
    attn_list_add(list, o->cu_seqlens_q, "cu_seqlens_q");
    attn_list_add(list, o->cu_seqlens_k, "cu_seqlens_k");
    attn_list_add(list, o->alibi_slopes, "alibi_slopes");
    attn_list_add(list, o->sinks, "sinks");
}

attn_status attn_check_apart(attn_ctx *ctx, const attn_named_list *outputs, const attn_named_list *inputs)
{
    for (int i = 0; i < outputs->n; i++) {
        const attn_named out = outputs->item[i];
        if (!attn_tensor_is_injective(out.t))
            return attn_fail(ctx, ATTN_E_ARG, "%s writes two elements to one place: a stride is 0 or too short for its shape", out.name);
        for (int j = 0; j < i; j++)
            if (!attn_tensors_disjoint(out.t, outputs->item[j].t))
                return attn_fail(ctx, ATTN_E_ARG, "%s overlaps %s in memory; every output needs memory of its own", out.name,
                                 outputs->item[j].name);
        for (int j = 0; j < inputs->n; j++)
            if (!attn_tensors_disjoint(out.t, inputs->item[j].t))
                return attn_fail(ctx, ATTN_E_ARG, "%s overlaps %s in memory; an output needs memory that no input uses", out.name,
                                 inputs->item[j].name);
    }
    return ATTN_OK;
}
