/* SPDX-License-Identifier: Apache-2.0 */
/* The evaluator as a whole: its memory, what it can do, and the rows that it hands over. */
#include "evaluator.h"

#include <math.h>
#include <string.h>

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

bool evaluator_open(evaluator *e, const problem *p, arena *m)
{
    *e = (evaluator){.p = p, .m = m, .sharp = 1};
    const int64_t sizes[3] = {p->B * p->H * p->Lq * p->d, p->B * p->Hkv * p->Lk * p->d, p->B * p->Hkv * p->Lk * p->d_v};
    int64_t widest = larger(larger(p->H * p->d_v, p->d), larger(p->out, p->width)), matrix = 0;
    for (int i = 0; i < 3; i++) {
        e->own[i] = arena_zeroed(m, sizes[i], sizeof(double));
        e->own[3 + i] = p->mha || p->rope ? arena_zeroed(m, sizes[i], sizeof(double)) : NULL;
        widest = larger(widest, p->columns[i]);
        matrix = larger(matrix, p->in[i] * p->columns[i]);
    }
    const int64_t Lk = larger(p->Lk, p->Hkv); /* LAYOUT_AXES */
    double **const along_keys[] = {&e->row.scores,  &e->row.scaled, &e->row.capped, &e->row.masked, &e->row.error,   &e->row.after,
                                   &e->row.weights, &e->row.drift,  &e->group.top,  &e->group.sum,  &e->group.grown, &e->group.count};
    for (size_t i = 0; i < sizeof along_keys / sizeof along_keys[0]; i++)
        *along_keys[i] = arena_zeroed(m, Lk, sizeof(double));
    double **const along_columns[] = {&e->row.output, &e->row.limit,    &e->linear_size, &e->linear_error,
                                      &e->joined,     &e->joined_error, &e->out,         &e->out_limit};
    for (size_t i = 0; i < sizeof along_columns / sizeof along_columns[0]; i++)
        *along_columns[i] = arena_zeroed(m, widest, sizeof(double));
    e->row.hidden = arena_zeroed(m, Lk, 1);
    e->row.fate = arena_zeroed(m, Lk, 1);
    e->row.overflows = arena_zeroed(m, Lk, 1);
    e->turned = arena_zeroed(m, matrix, sizeof(double));
    e->moved = arena_zeroed(m, larger(larger(sizes[0], sizes[1]), sizes[2]), sizeof(double));
    e->w_o_turned = p->w_o ? arena_zeroed(m, p->H * p->d_v * p->out, sizeof(double)) : NULL;
    return !m->failed;
}

void evaluator_set(evaluator *e, const variation *v)
{
    const bool same = e->has_heads && memcmp(&e->v.in, &v->in, sizeof v->in) == 0;
    e->v = *v;
    e->a = v->stored == STORED_F32 ? arithmetic_of(ATTN_F32) : e->p->a;
    e->group.made = false;
    if (!same)
        heads_make(e);
    e->has_heads = true;
    e->w_o = output_matrix(e);
}

double sharpness(const evaluator *e) { return variation_is_right(&e->v) ? e->sharp : 1; }

/* -------------------------------------------------------------- what is possible ---- */

static bool projections_fit(const problem *p, const input_variation *v)
{
    const bool turned[] = {v->w_q_transposed, v->w_k_transposed, v->w_v_transposed},
               missing[] = {v->b_q_missing, v->b_k_missing, v->b_v_missing};
    for (int i = 0; i < 3; i++)
        if ((turned[i] && p->in[i] != p->columns[i]) || (missing[i] && !p->b[i]))
            return false;
    const bool qk = p->in[0] == p->in[1] && p->columns[0] == p->columns[1], qv = p->in[0] == p->in[2] && p->columns[0] == p->columns[2],
               kv = p->in[1] == p->in[2] && p->columns[1] == p->columns[2];
    switch (v->order) {
    case ORDER_RIGHT:
        return true;
    case ORDER_QK:
        return qk;
    case ORDER_QV:
        return qv;
    case ORDER_KV:
        return kv;
    default:
        return qk && kv;
    }
}

/* Heads and positions exchanged: masks and lengths would not fit. */
static bool axes_fit(const problem *p)
{
    const unsigned unfit = FACT_MASK_OR_ADDED | FACT_KV_LEN | FACT_Q_LEN | FACT_SINKS | FACT_SLOPES | FACT_DROPOUT | FACT_PACKED;
    return !(p->facts & unfit) && p->Lk > 0 && p->Lq % p->Lk == 0 && !p->got_weights;
}

/* What reads one array in the place of another needs their sizes to be equal. */
static bool sizes_fit(const problem *p, const variation *v)
{
    const bool turned = v->in.layout == LAYOUT_AXES;
    const int64_t Lq = turned ? p->H : p->Lq, Lk = turned ? p->Hkv : p->Lk;
    if ((v->keys == KEYS_V || v->values == VALUES_K) && p->d != p->d_v)
        return false;
    return (v->keys != KEYS_NOT_TRANSPOSED || p->d == Lk) && (v->keys != KEYS_SWAPPED || Lq == Lk);
}

static bool rope_fits(const problem *p, const input_variation *v)
{
    if (!p->rope)
        return !v->rope && !v->rope_places;
    return (v->rope != ROPE_ON_V || p->d_v % 2 == 0) && (v->rope != ROPE_BEFORE_SPLIT || p->mha);
}

