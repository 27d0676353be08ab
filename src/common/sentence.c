/* SPDX-License-Identifier: Apache-2.0 */
#include "sentence.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

size_t attn_utf8_length(const char *text)
{
    const unsigned char *p = (const unsigned char *)text;
    const size_t n = p[0] < 0x80 ? 1 : p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : p[0] < 0xf5 ? 4 : 0;
    for (size_t i = 1; i < n; i++) {
        if (p[i] < 0x80 || p[i] > 0xbf)
            return 0;
    }
    const bool wrong =
        (p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) || (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f);
    return wrong ? 0 : n;
}

static void hide_what_is_no_text(char *text)
{
    while (*text != '\0') {
        const size_t n = attn_utf8_length(text);
        const unsigned char c = (unsigned char)text[0];
        if (n == 0 || c < 0x20 || c == 0x7f || (c == 0xc2 && (unsigned char)text[1] < 0xa0))
            memset(text, '?', n ? n : 1);
        text += n ? n : 1;
    }
}

void attn_sentence(char *text, size_t size, const char *file, const char *part, const char *format, va_list args)
{
    if (text == NULL || size == 0)
        return;
    const int n = snprintf(text, size, "%s%s%s%s", file ? file : "", file ? ": " : "", part ? part : "", part ? ": " : "");
    if (n >= 0 && (size_t)n < size)
        vsnprintf(text + n, size - (size_t)n, format, args);
    hide_what_is_no_text(text);
}
