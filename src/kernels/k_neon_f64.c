/* SPDX-License-Identifier: Apache-2.0 */
#define ATTN_REAL_IS_DOUBLE
#include "vec_neon_f64.h"
#include "bodies.h"

const attn_kernels attn_kernels_neon_f64 = ATTN_KERNEL_TABLE;
