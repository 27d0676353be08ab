/* SPDX-License-Identifier: Apache-2.0 */
/* attn_layer_run against the same layer written with attn_layer_norm, attn_linear, attn_rope_apply and attn_sdpa: every stage and the
   output bit for bit, for encoder, decoder and decoder-only layers in every arrangement. Then in chunks with a cache, alone, and by other
   threads. */
#include "compare.h"

#include <math.h>
#include <string.h>

enum { OF_SELF, OF_CROSS, OF_MLP };

/* A random layer, its weights, and one input. */
typedef struct scene {
    pool memory;
    attn_dtype real;
    bool is_post, is_causal, has_cross, has_mlp, has_gate, has_norm, is_flat;
    int64_t B, L, Lm, n, width, hidden, H, Hkv, d, d_v;
    attn_tensor w[2][4], b[2][4]; /* q k v o of self and cross */
    attn_tensor up, b_up, gate, down, norm_w[3], norm_b[3];
    attn_norm_opts norm[3];
    attn_mha_desc mha[2];
    attn_mlp_desc mlp;
    attn_rope *rope;
    attn_layer_desc desc;
    attn_layer *layer;
    attn_tensor x, mem, out;
    attn_sdpa_opts self;
} scene;

/* ------------------------------------------------------------------- scenes ---- */

static attn_tensor numbers(scene *s, rng *r, double size, int32_t ndim, const int64_t *shape) {
    const attn_tensor t = new_scattered(&s->memory, r, s->real, ndim, shape, false);
    fill_normal(&t, r, size);
    return t;
}

static attn_tensor matrix(scene *s, rng *r, int64_t in, int64_t out) {
    return numbers(s, r, 2 / sqrt((double)in), 2, SHAPE(in, out));
}

static void choose_attention(scene *s, rng *r, int which) {
    const int64_t in[4] = {s->n, which ? s->width : s->n, which ? s->width : s->n, s->H * s->d_v};
    const int64_t out[4] = {s->H * s->d, s->Hkv * s->d, s->Hkv * s->d_v, s->n};
    attn_mha_desc *d = &s->mha[which];
    const attn_tensor **const w[] = {&d->w_q, &d->w_k, &d->w_v, &d->w_o}, **const b[] = {&d->b_q, &d->b_k, &d->b_v, &d->b_o};
    *d = (attn_mha_desc){.heads = s->H, .kv_heads = s->Hkv};
    for (int i = 0; i < 4; i++) {
        s->w[which][i] = matrix(s, r, in[i], out[i]);
        s->b[which][i] = numbers(s, r, 1, 1, &out[i]);
        *w[i] = &s->w[which][i];
        *b[i] = rng_chance(r, 0.6) ? &s->b[which][i] : NULL;
    }
}

static void choose_norms(scene *s, rng *r) {
    const bool rms = rng_chance(r, 0.5);
    for (int i = 0; i < 3; i++) {
        s->norm_w[i] = numbers(s, r, 1, 1, &s->n);
        s->norm_b[i] = numbers(s, r, 1, 1, &s->n);
        s->norm[i] = (attn_norm_opts){.flags = ATTN_NORM_EPS | (rms ? ATTN_NORM_RMS : 0), .eps = 1e-6, .weight = &s->norm_w[i]};
        s->norm[i].bias = rms ? NULL : &s->norm_b[i];
    }
}

static void choose_sizes(scene *s, rng *r) {
    s->real = rng_chance(r, 0.3) ? ATTN_F64 : ATTN_F32;
    s->is_post = rng_chance(r, 0.4);
    s->is_causal = rng_chance(r, 0.6);
    s->has_cross = rng_chance(r, 0.4);
    s->has_mlp = rng_chance(r, 0.9);
    s->has_gate = rng_chance(r, 0.5);
    s->has_norm = rng_chance(r, 0.9);
    s->is_flat = rng_chance(r, 0.3);
    s->B = s->is_flat ? 1 : rng_int(r, 1, 3);
    s->L = rng_int(r, 1, 12);
    s->Lm = rng_int(r, 1, 9);
    s->Hkv = rng_int(r, 1, 2);
    s->H = s->Hkv * rng_int(r, 1, 3);
    s->d = 2 * rng_int(r, 1, 12);
    s->d_v = rng_chance(r, 0.7) ? s->d : rng_int(r, 1, 12);
    s->n = rng_int(r, 1, 40);
    s->width = rng_chance(r, 0.5) ? s->n : rng_int(r, 1, 40);
    s->hidden = rng_int(r, 1, 90);
}

