/* SPDX-License-Identifier: Apache-2.0 */
#include "problem.h"

#include <attn_ref.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ----------------------------------------------------------------- memory ---- */

void *arena_zeroed(arena *m, int64_t count, size_t size)
{
    if (m->blocks == m->room) {
        const int room = m->room ? 2 * m->room : 64;
        void **more = realloc(m->block, (size_t)room * sizeof *more);
        if (!more) {
            m->failed = true;
            return NULL;
        }
        m->block = more;
        m->room = room;
    }
    void *block = calloc((size_t)count + 1, size);
    if (!block)
        m->failed = true;
    else
        m->block[m->blocks++] = block;
    return block;
}

void arena_free(arena *m)
{
    for (int i = 0; i < m->blocks; i++)
        free(m->block[i]);
    free(m->block);
    *m = (arena){0};
}

/* ---------------------------------------------------------------- numbers ---- */

double roundoff_of(attn_dtype t) { return t == ATTN_F64 ? 0x1p-53 : t == ATTN_F32 ? 0x1p-24 : t == ATTN_F16 ? 0x1p-11 : 0x1p-8; }

double denormal_of(attn_dtype t) { return t == ATTN_F64 ? 0x1p-1074 : t == ATTN_F32 ? 0x1p-149 : t == ATTN_F16 ? 0x1p-24 : 0x1p-133; }

double greatest_of(attn_dtype t) { return t == ATTN_F64 ? DBL_MAX : t == ATTN_F32 ? (double)FLT_MAX : t == ATTN_F16 ? 65504 : 0x1.FEp127; }

static const arithmetic arithmetic_f32 = {0x1p-24, 1.5e-7, 6e-7, 0x1p-149, FLT_MIN, FLT_MAX, 1.01};
static const arithmetic arithmetic_f64 = {0x1p-53, 3e-16, 2e-15, 0x1p-1074, DBL_MIN, DBL_MAX, 2.02};

double limit_of(const problem *p, double want, double bound)
{
    if (p->given)
        return p->atol + p->rtol * fabs(want);
    return isnan(bound) ? (double)INFINITY
                        : p->a.slack * bound + (fabs(want) + bound) * roundoff_of(p->dtype) * 1.001 + denormal_of(p->dtype);
}

arithmetic arithmetic_of(attn_dtype t) { return t == ATTN_F64 ? arithmetic_f64 : arithmetic_f32; }

int64_t integer_or(const attn_tensor *t, int64_t i, int64_t otherwise) { return t ? (int64_t)ref_element(t, 0, 0, 0, i) : otherwise; }

double right_scale(const problem *p) { return (p->o.flags & ATTN_SCALE) ? p->o.scale : 1 / sqrt((double)p->d); }

bool tensor_is_float(const attn_tensor *t)
{
    return t->dtype == ATTN_F32 || t->dtype == ATTN_F64 || t->dtype == ATTN_F16 || t->dtype == ATTN_BF16;
}

/* ---------------------------------------------------------------- reading ---- */

/* The size of axis 0..3 of [B,H,L,d], 1 for leading axes that the tensor lacks. */
static int64_t extent(const attn_tensor *t, int axis) { return axis < 4 - t->ndim ? 1 : t->shape[axis - (4 - t->ndim)]; }

/* All elements as doubles, packed [.,.,.,.] */
static double *read_all(arena *m, const attn_tensor *t)
{
    const int64_t n0 = extent(t, 0), n1 = extent(t, 1), n2 = extent(t, 2), n3 = extent(t, 3);
    double *all = arena_zeroed(m, n0 * n1 * n2 * n3, sizeof *all), *next = all;
    for (int64_t a = 0; all && a < n0; a++)
        for (int64_t b = 0; b < n1; b++)
            for (int64_t c = 0; c < n2; c++)
                for (int64_t e = 0; e < n3; e++)
                    *next++ = ref_element(t, a, b, c, e);
    return all;
}

/* Packed input [T,H,d] seen as [H,T,d]. */
static attn_tensor heads_first(attn_tensor t)
{
    const int64_t rows = t.shape[0], stride = t.stride[0];
    t.shape[0] = t.shape[1];
    t.stride[0] = t.stride[1];
    t.shape[1] = rows;
    t.stride[1] = stride;
    return t;
}

