/* SPDX-License-Identifier: Apache-2.0 */
/* sdpa_rows against the reference, over the options of a job. */
#include "harness.h"

#include <math.h>
#include <stdio.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* What the data is made of. HIDING: most keys are hidden by -inf and false. POISON_Q, _K, _V: one NaN or infinity there. POISON: NaNs of
   different bits in K and V, or a column of K is infinite, so that rows have nothing but infinite scores. */
enum data { NORMAL, LARGE, EQUAL, HIDING, DENORMAL, ZEROS, POISON_Q, POISON_K, POISON_V, POISON, DATA_KINDS };
static const char *const data_name[] = { "normal", "large logits", "all equal",   "hiding",      "denormal",
                                         "zeros",  "poison in q",  "poison in k", "poison in v", "poison" };

/* A job and the same problem in the words of the reference. */
typedef struct sdpa_case {
    harness *h;
    attn_sdpa_job job;
    problem p;
    enum data data;
    int64_t first, end; /* the rows of the next call */
    void *scratch, *states;
    double slopes[8], sinks[8];
} sdpa_case;

/* ------------------------------------------------------------------ shapes ---- */

static int64_t pick(rng *r, const int64_t *from, size_t n) { return from[rng_int(r, 0, (int64_t)n - 1)]; }

/* Around every vector length, block of queries, block (128) and piece (1024) of keys. */
static void choose_shape(sdpa_case *x)
{
    static const int64_t positions[] = { 0,  1,  1,  1,  2,  3,  4,  5,  7,  8,  9,  11, 12, 13,
                                         15, 16, 17, 23, 24, 25, 31, 32, 33, 47, 63, 64, 65, 67 };
    static const int64_t keys[] = { 0, 1, 2, 3, 7, 8, 9, 13, 15, 16, 17, 31, 33, 61, 64, 65, 127, 128, 129, 131, 255, 257 };
    static const int64_t dims[] = { 1, 2, 3, 4, 5, 7, 8, 9, 11, 12, 13, 15, 16, 17, 24, 31, 32, 33, 64, 65, 80 };
    static const int64_t long_keys[] = { 1023, 1024, 1025, 1151, 1153, 2049 };
    rng *r = &x->h->random;
    attn_sdpa_job *j = &x->job;
    j->heads = rng_chance(r, 0.5) ? 1 : rng_int(r, 1, 7);
    j->positions = pick(r, positions, COUNT(positions));
    j->n_keys = pick(r, keys, COUNT(keys));
    j->dim = pick(r, dims, COUNT(dims));
    j->value_dim = rng_chance(r, 0.02) ? 0 : pick(r, dims, COUNT(dims));
    if (rng_chance(r, 0.04)) {
        j->n_keys = pick(r, long_keys, COUNT(long_keys));
        j->positions = j->positions % 8;
        j->dim = j->dim % 16 + 1;
    }
    if (rng_chance(r, 0.02)) { /* more rows than pass over the keys together */
        j->positions = rng_int(r, 505, 530);
        j->heads = 1;
        j->n_keys %= 40;
    }
    x->p.B = x->p.items = x->p.Hkv = 1;
    x->p.H = j->heads;
    x->p.Lq = j->positions;
    x->p.Lk = j->n_keys;
    x->p.d = j->dim;
    x->p.d_v = j->value_dim;
}

/* ------------------------------------------------------------------- inputs ---- */

static double any_number(sdpa_case *x, double size)
{
    rng *r = &x->h->random;
    const double denormal = x->h->real == ATTN_F64 ? 1e-310 : 1e-41, least = x->h->real == ATTN_F64 ? 0x1p-1074 : 0x1p-149;
    switch (x->data) {
    case EQUAL: return 0.75;
    case LARGE: return size * rng_normal(r);
    case DENORMAL: return size == 0 ? least * (double)rng_int(r, -1, 1) : denormal * rng_normal(r);
    case ZEROS: return rng_chance(r, 0.5) ? 0. : -0.;
    default: return rng_normal(r);
    }
}

