/* SPDX-License-Identifier: Apache-2.0 */
#include "answer.h"
#include "finish.h"
#include "json_out.h"
#include "message.h"

#include <attn/attn_generate.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- text ---- */

static void append(answer *a, const char *text, size_t size)
{
    if (a->size + size + 1 > a->room) {
        char *more = need_memory(a->room = 2 * (a->size + size) + 256);
        memcpy(more, a->text ? a->text : "", a->size);
        free(a->text);
        a->text = more;
    }
    memcpy(a->text + a->size, text, size);
    a->size += size;
    a->text[a->size] = '\0';
}

/* Where the first --stop text begins in what is not shown; the end of the text when there is none. */
static size_t stop_place(const answer *a, const options *o)
{
    size_t place = a->size;
    for (int i = 0; i < o->stops; i++) {
        const size_t n = strlen(o->stop[i]);
        for (size_t at = a->shown; at + n <= a->size && at < place; at++)
            if (memcmp(a->text + at, o->stop[i], n) == 0)
                place = at;
    }
    return place;
}

/* How many bytes at the end may be the beginning of a --stop text. */
static size_t held_back(const answer *a, const options *o)
{
    size_t most = 0;
    for (int i = 0; i < o->stops; i++)
        for (size_t n = strlen(o->stop[i]) - 1; n > most; n--)
            if (n <= a->size - a->shown && memcmp(a->text + a->size - n, o->stop[i], n) == 0)
                most = n;
    return most;
}

/* With JSON nothing goes out before the end, but `shown` moves all the same. */
static void show(answer *a, size_t until)
{
    if (!opt_given(a->session->o, OPT_JSON) && until > a->shown)
        fwrite(a->text + a->shown, 1, until - a->shown, stdout);
    a->shown = until;
}

/* 1 when a --stop text has come. */
static int take_text(answer *a, const char *text, size_t size)
{
    const options *o = a->session->o;
    append(a, text, size);
    const size_t stop = stop_place(a, o);
    const int stops = stop < a->size;
    a->size = stop;
    a->text[stop] = '\0';
    show(a, stops ? stop : a->size - held_back(a, o));
    return stops;
}

/* ---- tokens ---- */

static bool ends_text(const attn_pretrained *m, int32_t id)
{
    for (size_t i = 0; attn_pretrained_stop(m, i) >= 0; i++)
        if (attn_pretrained_stop(m, i) == id)
            return true;
    return false;
}

int answer_token(void *user, int32_t id)
{
    answer *a = user;
    char err[1024];
    const char *text;
    size_t size;
    if (a->count == 0) {
        a->prompt_seconds = seconds_since(&a->start);
        clock_gettime(CLOCK_MONOTONIC, &a->start);
        finish_hold_interrupts(true);
    }
    if (a->count < a->most)
        a->ids[a->count++] = id;
    if (ends_text(a->model, id)) {
        a->end = "model";
        return 1;
    }
    if (attn_decoder_put(a->decoder, id, &text, &size, err, sizeof err) != ATTN_OK) {
        a->status = trouble("%s", err);
        return 1;
    }
    if (take_text(a, text, size)) {
        a->end = "text";
        return 1;
    }
    if (!opt_given(a->session->o, OPT_JSON))
        a->status = finish_stdout();
    const bool interrupted = finish_interrupted();
    a->end = interrupted ? "interrupt" : a->end;
    return a->status != EXIT_DONE || interrupted;
}

/* ---- the end ---- */

static double rate(size_t tokens, double seconds) { return (double)tokens / (seconds > 0 ? seconds : 1e-9); }

