/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of an exact size that touches an inaccessible page on one side and has canaries on the other. A read or a write past the
   guarded end is SIGSEGV; guarded_intact finds a write past the other. */
#ifndef ATTN_GUARDED_H
#define ATTN_GUARDED_H
#include <stddef.h>

enum guard_side { GUARD_AFTER, GUARD_BEFORE };
enum { CANARY = 0xff }; /* as a float a NaN, so that what is read without having been written shows */

typedef struct guarded {
    unsigned char *data; /* `size` bytes, all of them canaries at first */
    size_t size;
    unsigned char *map; /* the accessible pages, with an inaccessible one before and after */
    size_t map_size;
} guarded;

/* size may be 0: then data is an address that must not be touched. Exits with 2 when memory runs out. */
guarded guarded_new(size_t size, enum guard_side side);
/* 1 if nothing around the data was written. */
int guarded_intact(const guarded *g);
void guarded_free(guarded *g);
#endif