/* So wide that threads share the columns of a few rows. */
static void choose_great_sizes(scene *s, rng *r) {
    choose_sizes(s, r);
    s->L = rng_int(r, 1, 3);
    s->Hkv = 2;
    s->H = 10;
    s->d = s->d_v = 64;
    s->n = s->width = 640;
    s->hidden = 700;
}

static void open_scene_of(scene *s, attn_ctx *ctx, rng *r, void (*choose)(scene *s, rng *r)) {
    *s = (scene){.memory = {0}};
    choose(s, r);
    choose_attention(s, r, OF_SELF);
    choose_attention(s, r, OF_CROSS);
    choose_norms(s, r);
    s->up = matrix(s, r, s->n, s->hidden);
    s->gate = matrix(s, r, s->n, s->hidden);
    s->down = matrix(s, r, s->hidden, s->n);
    s->b_up = numbers(s, r, 1, 1, &s->hidden);
    s->mlp = (attn_mlp_desc){.activation = (attn_activation)rng_int(r, 0, 3), .w_up = &s->up, .b_up = &s->b_up, .w_down = &s->down};
    s->mlp.w_gate = s->has_gate ? &s->gate : NULL;
    if (rng_chance(r, 0.6)) {
        assert_ok(ctx, attn_rope_create(ctx, &s->rope, &(attn_rope_desc){.head_dim = s->d, .theta = 100}));
    }
    s->desc = (attn_layer_desc){.self = &s->mha[OF_SELF], .cross = s->has_cross ? &s->mha[OF_CROSS] : NULL, .rope = s->rope};
    s->desc.mlp = s->has_mlp ? &s->mlp : NULL;
    s->desc.flags = (s->is_post ? ATTN_LAYER_POST_NORM : 0) | (s->is_causal ? ATTN_LAYER_CAUSAL : 0);
    if (s->has_norm) {
        s->desc.self_norm = &s->norm[OF_SELF];
        s->desc.cross_norm = s->has_cross ? &s->norm[OF_CROSS] : NULL;
        s->desc.mlp_norm = s->has_mlp ? &s->norm[OF_MLP] : NULL;
    }
    assert_ok(ctx, attn_layer_prepare(ctx, &s->layer, &s->desc));
    const int64_t shape[] = {s->B, s->L, s->n}, m_shape[] = {s->B, s->Lm, s->width};
    s->x = numbers(s, r, 1, 3 - s->is_flat, shape + s->is_flat);
    s->mem = numbers(s, r, 1, 3 - s->is_flat, m_shape + s->is_flat);
    s->out = numbers(s, r, (double)NAN, 3 - s->is_flat, shape + s->is_flat);
}

static void open_scene(scene *s, attn_ctx *ctx, rng *r) {
    open_scene_of(s, ctx, r, choose_sizes);
}

static void close_scene(scene *s) {
    attn_layer_destroy(s->layer);
    attn_rope_destroy(s->rope);
    pool_free(&s->memory);
}

/* -------------------------------------------------------------- composition ---- */

static attn_tensor rows_like(scene *s, int64_t rows, int64_t columns) {
    const int64_t shape[] = {s->B, rows, columns};
    return new_tensor(&s->memory, s->real, 3 - s->is_flat, shape + s->is_flat);
}

static attn_tensor linear(scene *s, attn_ctx *ctx, const attn_tensor *x, const attn_tensor *w, const attn_tensor *b) {
    attn_linear_weights *made = NULL;
    attn_tensor out = rows_like(s, x->shape[x->ndim - 2], w->shape[1]);
    assert_ok(ctx, attn_linear_prepare(ctx, &made, &(attn_linear_desc){.w = w, .b = b}));
    assert_ok(ctx, attn_linear(ctx, &out, made, x));
    attn_linear_destroy(made);
    return out;
}

static attn_tensor split(const scene *s, const attn_tensor *rows, int64_t heads) {
    const int r = rows->ndim - 2;
    const int64_t shape[] = {s->B, rows->shape[r], heads, rows->shape[r + 1] / heads};
    const attn_tensor t = attn_tensor_of(rows->data, rows->dtype, rows->ndim + 1, shape + s->is_flat);
    return attn_tensor_permute(&t, s->is_flat ? (const int32_t[]){1, 0, 2} : (const int32_t[]){0, 2, 1, 3});
}

