/* SPDX-License-Identifier: Apache-2.0 */
/* Text on a terminal: UTF-8, and how many columns it takes. */
#ifndef ATTN_CLI_TEXT_H
#define ATTN_CLI_TEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define NOT_UTF8 UINT32_MAX

/* One character, or NOT_UTF8; *bytes is at least 1. */
uint32_t text_decode(const char *text, int *bytes);
/* A terminal may obey it. */
bool text_is_control(uint32_t c);

/* Columns of a UTF-8 text: East Asian wide characters take two, combining marks none. Bytes that are no UTF-8 take one each. */
int text_columns(const char *text);
/* The beginning of text that takes at most `columns` columns, in whole characters, into out[size]; returns out. */
const char *text_cut(char *out, size_t size, const char *text, int columns);
/* vfprintf of one line that may hold names out of files: control characters and bytes that are no UTF-8 are shown as \xNN. */
void text_print(FILE *f, const char *format, va_list args) __attribute__((format(printf, 2, 0)));
#endif
