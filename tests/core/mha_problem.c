/* SPDX-License-Identifier: Apache-2.0 */
#include "mha_problem.h"

#include <math.h>

static attn_dtype not_f64(rng *r) {
    attn_dtype t;
    do {
        t = random_float(r);
    } while (t == ATTN_F64);
    return t;
}

static int64_t any_width(rng *r) {
    return rng_int(r, rng_chance(r, 0.02) ? 0 : 1, rng_chance(r, 0.5) ? 70 : 9);
}

/* ---------------------------------------------------------------- weights ---- */

/* (in, heads * dim), or a table per head (heads, in, dim); normal numbers that make the columns of x W about `size` each. */
static attn_tensor new_matrix(pool *m, rng *r, attn_dtype t, int64_t heads, int64_t in, int64_t dim, bool table, double size) {
    const int64_t shape[] = {heads, in, dim};
    const attn_tensor w = table ? new_scattered(m, r, t, 3, shape, true) : new_scattered(m, r, t, 2, SHAPE(in, heads * dim), true);
    fill_normal(&w, r, size / sqrt((double)(in ? in : 1)));
    return w;
}

/* One number for each column, or (heads, dim). */
static attn_tensor new_bias(pool *m, rng *r, attn_dtype t, int64_t heads, int64_t dim) {
    const bool table = rng_chance(r, 0.3);
    const attn_tensor b = new_scattered(m, r, t, table ? 2 : 1, table ? SHAPE(heads, dim) : SHAPE(heads * dim), true);
    fill_normal(&b, r, 0.5);
    return b;
}

/* The sizes that make logits ordinary, +-100, +-1e4 or denormal. */
static double any_size(rng *r) {
    static const double sizes[] = {1, 10, 100, 1e-20};
    return rng_chance(r, 0.8) ? 1 : sizes[rng_int(r, 0, 3)];
}

static void choose_separate(mha_problem *m, rng *r, const attn_dtype dtype[PROJECTIONS]) {
    problem *p = &m->p;
    const int64_t in[3] = {m->x.shape[m->x.ndim - 1], m->memory.shape[m->x.ndim - 1], m->memory_v.shape[m->x.ndim - 1]};
    const int64_t heads[3] = {p->H, p->Hkv, p->Hkv}, dim[3] = {p->d, p->d, p->d_v};
    const attn_tensor **const w[] = {&m->desc.w_q, &m->desc.w_k, &m->desc.w_v}, **const b[] = {&m->desc.b_q, &m->desc.b_k, &m->desc.b_v};
    const double size = any_size(r);
    for (int n = 0; n < 3; n++) {
        m->w[n] = new_matrix(&p->memory, r, dtype[n], heads[n], in[n], dim[n], rng_chance(r, 0.3), n == OF_V ? 1 : size);
        *w[n] = &m->w[n];
        if (rng_chance(r, 0.6)) {
            m->b[n] = new_bias(&p->memory, r, dtype[rng_int(r, 0, 3)], heads[n], dim[n]);
            *b[n] = &m->b[n];
        }
        m->view[n] = (weights_view){*w[n], *b[n], 0, in[n], heads[n] * dim[n]};
    }
}

static void choose_fused(mha_problem *m, rng *r, const attn_dtype dtype[PROJECTIONS]) {
    problem *p = &m->p;
    const int64_t in = m->x.shape[m->x.ndim - 1], parts = p->H + 2 * p->Hkv, heads[3] = {p->H, p->Hkv, p->Hkv};
    int64_t column = 0;
    m->w[0] = new_matrix(&p->memory, r, dtype[0], parts, in, p->d, false, any_size(r));
    m->desc.w_qkv = &m->w[0];
    if (rng_chance(r, 0.6)) {
        m->b[0] = new_bias(&p->memory, r, dtype[1], parts, p->d);
        m->desc.b_qkv = &m->b[0];
    }
    for (int n = 0; n < 3; n++) {
        m->view[n] = (weights_view){m->desc.w_qkv, m->desc.b_qkv, column, in, heads[n] * p->d};
        column += heads[n] * p->d;
    }
}

/* W_O, and the output of its width; without it the heads joined. */
static void choose_output(mha_problem *m, rng *r, const attn_dtype dtype[PROJECTIONS]) {
    problem *p = &m->p;
    const int64_t joined = p->H * p->d_v, width = rng_chance(r, 0.8) ? any_width(r) : joined, shape[] = {p->B, p->Lq, width};
    if (width != joined || rng_chance(r, 0.5)) {
        m->w[OF_O] = new_matrix(&p->memory, r, dtype[OF_O], 1, joined, width, false, 1);
        m->desc.w_o = &m->w[OF_O];
        if (rng_chance(r, 0.6)) {
            m->b[OF_O] = new_bias(&p->memory, r, dtype[rng_int(r, 0, 3)], 1, width);
            m->desc.b_o = &m->b[OF_O];
        }
    }
    m->view[OF_O] = (weights_view){m->desc.w_o, m->desc.b_o, 0, joined, width};
    m->out = new_scattered(&p->memory, r, random_float(r), p->rank - 1, shape + 4 - p->rank, false);
}

