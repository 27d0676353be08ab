/* SPDX-License-Identifier: Apache-2.0 */
#include "problem.h"

#include <float.h>
#include <math.h>

static const attn_dtype float_dtypes[] = {ATTN_F32, ATTN_F64, ATTN_F16, ATTN_BF16};
static const attn_dtype whole_dtypes[] = {ATTN_BOOL, ATTN_I8, ATTN_U8, ATTN_I16, ATTN_U16, ATTN_I32, ATTN_U32, ATTN_I64, ATTN_U64};

attn_dtype random_float(rng *r) {
    return rng_chance(r, 0.4) ? ATTN_F32 : float_dtypes[rng_int(r, 0, 3)];
}

static attn_dtype f32_or_f64(rng *r) {
    return rng_chance(r, 0.5) ? ATTN_F32 : ATTN_F64;
}

/* A length: mostly up to 40, now and then up to 300, rarely beyond a piece of keys (1024). */
static int64_t any_length(rng *r, bool may_be_long) {
    const double u = rng_unit(r);
    if (may_be_long && u < 0.004) {
        return rng_int(r, 1000, 2300);
    }
    return u < 0.03 ? rng_int(r, 41, 300) : rng_int(r, u > 0.5 ? 1 : 0, u > 0.5 ? 40 : 9);
}

/* x in t's range, so that no input becomes infinite. */
static double in_range(attn_dtype t, double x) {
    const double limit = t == ATTN_F16 ? 65504 : t == ATTN_F64 ? DBL_MAX : 3.3e38;
    return fmax(-limit, fmin(limit, x));
}

/* Sizes of q and k elements that make logits ordinary, +-80, +-1e4, 1e6, denormal or close to overflow. */
static double logit_size(rng *r) {
    static const double sizes[] = {1, 9, 100, 1000, 1e-21, 1e17};
    return rng_chance(r, 0.7) ? 1 : sizes[rng_int(r, 0, 5)];
}

static double value_size(rng *r) {
    static const double sizes[] = {1e-40, 1e-4, 100, 1e30};
    return rng_chance(r, 0.8) ? 1 : sizes[rng_int(r, 0, 3)];
}

/* Normal numbers of a size; now and then all equal, or signed zeros among small integers. */
static void fill_input(const attn_tensor *t, rng *r, double size) {
    const double kind = rng_unit(r), constant = rng_normal(r);
    for (int64_t n0 = 0; n0 < axis_extent(t, 0); n0++) {
        for (int64_t n1 = 0; n1 < axis_extent(t, 1); n1++) {
            for (int64_t n2 = 0; n2 < axis_extent(t, 2); n2++) {
                for (int64_t n3 = 0; n3 < axis_extent(t, 3); n3++) {
                    const double x = kind < 0.03 ? constant : kind < 0.06 ? rint(rng_normal(r)) * -1.0 : rng_normal(r);
                    set_element(t, n0, n1, n2, n3, in_range(t->dtype, x * size));
                }
            }
        }
    }
}

/* ----------------------------------------------------------------- shapes ---- */

/* The sizes [0..3] = B, heads, L, width as the shape of a tensor of the problem's rank. Packed: [L, heads, width]. */
static void input_shape(const problem *p, int64_t heads, int64_t length, int64_t width, int64_t shape[4]) {
    const int64_t full[4] = {p->B, heads, length, width};
    for (int32_t axis = 0; axis < p->rank; axis++) {
        shape[axis] = full[4 - p->rank + axis];
    }
    if (p->packed) {
        shape[0] = length;
        shape[1] = heads;
    }
}

/* q, k and v as views of one [B,L,3,H,d] array, as a fused projection leaves them. */
static void fuse_inputs(problem *p) {
    const attn_dtype t = p->q.dtype;
    const int64_t shape[5] = {p->B, p->Lq, 3, p->H, p->d};
    const attn_tensor all = new_tensor(&p->memory, t, 5, shape);
    attn_tensor *const parts[] = {&p->q, &p->k, &p->v};
    for (int n = 0; n < 3; n++) {
        *parts[n] = (attn_tensor){.data = (char *)all.data + (size_t)(n * all.stride[2]) * attn_dtype_size(t), .dtype = t, .ndim = 4,
                                  .shape = {p->B, p->H, p->Lq, p->d},
                                  .stride = {all.stride[0], all.stride[3], all.stride[1], all.stride[4]}};
    }
}

