/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8 and the classes of characters that tokenizers ask for. */
#ifndef ATTN_TEXT_UTF8_H
#define ATTN_TEXT_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The bytes of the character at p, 0 when there is none (overlong, a surrogate, beyond U+10FFFF, cut). */
size_t attn_utf8_read(const char *p, size_t size, uint32_t *c);
/* Writes at most 4 bytes. */
size_t attn_utf8_write(uint32_t c, char *p);
/* The first byte that is not UTF-8; size when all is. */
size_t attn_utf8_valid(const char *p, size_t size);

bool attn_is_space(uint32_t c);       /* Unicode's White_Space */
bool attn_is_word(uint32_t c);        /* \w of Unicode's annex 18: letters, marks, digits, connectors, joiners */
bool attn_is_number(uint32_t c);      /* Nd, Nl, No */
bool attn_is_punctuation(uint32_t c); /* P*, and ASCII's signs */
bool attn_is_control(uint32_t c);     /* Cc, Cf, Co but tab, line feed, carriage return */
bool attn_is_nonspacing(uint32_t c);  /* Mn */
bool attn_is_mark(uint32_t c);        /* Mn, Mc, Me */
bool attn_is_cjk(uint32_t c);         /* the ideographs that BERT sets apart */
/* The lower case, one or two characters. */
size_t attn_lower(uint32_t c, uint32_t to[2]);

/* The printable characters by which byte-level vocabularies write bytes, and back: -1 for others. */
uint32_t attn_byte_letter(unsigned char byte);
int attn_letter_byte(uint32_t c);

#endif
