/* SPDX-License-Identifier: Apache-2.0 */
/* The chat templates that are built in: recognised in a model's own template, never run as one. */
#ifndef ATTN_CLI_CHAT_H
#define ATTN_CLI_CHAT_H

/* One turn as the template writes it, up to where the answer begins; system NULL: the template's own default. The caller frees it. NULL
   after a message: the model has no template, or one that is not built in. */
char *chat_prompt(const char *template, const char *system, const char *user);
#endif
