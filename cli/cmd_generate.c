/* SPDX-License-Identifier: Apache-2.0 */
/* attn generate: a prompt through a decoder, its answer as text while it comes; or a text through an encoder-decoder, its translation. */
#include "answer.h"
#include "commands.h"
#include "message.h"

#include <attn/attn_generate.h>
#include <attn/attn_seq2seq.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SENTENCE = 1024, DEFAULT_TOKENS = 128 };

/* ---- the prompt ---- */

/* The prompt: --prompt, or standard input where that is "-". free() it; NULL after a message. */
static char *read_prompt(const options *o)
{
    const char *given = o->value[OPT_PROMPT];
    size_t size = 0, room = 1 << 12;
    if (!given) {
        trouble("--prompt is missing: the text that the answer follows, or - for standard input");
        return NULL;
    }
    char *text = need_memory(strcmp(given, "-") == 0 ? room : strlen(given) + 1);
    if (strcmp(given, "-") != 0)
        return strcpy(text, given);
    for (size_t n; (n = fread(text + size, 1, room - 1 - size, stdin)) > 0;) {
        size += n;
        if (size == room - 1) {
            char *more = need_memory(room *= 2);
            memcpy(more, text, size);
            free(text);
            text = more;
        }
    }
    text[size] = '\0';
    if (strlen(text) == size)
        return text;
    trouble("standard input: byte %zu of the prompt is a NUL; text is needed", strlen(text));
    free(text);
    return NULL;
}

/* The text that is encoded: the prompt, or the chat template's around it. free() it; NULL after a message. */
static char *prompt_text(const options *o, const attn_tokenizer *t)
{
    char *prompt = read_prompt(o);
    if (!prompt || !opt_given(o, OPT_CHAT))
        return prompt;
    char err[SENTENCE], *text;
    const attn_message messages[] = {{"system", o->value[OPT_SYSTEM]}, {"user", prompt}};
    const int first = o->value[OPT_SYSTEM] == NULL;
    if (attn_chat_text(t, messages + first, (size_t)(2 - first), NULL, &text, NULL, err, sizeof err) != ATTN_OK)
        trouble("--chat: %s", err);
    free(prompt);
    return text;
}

static int encode(const options *o, const attn_tokenizer *t, char **text, attn_encoding **out)
{
    char err[SENTENCE];
    if (opt_given(o, OPT_SYSTEM) && !opt_given(o, OPT_CHAT))
        return trouble("--system is for --chat");
    *text = prompt_text(o, t);
    if (!*text)
        return EXIT_TROUBLE;
    const uint32_t flags = opt_given(o, OPT_CHAT) ? 0 : ATTN_ENCODE_SPECIAL;
    const attn_status s = attn_tokenizer_encode(t, *text, strlen(*text), NULL, 0, flags, 0, out, err, sizeof err);
    return s == ATTN_OK ? EXIT_DONE : trouble("%s", err);
}

/* ---- of a decoder ---- */

static int read_sampling(const options *o, attn_sampling *s)
{
    static const opt_id drawn[] = {OPT_TOP_K, OPT_TOP_P, OPT_MIN_P, OPT_SEED};
    uint64_t top_k = 0;
    *s = (attn_sampling){.struct_size = sizeof *s};
    int status = opt_double(o, OPT_TEMPERATURE, &s->temperature);
    status = status ? status : opt_double(o, OPT_TOP_P, &s->top_p);
    status = status ? status : opt_double(o, OPT_MIN_P, &s->min_p);
    status = status ? status : opt_double(o, OPT_REPETITION_PENALTY, &s->repetition_penalty);
    status = status ? status : opt_whole(o, OPT_TOP_K, 1, INT32_MAX, &top_k);
    status = status ? status : opt_whole(o, OPT_SEED, 0, UINT64_MAX, &s->seed);
    s->top_k = (int64_t)top_k;
    for (size_t i = 0; !status && s->temperature == 0 && i < sizeof drawn / sizeof *drawn; i++)
        if (opt_given(o, drawn[i]))
            return trouble("--%s is for drawn tokens; give --temperature too", opt_table[drawn[i]].name);
    return status;
}

/* Options of the other kind of model are refused. */
static int refuse_options(const answer *a, const opt_id *ids, size_t count, const char *why)
{
    for (size_t i = 0; i < count; i++)
        if (opt_given(a->session->o, ids[i]))
            return trouble("--%s: %s is %s", opt_table[ids[i]].name, attn_pretrained_info(a->model).type, why);
    return EXIT_DONE;
}

