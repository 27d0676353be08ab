/* SPDX-License-Identifier: Apache-2.0 */
/* Random calls of attn_mha against float64: ref_linear, the split into heads, ref_sdpa, the heads joined, ref_linear. 2000 problems. The
   bound of each stage includes what the stages before it may be off by. */
#include "differential.h"
#include "mha_problem.h"

#include <math.h>

typedef struct mha_trial {
    mha_problem m;
    ref_result r;
    estimate projected[3]; /* Q, K, V as [B*L][heads*dim] */
} mha_trial;

/* ---------------------------------------------------------------- reference ---- */

static estimate exact_rows(pool *m, const attn_tensor *t) {
    const int64_t items = axis_extent(t, 1), rows = axis_extent(t, 2), columns = axis_extent(t, 3);
    const estimate e = new_estimate(m, items * rows, columns);
    for (int64_t n = 0; n < items * rows * columns; n++) {
        e.value[n] = ref_element(t, 0, n / columns / rows, n / columns % rows, n % columns);
    }
    return e;
}

/* Column c of a table (H, in, dim) or (H, dim) is column c % dim of head c / dim. */
static double weight_at(const weights_view *v, int64_t term, int64_t column) {
    const int64_t c = v->first_column + column, dim = v->w->shape[v->w->ndim - 1];
    return v->w->ndim == 3 ? ref_element(v->w, 0, c / dim, term, c % dim) : ref_element(v->w, 0, 0, term, c);
}

static double bias_at(const weights_view *v, int64_t column) {
    const int64_t c = v->first_column + column, dim = v->b->shape[v->b->ndim - 1];
    return v->b->ndim == 2 ? ref_element(v->b, 0, 0, c / dim, c % dim) : ref_element(v->b, 0, 0, 0, c);
}

static estimate project(mha_problem *m, const weights_view *v, const estimate *a) {
    double *w = pool_get(&m->p.memory, (size_t)(v->terms * v->columns) * sizeof *w);
    double *b = v->b ? pool_get(&m->p.memory, (size_t)v->columns * sizeof *b) : NULL;
    for (int64_t n = 0; n < v->terms * v->columns; n++) {
        w[n] = weight_at(v, n / v->columns, n % v->columns);
    }
    for (int64_t c = 0; b && c < v->columns; c++) {
        b[c] = bias_at(v, c);
    }
    return linear_estimate(&m->p.memory, m->p.real, a, w, b, v->columns);
}

/* [B*L][heads*dim] seen as [B,heads,L,dim], or without B. */
static attn_tensor split(const problem *p, double *rows, int64_t heads, int64_t length, int64_t dim) {
    const attn_tensor t = attn_tensor_of(rows, ATTN_F64, 4, SHAPE(p->B, length, heads, dim));
    attn_tensor s = attn_tensor_permute(&t, (const int32_t[]){0, 2, 1, 3});
    for (int axis = 0; p->rank == 3 && axis < 3; axis++) {
        s.shape[axis] = s.shape[axis + 1];
        s.stride[axis] = s.stride[axis + 1];
    }
    s.ndim = p->rank;
    return s;
}

static void open_problem(void *made, uint64_t seed, uint64_t number) {
    mha_trial *x = made;
    mha_problem *m = &x->m;
    random_mha_problem(m, seed, number);
    problem *p = &m->p;
    const attn_tensor *const source[3] = {&m->x, &m->memory, &m->memory_v};
    attn_tensor *const value[3] = {&p->q, &p->k, &p->v}, *const error[3] = {&p->q_error, &p->k_error, &p->v_error};
    const int64_t heads[3] = {p->H, p->Hkv, p->Hkv}, length[3] = {p->Lq, p->Lk, p->Lk}, dim[3] = {p->d, p->d, p->d_v};
    for (int n = 0; n < 3; n++) {
        const estimate rows = exact_rows(&p->memory, source[n]);
        x->projected[n] = project(m, &m->view[n], &rows);
        *value[n] = split(p, x->projected[n].value, heads[n], length[n], dim[n]);
        *error[n] = split(p, x->projected[n].error, heads[n], length[n], dim[n]);
    }
    p->out_error = pool_get(&p->memory, (size_t)(p->B * p->H * p->Lq * p->d_v) * sizeof *p->out_error);
    assert_int_equal(ref_sdpa(&x->r, &p->q, &p->k, &p->v, &p->opts), 0);
}

