/* SPDX-License-Identifier: Apache-2.0 */
#define ATTN_PAIRS
#include "vec_neon_bf16.h"
#include "bodies.h"

const attn_kernels attn_kernels_neon_bf16 = ATTN_KERNEL_TABLE_OF_PAIRS;
