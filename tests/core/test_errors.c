/* SPDX-License-Identifier: Apache-2.0 */
/* Every refusal of attn_sdpa: the status, the words that matter in the sentence, and that nothing was written. */
#include "support.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* The arguments of one call, good until a case spoils them: f32, B 2, H 4, Hkv 2, Lq 3, Lk 5, d 4, d_v 6. */
typedef struct args {
    pool memory;
    attn_tensor q, k, v, out, lse, a, b; /* a, b: for whatever the case gives */
    attn_tensor *out_given;
    const attn_tensor *q_given, *k_given, *v_given;
    attn_sdpa_opts o;
} args;

static void make_args(args *x) {
    *x = (args){.o = {.struct_size = sizeof(attn_sdpa_opts)}};
    x->q = TENSOR(&x->memory, ATTN_F32, 2, 4, 3, 4);
    x->k = TENSOR(&x->memory, ATTN_F32, 2, 2, 5, 4);
    x->v = TENSOR(&x->memory, ATTN_F32, 2, 2, 5, 6);
    x->out = TENSOR(&x->memory, ATTN_F32, 2, 4, 3, 6);
    x->lse = TENSOR(&x->memory, ATTN_F32, 2, 4, 3);
    fill_bytes(&x->out, 0x5A);
    fill_bytes(&x->lse, 0x5A);
    x->o.lse = &x->lse;
    x->out_given = &x->out;
    x->q_given = &x->q;
    x->k_given = &x->k;
    x->v_given = &x->v;
}

/* Gives `a` (a new tensor of these sizes) to an option. */
#define GIVE(x, option, dtype, ...) ((x)->a = TENSOR(&(x)->memory, dtype, __VA_ARGS__), (x)->o.option = &(x)->a)
/* ... as a vector of these values. */
static void give_values(args *x, attn_tensor *t, attn_dtype dtype, int64_t n, const double *values) {
    *t = new_vector(&x->memory, dtype, n);
    for (int64_t i = 0; i < n; i++) {
        set_element(t, 0, 0, 0, i, values[i]);
    }
}
#define VALUES(x, t, dtype, ...)                                                                                                           \
    give_values(x, t, dtype, (int64_t)(sizeof(const double[]){__VA_ARGS__} / sizeof(double)), (const double[]){__VA_ARGS__})

/* Packed input: q [6,4,4], k [5,2,4], v [5,2,6], two sequences. */
static void pack(args *x) {
    x->q = TENSOR(&x->memory, ATTN_F32, 6, 4, 4);
    x->k = TENSOR(&x->memory, ATTN_F32, 5, 2, 4);
    x->v = TENSOR(&x->memory, ATTN_F32, 5, 2, 6);
    x->out = TENSOR(&x->memory, ATTN_F32, 6, 4, 6);
    x->lse = TENSOR(&x->memory, ATTN_F32, 4, 6);
    fill_bytes(&x->out, 0x5A);
    fill_bytes(&x->lse, 0x5A);
    VALUES(x, &x->a, ATTN_I32, 0, 2, 6);
    VALUES(x, &x->b, ATTN_I64, 0, 2, 5);
    x->o.cu_seqlens_q = &x->a;
    x->o.cu_seqlens_k = &x->b;
}

static const attn_tensor without_data = { .dtype = ATTN_I64, .ndim = 1, .shape = { 2 }, .stride = { 1 } };

