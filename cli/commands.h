/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs. Each gets its options, parsed, and returns an exit code. */
#ifndef ATTN_CLI_COMMANDS_H
#define ATTN_CLI_COMMANDS_H

#include "options.h"

int cmd_sdpa(const options *o);
int cmd_mha(const options *o);
int cmd_explain(int argc, char **argv); /* reads its own options: they depend on what is explained */
int cmd_view(const options *o);
int cmd_diagnose(int argc, char **argv);
int cmd_show(const options *o);
int cmd_selftest(const options *o);
int cmd_info(const options *o);
int cmd_bench(const options *o);
int cmd_generate(const options *o);
int cmd_embed(const options *o);

/* The CPU's name as Linux tells it; "unknown" elsewhere. */
void cpu_name(char *out, size_t size);
#endif
