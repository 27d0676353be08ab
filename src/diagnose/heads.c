/* SPDX-License-Identifier: Apache-2.0 */
/* From the arguments to q, k, v of each head. */
#include "evaluator.h"

#include <math.h>
#include <string.h>

/* ------------------------------------------------------------- precision ---- */

/* 2^exponent, for exponents of normal numbers. */
static double power_of_two(int exponent)
{
    const uint64_t word = (uint64_t)(exponent + 1023) << 52;
    double x;
    memcpy(&x, &word, sizeof x);
    return x;
}

/* To the nearest number with `bits` bits, even at a tie, none finer than 2^least: adding a number whose last place is the wanted one, and
   taking it off. */
static double round_bits(double x, int bits, int least, double most)
{
    uint64_t word;
    memcpy(&word, &x, sizeof word);
    const int exponent = (int)(word >> 52 & 2047) - 1023, last = exponent + 1 - bits > least ? exponent + 1 - bits : least;
    if (!(fabs(x) <= 2 * most))
        return isnan(x) ? x : copysign((double)INFINITY, x);
    const double far = 1.5 * power_of_two(last + 52), y = (x + far) - far;
    return fabs(y) > most ? copysign((double)INFINITY, x) : y;
}

double round_to(attn_dtype t, double x)
{
    switch (t) {
    case ATTN_F16:
        return round_bits(x, 11, -24, 65504);
    case ATTN_BF16:
        return round_bits(x, 8, -133, 0x1.FEp127);
    case ATTN_F32:
        return (double)(float)x;
    default:
        return x;
    }
}

double keep(const evaluator *e, double x) { return e->v.in.full & FULL_INSIDE ? x : keep_input(e, x); }

double keep_input(const evaluator *e, double x)
{
    switch (e->v.in.precision) {
    case PRECISION_F16:
        return round_to(ATTN_F16, x);
    case PRECISION_F16_SUMS:
        return e->v.in.steps & STEPS_NUMBERS ? round_to(ATTN_F16, x) : x;
    case PRECISION_BF16:
        return round_to(ATTN_BF16, x);
    case PRECISION_F32:
        return round_to(ATTN_F32, x);
    default:
        return x;
    }
}

bool keeps_sums(const evaluator *e) { return e->v.in.precision == PRECISION_F16_SUMS || e->v.in.precision == PRECISION_F32; }

double keep_sum(const evaluator *e, double x)
{
    return !keeps_sums(e) ? x : round_to(e->v.in.precision == PRECISION_F32 ? ATTN_F32 : ATTN_F16, x);
}

double keep_product(const evaluator *e, double x) { return e->v.in.steps & STEPS_PRODUCTS ? keep_sum(e, x) : x; }

/* ---------------------------------------------------------------- linear ---- */

/* A matrix [m][n] as the variation has it: transposed (then m == n), rounded; in `own`, or itself where it is neither. */
static const double *matrix_of(const evaluator *e, double *own, const double *w, int64_t m, int64_t n, bool transposed)
{
    const bool rounded = e->v.in.precision && !(e->v.in.full & FULL_OUTSIDE);
    if (!transposed && !rounded)
        return w;
    for (int64_t i = 0; i < m * n; i++) {
        const double x = transposed ? w[(i % n) * n + i / n] : w[i];
        own[i] = rounded ? keep(e, x) : x;
    }
    return own;
}

/* The loop that takes the time: y += factor * w, and their magnitudes. */
static void add_products(double *restrict y, double *restrict size, double factor, const double *restrict w, int64_t n)
{
    for (int64_t c = 0; c < n; c++) {
        const double product = factor * w[c];
        y[c] += product;
        size[c] += fabs(product);
    }
}

/* The same in f32, each step rounded. */
static void add_products_f32(double *restrict y, double factor, const double *restrict w, int64_t n)
{
    for (int64_t c = 0; c < n; c++)
        y[c] = (double)((float)y[c] + (float)(factor * w[c]));
}

