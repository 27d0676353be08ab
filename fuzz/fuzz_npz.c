/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_file(ATTN_FORMAT_NPZ, "fuzz.npz", data, size);
    return 0;
}
