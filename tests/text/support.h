/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of tokenizers share. */
#ifndef ATTN_TESTS_TEXT_SUPPORT_H
#define ATTN_TESTS_TEXT_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attn/attn_text.h"

/* A file of these bytes in a new folder; its path is in `path`. */
static inline void write_file(char *path, const char *name, const char *bytes, size_t size)
{
    char folder[] = "text-XXXXXX";
    assert_non_null(mkdtemp(folder));
    snprintf(path, 256, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

static inline void remove_file(char *path)
{
    unlink(path);
    *strrchr(path, '/') = '\0';
    rmdir(path);
}

static inline attn_encoding *encoded(const attn_tokenizer *t, const char *text, uint32_t flags)
{
    char err[300] = "";
    attn_encoding *e = NULL;
    if (attn_tokenizer_encode(t, text, strlen(text), NULL, 0, flags, 0, &e, err, sizeof err) != ATTN_OK)
        fail_msg("%s", err);
    return e;
}

/* GPT-2's letters for all bytes, and nothing else: every byte is a token, and the words are what the pre-tokenizer made. */
static inline attn_tokenizer *bytes_only(const char *pre)
{
    static char letters[256][3];
    static attn_span tokens[256];
    char err[300] = "";
    attn_tokenizer *t = NULL;
    for (int i = 0, next = 0x100; i < 256; i++) {
        const int itself = (i > 32 && i < 127) || (i > 160 && i != 173), c = itself ? i : next++;
        const int n = c < 0x80 ? 1 : 2;
        letters[i][0] = (char)(n == 1 ? c : 0xc0 | c >> 6);
        letters[i][1] = (char)(n == 1 ? 0 : 0x80 | (c & 0x3f));
        tokens[i] = (attn_span){letters[i], (size_t)n};
    }
    const attn_tokenizer_desc d = {.struct_size = sizeof d, .model = "gpt2", .pre = pre, .count = 256, .tokens = tokens};
    if (attn_tokenizer_create(&t, &d, err, sizeof err) != ATTN_OK)
        fail_msg("%s", err);
    return t;
}

#endif
