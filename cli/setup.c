/* SPDX-License-Identifier: Apache-2.0 */
#include "setup.h"
#include "message.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int read_positions(attention_setup *s, inputs *in)
{
    const options *o = in->o;
    const int align = opt_choice(o, OPT_ALIGN), causal = opt_choice(o, OPT_CAUSAL);
    if (align == -2 || causal == -2)
        return EXIT_TROUBLE;
    if (align >= 0 && causal >= 0 && align != causal)
        return trouble("--align %s and --causal=%s disagree; give one of them", o->value[OPT_ALIGN], o->value[OPT_CAUSAL]);
    const int chosen = align >= 0 ? align : causal;
    s->opts.align = chosen < 0 ? ATTN_ALIGN_DEFAULT : chosen == 0 ? ATTN_ALIGN_TOP_LEFT : ATTN_ALIGN_BOTTOM_RIGHT;
    if (opt_given(o, OPT_CAUSAL))
        s->opts.flags |= ATTN_CAUSAL;
    if (!opt_given(o, OPT_OFFSET))
        return EXIT_DONE;
    const char *end;
    if (parse_int(o->value[OPT_OFFSET], &s->opts.offset, &end) && !*end) {
        s->opts.flags |= ATTN_OFFSET;
        return EXIT_DONE;
    }
    s->opts.offset = 0;
    s->opts.offsets = &s->offsets;
    return inputs_integers(in, "--offset", o->value[OPT_OFFSET], &s->offsets);
}

static int read_window(attention_setup *s, const options *o)
{
    const char *text = o->value[OPT_WINDOW], *end;
    if (!text)
        return EXIT_DONE;
    s->opts.flags |= ATTN_WINDOW;
    if (!parse_int(text, &s->opts.window_left, &end) || *end != ',' || !parse_int(end + 1, &s->opts.window_right, &end) || *end)
        return trouble("--window is %s, and must be two whole numbers such as 128,0 (keys before and after the position; -1 = no limit)",
                       text);
    return EXIT_DONE;
}

/* The options whose argument is a file of integers. */
static int read_lengths(attention_setup *s, inputs *in)
{
    const struct {
        opt_id id;
        const char *what;
        attn_tensor *tensor;
        const attn_tensor **where;
    } lengths[] = {
        {OPT_KV_LEN, "--kv-len", &s->kv_len, &s->opts.kv_len},
        {OPT_Q_LEN, "--q-len", &s->q_len, &s->opts.q_len},
        {OPT_CU_Q, "--cu-q", &s->cu_q, &s->opts.cu_seqlens_q},
        {OPT_CU_K, "--cu-k", &s->cu_k, &s->opts.cu_seqlens_k},
    };
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        if (!opt_given(in->o, lengths[i].id))
            continue;
        const int status = inputs_integers(in, lengths[i].what, in->o->value[lengths[i].id], lengths[i].tensor);
        if (status)
            return status;
        *lengths[i].where = lengths[i].tensor;
    }
    return EXIT_DONE;
}

static int read_scores(attention_setup *s, inputs *in)
{
    const options *o = in->o;
    int status = opt_double(o, OPT_SCALE, &s->opts.scale);
    if (!status)
        status = opt_double(o, OPT_SOFTCAP, &s->opts.softcap);
    if (!status)
        status = opt_double(o, OPT_DROPOUT, &s->opts.dropout);
    if (!status)
        status = opt_whole(o, OPT_SEED, 0, UINT64_MAX, &s->opts.seed);
    s->opts.flags |= opt_given(o, OPT_SCALE) ? ATTN_SCALE : 0;
    if (!status && opt_given(o, OPT_ALIBI)) {
        s->opts.flags |= ATTN_ALIBI;
        if (*o->value[OPT_ALIBI]) {
            s->opts.alibi_slopes = &s->alibi;
            status = inputs_numbers(in, "--alibi", o->value[OPT_ALIBI], &s->alibi);
        }
    }
    if (!status && opt_given(o, OPT_SINKS)) {
        s->opts.sinks = &s->sinks;
        status = inputs_numbers(in, "--sinks", o->value[OPT_SINKS], &s->sinks);
    }
    return status;
}

static int read_masks(attention_setup *s, inputs *in)
{
    const options *o = in->o;
    int status = EXIT_DONE;
    if (opt_given(o, OPT_MASK_DROP) && !opt_given(o, OPT_MASK))
        return trouble("--mask-drop reads a mask the other way round, and there is none; give --mask F");
    if (opt_given(o, OPT_MASK)) {
        s->opts.mask = &s->mask;
        s->opts.flags |= opt_given(o, OPT_MASK_DROP) ? ATTN_MASK_DROP : 0;
        status = inputs_mask(in, "--mask", o->value[OPT_MASK], &s->mask);
    }
    if (!status && opt_given(o, OPT_BIAS)) {
        s->opts.bias = &s->bias;
        status = inputs_bias(in, "--bias", o->value[OPT_BIAS], &s->bias);
    }
    if (!status && opt_given(o, OPT_KEEP)) {
        s->opts.keep = &s->keep;
        status = inputs_mask(in, "--keep", o->value[OPT_KEEP], &s->keep);
    }
    return status;
}

