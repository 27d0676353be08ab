/* SPDX-License-Identifier: Apache-2.0 */
#include "text.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

uint32_t text_decode(const char *text, int *bytes)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *s = (const unsigned char *)text;
    const int length = s[0] < 0x80 ? 1 : s[0] < 0xC0 ? 0 : s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : s[0] < 0xF8 ? 4 : 0;
    uint32_t c = length > 1 ? s[0] & (0x7Fu >> length) : s[0];
    *bytes = 1;
    for (int i = 1; i < length; i++) {
        if ((s[i] & 0xC0) != 0x80)
            return NOT_UTF8;
        c = c << 6 | (s[i] & 0x3F);
    }
    if (length == 0 || c < least[length] || c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF))
        return NOT_UTF8;
    *bytes = length;
    return c;
}

bool text_is_control(uint32_t c) { return c < 0x20 || (c >= 0x7F && c < 0xA0); }

/* The ranges of Unicode's EastAsianWidth W and F that text uses, the usual combining marks, and the vowels and finals of Hangul written
   letter by letter, which stand in the columns of the first. */
static int columns_of(uint32_t c)
{
    static const uint32_t none[][2] = {{0x0300, 0x036F}, {0x1160, 0x11FF}, {0xD7B0, 0xD7FF},
                                       {0x200B, 0x200F}, {0xFE00, 0xFE0F}, {0x20D0, 0x20FF}};
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

int text_columns(const char *text)
{
    int columns = 0, bytes;
    for (const char *s = text; *s; s += bytes)
        columns += columns_of(text_decode(s, &bytes));
    return columns;
}

const char *text_cut(char *out, size_t size, const char *text, int columns)
{
    size_t used = 0;
    int bytes;
    for (const char *s = text; *s; s += bytes) {
        columns -= columns_of(text_decode(s, &bytes));
        if (columns < 0 || used + (size_t)bytes >= size)
            break;
        memcpy(out + used, s, (size_t)bytes);
        used += (size_t)bytes;
    }
    out[used] = 0;
    return out;
}

static void print_shown(FILE *f, const char *text)
{
    int bytes;
    for (const char *s = text; *s; s += bytes) {
        const uint32_t c = text_decode(s, &bytes);
        if (c != NOT_UTF8 && !text_is_control(c))
            fwrite(s, 1, (size_t)bytes, f);
        else
            for (int i = 0; i < bytes; i++)
                fprintf(f, "\\x%02x", (unsigned char)s[i]);
    }
}

void text_print(FILE *f, const char *format, va_list args)
{
    va_list again;
    va_copy(again, args);
    const int length = vsnprintf(NULL, 0, format, again);
    va_end(again);
    char *text = length < 0 ? NULL : malloc((size_t)length + 1);
    if (text)
        vsnprintf(text, (size_t)length + 1, format, args);
    print_shown(f, text ? text : format);
    free(text);
}
