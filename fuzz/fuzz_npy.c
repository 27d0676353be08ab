/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_file(ATTN_FORMAT_NPY, "fuzz.npy", data, size);
    return 0;
}