void linear_row(evaluator *e, double *y, double *dy, const double *x, const double *dx, const double *w, const double *bias, int64_t m,
                int64_t n)
{
    const arithmetic *a = &e->a;
    const bool exact = e->v.in.precision == PRECISION_RIGHT || e->v.in.full & FULL_OUTSIDE;
    double *size = e->linear_size, *moved = e->linear_error;
    for (int64_t c = 0; c < n; c++) {
        y[c] = !bias ? 0 : exact ? bias[c] : keep(e, bias[c]);
        size[c] = fabs(y[c]);
        moved[c] = 0;
    }
    for (int64_t t = 0; t < m; t++, w += n) {
        const double factor = exact ? x[t] : keep(e, x[t]), off = dx ? dx[t] : 0;
        if (exact)
            add_products(y, size, factor, w, n);
        else if (e->v.in.precision == PRECISION_F32)
            add_products_f32(y, factor, w, n);
        for (int64_t c = 0; !exact && e->v.in.precision != PRECISION_F32 && c < n; c++) {
            const double product = factor * w[c];
            y[c] = keep_sum(e, y[c] + keep_product(e, product));
            size[c] += fabs(product);
        }
        for (int64_t c = 0; off != 0 && c < n; c++)
            moved[c] += off * fabs(w[c]);
    }
    for (int64_t c = 0; c < n; c++) {
        y[c] = exact ? y[c] : keep(e, y[c]);
        size[c] += moved[c];
        dy[c] = a->slack * (moved[c] + (double)(m + 2) * a->u * size[c] + (double)(m + 2) * a->tiny);
        dy[c] = 2 * size[c] < a->most ? dy[c] : (double)INFINITY;
    }
    e->work += (double)m * (double)n;
}

/* ---------------------------------------------------------------- layout ---- */

static bool reads_blhd(const evaluator *e)
{
    return e->v.in.layout == LAYOUT_BLHD || e->v.in.layout == LAYOUT_BLHD_OUT || e->v.in.layout == LAYOUT_BLHD_V;
}

/* The row of [H][L] that is found where (head, i) would be: (H,L) read as (L,H), or (L,H) read as (H,L). */
static int64_t misread_row(const evaluator *e, int64_t H, int64_t L, int64_t head, int64_t i)
{
    const int64_t n = head * L + i;
    return reads_blhd(e) ? i * H + head : (n % H) * L + n / H;
}

/* The rows of [B,H,L,d] in another order: as if the memory had the other one, or [B,L,H,d]. */
static void move_rows(evaluator *e, double *x, int64_t H, int64_t L, int64_t d)
{
    const problem *p = e->p;
    double *from = e->moved;
    memcpy(from, x, (size_t)(p->B * H * L * d) * sizeof *x);
    for (int64_t b = 0; b < p->B; b++)
        for (int64_t h = 0; h < H; h++)
            for (int64_t i = 0; i < L; i++) {
                const int64_t to = e->v.in.layout == LAYOUT_AXES ? i * H + h : h * L + i;
                const int64_t at = e->v.in.layout == LAYOUT_AXES ? h * L + i : misread_row(e, H, L, h, i);
                memcpy(x + (b * H * L + to) * d, from + (b * H * L + at) * d, (size_t)d * sizeof *x);
            }
}

static void arrange(evaluator *e)
{
    const problem *p = e->p;
    const bool only_v = e->v.in.layout == LAYOUT_BLHD_V || e->v.in.layout == LAYOUT_STRIDES_V;
    for (int errors = 0; errors < (p->mha || p->rope ? 2 : 1); errors++) {
        if (!only_v) {
            move_rows(e, e->own[3 * errors], p->H, p->Lq, p->d);
            move_rows(e, e->own[3 * errors + 1], p->Hkv, p->Lk, p->d);
        }
        move_rows(e, e->own[3 * errors + 2], p->Hkv, p->Lk, p->d_v);
    }
}

