/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the layout of the public structs and the values of the public constants; test_layout.py compares attnlib.py with it. */
#include <attn/attn.h>
#include <attn/attn_model.h>

#include <stddef.h>
#include <stdio.h>

#define SIZE(type) printf(#type " %zu\n", sizeof(type))
#define FIELD(type, field) printf(#type "." #field " %zu\n", offsetof(type, field))
#define VALUE(name) printf(#name " %d\n", (int)(name))

static void sdpa_fields(void)
{
    SIZE(attn_sdpa_opts);
    FIELD(attn_sdpa_opts, struct_size); FIELD(attn_sdpa_opts, flags); FIELD(attn_sdpa_opts, scale); FIELD(attn_sdpa_opts, softcap);
    FIELD(attn_sdpa_opts, mask); FIELD(attn_sdpa_opts, bias); FIELD(attn_sdpa_opts, align); FIELD(attn_sdpa_opts, offset);
    FIELD(attn_sdpa_opts, offsets); FIELD(attn_sdpa_opts, window_left); FIELD(attn_sdpa_opts, window_right);
    FIELD(attn_sdpa_opts, kv_len); FIELD(attn_sdpa_opts, q_len); FIELD(attn_sdpa_opts, cu_seqlens_q);
    FIELD(attn_sdpa_opts, cu_seqlens_k); FIELD(attn_sdpa_opts, alibi_slopes); FIELD(attn_sdpa_opts, sinks);
    FIELD(attn_sdpa_opts, dropout); FIELD(attn_sdpa_opts, seed); FIELD(attn_sdpa_opts, first_batch);
    FIELD(attn_sdpa_opts, first_head); FIELD(attn_sdpa_opts, first_row); FIELD(attn_sdpa_opts, keep); FIELD(attn_sdpa_opts, lse);
    FIELD(attn_sdpa_opts, row_max); FIELD(attn_sdpa_opts, entropy); FIELD(attn_sdpa_opts, mass); FIELD(attn_sdpa_opts, weights);
    FIELD(attn_sdpa_opts, scores); FIELD(attn_sdpa_opts, scaled); FIELD(attn_sdpa_opts, capped); FIELD(attn_sdpa_opts, masked);
}

static void row_fields(void)
{
    SIZE(attn_row);
    FIELD(attn_row, struct_size); FIELD(attn_row, flags); FIELD(attn_row, scores); FIELD(attn_row, scaled); FIELD(attn_row, capped);
    FIELD(attn_row, masked); FIELD(attn_row, weights); FIELD(attn_row, output); FIELD(attn_row, hidden); FIELD(attn_row, lse);
    FIELD(attn_row, row_max); FIELD(attn_row, entropy); FIELD(attn_row, scale); FIELD(attn_row, position); FIELD(attn_row, kv_head);
    FIELD(attn_row, visible); FIELD(attn_row, out_dtype);
}

static void mha_fields(void)
{
    SIZE(attn_mha_desc);
    FIELD(attn_mha_desc, struct_size); FIELD(attn_mha_desc, flags); FIELD(attn_mha_desc, heads); FIELD(attn_mha_desc, kv_heads);
    FIELD(attn_mha_desc, w_q); FIELD(attn_mha_desc, w_k); FIELD(attn_mha_desc, w_v); FIELD(attn_mha_desc, w_qkv);
    FIELD(attn_mha_desc, b_q); FIELD(attn_mha_desc, b_k); FIELD(attn_mha_desc, b_v); FIELD(attn_mha_desc, b_qkv);
    FIELD(attn_mha_desc, w_o); FIELD(attn_mha_desc, b_o);
    SIZE(attn_mha_opts);
    FIELD(attn_mha_opts, struct_size); FIELD(attn_mha_opts, flags); FIELD(attn_mha_opts, sdpa); FIELD(attn_mha_opts, q);
    FIELD(attn_mha_opts, k); FIELD(attn_mha_opts, v); FIELD(attn_mha_opts, z);
}