static attn_tensor turned(scene *s, attn_ctx *ctx, const attn_tensor *x) {
    attn_tensor out = new_tensor(&s->memory, x->dtype, x->ndim, x->shape);
    assert_ok(ctx, attn_rope_apply(ctx, &out, x, s->rope, NULL));
    return out;
}

/* Every stage of the layer, by the names of attn_layer_stages. */
typedef struct composed {
    attn_tensor self_norm, q, k, v, heads, self_out, self_sum, cross_norm, cross_q, cross_heads, cross_out, cross_sum;
    attn_tensor mlp_norm, mlp_gate, mlp_up, mlp_hidden, mlp_out, mlp_sum, out;
} composed;

static attn_tensor attention(scene *s, attn_ctx *ctx, int which, const attn_tensor *h, const attn_tensor *memory, composed *c) {
    const attn_mha_desc *d = &s->mha[which];
    const attn_tensor q_rows = linear(s, ctx, h, d->w_q, d->b_q), k_rows = linear(s, ctx, memory, d->w_k, d->b_k);
    const attn_tensor v_rows = linear(s, ctx, memory, d->w_v, d->b_v);
    attn_tensor q = split(s, &q_rows, s->H), k = split(s, &k_rows, s->Hkv), v = split(s, &v_rows, s->Hkv);
    *(which ? &c->cross_q : &c->q) = q;
    c->k = which ? c->k : k;
    c->v = which ? c->v : v;
    if (which == OF_SELF && s->rope) {
        q = turned(s, ctx, &q);
        k = turned(s, ctx, &k);
    }
    const attn_tensor joined = rows_like(s, s->L, s->H * s->d_v);
    attn_tensor heads = split(s, &joined, s->H);
    const attn_sdpa_opts o = {.flags = which == OF_SELF && s->is_causal ? ATTN_CAUSAL : 0};
    assert_ok(ctx, attn_sdpa(ctx, &heads, &q, &k, &v, &o));
    *(which ? &c->cross_heads : &c->heads) = heads;
    return linear(s, ctx, &joined, d->w_o, d->b_o);
}

static attn_tensor mlp(scene *s, attn_ctx *ctx, const attn_tensor *h, composed *c) {
    c->mlp_up = linear(s, ctx, h, &s->up, &s->b_up);
    c->mlp_hidden = rows_like(s, s->L, s->hidden);
    if (s->has_gate) {
        c->mlp_gate = linear(s, ctx, h, &s->gate, NULL);
        assert_ok(ctx, attn_glu(ctx, &c->mlp_hidden, &c->mlp_gate, &c->mlp_up, s->mlp.activation));
    } else {
        assert_ok(ctx, attn_activate(ctx, &c->mlp_hidden, &c->mlp_up, s->mlp.activation));
    }
    return linear(s, ctx, &c->mlp_hidden, &s->down, NULL);
}

static attn_tensor normed(scene *s, attn_ctx *ctx, int part, const attn_tensor *x) {
    attn_tensor out = rows_like(s, s->L, s->n);
    if (s->norm[part].flags & ATTN_NORM_RMS) {
        assert_ok(ctx, attn_rms_norm(ctx, &out, x, &s->norm[part]));
    } else {
        assert_ok(ctx, attn_layer_norm(ctx, &out, x, &s->norm[part]));
    }
    return out;
}

/* Each number rounded once, as an addition of the precision is. */
static attn_tensor added(scene *s, const attn_tensor *a, const attn_tensor *b) {
    const attn_tensor out = rows_like(s, s->L, s->n);
    for (int64_t row = 0; row < s->B * s->L; row++) {
        for (int64_t i = 0; i < s->n; i++) {
            const double x = ref_element(a, 0, row / s->L, row % s->L, i), y = ref_element(b, 0, row / s->L, row % s->L, i);
            set_element(&out, 0, row / s->L, row % s->L, i, x + y);
        }
    }
    return out;
}

static composed compose(scene *s, attn_ctx *ctx) {
    composed c = {.out = s->x};
    attn_tensor *const norms[] = {&c.self_norm, &c.cross_norm, &c.mlp_norm}, *const outs[] = {&c.self_out, &c.cross_out, &c.mlp_out};
    attn_tensor *const sums[] = {&c.self_sum, &c.cross_sum, &c.mlp_sum};
    const bool has[] = {true, s->has_cross, s->has_mlp};
    for (int part = OF_SELF; part <= OF_MLP; part++) {
        if (!has[part]) {
            continue;
        }
        attn_tensor h = c.out;
        if (s->has_norm && !s->is_post) {
            h = *norms[part] = normed(s, ctx, part, &c.out);
        }
        *outs[part] = part == OF_MLP ? mlp(s, ctx, &h, &c) : attention(s, ctx, part, &h, part == OF_SELF ? &h : &s->mem, &c);
        c.out = *sums[part] = added(s, &c.out, outs[part]);
        if (s->has_norm && s->is_post) {
            c.out = *norms[part] = normed(s, ctx, part, sums[part]);
        }
    }
    return c;
}

