/* SPDX-License-Identifier: Apache-2.0 */
/* A decoder in a .gguf: its values by key as the fields that config.json would have, so that one reader checks both. */
#ifndef ATTN_LOAD_GGUF_H
#define ATTN_LOAD_GGUF_H
#include <attn/attn_io.h>

#include "config.h"

/* Fills *c; attn_config_close after, either way. A key of the model's architecture that is not known is refused by name. */
attn_status attn_gguf_config(struct config *c, const attn_file *f, const struct load_report *r);
#endif
