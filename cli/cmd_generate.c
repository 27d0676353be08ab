/* SPDX-License-Identifier: Apache-2.0 */
/* attn generate: a prompt through a decoder, its answer as text while it comes. */
#include "commands.h"
#include "finish.h"
#include "message.h"
#include "setup.h"

#include <attn/attn_generate.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SENTENCE = 1024, DEFAULT_TOKENS = 128 };

typedef struct answer {
    const attn_pretrained *model;
    attn_decoder *decoder;
    struct timespec start; /* of the prompt; then of the first token */
    double prompt_seconds;
    int64_t tokens;
    char err[SENTENCE];
    bool failed;
} answer;

static bool stops(const attn_pretrained *m, int32_t id)
{
    for (size_t i = 0; attn_pretrained_stop(m, i) >= 0; i++)
        if (attn_pretrained_stop(m, i) == id)
            return true;
    return false;
}

/* Each token's text goes out at once; an interrupt loses nothing that was said. */
static int on_token(void *user, int32_t id)
{
    answer *a = user;
    const char *text;
    size_t size;
    if (a->tokens++ == 0) {
        a->prompt_seconds = seconds_since(&a->start);
        clock_gettime(CLOCK_MONOTONIC, &a->start);
    }
    if (stops(a->model, id))
        return 0;
    a->failed = attn_decoder_put(a->decoder, id, &text, &size, a->err, sizeof a->err) != ATTN_OK;
    if (!a->failed)
        fwrite(text, 1, size, stdout);
    return a->failed || fflush(stdout) != 0;
}

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
    return text;
}

static int read_sampling(const options *o, attn_sampling *s, int64_t *tokens)
{
    uint64_t top_k = 0;
    *s = (attn_sampling){.struct_size = sizeof *s};
    *tokens = DEFAULT_TOKENS;
    int status = opt_count(o, OPT_COUNT_TOKENS, tokens);
    status = status ? status : opt_double(o, OPT_TEMPERATURE, &s->temperature);
    status = status ? status : opt_double(o, OPT_TOP_P, &s->top_p);
    status = status ? status : opt_whole(o, OPT_TOP_K, 1, INT32_MAX, &top_k);
    status = status ? status : opt_whole(o, OPT_SEED, 0, UINT64_MAX, &s->seed);
    s->top_k = (int64_t)top_k;
    if (!status && s->temperature == 0 && (opt_given(o, OPT_TOP_K) || opt_given(o, OPT_TOP_P) || opt_given(o, OPT_SEED)))
        return trouble("--top-k, --top-p and --seed are for drawn tokens; give --temperature too");
    return status;
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

static int encode(const options *o, const attn_tokenizer *t, attn_encoding **out)
{
    char err[SENTENCE];
    if (opt_given(o, OPT_SYSTEM) && !opt_given(o, OPT_CHAT))
        return trouble("--system is for --chat");
    char *text = prompt_text(o, t);
    if (!text)
        return EXIT_TROUBLE;
    const uint32_t flags = opt_given(o, OPT_CHAT) ? 0 : ATTN_ENCODE_SPECIAL;
    const attn_status s = attn_tokenizer_encode(t, text, strlen(text), NULL, 0, flags, 0, out, err, sizeof err);
    free(text);
    return s == ATTN_OK ? EXIT_DONE : trouble("%s", err);
}

static int say(session *s, answer *a, const attn_encoding *e, int64_t tokens, const attn_sampling *sampling)
{
    const int64_t most = attn_pretrained_info(a->model).max_positions;
    int64_t capacity = (int64_t)e->count + tokens, count = 0;
    attn_session *cache;
    attn_generate_end end;
    if (e->count == 0)
        return trouble("the prompt has no token; a text is needed that the answer follows");
    if (most && (int64_t)e->count > most)
        return trouble("the prompt has %zu tokens, but the model takes %lld", e->count, (long long)most);
    capacity = most && capacity > most ? most : capacity;
    const attn_session_desc desc = {.struct_size = sizeof desc, .capacity = capacity};
    if (attn_session_create(s->ctx, &cache, a->model, &desc) != ATTN_OK)
        return library_trouble(attn_ctx_error(s->ctx));
    const attn_generate_opts opts = {.struct_size = sizeof opts, .max_tokens = tokens, .sampling = sampling, .token = on_token, .user = a};
    clock_gettime(CLOCK_MONOTONIC, &a->start);
    const attn_status status = attn_generate(s->ctx, cache, e->ids, e->count, NULL, &count, &end, &opts);
    attn_session_destroy(cache);
    if (status != ATTN_OK)
        return library_trouble(attn_ctx_error(s->ctx));
    if (a->failed)
        return trouble("%s", a->err);
    const char *rest;
    size_t size;
    if (attn_decoder_end(a->decoder, &rest, &size, a->err, sizeof a->err) == ATTN_OK)
        fwrite(rest, 1, size, stdout);
    putchar('\n');
    const double seconds = seconds_since(&a->start);
    note(opt_given(s->o, OPT_QUIET), "prompt %zu tokens, %.1f tokens/s; answer %lld tokens, %.1f tokens/s", e->count,
         (double)e->count / (a->prompt_seconds > 0 ? a->prompt_seconds : 1e-9), (long long)a->tokens,
         a->tokens > 1 && seconds > 0 ? (double)(a->tokens - 1) / seconds : 0.0);
    return finish_stdout();
}

int cmd_generate(const options *o)
{
    session s;
    attn_sampling sampling;
    attn_tokenizer *tokenizer = NULL;
    attn_pretrained *model = NULL;
    attn_encoding *encoding = NULL;
    answer a = {.tokens = 0};
    int64_t tokens;
    int status = read_sampling(o, &sampling, &tokens);
    if (status)
        return status;
    status = session_open(&s, o);
    if (status)
        return status;
    s.own_bar = true; /* the answer itself shows how far it is */
    if (attn_pretrained_tokenizer(&tokenizer, o->operand[0], a.err, sizeof a.err) != ATTN_OK)
        status = trouble("%s", a.err);
    status = status ? status : encode(o, tokenizer, &encoding);
    if (!status && attn_pretrained_open(s.ctx, &model, o->operand[0], NULL, a.err, sizeof a.err) != ATTN_OK)
        status = trouble("%s", a.err);
    if (!status && attn_decoder_create(&a.decoder, tokenizer, ATTN_DECODE_SKIP_SPECIAL, a.err, sizeof a.err) != ATTN_OK)
        status = trouble("%s", a.err);
    a.model = model;
    status = status ? status : say(&s, &a, encoding, tokens, &sampling);
    attn_decoder_destroy(a.decoder);
    attn_encoding_destroy(encoding);
    attn_pretrained_destroy(model);
    attn_tokenizer_destroy(tokenizer);
    session_close(&s);
    return status;
}
