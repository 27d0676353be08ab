/* SPDX-License-Identifier: Apache-2.0 */
/* A matrix of shares as blocks: 256 colours where a terminal has them, characters elsewhere. */
#ifndef ATTN_CLI_HEAT_H
#define ATTN_CLI_HEAT_H

#include "options.h"

#include <stdio.h>

typedef enum heat_form { HEAT_OFF, HEAT_COLOR, HEAT_ASCII } heat_form;

/* --heat; auto is colour on a terminal with 256 colours and UTF-8 that NO_COLOR does not forbid. 0, or an exit code after a message. */
int heat_choose(heat_form *form, FILE *f, const options *o);

/* One line of blocks, two columns each: shares[i] of `largest`, the largest of the map; a NaN is hidden. */
void heat_row(FILE *f, heat_form form, const double *shares, int64_t count, double largest);
/* The blocks from nothing to the largest. */
void heat_scale(FILE *f, heat_form form);
#endif