static void choose_inputs(problem *p, rng *r) {
    int64_t shape[4];
    const attn_dtype common = rng_chance(r, 0.15) ? ATTN_BF16 : random_float(r); /* which has kernels of its own */
    const bool mixed = rng_chance(r, 0.3);
    input_shape(p, p->H, p->Lq, p->d, shape);
    p->q = new_scattered(&p->memory, r, mixed ? random_float(r) : common, p->rank, shape, true);
    input_shape(p, p->Hkv, p->Lk, p->d, shape);
    p->k = new_scattered(&p->memory, r, mixed ? random_float(r) : common, p->rank, shape, true);
    input_shape(p, p->Hkv, p->Lk, p->d_v, shape);
    p->v = new_scattered(&p->memory, r, mixed ? random_float(r) : common, p->rank, shape, true);
    if (p->rank == 4 && !mixed && p->Lq == p->Lk && p->H == p->Hkv && p->d == p->d_v && rng_chance(r, 0.5)) {
        fuse_inputs(p);
    }
    const double size = logit_size(r);
    fill_input(&p->q, r, size);
    fill_input(&p->k, r, size);
    fill_input(&p->v, r, value_size(r));
    input_shape(p, p->H, p->Lq, p->d_v, shape);
    p->out = new_scattered(&p->memory, r, rng_chance(r, 0.3) ? random_float(r) : p->q.dtype, p->rank, shape, false);
}

void random_sizes(problem *p, rng *r) {
    p->B = p->rank == 4 ? rng_int(r, rng_chance(r, 0.03) ? 0 : 1, 3) : 1;
    p->Hkv = p->rank >= 3 ? rng_int(r, 1, 3) : 1;
    p->H = p->rank >= 3 ? p->Hkv * (rng_chance(r, 0.5) ? 1 : rng_int(r, 2, 4)) : 1;
    p->d = rng_int(r, 1, rng_chance(r, 0.5) ? 70 : 9);
    p->d_v = rng_chance(r, 0.5) ? p->d : rng_int(r, rng_chance(r, 0.05) ? 0 : 1, 70);
    p->Lk = any_length(r, true);
    p->Lq = rng_chance(r, 0.3) ? p->Lk : any_length(r, false);
    if (p->Lk > 300 && p->Lq > 40) {
        p->Lq = 40;
    }
    p->items = p->B;
}

/* [items+1] row numbers, not decreasing, from 0 to *total, which is what they add up to. */
static attn_tensor choose_sequences(problem *p, rng *r, int64_t *total) {
    const attn_tensor cu = new_vector(&p->memory, rng_chance(r, 0.5) ? ATTN_I32 : ATTN_I64, p->items + 1);
    *total = 0;
    for (int64_t n = 0; n <= p->items; n++) {
        set_element(&cu, 0, 0, 0, n, (double)*total);
        *total += n < p->items && !rng_chance(r, 0.15) ? rng_int(r, 0, rng_chance(r, 0.1) ? 150 : 20) : 0;
    }
    return cu;
}

/* ---------------------------------------------------------------- options ---- */

/* A tensor that spreads over [B,H,Lq,Lk]. */
static attn_tensor new_mask(problem *p, rng *r, attn_dtype t) {
    const int64_t full[4] = {p->B, p->H, p->Lq, p->Lk};
    const int32_t rank = (int32_t)rng_int(r, 2, 4);
    int64_t shape[4];
    for (int32_t axis = 0; axis < rank; axis++) {
        shape[axis] = rng_chance(r, 0.25) ? 1 : full[4 - rank + axis];
    }
    return new_scattered(&p->memory, r, t, rank, shape, true);
}