/* Each case: NAME(status, words...) { what is wrong }. */
#define CASES(CASE)                                                                                                                        \
    CASE(q_null, ATTN_E_ARG, "q is NULL", "", x->q_given = NULL)                                                                           \
    CASE(k_null, ATTN_E_ARG, "k is NULL", "", x->k_given = NULL)                                                                           \
    CASE(v_null, ATTN_E_ARG, "v is NULL", "", x->v_given = NULL)                                                                           \
    CASE(out_null, ATTN_E_ARG, "out is NULL", "", x->out_given = NULL)                                                                     \
    CASE(no_data, ATTN_E_ARG, "k", "NULL", x->k.data = NULL)                                                                               \
    CASE(dtype_of_q, ATTN_E_DTYPE, "q has dtype i32", "f32", x->q.dtype = ATTN_I32)                                                        \
    CASE(dtype_of_v, ATTN_E_DTYPE, "v has dtype bool", "f16", x->v.dtype = ATTN_BOOL)                                                      \
    CASE(dtype_of_out, ATTN_E_DTYPE, "out has dtype u8", "bf16", x->out.dtype = ATTN_U8)                                                   \
    CASE(no_dtype, ATTN_E_DTYPE, "q", "99", x->q.dtype = (attn_dtype)99)                                                                   \
    CASE(rank_1, ATTN_E_SHAPE, "q", "axes", x->q.ndim = 1)                                                                                 \
    CASE(rank_5, ATTN_E_SHAPE, "q", "5 axes", x->q.ndim = 5)                                                                               \
    CASE(rank_9, ATTN_E_SHAPE, "q", "9 axes", x->q.ndim = 9)                                                                               \
    CASE(rank_of_k, ATTN_E_SHAPE, "k [2,2,5]", "q has 4", x->k.ndim = 3)                                                                   \
    CASE(rank_of_out, ATTN_E_SHAPE, "out", "q has 4", x->out.ndim = 3)                                                                     \
    CASE(negative_size, ATTN_E_SHAPE, "k [2,2,-5,4]", "negative", x->k.shape[2] = -5)                                                      \
    CASE(batch_of_k, ATTN_E_SHAPE, "k [1,2,5,4]", "q [2,4,3,4]", x->k.shape[0] = 1)                                                        \
    CASE(batch_of_v, ATTN_E_SHAPE, "v [1,2,5,6]", "q [2,4,3,4]", x->v.shape[0] = 1)                                                        \
    CASE(head_dim, ATTN_E_SHAPE, "k [2,2,5,3]", "q [2,4,3,4]", x->k.shape[3] = 3)                                                          \
    CASE(keys_of_v, ATTN_E_SHAPE, "v [2,2,4,6]", "k [2,2,5,4]", x->v.shape[2] = 4)                                                         \
    CASE(heads_of_v, ATTN_E_SHAPE, "v [2,1,5,6]", "k [2,2,5,4]", x->v.shape[1] = 1)                                                        \
    CASE(heads_4_3, ATTN_E_SHAPE, "4 heads", "multiple", x->k = x->v = TENSOR(&x->memory, ATTN_F32, 2, 3, 5, 4))                           \
    CASE(no_kv_heads, ATTN_E_SHAPE, "4 heads", "multiple", x->k.shape[1] = x->v.shape[1] = 0)                                              \
    CASE(rows_of_out, ATTN_E_SHAPE, "out [2,4,2,6]", "q [2,4,3,4]", x->out.shape[2] = 2)                                                   \
    CASE(columns_of_out, ATTN_E_SHAPE, "out [2,4,3,5]", "v [2,2,5,6]", x->out.shape[3] = 5)                                                \
    CASE(product_overflows, ATTN_E_SHAPE, "q", "63 bits", huge_axes(x))                                                                    \
    CASE(stride_overflows, ATTN_E_SHAPE, "k", "63 bits", x->k.stride[0] = INT64_MAX)                                                       \
    CASE(stride_of_min, ATTN_E_SHAPE, "k", "63 bits", x->k.stride[0] = INT64_MIN)                                                          \
    CASE(mask_rank_1, ATTN_E_SHAPE, "mask has shape [5]", "[B,1,1,Lk]", GIVE(x, mask, ATTN_BOOL, 5))                                       \
    CASE(mask_rank_5, ATTN_E_SHAPE, "mask", "[1,1,1,3,5]", GIVE(x, mask, ATTN_BOOL, 1, 1, 1, 3, 5))                                        \
    CASE(mask_shape, ATTN_E_SHAPE, "mask has shape [2,5]", "kv_len", GIVE(x, mask, ATTN_BOOL, 2, 5))                                       \
    CASE(mask_keys, ATTN_E_SHAPE, "mask has shape [3,4]", "[2,4,3,5]", GIVE(x, mask, ATTN_I32, 3, 4))                                      \
    CASE(bias_shape, ATTN_E_SHAPE, "bias has shape [4,4,3,5]", "[2,4,3,5]", GIVE(x, bias, ATTN_F32, 4, 4, 3, 5))                           \
    CASE(mask_of_twos, ATTN_E_ARG, "mask holds 2", "0 and 1", (GIVE(x, mask, ATTN_U8, 3, 5), set_element(&x->a, 0, 0, 2, 4, 2)))           \
    CASE(mask_of_minus, ATTN_E_ARG, "mask holds -1", "0 and 1", (GIVE(x, mask, ATTN_I64, 3, 5), set_element(&x->a, 0, 0, 0, 0, -1)))       \
    CASE(bias_of_bool, ATTN_E_DTYPE, "bias has dtype bool", "mask", GIVE(x, bias, ATTN_BOOL, 3, 5))                                        \
    CASE(drop_without, ATTN_E_ARG, "ATTN_MASK_DROP", "mask is NULL", x->o.flags = ATTN_MASK_DROP)                                          \
    CASE(drop_of_float, ATTN_E_ARG, "ATTN_MASK_DROP", "additive", (GIVE(x, mask, ATTN_F32, 3, 5), x->o.flags = ATTN_MASK_DROP))            \
    CASE(causal_anchor, ATTN_E_ARG, "causal with Lq = 3 and Lk = 5", "bottom-right", x->o.flags = ATTN_CAUSAL)                             \
    CASE(window_anchor, ATTN_E_ARG, "window with Lq = 3 and Lk = 5", "top-left", x->o.flags = ATTN_WINDOW)                                 \
    CASE(alibi_anchor, ATTN_E_ARG, "ALiBi with Lq = 3 and Lk = 5", "offset", x->o.flags = ATTN_ALIBI)                                      \
    CASE(two_anchors, ATTN_E_ARG, "offset 7", "disagree",                                                                                  \
         (x->o.flags = ATTN_CAUSAL | ATTN_OFFSET, x->o.offset = 7, x->o.align = ATTN_ALIGN_BOTTOM_RIGHT))                                  \
    CASE(two_anchors_top, ATTN_E_ARG, "top-left", "disagree",                                                                              \
         (x->o.flags = ATTN_CAUSAL | ATTN_OFFSET, x->o.offset = 7, x->o.align = ATTN_ALIGN_TOP_LEFT))                                      \
    CASE(offset_twice, ATTN_E_ARG, "offset and offsets", "one", (GIVE(x, offsets, ATTN_I64, 2), x->o.flags = ATTN_OFFSET))                 \
    CASE(far_offset, ATTN_E_ARG, "offset", "beyond", (x->o.flags = ATTN_OFFSET, x->o.offset = INT64_MAX))                                  \
    CASE(align_of_7, ATTN_E_ARG, "align is 7", "", x->o.align = (attn_align)7)                                                             \
    CASE(window_of_minus_2, ATTN_E_ARG, "window is (-2,0)", "-1 for open",                                                                 \
         (x->o.flags = ATTN_WINDOW | ATTN_OFFSET, x->o.window_left = -2))                                                                  \
    CASE(kv_len_shape, ATTN_E_SHAPE, "kv_len has shape [3]", "[2]", GIVE(x, kv_len, ATTN_I32, 3))                                          \
    CASE(kv_len_rank, ATTN_E_SHAPE, "kv_len", "[2,1]", GIVE(x, kv_len, ATTN_I32, 2, 1))                                                    \
    CASE(kv_len_dtype, ATTN_E_DTYPE, "kv_len has dtype f32", "int32", GIVE(x, kv_len, ATTN_F32, 2))                                        \
    CASE(kv_len_long, ATTN_E_ARG, "kv_len[1] is 6", "5 keys", (VALUES(x, &x->a, ATTN_I32, 5, 6), x->o.kv_len = &x->a))                     \
    CASE(kv_len_minus, ATTN_E_ARG, "kv_len[0] is -1", "from 0", (VALUES(x, &x->a, ATTN_I64, -1, 5), x->o.kv_len = &x->a))                  \
    CASE(q_len_long, ATTN_E_ARG, "q_len[0] is 4", "3 rows", (VALUES(x, &x->a, ATTN_I64, 4, 0), x->o.q_len = &x->a))                        \
    CASE(q_len_no_data, ATTN_E_ARG, "q_len [2] has no data", "NULL",                                                                       \
         (VALUES(x, &x->a, ATTN_I64, 2, 2), x->o.kv_len = &x->a, x->o.q_len = &without_data))                                              \
    CASE(offsets_shape, ATTN_E_SHAPE, "offsets has shape [4]", "[2]", GIVE(x, offsets, ATTN_I32, 4))                                       \
    CASE(scale_nan, ATTN_E_ARG, "scale is nan", "finite", (x->o.flags = ATTN_SCALE, x->o.scale = (double)NAN))                             \
    CASE(scale_inf, ATTN_E_ARG, "scale is inf", "finite", (x->o.flags = ATTN_SCALE, x->o.scale = (double)INFINITY))                        \
    CASE(softcap_minus, ATTN_E_ARG, "softcap is -1", "positive", x->o.softcap = -1)                                                        \
    CASE(softcap_inf, ATTN_E_ARG, "softcap is inf", "finite", x->o.softcap = (double)INFINITY)                                             \
    CASE(softcap_nan, ATTN_E_ARG, "softcap is nan", "finite", x->o.softcap = (double)NAN)                                                  \
    CASE(dropout_minus, ATTN_E_ARG, "dropout is -0.1", "from 0 to 1", x->o.dropout = -0.1)                                                 \
    CASE(dropout_above, ATTN_E_ARG, "dropout is 1.5", "from 0 to 1", x->o.dropout = 1.5)                                                   \
    CASE(dropout_nan, ATTN_E_ARG, "dropout is nan", "from 0 to 1", x->o.dropout = (double)NAN)                                             \
    CASE(first_row, ATTN_E_ARG, "first_row", "negative", x->o.first_row = -1)                                                              \
    CASE(keep_alone, ATTN_E_ARG, "keep", "dropout is 0", GIVE(x, keep, ATTN_BOOL, 3, 5))                                                   \
    CASE(keep_dtype, ATTN_E_DTYPE, "keep has dtype f32", "bool", (GIVE(x, keep, ATTN_F32, 3, 5), x->o.dropout = 0.5))                      \
    CASE(keep_shape, ATTN_E_SHAPE, "keep has shape [3,6]", "[2,4,3,5]", (GIVE(x, keep, ATTN_BOOL, 3, 6), x->o.dropout = 0.5))              \
    CASE(average_of_nothing, ATTN_E_ARG, "ATTN_AVERAGE", "weights is NULL", x->o.flags = ATTN_AVERAGE)                                     \
    CASE(unknown_flag, ATTN_E_ARG, "unknown", "0x100000", x->o.flags = 1u << 20)                                                           \
    CASE(slopes_shape, ATTN_E_SHAPE, "alibi_slopes has shape [3]", "[4]", (GIVE(x, alibi_slopes, ATTN_F32, 3), x->o.flags = ATTN_OFFSET))  \
    CASE(slopes_dtype, ATTN_E_DTYPE, "alibi_slopes has dtype f16", "f64", (GIVE(x, alibi_slopes, ATTN_F16, 4), x->o.flags = ATTN_OFFSET))  \
    CASE(sinks_shape, ATTN_E_SHAPE, "sinks has shape [2,4]", "[4]", GIVE(x, sinks, ATTN_F32, 2, 4))                                        \
    CASE(slopes_inf, ATTN_E_ARG, "alibi_slopes holds inf", "finite",                                                                       \
         (VALUES(x, &x->a, ATTN_F32, 1, 1, (double)INFINITY, 1), x->o.alibi_slopes = &x->a, x->o.flags = ATTN_OFFSET))                     \
    CASE(sinks_nan, ATTN_E_ARG, "sinks holds nan", "finite", (VALUES(x, &x->a, ATTN_F64, 1, (double)NAN, 1, 1), x->o.sinks = &x->a))       \
    CASE(sinks_inf, ATTN_E_ARG, "sinks holds inf", "finite", (VALUES(x, &x->a, ATTN_F32, (double)INFINITY, 1, 1, 1), x->o.sinks = &x->a))  \
    CASE(lse_dtype, ATTN_E_DTYPE, "lse has dtype f64", "f32", x->lse.dtype = ATTN_F64)                                                     \
    CASE(lse_shape, ATTN_E_SHAPE, "lse has shape [2,4]", "[2,4,3]", x->lse.ndim = 2)                                                       \
    CASE(row_max_shape, ATTN_E_SHAPE, "row_max has shape [2,4,4]", "[2,4,3]", GIVE(x, row_max, ATTN_F32, 2, 4, 4))                         \
    CASE(mass_shape, ATTN_E_SHAPE, "mass has shape [2,4,3]", "[2,4,5]", GIVE(x, mass, ATTN_F32, 2, 4, 3))                                  \
    CASE(weights_shape, ATTN_E_SHAPE, "weights has shape [4,3,5]", "[2,4,3,5]", GIVE(x, weights, ATTN_F32, 4, 3, 5))                       \
    CASE(average_shape, ATTN_E_SHAPE, "weights has shape [2,4,3,5]", "[2,3,5]",                                                            \
         (GIVE(x, weights, ATTN_F32, 2, 4, 3, 5), x->o.flags = ATTN_AVERAGE))                                                              \
    CASE(stage_shape, ATTN_E_SHAPE, "scaled has shape [3,5]", "[2,4,3,5]", GIVE(x, scaled, ATTN_F32, 3, 5))                                \
    CASE(stage_dtype, ATTN_E_DTYPE, "masked has dtype f16", "f32", GIVE(x, masked, ATTN_F16, 2, 4, 3, 5))                                  \
    CASE(cu_alone, ATTN_E_ARG, "cu_seqlens_k is missing", "both", (pack(x), x->o.cu_seqlens_k = NULL))                                     \
    CASE(cu_rank, ATTN_E_SHAPE, "packed", "3", (VALUES(x, &x->a, ATTN_I32, 0, 3), VALUES(x, &x->b, ATTN_I32, 0, 5),                        \
                                                 x->o.cu_seqlens_q = &x->a, x->o.cu_seqlens_k = &x->b))                                    \
    CASE(cu_begin, ATTN_E_ARG, "cu_seqlens_q begins with 1", "0", (pack(x), set_element(&x->a, 0, 0, 0, 0, 1)))                            \
    CASE(cu_falls, ATTN_E_ARG, "cu_seqlens_k falls from 7 to 5", "decrease", (pack(x), set_element(&x->b, 0, 0, 0, 1, 7)))                 \
    CASE(cu_end, ATTN_E_SHAPE, "cu_seqlens_q ends with 5", "6 rows", (pack(x), set_element(&x->a, 0, 0, 0, 2, 5)))                         \
    CASE(cu_items, ATTN_E_SHAPE, "cu_seqlens_k has shape [2]", "[3]", (pack(x), VALUES(x, &x->b, ATTN_I32, 0, 5)))                         \
    CASE(cu_dtype, ATTN_E_DTYPE, "cu_seqlens_q has dtype u32", "int32", (pack(x), x->a.dtype = ATTN_U32))                                  \
    CASE(cu_mask, ATTN_E_UNSUPPORTED, "mask", "packed", (pack(x), x->o.mask = &x->a))                                                      \
    CASE(cu_weights, ATTN_E_UNSUPPORTED, "weights", "packed", (pack(x), x->o.weights = &x->lse))                                           \
    CASE(cu_anchor, ATTN_E_ARG, "causal", "bottom-right", (pack(x), x->o.flags = ATTN_CAUSAL))                                             \
    CASE(out_is_q, ATTN_E_ARG, "out overlaps q", "", (x->out.data = x->q.data, x->v.shape[3] = x->out.shape[3] = 4))                       \
    CASE(out_in_v, ATTN_E_ARG, "out overlaps v", "", x->out.data = (float *)x->v.data + 20)                                                \
    CASE(lse_in_out, ATTN_E_ARG, "lse overlaps out", "", x->lse.data = (float *)x->out.data + 100)                                         \
    CASE(lse_in_mask, ATTN_E_ARG, "lse overlaps", "mask", (x->a = TENSOR(&x->memory, ATTN_BOOL, 3, 5), x->o.mask = &x->a,                  \
                                                           x->a.data = x->lse.data))                                                       \
    CASE(out_of_stride_0, ATTN_E_ARG, "out", "stride", x->out.stride[0] = 0)                                                               \
    CASE(out_of_short_stride, ATTN_E_ARG, "out", "stride", x->out.stride[2] = 5)                                                           \
    CASE(tiny_struct, ATTN_E_ARG, "struct_size is 4", "sizeof", x->o.struct_size = 4)