static void print_note(const answer *a)
{
    static const char *const kinds[] = {"?", "encoder", "decoder", "encoder-decoder"};
    const options *o = a->session->o;
    const attn_model_info m = attn_pretrained_info(a->model);
    const attn_info ran = attn_ctx_info(a->session->ctx);
    if (opt_given(o, OPT_VERBOSE)) {
        note(0, "%s, %s of %.1f million numbers, %lld layers, %lld heads (%lld of keys and values) of %lld columns; opened in %.2f s",
             m.type, kinds[m.kind], (double)m.parameters / 1e6, (long long)(m.layers + m.decoder_layers), (long long)m.heads,
             (long long)m.kv_heads, (long long)m.head_dim, a->open_seconds);
        note(0, "ran in %s on %s, %u thread%s; the answer was ended by: %s", attn_dtype_name(m.compute), ran.isa, ran.threads,
             plural_ending(ran.threads), a->end);
    }
    const char *sources = plural_ending((int64_t)a->source->count), *answers = plural_ending((int64_t)a->count);
    if (m.kind == ATTN_MODEL_ENCODER_DECODER)
        note(opt_given(o, OPT_QUIET), "source %zu token%s, target %zu token%s, %.3g s", a->source->count, sources, a->count, answers,
             a->seconds);
    else
        note(opt_given(o, OPT_QUIET), "prompt %zu token%s, %.1f tokens/s; answer %zu token%s, %.1f tokens/s", a->source->count, sources,
             rate(a->source->count, a->prompt_seconds), a->count, answers, a->count > 1 ? rate(a->count - 1, a->seconds) : 0.0);
}

static void jw_ids(json_writer *j, const int32_t *ids, size_t count)
{
    const attn_tensor t = {.data = (void *)(uintptr_t)ids, .dtype = ATTN_I32, .ndim = 1, .shape = {(int64_t)count}, .stride = {1}};
    jw_values(j, "ids", &t);
}

static int print_json(const answer *a)
{
    const attn_model_info m = attn_pretrained_info(a->model);
    const attn_info ran = attn_ctx_info(a->session->ctx);
    json_writer j = jw_begin_document("generate");
    jw_begin(&j, "model", '{');
    jw_string(&j, "type", m.type);
    jw_int(&j, "parameters", m.parameters);
    jw_string(&j, "compute", attn_dtype_name(m.compute));
    jw_end(&j, '}');
    jw_begin(&j, "run", '{');
    jw_string(&j, "isa", ran.isa);
    jw_int(&j, "threads", ran.threads);
    jw_number(&j, "open_seconds", a->open_seconds, ATTN_F32);
    jw_number(&j, "prompt_seconds", a->prompt_seconds, ATTN_F32);
    jw_number(&j, "seconds", a->seconds, ATTN_F32);
    jw_end(&j, '}');
    jw_begin(&j, "prompt", '{');
    jw_string(&j, "text", a->prompt);
    jw_ids(&j, a->source->ids, a->source->count);
    jw_end(&j, '}');
    jw_begin(&j, "answer", '{');
    jw_string(&j, "text", a->text);
    jw_ids(&j, a->ids, a->count);
    jw_string(&j, "end", a->end);
    if (!isnan(a->score))
        jw_number(&j, "score", a->score, ATTN_F64);
    jw_end(&j, '}');
    return jw_end_document(&j);
}

int answer_finish(answer *a)
{
    char err[1024];
    const char *rest;
    size_t size;
    if (a->status == EXIT_DONE && attn_decoder_end(a->decoder, &rest, &size, err, sizeof err) != ATTN_OK)
        a->status = trouble("%s", err);
    else if (a->status == EXIT_DONE && strcmp(a->end, "text") != 0)
        a->end = take_text(a, rest, size) ? "text" : a->end;
    if (a->status != EXIT_DONE)
        return a->status;
    show(a, a->size);
    const bool as_json = opt_given(a->session->o, OPT_JSON);
    if (!as_json)
        putchar('\n');
    const int status = as_json ? print_json(a) : finish_stdout();
    if (!as_json)
        print_note(a);
    return status ? status : strcmp(a->end, "interrupt") == 0 ? EXIT_INTERRUPTED : EXIT_DONE;
}
