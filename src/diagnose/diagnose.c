/* SPDX-License-Identifier: Apache-2.0 */
/* The call: reads, compares, searches, reports. */
#include "diagnose.h"
#include "evidence.h"
#include "probe.h"
#include "search.h"
#include "usual.h"

#include <attn_ref.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NEAREST = 5, FAR_ROWS = 64 };
static const double default_work = 6e6, equality_may_take = 160; /* in units of work */

/* ------------------------------------------------------------------ shapes ---- */

/* A way to read OUT. */
typedef struct reading {
    const char *id; /* of the mistake that the shape alone shows, or NULL */
    attn_tensor t;  /* in the axes of the right answer, or (..,H,L,d_v) where heads are not joined */
    bool joins_heads;
} reading;

static bool same_shape(const attn_tensor *t, int32_t ndim, const int64_t *shape)
{
    return t->ndim == ndim && memcmp(t->shape, shape, (size_t)ndim * sizeof *shape) == 0;
}

static attn_tensor exchanged(attn_tensor t, int a, int b)
{
    const int64_t shape = t.shape[a], stride = t.stride[a];
    t.shape[a] = t.shape[b];
    t.stride[a] = t.stride[b];
    t.shape[b] = shape;
    t.stride[b] = stride;
    return t;
}

/* The last axis cut into heads: (..,L,H*d) as (..,L,H,d). */
static attn_tensor cut(attn_tensor t, int64_t heads)
{
    const int32_t last = t.ndim - 1;
    t.shape[last + 1] = t.shape[last] / heads;
    t.stride[last + 1] = t.stride[last];
    t.shape[last] = heads;
    t.stride[last] *= t.shape[last + 1];
    t.ndim++;
    return t;
}

/* Reads the shape of OUT. false: it is none that is known. */
static bool read_shape(const problem *p, const diagnose_input *in, reading *r)
{
    int64_t right[4];
    const int32_t n = problem_shape(p, in, right);
    const attn_tensor *t = in->got;
    *r = (reading){.t = *t};
    if (same_shape(t, n, right))
        return true;
    if (p->mha) {
        const int64_t apart[] = {p->B, p->H, p->Lq, p->d_v};
        r->id = ID_HEADS_NOT_JOINED;
        r->joins_heads = true;
        return p->H * p->d_v == p->out && same_shape(t, n + 1, apart + 3 - n);
    }
    if (n >= 3 && !p->packed && t->ndim == n - 1 && t->shape[n - 2] == p->H * p->d_v && t->shape[n - 3] == p->Lq && p->H > 0) {
        r->id = ID_HEADS_JOINED;
        r->t = exchanged(cut(*t, p->H), n - 3, n - 2);
        return same_shape(&r->t, n, right);
    }
    if (t->ndim != n || p->packed)
        return false;
    r->id = ID_NOT_TRANSPOSED;
    if (n >= 3) {
        r->t = exchanged(*t, n - 3, n - 2);
        if (same_shape(&r->t, n, right))
            return true;
    }
    r->id = ID_TRANSPOSED;
    r->t = exchanged(*t, n - 2, n - 1);
    return same_shape(&r->t, n, right);
}

static void shape_text(char *out, size_t size, int32_t ndim, const int64_t *shape)
{
    size_t at = (size_t)snprintf(out, size, "(");
    for (int32_t i = 0; i < ndim && at < size; i++)
        at += (size_t)snprintf(out + at, size - at, "%s%lld", i ? "," : "", (long long)shape[i]);
    if (at < size)
        snprintf(out + at, size - at, ")");
}

static diagnose_status refuse(char *why, size_t size, const char *what, const attn_tensor *t, int32_t ndim, const int64_t *right)
{
    char given[128], wanted[128];
    shape_text(given, sizeof given, t->ndim, t->shape);
    shape_text(wanted, sizeof wanted, ndim, right);
    snprintf(why, size, "%s is %s, and with these inputs it is %s; give the array that was computed from them", what, given, wanted);
    return DIAGNOSE_BAD_SHAPE;
}

/* ------------------------------------------------------------------ reading ---- */