/* 2^31 x 2^31 x 2^31 elements of stride 0. */
static void huge_axes(args *x) {
    for (int axis = 0; axis < 4; axis++) {
        x->q.shape[axis] = axis < 3 ? (int64_t)1 << 31 : 4;
        x->q.stride[axis] = 0;
    }
}

#define SPOIL(name, status, words, more, ...)                                                                                              \
    static void spoil_##name(args *x) {                                                                                                    \
        __VA_ARGS__;                                                                                                                       \
    }
CASES(SPOIL)

typedef struct refusal {
    const char *name;
    void (*spoil)(args *);
    attn_status status;
    const char *words, *more;
} refusal;
#define ROW(name, status, words, more, ...) {#name, spoil_##name, status, words, more},
static const refusal refusals[] = {CASES(ROW)};

/* Are these bytes as make_args left them? */
static bool untouched(const void *data, size_t bytes) {
    for (size_t n = 0; n < bytes; n++) {
        if (((const unsigned char *)data)[n] != 0x5A) {
            return false;
        }
    }
    return true;
}

static bool refused(attn_ctx *ctx, const refusal *c) {
    args x;
    make_args(&x);
    c->spoil(&x);
    const attn_status s = attn_sdpa(ctx, x.out_given, x.q_given, x.k_given, x.v_given, &x.o);
    const char *sentence = attn_ctx_error(ctx);
    bool ok = s == c->status && strstr(sentence, c->words) && strstr(sentence, c->more) && !strchr(sentence, '\n');
    if (x.out.data != x.q.data && x.out.data != (float *)x.v.data + 20) {
        ok = ok && untouched(x.out.data, 2 * 4 * 3 * 6 * sizeof(float));
    }
    if (!ok) {
        print_error("%s: status %d (should be %d), words \"%s\" and \"%s\" in: %s\n", c->name, (int)s, (int)c->status, c->words, c->more,
                    sentence);
    }
    pool_free(&x.memory);
    return ok;
}