static void read_attention(problem *p, arena *m, const diagnose_input *in)
{
    const attn_tensor q = p->packed ? heads_first(*in->q) : *in->q, k = p->packed ? heads_first(*in->k) : *in->k,
                      v = p->packed ? heads_first(*in->v) : *in->v;
    p->B = extent(&q, 0);
    p->H = extent(&q, 1);
    p->Hkv = extent(&k, 1);
    p->Lq = extent(&q, 2);
    p->Lk = extent(&k, 2);
    p->d = extent(&q, 3);
    p->d_v = extent(&v, 3);
    p->q = read_all(m, &q);
    p->k = read_all(m, &k);
    p->v = read_all(m, &v);
    p->rows = p->B * p->H * p->Lq;
    p->width = p->d_v;
}

/* A projection as a matrix [in][columns]: from (in, columns), columns first .. first + count - 1 of it, or a table per head (H, in, d). */
static double *read_matrix(arena *m, const attn_tensor *t, int64_t first, int64_t count, int64_t *in)
{
    const bool per_head = t->ndim == 3;
    const int64_t rows = per_head ? t->shape[1] : t->shape[0], d = per_head ? t->shape[2] : 1;
    double *all = arena_zeroed(m, rows * count, sizeof *all);
    *in = rows;
    for (int64_t i = 0; all && i < rows; i++)
        for (int64_t c = 0; c < count; c++)
            all[i * count + c] = per_head ? ref_element(t, 0, c / d, i, c % d) : ref_element(t, 0, 0, i, first + c);
    return all;
}

/* A bias of rank 1, or (H, d). */
static double *read_bias(arena *m, const attn_tensor *t, int64_t first, int64_t count)
{
    double *all = t ? arena_zeroed(m, count, sizeof *all) : NULL;
    for (int64_t c = 0; all && c < count; c++)
        all[c] = t->ndim == 2 ? ref_element(t, 0, 0, c / t->shape[1], c % t->shape[1]) : ref_element(t, 0, 0, 0, first + c);
    return all;
}

static int64_t columns_of(const attn_tensor *w) { return w->ndim == 3 ? w->shape[0] * w->shape[2] : w->shape[1]; }

static void read_projections(problem *p, arena *m, const attn_mha_desc *w)
{
    const attn_tensor *matrix[] = {w->w_q, w->w_k, w->w_v}, *bias[] = {w->b_q, w->b_k, w->b_v};
    int64_t first = 0;
    p->H = w->heads;
    p->Hkv = w->kv_heads ? w->kv_heads : w->heads;
    const int64_t packed_d = w->w_qkv ? columns_of(w->w_qkv) / (p->H + 2 * p->Hkv) : 0;
    for (int i = 0; i < 3; i++) {
        p->columns[i] = w->w_qkv ? (i == 0 ? p->H : p->Hkv) * packed_d : columns_of(matrix[i]);
        p->w[i] = read_matrix(m, w->w_qkv ? w->w_qkv : matrix[i], w->w_qkv ? first : 0, p->columns[i], &p->in[i]);
        p->b[i] = read_bias(m, w->b_qkv ? w->b_qkv : bias[i], w->b_qkv ? first : 0, p->columns[i]);
        first += p->columns[i];
    }
    p->d = p->columns[0] / p->H;
    p->d_v = p->columns[2] / p->Hkv;
    p->out = w->w_o ? w->w_o->shape[1] : p->H * p->d_v;
    p->w_o = w->w_o ? read_all(m, w->w_o) : NULL;
    p->b_o = read_bias(m, w->b_o, 0, p->out);
}

static void read_mha(problem *p, arena *m, const diagnose_input *in)
{
    const attn_tensor *memory = in->memory ? in->memory : in->x, *memory_v = in->memory_v ? in->memory_v : memory;
    p->mha = true;
    read_projections(p, m, in->mha);
    p->B = extent(in->x, 1);
    p->Lq = extent(in->x, 2);
    p->Lk = extent(memory, 2);
    p->x[0] = read_all(m, in->x);
    p->x[1] = in->memory ? read_all(m, memory) : p->x[0];
    p->x[2] = in->memory_v ? read_all(m, memory_v) : p->x[1];
    p->rows = p->B * p->Lq;
    p->width = p->out;
}