/* OUT as [rows][width]. */
static double *read_got(const problem *p, arena *m, const reading *r)
{
    double *got = arena_zeroed(m, p->rows * p->width, sizeof *got);
    for (int64_t row = 0; got && row < p->rows; row++)
        for (int64_t c = 0; c < p->width; c++) {
            const int64_t b = p->mha ? row / p->Lq : row / (p->H * p->Lq), h = row / p->Lq % p->H, i = row % p->Lq;
            got[row * p->width + c] = r->joins_heads ? ref_element(&r->t, b, c / p->d_v, i, c % p->d_v)
                                      : p->mha       ? ref_element(&r->t, 0, b, i, c)
                                      : p->packed    ? ref_element(&r->t, 0, i, h, c)
                                                     : ref_element(&r->t, b, h, i, c);
        }
    return got;
}

static diagnose_status read_weights(problem *p, arena *m, const diagnose_input *in, char *why, size_t size)
{
    const attn_tensor *t = in->got_weights;
    const int64_t shape[] = {p->B, p->H, p->Lq, p->Lk};
    const int32_t n = p->mha ? in->x->ndim + 1 : in->q->ndim;
    if (!t)
        return DIAGNOSE_OK;
    if (!same_shape(t, n, shape + 4 - n))
        return refuse(why, size, "--got-weights", t, n, shape + 4 - n);
    double *all = arena_zeroed(m, p->B * p->H * p->Lq * p->Lk, sizeof *all), *next = all;
    for (int64_t b = 0; all && b < p->B; b++)
        for (int64_t h = 0; h < p->H; h++)
            for (int64_t i = 0; i < p->Lq; i++)
                for (int64_t j = 0; j < p->Lk; j++)
                    *next++ = ref_element(t, b, h, i, j);
    p->got_weights = all;
    return all ? DIAGNOSE_OK : DIAGNOSE_NO_MEMORY;
}

/* ----------------------------------------------------------------- the rows ---- */

/* `count` of the rows: all, or spread evenly, the first and the last among them. */
static int64_t *choose_rows(arena *m, int64_t rows, int64_t count)
{
    int64_t *chosen = arena_zeroed(m, count, sizeof *chosen);
    for (int64_t n = 0; chosen && n < count; n++)
        chosen[n] = count < 2 ? 0 : (int64_t)((double)n * (double)(rows - 1) / (double)(count - 1) + 0.5);
    return chosen;
}

static int by_number(const void *x, const void *y)
{
    const int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;
    return a < b ? -1 : a > b;
}

static int64_t without_repeats(int64_t *list, int64_t count)
{
    int64_t kept = 0;
    qsort(list, (size_t)count, sizeof *list, by_number);
    for (int64_t n = 0; n < count; n++)
        if (n == 0 || list[n] != list[kept - 1])
            list[kept++] = list[n];
    return kept;
}

/* Half of the rows spread evenly, half from those that differ. */
static int64_t *mix_rows(arena *m, int64_t rows, const int64_t *bad, int64_t bad_count, int64_t *count)
{
    const int64_t half = *count / 2 < bad_count ? *count / 2 : bad_count;
    int64_t *chosen = choose_rows(m, rows, *count), *from_bad = choose_rows(m, bad_count, half);
    if (!chosen || !from_bad)
        return NULL;
    for (int64_t n = 0; n < half; n++)
        chosen[2 * n + 1 < *count ? 2 * n + 1 : n] = bad[from_bad[n]];
    *count = without_repeats(chosen, *count);
    return chosen;
}

typedef struct far_row {
    double off;
    int64_t row;
} far_row;

static int by_distance(const void *x, const void *y)
{
    const double a = ((const far_row *)x)->off, b = ((const far_row *)y)->off;
    return a > b ? -1 : a < b;
}

/* Adds to a list of rows, which has room, the `most` whose numbers are furthest from the computed ones. false: memory ran out. */
static bool add_far_rows(const problem *p, arena *m, const attn_tensor *computed, int64_t *rows, int64_t *count, int64_t most)
{
    const double *own = read_got(p, m, &(reading){.t = *computed});
    far_row *far = arena_zeroed(m, p->rows, sizeof *far);
    if (!own || !far)
        return false;
    for (int64_t n = 0; n < p->rows; n++) {
        far[n].row = n;
        for (int64_t at = n * p->width; at < (n + 1) * p->width; at++) {
            const double off = fabs(p->got[at] - own[at]);
            const bool alike = p->got[at] == own[at] || (isnan(p->got[at]) && isnan(own[at]));
            far[n].off = alike ? far[n].off : fmax(far[n].off, isnan(off) ? (double)INFINITY : off);
        }
    }
    qsort(far, (size_t)p->rows, sizeof *far, by_distance);
    for (int64_t n = 0; n < most && n < p->rows; n++)
        rows[(*count)++] = far[n].row;
    *count = without_repeats(rows, *count);
    return true;
}