static void every_refusal(void **state) {
    (void)state;
    attn_ctx *ctx = new_ctx(NULL, 1);
    int wrong = 0;
    for (size_t n = 0; n < sizeof refusals / sizeof *refusals; n++) {
        wrong += !refused(ctx, &refusals[n]);
    }
    print_message("%zu refusals\n", sizeof refusals / sizeof *refusals);
    assert_int_equal(wrong, 0);
    attn_ctx_destroy(ctx);
}

/* The sentence goes away with the next success. */
static void success_clears_the_sentence(void **state) {
    (void)state;
    attn_ctx *ctx = new_ctx(NULL, 1);
    args x;
    make_args(&x);
    assert_int_equal(attn_sdpa(ctx, &x.out, NULL, &x.k, &x.v, &x.o), ATTN_E_ARG);
    assert_true(attn_ctx_error(ctx)[0] != 0);
    assert_ok(ctx, attn_sdpa(ctx, &x.out, &x.q, &x.k, &x.v, &x.o));
    assert_string_equal(attn_ctx_error(ctx), "");
    assert_int_equal(attn_sdpa(NULL, &x.out, &x.q, &x.k, &x.v, &x.o), ATTN_E_ARG);
    pool_free(&x.memory);
    attn_ctx_destroy(ctx);
}

