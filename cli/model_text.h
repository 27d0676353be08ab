/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTN_CLI_MODEL_TEXT_H
#define ATTN_CLI_MODEL_TEXT_H

#include <attn/attn_text.h>

/* The tokenizer of a model folder or a .gguf. 0, or an exit code after a message. */
int model_tokenizer(const char *path, attn_tokenizer **out);
#endif
