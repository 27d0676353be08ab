/* SPDX-License-Identifier: Apache-2.0 */
#include "search.h"
#include "dialects.h"
#include "usual.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Rows that every mistake is judged by; one that lies within its bounds there is judged by all. */
enum { FIRST_ROWS = 64 };

/* ----------------------------------------------------------------- one cell ---- */

/* Numbers of this magnitude and above are infinite in the dtype of OUT. */
static double infinite_from(const problem *p) { return greatest_of(p->dtype) * (1 + roundoff_of(p->dtype) / 2); }

bool is_not_promised(const problem *p, double bound) { return !p->given && !(bound < (double)INFINITY); }

double share_of(const problem *p, double got, double want, double bound, double right, double *abs)
{
    *abs = 0;
    const bool any_kind = !isfinite(right) && !isfinite(want) && !isfinite(got);
    if (got == want || (isnan(got) && isnan(want)) || any_kind)
        return 0;
    const double limit = limit_of(p, want, bound), off = fabs(got - want), size = fabs(want), most = infinite_from(p);
    const bool finite = isfinite(want) && isfinite(got);
    if (isfinite(want) && is_not_promised(p, bound)) {
        *abs = finite && size < most ? off : 0;
        return finite && size >= most ? (double)INFINITY : 0;
    }
    if (isinf(got) && size + limit >= most && (got > 0) == (want > 0)) /* rounds to that infinity */
        return 0;
    *abs = finite && size - limit < most ? off : (double)INFINITY;
    return limit > 0 && isfinite(*abs) ? *abs / limit : (double)INFINITY;
}

/* Would this number be told from the right one? */
static bool differs(const problem *p, double right, double bound, double other)
{
    double abs;
    return share_of(p, round_to(p->dtype, other), right, bound, right, &abs) > 1;
}

/* ------------------------------------------------------------- one variation ---- */

static void judge_row(search *s, int64_t n, bool first, judgement *j)
{
    const problem *p = s->p;
    const double *got = p->got + s->rows[n] * p->width, *right = s->right + n * p->width, *bound = s->right_bound + n * p->width;
    evaluator_deliver(&s->e, s->rows[n]);
    for (int64_t c = 0; c < p->width; c++) {
        double abs;
        const double share = share_of(p, got[c], s->e.out[c], s->e.out_limit[c], right[c], &abs);
        j->max_bounds = fmax(j->max_bounds, share);
        j->max_abs = fmax(j->max_abs, abs);
        if (isfinite(abs)) {
            j->finite = fmax(j->finite, abs);
            const double last = 1.001 * roundoff_of(p->dtype) * fabs(s->e.out[c]); /* the rounding of OUT */
            j->beyond = abs > last && abs > limit_of(p, right[c], bound[c]) ? fmax(j->beyond, abs) : j->beyond;
        }
        j->square += first && isfinite(abs) ? abs * abs : 0;
        j->silent = j->silent || (isfinite(s->e.out[c]) && is_not_promised(p, s->e.out_limit[c]) &&
                                  share_of(p, got[c], right[c], bound[c], right[c], &abs) > 1);
        j->changes = j->changes || differs(p, right[c], bound[c], s->e.out[c]);
    }
    j->max_bounds = fmax(j->max_bounds, s->e.weights_bounds);
    j->max_abs = fmax(j->max_abs, s->e.weights_abs);
}

judgement search_judge(search *s, const variation *v, bool stop_early)
{
    judgement j = {.whole = true};
    evaluator_set(&s->e, v);
    s->e.weights_abs = s->e.weights_bounds = 0;
    for (int64_t n = 0; n < s->count && j.whole; n++) {
        judge_row(s, s->order[n], n < FIRST_ROWS, &j);
        j.whole = j.max_bounds <= 1 || n == s->count - 1 || (n + 1 < FIRST_ROWS && !stop_early);
    }
    if (s->p->got_weights && s->right_is.max_bounds > 1 && j.max_bounds <= 1)
        j.changes = true; /* at least the weights */
    return j;
}

