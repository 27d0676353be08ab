/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz_tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char err[200] = "";
    const struct report r = {err, sizeof err, "tokenizer.json"};
    attn_tokenizer *t = attn_tokenizer_start(&r);
    require(t != NULL);
    char *copy = malloc(size + 1); /* files are followed by a 0 */
    require(copy != NULL);
    memcpy(copy, data, size);
    copy[size] = '\0';
    fuzz_made(t, &r, attn_read_json(t, &r, copy, size), copy, size);
    free(copy);
    return 0;
}
