/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz_file.h"

/* As one file and as an index, whose shards are looked for where there are none. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_file(ATTN_FORMAT_SAFETENSORS, "fuzz.safetensors", data, size);
    fuzz_file(ATTN_FORMAT_SAFETENSORS_INDEX, "/nowhere/fuzz.safetensors.index.json", data, size);
    return 0;
}
