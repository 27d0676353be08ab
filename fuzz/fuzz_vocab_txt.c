/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz_tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char err[200] = "";
    const struct report r = {err, sizeof err, "vocab.txt"};
    attn_tokenizer *t = attn_tokenizer_start(&r);
    require(t != NULL);
    char *copy = malloc(size ? size : 1); /* of exactly that size, so that one byte too far is seen */
    require(copy != NULL);
    memcpy(copy, data, size);
    fuzz_made(t, &r, attn_read_vocab_txt(t, &r, copy, size), copy, size);
    free(copy);
    return 0;
}
