/* SPDX-License-Identifier: Apache-2.0 */
#include "call.h"

#include <math.h>

static attn_dtype by_product_dtype(attn_dtype t) {
    return t == ATTN_F64 ? ATTN_F64 : ATTN_F32;
}

static void new_outputs(pool *p, call *c) {
    const sizes *s = &c->s;
    const attn_dtype t = by_product_dtype(c->q.dtype);
    c->out = TENSOR(p, c->q.dtype, s->B, s->H, s->Lq, s->d_v);
    c->lse = TENSOR(p, t, s->B, s->H, s->Lq);
    c->row_max = TENSOR(p, t, s->B, s->H, s->Lq);
    c->entropy = TENSOR(p, t, s->B, s->H, s->Lq);
    c->weights = TENSOR(p, t, s->B, s->H, s->Lq, s->Lk);
}

call new_call(pool *p, rng *r, attn_dtype t, sizes s, unsigned features) {
    call c = {.s = s, .o = {.flags = ATTN_OFFSET, .offset = s.Lk - s.Lq}};
    c.q = TENSOR(p, t, s.B, s.H, s.Lq, s.d);
    c.k = TENSOR(p, t, s.B, s.Hkv, s.Lk, s.d);
    c.v = TENSOR(p, t, s.B, s.Hkv, s.Lk, s.d_v);
    fill_normal(&c.q, r, features & STEEP ? 15 : 2);
    fill_normal(&c.k, r, 2);
    fill_normal(&c.v, r, features & TINY ? 0x1p-149 : 1);
    c.o.flags |= (features & CAUSAL ? ATTN_CAUSAL : 0) | (features & WINDOW ? ATTN_WINDOW : 0) | (features & ALIBI ? ATTN_ALIBI : 0) |
                 (features & RELAXED ? ATTN_RELAXED : 0);
    c.o.window_left = features & FAR ? 700 : 45;
    c.o.window_right = 7;
    c.o.softcap = features & SOFTCAP ? 5 : 0;
    c.o.dropout = features & DROPOUT ? 0.3 : 0;
    c.o.seed = rng_next(r);
    if (features & ALIBI) {
        c.slopes = TENSOR(p, ATTN_F32, s.B, s.H);
        fill_normal(&c.slopes, r, 0.2);
    }
    if (features & SINKS) {
        c.sinks = TENSOR(p, ATTN_F32, s.H);
        fill_normal(&c.sinks, r, 1);
    }
    if (features & BIAS) {
        c.bias = TENSOR(p, t, s.B, s.H, s.Lq, s.Lk);
        fill_normal(&c.bias, r, 1);
    }
    if (features & MASK) {
        c.mask = TENSOR(p, ATTN_BOOL, s.Lq, s.Lk);
        for (int64_t i = 0; i < s.Lq; i++) {
            for (int64_t j = 0; j < s.Lk; j++) {
                set_element(&c.mask, 0, 0, i, j, i % 11 != 5 && rng_chance(r, 0.7)); /* every eleventh row sees nothing */
            }
        }
    }
    new_outputs(p, &c);
    return c;
}

/* Axis `axis` of [B,H,Lq,Lk] (or a tail of it) from begin to end, unless it spreads or is not there. */
static attn_tensor cut(attn_tensor t, int axis, int64_t begin, int64_t end) {
    const int own = axis - (4 - t.ndim);
    return t.ndim == 0 || own < 0 || t.shape[own] == 1 ? t : slice(t, own, begin, end);
}