/* [B,H,Lq,d_v] -> [B*Lq][H*d_v] */
static double *join(problem *p, double *heads) {
    const attn_tensor t = attn_tensor_of(heads, ATTN_F64, 4, SHAPE(p->B, p->H, p->Lq, p->d_v));
    const attn_tensor rows_first = attn_tensor_permute(&t, (const int32_t[]){0, 2, 1, 3});
    return packed_copy(&p->memory, &rows_first).data;
}

/* -------------------------------------------------------------------- checks ---- */

/* A projection that the call returned, [B,heads,L,dim], read as [B,L,heads,dim]. */
static bool check_projected(const mha_trial *x, const attn_tensor *given, int which, tally *t) {
    static const int32_t batched[] = {0, 2, 1, 3}, alone[] = {1, 0, 2};
    if (!given) {
        return true;
    }
    const attn_tensor rows_first = attn_tensor_permute(given, given->ndim == 4 ? batched : alone);
    return meets_estimate(&rows_first, &x->projected[which], x->m.p.real, PROJECTED, t);
}

static bool check_out(mha_trial *x, tally *t) {
    problem *p = &x->m.p;
    const weights_view *o = &x->m.view[OF_O];
    const estimate joined = {p->B * p->Lq, p->H * p->d_v, join(p, x->r.output), join(p, p->out_error)};
    const estimate out = o->w ? project(&x->m, o, &joined) : joined;
    return meets_estimate(&x->m.out, &out, p->real, JOINED, t);
}

/* What is not written is then seen. */
static void spoil_outputs(mha_problem *m) {
    const attn_tensor *const all[] = {&m->out, m->opts.q, m->opts.k, m->opts.v, m->opts.z};
    rng r = rng_of(0, 0);
    for (size_t n = 0; n < sizeof all / sizeof *all; n++) {
        if (all[n]) {
            fill_normal(all[n], &r, (double)NAN);
        }
    }
}

static bool call(mha_problem *m, attn_ctx *ctx) {
    attn_mha_weights *w = NULL;
    attn_status s = attn_mha_prepare(ctx, &w, &m->desc);
    s = s ? s : attn_mha(ctx, &m->out, w, &m->x, m->given_memory, m->given_memory_v, &m->opts);
    if (s != ATTN_OK) {
        print_error("%s: %s\n", attn_status_str(s), attn_ctx_error(ctx));
    }
    attn_mha_weights_destroy(w);
    return s == ATTN_OK;
}

static bool run(void *made, attn_ctx *ctx, tally *t) {
    mha_trial *x = made;
    const attn_mha_opts *o = &x->m.opts;
    spoil_outputs(&x->m);
    return call(&x->m, ctx) && check_projected(x, o->q, OF_Q, t) && check_projected(x, o->k, OF_K, t) &&
           check_projected(x, o->v, OF_V, t) && within_bounds(&x->m.p, &x->r, t) && check_out(x, t);
}

static void print(const void *made) {
    print_mha_problem(&((const mha_trial *)made)->m);
}

static void close_problem(void *made) {
    mha_trial *x = made;
    ref_free(&x->r);
    pool_free(&x->m.p.memory);
}

static void random_calls_meet_the_reference(void **state) {
    (void)state;
    const trial t = {open_problem, run, print, close_problem};
    mha_trial x;
    run_trials(&t, &x, 2000);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_calls_meet_the_reference)};
    return cmocka_run_group_tests_name("mha_differential", tests, NULL, NULL);
}
