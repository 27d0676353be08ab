/* SPDX-License-Identifier: Apache-2.0 */
/* How a model's files want to generate. What changes the answer and is not done here is refused by name. */
#include <string.h>

#include "seq2seq.h"

/* bad_words_ids: lists of one token each. */
static void read_banned(struct config *c, struct seq2seq *s)
{
    if (!attn_config_has(c, "bad_words_ids"))
        return;
    const json_t *list = json_object_get(c->root, "bad_words_ids");
    if (!json_is_array(list)) {
        c->status = attn_load_fail(&c->report, ATTN_E_FORMAT, "bad_words_ids is no list of lists of ids");
        return;
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *word = json_array_get(list, i), *id = json_array_get(word, 0);
        if (json_array_size(word) != 1 || !json_is_integer(id) || s->banned_count == SEQ2SEQ_BANNED) {
            c->status = attn_load_fail(&c->report, ATTN_E_UNSUPPORTED, "bad_words_ids: only %d words of one token each are understood here",
                                       SEQ2SEQ_BANNED);
            return;
        }
        s->banned[s->banned_count++] = json_integer_value(id);
    }
}

static void read_early(struct config *c, struct seq2seq *s)
{
    const json_t *early = json_object_get(c->root, "early_stopping");
    if (json_is_string(early) && !strcmp(json_string_value(early), "never"))
        s->never = 1;
    else
        s->early = attn_config_bool_or(c, "early_stopping", 0);
}

/* Fields that must have the value that does nothing. */
static void refuse_others(struct config *c)
{
    attn_config_number_or(c, "repetition_penalty", 1, 1, 1);
    attn_config_int_or(c, "no_repeat_ngram_size", 0, 0, 0);
    attn_config_int_or(c, "encoder_no_repeat_ngram_size", 0, 0, 0);
    attn_config_int_or(c, "min_length", 0, 0, 0);
    attn_config_int_or(c, "num_beam_groups", 1, 1, 1);
    attn_config_only_bool(c, "do_sample", 0);
    attn_config_only_empty(c, "suppress_tokens");
    attn_config_only_empty(c, "begin_suppress_tokens");
    if (attn_config_has(c, "forced_bos_token_id") && c->status == ATTN_OK)
        c->status = attn_load_fail(&c->report, ATTN_E_UNSUPPORTED, "forced_bos_token_id is given, and is not done here");
}

static attn_status read_rules(struct config *c, struct seq2seq *s, int64_t vocab, int64_t positions)
{
    enum { MOST_BEAMS = 256 };
    s->eos = attn_config_int(c, "eos_token_id", 0, vocab - 1);
    s->start = attn_config_int(c, "decoder_start_token_id", 0, vocab - 1);
    s->forced_eos = attn_config_int_or(c, "forced_eos_token_id", 0, vocab - 1, -1);
    s->beams = attn_config_int_or(c, "num_beams", 1, MOST_BEAMS, 1);
    s->max_length = attn_config_int_or(c, "max_length", 2, INT32_MAX, 21);
    s->max_length = s->max_length > positions ? positions : s->max_length;
    s->length_penalty = attn_config_number_or(c, "length_penalty", -100, 100, 1);
    read_early(c, s);
    read_banned(c, s);
    refuse_others(c);
    return c->status;
}

attn_status attn_seq2seq_rules(struct builder *b)
{
    struct seq2seq *s = &b->model->seq2seq;
    const attn_model_info *m = &b->model->info;
    struct config own = {.root = NULL};
    const int has_own = attn_load_exists(b->model->path, "generation_config.json");
    attn_status status = has_own ? attn_config_open(&own, b->model->path, "generation_config.json", &b->report) : ATTN_OK;
    status = status ? status : read_rules(has_own ? &own : b->config, s, m->vocab, m->max_positions);
    attn_config_close(&own);
    b->model->stop[0] = (int32_t)s->eos;
    b->model->stop_count = status == ATTN_OK;
    return status;
}