int setup_attention(attention_setup *s, inputs *in)
{
    *s = (attention_setup){.opts = {.struct_size = sizeof s->opts}};
    if (opt_given(in->o, OPT_IN_DTYPE) && opt_choice(in->o, OPT_IN_DTYPE) < 0)
        return EXIT_TROUBLE;
    s->opts.flags |= opt_given(in->o, OPT_RELAXED) ? ATTN_RELAXED : 0;
    int status = read_positions(s, in);
    if (!status)
        status = read_window(s, in->o);
    if (!status)
        status = read_lengths(s, in);
    if (!status)
        status = read_scores(s, in);
    return status ? status : read_masks(s, in);
}

bool setup_is_blhd(const options *o, int *status)
{
    const int layout = opt_choice(o, OPT_LAYOUT);
    if (layout == -2)
        *status = EXIT_TROUBLE;
    return layout == 1;
}

double seconds_since(const struct timespec *start)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - start->tv_sec) + 1e-9 * (double)(now.tv_nsec - start->tv_nsec);
}

/* The bar: nothing in the first second, then at most ten times a second. */
static void draw_bar(session *s, double done)
{
    enum { CELLS = 30 };
    const double now = seconds_since(&s->start);
    if (now < 1 || now - s->shown < 0.1)
        return;
    s->shown = now;
    const int full = (int)(done * CELLS);
    fprintf(stderr, "\r[%.*s%*s] %3.0f%%  %.0f s", full, "##############################", CELLS - full, "", 100 * done, now);
    fflush(stderr);
}

static int on_progress(void *user, double done)
{
    session *s = user;
    if (!s->own_bar)
        draw_bar(s, done);
    return 0;
}

enum { MOST_THREADS = 4096 }; /* of the library */

/* What the library calls by the names of the C API, and what the reader typed. Whole words only. */
static const char *const renamed[][2] = {
    {"ATTN_MASK_DROP", "--mask-drop"},
    {"cu_seqlens_q", "--cu-q"},
    {"cu_seqlens_k", "--cu-k"},
    {"cu_seqlens", "--cu-q, --cu-k"},
    {"kv_len", "--kv-len"},
    {"q_len", "--q-len"},
    {"keep", "--keep"},
    {"alibi_slopes", "--alibi"},
    {"attn_sdpa", "attn sdpa"},
    {"attn_mha", "attn mha"},
    {"attn_explain_cell", "attn explain"},
};

static bool in_word(char c) { return isalnum((unsigned char)c) || c == '_' || c == '-'; }

int library_trouble(const char *sentence)
{
    char text[1024] = "";
    size_t at = 0;
    for (const char *s = sentence; *s && at + 1 < sizeof text;) {
        size_t length = 0;
        while (in_word(s[length]))
            length++;
        const char *word = s;
        int shown = length ? (int)length : 1;
        for (size_t i = 0; i < sizeof renamed / sizeof renamed[0]; i++)
            if (strlen(renamed[i][0]) == length && strncmp(renamed[i][0], s, length) == 0) {
                word = renamed[i][1];
                shown = (int)strlen(word);
            }
        at += (size_t)snprintf(text + at, sizeof text - at, "%.*s", shown, word);
        s += length ? length : 1;
    }
    return trouble("%s", text);
}

static bool shows_progress(const options *o) { return isatty(STDERR_FILENO) && !opt_given(o, OPT_QUIET); }

void session_progress(session *s, double done)
{
    if (done < 1 && shows_progress(s->o))
        draw_bar(s, done);
    if (done >= 1 && s->shown > 0)
        fputs("\r\033[K", stderr);
    s->shown = done < 1 ? s->shown : 0;
}

void session_begin(session *s)
{
    s->shown = 0;
    clock_gettime(CLOCK_MONOTONIC, &s->start);
}

int session_open(session *s, const options *o)
{
    char sentence[512];
    uint64_t threads = 0;
    *s = (session){.o = o};
    session_begin(s);
    const int status = opt_whole(o, OPT_THREADS, 1, MOST_THREADS, &threads);
    if (status)
        return status;
    attn_ctx_opts opts = {.struct_size = sizeof opts, .threads = (uint32_t)threads, .isa = o->value[OPT_ISA], .progress_user = s};
    if (shows_progress(o))
        opts.progress = on_progress;
    if (attn_ctx_create(&s->ctx, &opts, sentence, sizeof sentence) != ATTN_OK)
        return library_trouble(sentence);
    return EXIT_DONE;
}

void session_close(session *s)
{
    attn_ctx_destroy(s->ctx);
    s->ctx = NULL;
}

attn_info session_info(const session *s)
{
    return s->by_definition ? (attn_info){.isa = "scalar", .path = "definition f64", .threads = 1} : attn_ctx_info(s->ctx);
}

int session_end(session *s, attn_status status)
{
    s->seconds = seconds_since(&s->start);
    session_progress(s, 1);
    if (status != ATTN_OK)
        return library_trouble(attn_ctx_error(s->ctx));
    if (opt_given(s->o, OPT_VERBOSE)) {
        const attn_info info = session_info(s);
        note(0, "ran %s on %s, %u thread%s, %.3g s", info.path, info.isa, info.threads, plural_ending(info.threads), s->seconds);
    }
    return EXIT_DONE;
}
