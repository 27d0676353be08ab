/* SPDX-License-Identifier: Apache-2.0 */
/* Token ids with padding: which of them are tokens. */
#ifndef ATTN_LOAD_SEQUENCES_H
#define ATTN_LOAD_SEQUENCES_H
#include <attn/attn.h>

/* The tokens of one sequence are one run in its row of ids. */
struct run {
    int64_t start, count;
    int64_t before; /* of a session: the tokens that the sequence had; else 0 */
};

struct sequences {
    attn_tensor ids; /* int32 or int64 [B,L] */
    int64_t items, tokens;
    struct run *run; /* [B] */
};

/* *s = the runs of ids [B,L] or [L]: those of mask, else the first `lengths`, else all. Either may be NULL. Ends with attn_sequences_free,
   also after a failure. */
attn_status attn_sequences_find(attn_ctx *ctx, struct sequences *s, const attn_tensor *ids, const attn_tensor *lengths,
                                const attn_tensor *mask);
void attn_sequences_free(struct sequences *s);

/* The element that is `at` elements behind the first. */
int64_t attn_whole_at(const attn_tensor *t, int64_t at);
static inline int attn_is_index(const attn_tensor *t) { return t->dtype == ATTN_I32 || t->dtype == ATTN_I64; }
#endif
