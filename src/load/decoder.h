/* SPDX-License-Identifier: Apache-2.0 */
/* What the families of decoders share, and how a session runs one. */
#ifndef ATTN_LOAD_DECODER_H
#define ATTN_LOAD_DECODER_H
#include "model.h"

/* RoPE's frequencies out of config.json. theta is the family's default; *positions, max_position_embeddings, may grow. */
void attn_config_rope(struct config *c, attn_rope_desc *d, int64_t *positions, double theta);

/* The token's table and the vocabulary's product. Both may be one tensor of the file: name of the table, and of the product or NULL. */
attn_status attn_build_vocabulary(struct builder *b, const char *table, const char *product);

/* The ids that end a text: of config.json, generation_config.json, or a .gguf. */
attn_status attn_build_stops(struct builder *b);
#endif