/* --------------------------------------------------- mha: project and split ---- */

/* Which of W_Q, W_K, W_V projects q, k, v. */
static const int order_source[][3] = {
    [ORDER_RIGHT] = {0, 1, 2}, [ORDER_QK] = {1, 0, 2},      [ORDER_QV] = {2, 1, 0},
    [ORDER_KV] = {0, 2, 1},    [ORDER_ROTATED] = {1, 2, 0}, [ORDER_ROTATED_BACK] = {2, 0, 1},
};

static bool transposed(const input_variation *v, int which)
{
    return which == 0 ? v->w_q_transposed : which == 1 ? v->w_k_transposed : v->w_v_transposed;
}

static bool bias_missing(const input_variation *v, int which)
{
    return which == 0 ? v->b_q_missing : which == 1 ? v->b_k_missing : v->b_v_missing;
}

/* Row n of the projection (L, heads*d) is where in [heads][L][d]? Column c of it at piece c / d. */
static int64_t split_place(const evaluator *e, int64_t row, int64_t head, int64_t heads, int64_t L)
{
    return e->v.in.split == SPLIT_RESHAPE ? row * heads + head : head * L + row;
}

/* Projection `which` of all rows, split into heads: to [B][heads][L][size], error its bounds. */
static void project(evaluator *e, int which, double *to, double *error, int64_t heads, int64_t L)
{
    const problem *p = e->p;
    const int source = order_source[e->v.in.order][which], bias_source = e->v.in.order_biases ? which : source;
    const int64_t m = p->in[which], n = p->columns[which], size = n / heads;
    const double *w = matrix_of(e, e->turned, p->w[source], m, n, transposed(&e->v.in, which));
    const double *bias = bias_missing(&e->v.in, which) ? NULL : p->b[bias_source];
    double *y = e->joined, *dy = e->joined_error;
    for (int64_t r = 0; r < p->B * L; r++) {
        linear_row(e, y, dy, p->x[which] + r * m, NULL, w, bias, m, n);
        for (int64_t h = 0; h < heads; h++) {
            const int64_t place = (r / L) * heads * L + split_place(e, r % L, h, heads, L);
            memcpy(to + place * size, y + h * size, (size_t)size * sizeof *y);
            memcpy(error + place * size, dy + h * size, (size_t)size * sizeof *dy);
        }
    }
}

/* Is projection `which` as it should be? */
static bool projects_right(const evaluator *e, int which)
{
    const input_variation *v = &e->v.in;
    return order_source[v->order][which] == which && !transposed(v, which) && !bias_missing(v, which) && v->split == SPLIT_RIGHT &&
           (v->precision == PRECISION_RIGHT || v->full & FULL_OUTSIDE);
}

/* The right projections are made once: most mistakes change one of the three, or none. */
static void project_or_copy(evaluator *e, int which, int64_t heads, int64_t L, int64_t size)
{
    double *const to = e->own[which], *const error = e->own[3 + which], **right = &e->projected[which], **bound = &e->projected[3 + which];
    const int64_t count = e->p->B * heads * L * size;
    if (*right && projects_right(e, which)) {
        memcpy(to, *right, (size_t)count * sizeof *to);
        memcpy(error, *bound, (size_t)count * sizeof *error);
        return;
    }
    project(e, which, to, error, heads, L);
    if (*right || !projects_right(e, which))
        return;
    *bound = arena_zeroed(e->m, count, sizeof **bound);
    *right = arena_zeroed(e->m, count, sizeof **right);
    if (e->m->failed)
        return;
    memcpy(*right, to, (size_t)count * sizeof *to);
    memcpy(*bound, error, (size_t)count * sizeof *error);
}

/* ------------------------------------------------------------------ make ---- */

