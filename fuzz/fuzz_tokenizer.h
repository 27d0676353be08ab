/* SPDX-License-Identifier: Apache-2.0 */
/* What the fuzzers of tokenizers share: the bytes as a file, then texts through what was made of it. */
#ifndef ATTN_FUZZ_TOKENIZER_H
#define ATTN_FUZZ_TOKENIZER_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "fuzz_require.h"

static inline void fuzz_text(const attn_tokenizer *t, const char *text, size_t size)
{
    char err[200] = "", *back = NULL;
    attn_encoding *e = NULL;
    const attn_status s = attn_tokenizer_encode(t, text, size, text, size / 2, ATTN_ENCODE_SPECIAL, 0, &e, err, sizeof err);
    require((s == ATTN_OK) == (e != NULL) && (s == ATTN_OK) == (err[0] == '\0'));
    for (size_t i = 0; e != NULL && i < e->count; i++)
        require(e->start[i] <= e->end[i] && e->end[i] <= (int64_t)size && attn_tokenizer_token(t, e->ids[i], NULL) != NULL);
    if (e != NULL && attn_tokenizer_decode(t, e->ids, e->count, 0, &back, NULL, err, sizeof err) == ATTN_OK)
        attn_text_free(back);
    attn_encoding_destroy(e);
}

/* Ends t. */
static inline void fuzz_made(attn_tokenizer *t, const struct report *r, attn_status s, const char *text, size_t size)
{
    attn_tokenizer *made = NULL;
    s = attn_tokenizer_done(t, r, s, &made);
    require((s == ATTN_OK) == (made != NULL) && (s == ATTN_OK) == (r->text[0] == '\0'));
    if (made != NULL) {
        fuzz_text(made, "na\xc3\xafve  ab 12 \xed\x95\x9c\xea\xb8\x80, e\xcc\x81\t[MASK]x", 33);
        fuzz_text(made, text, size < 4096 ? size : 4096);
    }
    attn_tokenizer_destroy(made);
}

#endif
