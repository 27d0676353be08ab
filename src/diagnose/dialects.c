/* SPDX-License-Identifier: Apache-2.0 */
#include "dialects.h"

#include <string.h>

const char *const dialect_id[DIALECTS] = {
    [DIALECT_TORCH] = "dialect-torch",
    [DIALECT_TORCH_MHA] = "dialect-torch-mha",
    [DIALECT_ONNX_1_21] = "dialect-onnx-1.21",
    [DIALECT_ONNX_1_22] = "dialect-onnx-1.22",
    [DIALECT_ONNX_1_23] = "dialect-onnx-1.23",
    [DIALECT_FLASH2] = "dialect-flash2",
    [DIALECT_FLASH3] = "dialect-flash3",
    [DIALECT_HF_EAGER] = "dialect-hf-eager",
    [DIALECT_MLX] = "dialect-mlx",
    [DIALECT_JAX] = "dialect-jax",
    [DIALECT_GGML] = "dialect-ggml",
    [DIALECT_ORT] = "dialect-ort",
};

/* One row for each system; fields that are 0 are as ours. */
static const variation rules[DIALECTS] = {
    /* causal top-left; hidden keys are added -inf, so that NaN in them spreads */
    [DIALECT_TORCH] = {.align = ALIGN_TOP_LEFT, .gone = GONE_COMPUTED},
    /* the same, and with need_weights rows that see nothing are NaN */
    [DIALECT_TORCH_MHA] = {.align = ALIGN_TOP_LEFT, .gone = GONE_COMPUTED, .empty = EMPTY_NAN, .lse = LSE_EMPTY_NAN},
    /* top-left also with lengths; a bool mask under causal is 0 * -inf = NaN where it is true; softcap after the mask */
    [DIALECT_ONNX_1_21] = {.align = ALIGN_TOP_LEFT,
                           .gone = GONE_COMPUTED,
                           .empty = EMPTY_NAN,
                           .lse = LSE_EMPTY_NAN,
                           .scale = SCALE_SPLIT,
                           .mask = MASK_TIMES_INFINITY,
                           .cap = CAP_AFTER_ALL},
    [DIALECT_ONNX_1_22] = {.align = ALIGN_TOP_LEFT,
                           .gone = GONE_COMPUTED,
                           .empty = EMPTY_NAN,
                           .lse = LSE_EMPTY_NAN,
                           .scale = SCALE_SPLIT,
                           .mask = MASK_TIMES_INFINITY},
    /* with lengths the last query stands at the last valid key */
    [DIALECT_ONNX_1_23] = {.align = ALIGN_LENGTHS_ONLY, .gone = GONE_COMPUTED, .scale = SCALE_SPLIT},
    [DIALECT_FLASH2] = {.align = ALIGN_BOTTOM_RIGHT, .lse = LSE_EMPTY_INF},
    [DIALECT_FLASH3] = {.align = ALIGN_BOTTOM_RIGHT},
    /* hidden cells get the lowest float, a window counts the position itself */
    [DIALECT_HF_EAGER] = {.align = ALIGN_BOTTOM_RIGHT,
                          .hide = HIDE_MIN,
                          .hide_scope = SCOPE_NOT_BIAS,
                          .empty = EMPTY_NAN,
                          .window_left = WINDOW_LESS,
                          .lse = LSE_EMPTY_NAN},
    [DIALECT_MLX] =
        {.align = ALIGN_BOTTOM_RIGHT, .hide = HIDE_MIN_SET, .hide_scope = SCOPE_NOT_BIAS, .empty = EMPTY_NAN, .lse = LSE_EMPTY_NAN},
    [DIALECT_JAX] = {.align = ALIGN_TOP_LEFT, .hide = HIDE_MIN_SET, .hide_scope = SCOPE_NOT_BIAS, .empty = EMPTY_NAN, .lse = LSE_EMPTY_NAN},
    /* ALiBi is slope * mask, and the mask holds minus the distance */
    [DIALECT_GGML] = {.alibi = ALIBI_TIMES_BIAS},
    /* MultiHeadAttention: -10000 is added; GroupQueryAttention: the window counts the position itself */
    [DIALECT_ORT] = {.align = ALIGN_BOTTOM_RIGHT, .hide = HIDE_1E4, .window_left = WINDOW_LESS},
};

variation dialect_variation(enum dialect d, const problem *p)
{
    variation v = rules[d];
    const bool true_hides = d == DIALECT_TORCH_MHA, said_to = p->o.flags & ATTN_MASK_DROP,
               offset = (p->o.flags & ATTN_OFFSET) || p->o.offsets;
    const bool takes_bool = d != DIALECT_FLASH2 && d != DIALECT_FLASH3 && d != DIALECT_GGML;
    if (takes_bool && p->facts & FACT_MASK && true_hides != said_to)
        v.mask = MASK_FLIPPED;
    if (v.mask == MASK_TIMES_INFINITY && !(p->facts & FACT_CAUSAL && p->facts & FACT_MASK))
        v.mask = MASK_RIGHT;
    if (d == DIALECT_ONNX_1_23 && offset) /* past keys */
        v.align = ALIGN_RIGHT;
    if (!(p->facts & FACT_CAP))
        v.cap = CAP_RIGHT;
    if (!(p->facts & FACT_ADDED))
        v.alibi = ALIBI_RIGHT;
    return v;
}