/* size: of the numbers where logits shall be large; 0 = values, of which denormal ones are so small that their products vanish. */
static void fill(sdpa_case *x, const array *a, double size)
{
    const attn_tensor t = tensor_of_array(a);
    for (int64_t h = 0; h < a->heads; h++)
        for (int64_t p = 0; p < a->positions; p++)
            for (int64_t c = 0; c < a->columns; c++)
                set_element(&t, 0, h, p, c, any_number(x, size));
}

static void poison(sdpa_case *x, const array *a, double with)
{
    const attn_tensor t = tensor_of_array(a);
    rng *r = &x->h->random;
    if (a->heads && a->positions && a->columns)
        set_element(&t, 0, rng_int(r, 0, a->heads - 1), rng_int(r, 0, a->positions - 1), rng_int(r, 0, a->columns - 1), with);
}

static void poison_much(sdpa_case *x, const array *k, const array *v)
{
    rng *r = &x->h->random;
    const attn_tensor keys = tensor_of_array(k);
    const bool is_column = rng_chance(r, 0.5);
    for (int64_t i = 0; is_column && i < k->positions; i++)
        set_element(&keys, 0, 0, i, 0, INFINITY);
    for (int i = 0; !is_column && i < 4; i++) {
        poison(x, k, copysign((double)NAN, i % 2 ? 1 : -1));
        poison(x, v, copysign((double)NAN, i % 2 ? -1 : 1));
    }
}

static attn_dtype any_float(sdpa_case *x)
{
    static const attn_dtype narrow[] = { ATTN_F32, ATTN_F16, ATTN_BF16, ATTN_F64 };
    rng *r = &x->h->random;
    if (x->h->is_of_pairs)
        return ATTN_BF16;
    return rng_chance(r, 0.6) ? x->h->real : narrow[rng_int(r, 0, x->h->real == ATTN_F64 ? 3 : 2)];
}

/* A table of pairs rounds its output whatever q, k and v are; f32 shows more of it. */
static attn_dtype any_output(sdpa_case *x)
{
    return x->h->is_of_pairs && rng_chance(&x->h->random, 0.5) ? ATTN_F32 : any_float(x);
}

static void make_inputs(sdpa_case *x)
{
    harness *h = x->h;
    attn_sdpa_job *j = &x->job;
    array *q = new_array(h, "q", h->is_of_pairs ? ATTN_BF16 : h->real, j->positions, j->heads, j->dim);
    array *k = new_array(h, "k", any_float(x), j->n_keys, 1, j->dim);
    array *v = new_array(h, "v", any_float(x), j->n_keys, 1, j->value_dim);
    fill(x, q, 9);
    fill(x, k, 9);
    fill(x, v, x->data == DENORMAL ? 0 : 1);
    if (x->data == POISON)
        poison_much(x, k, v);
    else if (x->data >= POISON_Q)
        poison(x, x->data == POISON_Q ? q : x->data == POISON_K ? k : v, (double[]){ NAN, INFINITY }[rng_int(&h->random, 0, 1)]);
    j->q = q->rows;
    j->k = k->rows;
    j->v = v->rows;
    x->p.q = tensor_of_array(q);
    x->p.k = tensor_of_array(k);
    x->p.v = tensor_of_array(v);
}

/* ------------------------------------------------------------------ options ---- */

/* An array [positions][heads][keys] of which axes may be spread. */
static array *new_map(sdpa_case *x, const char *name, attn_dtype dtype)
{
    rng *r = &x->h->random;
    const attn_sdpa_job *j = &x->job;
    const int64_t positions = rng_chance(r, 0.2) && j->positions ? 1 : j->positions, heads = rng_chance(r, 0.5) ? 1 : j->heads;
    return new_array(x->h, name, dtype, positions, heads, j->n_keys);
}