void search_right(search *s)
{
    const problem *p = s->p;
    const variation right = {.keys = KEYS_RIGHT};
    double *worst = arena_zeroed(s->m, s->count, sizeof *worst), beyond = 0;
    if (!worst)
        return;
    evaluator_set(&s->e, &right);
    for (int64_t n = 0; n < s->count; n++) {
        evaluator_deliver(&s->e, s->rows[n]);
        memcpy(s->right + n * p->width, s->e.out, (size_t)p->width * sizeof(double));
        memcpy(s->right_bound + n * p->width, s->e.out_limit, (size_t)p->width * sizeof(double));
        for (int64_t c = 0; c < p->width; c++) {
            double abs;
            const double want = s->e.out[c];
            const double share = share_of(p, p->got[s->rows[n] * p->width + c], want, s->e.out_limit[c], want, &abs);
            worst[n] = fmax(worst[n], share);
            beyond = share > 1 && isfinite(abs) ? fmax(beyond, abs) : beyond;
        }
    }
    int64_t places = 0; /* the rows that differ most stand first; there may be many rows, so only the first few are sorted */
    for (int64_t n = 0; n < s->count; n++)
        s->order[n] = n;
    for (; places < s->count && places < 8; places++) {
        int64_t best = places;
        for (int64_t n = places; n < s->count; n++)
            best = worst[s->order[n]] > worst[s->order[best]] ? n : best;
        const int64_t first = s->order[best];
        s->order[best] = s->order[places];
        s->order[places] = first;
    }
    s->right_is = search_judge(s, &right, false);
    s->right_is.beyond = beyond;
}

/* ---------------------------------------------------------------- findings ---- */

static bool is_precision(const variation *v) { return v->in.precision || v->narrow; }

/* Its bound is wider than that of docs/numerics.md: what explains OUT without stands first. */
static bool is_wide(const variation *v) { return is_precision(v) || v->stored; }

/* A bound may be wider than the numbers themselves, so that being within it says little. What explains a difference leaves at most a
   hundredth of it beside what rounding makes; a computation in 16 bits, whose bound is wide, comes nearer than the same in full
   precision. */
static bool explains(const search *s, const judgement *j, const variation *v, double square_without)
{
    const bool nearer = is_precision(v) ? j->square <= 0.25 * square_without : is_wide(v) || j->beyond <= 0.01 * s->right_is.beyond;
    return j->whole && !j->silent && (j->changes || v->stored) && j->max_bounds <= 1 && nearer;
}

/* How many times its usual share of its bounds is a variation off that lies within them? 0: its bounds are wide for other reasons. */
static double times_usual(search *s, const judgement *j, const variation *v)
{
    const int64_t count = s->count < FIRST_ROWS ? s->count : FIRST_ROWS;
    int64_t *rows = arena_zeroed(s->m, count, sizeof *rows);
    for (int64_t n = 0; rows && n < count; n++)
        rows[n] = s->rows[s->order[n]];
    const usual_error usual = rows ? usual_error_of(&s->e, v, rows, count) : usual_unknown;
    return usual.abs > 0 ? j->max_bounds / usual.share : 0;
}

/* Sets matches. A bound of mha is wide at great widths: what lies within it must be near by its own rounding, too. */
static void settle(search *s, finding *f, double square_without)
{
    f->matches = explains(s, &f->j, &f->v, square_without);
    f->times_usual = f->matches ? times_usual(s, &f->j, &f->v) : 0;
    f->matches = f->matches && f->times_usual <= times_usual_allowed;
}

/* What matches, but is more than a hundred times as far off as the best, is not tied with it. */
static void leave_near_best(search *s)
{
    double best = (double)INFINITY;
    for (int i = 0; i < s->findings; i++)
        if (s->found[i].matches && !is_wide(&s->found[i].v))
            best = fmin(best, s->found[i].j.finite);
    for (int i = 0; i < s->findings; i++) {
        finding *f = &s->found[i];
        f->matches = f->matches && (f->j.beyond == 0 || f->j.finite <= 100 * best);
    }
}

/* What is much further off in parts of its own rounding than another is not tied with it. */
static void leave_usual(search *s)
{
    static const double much = 16;
    double best = (double)INFINITY;
    for (int i = 0; i < s->findings; i++)
        best = s->found[i].matches ? fmin(best, s->found[i].times_usual) : best;
    for (int i = 0; i < s->findings; i++)
        s->found[i].matches = s->found[i].matches && s->found[i].times_usual <= much * fmax(1, best);
}

