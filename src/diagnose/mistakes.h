/* SPDX-License-Identifier: Apache-2.0 */
/* The table of mistakes: each a name for a variation. */
#ifndef ATTN_DIAGNOSE_MISTAKES_H
#define ATTN_DIAGNOSE_MISTAKES_H

#include "diagnose.h"
#include "problem.h"
#include "variation.h"

enum mistake_kind { MISTAKE_PLAIN, MISTAKE_PRECISION, MISTAKE_DIALECT };

/* Several entries may have one id: the ways in which that mistake is made. */
typedef struct mistake {
    const char *id;
    unsigned needs; /* FACT_* */
    variation v;
} mistake;

extern const mistake mistake_table[];
extern const int mistake_count;

/* The words of an id; never NULL for an id of the tables. */
const mistake_words *words_of(const char *id);
/* What no variation is needed for: OUT has the right numbers in another shape. */
#define ID_NOT_TRANSPOSED "output-not-transposed"
#define ID_HEADS_JOINED "output-heads-joined"
#define ID_HEADS_NOT_JOINED "heads-not-joined"
#define ID_TRANSPOSED "output-transposed"
#endif