static int go_on(answer *a)
{
    static const opt_id others[] = {OPT_BEAMS, OPT_LENGTH_PENALTY};
    const session *s = a->session;
    const int64_t most = attn_pretrained_info(a->model).max_positions, given = (int64_t)a->source->count;
    int64_t tokens = DEFAULT_TOKENS, count = 0;
    attn_sampling sampling;
    attn_session *cache;
    attn_generate_end end;
    int status = refuse_options(a, others, 2, "a decoder, which says one token after the other; beams are for models that translate");
    status = status ? status : read_sampling(s->o, &sampling);
    status = status ? status : opt_count(s->o, OPT_COUNT_TOKENS, &tokens);
    if (status)
        return status;
    if (given == 0)
        return trouble("the prompt has no token; a text is needed that the answer follows");
    if (most && given > most)
        return trouble("the prompt has %lld tokens, but the model takes %lld", (long long)given, (long long)most);
    tokens = most && tokens > most - given + 1 ? most - given + 1 : tokens;
    const attn_session_desc desc = {.struct_size = sizeof desc, .capacity = given + tokens - 1};
    if (attn_session_create(s->ctx, &cache, a->model, &desc) != ATTN_OK)
        return library_trouble(attn_ctx_error(s->ctx));
    const attn_generate_opts opts = {.struct_size = sizeof opts, .max_tokens = tokens, .sampling = &sampling, .token = answer_token,
                                     .user = a};
    a->most = (size_t)tokens;
    a->ids = need_zeroed(a->most, sizeof *a->ids);
    clock_gettime(CLOCK_MONOTONIC, &a->start);
    const attn_status made = attn_generate(s->ctx, cache, a->source->ids, a->source->count, NULL, &count, &end, &opts);
    a->seconds = seconds_since(&a->start);
    attn_session_destroy(cache);
    return made == ATTN_OK ? answer_finish(a) : library_trouble(attn_ctx_error(s->ctx));
}

/* ---- of an encoder-decoder ---- */

static int translate(answer *a)
{
    static const opt_id others[] = {OPT_TEMPERATURE, OPT_TOP_K, OPT_TOP_P, OPT_MIN_P, OPT_SEED, OPT_REPETITION_PENALTY, OPT_STOP};
    const session *s = a->session;
    attn_translate_opts opts = {.struct_size = sizeof opts};
    int status = refuse_options(a, others, sizeof others / sizeof *others,
                                "a model that translates, which searches for the likeliest text; --beams and --length-penalty are for it");
    status = status ? status : opt_count(s->o, OPT_COUNT_TOKENS, &opts.max_tokens);
    status = status ? status : opt_count(s->o, OPT_BEAMS, &opts.beams);
    status = status ? status : opt_double(s->o, OPT_LENGTH_PENALTY, &opts.length_penalty);
    if (status)
        return status;
    opts.flags = opt_given(s->o, OPT_LENGTH_PENALTY) ? ATTN_TRANSLATE_LENGTH_PENALTY : 0;
    const size_t room = (size_t)attn_pretrained_info(a->model).max_positions;
    int32_t *ids = need_zeroed(room, sizeof *ids);
    size_t count = 0;
    a->most = room;
    a->ids = need_zeroed(room, sizeof *a->ids);
    clock_gettime(CLOCK_MONOTONIC, &a->start);
    const attn_status made = attn_pretrained_translate(s->ctx, a->model, a->source->ids, a->source->count, ids, room, &count, &a->score,
                                                       &opts);
    const double seconds = seconds_since(&a->start);
    for (size_t i = 0; made == ATTN_OK && i < count; i++)
        answer_token(a, ids[i]);
    free(ids);
    a->prompt_seconds = 0;
    a->seconds = seconds;
    return made == ATTN_OK ? answer_finish(a) : library_trouble(attn_ctx_error(s->ctx));
}

static int run_model(answer *a)
{
    switch (attn_pretrained_info(a->model).kind) {
    case ATTN_MODEL_DECODER:
        return go_on(a);
    case ATTN_MODEL_ENCODER_DECODER:
        return translate(a);
    default:
        return trouble("%s is an encoder, which gives vectors and no text: attn embed", attn_pretrained_info(a->model).type);
    }
}

/* ---- the command ---- */

/* Opens the model, whose text is encoded already, and lets it answer. */
static int answer_with(answer *a, const char *path, const attn_tokenizer *tokenizer)
{
    char err[SENTENCE];
    attn_pretrained *model = NULL;
    clock_gettime(CLOCK_MONOTONIC, &a->start);
    int status = EXIT_DONE;
    if (attn_pretrained_open(a->session->ctx, &model, path, NULL, err, sizeof err) != ATTN_OK ||
        attn_decoder_create(&a->decoder, tokenizer, ATTN_DECODE_SKIP_SPECIAL, err, sizeof err) != ATTN_OK)
        status = trouble("%s", err);
    a->open_seconds = seconds_since(&a->start);
    a->model = model;
    status = status ? status : run_model(a);
    attn_decoder_destroy(a->decoder);
    attn_pretrained_destroy(model);
    free(a->ids);
    free(a->text);
    return status;
}

int cmd_generate(const options *o)
{
    session s;
    char err[SENTENCE];
    attn_tokenizer *tokenizer = NULL;
    attn_encoding *encoding = NULL;
    char *text = NULL;
    int status = session_open(&s, o);
    if (status)
        return status;
    s.own_bar = true; /* the answer itself shows how far it is */
    if (attn_pretrained_tokenizer(&tokenizer, o->operand[0], err, sizeof err) != ATTN_OK)
        status = trouble("%s", err);
    status = status ? status : encode(o, tokenizer, &text, &encoding);
    if (!status) {
        answer a = {.session = &s, .prompt = text, .source = encoding, .end = "length", .score = (double)NAN};
        status = answer_with(&a, o->operand[0], tokenizer);
    }
    free(text);
    attn_encoding_destroy(encoding);
    attn_tokenizer_destroy(tokenizer);
    session_close(&s);
    return status;
}