static void small_fields(void)
{
    SIZE(attn_tensor);
    FIELD(attn_tensor, data); FIELD(attn_tensor, dtype); FIELD(attn_tensor, ndim); FIELD(attn_tensor, shape);
    FIELD(attn_tensor, stride);
    SIZE(attn_ctx_opts);
    FIELD(attn_ctx_opts, struct_size); FIELD(attn_ctx_opts, threads); FIELD(attn_ctx_opts, isa); FIELD(attn_ctx_opts, alloc);
    FIELD(attn_ctx_opts, free); FIELD(attn_ctx_opts, user); FIELD(attn_ctx_opts, progress); FIELD(attn_ctx_opts, progress_user);
    SIZE(attn_info);
    FIELD(attn_info, isa); FIELD(attn_info, path); FIELD(attn_info, threads);
    SIZE(attn_kv_desc);
    FIELD(attn_kv_desc, struct_size); FIELD(attn_kv_desc, dtype); FIELD(attn_kv_desc, batch); FIELD(attn_kv_desc, kv_heads);
    FIELD(attn_kv_desc, capacity); FIELD(attn_kv_desc, head_dim); FIELD(attn_kv_desc, value_dim);
}

static void model_fields(void)
{
    SIZE(attn_rope_desc);
    FIELD(attn_rope_desc, struct_size); FIELD(attn_rope_desc, flags); FIELD(attn_rope_desc, head_dim); FIELD(attn_rope_desc, rotary_dim);
    FIELD(attn_rope_desc, theta); FIELD(attn_rope_desc, scaling); FIELD(attn_rope_desc, factor);
    FIELD(attn_rope_desc, original_length); FIELD(attn_rope_desc, length); FIELD(attn_rope_desc, low_freq);
    FIELD(attn_rope_desc, high_freq); FIELD(attn_rope_desc, beta_fast); FIELD(attn_rope_desc, beta_slow);
    FIELD(attn_rope_desc, attention_factor); FIELD(attn_rope_desc, cos); FIELD(attn_rope_desc, sin);
    FIELD(attn_rope_desc, divisors);
    SIZE(attn_rope_opts);
    FIELD(attn_rope_opts, struct_size); FIELD(attn_rope_opts, flags); FIELD(attn_rope_opts, offset); FIELD(attn_rope_opts, positions);
    SIZE(attn_norm_opts);
    FIELD(attn_norm_opts, struct_size); FIELD(attn_norm_opts, flags); FIELD(attn_norm_opts, eps); FIELD(attn_norm_opts, weight);
    FIELD(attn_norm_opts, bias);
    SIZE(attn_embed_opts);
    FIELD(attn_embed_opts, struct_size); FIELD(attn_embed_opts, flags); FIELD(attn_embed_opts, scale); FIELD(attn_embed_opts, token);
    FIELD(attn_embed_opts, position); FIELD(attn_embed_opts, type); FIELD(attn_embed_opts, offset);
    FIELD(attn_embed_opts, position_ids); FIELD(attn_embed_opts, type_ids);
    SIZE(attn_linear_desc);
    FIELD(attn_linear_desc, struct_size); FIELD(attn_linear_desc, flags); FIELD(attn_linear_desc, w); FIELD(attn_linear_desc, b);
    SIZE(attn_mlp_desc);
    FIELD(attn_mlp_desc, struct_size); FIELD(attn_mlp_desc, flags); FIELD(attn_mlp_desc, activation); FIELD(attn_mlp_desc, w_up);
    FIELD(attn_mlp_desc, b_up); FIELD(attn_mlp_desc, w_gate); FIELD(attn_mlp_desc, b_gate); FIELD(attn_mlp_desc, w_down);
    FIELD(attn_mlp_desc, b_down);
    VALUE(ATTN_ROPE_INTERLEAVED); VALUE(ATTN_ROPE_PLAIN); VALUE(ATTN_ROPE_LINEAR); VALUE(ATTN_ROPE_DYNAMIC);
    VALUE(ATTN_ROPE_LLAMA3); VALUE(ATTN_ROPE_YARN); VALUE(ATTN_NORM_EPS); VALUE(ATTN_NORM_PLUS_ONE); VALUE(ATTN_NORM_RMS);
    VALUE(ATTN_GELU); VALUE(ATTN_GELU_TANH); VALUE(ATTN_SILU); VALUE(ATTN_RELU); VALUE(ATTN_EMBED_SCALE); VALUE(ATTN_LINEAR_F64);
    VALUE(ATTN_LAYER_POST_NORM); VALUE(ATTN_LAYER_CAUSAL); VALUE(ATTN_LAYER_F64);
}