static void fill_whole(const attn_tensor *t, rng *r, double share) {
    for (int64_t n0 = 0; n0 < axis_extent(t, 0); n0++) {
        for (int64_t n1 = 0; n1 < axis_extent(t, 1); n1++) {
            for (int64_t n2 = 0; n2 < axis_extent(t, 2); n2++) {
                for (int64_t n3 = 0; n3 < axis_extent(t, 3); n3++) {
                    const double truth = t->dtype == ATTN_BOOL ? (double)rng_int(r, 1, 255) : 1;
                    set_element(t, n0, n1, n2, n3, rng_unit(r) < share ? truth : 0);
                }
            }
        }
    }
}

/* Small numbers, some -inf; now and then -10000 and the lowest f32, which must be added as they are. */
static void fill_bias(const attn_tensor *t, rng *r) {
    const double hidden = rng_chance(r, 0.5) ? 0.2 : 0, lowest = rng_chance(r, 0.2) ? 0.2 : 0;
    const double floor = t->dtype == ATTN_F16 ? -65504 : t->dtype == ATTN_BF16 ? -0x1.FEp127 : -(double)FLT_MAX;
    for (int64_t n0 = 0; n0 < axis_extent(t, 0); n0++) {
        for (int64_t n1 = 0; n1 < axis_extent(t, 1); n1++) {
            for (int64_t n2 = 0; n2 < axis_extent(t, 2); n2++) {
                for (int64_t n3 = 0; n3 < axis_extent(t, 3); n3++) {
                    const double u = rng_unit(r), low = rng_chance(r, 0.5) ? -10000 : floor;
                    const double x = u < hidden ? -(double)INFINITY : u < hidden + lowest ? low : 3 * rng_normal(r);
                    set_element(t, n0, n1, n2, n3, x);
                }
            }
        }
    }
}

static void choose_masks(problem *p, rng *r) {
    attn_sdpa_opts *o = &p->opts;
    if (rng_chance(r, 0.35)) {
        p->mask = new_mask(p, r, rng_chance(r, 0.4) ? ATTN_BOOL : whole_dtypes[rng_int(r, 0, 8)]);
        fill_whole(&p->mask, r, rng_chance(r, 0.5) ? 0.7 : rng_unit(r));
        o->mask = &p->mask;
        o->flags |= rng_chance(r, 0.3) ? ATTN_MASK_DROP : 0;
    } else if (rng_chance(r, 0.15)) {
        p->mask = new_mask(p, r, random_float(r));
        fill_bias(&p->mask, r);
        o->mask = &p->mask;
    }
    if (rng_chance(r, 0.3)) {
        p->bias = new_mask(p, r, random_float(r));
        fill_bias(&p->bias, r);
        o->bias = &p->bias;
    }
}

/* The number of rows of an item. */
static int64_t item_rows(const problem *p, const attn_tensor *cu, int64_t item, int64_t length) {
    return p->packed ? (int64_t)(ref_element(cu, 0, 0, 0, item + 1) - ref_element(cu, 0, 0, 0, item)) : length;
}

static attn_tensor choose_lengths(problem *p, rng *r, const attn_tensor *cu, int64_t length) {
    const attn_tensor t = new_scattered(&p->memory, r, rng_chance(r, 0.5) ? ATTN_I32 : ATTN_I64, 1, &p->items, false);
    for (int64_t n = 0; n < p->items; n++) {
        set_element(&t, 0, 0, 0, n, (double)rng_int(r, 0, item_rows(p, cu, n, length)));
    }
    return t;
}

