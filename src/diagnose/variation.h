/* SPDX-License-Identifier: Apache-2.0 */
/* What a computation of attention may do otherwise than ref/attn_ref.c. Zero in every field is the right answer; every other value is a
   mistake that people make, or a rule of another system. One evaluator reads them all (heads.c, row.c, softmax.c, deliver.c). Every field
   is a byte, so that two variations can be joined field by field. */
#ifndef ATTN_DIAGNOSE_VARIATION_H
#define ATTN_DIAGNOSE_VARIATION_H

#include <stdbool.h>
#include <stdint.h>

/* What q, k and v are made of. */
enum layout_choice {
    LAYOUT_RIGHT,
    LAYOUT_BLHD,     /* the memory of (..,H,L,d) read as (..,L,H,d) */
    LAYOUT_BLHD_OUT, /* and the output delivered in that order too */
    LAYOUT_BLHD_V,   /* the memory of v alone */
    LAYOUT_STRIDES,  /* the memory of (..,L,H,d) read as (..,H,L,d), as if a transposed view were packed; and so on */
    LAYOUT_STRIDES_OUT,
    LAYOUT_STRIDES_V,
    LAYOUT_AXES /* heads taken for positions and positions for heads */
};
enum precision_choice { PRECISION_RIGHT, PRECISION_F16, PRECISION_BF16, PRECISION_F16_SUMS, PRECISION_F32 };
/* Where such a computation rounds besides q, k, v, scaled, weights and output. */
enum rounding_steps {
    STEPS_FEW,
    STEPS_SCORES = 1,      /* the scores before they are scaled */
    STEPS_SOFTMAX = 2,     /* every number of the softmax: score - max, its power, their sum */
    STEPS_SPLIT_SCALE = 4, /* q and k after sqrt(scale) */
    STEPS_SCALE_Q = 8,     /* q after scale */
    STEPS_PRODUCTS = 16,   /* sums in f16 or f32: each product before it is added */
    STEPS_NUMBERS = 32     /* sums in f16: every number that is kept too */
};
/* And where it does not. */
enum full_steps {
    FULL_NOWHERE,
    FULL_WEIGHTS = 1,
    FULL_MASKED = 2,  /* from the mask to the softmax */
    FULL_OUTSIDE = 4, /* mha: the projections */
    FULL_INSIDE = 8   /* all but q, k and v */
};
enum split_choice { SPLIT_RIGHT, SPLIT_RESHAPE };
/* Rotary positions: of q and k alone, after the split. */
enum rope_choice {
    ROPE_RIGHT,
    ROPE_NONE,
    ROPE_OTHER_PAIRS, /* halves for neighbours, or neighbours for halves */
    ROPE_NOT_Q,
    ROPE_NOT_K,
    ROPE_ON_V,
    ROPE_BACKWARDS,
    ROPE_THETA_1E4,
    ROPE_THETA_5E5,
    ROPE_THETA_1E6,
    ROPE_BEFORE_SPLIT /* mha: pairs of the whole width */
};
enum rope_places {
    PLACES_RIGHT,
    PLACES_ROWS_MORE, /* rows one too far, or one behind; keys right */
    PLACES_ROWS_LESS,
    PLACES_ROWS_FROM_ZERO,
    PLACES_COUNT_PADS, /* the place in the array, whatever the positions say: of rows and keys, of rows alone, of keys alone */
    PLACES_COUNT_PADS_ROWS,
    PLACES_COUNT_PADS_KEYS
};
enum order_choice { ORDER_RIGHT, ORDER_QK, ORDER_QV, ORDER_KV, ORDER_ROTATED, ORDER_ROTATED_BACK };

/* How the numbers were kept at the end, and what that says of the computation. */
enum stored_choice {
    STORED_RIGHT,
    STORED_F32,      /* OUT is f64, but was computed in f32 */
    STORED_DECIMALS, /* rounded to a few decimals */
    STORED_WEIGHTS   /* OUT has 16 bits, and so had the weights; in which blocks, and before or after the division, is not known */
};

typedef struct input_variation {
    uint8_t layout, precision, steps, full;
    uint8_t rope, rope_places;
    /* mha */
    uint8_t split;               /* the projections into heads */
    uint8_t order, order_biases; /* which weights project q, k, v; with their biases or without */
    uint8_t w_q_transposed, w_k_transposed, w_v_transposed;
    uint8_t b_q_missing, b_k_missing, b_v_missing;
} input_variation;

