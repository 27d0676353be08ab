/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTN_CLI_COMPLETION_H
#define ATTN_CLI_COMPLETION_H

#include "options.h"
#include <stdio.h>

void completion_bash(FILE *f);
void completion_zsh(FILE *f);
void completion_fish(FILE *f);
#endif