static void choose_weights(mha_problem *m, rng *r, bool fused) {
    const attn_dtype common = random_float(r);
    const bool mixed = rng_chance(r, 0.3);
    attn_dtype dtype[PROJECTIONS];
    for (int n = 0; n < PROJECTIONS; n++) {
        dtype[n] = mixed ? random_float(r) : common;
    }
    if (fused) {
        choose_fused(m, r, dtype);
    } else {
        choose_separate(m, r, dtype);
    }
    choose_output(m, r, dtype);
    m->desc.heads = m->p.H;
    m->desc.kv_heads = m->p.Hkv == m->p.H && rng_chance(r, 0.5) ? 0 : m->p.Hkv;
    m->desc.flags = rng_chance(r, 0.1) ? ATTN_MHA_F64 : 0;
    bool wide = m->desc.flags != 0;
    for (int n = 0; n < PROJECTIONS; n++) {
        wide = wide || m->w[n].dtype == ATTN_F64 || m->b[n].dtype == ATTN_F64;
    }
    m->p.real = wide ? ATTN_F64 : ATTN_F32;
}

/* ------------------------------------------------------------------ inputs ---- */

/* [B,rows,width], or [rows,width] without a batch. */
static attn_tensor new_rows(mha_problem *m, int64_t rows, int64_t width) {
    const int64_t shape[] = {m->p.B, rows, width};
    return (attn_tensor){.ndim = m->p.rank - 1, .shape = {shape[4 - m->p.rank], shape[5 - m->p.rank], width}};
}

/* Self-attention, one memory for K and V, or one for each. The shapes; the numbers come when it is known what is computed in. */
static void choose_sources(mha_problem *m, rng *r, bool fused) {
    problem *p = &m->p;
    const int64_t kind = rng_int(r, 0, 2), width = any_width(r), memory_width = fused || kind == 0 ? width : any_width(r);
    const int64_t memory_v_width = fused || kind < 2 ? memory_width : any_width(r);
    p->Lk = kind == 0 ? p->Lq : p->Lk;
    m->x = new_rows(m, p->Lq, width);
    m->memory = new_rows(m, p->Lk, memory_width);
    m->memory_v = new_rows(m, p->Lk, memory_v_width);
    m->given_memory = kind > 0 ? &m->memory : NULL;
    m->given_memory_v = kind > 1 ? &m->memory_v : NULL;
}

static void fill_rows(mha_problem *m, rng *r, attn_tensor *t) {
    const attn_dtype dtype = m->p.real == ATTN_F64 ? random_float(r) : not_f64(r);
    *t = new_scattered(&m->p.memory, r, dtype, t->ndim, t->shape, true);
    fill_normal(t, r, 1);
}

static void fill_sources(mha_problem *m, rng *r) {
    fill_rows(m, r, &m->x);
    if (m->given_memory) {
        fill_rows(m, r, &m->memory);
    } else {
        m->memory = m->x;
    }
    if (m->given_memory_v) {
        fill_rows(m, r, &m->memory_v);
    } else {
        m->memory_v = m->memory;
    }
}

/* ----------------------------------------------------------------- outputs ---- */

static attn_tensor *want_heads(mha_problem *m, rng *r, attn_tensor *t, int64_t heads, int64_t rows, int64_t width) {
    const int64_t shape[] = {m->p.B, heads, rows, width};
    if (!rng_chance(r, 0.3)) {
        return NULL;
    }
    *t = new_scattered(&m->p.memory, r, m->p.real, m->p.rank, shape + 4 - m->p.rank, false);
    return t;
}

void random_mha_problem(mha_problem *m, uint64_t seed, uint64_t stream) {
    rng r = rng_of(seed, stream);
    *m = (mha_problem){.p = {.opts = {.struct_size = sizeof(attn_sdpa_opts)}}};
    problem *p = &m->p;
    const bool fused = rng_chance(&r, 0.3);
    p->rank = rng_chance(&r, 0.6) ? 4 : 3;
    random_sizes(p, &r);
    p->d_v = fused ? p->d : p->d_v;
    choose_sources(m, &r, fused);
    choose_weights(m, &r, fused);
    fill_sources(m, &r);
    if (rng_chance(&r, 0.9)) {
        random_options(p, &r);
        m->opts.sdpa = &p->opts;
    }
    m->opts.q = want_heads(m, &r, &m->q, p->H, p->Lq, p->d);
    m->opts.k = want_heads(m, &r, &m->k, p->Hkv, p->Lk, p->d);
    m->opts.v = want_heads(m, &r, &m->v, p->Hkv, p->Lk, p->d_v);
    m->opts.z = want_heads(m, &r, &p->out, p->H, p->Lq, p->d_v);
}

void print_mha_problem(const mha_problem *m) {
    static const char *const name[PROJECTIONS] = {"w_q", "w_k", "w_v", "w_o"};
    print_error("  computed in %s, %s; x %s, memory %s, memory_v %s, out %s; stages%s%s%s%s\n", attn_dtype_name(m->p.real),
                m->desc.w_qkv ? "fused" : "separate", attn_dtype_name(m->x.dtype), m->given_memory ? attn_dtype_name(m->memory.dtype) : "x",
                m->given_memory_v ? attn_dtype_name(m->memory_v.dtype) : "memory", attn_dtype_name(m->out.dtype), m->opts.q ? " q" : "",
                m->opts.k ? " k" : "", m->opts.v ? " v" : "", m->opts.z ? " z" : "");
    for (int n = 0; n < PROJECTIONS; n++) {
        const weights_view *v = &m->view[n];
        print_error("  %s %lld x %lld %s of rank %d%s\n", name[n], (long long)v->terms, (long long)v->columns,
                    v->w ? attn_dtype_name(v->w->dtype) : "absent", v->w ? (int)v->w->ndim : 0, v->b ? " with bias" : "");
    }
    print_problem(&m->p);
}
