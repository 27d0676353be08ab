/* SPDX-License-Identifier: Apache-2.0 */
/* Steps as tokenizer.json describes them. */
#ifndef ATTN_TEXT_READ_STEPS_H
#define ATTN_TEXT_READ_STEPS_H

#include "internal.h"
#include "json_get.h"

/* Adds the steps that the object (null: none) asks for, sequences flat. g->status: ATTN_E_UNSUPPORTED for a type or field that is not
   known. */
void attn_read_normalizer(struct get *g, json_t *object, struct steps *to);
void attn_read_pre_tokenizer(struct get *g, json_t *object, struct steps *to);
void attn_read_decoder(struct get *g, json_t *object, struct steps *to);
/* The templates and trimmings of t; token ids come from t, which has its vocabulary already. */
void attn_read_post_processor(struct get *g, json_t *object, attn_tokenizer *t);

#endif