static bool same_ids(const finding *a, const finding *b)
{
    if (a->parts != b->parts || a->dialect != b->dialect)
        return false;
    for (int i = 0; i < a->parts; i++)
        if (strcmp(a->part[i]->id, b->part[i]->id) != 0)
            return false;
    return true;
}

static bool better(const finding *a, const finding *b)
{
    if (a->matches != b->matches)
        return a->matches;
    const double x = a->matches ? a->j.max_bounds : a->j.max_abs, y = b->matches ? b->j.max_bounds : b->j.max_abs;
    return x < y - 1e-9 * fmin(x, y); /* the same computation in another way is no better */
}

/* Keeps the best of each id. */
static void add(search *s, const finding *f)
{
    for (int i = 0; i < s->findings; i++)
        if (same_ids(&s->found[i], f)) {
            if (better(f, &s->found[i])) {
                const int number = s->found[i].number;
                s->found[i] = *f;
                s->found[i].number = number;
            }
            return;
        }
    if (s->findings == s->room) {
        const int room = s->room ? 2 * s->room : 64;
        finding *more = arena_zeroed(s->m, room, sizeof *more);
        if (!more)
            return;
        if (s->findings)
            memcpy(more, s->found, (size_t)s->findings * sizeof *more);
        s->found = more;
        s->room = room;
    }
    s->found[s->findings] = *f;
    s->found[s->findings].number = s->findings;
    s->findings++;
}

static int matching(const search *s)
{
    int count = 0;
    for (int i = 0; i < s->findings; i++)
        count += s->found[i].matches && !s->found[i].dialect;
    return count;
}

/* ------------------------------------------------------------------- singles ---- */

static bool applies(const search *s, const mistake *m) { return (m->needs & ~s->p->facts) == 0 && variation_possible(s->p, &m->v); }

/* Needs so much before its first row that it is left out. */
static bool too_large(search *s, const variation *v)
{
    const bool groups = v->softmax == SOFTMAX_COLUMNS || v->softmax == SOFTMAX_ALL;
    const bool rounds = v->in.precision && !(v->in.full & FULL_OUTSIDE); /* every step of the projections, which takes ten times as long */
    return (groups || rounds) && evaluator_setup_cost(s->p, v) > 20 * s->work;
}

static void try_single(search *s, const mistake *m, double *square)
{
    finding f = {.part = {m}, .parts = 1, .v = m->v};
    *square = -1;
    if (!applies(s, m))
        return;
    if (too_large(s, &m->v)) {
        s->left_out++;
        return;
    }
    f.j = search_judge(s, &m->v, false);
    settle(s, &f, s->right_is.square);
    s->tried++;
    *square = f.j.square;
    if (f.matches || (f.j.changes && !is_wide(&m->v))) /* a wide bound is near everything */
        add(s, &f);
}

static void try_dialect(search *s, enum dialect d)
{
    finding f = {.dialect = dialect_id[d], .v = dialect_variation(d, s->p)};
    f.j = search_judge(s, &f.v, true);
    settle(s, &f, s->right_is.square);
    s->tried++;
    if (f.matches)
        add(s, &f);
}

/* --------------------------------------------------------------------- pairs ---- */

/* square_of_one: of the better one of the two alone. */
static void try_pair(search *s, const mistake *a, const mistake *b, double square_of_one)
{
    finding f = {.part = {a, b}, .parts = 2};
    if (strcmp(a->id, b->id) == 0 || !variation_join(&f.v, &a->v, &b->v) || !variation_possible(s->p, &f.v))
        return;
    f.j = search_judge(s, &f.v, true);
    settle(s, &f, square_of_one);
    s->tried++;
    if (f.matches)
        add(s, &f);
}

/* What a pair costs beside its rows: nothing, q, k and v made anew, or all rows of a head before the first. Pairs with a wide bound are
   tried for the mistakes that come nearest. */
enum cost { COST_ROWS, COST_HEADS, COST_GROUP, COST_WIDE, COSTS };
/* Each kind may take as much as so many mistakes alone. */
static const double pairs_may_take[COSTS] = {[COST_ROWS] = 100, [COST_HEADS] = 100, [COST_GROUP] = 50, [COST_WIDE] = 100};

