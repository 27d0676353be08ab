/* SPDX-License-Identifier: Apache-2.0 */
#include "utf8.h"

#include <utf8proc.h>

size_t attn_utf8_read(const char *text, size_t size, uint32_t *c)
{
    const unsigned char *p = (const unsigned char *)text;
    if (size == 0)
        return 0;
    *c = p[0];
    const size_t n = p[0] < 0x80 ? 1 : p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : p[0] < 0xf5 ? 4 : 0;
    if (n <= 1 || n > size)
        return n > size ? 0 : n;
    *c = p[0] & (0x7fU >> n);
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        *c = *c << 6 | (p[i] & 0x3f);
    }
    const bool wrong = (n == 3 && *c < 0x800) || (n == 4 && *c < 0x10000) || (*c >= 0xd800 && *c < 0xe000) || *c > 0x10ffff;
    return wrong ? 0 : n;
}

size_t attn_utf8_write(uint32_t c, char *p)
{
    if (c < 0x80) {
        p[0] = (char)c;
        return 1;
    }
    const size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, c >>= 6)
        p[i] = (char)(0x80 | (c & 0x3f));
    p[0] = (char)((0xf00U >> n) | c);
    return n;
}

size_t attn_utf8_valid(const char *p, size_t size)
{
    uint32_t c;
    for (size_t i = 0, n; i < size; i += n) {
        n = attn_utf8_read(p + i, size - i, &c);
        if (n == 0)
            return i;
    }
    return size;
}

bool attn_is_space(uint32_t c)
{
    if (c < 0x80)
        return (c >= 9 && c <= 13) || c == ' ';
    return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
           c == 0x205f || c == 0x3000;
}

static utf8proc_category_t category(uint32_t c) { return utf8proc_category((utf8proc_int32_t)c); }

bool attn_is_mark(uint32_t c)
{
    const utf8proc_category_t k = category(c);
    return k == UTF8PROC_CATEGORY_MN || k == UTF8PROC_CATEGORY_MC || k == UTF8PROC_CATEGORY_ME;
}

bool attn_is_word(uint32_t c)
{
    if (c < 0x80)
        return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
    const utf8proc_category_t k = category(c);
    const bool circled =
        (c >= 0x24b6 && c <= 0x24e9) || (c >= 0x1f130 && c <= 0x1f149) || (c >= 0x1f150 && c <= 0x1f169) || (c >= 0x1f170 && c <= 0x1f189);
    return (k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO) || attn_is_mark(c) || k == UTF8PROC_CATEGORY_ND ||
           k == UTF8PROC_CATEGORY_NL || k == UTF8PROC_CATEGORY_PC || c == 0x200c || c == 0x200d || circled;
}

bool attn_is_number(uint32_t c)
{
    const utf8proc_category_t k = category(c);
    return k == UTF8PROC_CATEGORY_ND || k == UTF8PROC_CATEGORY_NL || k == UTF8PROC_CATEGORY_NO;
}

bool attn_is_punctuation(uint32_t c)
{
    if (c < 0x80)
        return c > ' ' && c < 0x7f && !attn_is_word(c) ? true : c == '_';
    const utf8proc_category_t k = category(c);
    return k >= UTF8PROC_CATEGORY_PC && k <= UTF8PROC_CATEGORY_PO;
}

bool attn_is_control(uint32_t c)
{
    if (c < 0x80)
        return (c < ' ' && c != '\t' && c != '\n' && c != '\r') || c == 0x7f;
    const utf8proc_category_t k = category(c);
    return k == UTF8PROC_CATEGORY_CC || k == UTF8PROC_CATEGORY_CF || k == UTF8PROC_CATEGORY_CO;
}

bool attn_is_nonspacing(uint32_t c) { return c >= 0x300 && category(c) == UTF8PROC_CATEGORY_MN; }

bool attn_is_cjk(uint32_t c)
{
    return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) || (c >= 0x20000 && c <= 0x2a6df) ||
           (c >= 0x2a700 && c <= 0x2b73f) || (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) ||
           (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

size_t attn_lower(uint32_t c, uint32_t to[2])
{
    if (c == 0x130) { /* the one letter whose lower case is two characters */
        to[0] = 'i';
        to[1] = 0x307;
        return 2;
    }
    to[0] = c < 0x80 ? c + (c >= 'A' && c <= 'Z' ? 32 : 0) : (uint32_t)utf8proc_tolower((utf8proc_int32_t)c);
    return 1;
}

/* GPT-2's table: printable Latin-1 stands for itself, the other 68 bytes are U+0100, U+0101, ... in their order. */
static bool stands_for_itself(uint32_t c) { return (c > ' ' && c < 0x7f) || (c > 0xa0 && c < 0x100 && c != 0xad); }

uint32_t attn_byte_letter(unsigned char byte)
{
    if (stands_for_itself(byte))
        return byte;
    return 0x100U + (byte <= ' ' ? byte : byte < 0xad ? byte - 0x7fU + 33U : 67U);
}

int attn_letter_byte(uint32_t c)
{
    if (stands_for_itself(c))
        return (int)c;
    if (c < 0x100 || c > 0x143)
        return -1;
    const int i = (int)c - 0x100;
    return i <= ' ' ? i : i < 67 ? i - 33 + 0x7f : 0xad;
}