/* ------------------------------------------------------------------ facts ---- */

/* Every query has the same row of this mask. */
static bool one_row(const attn_tensor *t) { return t && extent(t, 2) == 1; }

void problem_facts(problem *p)
{
    const attn_sdpa_opts *o = &p->o;
    const bool mask = o->mask && !tensor_is_float(o->mask), added = o->bias || (o->mask && tensor_is_float(o->mask));
    const bool causal = o->flags & ATTN_CAUSAL, window = o->flags & ATTN_WINDOW, alibi = (o->flags & ATTN_ALIBI) || o->alibi_slopes;
    const struct {
        bool holds;
        unsigned fact;
    } all[] = {
        {!p->mha, FACT_SDPA},
        {p->mha, FACT_MHA},
        {mask, FACT_MASK},
        {added, FACT_ADDED},
        {mask || added || causal || window || o->kv_len, FACT_HIDES},
        {mask || added, FACT_MASK_OR_ADDED},
        {mask && added, FACT_BOTH},
        {o->kv_len, FACT_KV_LEN},
        {o->q_len, FACT_Q_LEN},
        {causal, FACT_CAUSAL},
        {causal || window || alibi, FACT_POSITION},
        {window, FACT_WINDOW},
        {window && o->window_left >= 0, FACT_LEFT},
        {window && o->window_right >= 0, FACT_RIGHT},
        {o->softcap > 0, FACT_CAP},
        {p->Hkv < p->H, FACT_SHARED},
        {p->H > 1, FACT_HEADS},
        {p->Lq == p->Lk, FACT_SQUARE},
        {p->d == p->Lk, FACT_D_IS_LK},
        {p->d == p->d_v, FACT_D_IS_DV},
        {o->sinks, FACT_SINKS},
        {alibi, FACT_ALIBI},
        {o->alibi_slopes, FACT_SLOPES},
        {o->dropout > 0, FACT_DROPOUT},
        {!(o->dropout > 0), FACT_NO_DROPOUT},
        {o->flags & ATTN_SCALE, FACT_SCALE},
        {(mask && one_row(o->mask)) || (added && (one_row(o->bias) || (!mask && one_row(o->mask)))), FACT_KEY_MASK},
        {p->packed, FACT_PACKED},
        {!p->packed && p->H > 1, FACT_LAYOUT},
        {p->rope, FACT_ROPE},
    };
    p->facts = 0;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        p->facts |= all[i].holds ? all[i].fact : 0;
}

void problem_count_decimals(problem *p)
{
    enum { MOST = 6 };
    double power = 1;
    bool whole = false;
    for (p->decimals = -1; p->decimals < MOST && !whole; power *= 10) {
        p->decimals++;
        whole = true;
        for (int64_t n = 0; whole && n < p->rows * p->width; n++) {
            const double x = p->got[n] * power;
            whole = !isfinite(x) || fabs(x - nearbyint(x)) <= 4 * roundoff_of(p->dtype) * fabs(x);
        }
    }
    p->decimals = whole ? p->decimals : -1;
}

bool problem_read(problem *p, arena *m, const diagnose_input *in)
{
    *p = (problem){.blhd = in->blhd, .rope = in->rope};
    if (in->opts)
        p->o = *in->opts;
    p->packed = p->o.cu_seqlens_q != NULL;
    if (in->q)
        read_attention(p, m, in);
    else
        read_mha(p, m, in);
    return !m->failed;
}

void problem_settle(problem *p, const diagnose_input *in, attn_dtype dtype)
{
    p->dtype = dtype;
    p->a = arithmetic_of(dtype);
    p->given = in->tolerance_given;
    p->rtol = in->rtol;
    p->atol = in->atol;
    problem_facts(p);
}

int32_t problem_shape(const problem *p, const diagnose_input *in, int64_t shape[4])
{
    const int64_t rows[] = {p->B, p->H, p->Lq, p->d_v}, tokens[] = {p->Lq, p->H, p->d_v}, mha[] = {p->B, p->Lq, p->out};
    const int32_t rank = p->mha ? in->x->ndim : in->q->ndim;
    const int64_t *full = p->mha ? mha + 3 : p->packed ? tokens + 3 : rows + 4;
    memcpy(shape, full - rank, (size_t)rank * sizeof *shape);
    return rank;
}
