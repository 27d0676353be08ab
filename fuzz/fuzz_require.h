/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTN_FUZZ_REQUIRE_H
#define ATTN_FUZZ_REQUIRE_H

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A broken promise ends the run as a sanitizer's finding would. */
static inline void require(int holds)
{
    if (!holds)
        abort();
}

#endif
