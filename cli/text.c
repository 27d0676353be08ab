/* SPDX-License-Identifier: Apache-2.0 */
#include "text.h"

#include <stdint.h>

/* Decodes one character; *bytes is at least 1. */
static uint32_t decode(const unsigned char *s, int *bytes)
{
    const int length = s[0] >= 0xF0 && s[0] < 0xF8 ? 4 : s[0] >= 0xE0 ? 3 : s[0] >= 0xC0 ? 2 : 1;
    uint32_t c = length == 1 ? s[0] : s[0] & (0x7Fu >> length);
    for (int i = 1; i < length; i++) {
        if ((s[i] & 0xC0) != 0x80) {
            *bytes = 1;
            return s[0];
        }
        c = c << 6 | (s[i] & 0x3F);
    }
    *bytes = length;
    return c;
}

/* The ranges of Unicode's EastAsianWidth W and F that text uses, and the usual combining marks. */
static int columns_of(uint32_t c)
{
    static const uint32_t none[][2] = {{0x0300, 0x036F}, {0x200B, 0x200F}, {0xFE00, 0xFE0F}, {0x20D0, 0x20FF}};
    static const uint32_t wide[][2] = {{0x1100, 0x115F}, {0x2E80, 0x303E},   {0x3041, 0xA4CF},   {0xA960, 0xA97F},
                                       {0xAC00, 0xD7A3}, {0xF900, 0xFAFF},   {0xFE30, 0xFE6F},   {0xFF00, 0xFF60},
                                       {0xFFE0, 0xFFE6}, {0x1F300, 0x1F64F}, {0x1F900, 0x1F9FF}, {0x20000, 0x3FFFD}};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        if (c >= none[i][0] && c <= none[i][1])
            return 0;
    for (size_t i = 0; i < sizeof wide / sizeof wide[0]; i++)
        if (c >= wide[i][0] && c <= wide[i][1])
            return 2;
    return 1;
}

size_t text_cut(const char *text, int columns)
{
    size_t at = 0;
    while (text[at]) {
        int bytes;
        columns -= columns_of(decode((const unsigned char *)text + at, &bytes));
        if (columns < 0)
            break;
        at += (size_t)bytes;
    }
    return at;
}

int text_columns(const char *text)
{
    int columns = 0, bytes;
    for (const char *s = text; *s; s += bytes)
        columns += columns_of(decode((const unsigned char *)s, &bytes));
    return columns;
}
