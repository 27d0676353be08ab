/* SPDX-License-Identifier: Apache-2.0 */
/* The answer of a model to a prompt: shown while it comes, ended by a stop text or an interrupt, reported at the end. */
#ifndef ATTN_CLI_ANSWER_H
#define ATTN_CLI_ANSWER_H

#include "setup.h"

#include <attn/attn_load.h>

typedef struct answer {
    const session *session;
    const attn_pretrained *model;
    attn_decoder *decoder;
    const char *prompt; /* as it was encoded */
    const attn_encoding *source;
    char *text; /* all of it, from the first token on; ends with a 0 */
    size_t size, room, shown; /* shown: bytes that are on standard output */
    int32_t *ids;
    size_t count, most;
    const char *end; /* "length", "model", "text", "interrupt" */
    struct timespec start; /* of the prompt; then of the first token */
    double open_seconds, prompt_seconds, seconds;
    double score; /* of a translation; NAN: none */
    int status;   /* an exit code after a message */
} answer;

/* One more token; its text goes out at once but for what may be the beginning of a --stop text. Nonzero: the answer ends here. It fits
   attn_generate_opts.token, with the answer as user. */
int answer_token(void *user, int32_t id);
/* What is left of the text, then the numbers: a note on standard error, or all of it as JSON. Returns an exit code. */
int answer_finish(answer *a);
#endif
