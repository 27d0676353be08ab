/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTN_CLI_MAN_H
#define ATTN_CLI_MAN_H

#include "options.h"
#include <stdio.h>

/* attn(1) and attn-VERB(1) as mdoc. */
void man_overview(FILE *f);
void man_verb(FILE *f, const verb_desc *verb);
#endif
