/* SPDX-License-Identifier: Apache-2.0 */
/* What attn embed shows beside the vectors: how near the texts are to each other, and how many tokens they had. */
#ifndef ATTN_CLI_EMBED_SHOW_H
#define ATTN_CLI_EMBED_SHOW_H

#include "json_out.h"
#include "texts.h"

#include <attn/attn_load.h>

typedef struct embed_length {
    int64_t text, tokens;
} embed_length;

typedef struct embed_shown {
    const texts *texts;
    attn_encoding *const *tokens;
    const attn_tensor *vectors; /* packed f32 [texts, columns] */
    attn_model_info info;
} embed_shown;

/* The cosine of every two of a few texts as a table. Returns an exit code. */
int embed_similarity(const embed_shown *e, const options *o);
/* The keys of --json that attn embed alone has; user is an embed_shown. */
void embed_json(json_writer *j, const void *user);
#endif