/* ----------------------------------------------------------------- equality ---- */

/* The place of cell c of a row in the axes of OUT as it was given. */
static void place_of(const diagnose_report *r, const problem *p, const reading *shape, int64_t row, int64_t c, int64_t out[4])
{
    const int64_t b = p->mha ? row / p->Lq : row / (p->H * p->Lq), h = row / p->Lq % p->H, i = row % p->Lq;
    const int64_t full[4] = {b, h, i, c}, joined[4] = {0, b, i, c}, apart[4] = {b, c / p->d_v, i, c % p->d_v}, tokens[4] = {0, i, h, c},
                  turned[4] = {b, i, h, c}, flat[4] = {0, b, i, h * p->d_v + c}, last[4] = {b, h, c, i};
    const int64_t *place = shape->joins_heads                        ? apart
                           : p->mha                                  ? joined
                           : p->packed                               ? tokens
                           : !shape->id                              ? p->blhd ? turned : full
                           : strcmp(shape->id, ID_HEADS_JOINED) == 0 ? flat
                           : strcmp(shape->id, ID_TRANSPOSED) == 0   ? last
                           : p->blhd                                 ? full
                                                                     : turned;
    memcpy(out, place + 4 - r->rank, (size_t)r->rank * sizeof *out);
}

/* Notes where a cell that differs lies. */
static void note_place(diagnose_report *r, const problem *p, int64_t at, int64_t c)
{
    const int64_t place[4] = {p->mha ? at / p->Lq : at / (p->H * p->Lq), p->mha ? 0 : at / p->Lq % p->H, at % p->Lq, c};
    for (int axis = 0; axis < 4; axis++) {
        r->from[axis] = r->differing == 0 || place[axis] < r->from[axis] ? place[axis] : r->from[axis];
        r->to[axis] = r->differing == 0 || place[axis] > r->to[axis] ? place[axis] : r->to[axis];
    }
}

/* Compares the rows, and lists those that differ in bad. */
static int64_t compare_right(diagnose_report *r, search *s, const reading *shape, const int64_t *rows, int64_t count, int64_t *bad)
{
    const problem *p = s->p;
    const variation right = {.keys = KEYS_RIGHT};
    int64_t bad_count = 0;
    const int64_t extent[4] = {p->B, p->mha ? 1 : p->H, p->Lq, p->width};
    memcpy(r->extent, extent, sizeof extent);
    r->rank = shape->t.ndim - (shape->id && strcmp(shape->id, ID_HEADS_JOINED) == 0);
    evaluator_set(&s->e, &right);
    for (int64_t n = 0; n < count; n++) {
        bool differs = false;
        evaluator_deliver(&s->e, rows[n]);
        for (int64_t c = 0; c < p->width; c++) {
            double abs;
            const double got = p->got[rows[n] * p->width + c], want = s->e.out[c];
            const double share = share_of(p, got, want, s->e.out_limit[c], want, &abs);
            const double beside = p->a.slack * s->e.out_limit[c];
            if (r->cells++ == 0 || share > r->max_bounds)
                place_of(r, p, shape, rows[n], c, r->worst);
            r->unjudged += isfinite(want) && is_not_promised(p, s->e.out_limit[c]);
            r->max_abs = fmax(r->max_abs, abs);
            r->max_bounds = fmax(r->max_bounds, share);
            r->atol = p->given || !isfinite(beside) ? r->atol : fmax(r->atol, beside);
            if (share > 1)
                note_place(r, p, rows[n], c);
            if (share > 1 && r->differing++ == 0) {
                place_of(r, p, shape, rows[n], c, r->first);
                r->first_got = got;
                r->first_right = want;
            }
            differs = differs || share > 1;
        }
        if (differs)
            bad[bad_count++] = rows[n];
    }
    r->weights_max_bounds = s->e.weights_bounds;
    return bad_count;
}

/* ------------------------------------------------------------------- report ---- */

