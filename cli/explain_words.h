/* SPDX-License-Identifier: Apache-2.0 */
/* The words of `attn explain`, in English and Korean. Formulas and the names of stages stay as they are in both. */
#ifndef ATTN_CLI_EXPLAIN_WORDS_H
#define ATTN_CLI_EXPLAIN_WORDS_H

typedef enum explain_lang { LANG_EN, LANG_KO, LANG_COUNT } explain_lang;

typedef enum explain_word {
    /* stages */
    W_SCORES,
    W_SCALED,
    W_CAPPED,
    W_MASKED,
    W_WEIGHTS,
    W_OUTPUT,
    W_NOT_CAPPED,
    W_NOTHING_HIDDEN,
    W_HIDDEN_MARK,
    W_ROW_SUMS,
    W_SINK_TAKES,
    W_DROPPED,
    W_EMPTY_ROW,
    W_HEAT_KEYS,
    W_HEAT_HIDDEN,
    /* the sum by hand */
    W_BY_HAND,
    W_ONLY_VISIBLE,
    W_MAXIMUM_OFF,
    W_WHY_SAME,
    W_DROP_BY_HAND,
    /* one row */
    W_CELL_TITLE,
    W_CELL_PLACE,
    W_CELL_SCALE_DEFAULT,
    W_CELL_SCALE_GIVEN,
    W_CELL_SEES,
    W_CELL_MORE,
    W_KEY,
    W_KEY_TITLE,
    W_HIDDEN,
    W_ADDED,
    W_KEY_ADDS,
    W_KEY_NOTHING,
    W_KEY_DROPPED,
    /* why a key is hidden, in the order of ATTN_HIDDEN_* */
    W_WHY_MASK,
    W_WHY_BIAS,
    W_WHY_CAUSAL,
    W_WHY_WINDOW,
    W_WHY_KV_LEN,
    W_WHY_Q_LEN,
    /* heads */
    W_HEAD,
    W_BATCH_HEAD,
    W_OTHER_HEADS,
    W_PROJECT,
    W_PER_HEAD,
    W_SHARED_HEADS,
    W_ROPE,
    W_SPLIT,
    W_JOIN,
    W_PROJECT_OUT,
    W_RESHAPE,
    W_TRANSPOSE,
    W_HEAD_STARTS,
    W_RESHAPE_ALONE,
    W_JOINED_SAME,
    /* models */
    W_MODEL_SIZES,
    W_MODEL_TEXT,
    W_MODEL_TARGET,
    W_PART_ENCODER,
    W_PART_DECODER,
    W_PART_CROSS,
    W_SHARPNESS,
    W_LAYER_HEAD,
    W_CAUSAL_MARK,
    W_MODEL_LAYER,
    W_ROPE_MODEL,
    W_X_STATES,
    W_X_NORMED,
    W_X_CROSS,
    W_COUNT
} explain_word;

const char *explain_say(explain_lang lang, explain_word word);
#endif