/* -------------------------------------------------------------------- checks ---- */

/* A stage to be filled, of the shape of its composition; NULL where the layer has none. */
static attn_tensor *wanted(scene *s, rng *r, attn_tensor *t, const attn_tensor *like) {
    if (!like->data) {
        return NULL;
    }
    *t = new_scattered(&s->memory, r, s->real, like->ndim, like->shape, false);
    return t;
}

static bool stages_are_those_composed(scene *s, attn_ctx *ctx, rng *r) {
    composed want = compose(s, ctx), got = {0};
    attn_layer_stages stages = {.flags = 0};
#define STAGE(name) stages.name = wanted(s, r, &got.name, &want.name)
    STAGE(self_norm); STAGE(q); STAGE(k); STAGE(v); STAGE(heads); STAGE(self_out); STAGE(self_sum);
    STAGE(cross_norm); STAGE(cross_q); STAGE(cross_heads); STAGE(cross_out); STAGE(cross_sum);
    STAGE(mlp_norm); STAGE(mlp_gate); STAGE(mlp_up); STAGE(mlp_hidden); STAGE(mlp_out); STAGE(mlp_sum);
    const attn_layer_opts o = {.memory = s->has_cross ? &s->mem : NULL, .stages = &stages};
    assert_ok(ctx, attn_layer_run(ctx, &s->out, s->layer, &s->x, &o));
#define SAME(name) (!stages.name || same_bits(#name, stages.name, &want.name))
    return SAME(self_norm) && SAME(q) && SAME(k) && SAME(v) && SAME(heads) && SAME(self_out) && SAME(self_sum) && SAME(cross_norm) &&
           SAME(cross_q) && SAME(cross_heads) && SAME(cross_out) && SAME(cross_sum) && SAME(mlp_norm) && SAME(mlp_gate) && SAME(mlp_up) &&
           SAME(mlp_hidden) && SAME(mlp_out) && SAME(mlp_sum) && same_bits("out", &s->out, &want.out);
}

/* The rows in chunks, from a cache, with the memory projected once; by another context. Causal layers only. */
static bool chunks_have_the_same_bits(scene *s, attn_ctx *ctx, rng *r) {
    attn_kv *kv = NULL, *memory_kv = NULL;
    const attn_kv_desc d = {.dtype = s->real, .batch = s->B, .kv_heads = s->Hkv, .capacity = s->L + s->Lm, .head_dim = s->d};
    attn_kv_desc full = d;
    full.value_dim = s->d_v;
    assert_ok(ctx, attn_kv_create(ctx, &kv, &full));
    assert_ok(ctx, attn_kv_create(ctx, &memory_kv, &full));
    if (s->has_cross) {
        assert_ok(ctx, attn_layer_memory(ctx, memory_kv, s->layer, &s->mem));
    }
    bool same = true;
    for (int64_t first = 0, n; first < s->L; first += n) {
        n = rng_int(r, 1, s->L - first);
        const attn_tensor x = slice(s->x, s->x.ndim - 2, first, first + n), whole = slice(s->out, s->x.ndim - 2, first, first + n);
        attn_tensor out = new_scattered(&s->memory, r, s->real, x.ndim, x.shape, false);
        const attn_layer_opts o = {.kv = kv, .memory_kv = s->has_cross ? memory_kv : NULL};
        assert_ok(ctx, attn_layer_run(ctx, &out, s->layer, &x, &o));
        same = same && same_bits("a chunk", &whole, &out) && attn_kv_length(kv) == first + n;
    }
    attn_kv_destroy(kv);
    attn_kv_destroy(memory_kv);
    return same;
}