static void add_bias(sdpa_case *x, const char *name, attn_rows *rows, attn_tensor *tensor, const attn_tensor **option)
{
    static const attn_dtype dtypes[] = { ATTN_F32, ATTN_F64, ATTN_F16, ATTN_BF16 };
    rng *r = &x->h->random;
    array *a = new_map(x, name, rng_chance(r, 0.5) ? x->h->real : dtypes[rng_int(r, 0, 3)]);
    const attn_tensor t = tensor_of_array(a);
    const double p_hidden = x->data == HIDING ? 0.8 : rng_chance(r, 0.5) ? 0 : 0.2;
    for (int64_t h = 0; h < a->heads; h++)
        for (int64_t p = 0; p < a->positions; p++)
            for (int64_t c = 0; c < a->columns; c++)
                set_element(&t, 0, h, p, c, rng_chance(r, p_hidden) ? -(double)INFINITY : any_number(x, 9));
    *rows = a->rows;
    *tensor = t;
    *option = tensor;
}

static void add_keep(sdpa_case *x)
{
    static const attn_dtype dtypes[] = { ATTN_BOOL, ATTN_BOOL, ATTN_U8, ATTN_I32, ATTN_I64 };
    rng *r = &x->h->random;
    array *a = new_map(x, "keep", dtypes[rng_int(r, 0, 4)]);
    const attn_tensor t = tensor_of_array(a);
    const double p = x->data == HIDING ? 0.1 : 0.6;
    for (int64_t h = 0; h < a->heads; h++)
        for (int64_t i = 0; i < a->positions; i++)
            for (int64_t c = 0; c < a->columns; c++)
                set_element(&t, 0, h, i, c, rng_chance(r, p));
    x->job.keep = a->rows;
    x->job.keep_drops = x->data != HIDING && rng_chance(r, 0.3);
    x->p.opts.flags |= x->job.keep_drops ? ATTN_MASK_DROP : 0;
    x->p.mask = t;
    x->p.opts.mask = &x->p.mask;
}

static void choose_masks(sdpa_case *x)
{
    rng *r = &x->h->random;
    const bool must_hide = x->data == HIDING;
    if (must_hide || rng_chance(r, 0.3)) {
        if (rng_chance(r, 0.5))
            add_keep(x);
        else
            add_bias(x, "mask", &x->job.added[0], &x->p.mask, &x->p.opts.mask);
    }
    if (rng_chance(r, 0.25))
        add_bias(x, "bias", &x->job.added[1], &x->p.bias, &x->p.opts.bias);
}

static attn_tensor one_length(sdpa_case *x, int64_t n)
{
    const attn_tensor t = new_vector(&x->p.memory, ATTN_I64, 1);
    set_element(&t, 0, 0, 0, 0, (double)n);
    return t;
}

static void choose_positions(sdpa_case *x)
{
    rng *r = &x->h->random;
    attn_sdpa_job *j = &x->job;
    attn_sdpa_opts *o = &x->p.opts;
    j->kv_len = j->n_keys;
    j->q_len = j->positions;
    j->left = j->right = ATTN_FAR;
    o->flags |= ATTN_OFFSET;
    o->offset = j->offset = rng_chance(r, 0.5) ? 0 : rng_chance(r, 0.5) ? j->n_keys - j->positions : rng_int(r, -20, 20);
    if (rng_chance(r, 0.2)) {
        o->flags |= ATTN_WINDOW;
        o->window_left = rng_chance(r, 0.3) ? -1 : rng_int(r, 0, 40);
        o->window_right = rng_chance(r, 0.3) ? -1 : rng_int(r, 0, 40);
        j->left = o->window_left < 0 ? ATTN_FAR : o->window_left;
        j->right = o->window_right < 0 ? ATTN_FAR : o->window_right;
    }
    if (rng_chance(r, 0.3)) {
        o->flags |= ATTN_CAUSAL;
        j->right = 0;
    }
    if (rng_chance(r, 0.2)) {
        j->kv_len = rng_int(r, 0, j->n_keys);
        x->p.kv_len = one_length(x, j->kv_len);
        o->kv_len = &x->p.kv_len;
    }
    if (rng_chance(r, 0.2)) {
        j->q_len = rng_int(r, 0, j->positions);
        x->p.q_len = one_length(x, j->q_len);
        o->q_len = &x->p.q_len;
    }
}

