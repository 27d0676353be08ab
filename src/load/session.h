/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTN_LOAD_SESSION_H
#define ATTN_LOAD_SESSION_H
#include <attn/attn_generate.h>

#include "model.h"

/* Each sequence has caches of its own, so that its bits depend on nothing else, and sequences may differ in length. */
struct attn_session {
    const struct attn_pretrained *model;
    int64_t batch, capacity;
    attn_dtype kv_dtype;
    attn_kv **kv;      /* [batch][layers] */
    void *memory;      /* of a feed, kept for the next */
    size_t memory_size;
    int32_t *seen;     /* attn_generate: what sequence 0 holds */
    int64_t seen_count;
};

static inline attn_kv **session_caches(const attn_session *s, int64_t b) { return s->kv + b * s->model->decoder.layers; }

/* "Empty caches for sequence b"; the caller frees them after a failure. */
attn_status attn_session_caches(attn_ctx *ctx, const attn_session *s, attn_kv **kv);
#endif