/* One item of the batch alone, its positions given. */
static bool items_have_the_same_bits(scene *s, attn_ctx *ctx, rng *r) {
    if (s->is_flat) {
        return true;
    }
    const int64_t b = rng_int(r, 0, s->B - 1);
    const attn_tensor x = slice(s->x, 0, b, b + 1), whole = slice(s->out, 0, b, b + 1), memory = slice(s->mem, 0, b, b + 1);
    attn_tensor out = new_scattered(&s->memory, r, s->real, 3, x.shape, false), at = new_vector(&s->memory, ATTN_I32, s->L);
    for (int64_t i = 0; i < s->L; i++) {
        set_element(&at, 0, 0, 0, i, (double)i);
    }
    const attn_layer_opts o = {.memory = s->has_cross ? &memory : NULL, .positions = s->rope ? &at : NULL};
    assert_ok(ctx, attn_layer_run(ctx, &out, s->layer, &x, &o));
    return same_bits("an item alone", &whole, &out);
}

/* All items one behind the other, without a batch. */
static bool packed_items_have_the_same_bits(scene *s, attn_ctx *ctx, rng *r) {
    if (s->is_flat || s->has_cross) {
        return true;
    }
    attn_tensor cu = new_vector(&s->memory, ATTN_I32, s->B + 1);
    const attn_tensor copy = packed_copy(&s->memory, &s->x), x = attn_tensor_of(copy.data, s->real, 2, SHAPE(s->B * s->L, s->n));
    attn_tensor out = new_scattered(&s->memory, r, s->real, 2, x.shape, false), at = new_vector(&s->memory, ATTN_I32, s->B * s->L);
    bool same = true;
    for (int64_t b = 0; b <= s->B; b++) {
        set_element(&cu, 0, 0, 0, b, (double)(b * s->L));
    }
    for (int64_t row = 0; row < s->B * s->L; row++) {
        set_element(&at, 0, 0, 0, row, (double)(row % s->L));
    }
    const attn_sdpa_opts packed = {.cu_seqlens_q = &cu, .cu_seqlens_k = &cu};
    const attn_layer_opts o = {.self = &packed, .positions = s->rope ? &at : NULL};
    assert_ok(ctx, attn_layer_run(ctx, &out, s->layer, &x, &o));
    for (int64_t b = 0; b < s->B && same; b++) {
        attn_tensor whole = slice(s->out, 0, b, b + 1), item = slice(out, 0, b * s->L, (b + 1) * s->L);
        whole = attn_tensor_permute(&whole, (const int32_t[]){1, 2, 0});
        whole.ndim = 2;
        same = same_bits("an item among packed ones", &whole, &item);
    }
    return same;
}

static void random_layers_are_their_parts(void **state) {
    (void)state;
    const char *isa;
    for (int level = 0; (isa = usable_isa(level)); level++) {
        attn_ctx *ctx = new_ctx(isa, 2), *other = new_ctx(isa, 3);
        for (int64_t n = 0; n < test_count(600); n++) {
            rng r = rng_of(test_seed(), (uint64_t)n);
            scene s;
            open_scene(&s, ctx, &r);
            if (!stages_are_those_composed(&s, ctx, &r) || !items_have_the_same_bits(&s, other, &r) ||
                !packed_items_have_the_same_bits(&s, other, &r) || (s.is_causal && !chunks_have_the_same_bits(&s, other, &r))) {
                print_error("%s, ATTN_TEST_SEED=%llu problem %lld: %s%s%s%s%s%s, B %lld L %lld n %lld H %lld Hkv %lld d %lld\n", isa,
                            (unsigned long long)test_seed(), (long long)n, attn_dtype_name(s.real), s.is_post ? " post" : " pre",
                            s.is_causal ? " causal" : "", s.has_cross ? " cross" : "", s.has_gate ? " gate" : "", s.rope ? " rope" : "",
                            (long long)s.B, (long long)s.L, (long long)s.n, (long long)s.H, (long long)s.Hkv, (long long)s.d);
                fail();
            }
            close_scene(&s);
        }
        attn_ctx_destroy(ctx);
        attn_ctx_destroy(other);
    }
}

static void threads_share_columns(void **state) {
    (void)state;
    attn_ctx *ctx = new_ctx(NULL, 1), *other = new_ctx(NULL, 3);
    for (int64_t n = 0; n < 6; n++) {
        rng r = rng_of(test_seed(), (uint64_t)n);
        scene s;
        open_scene_of(&s, ctx, &r, choose_great_sizes);
        assert_true(stages_are_those_composed(&s, ctx, &r));
        attn_tensor out = new_tensor(&s.memory, s.real, s.out.ndim, s.out.shape);
        const attn_layer_opts o = {.memory = s.has_cross ? &s.mem : NULL};
        assert_ok(other, attn_layer_run(other, &out, s.layer, &s.x, &o));
        assert_true(same_bits("on three threads", &s.out, &out));
        close_scene(&s);
    }
    attn_ctx_destroy(ctx);
    attn_ctx_destroy(other);
}

