/* SPDX-License-Identifier: Apache-2.0 */
#include "variation.h"

#include <string.h>

bool variation_join(variation *out, const variation *a, const variation *b)
{
    unsigned char bytes[sizeof *out];
    const unsigned char *x = (const unsigned char *)a, *y = (const unsigned char *)b;
    for (size_t i = 0; i < sizeof bytes; i++) {
        if (x[i] && y[i] && x[i] != y[i])
            return false;
        bytes[i] = x[i] ? x[i] : y[i];
    }
    memcpy(out, bytes, sizeof bytes);
    return true;
}

bool variation_is_right(const variation *v)
{
    const variation right = {.keys = KEYS_RIGHT};
    return memcmp(v, &right, sizeof right) == 0;
}
