/* SPDX-License-Identifier: Apache-2.0 */
/* An input that would tell tied mistakes apart: found by computing them on other inputs, not by guessing. */
#ifndef ATTN_DIAGNOSE_PROBE_H
#define ATTN_DIAGNOSE_PROBE_H

#include "search.h"

/* What to change about p so that every two of the variations give different outputs: true; or most of them, as far as that can be had.
   NULLs where nothing that is tried makes a difference. */
bool probe_apart(const char *text[DIAGNOSE_LANGS], const problem *p, arena *m, const variation *const *v, int count);
#endif
