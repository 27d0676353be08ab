/* SPDX-License-Identifier: Apache-2.0 */
#include "harness.h"

#include <stdlib.h>
#include <string.h>

/* Where element [position][head][column] is, from data. */
static int64_t offset_of(const array *a, int64_t position, int64_t head, int64_t column)
{
    return position * a->rows.position + head * a->rows.head + column * a->rows.column;
}

/* Strides of an axis `extent` long whose elements are `step` apart, perhaps backwards; returns the step of the next axis. */
static int64_t place_axis(harness *h, int64_t *stride, int64_t extent, int64_t step, double p_backwards)
{
    *stride = extent == 1 ? 0 : rng_chance(&h->random, p_backwards) ? -step : step;
    return extent == 0 ? step : step * extent;
}

static array *place(harness *h, const char *name, attn_dtype dtype, int64_t positions, int64_t heads, int64_t columns, bool plain)
{
    if (h->n_arrays == MAX_ARRAYS)
        abort();
    rng *r = &h->random;
    array *a = &h->arrays[h->n_arrays++];
    *a = (array){ .name = name, .rows.dtype = dtype, .positions = positions, .heads = heads, .columns = columns };
    const double p = plain ? 0 : 0.1;
    int64_t step = place_axis(h, &a->rows.column, columns, rng_chance(r, p) ? rng_int(r, 2, 3) : 1, p);
    step += plain || rng_chance(r, 0.5) ? 0 : rng_int(r, 1, 5);
    if (plain || rng_chance(r, 0.5)) {
        step = place_axis(h, &a->rows.head, heads, step, p);
        place_axis(h, &a->rows.position, positions, step, p);
    } else {
        step = place_axis(h, &a->rows.position, positions, step, p);
        place_axis(h, &a->rows.head, heads, step, p);
    }
    int64_t before = 0, size = 0;
    if (positions && heads && columns) {
        const int64_t reach[] = { (positions - 1) * a->rows.position, (heads - 1) * a->rows.head, (columns - 1) * a->rows.column };
        size = 1;
        for (int i = 0; i < 3; i++) {
            before -= reach[i] < 0 ? reach[i] : 0;
            size += llabs(reach[i]);
        }
    }
    const size_t bytes = attn_dtype_size(dtype);
    a->memory = guarded_new((size_t)size * bytes, h->side);
    a->rows.data = a->memory.data + (size_t)before * bytes;
    return a;
}

array *new_array(harness *h, const char *name, attn_dtype dtype, int64_t positions, int64_t heads, int64_t columns)
{
    return place(h, name, dtype, positions, heads, columns, rng_chance(&h->random, 0.4));
}

array *new_plain_array(harness *h, const char *name, attn_dtype dtype, int64_t positions, int64_t heads, int64_t columns)
{
    return place(h, name, dtype, positions, heads, columns, true);
}

attn_tensor tensor_of_array(const array *a)
{
    return (attn_tensor){ .data = a->rows.data, .dtype = a->rows.dtype, .ndim = 4, .shape = { 1, a->heads, a->positions, a->columns },
                          .stride = { 0, a->rows.head, a->rows.position, a->rows.column } };
}

/* Is every byte of an output that is no element still a canary? */
static bool gaps_intact(const array *a)
{
    const size_t size = attn_dtype_size(a->rows.dtype);
    unsigned char *copy = malloc(a->memory.size + 1);
    if (!copy)
        abort();
    memcpy(copy, a->memory.data, a->memory.size);
    for (int64_t p = 0; p < a->positions; p++)
        for (int64_t h = 0; h < a->heads; h++)
            for (int64_t c = 0; c < a->columns; c++)
                memset(copy + ((unsigned char *)a->rows.data - a->memory.data) + offset_of(a, p, h, c) * (int64_t)size, CANARY, size);
    bool intact = true;
    for (size_t i = 0; i < a->memory.size; i++)
        intact = intact && copy[i] == CANARY;
    free(copy);
    return intact;
}

void keep_inputs(harness *h)
{
    for (int i = 0; i < h->n_arrays; i++) {
        array *a = &h->arrays[i];
        if (!a->is_output && !a->before) {
            a->before = pool_get(&h->memory, a->memory.size);
            memcpy(a->before, a->memory.data, a->memory.size);
        }
    }
}

void check_arrays(harness *h)
{
    for (int i = 0; i < h->n_arrays; i++) {
        const array *a = &h->arrays[i];
        if (!guarded_intact(&a->memory))
            complain(h, "wrote past an end of %s", a->name);
        if (a->is_output && !gaps_intact(a))
            complain(h, "wrote between the rows of %s", a->name);
        if (!a->is_output && memcmp(a->before, a->memory.data, a->memory.size) != 0)
            complain(h, "wrote into the input %s", a->name);
    }
}