/* Rounds all of x, and again after a factor. */
static void round_all(const evaluator *e, double *x, int64_t n, double factor)
{
    for (int64_t i = 0; i < n; i++) {
        x[i] = keep_input(e, x[i]);
        x[i] = factor == 1 ? x[i] : keep_input(e, x[i] * factor);
    }
}

static double greatest_of_all(const double *x, int64_t n, double before)
{
    for (int64_t i = 0; i < n; i++)
        before = isfinite(x[i]) && fabs(x[i]) > before ? fabs(x[i]) : before;
    return before;
}

void heads_make(evaluator *e)
{
    const problem *p = e->p;
    const bool turned = e->v.in.layout == LAYOUT_AXES;
    e->B = p->B;
    e->H = turned ? p->Lq : p->H;
    e->Hkv = turned ? p->Lk : p->Hkv;
    e->Lq = turned ? p->H : p->Lq;
    e->Lk = turned ? p->Hkv : p->Lk;
    e->d = p->d;
    e->d_v = p->d_v;
    e->q = e->own[0];
    e->k = e->own[1];
    e->v_ = e->own[2];
    if (p->mha || p->rope) {
        e->dq = e->own[3];
        e->dk = e->own[4];
        e->dv = e->own[5];
    }
    if (p->mha) {
        project_or_copy(e, 0, p->H, p->Lq, p->d);
        project_or_copy(e, 1, p->Hkv, p->Lk, p->d);
        project_or_copy(e, 2, p->Hkv, p->Lk, p->d_v);
    } else {
        memcpy(e->q, p->q, (size_t)(p->B * p->H * p->Lq * p->d) * sizeof(double));
        memcpy(e->k, p->k, (size_t)(p->B * p->Hkv * p->Lk * p->d) * sizeof(double));
        memcpy(e->v_, p->v, (size_t)(p->B * p->Hkv * p->Lk * p->d_v) * sizeof(double));
    }
    if (p->rope)
        heads_turn(e);
    if (e->v.in.layout)
        arrange(e);
    if (e->v.in.precision) {
        const double scale = right_scale(p), in_q = e->v.in.steps & STEPS_SPLIT_SCALE ? sqrt(scale)
                                                    : e->v.in.steps & STEPS_SCALE_Q   ? scale
                                                                                      : 1;
        const double in_k = e->v.in.steps & STEPS_SPLIT_SCALE ? sqrt(scale) : 1;
        round_all(e, e->q, p->B * p->H * p->Lq * p->d, keep_input(e, in_q));
        round_all(e, e->k, p->B * p->Hkv * p->Lk * p->d, keep_input(e, in_k));
        round_all(e, e->v_, p->B * p->Hkv * p->Lk * p->d_v, 1);
    }
    e->work += (e->v.in.precision ? 10 : 3) * (double)(p->B * (p->H * p->Lq * p->d + p->Hkv * p->Lk * (p->d + p->d_v)));
    e->greatest = greatest_of_all(e->q, p->B * p->H * p->Lq * p->d, 0);
    e->greatest = greatest_of_all(e->k, p->B * p->Hkv * p->Lk * p->d, e->greatest);
    e->greatest = greatest_of_all(e->v_, p->B * p->Hkv * p->Lk * p->d_v, e->greatest);
}

const double *output_matrix(evaluator *e)
{
    const problem *p = e->p;
    return p->w_o ? matrix_of(e, e->w_o_turned, p->w_o, p->H * p->d_v, p->out, e->v.w_o == W_O_TRANSPOSED) : NULL;
}

int64_t kv_head_of(const evaluator *e, int64_t h)
{
    switch (e->v.kv_heads) {
    case KV_HEADS_TILED:
        return h % e->Hkv;
    case KV_HEADS_CLAMPED:
        return h < e->Hkv ? h : e->Hkv - 1;
    case KV_HEADS_FIRST:
        return 0;
    default:
        return h / (e->H / e->Hkv);
    }
}
