/* SPDX-License-Identifier: Apache-2.0 */
#include "model_run.h"
#include "message.h"

#include <attn/attn_generate.h>
#include <attn/attn_seq2seq.h>
#include <stdlib.h>
#include <string.h>

enum { SENTENCE = 1024 };

const char *const model_part_name[MODEL_PARTS] = {"encoder", "decoder", "cross"};

bool model_has(const model_run *m, model_part part)
{
    const attn_model_kind kind = m->info.kind;
    return kind == ATTN_MODEL_ENCODER_DECODER || (kind == ATTN_MODEL_ENCODER ? part == MODEL_ENCODER : part == MODEL_DECODER);
}

int64_t model_part_layers(const model_run *m, model_part part)
{
    return part != MODEL_ENCODER && m->info.decoder_layers ? m->info.decoder_layers : m->info.layers;
}

const token_list *model_part_rows(const model_run *m, model_part part)
{
    return m->info.kind == ATTN_MODEL_ENCODER_DECODER && part != MODEL_ENCODER ? &m->target : &m->text;
}

const token_list *model_part_keys(const model_run *m, model_part part)
{
    return part == MODEL_CROSS ? &m->text : model_part_rows(m, part);
}

int model_part_chosen(const model_run *m, model_part *part)
{
    const int choice = opt_choice(m->s->o, OPT_PART);
    if (choice == -2)
        return EXIT_TROUBLE;
    *part = choice >= 0 ? (model_part)choice : model_has(m, MODEL_ENCODER) ? MODEL_ENCODER : MODEL_DECODER;
    return model_has(m, *part) ? EXIT_DONE
                               : trouble("--part %s is given, and %s has no such attention; a %s model has its %s's alone",
                                         model_part_name[*part], m->path, m->info.type,
                                         model_part_name[model_has(m, MODEL_ENCODER) ? MODEL_ENCODER : MODEL_DECODER]);
}

int model_place_chosen(const model_run *m, opt_id id, int64_t count, int64_t *place)
{
    uint64_t n = 0;
    const int status = opt_whole(m->s->o, id, 0, INT32_MAX, &n);
    *place = (int64_t)n;
    if (status || *place < count)
        return status;
    return trouble("--%s is %lld, and %s has %lld, counted from 0", opt_table[id].name, (long long)*place, m->path, (long long)count);
}

/* ------------------------------------------------------------------ texts ---- */

static int check_texts(const model_run *m)
{
    const options *o = m->s->o;
    if (opt_given(o, OPT_TEXT2) && m->info.kind != ATTN_MODEL_ENCODER)
        return trouble("--text2 is the second text of an encoder's pair, and %s is a %s model; give --text alone", m->path, m->info.type);
    if (opt_given(o, OPT_TARGET) && m->info.kind != ATTN_MODEL_ENCODER_DECODER)
        return trouble("--target is what the decoder of a translating model says, and %s is a %s model; give --text alone", m->path,
                       m->info.type);
    return EXIT_DONE;
}

/* What the decoder reads: the start token, and the target without the token that ends it, behind which nothing is said. */
static int read_target(model_run *m)
{
    const char *given = m->s->o->value[OPT_TARGET];
    if (given) {
        const int status = tokens_of_text(&m->target, m->tokenizer, given, NULL, ATTN_ENCODE_TARGET);
        if (status)
            return status;
    } else {
        size_t count = 0;
        int32_t *ids = need_zeroed((size_t)m->info.max_positions, sizeof *ids);
        const attn_translate_opts greedy = {.struct_size = sizeof greedy, .beams = 1};
        const attn_status s = attn_pretrained_translate(m->s->ctx, m->model, m->text.ids, (size_t)m->text.count, ids,
                                                        (size_t)m->info.max_positions, &count, NULL, &greedy);
        if (s == ATTN_OK)
            tokens_of_ids(&m->target, m->tokenizer, ids, count);
        free(ids);
        if (s != ATTN_OK)
            return library_trouble(attn_ctx_error(m->s->ctx));
    }
    const int32_t end = attn_tokenizer_special(m->tokenizer, ATTN_SPECIAL_EOS);
    tokens_prepend(&m->target, m->tokenizer, attn_pretrained_start(m->model));
    if (m->target.ids[m->target.count - 1] == end && m->target.count > 1) {
        free(m->target.name[--m->target.count]);
        free(m->target.word_name[--m->target.words]);
    }
    return EXIT_DONE;
}

