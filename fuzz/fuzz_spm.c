/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz_tokenizer.h"
#include "marian.h"

/* The bytes as both languages' models. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char vocab[] = "{\"</s>\": 0, \"<unk>\": 1, \"<pad>\": 2, \"a\": 3, \"\\u2581a\": 4}";
    char err[200] = "";
    const struct report r = {err, sizeof err, "source.spm"};
    attn_tokenizer *t = attn_tokenizer_start(&r);
    require(t != NULL);
    const char *bytes = (const char *)data;
    const struct marian_files f = {bytes, bytes, vocab, size, size, sizeof vocab - 1, &r, &r, &r};
    fuzz_made(t, &r, attn_read_marian(t, &f), bytes, size);
    return 0;
}
