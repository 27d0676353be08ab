/* SPDX-License-Identifier: Apache-2.0 */
/* Which weights dropout kept: from the weights that came with OUT, or from weights solved for. */
#ifndef ATTN_DIAGNOSE_EVIDENCE_H
#define ATTN_DIAGNOSE_EVIDENCE_H

#include "evaluator.h"

/* Are the weights of OUT known? Sets seen_kept, seen_p and FACT_SEEN_WEIGHTS of p where some weights are 0 that should not be. The weights
   of OUT are p->got_weights, or, where V of each head has full row rank (d_v >= Lk), the w of w V = OUT. e is an evaluator of p. */
bool find_dropped_weights(problem *p, evaluator *e);
#endif
