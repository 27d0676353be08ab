/* SPDX-License-Identifier: Apache-2.0 */
/* The one sentence of a failure, for every library that reads files. Compiled into each of them; no library's interface. */
#ifndef ATTN_COMMON_SENTENCE_H
#define ATTN_COMMON_SENTENCE_H
#include <stdarg.h>
#include <stddef.h>

/* Writes "file: part: sentence" into text of `size` bytes; file, part and text may be NULL. What a file's own words hold may be anything:
   what is no UTF-8 and what a terminal would obey is shown as '?'. */
__attribute__((format(printf, 5, 0))) void attn_sentence(char *text, size_t size, const char *file, const char *part, const char *format,
                                                         va_list args);

/* The bytes of the UTF-8 sequence at p, which ends with a 0 somewhere; 0 when there is none (overlong, a surrogate, beyond U+10FFFF). */
size_t attn_utf8_length(const char *p);
#endif