static void choose_arithmetic(sdpa_case *x)
{
    static const double scales[] = { 0, -1, 0.25, 1 };
    rng *r = &x->h->random;
    attn_sdpa_job *j = &x->job;
    attn_sdpa_opts *o = &x->p.opts;
    o->flags |= ATTN_SCALE;
    o->scale = j->scale = rng_chance(r, 0.6) ? 1 / sqrt((double)j->dim) : scales[rng_int(r, 0, 3)];
    j->any_order = rng_chance(r, 0.3);
    o->flags |= j->any_order ? ATTN_RELAXED : 0;
    o->softcap = j->softcap = rng_chance(r, 0.2) ? (rng_chance(r, 0.5) ? 2 : 30) : 0;
    x->p.slopes = new_vector(&x->p.memory, ATTN_F64, j->heads);
    x->p.sinks = new_vector(&x->p.memory, ATTN_F64, j->heads);
    for (int64_t h = 0; h < j->heads; h++) {
        x->slopes[h] = (double)(float)rng_unit(r);
        x->sinks[h] = (double)(float)(3 * rng_normal(r));
        set_element(&x->p.slopes, 0, 0, 0, h, x->slopes[h]);
        set_element(&x->p.sinks, 0, 0, 0, h, x->sinks[h]);
    }
    if (rng_chance(r, 0.15)) {
        o->flags |= ATTN_ALIBI;
        o->alibi_slopes = &x->p.slopes;
        j->slopes = x->slopes;
    }
    if (rng_chance(r, 0.2)) {
        o->sinks = &x->p.sinks;
        j->sinks = x->sinks;
    }
}

static void choose_dropout(sdpa_case *x)
{
    rng *r = &x->h->random;
    attn_sdpa_job *j = &x->job;
    attn_sdpa_opts *o = &x->p.opts;
    if (!rng_chance(r, 0.15))
        return;
    j->drops_out = 1;
    o->dropout = j->dropout = rng_chance(r, 0.1) ? 1 : 0.3;
    o->seed = j->seed = rng_next(r);
    o->first_batch = j->drop_batch = rng_int(r, 0, 5);
    o->first_head = j->drop_head = rng_int(r, 0, 5);
    o->first_row = j->drop_row = rng_int(r, 0, 500);
    if (rng_chance(r, 0.3)) {
        array *a = new_map(x, "dropout_keep", ATTN_BOOL);
        x->p.keep = tensor_of_array(a);
        for (int64_t h = 0; h < a->heads; h++)
            for (int64_t i = 0; i < a->positions; i++)
                for (int64_t c = 0; c < a->columns; c++)
                    set_element(&x->p.keep, 0, h, i, c, rng_chance(r, 0.7));
        j->dropout_keep = a->rows;
        o->keep = &x->p.keep;
    }
}

/* ------------------------------------------------------------------ outputs ---- */

static array *new_output(sdpa_case *x, const char *name, attn_dtype dtype, int64_t positions, int64_t heads, int64_t columns)
{
    array *a = new_array(x->h, name, dtype, positions, heads, columns);
    a->is_output = true;
    return a;
}

/* A number of each row: [1, heads, positions]. */
static void want_numbers(sdpa_case *x, const char *name, attn_rows *rows, attn_tensor *tensor, attn_tensor **option)
{
    const array *a = new_output(x, name, x->h->real, x->job.positions, x->job.heads, 1);
    *rows = a->rows;
    *tensor = tensor_of_array(a);
    tensor->ndim = 3;
    *option = tensor;
}

/* A number of each cell: [1, heads, positions, keys]. */
static void want_cells(sdpa_case *x, const char *name, attn_rows *rows, attn_tensor *tensor, attn_tensor **option)
{
    const array *a = new_output(x, name, x->h->real, x->job.positions, x->job.heads, x->job.n_keys);
    *rows = a->rows;
    *tensor = tensor_of_array(a);
    *option = tensor;
}

static void zero(const attn_tensor *t)
{
    for (int64_t i = 0; i < axis_extent(t, 1); i++)
        for (int64_t j = 0; j < axis_extent(t, 2); j++)
            for (int64_t k = 0; k < axis_extent(t, 3); k++)
                set_element(t, 0, i, j, k, 0);
}

