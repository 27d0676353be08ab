/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of other systems where they are not ours, as variations: what they do with the same arrays and options. */
#ifndef ATTN_DIAGNOSE_DIALECTS_H
#define ATTN_DIAGNOSE_DIALECTS_H

#include "diagnose.h"
#include "problem.h"
#include "variation.h"

/* "dialect-torch", ... in the order of enum dialect. */
extern const char *const dialect_id[DIALECTS];
/* How that system computes the problem. */
variation dialect_variation(enum dialect d, const problem *p);
#endif