call part_of(pool *p, const call *whole, range n) {
    call c = *whole;
    const int64_t group = whole->s.H / whole->s.Hkv, kv0 = n.h0 / group, kv1 = (n.h1 + group - 1) / group;
    c.s.B = n.b1 - n.b0;
    c.s.H = n.h1 - n.h0;
    c.s.Hkv = kv1 - kv0;
    c.s.Lq = n.i1 - n.i0;
    c.q = slice(slice(slice(c.q, 0, n.b0, n.b1), 1, n.h0, n.h1), 2, n.i0, n.i1);
    c.k = slice(slice(c.k, 0, n.b0, n.b1), 1, kv0, kv1);
    c.v = slice(slice(c.v, 0, n.b0, n.b1), 1, kv0, kv1);
    c.mask = cut(cut(cut(c.mask, 0, n.b0, n.b1), 1, n.h0, n.h1), 2, n.i0, n.i1);
    c.bias = cut(cut(cut(c.bias, 0, n.b0, n.b1), 1, n.h0, n.h1), 2, n.i0, n.i1);
    c.slopes = c.slopes.ndim ? slice(slice(c.slopes, 0, n.b0, n.b1), 1, n.h0, n.h1) : c.slopes;
    c.sinks = c.sinks.ndim ? slice(c.sinks, 0, n.h0, n.h1) : c.sinks;
    c.o.offset += n.i0;
    c.o.first_batch += n.b0;
    c.o.first_head += n.h0;
    c.o.first_row += n.i0;
    new_outputs(p, &c);
    return c;
}

static attn_tensor scattered_copy(pool *p, rng *r, const attn_tensor *t, bool input) {
    if (t->ndim == 0) {
        return *t;
    }
    const attn_tensor copy = new_scattered(p, r, t->dtype, t->ndim, t->shape, false);
    if (input) {
        copy_elements(&copy, t);
    }
    return copy;
}

call scattered(pool *p, rng *r, const call *c) {
    call x = *c;
    attn_tensor *const inputs[] = {&x.q, &x.k, &x.v, &x.mask, &x.bias, &x.slopes, &x.sinks};
    attn_tensor *const outputs[] = {&x.out, &x.lse, &x.row_max, &x.entropy, &x.weights};
    for (size_t n = 0; n < sizeof inputs / sizeof *inputs; n++) {
        *inputs[n] = scattered_copy(p, r, inputs[n], true);
    }
    for (size_t n = 0; n < sizeof outputs / sizeof *outputs; n++) {
        *outputs[n] = scattered_copy(p, r, outputs[n], false);
    }
    return x;
}

call first_keys(pool *p, const call *c, int64_t n) {
    call x = *c;
    x.s.Lk = n;
    x.k = slice(x.k, 2, 0, n);
    x.v = slice(x.v, 2, 0, n);
    x.mask = cut(x.mask, 3, 0, n);
    x.bias = cut(x.bias, 3, 0, n);
    new_outputs(p, &x);
    return x;
}

static const attn_tensor *given(const attn_tensor *t) {
    return t->ndim ? t : NULL;
}

static attn_sdpa_opts options_of(call *c) {
    attn_sdpa_opts o = c->o;
    o.mask = given(&c->mask);
    o.bias = given(&c->bias);
    o.alibi_slopes = given(&c->slopes);
    o.sinks = given(&c->sinks);
    o.lse = &c->lse;
    o.row_max = &c->row_max;
    o.entropy = &c->entropy;
    o.weights = &c->weights;
    return o;
}

attn_status call_run(attn_ctx *ctx, call *c) {
    const attn_sdpa_opts o = options_of(c);
    return attn_sdpa(ctx, &c->out, &c->q, &c->k, &c->v, &o);
}

attn_status call_attend(attn_ctx *ctx, const attn_kv *kv, call *c) {
    attn_sdpa_opts o = options_of(c);
    o.flags &= ~(unsigned)ATTN_OFFSET;
    o.offset = 0;
    return attn_kv_attend(ctx, kv, &c->out, &c->q, &o);
}

bool same_rows(const char *what, const call *whole, range n, const call *c) {
    const attn_tensor *const all[] = {&whole->out, &whole->lse, &whole->row_max, &whole->entropy, &whole->weights};
    const attn_tensor *const part[] = {&c->out, &c->lse, &c->row_max, &c->entropy, &c->weights};
    for (size_t m = 0; m < sizeof all / sizeof *all; m++) {
        attn_tensor t = slice(slice(slice(*all[m], 0, n.b0, n.b1), 1, n.h0, n.h1), 2, n.i0, n.i1);
        if (all[m] == &whole->weights) {
            t = slice(t, 3, 0, c->s.Lk);
        }
        if (!same_bits(what, part[m], &t)) {
            return false;
        }
    }
    return true;
}
