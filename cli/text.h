/* SPDX-License-Identifier: Apache-2.0 */
/* Text on a terminal: UTF-8, and how many columns it takes. */
#ifndef ATTN_CLI_TEXT_H
#define ATTN_CLI_TEXT_H

#include <stddef.h>

/* Columns of a UTF-8 text: East Asian wide characters take two, combining marks none. Bytes that are no UTF-8 take one each. */
int text_columns(const char *text);
/* The bytes of the longest start of text within `columns` columns, never cutting a character. */
size_t text_cut(const char *text, int columns);
#endif