static enum cost cost_of(const variation *v)
{
    const input_variation none = {.layout = LAYOUT_RIGHT};
    if (is_wide(v))
        return COST_WIDE;
    if (v->softmax == SOFTMAX_COLUMNS || v->softmax == SOFTMAX_ALL)
        return COST_GROUP;
    return memcmp(&v->in, &none, sizeof none) == 0 ? COST_ROWS : COST_HEADS;
}

/* Is it possible here, and was it tried alone? */
static bool was_tried(const double *square, int n) { return square[n] >= 0; }

/* Every two mistakes of that cost together. The later ones of the table, which change q, k and v, are in the outer loop: what they change
   is made once. */
static void try_pairs(search *s, const double *square, enum cost cost)
{
    const double before = s->e.work;
    for (int b = 1; b < mistake_count; b++)
        for (int a = 0; a < b; a++) {
            const enum cost of_a = cost_of(&mistake_table[a].v), of_b = cost_of(&mistake_table[b].v);
            if (!was_tried(square, a) || !was_tried(square, b) || (of_a > of_b ? of_a : of_b) != cost)
                continue;
            if (s->e.work - before > pairs_may_take[cost] * s->work)
                s->left_out++;
            else
                try_pair(s, &mistake_table[a], &mistake_table[b], 0);
        }
}

/* The mistake that comes nearest of those not taken yet, -1: none. */
static int next_nearest(const double *square, const bool *taken)
{
    int best = -1;
    for (int a = 0; a < mistake_count; a++)
        if (!taken[a] && was_tried(square, a) && !is_wide(&mistake_table[a].v) && (best < 0 || square[a] < square[best]))
            best = a;
    return best;
}

/* Each mistake, the nearest first, with each wide bound: rounding moves OUT by little. */
static void try_wide_pairs(search *s, const double *square)
{
    const double before = s->e.work;
    bool *taken = arena_zeroed(s->m, mistake_count, sizeof *taken);
    for (int a = taken ? next_nearest(square, taken) : -1; a >= 0; a = next_nearest(square, taken)) {
        taken[a] = true;
        for (int b = 0; b < mistake_count; b++) {
            if (!was_tried(square, b) || !is_wide(&mistake_table[b].v))
                continue;
            if (s->e.work - before > pairs_may_take[COST_WIDE] * s->work)
                s->left_out++;
            else
                try_pair(s, &mistake_table[a], &mistake_table[b], fmin(fmin(square[a], square[b]), s->right_is.square));
        }
    }
}

static int by_rank(const void *x, const void *y)
{
    const finding *a = x, *b = y;
    if (a->matches != b->matches)
        return a->matches ? -1 : 1;
    if ((a->dialect == NULL) != (b->dialect == NULL))
        return a->dialect ? 1 : -1;
    if (a->matches && is_wide(&a->v) != is_wide(&b->v))
        return is_wide(&a->v) ? 1 : -1;
    if (a->matches && a->parts != b->parts)
        return a->parts - b->parts;
    return better(a, b) ? -1 : better(b, a) ? 1 : a->number - b->number;
}

/* A wide bound that holds beside an explanation that needs none says nothing. */
static void drop_wide(search *s)
{
    int exact = 0, kept = 0;
    for (int i = 0; i < s->findings; i++)
        exact += s->found[i].matches && !s->found[i].v.stored;
    for (int i = 0; i < s->findings; i++)
        if (!exact || !s->found[i].matches || !s->found[i].v.stored)
            s->found[kept++] = s->found[i];
    s->findings = kept;
}

void search_all(search *s)
{
    double *square = arena_zeroed(s->m, mistake_count, sizeof *square);
    if (!square)
        return;
    for (int i = 0; i < mistake_count; i++)
        try_single(s, &mistake_table[i], &square[i]);
    for (int d = 0; d < DIALECTS; d++)
        try_dialect(s, (enum dialect)d);
    const bool alone = matching(s) > 0;
    for (int cost = COST_ROWS; cost < COST_WIDE && !alone; cost++)
        try_pairs(s, square, (enum cost)cost);
    if (!matching(s))
        try_wide_pairs(s, square);
    drop_wide(s);
    leave_near_best(s);
    leave_usual(s);
    if (s->findings)
        qsort(s->found, (size_t)s->findings, sizeof *s->found, by_rank);
}
