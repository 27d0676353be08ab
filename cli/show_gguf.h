/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTN_CLI_SHOW_GGUF_H
#define ATTN_CLI_SHOW_GGUF_H

#include "json_out.h"

#include <attn/attn_io.h>

/* The values by key of a .gguf, then a line for each tensor. */
void show_gguf_text(const attn_file *f);
/* The values by key as member "metadata". */
void show_gguf_json(json_writer *j, const attn_file *f);
#endif