/* Lengths, causal, window, ALiBi and the anchor that they need. */
static void choose_geometry(problem *p, rng *r) {
    attn_sdpa_opts *o = &p->opts;
    o->flags |= rng_chance(r, 0.4) ? ATTN_CAUSAL : 0;
    if (rng_chance(r, 0.25)) {
        o->flags |= ATTN_WINDOW;
        o->window_left = rng_int(r, -1, rng_chance(r, 0.5) ? 6 : 200);
        o->window_right = rng_int(r, -1, rng_chance(r, 0.5) ? 6 : 200);
    }
    if (rng_chance(r, 0.2)) {
        o->flags |= ATTN_ALIBI;
    } else if (rng_chance(r, 0.1)) {
        const int64_t shape[2] = {p->items, p->H};
        const int32_t rank = (int32_t)rng_int(r, 1, 2);
        p->slopes = new_scattered(&p->memory, r, f32_or_f64(r), rank, shape + 2 - rank, true);
        fill_normal(&p->slopes, r, 0.3);
        o->flags |= ATTN_ALIBI;
        o->alibi_slopes = &p->slopes;
    }
    if (rng_chance(r, 0.2)) {
        p->kv_len = choose_lengths(p, r, &p->cu_k, p->Lk);
        o->kv_len = &p->kv_len;
    }
    if (rng_chance(r, 0.2)) {
        p->q_len = choose_lengths(p, r, &p->cu_q, p->Lq);
        o->q_len = &p->q_len;
    }
    switch (rng_int(r, 0, 4)) {
    case 0: o->align = ATTN_ALIGN_BOTTOM_RIGHT; break;
    case 1:
        o->flags |= ATTN_OFFSET;
        o->offset = rng_int(r, -10, p->Lk + 10);
        break;
    case 2:
        p->offsets = new_scattered(&p->memory, r, rng_chance(r, 0.5) ? ATTN_I32 : ATTN_I64, 1, &p->items, true);
        for (int64_t n = 0; n < p->items; n++) {
            set_element(&p->offsets, 0, 0, 0, n, (double)rng_int(r, -10, p->Lk + 10));
        }
        o->offsets = &p->offsets;
        break;
    case 3: o->align = ATTN_ALIGN_TOP_LEFT; break;
    default: /* the default is enough where Lq == Lk */
        o->align = p->packed || p->Lq != p->Lk ? ATTN_ALIGN_TOP_LEFT : ATTN_ALIGN_DEFAULT;
    }
}

static void choose_numbers(problem *p, rng *r) {
    static const double scales[] = {0, -0.5, 0.125, 1, 3};
    attn_sdpa_opts *o = &p->opts;
    if (rng_chance(r, 0.25)) {
        o->flags |= ATTN_SCALE;
        o->scale = scales[rng_int(r, 0, 4)];
    }
    if (rng_chance(r, 0.2)) {
        o->softcap = rng_chance(r, 0.5) ? 1.5 : 30;
    }
    if (rng_chance(r, 0.15)) {
        p->sinks = new_scattered(&p->memory, r, f32_or_f64(r), 1, &p->H, true);
        fill_normal(&p->sinks, r, rng_chance(r, 0.2) ? 100 : 2);
        o->sinks = &p->sinks;
    }
    if (rng_chance(r, 0.2)) {
        o->dropout = rng_chance(r, 0.1) ? 1 : 0.9 * rng_unit(r) + 0.01;
        o->seed = rng_next(r);
        o->first_batch = rng_int(r, 0, 5);
        o->first_head = rng_int(r, 0, 5);
        o->first_row = rng_chance(r, 0.5) ? rng_int(r, 0, 5) : rng_int(r, 0, (int64_t)1 << 40);
        if (!p->packed && rng_chance(r, 0.4)) {
            p->keep = new_mask(p, r, ATTN_BOOL);
            fill_whole(&p->keep, r, 1 - o->dropout);
            o->keep = &p->keep;
        }
    }
    o->flags |= rng_chance(r, 0.1) ? ATTN_RELAXED : 0;
}

attn_dtype computed_in(const problem *p) {
    const bool wide = p->q.dtype == ATTN_F64 || p->k.dtype == ATTN_F64 || p->v.dtype == ATTN_F64;
    return p->real ? p->real : wide ? ATTN_F64 : ATTN_F32;
}

/* An output of the trailing sizes of full[4] that the rank of the inputs leaves, dropping `lost` more. */
static attn_tensor *want(problem *p, rng *r, attn_tensor *t, int32_t ndim, const int64_t *shape, double chance) {
    if (!rng_chance(r, chance)) {
        return NULL;
    }
    *t = new_scattered(&p->memory, r, computed_in(p), ndim, shape, false);
    return t;
}

