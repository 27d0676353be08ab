/* SPDX-License-Identifier: Apache-2.0 */
#define _DEFAULT_SOURCE
#include "guarded.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static size_t page_size(void) { return (size_t)sysconf(_SC_PAGESIZE); }

guarded guarded_new(size_t size, enum guard_side side)
{
    const size_t page = page_size(), inside = (size + page - 1) / page * page;
    unsigned char *all = mmap(NULL, inside + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED || (inside && mprotect(all + page, inside, PROT_READ | PROT_WRITE))) {
        perror("guarded_new");
        exit(2);
    }
    guarded g = { .size = size, .map = all + page, .map_size = inside };
    g.data = side == GUARD_AFTER ? g.map + inside - size : g.map;
    memset(g.map, CANARY, inside);
    return g;
}

int guarded_intact(const guarded *g)
{
    for (const unsigned char *p = g->map; p < g->map + g->map_size; p++)
        if ((p < g->data || p >= g->data + g->size) && *p != CANARY)
            return 0;
    return 1;
}

void guarded_free(guarded *g)
{
    if (g->map)
        munmap(g->map - page_size(), g->map_size + 2 * page_size());
    *g = (guarded){ 0 };
}
