/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTN_CLI_HELP_H
#define ATTN_CLI_HELP_H

#include "options.h"
#include <stdio.h>

void help_overview(FILE *f);
void help_verb(FILE *f, const verb_desc *verb);
/* The form that a reader types: "-o, --output OUT", "--causal[=top-left|bottom-right]". */
void help_option_form(char *out, size_t size, const opt_desc *d);
/* "(sdpa and mha only)" for an option of explain that not all three kinds have; "" otherwise. */
const char *help_option_limit(const opt_desc *d, const verb_desc *verb);
#endif