enum keys_choice { KEYS_RIGHT, KEYS_NOT_TRANSPOSED, KEYS_V, KEYS_SWAPPED };
enum values_choice { VALUES_RIGHT, VALUES_K };
enum kv_heads_choice { KV_HEADS_RIGHT, KV_HEADS_TILED, KV_HEADS_CLAMPED, KV_HEADS_FIRST };
enum scale_choice {
    SCALE_RIGHT,
    SCALE_NONE,
    SCALE_D,
    SCALE_SQRT_MODEL,
    SCALE_SQRT_WIDTH,
    SCALE_MULTIPLIED,
    SCALE_INVERSE,
    SCALE_TWICE,
    SCALE_DEFAULT,
    SCALE_PADDED_8, /* d rounded up to a multiple of 8, of 32, to a power of two */
    SCALE_PADDED_32,
    SCALE_PADDED_POWER,
    SCALE_SPLIT /* sqrt(scale) on q and k: a negative one is NaN */
};
enum cap_choice { CAP_RIGHT, CAP_NONE, CAP_AFTER_ALL, CAP_AFTER_MASK };
enum alibi_choice {
    ALIBI_RIGHT,
    ALIBI_NONE,
    ALIBI_SIGN,
    ALIBI_PLAIN,      /* 2^(-8(h+1)/H) for every H */
    ALIBI_NEXT_POWER, /* the first H slopes of the next power of two */
    ALIBI_KV_SHARED,  /* the slopes of Hkv heads, one for each group */
    ALIBI_KV_COUNT,   /* 2^(-8(h+1)/Hkv) */
    ALIBI_FROM_ZERO,  /* 2^(-8h/H) */
    ALIBI_DEFAULT,    /* the slopes given are ignored */
    ALIBI_COLUMNS,    /* slope * j: by the key alone */
    ALIBI_TIMES_BIAS  /* slope * bias instead of slope * distance: ggml */
};
enum mask_choice { MASK_RIGHT, MASK_IGNORED, MASK_FLIPPED, MASK_ON_QUERIES, MASK_TIMES_INFINITY }; /* the bool mask */
enum added_choice { ADDED_RIGHT, ADDED_IGNORED, ADDED_FLIPPED, ADDED_MULTIPLIED, ADDED_AFTER };    /* bias and float mask */
/* What happens to a hidden cell. */
enum hide_choice {
    HIDE_RIGHT,
    HIDE_1E4, /* -1e4 is added, and so on */
    HIDE_1E9,
    HIDE_1E9_F32, /* as in f32, where nothing of the score is left */
    HIDE_MIN,     /* the lowest f32 */
    HIDE_1E4_SET, /* the score is replaced by -1e4, and so on */
    HIDE_1E9_SET,
    HIDE_MIN_SET,
    HIDE_AFTER_INF, /* -inf is added to the weight */
    HIDE_AFTER_1E9,
    HIDE_MULTIPLIED,    /* the score is multiplied by 0 */
    HIDE_ONE_FOR_SEEN,  /* 1 is added to the scores that are seen, 0 to the others */
    HIDE_NOT_NORMALISED /* softmax over all keys, then 0 */
};
enum hide_scope { SCOPE_ALL, SCOPE_MASK, SCOPE_NOT_BIAS }; /* whatever hides; mask and bias alone; all but a -inf in the bias */
enum gone_choice { GONE_RIGHT, GONE_COMPUTED };            /* hidden keys take part: 0 * NaN is NaN */
enum length_choice { LENGTH_RIGHT, LENGTH_IGNORED, LENGTH_IGNORED_ALIGNED, LENGTH_ON_QUERIES };
enum align_choice { ALIGN_RIGHT, ALIGN_OTHER, ALIGN_TOP_LEFT, ALIGN_BOTTOM_RIGHT, ALIGN_BOTTOM_RIGHT_EXTENTS, ALIGN_LENGTHS_ONLY };
enum causal_choice { CAUSAL_RIGHT, CAUSAL_IGNORED, CAUSAL_ONE_MORE, CAUSAL_STRICT, CAUSAL_REVERSED };
enum window_choice { WINDOW_RIGHT, WINDOW_LESS, WINDOW_MORE, WINDOW_NONE };
enum softmax_choice { SOFTMAX_RIGHT, SOFTMAX_COLUMNS, SOFTMAX_ALL, SOFTMAX_HEADS, SOFTMAX_NONE, SOFTMAX_NONE_INF };
enum sink_choice { SINK_RIGHT, SINK_IGNORED, SINK_ZERO, SINK_OVERFLOWS_F32, SINK_OVERFLOWS_F64 };
enum max_choice { MAX_RIGHT, MAX_NOT_TAKEN, MAX_NOT_TAKEN_F16, MAX_NOT_TAKEN_F64 }; /* the powers overflow and underflow in f32, ... */
/* 16 bits for the weights alone, or for the powers before they are divided by their sum. */
enum narrow_choice { NARROW_NOTHING, NARROW_WEIGHTS_F16, NARROW_WEIGHTS_BF16, NARROW_POWERS_F16, NARROW_POWERS_BF16 };
enum empty_choice { EMPTY_RIGHT, EMPTY_NAN, EMPTY_MEAN, EMPTY_MEAN_VALID };
enum keep_choice { KEEP_RIGHT, KEEP_SEEN }; /* which weights dropout keeps: as the options say, or as the weights given show */
enum kept_choice { KEPT_RIGHT, KEPT_NOT_SCALED };
enum lse_choice { LSE_RIGHT, LSE_EMPTY_INF, LSE_EMPTY_NAN }; /* of a row that sees nothing */
enum output_choice { OUTPUT_RIGHT, OUTPUT_BLHD };            /* attention alone: the memory of (..,L,H,d) under the expected shape */
enum concat_choice { CONCAT_RIGHT, CONCAT_RESHAPE, CONCAT_INTERLEAVED, CONCAT_REVERSED };
enum w_o_choice { W_O_RIGHT, W_O_TRANSPOSED, W_O_MISSING };

typedef struct variation {
    input_variation in;
    uint8_t keys, values, kv_heads;
    uint8_t scale, cap, alibi;
    uint8_t mask, added, hide, hide_scope, gone;
    uint8_t kv_len, q_len_ignored;
    uint8_t align, align_scope; /* align_scope: the causal order alone, not window and ALiBi */
    uint8_t causal, window_left, window_right;
    uint8_t softmax, max, narrow, sink, empty, lse;
    uint8_t empty_own; /* empty is for the rows that the causal variation empties */
    uint8_t keep, kept, no_dropout;
    uint8_t stored;
    uint8_t output;                   /* attention alone */
    uint8_t concat, w_o, b_o_missing; /* mha */
} variation;

/* *out = both together. false where they say different things about one field. */
bool variation_join(variation *out, const variation *a, const variation *b);
bool variation_is_right(const variation *v);
#endif
