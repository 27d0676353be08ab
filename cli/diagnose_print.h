/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of `attn diagnose` share. */
#ifndef ATTN_CLI_DIAGNOSE_PRINT_H
#define ATTN_CLI_DIAGNOSE_PRINT_H

#include "options.h"

#include <diagnose.h>

/* Both return an exit code of printing: 0, or trouble. `command` is "diagnose sdpa". */
int diagnose_print_json(const diagnose_report *r, const char *command, enum diagnose_lang lang, bool given);
int diagnose_print_text(const diagnose_report *r, enum diagnose_lang lang, bool given);
#endif
