/* SPDX-License-Identifier: Apache-2.0 */
/* RoPE as a variation has it; the right one is that of ref/model_ref.c to the bit. */
#include "evaluator.h"

#include <math.h>
#include <model_ref.h>
#include <string.h>

/* One of q, k, v, [B][heads][L][d], and the bounds of its errors. */
typedef struct turned {
    int which; /* 0 q, 1 k, 2 v */
    double *x, *error;
    int64_t heads, L, d;
} turned;

/* ---------------------------------------------------------------- angles ---- */

static double theta_of(const evaluator *e)
{
    switch (e->v.in.rope) {
    case ROPE_THETA_1E4:
        return 1e4;
    case ROPE_THETA_5E5:
        return 5e5;
    case ROPE_THETA_1E6:
        return 1e6;
    default:
        return e->p->rope->theta;
    }
}

/* Where row i of item b stands in the array of keys. */
static int64_t place_of(const problem *p, const turned *t, int64_t b, int64_t i)
{
    if (t->which != 0)
        return i;
    if (p->o.align == ATTN_ALIGN_BOTTOM_RIGHT)
        return i + p->Lk - p->Lq;
    return i + (p->o.flags & ATTN_OFFSET ? p->o.offset : integer_or(p->o.offsets, b, 0));
}

static int64_t position_of(const evaluator *e, const turned *t, int64_t b, int64_t i)
{
    const problem *p = e->p;
    const bool row = t->which == 0;
    const int64_t right = row ? p->rope->rows[b * t->L + i] : p->rope->keys[b * t->L + i];
    switch (e->v.in.rope_places) {
    case PLACES_ROWS_MORE:
        return right + row;
    case PLACES_ROWS_LESS:
        return right - row;
    case PLACES_ROWS_FROM_ZERO:
        return row ? i : right;
    case PLACES_COUNT_PADS:
        return place_of(p, t, b, i);
    case PLACES_COUNT_PADS_ROWS:
        return row ? place_of(p, t, b, i) : right;
    case PLACES_COUNT_PADS_KEYS:
        return row ? right : i;
    default:
        return right;
    }
}

static void fill_table(evaluator *e, const turned *t, turn_table *table)
{
    const int64_t half = table->width / 2;
    const attn_rope_desc desc = {.head_dim = table->width, .rotary_dim = table->width, .theta = table->theta, .factor = 1};
    for (int64_t p = 0; p < half; p++) {
        const double frequency = ref_rope_frequency(&desc, p);
        for (int64_t n = 0; n < e->p->B * t->L; n++) {
            const int64_t at = position_of(e, t, n / t->L, n % t->L);
            const long double angle = table->rounded ? (long double)((float)at * (float)frequency) : (long double)at * frequency;
            table->cos[n * half + p] = cosl(angle);
            table->sin[n * half + p] = sinl(angle);
            table->angle[n * half + p] = (double)fabsl(angle);
        }
    }
    e->work += 30 * (double)(e->p->B * t->L * half);
}

/* The table for columns that turn together; NULL when memory ran out. Most mistakes leave the angles alone: the right ones stay. */
static const turn_table *table_of(evaluator *e, const turned *t, int64_t width)
{
    const input_variation *v = &e->v.in;
    const bool rounded = v->precision == PRECISION_F32, other = v->rope_places || v->rope >= ROPE_THETA_1E4 || rounded;
    turn_table *table = &e->table[other][t->which];
    const int64_t *at = t->which == 0 ? e->p->rope->rows : e->p->rope->keys;
    if (table->at == at && table->places == v->rope_places && table->rounded == rounded && table->width == width &&
        table->theta == theta_of(e))
        return table;
    const int64_t cells = e->p->B * t->L * (width / 2);
    if (!table->at || table->width < width) {
        table->cos = arena_zeroed(e->m, cells, sizeof *table->cos);
        table->sin = arena_zeroed(e->m, cells, sizeof *table->sin);
        table->angle = arena_zeroed(e->m, cells, sizeof *table->angle);
    }
    if (!table->cos || !table->sin || !table->angle)
        return NULL;
    table->at = at;
    table->places = v->rope_places;
    table->rounded = rounded;
    table->width = width;
    table->theta = theta_of(e);
    fill_table(e, t, table);
    return table;
}

/* --------------------------------------------------------------- turning ---- */

/* Two numbers at an angle. Others add up a position and round it before they take its cosine: the angle is off by its own size. */
static void turn_pair(const evaluator *e, const turn_table *table, int64_t at, double *a, double *b, double *da, double *db)
{
    const long double c = table->cos[at], s = e->v.in.rope == ROPE_BACKWARDS ? -table->sin[at] : table->sin[at];
    const long double x = *a, y = *b;
    const double size = fabs(*a) + fabs(*b), moved = *da + *db, u = e->a.u;
    const double off = e->a.slack * (moved + (4 + 2 * table->angle[at]) * u * (size + moved)) + 2 * e->a.tiny;
    *a = (double)(x * c - y * s);
    *b = (double)(y * c + x * s);
    *da = *db = off;
}

/* Column j of a row of all heads is column j % d of head j / d; `heads` of them turn together. */
static void turn_columns(evaluator *e, const turned *t, const turn_table *table, int64_t row, int64_t first, int64_t heads)
{
    const int64_t half = heads * t->d / 2, b = row / t->L, i = row % t->L;
    const bool interleaved = e->p->rope->interleaved != (e->v.in.rope == ROPE_OTHER_PAIRS);
    for (int64_t p = 0; p < half; p++) {
        const int64_t column[2] = {interleaved ? 2 * p : p, interleaved ? 2 * p + 1 : p + half};
        int64_t at[2];
        for (int k = 0; k < 2; k++)
            at[k] = ((b * t->heads + first + column[k] / t->d) * t->L + i) * t->d + column[k] % t->d;
        turn_pair(e, table, row * half + p, &t->x[at[0]], &t->x[at[1]], &t->error[at[0]], &t->error[at[1]]);
    }
}

static void turn(evaluator *e, const turned *t)
{
    const int64_t together = e->v.in.rope == ROPE_BEFORE_SPLIT ? t->heads : 1;
    const turn_table *table = table_of(e, t, together * t->d);
    for (int64_t row = 0; table && row < e->p->B * t->L; row++)
        for (int64_t h = 0; h < t->heads; h += together)
            turn_columns(e, t, table, row, h, together);
    e->work += 4 * (double)(e->p->B * t->heads * t->L * t->d);
}

void heads_turn(evaluator *e)
{
    const problem *p = e->p;
    const int64_t heads[] = {p->H, p->Hkv, p->Hkv}, rows[] = {p->Lq, p->Lk, p->Lk}, widths[] = {p->d, p->d, p->d_v};
    const uint8_t rope = e->v.in.rope;
    const bool turns[] = {rope != ROPE_NONE && rope != ROPE_NOT_Q, rope != ROPE_NONE && rope != ROPE_NOT_K, rope == ROPE_ON_V};
    for (int i = 0; i < 3; i++) {
        const turned t = {i, e->own[i], e->own[3 + i], heads[i], rows[i], widths[i]};
        if (!p->mha) /* exact until now */
            memset(t.error, 0, (size_t)(p->B * t.heads * t.L * t.d) * sizeof *t.error);
        if (turns[i])
            turn(e, &t);
    }
}
