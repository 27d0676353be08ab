/* SPDX-License-Identifier: Apache-2.0 */
/* What the command says on stderr, and how it ends. */
#ifndef ATTN_CLI_MESSAGE_H
#define ATTN_CLI_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

enum { EXIT_DONE = 0, EXIT_DIFFERS = 1, EXIT_TROUBLE = 2, EXIT_INTERRUPTED = 130 };

/* Prints "attn: " and the sentence; returns EXIT_TROUBLE. */
int trouble(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same for something that is not wrong; with `quiet` nothing is printed. */
void note(int quiet, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* malloc and calloc that end the command with a message when there is no memory. Sizes of 0 give a pointer too. */
void *need_memory(size_t size);
void *need_zeroed(size_t count, size_t size);
/* What "word" needs behind a count: "" for 1, else "s". */
const char *plural_ending(int64_t count);
#endif