static void add_candidate(diagnose_report *r, const finding *f, const char *shape_id)
{
    diagnose_candidate *c = &r->candidate[r->candidates++];
    *c = (diagnose_candidate){.matches = f->matches, .is_dialect = f->dialect, .max_abs = f->j.max_abs, .max_bounds = f->j.max_bounds};
    if (shape_id)
        c->part[c->parts++] = words_of(shape_id);
    for (int i = 0; i < f->parts; i++)
        c->part[c->parts++] = words_of(f->part[i]->id);
    if (f->dialect)
        c->part[c->parts++] = words_of(f->dialect);
    r->matching += f->matches;
}

static bool fill_candidates(diagnose_report *r, const search *s, const char *shape_id)
{
    int near = 0, mistakes = 0;
    r->candidate = calloc((size_t)s->findings + 1, sizeof *r->candidate);
    if (!r->candidate)
        return false;
    if (shape_id && s->right_is.max_bounds <= 1) {
        const finding shape = {.j = s->right_is, .matches = true};
        add_candidate(r, &shape, shape_id);
        mistakes++;
    }
    for (int i = 0; i < s->findings; i++) {
        const finding *f = &s->found[i];
        if (f->matches || near < NEAREST)
            add_candidate(r, f, shape_id);
        near += !f->matches;
        mistakes += f->matches && !f->dialect;
    }
    r->tried = s->tried;
    r->left_out = s->left_out;
    r->dropout_untold = !s->weights_known;
    r->verdict = r->matching == 0                                       ? DIAGNOSE_UNKNOWN
                 : mistakes == 1 || (mistakes == 0 && r->matching == 1) ? DIAGNOSE_NAMED
                                                                        : DIAGNOSE_TIED;
    return true;
}

/* What would tell the mistakes that match apart; the rules of systems only where there is nothing else. */
static void find_apart(diagnose_report *r, const search *s)
{
    enum { MOST = 12 };
    const variation *v[MOST];
    int count = 0;
    const bool only_dialects = s->findings > 0 && s->found[0].dialect;
    for (int i = 0; i < s->findings && count < MOST; i++)
        if (s->found[i].matches && (s->found[i].dialect != NULL) == only_dialects)
            v[count++] = &s->found[i].v;
    if (count > 1)
        r->tells_all = probe_apart(r->tell_apart, s->p, s->m, v, count);
}

/* The rows along Lq that were compared. */
static bool fill_sampled(diagnose_report *r, const search *s)
{
    r->sampled = calloc((size_t)s->count + 1, sizeof *r->sampled);
    if (!r->sampled)
        return false;
    for (int64_t n = 0; n < s->count; n++)
        r->sampled[n] = s->rows[n] % s->p->Lq;
    r->sampled_rows = without_repeats(r->sampled, s->count);
    r->of_rows = s->p->Lq;
    r->sampled_all = s->count;
    return true;
}

/* -------------------------------------------------------------------- the call ---- */

static bool search_mistakes(diagnose_report *r, search *s, problem *p, const reading *shape, const int64_t *bad, int64_t bad_count)
{
    const variation right = {.keys = KEYS_RIGHT};
    const double fit = s->work / fmax(1, evaluator_row_cost(p, &right));
    int64_t count = fit >= (double)p->rows ? p->rows : fit < 16 ? 16 : (int64_t)fit;
    count = count < p->rows ? count : p->rows;
    const int64_t *rows = count == p->rows ? choose_rows(s->m, p->rows, count) : mix_rows(s->m, p->rows, bad, bad_count, &count);
    s->rows = rows;
    s->count = count;
    s->order = arena_zeroed(s->m, count, sizeof *s->order);
    s->right = arena_zeroed(s->m, count * p->width, sizeof *s->right);
    s->right_bound = arena_zeroed(s->m, count * p->width, sizeof *s->right_bound);
    if (s->m->failed)
        return false;
    search_right(s);
    s->weights_known = find_dropped_weights(p, &s->e);
    if (!shape->id || s->right_is.max_bounds > 1)
        search_all(s);
    if (s->m->failed || !fill_candidates(r, s, shape->id))
        return false;
    if (r->verdict == DIAGNOSE_TIED)
        find_apart(r, s);
    return !s->m->failed && (count == p->rows || fill_sampled(r, s));
}

