/* SPDX-License-Identifier: Apache-2.0 */
/* Every body, after a k_*.c file has included the vector header of its level. All that they define is static. */
#include "kernels.h"
#include "convert.h"
#include "dropout.h"
#include <float.h>
#include <math.h>
#include <stddef.h>

#ifdef ATTN_REAL_IS_DOUBLE
#define REAL_DTYPE ATTN_F64
#define REAL_MAX DBL_MAX
#define REAL_EPSILON DBL_EPSILON
#else
#define REAL_DTYPE ATTN_F32
#define REAL_MAX FLT_MAX
#define REAL_EPSILON FLT_EPSILON
#endif

#include "body_math.h"
#include "body_tile.h"
#include "body_block.h"
#include "body_hide.h"
#ifdef ATTN_PAIRS
#include "body_pairs.h"
#else
#include "body_reals.h"
#endif
#include "body_few.h"
#include "body_free.h"
#include "body_attend.h"
#include "body_trace.h"
#include "body_sweep.h"
#ifndef ATTN_PAIRS
#include "body_linear.h"
#include "body_activate.h"
#endif
#include "body_peak.h"

#define ATTN_KERNEL_ENTRY(ret, name, args) .name = name,
#define ATTN_KERNEL_TABLE { ATTN_KERNELS(ATTN_KERNEL_ENTRY) }
#define ATTN_KERNEL_TABLE_OF_PAIRS { ATTN_PAIR_KERNELS(ATTN_KERNEL_ENTRY) }