static void want_mass(sdpa_case *x)
{
    const array *a = new_output(x, "mass", x->h->real, 1, x->job.heads, x->job.n_keys);
    x->job.mass = a->rows;
    x->p.mass = (attn_tensor){ .data = a->rows.data, .dtype = x->h->real, .ndim = 3, .shape = { 1, a->heads, a->columns },
                               .stride = { 0, a->rows.head, a->rows.column } };
    x->p.opts.mass = &x->p.mass;
    zero(&x->p.mass);
}

static void want_average(sdpa_case *x)
{
    const array *a = new_output(x, "average", x->h->real, x->job.positions, 1, x->job.n_keys);
    x->job.weights = a->rows;
    x->job.average = 1 / (double)x->job.heads;
    x->p.weights = (attn_tensor){ .data = a->rows.data, .dtype = x->h->real, .ndim = 3, .shape = { 1, a->positions, a->columns },
                                  .stride = { 0, a->rows.position, a->rows.column } };
    x->p.opts.weights = &x->p.weights;
    x->p.opts.flags |= ATTN_AVERAGE;
    zero(&x->p.weights);
}

enum { WANT_LSE = 1, WANT_MAX = 2, WANT_ENTROPY = 4, WANT_MASS = 8, WANT_WEIGHTS = 16, WANT_AVERAGE = 32, WANT_STAGES = 64 };

static void make_outputs(sdpa_case *x, unsigned wanted, attn_dtype out_dtype)
{
    attn_sdpa_job *j = &x->job;
    problem *p = &x->p;
    attn_sdpa_opts *o = &p->opts;
    const array *out = new_output(x, "out", out_dtype, j->positions, j->heads, j->value_dim);
    j->out = out->rows;
    p->out = tensor_of_array(out);
    if (wanted & WANT_LSE)
        want_numbers(x, "lse", &j->lse, &p->lse, &o->lse);
    if (wanted & WANT_MAX)
        want_numbers(x, "row_max", &j->row_max, &p->row_max, &o->row_max);
    if (wanted & WANT_ENTROPY)
        want_numbers(x, "entropy", &j->entropy, &p->entropy, &o->entropy);
    if (wanted & WANT_MASS)
        want_mass(x);
    if (wanted & WANT_AVERAGE)
        want_average(x);
    else if (wanted & WANT_WEIGHTS)
        want_cells(x, "weights", &j->weights, &p->weights, &o->weights);
    if (wanted & WANT_STAGES) {
        want_cells(x, "scores", &j->scores, &p->scores, &o->scores);
        want_cells(x, "scaled", &j->scaled, &p->scaled, &o->scaled);
        want_cells(x, "capped", &j->capped, &p->capped, &o->capped);
        want_cells(x, "masked", &j->masked, &p->masked, &o->masked);
    }
}

/* ------------------------------------------------------------------- checks ---- */

/* A NaN or infinity that a row sees shows in each of its columns that it touches. */
static void check_poison(sdpa_case *x, const ref_result *r)
{
    for (int64_t h = 0; h < r->H; h++)
        for (int64_t i = 0; i < r->Lq; i++)
            for (int64_t c = 0; c < r->d_v; c++) {
                const double want = r->output[(h * r->Lq + i) * r->d_v + c], got = ref_element(&x->p.out, 0, h, i, c);
                if (!isfinite(want) && isfinite(got)) {
                    complain(x->h, "out [%lld,%lld,%lld] is %g, but the row sees a NaN or infinity", (long long)h, (long long)i,
                             (long long)c, got);
                    return;
                }
            }
}

static void describe(const sdpa_case *x)
{
    const attn_sdpa_job *j = &x->job;
    fprintf(stderr, "  %lld heads, %lld positions, %lld keys, d %lld, d_v %lld, %s; q %s, k %s, v %s, out %s; flags %#x%s%s%s%s%s%s\n",
            (long long)j->heads, (long long)j->positions, (long long)j->n_keys, (long long)j->dim, (long long)j->value_dim,
            data_name[x->data], attn_dtype_name(j->q.dtype), attn_dtype_name(j->k.dtype), attn_dtype_name(j->v.dtype),
            attn_dtype_name(j->out.dtype), x->p.opts.flags, j->softcap > 0 ? ", softcap" : "", j->sinks ? ", sinks" : "",
            j->drops_out ? ", dropout" : "", j->keep.data ? ", keep" : "", j->added[0].data ? ", mask" : "",
            j->added[1].data ? ", bias" : "");
}

