/* SPDX-License-Identifier: Apache-2.0 */
/* Verbs that take the kind of what they work on first: attn explain sdpa|mha|split, attn diagnose sdpa|mha. One page of help for all. */
#ifndef ATTN_CLI_KINDS_H
#define ATTN_CLI_KINDS_H

#include "options.h"

typedef struct kind {
    verb_desc verb; /* its name is "VERB KIND" */
    int (*run)(const options *o);
} kind;

/* Reads argv after the verb and runs the kind that it names. Returns an exit code. */
int run_kind(const char *verb, const kind *kinds, int count, int argc, char **argv);
#endif