bool variation_possible(const problem *p, const variation *v)
{
    const bool square = p->w_o && p->H * p->d_v == p->out;
    if (!sizes_fit(p, v) || (v->keep == KEEP_SEEN && !p->seen_kept))
        return false;
    if (!rope_fits(p, &v->in) || (v->in.layout == LAYOUT_AXES && !axes_fit(p)))
        return false;
    if (v->in.precision && v->in.steps & STEPS_SPLIT_SCALE && !(right_scale(p) > 0))
        return false;
    if ((v->stored == STORED_F32 && p->dtype != ATTN_F64) || (v->stored == STORED_DECIMALS && p->decimals < 0) ||
        (v->stored == STORED_WEIGHTS && p->dtype != ATTN_F16 && p->dtype != ATTN_BF16))
        return false;
    if (!p->mha)
        return !v->concat && !v->w_o;
    return (!v->w_o || square) && (!v->b_o_missing || p->b_o) && projections_fit(p, &v->in);
}

/* ------------------------------------------------------------------------ cost ---- */

double evaluator_row_cost(const problem *p, const variation *v)
{
    const double row = (double)p->Lk * (double)(p->d + p->d_v), rows = p->mha ? (double)p->H : 1;
    const double outside = p->mha ? (double)p->H * (double)p->d_v * (double)p->out : 0;
    return rows * row * (v->softmax == SOFTMAX_HEADS ? 1 + (double)p->H : 1) + outside;
}

double evaluator_setup_cost(const problem *p, const variation *v)
{
    double cost = 0;
    for (int i = 0; i < 3 && p->mha; i++)
        cost += (double)(p->B * (i == 0 ? p->Lq : p->Lk)) * (double)p->in[i] * (double)p->columns[i];
    if (v->softmax == SOFTMAX_COLUMNS || v->softmax == SOFTMAX_ALL) /* every row of a head before the first */
        cost += 2 * (double)p->B * (double)p->H * (double)p->Lq * (double)p->Lk * (double)p->d;
    return cost;
}

/* --------------------------------------------------------------------- delivering ---- */

/* The row of attention that stands at row i of head h, into e->row. */
static void deliver_row(evaluator *e, int64_t b, int64_t h, int64_t i)
{
    const problem *p = e->p;
    const int64_t H = p->H, L = p->Lq;
    const bool blhd = e->v.in.layout == LAYOUT_BLHD_OUT || (e->v.output && !p->blhd); /* (L,H) memory under the shape (H,L) */
    if (blhd || e->v.output || e->v.in.layout == LAYOUT_STRIDES_OUT) {
        const int64_t place = blhd ? h * L + i : i * H + h;
        h = blhd ? place % H : place / L;
        i = blhd ? place / H : place % L;
    }
    if (e->v.in.layout == LAYOUT_AXES)
        evaluator_row(e, b, i, h);
    else
        evaluator_row(e, b, h, i);
}

static void deliver_attention(evaluator *e, int64_t at)
{
    const problem *p = e->p;
    deliver_row(e, at / (p->H * p->Lq), at / p->Lq % p->H, at % p->Lq);
    memcpy(e->out, e->row.output, (size_t)p->width * sizeof(double));
    memcpy(e->out_limit, e->row.limit, (size_t)p->width * sizeof(double));
}

/* One row of concat(z). */
static void join_heads(evaluator *e, int64_t b, int64_t i)
{
    const problem *p = e->p;
    const int64_t H = p->H, L = p->Lq, size = p->d_v;
    e->coarse = false;
    for (int64_t t = 0; t < H; t++) {
        const int64_t place = i * H + t; /* of piece t of row i in the flat memory of (L,H,d_v) */
        const int64_t head = e->v.concat == CONCAT_RESHAPE ? place / L : e->v.concat == CONCAT_REVERSED ? H - 1 - t : t;
        deliver_row(e, b, head, e->v.concat == CONCAT_RESHAPE ? place % L : i);
        e->coarse = e->coarse || e->row.coarse;
        for (int64_t c = 0; c < size; c++) {
            const int64_t to = e->v.concat == CONCAT_INTERLEAVED ? c * H + t : t * size + c;
            e->joined[to] = e->row.output[c];
            e->joined_error[to] = e->a.slack * e->row.limit[c];
        }
    }
}

static void deliver_mha(evaluator *e, int64_t at)
{
    const problem *p = e->p;
    const int64_t m = p->H * p->d_v;
    const double *bias = e->v.b_o_missing ? NULL : p->b_o;
    join_heads(e, at / p->Lq, at % p->Lq);
    if (p->w_o && e->v.w_o != W_O_MISSING) {
        linear_row(e, e->out, e->out_limit, e->joined, e->joined_error, e->w_o, bias, m, p->out);
        return;
    }
    for (int64_t c = 0; c < p->out; c++) {
        e->out[c] = e->joined[c] + (bias ? bias[c] : 0);
        e->out_limit[c] = e->joined_error[c] + (bias ? e->a.u * (fabs(e->joined[c]) + fabs(bias[c])) : 0);
    }
}

void evaluator_deliver(evaluator *e, int64_t at)
{
    if (e->p->mha)
        deliver_mha(e, at);
    else
        deliver_attention(e, at);
    for (int64_t c = 0; c < e->p->width; c++)
        e->out_limit[c] *= e->coarse ? 1 : sharpness(e);
    for (int64_t c = 0; c < e->p->width && (e->v.stored == STORED_F32 || e->v.stored == STORED_DECIMALS); c++)
        e->out_limit[c] += e->v.stored == STORED_F32 ? roundoff_of(ATTN_F32) * fabs(e->out[c]) : 0.51 * pow(10, -e->p->decimals);
}