/* A caller of an older version: members after its struct are not read. A caller of a newer one: what is beyond must be 0. */
static void struct_sizes(void **state) {
    (void)state;
    struct newer {
        attn_sdpa_opts o;
        uint64_t more[4];
    } newer = {0};
    attn_ctx *ctx = new_ctx(NULL, 1);
    args x;
    make_args(&x);
    memset((char *)&x.o + offsetof(attn_sdpa_opts, mask), 0xA5, sizeof x.o - offsetof(attn_sdpa_opts, mask));
    x.o.struct_size = offsetof(attn_sdpa_opts, mask);
    assert_ok(ctx, attn_sdpa(ctx, &x.out, &x.q, &x.k, &x.v, &x.o));
    newer.o.struct_size = sizeof newer;
    assert_ok(ctx, attn_sdpa(ctx, &x.out, &x.q, &x.k, &x.v, &newer.o));
    newer.more[3] = 1;
    assert_int_equal(attn_sdpa(ctx, &x.out, &x.q, &x.k, &x.v, &newer.o), ATTN_E_ARG);
    assert_non_null(strstr(attn_ctx_error(ctx), "attn_sdpa_opts"));
    newer.o.struct_size = 0; /* this version's */
    assert_ok(ctx, attn_sdpa(ctx, &x.out, &x.q, &x.k, &x.v, &newer.o));
    assert_ok(ctx, attn_sdpa(ctx, &x.out, &x.q, &x.k, &x.v, NULL));
    pool_free(&x.memory);
    attn_ctx_destroy(ctx);
}

