/* SPDX-License-Identifier: Apache-2.0 */
#include "vec_avx512.h"
#include "bodies.h"

const attn_kernels attn_kernels_avx512_f32 = ATTN_KERNEL_TABLE;