static void layer_fields(void)
{
    SIZE(attn_layer_desc);
    FIELD(attn_layer_desc, struct_size); FIELD(attn_layer_desc, flags); FIELD(attn_layer_desc, self); FIELD(attn_layer_desc, self_norm);
    FIELD(attn_layer_desc, cross); FIELD(attn_layer_desc, cross_norm); FIELD(attn_layer_desc, mlp); FIELD(attn_layer_desc, mlp_norm);
    FIELD(attn_layer_desc, rope);
    FIELD(attn_layer_desc, q_norm);
    FIELD(attn_layer_desc, k_norm);
    SIZE(attn_layer_opts);
    FIELD(attn_layer_opts, struct_size); FIELD(attn_layer_opts, flags); FIELD(attn_layer_opts, self); FIELD(attn_layer_opts, cross);
    FIELD(attn_layer_opts, offset); FIELD(attn_layer_opts, positions); FIELD(attn_layer_opts, kv); FIELD(attn_layer_opts, memory);
    FIELD(attn_layer_opts, memory_kv); FIELD(attn_layer_opts, stages);
    SIZE(attn_layer_stages);
    FIELD(attn_layer_stages, struct_size); FIELD(attn_layer_stages, flags); FIELD(attn_layer_stages, self_norm);
    FIELD(attn_layer_stages, q); FIELD(attn_layer_stages, k); FIELD(attn_layer_stages, v); FIELD(attn_layer_stages, heads);
    FIELD(attn_layer_stages, self_out); FIELD(attn_layer_stages, self_sum); FIELD(attn_layer_stages, cross_norm);
    FIELD(attn_layer_stages, cross_q); FIELD(attn_layer_stages, cross_heads); FIELD(attn_layer_stages, cross_out);
    FIELD(attn_layer_stages, cross_sum); FIELD(attn_layer_stages, mlp_norm); FIELD(attn_layer_stages, mlp_gate);
    FIELD(attn_layer_stages, mlp_up); FIELD(attn_layer_stages, mlp_hidden); FIELD(attn_layer_stages, mlp_out);
    FIELD(attn_layer_stages, mlp_sum);
}

static void constants(void)
{
    VALUE(ATTN_OK); VALUE(ATTN_E_ARG); VALUE(ATTN_E_SHAPE); VALUE(ATTN_E_DTYPE); VALUE(ATTN_E_UNSUPPORTED); VALUE(ATTN_E_NOMEM);
    VALUE(ATTN_E_IO); VALUE(ATTN_E_FORMAT); VALUE(ATTN_E_CANCELLED); VALUE(ATTN_E_FULL);
    VALUE(ATTN_F32); VALUE(ATTN_F64); VALUE(ATTN_F16); VALUE(ATTN_BF16); VALUE(ATTN_BOOL); VALUE(ATTN_I8); VALUE(ATTN_U8);
    VALUE(ATTN_I16); VALUE(ATTN_U16); VALUE(ATTN_I32); VALUE(ATTN_U32); VALUE(ATTN_I64); VALUE(ATTN_U64);
    VALUE(ATTN_CAUSAL); VALUE(ATTN_SCALE); VALUE(ATTN_WINDOW); VALUE(ATTN_OFFSET); VALUE(ATTN_ALIBI); VALUE(ATTN_MASK_DROP);
    VALUE(ATTN_AVERAGE); VALUE(ATTN_RELAXED); VALUE(ATTN_MHA_F64);
    VALUE(ATTN_ALIGN_DEFAULT); VALUE(ATTN_ALIGN_TOP_LEFT); VALUE(ATTN_ALIGN_BOTTOM_RIGHT);
    VALUE(ATTN_HIDDEN_MASK); VALUE(ATTN_HIDDEN_BIAS); VALUE(ATTN_HIDDEN_CAUSAL); VALUE(ATTN_HIDDEN_WINDOW);
    VALUE(ATTN_HIDDEN_KV_LEN); VALUE(ATTN_HIDDEN_Q_LEN);
    VALUE(ATTN_MAX_DIMS);
}

int main(void)
{
    small_fields();
    sdpa_fields();
    row_fields();
    mha_fields();
    model_fields();
    layer_fields();
    constants();
    return 0;
}