static void choose_outputs(problem *p, rng *r) {
    attn_sdpa_opts *o = &p->opts;
    const int32_t leading = 4 - p->rank; /* axes that the inputs lack */
    const int64_t rows[3] = {p->B, p->H, p->Lq}, keys[3] = {p->B, p->H, p->Lk};
    const int64_t cells[4] = {p->B, p->H, p->Lq, p->Lk}, averaged[3] = {p->B, p->Lq, p->Lk};
    o->lse = want(p, r, &p->lse, 3 - leading, rows + leading, 0.5);
    o->row_max = want(p, r, &p->row_max, 3 - leading, rows + leading, 0.2);
    o->entropy = want(p, r, &p->entropy, 3 - leading, rows + leading, 0.2);
    o->mass = want(p, r, &p->mass, 3 - leading, keys + leading, 0.2);
    if (p->packed) {
        return;
    }
    if (rng_chance(r, 0.3)) {
        const int32_t lost = p->rank == 4 ? 0 : 1;
        o->weights = want(p, r, &p->weights, 3 - lost, averaged + lost, 1);
        o->flags |= ATTN_AVERAGE;
    } else {
        o->weights = want(p, r, &p->weights, p->rank, cells + leading, 0.4);
    }
    o->scores = want(p, r, &p->scores, p->rank, cells + leading, 0.15);
    o->scaled = want(p, r, &p->scaled, p->rank, cells + leading, 0.15);
    o->capped = want(p, r, &p->capped, p->rank, cells + leading, 0.15);
    o->masked = want(p, r, &p->masked, p->rank, cells + leading, 0.15);
}

void random_options(problem *p, rng *r) {
    if (!p->packed) {
        choose_masks(p, r);
    }
    choose_geometry(p, r);
    choose_numbers(p, r);
    choose_outputs(p, r);
}

void random_problem(problem *p, uint64_t seed, uint64_t stream) {
    rng r = rng_of(seed, stream);
    *p = (problem){.opts = {.struct_size = sizeof(attn_sdpa_opts)}};
    p->packed = rng_chance(&r, 0.15);
    p->rank = p->packed ? 3 : (int32_t)(rng_chance(&r, 0.6) ? 4 : rng_int(&r, 2, 3));
    random_sizes(p, &r);
    if (p->packed) {
        p->items = rng_int(&r, 1, 4);
        p->cu_q = choose_sequences(p, &r, &p->Lq);
        p->cu_k = choose_sequences(p, &r, &p->Lk);
        p->opts.cu_seqlens_q = &p->cu_q;
        p->opts.cu_seqlens_k = &p->cu_k;
    }
    choose_inputs(p, &r);
    random_options(p, &r);
}

void print_problem(const problem *p) {
    const attn_sdpa_opts *o = &p->opts;
    print_error("  rank %d%s B %lld H %lld/%lld Lq %lld Lk %lld d %lld d_v %lld; q %s k %s v %s out %s\n", (int)p->rank,
                p->packed ? " packed" : "", (long long)p->B, (long long)p->H,
                (long long)p->Hkv, (long long)p->Lq, (long long)p->Lk, (long long)p->d,
                (long long)p->d_v, attn_dtype_name(p->q.dtype), attn_dtype_name(p->k.dtype), attn_dtype_name(p->v.dtype),
                attn_dtype_name(p->out.dtype));
    print_error("  flags %#x scale %g softcap %g align %d offset %lld window %lld,%lld dropout %g%s%s%s%s%s%s%s%s\n", (unsigned)o->flags,
                o->scale, o->softcap, (int)o->align, (long long)o->offset, (long long)o->window_left, (long long)o->window_right,
                o->dropout, o->mask ? " mask" : "", o->bias ? " bias" : "", o->offsets ? " offsets" : "", o->kv_len ? " kv_len" : "",
                o->q_len ? " q_len" : "", o->alibi_slopes ? " slopes" : "", o->sinks ? " sinks" : "", o->keep ? " keep" : "");
}