static void check_values(sdpa_case *x)
{
    ref_result r;
    if (ref_sdpa(&r, &x->p.q, &x->p.k, &x->p.v, &x->p.opts)) {
        complain(x->h, "the reference ran out of memory");
        return;
    }
    const int64_t before = x->h->failures;
    if (!within_bounds(&x->p, &r, &x->h->worst))
        complain(x->h, "differs from the reference, see above");
    if (x->data >= POISON_Q && x->job.value_dim)
        check_poison(x, &r);
    if (x->h->failures > before)
        describe(x);
    ref_free(&r);
}

static void compare_bits(sdpa_case *x, const sdpa_case *y, const char *what)
{
    const attn_tensor *const a[] = { &x->p.out, x->p.opts.lse, x->p.opts.row_max, x->p.opts.entropy, x->p.opts.mass, x->p.opts.weights,
                                     x->p.opts.scores, x->p.opts.scaled, x->p.opts.capped, x->p.opts.masked };
    const attn_tensor *const b[] = { &y->p.out, y->p.opts.lse, y->p.opts.row_max, y->p.opts.entropy, y->p.opts.mass, y->p.opts.weights,
                                     y->p.opts.scores, y->p.opts.scaled, y->p.opts.capped, y->p.opts.masked };
    static const char *const names[] = { "out", "lse", "row_max", "entropy", "mass", "weights", "scores", "scaled", "capped", "masked" };
    for (size_t i = 0; i < COUNT(a); i++)
        if (a[i] && !same_bits(names[i], a[i], b[i])) {
            complain(x->h, "%s: other bits", what);
            describe(x);
            return;
        }
}

/* -------------------------------------------------------------------- calls ---- */

static void run_rows(void *user)
{
    const sdpa_case *x = user;
    x->h->kernels->sdpa_rows(&x->job, x->first, x->end, x->scratch);
}

static bool call_rows(sdpa_case *x, int64_t first, int64_t end)
{
    x->first = first;
    x->end = end;
    return first == end || call_kernel(x->h, run_rows, x);
}

/* Scratch memory of exactly the size that the kernel asks for. */
static bool make_scratch(sdpa_case *x)
{
    const int64_t size = x->h->kernels->sdpa_scratch(&x->job);
    if (size <= 0 || size % 64 != 0) {
        complain(x->h, "sdpa_scratch is %lld, no multiple of 64", (long long)size);
        return false;
    }
    array *a = new_plain_array(x->h, "scratch", ATTN_U8, 1, 1, size);
    a->is_output = true;
    x->scratch = a->rows.data;
    return true;
}

static bool make_case(sdpa_case *x, harness *h)
{
    *x = (sdpa_case){ .h = h, .data = (enum data)(h->number % DATA_KINDS), .p.rounds_weights = h->is_of_pairs };
    choose_shape(x);
    make_inputs(x);
    choose_masks(x);
    choose_positions(x);
    choose_arithmetic(x);
    choose_dropout(x);
    return make_scratch(x);
}

void test_sdpa_rows(harness *h)
{
    sdpa_case x;
    rng *r = &h->random;
    if (!make_case(&x, h)) {
        pool_free(&x.p.memory);
        return;
    }
    const unsigned wanted = rng_chance(r, 0.4) ? 0 : (unsigned)rng_next(r) & 127;
    const attn_dtype out_dtype = any_output(&x);
    const int64_t rows = x.job.positions * x.job.heads;
    sdpa_case again = x;
    make_outputs(&x, wanted, out_dtype);
    if (call_rows(&x, 0, rows))
        check_values(&x);
    /* Once more, in two parts where no sum over rows is asked for, with the arrays at the other side of their pages. */
    h->side = h->side == GUARD_AFTER ? GUARD_BEFORE : GUARD_AFTER;
    make_outputs(&again, wanted, out_dtype);
    if (make_scratch(&again)) {
        const int64_t cut = wanted & WANT_MASS ? rows : rng_int(r, 0, rows);
        if (call_rows(&again, 0, cut) && call_rows(&again, cut, rows))
            compare_bits(&x, &again, "a second time, in two parts");
    }
    pool_free(&x.p.memory);
}