/* The bounds hold for every order of every sum; at great widths they are far from what happens. */
static void find_sharpness(diagnose_report *r, evaluator *e)
{
    enum { SOME_ROWS = 64 };
    const variation right = {.keys = KEYS_RIGHT};
    const int64_t count = e->p->rows < SOME_ROWS ? e->p->rows : SOME_ROWS, *rows = choose_rows(e->m, e->p->rows, count);
    const usual_error usual = rows ? usual_error_of(e, &right, rows, count) : usual_unknown;
    e->sharp = fmin(1, times_usual_allowed * usual.share);
    r->usual_abs = usual.abs;
    r->sharpness = e->sharp;
}

static diagnose_status run(diagnose_report *r, problem *p, arena *m, const diagnose_input *in, const reading *shape)
{
    search s = {.p = p, .m = m, .work = in->work > 0 ? in->work : default_work};
    const variation right = {.keys = KEYS_RIGHT};
    if (!evaluator_open(&s.e, p, m))
        return DIAGNOSE_NO_MEMORY;
    const double fit = equality_may_take * s.work / fmax(1, evaluator_row_cost(p, &right));
    int64_t count = fit < 64 ? 64 : fit > (double)p->rows ? p->rows : (int64_t)fit;
    count = count < p->rows ? count : p->rows;
    int64_t *rows = arena_zeroed(m, count + FAR_ROWS, sizeof *rows);
    const int64_t *spread = choose_rows(m, p->rows, count);
    if (!rows || !spread)
        return DIAGNOSE_NO_MEMORY;
    memcpy(rows, spread, (size_t)count * sizeof *rows);
    if (count < p->rows && in->computed && !add_far_rows(p, m, in->computed, rows, &count, FAR_ROWS))
        return DIAGNOSE_NO_MEMORY;
    int64_t *bad = arena_zeroed(m, count, sizeof *bad);
    if (!bad)
        return DIAGNOSE_NO_MEMORY;
    find_sharpness(r, &s.e);
    r->compared = count;
    r->of_all = p->rows;
    r->sampled_equality = count < p->rows;
    const int64_t bad_count = compare_right(r, &s, shape, rows, count, bad);
    const bool equal = r->differing == 0 && r->weights_max_bounds <= 1 && !shape->id;
    s.rows = rows;
    s.count = count;
    if (equal && r->cells > 0 && r->unjudged == r->cells)
        r->verdict = DIAGNOSE_UNJUDGED;
    if (equal)
        return r->sampled_equality && !fill_sampled(r, &s) ? DIAGNOSE_NO_MEMORY : DIAGNOSE_OK;
    return search_mistakes(r, &s, p, shape, bad, bad_count) ? DIAGNOSE_OK : DIAGNOSE_NO_MEMORY;
}

diagnose_status diagnose_run(diagnose_report **out, const diagnose_input *in, char *why, size_t why_size)
{
    problem p;
    arena m = {0};
    reading shape;
    int64_t right[4];
    diagnose_report *r = calloc(1, sizeof *r);
    diagnose_status status = r && problem_read(&p, &m, in) ? DIAGNOSE_OK : DIAGNOSE_NO_MEMORY;
    *out = NULL;
    if (status == DIAGNOSE_OK && !read_shape(&p, in, &shape)) {
        const int32_t n = problem_shape(&p, in, right);
        status = refuse(why, why_size, "--got", in->got, n, right);
    }
    if (status == DIAGNOSE_OK)
        status = read_weights(&p, &m, in, why, why_size);
    if (status == DIAGNOSE_OK) {
        problem_settle(&p, in, in->got->dtype);
        p.got = read_got(&p, &m, &shape);
        r->dtype = p.dtype;
        r->rtol = p.given ? p.rtol : roundoff_of(p.dtype);
        r->atol = p.given ? p.atol : 0;
        if (p.got)
            problem_count_decimals(&p);
        status = p.got ? run(r, &p, &m, in, &shape) : DIAGNOSE_NO_MEMORY;
    }
    arena_free(&m);
    if (status != DIAGNOSE_OK) {
        diagnose_free(r);
        r = NULL;
    }
    *out = r;
    return status;
}

void diagnose_free(diagnose_report *r)
{
    if (!r)
        return;
    free(r->candidate);
    free(r->sampled);
    free(r);
}