/* Through a 16-bit cache too: row by row the bits of the whole, since the whole reads its keys from the cache as well. */
static void narrow_caches_do_not_see_chunks(void **state) {
    (void)state;
    attn_ctx *ctx = new_ctx(NULL, 2);
    rng r = rng_of(test_seed(), 1);
    scene s;
    do {
        open_scene(&s, ctx, &r);
        if (s.is_causal && s.real == ATTN_F32 && s.L > 3 && !s.has_cross && s.rope) {
            break;
        }
        close_scene(&s);
    } while (true);
    const attn_kv_desc d = {.dtype = ATTN_BF16, .batch = s.B, .kv_heads = s.Hkv, .capacity = s.L, .head_dim = s.d, .value_dim = s.d_v};
    attn_kv *kv = NULL;
    assert_ok(ctx, attn_kv_create(ctx, &kv, &d));
    const attn_layer_opts o = {.kv = kv};
    assert_ok(ctx, attn_layer_run(ctx, &s.out, s.layer, &s.x, &o));
    assert_ok(ctx, attn_kv_truncate(ctx, kv, 0));
    for (int64_t i = 0; i < s.L; i++) {
        const attn_tensor x = slice(s.x, s.x.ndim - 2, i, i + 1), whole = slice(s.out, s.x.ndim - 2, i, i + 1);
        attn_tensor row = new_tensor(&s.memory, s.real, x.ndim, x.shape);
        assert_ok(ctx, attn_layer_run(ctx, &row, s.layer, &x, &o));
        assert_true(same_bits("a row", &whole, &row));
    }
    attn_kv_destroy(kv);
    close_scene(&s);
    attn_ctx_destroy(ctx);
}

/* What attn_layer_attention gives is what the layer was made of. */
static bool attention_is_as_given(scene *s, attn_ctx *ctx, int which) {
    const attn_mha_desc *d = &s->mha[which];
    const attn_tensor *const w[] = {d->w_q, d->w_k, d->w_v, d->w_o}, *const b[] = {d->b_q, d->b_k, d->b_v, d->b_o};
    attn_layer_part p = {.struct_size = sizeof p};
    attn_tensor **const to[] = {&p.w_q, &p.w_k, &p.w_v, &p.w_o}, **const bias[] = {&p.b_q, &p.b_k, &p.b_v, &p.b_o}, got[8];
    bool same = true;
    for (int i = 0; i < 4; i++) {
        got[i] = new_tensor(&s->memory, s->real, 2, w[i]->shape);
        got[4 + i] = new_tensor(&s->memory, s->real, 1, w[i]->shape + 1);
        *to[i] = &got[i];
        *bias[i] = &got[4 + i];
    }
    assert_ok(ctx, attn_layer_attention(ctx, s->layer, which, &p));
    for (int i = 0; i < 4; i++) {
        attn_tensor none = new_tensor(&s->memory, s->real, 1, w[i]->shape + 1);
        memset(none.data, 0, (size_t)none.shape[0] * attn_dtype_size(s->real));
        same = same && same_bits("a matrix", w[i], &got[i]) && same_bits("a bias", b[i] ? b[i] : &none, &got[4 + i]) &&
               !(p.biases >> i & 1) == !b[i];
    }
    return same && p.heads == s->H && p.kv_heads == s->Hkv && p.head_dim == s->d && p.value_dim == s->d_v && p.width == s->n &&
           p.compute == s->real && p.rope == (which == OF_SELF ? s->rope : NULL) && p.has_norm == s->has_norm &&
           p.memory_width == (which ? s->width : s->n);
}

static void layers_say_what_they_were_made_of(void **state) {
    (void)state;
    attn_ctx *ctx = new_ctx(NULL, 2);
    for (int64_t n = 0; n < 60; n++) {
        rng r = rng_of(test_seed(), (uint64_t)n);
        scene s;
        open_scene_of(&s, ctx, &r, n < 58 ? choose_sizes : choose_great_sizes);
        assert_true(attention_is_as_given(&s, ctx, OF_SELF));
        assert_true(!s.has_cross || attention_is_as_given(&s, ctx, OF_CROSS));
        assert_int_equal(attn_layer_attention(ctx, s.layer, 1, &(attn_layer_part){.flags = 0}), s.has_cross ? ATTN_OK : ATTN_E_ARG);
        assert_int_equal(attn_layer_attention(ctx, s.layer, 0, &(attn_layer_part){.w_q = &s.x}), ATTN_E_SHAPE);
        close_scene(&s);
    }
    attn_ctx_destroy(ctx);
}