int model_run_open(model_run *m, session *s, const char *path)
{
    char err[SENTENCE];
    *m = (model_run){.s = s, .path = path};
    if (!opt_given(s->o, OPT_TEXT))
        return trouble("%s is a model, and --text is missing: what it is to read", path);
    if (attn_pretrained_tokenizer(&m->tokenizer, path, err, sizeof err) != ATTN_OK)
        return trouble("%s", err);
    if (attn_pretrained_open(s->ctx, &m->model, path, NULL, err, sizeof err) != ATTN_OK)
        return trouble("%s", err);
    m->info = attn_pretrained_info(m->model);
    const int status = check_texts(m);
    if (status)
        return status;
    const int read = tokens_of_text(&m->text, m->tokenizer, s->o->value[OPT_TEXT], s->o->value[OPT_TEXT2], 0);
    return read || m->info.kind != ATTN_MODEL_ENCODER_DECODER ? read : read_target(m);
}

void model_run_close(model_run *m)
{
    token_list_free(&m->text);
    token_list_free(&m->target);
    attn_pretrained_destroy(m->model);
    attn_tokenizer_destroy(m->tokenizer);
    *m = (model_run){.s = NULL};
}

/* ---------------------------------------------------------------- running ---- */

static attn_status run_encoder(model_run *m, const attn_watch *watch)
{
    const int64_t L = m->text.count, shape[] = {1, L, m->info.width};
    void *memory = need_memory((size_t)(L * m->info.width) * attn_dtype_size(m->info.compute));
    attn_tensor out = attn_tensor_of(memory, m->info.compute, 3, shape);
    const attn_tensor ids = attn_tensor_of(m->text.ids, ATTN_I32, 2, shape), types = attn_tensor_of(m->text.types, ATTN_I32, 2, shape);
    const attn_encode_opts opts = {.struct_size = sizeof opts, .type_ids = m->text.types ? &types : NULL, .watch = watch};
    const attn_status status = attn_pretrained_encode(m->s->ctx, m->model, &out, &ids, &opts);
    free(memory);
    return status;
}

static attn_status run_decoder(model_run *m, const attn_watch *watch)
{
    attn_session *cache = NULL;
    const attn_session_desc desc = {.struct_size = sizeof desc, .capacity = m->text.count};
    const attn_tensor ids = attn_tensor_of(m->text.ids, ATTN_I32, 1, &m->text.count);
    const attn_feed_opts opts = {.struct_size = sizeof opts, .watch = watch};
    attn_status status = attn_session_create(m->s->ctx, &cache, m->model, &desc);
    if (status == ATTN_OK)
        status = attn_session_feed(m->s->ctx, cache, NULL, &ids, &opts);
    attn_session_destroy(cache);
    return status;
}

int model_run_watched(model_run *m, const attn_watch *watch)
{
    attn_status status;
    if (m->info.kind == ATTN_MODEL_ENCODER)
        status = run_encoder(m, watch);
    else if (m->info.kind == ATTN_MODEL_DECODER)
        status = run_decoder(m, watch);
    else
        status = attn_pretrained_teach(m->s->ctx, m->model, NULL, m->text.ids, (size_t)m->text.count, m->target.ids,
                                       (size_t)m->target.count, watch);
    return status == ATTN_OK ? EXIT_DONE : library_trouble(attn_ctx_error(m->s->ctx));
}