/* Views of one array [B,L,2,H,d] that interleave without sharing an element: out beside q is allowed; and its neighbours stay. */
static void interleaved_views_are_allowed(void **state) {
    (void)state;
    attn_ctx *ctx = new_ctx(NULL, 1);
    pool memory = {0};
    rng r = rng_of(test_seed(), 1);
    const int64_t shape[5] = {2, 7, 2, 3, 4};
    const attn_tensor all = new_tensor(&memory, ATTN_F32, 5, shape);
    attn_tensor part[2];
    for (int n = 0; n < 2; n++) {
        part[n] = (attn_tensor){.data = (float *)all.data + n * all.stride[2], .dtype = ATTN_F32, .ndim = 4, .shape = {2, 3, 7, 4},
                                .stride = {all.stride[0], all.stride[3], all.stride[1], all.stride[4]}};
    }
    fill_normal(&part[0], &r, 1);
    const attn_tensor before = packed_copy(&memory, &part[0]);
    attn_tensor apart = TENSOR(&memory, ATTN_F32, 2, 3, 7, 4);
    assert_ok(ctx, attn_sdpa(ctx, &apart, &before, &before, &before, NULL));
    assert_ok(ctx, attn_sdpa(ctx, &part[1], &part[0], &part[0], &part[0], NULL));
    assert_true(same_bits("out between rows of q", &apart, &part[1]));
    assert_true(same_bits("q", &before, &part[0]));
    pool_free(&memory);
    attn_ctx_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_refusal), cmocka_unit_test(success_clears_the_sentence),
                                       cmocka_unit_test(struct_sizes), cmocka_unit_test(interleaved_views_are_allowed)};
    return cmocka_run_group_tests_name("errors", tests, NULL, NULL);
}
