/* SPDX-License-Identifier: Apache-2.0 */
#include "vec_neon.h"
#include "bodies.h"

const attn_kernels attn_kernels_neon_f32 = ATTN_KERNEL_TABLE;
