/* SPDX-License-Identifier: Apache-2.0 */
#include "evidence.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_KEYS = 256 }; /* of a head whose weights are solved for */
static const double most_cells = 1 << 24;

/* ---------------------------------------------------------------- solving ---- */

/* G = V V^T as L L^T, [n][n], in place. false: V has no full row rank, or nearly none. */
static bool factorise(double *G, const double *V, int64_t n, int64_t d)
{
    double greatest = 0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j <= i; j++) {
            double sum = 0;
            for (int64_t c = 0; c < d; c++)
                sum += V[i * d + c] * V[j * d + c];
            G[i * n + j] = sum;
            greatest = i == j ? fmax(greatest, sum) : greatest;
        }
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j <= i; j++) {
            for (int64_t k = 0; k < j; k++)
                G[i * n + j] -= G[i * n + k] * G[j * n + k];
            if (i == j && !(G[i * n + i] > 1e-9 * greatest))
                return false;
            G[i * n + j] = i == j ? sqrt(G[i * n + i]) : G[i * n + j] / G[j * n + j];
        }
    return true;
}

/* w with w V = out, of the least length. */
static void solve(double *w, const double *L, const double *V, const double *out, int64_t n, int64_t d)
{
    for (int64_t i = 0; i < n; i++) {
        w[i] = 0;
        for (int64_t c = 0; c < d; c++)
            w[i] += V[i * d + c] * out[c];
        for (int64_t k = 0; k < i; k++)
            w[i] -= L[i * n + k] * w[k];
        w[i] /= L[i * n + i];
    }
    for (int64_t i = n - 1; i >= 0; i--) {
        for (int64_t k = i + 1; k < n; k++)
            w[i] -= L[k * n + i] * w[k];
        w[i] /= L[i * n + i];
    }
}

/* The weights of OUT, [B,H,Lq,Lk], or NULL where they cannot be had. */
static const double *solved_weights(const problem *p, arena *m)
{
    double *all = arena_zeroed(m, p->B * p->H * p->Lq * p->Lk, sizeof *all), *L = arena_zeroed(m, p->Lk * p->Lk, sizeof *L);
    for (int64_t b = 0; all && L && b < p->B; b++)
        for (int64_t h = 0; h < p->H; h++) {
            const double *V = p->v + (b * p->Hkv + h / (p->H / p->Hkv)) * p->Lk * p->d_v;
            if (!factorise(L, V, p->Lk, p->d_v))
                return NULL;
            for (int64_t i = 0; i < p->Lq; i++) {
                const int64_t row = (b * p->H + h) * p->Lq + i;
                solve(all + row * p->Lk, L, V, p->got + row * p->d_v, p->Lk, p->d_v);
            }
        }
    return all && L ? all : NULL;
}

/* --------------------------------------------------------------- evidence ---- */

static int by_size(const void *x, const void *y)
{
    const double a = *(const double *)x, b = *(const double *)y;
    return a < b ? -1 : a > b;
}

/* What the evidence is gathered in. */
typedef struct gathering {
    uint8_t *kept;
    double *ratio; /* of the kept weights to the right ones */
    int64_t ratios, dropped;
} gathering;

/* One row: a weight that is 0 (below `nothing` of its right value) was dropped. */
static void gather_row(gathering *g, const evaluator *e, int64_t row, const double *weights, double nothing)
{
    for (int64_t j = 0; j < e->Lk; j++) {
        const double right = e->row.weights[j], w = weights[j];
        const bool tells = right > 1e-4, dropped = tells && fabs(w) <= nothing * right;
        g->kept[row * e->Lk + j] = !(dropped || (!tells && w == 0));
        g->dropped += dropped;
        if (tells && !dropped)
            g->ratio[g->ratios++] = w / right;
    }
}

bool find_dropped_weights(problem *p, evaluator *e)
{
    const int64_t rows = p->B * p->H * p->Lq;
    const bool solvable = !p->mha && !p->packed && p->d_v >= p->Lk && p->Lk <= MOST_KEYS && p->Lk > 0;
    variation before = {.keys = KEYS_RIGHT};
    if ((double)rows * (double)p->Lk > most_cells || (!p->got_weights && !solvable))
        return false;
    const double *weights = p->got_weights ? p->got_weights : solved_weights(p, e->m);
    gathering g = {.kept = arena_zeroed(e->m, rows * p->Lk, 1), .ratio = arena_zeroed(e->m, rows * p->Lk, sizeof(double))};
    if (!weights || !g.kept || !g.ratio)
        return false;
    before.no_dropout = 1;
    evaluator_set(e, &before);
    for (int64_t row = 0; row < rows; row++) {
        evaluator_row(e, row / (p->H * p->Lq), row / p->Lq % p->H, row % p->Lq);
        gather_row(&g, e, row, weights + row * p->Lk, p->got_weights ? 0 : 1e-2);
    }
    if (g.dropped == 0 || g.ratios == 0)
        return true;
    qsort(g.ratio, (size_t)g.ratios, sizeof *g.ratio, by_size);
    const double scaled = g.ratio[g.ratios / 2], share = (double)g.dropped / (double)(g.dropped + g.ratios);
    const bool shows = scaled > 1.01 && g.ratio[g.ratios / 4] > 0.99 * scaled && g.ratio[3 * g.ratios / 4] < 1.01 * scaled;
    p->seen_kept = g.kept;
    p->seen_p = p->o.dropout > 0 ? p->o.dropout : shows ? 1 - 1 / scaled : round(20 * share) / 20; /* rates are round numbers */
    p->seen_p = fmin(fmax(p->seen_p, 0), 0.95);
    p->facts |= FACT_SEEN_WEIGHTS;
    return true;
}
