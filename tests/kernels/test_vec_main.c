/* SPDX-License-Identifier: Apache-2.0 */
/* Runs test_vec.c, which is compiled for the ISA level VEC_ISA; this file is compiled for every machine, so that it can ask first. */
#include "test_vec.h"

#include <stdio.h>

#include "../../src/cpu/cpu.h"

int main(void)
{
    if (!attn_cpu_usable(VEC_ISA)) {
        printf("SKIPPED: this machine cannot run %s\n", VEC_ISA);
        return 77;
    }
    return vec_test() ? 1 : 0;
}