/* ----------------------------------------------------------------- refusals ---- */

static void expect_refusal(attn_status got, attn_status want, const char *sentence, const char *words, const char *more, int line) {
    if (got != want || !strstr(sentence, words) || !strstr(sentence, more) || strchr(sentence, '\n')) {
        print_error("status %d (should be %d), words \"%s\" and \"%s\" in: %s\n", (int)got, (int)want, words, more, sentence);
        _fail(__FILE__, line);
    }
}
#define REFUSES(call, status, words, more) expect_refusal(call, status, attn_ctx_error(ctx), words, more, __LINE__)

static float small[8][64];
static attn_tensor floats(int n, int32_t ndim, const int64_t *shape) {
    return attn_tensor_of(small[n], ATTN_F32, ndim, shape);
}

static void layers_that_do_not_fit(void **state) {
    (void)state;
    attn_ctx *ctx = new_ctx(NULL, 1);
    attn_layer *made = NULL;
    const attn_tensor w = floats(0, 2, SHAPE(4, 4)), up = floats(1, 2, SHAPE(4, 6)), down = floats(2, 2, SHAPE(5, 4));
    const attn_tensor b = floats(3, 1, SHAPE(3));
    attn_mha_desc mha = {.heads = 2, .w_q = &w, .w_k = &w, .w_v = &w, .w_o = &w}, headless = mha, joined = mha;
    attn_mlp_desc mlp = {.w_up = &up, .w_down = &down}, gated = mlp;
    const attn_norm_opts norm = {.weight = &b};
    headless.heads = 3;
    joined.w_o = NULL;
    gated.b_gate = &b;
#define LAYER(...) attn_layer_prepare(ctx, &made, &(attn_layer_desc){__VA_ARGS__})
    REFUSES(LAYER(.mlp = &mlp), ATTN_E_ARG, "self is NULL", "");
    REFUSES(LAYER(.self = &headless), ATTN_E_SHAPE, "self: heads is 3", "1, 2, 4");
    REFUSES(LAYER(.self = &mha, .cross = &headless), ATTN_E_SHAPE, "cross: heads is 3", "");
    REFUSES(LAYER(.self = &joined), ATTN_E_ARG, "self: w_o is NULL", "");
    REFUSES(LAYER(.self = &mha, .mlp = &mlp), ATTN_E_SHAPE, "mlp: w_up is 4 x 6", "w_down 5 x 4");
    REFUSES(LAYER(.self = &mha, .mlp = &gated), ATTN_E_ARG, "mlp: b_gate", "w_gate");
    REFUSES(LAYER(.self = &mha, .self_norm = &norm), ATTN_E_SHAPE, "self_norm: weight has shape [3]", "4");
    REFUSES(LAYER(.self = &mha, .mlp_norm = &norm), ATTN_E_ARG, "mlp_norm is given without mlp", "");
    REFUSES(LAYER(.self = &mha, .flags = 64), ATTN_E_ARG, "unknown bits 0x40", "");
    attn_rope *rope = NULL;
    assert_ok(ctx, attn_rope_create(ctx, &rope, &(attn_rope_desc){.head_dim = 4}));
    REFUSES(LAYER(.self = &mha, .rope = rope), ATTN_E_SHAPE, "head_dim of 4", "self has 2");
    attn_rope_destroy(rope);
    assert_null(made);
    attn_ctx_destroy(ctx);
}