static void run_pieces(void *user)
{
    const sdpa_case *x = user;
    const attn_kernels *k = x->h->kernels;
    const int64_t pieces = k->sdpa_pieces(&x->job);
    for (int64_t i = 0; i < pieces; i++) {
        const int64_t piece = x->first ? pieces - 1 - i : i;
        k->sdpa_piece(&x->job, piece, (char *)x->states + piece * k->sdpa_state(&x->job), x->scratch);
    }
    k->sdpa_join(&x->job, x->states, x->scratch);
}

/* Cut along the keys, the pieces in either order: the bits of sdpa_rows. */
static void check_pieces(harness *h, int backwards)
{
    sdpa_case x;
    if (!make_case(&x, h) || x.job.positions * x.job.heads > h->kernels->sdpa_block()) {
        pool_free(&x.p.memory);
        return;
    }
    const unsigned wanted = (unsigned)rng_next(&h->random) & 127;
    const attn_dtype out_dtype = any_output(&x);
    sdpa_case again = x;
    make_outputs(&x, wanted, out_dtype);
    const bool ran = call_rows(&x, 0, x.job.positions * x.job.heads);
    h->side = h->side == GUARD_AFTER ? GUARD_BEFORE : GUARD_AFTER;
    make_outputs(&again, wanted, out_dtype);
    const int64_t bytes = h->kernels->sdpa_pieces(&x.job) * h->kernels->sdpa_state(&x.job);
    if (ran && make_scratch(&again)) {
        array *states = new_plain_array(h, "states", ATTN_U8, 1, 1, bytes);
        states->is_output = true;
        again.states = states->rows.data;
        again.first = backwards;
        if (call_kernel(h, run_pieces, &again))
            compare_bits(&x, &again, "cut along the keys");
    }
    pool_free(&x.p.memory);
}

void test_sdpa_piece(harness *h) { check_pieces(h, 0); }
void test_sdpa_join(harness *h) { check_pieces(h, 1); }

/* Alone. */
void test_sdpa_block(harness *h)
{
    const int64_t rows = h->kernels->sdpa_block();
    if (rows < 1 || rows > h->kernels->sdpa_unit())
        complain(h, "sdpa_block is %lld, sdpa_unit %lld", (long long)rows, (long long)h->kernels->sdpa_unit());
}

void test_sdpa_pieces(harness *h)
{
    const int64_t keys = h->number % 5000, n = h->kernels->sdpa_pieces(&(attn_sdpa_job){ .n_keys = keys }),
                  one_more = h->kernels->sdpa_pieces(&(attn_sdpa_job){ .n_keys = keys + 1 });
    if ((n == 0) != (keys == 0) || one_more < n || one_more > n + 1)
        complain(h, "%lld keys are %lld pieces, and one key more %lld", (long long)keys, (long long)n, (long long)one_more);
}

void test_sdpa_state(harness *h)
{
    const int64_t size = h->kernels->sdpa_state(&(attn_sdpa_job){ .value_dim = h->number % 300 });
    if (size <= 0 || size % 64 != 0)
        complain(h, "sdpa_state is %lld, no multiple of 64", (long long)size);
}

/* Alone: the size grows with the job and never depends on its data. */
void test_sdpa_scratch(harness *h)
{
    sdpa_case x;
    if (make_case(&x, h)) {
        const int64_t size = h->kernels->sdpa_scratch(&x.job);
        x.job.dim += 64;
        x.job.value_dim += 64;
        const int64_t more = h->kernels->sdpa_scratch(&x.job);
        if (more <= size || more > 1 << 28)
            complain(h, "%lld bytes, with 64 columns more %lld", (long long)size, (long long)more);
    }
    pool_free(&x.p.memory);
}
