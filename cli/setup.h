/* SPDX-License-Identifier: Apache-2.0 */
/* From the options of the command to attn_sdpa_opts and a context. */
#ifndef ATTN_CLI_SETUP_H
#define ATTN_CLI_SETUP_H

#include "inputs.h"

#include <attn/attn.h>
#include <dialect_run.h>
#include <time.h>

typedef struct attention_setup {
    attn_sdpa_opts opts; /* points into this struct: do not copy it */
    attn_tensor mask, bias, offsets, kv_len, q_len, cu_q, cu_k, alibi, sinks, keep;
} attention_setup;

/* Reads every option of the attention. 0, or an exit code after a message. */
int setup_attention(attention_setup *s, inputs *in);

/* True with --layout blhd; *status becomes an exit code when the layout is unknown. */
bool setup_is_blhd(const options *o, int *status);

typedef struct session {
    attn_ctx *ctx;
    const options *o;
    struct timespec start; /* of the call that runs */
    bool own_bar;          /* the command shows how far its work is, and not how far each call is */
    double shown;          /* when the progress bar was drawn last, seconds after start; 0: never */
    double seconds;        /* that the last call took */
    dialect_rule rule;     /* of --dialect */
    bool by_definition;    /* options cannot say it: the calls follow its definition in float64 */
} session;

/* A context with --threads and --isa. 0, or an exit code after a message. */
int session_open(session *s, const options *o);
void session_close(session *s);
/* Around each call of the library: the clock and the progress bar; session_end says what ran (--verbose) and turns a status into an exit
   code after the library's sentence. */
void session_begin(session *s);
int session_end(session *s, attn_status status);
/* The bar for work of the command's own, after session_begin; done = 1 removes it. */
void session_progress(session *s, double done);
/* The library's sentence in the words of the command line. Returns an exit code. */
int library_trouble(const char *sentence);
/* What ran, as attn_ctx_info says it. */
attn_info session_info(const session *s);
double seconds_since(const struct timespec *start);
#endif
