/* SPDX-License-Identifier: Apache-2.0 */
/* SentencePiece's precompiled_charsmap: a double array that maps strings to strings. */
#ifndef ATTN_TEXT_CHARSMAP_H
#define ATTN_TEXT_CHARSMAP_H

#include "runes.h"

struct charsmap;

/* From the bytes that the files hold. ATTN_E_FORMAT: malformed. */
attn_status attn_charsmap_make(struct charsmap **out, const struct report *r, const unsigned char *bytes, size_t size);
/* From base64. */
attn_status attn_charsmap_base64(struct charsmap **out, const struct report *r, const char *text, size_t size);
void attn_charsmap_free(struct charsmap *m);

/* The longest (or shortest) beginning of text that has a replacement: its size, 0 when none has. */
size_t attn_charsmap_find(const struct charsmap *m, const char *text, size_t size, bool longest, const char **to, size_t *to_size);

/* As Hugging Face's Precompiled: whole grapheme clusters below 6 bytes, else character by character, by the shortest match. */
bool attn_charsmap_graphemes(const struct charsmap *m, const struct runes *from, struct runes *to);

#endif