static void calls_that_do_not_fit(void **state) {
    (void)state;
    attn_ctx *ctx = new_ctx(NULL, 1);
    attn_layer *plain = NULL, *crossed = NULL;
    attn_kv *kv = NULL, *other = NULL;
    const attn_tensor w = floats(0, 2, SHAPE(4, 4));
    const attn_mha_desc mha = {.heads = 2, .w_q = &w, .w_k = &w, .w_v = &w, .w_o = &w};
    attn_tensor x = floats(1, 3, SHAPE(2, 3, 4)), out = floats(2, 3, SHAPE(2, 3, 4)), wide = floats(1, 3, SHAPE(2, 3, 5));
    attn_tensor stage = floats(3, 3, SHAPE(2, 3, 5)), wide_out = floats(2, 3, SHAPE(2, 3, 5)), mask = floats(4, 2, SHAPE(3, 7));
    assert_ok(ctx, attn_layer_prepare(ctx, &plain, &(attn_layer_desc){.self = &mha}));
    assert_ok(ctx, attn_layer_prepare(ctx, &crossed, &(attn_layer_desc){.self = &mha, .cross = &mha}));
    assert_ok(ctx, attn_kv_create(ctx, &kv, &(attn_kv_desc){.batch = 2, .kv_heads = 2, .capacity = 4, .head_dim = 2}));
    assert_ok(ctx, attn_kv_create(ctx, &other, &(attn_kv_desc){.batch = 1, .kv_heads = 2, .capacity = 4, .head_dim = 2}));
#define RUN(layer, ...) attn_layer_run(ctx, &out, layer, &x, &(attn_layer_opts){__VA_ARGS__})
    small[2][0] = 77;
    REFUSES(attn_layer_run(ctx, &wide_out, plain, &wide, NULL), ATTN_E_SHAPE, "width 5 but the layer 4", "");
    REFUSES(attn_layer_run(ctx, &x, plain, &x, NULL), ATTN_E_ARG, "out overlaps x", "");
    REFUSES(RUN(plain, .memory = &x), ATTN_E_ARG, "memory is given", "");
    REFUSES(RUN(crossed, .memory = NULL), ATTN_E_ARG, "neither memory nor memory_kv", "");
    REFUSES(RUN(crossed, .memory = &x, .memory_kv = kv), ATTN_E_ARG, "both given", "");
    REFUSES(RUN(crossed, .memory = &wide), ATTN_E_SHAPE, "memory has shape [2,3,5]", "4 columns");
    REFUSES(RUN(plain, .kv = other), ATTN_E_SHAPE, "kv holds keys of [1,2,0,2]", "2 items");
    REFUSES(RUN(plain, .offset = 3), ATTN_E_ARG, "no rope", "");
    REFUSES(RUN(plain, .cross = &(attn_sdpa_opts){.scale = 0}), ATTN_E_ARG, "cross-attention", "");
    REFUSES(RUN(plain, .stages = &(attn_layer_stages){.self_out = &stage}), ATTN_E_SHAPE, "self_out has shape [2,3,5]", "[2,3,4]");
    REFUSES(RUN(plain, .stages = &(attn_layer_stages){.self_norm = &stage}), ATTN_E_ARG, "self_norm is asked for", "none");
    REFUSES(RUN(plain, .stages = &(attn_layer_stages){.mlp_gate = &stage}), ATTN_E_ARG, "mlp_gate is asked for", "none");
    REFUSES(attn_layer_memory(ctx, kv, plain, &x), ATTN_E_ARG, "no cross-attention", "");
    const attn_tensor cu = attn_tensor_of((int32_t[]){0, 3}, ATTN_I32, 1, SHAPE(2));
    const attn_sdpa_opts packed = {.cu_seqlens_q = &cu, .cu_seqlens_k = &cu};
    REFUSES(RUN(plain, .self = &packed), ATTN_E_ARG, "x has rank 3", "x [T,n]");
    REFUSES(RUN(plain, .self = &packed, .kv = kv), ATTN_E_UNSUPPORTED, "packed input", "without a cache");
    REFUSES(RUN(crossed, .self = &packed, .memory = &x), ATTN_E_UNSUPPORTED, "packed input", "batch with lengths");
    /* The mask is refused after the rows were added to the cache: they are taken out again. */
    REFUSES(RUN(plain, .kv = kv, .self = &(attn_sdpa_opts){.mask = &mask}), ATTN_E_SHAPE, "mask", "[3,7]");
    assert_int_equal(attn_kv_length(kv), 0);
    assert_true(small[2][0] == 77);
    assert_ok(ctx, RUN(plain, .kv = kv));
    REFUSES(RUN(plain, .kv = kv), ATTN_E_FULL, "kv holds 3 of 4 rows", "3 more");
    assert_int_equal(attn_kv_length(kv), 3);
    attn_kv_destroy(kv);
    attn_kv_destroy(other);
    attn_layer_destroy(plain);
    attn_layer_destroy(crossed);
    attn_layer_destroy(NULL);
    attn_ctx_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_layers_are_their_parts), cmocka_unit_test(threads_share_columns),
                                       cmocka_unit_test(narrow_caches_do_not_see_chunks), cmocka_unit_test(layers_that_do_not_fit),
                                       cmocka_unit_test(layers_say_what_they_were_made_of),
                                       cmocka_unit_test(calls_that_do_not_fit)};
    return cmocka_run_group_tests_name("model_layer", tests, NULL, NULL);
}
