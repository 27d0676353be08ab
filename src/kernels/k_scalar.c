/* SPDX-License-Identifier: Apache-2.0 */
#include "vec_scalar.h"
#include "bodies.h"

const attn_kernels attn_kernels_scalar_f32 = ATTN_KERNEL_TABLE;
