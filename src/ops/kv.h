/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTN_KV_H
#define ATTN_KV_H
#include "../core/private.h"

/* attn_kv_truncate to a length that is known to be right; the context keeps its sentence. */
ATTN_PRIVATE void attn_kv_forget(attn_kv *kv, int64_t length);
#endif
