/* SPDX-License-Identifier: Apache-2.0 */
/* What attn_mha, the KV cache, attn_explain_cell and attn_ctx_create refuse: status and the words that matter. */
#define _POSIX_C_SOURCE 200809L
#include "support.h"

#include <stdlib.h>
#include <string.h>

/* The call was refused with this status and a sentence that holds the words. */
static void expect_refusal(attn_status got, attn_status want, const char *sentence, const char *words, const char *more, int line) {
    if (got != want || !strstr(sentence, words) || !strstr(sentence, more) || strchr(sentence, '\n')) {
        print_error("status %d (should be %d), words \"%s\" and \"%s\" in: %s\n", (int)got, (int)want, words, more, sentence);
        _fail(__FILE__, line);
    }
}
#define REFUSES(call, status, words, more) expect_refusal(call, status, attn_ctx_error(ctx), words, more, __LINE__)

/* ------------------------------------------------------------------- mha ---- */

/* in 8 -> 4 heads of 2, 2 KV heads; out 5. */
typedef struct layer {
    pool memory;
    attn_tensor w_q, w_k, w_v, w_o, b, x, out;
    attn_mha_desc d;
} layer;

static void make_layer(layer *l) {
    *l = (layer){.d = {.struct_size = sizeof(attn_mha_desc), .heads = 4, .kv_heads = 2}};
    l->w_q = TENSOR(&l->memory, ATTN_F32, 8, 8);
    l->w_k = TENSOR(&l->memory, ATTN_F32, 8, 4);
    l->w_v = TENSOR(&l->memory, ATTN_F32, 8, 4);
    l->w_o = TENSOR(&l->memory, ATTN_F32, 8, 5);
    l->x = TENSOR(&l->memory, ATTN_F32, 2, 3, 8);
    l->out = TENSOR(&l->memory, ATTN_F32, 2, 3, 5);
    l->d.w_q = &l->w_q;
    l->d.w_k = &l->w_k;
    l->d.w_v = &l->w_v;
    l->d.w_o = &l->w_o;
}

/* 896 columns do not make 13 heads: the sentence lists the head counts that do. */
static void heads_that_do_not_divide(void **state) {
    (void)state;
    attn_ctx *ctx = new_ctx(NULL, 1);
    pool memory = {0};
    attn_tensor w = TENSOR(&memory, ATTN_F32, 896, 896);
    attn_mha_weights *prepared = NULL;
    const attn_mha_desc d = {.heads = 13, .w_q = &w, .w_k = &w, .w_v = &w};
    REFUSES(attn_mha_prepare(ctx, &prepared, &d), ATTN_E_SHAPE, "13", "896");
    const char *list = strstr(attn_ctx_error(ctx), "1, 2, 4, 7, 8, 14, 16, 28, 32");
    assert_non_null(list);
    assert_null(prepared);
    pool_free(&memory);
    attn_ctx_destroy(ctx);
}

#define SPOILED(change, status, words, more)                                                                                               \
    do {                                                                                                                                   \
        make_layer(&l);                                                                                                                    \
        change;                                                                                                                            \
        REFUSES(attn_mha_prepare(ctx, &w, &l.d), status, words, more);                                                                     \
        assert_null(w);                                                                                                                    \
        pool_free(&l.memory);                                                                                                              \
    } while (0)

static void weights_that_do_not_fit(void **state) {
    (void)state;
    attn_ctx *ctx = new_ctx(NULL, 1);
    attn_mha_weights *w = NULL;
    layer l;
    SPOILED(l.d.heads = 0, ATTN_E_ARG, "heads is 0", "from 1 to");
    SPOILED(l.d.heads = -4, ATTN_E_ARG, "heads is -4", "from 1 to");
    SPOILED(l.d.kv_heads = 3, ATTN_E_ARG, "kv_heads is 3", "divide");
    SPOILED(l.d.flags = 64, ATTN_E_ARG, "flags", "0x40");
    SPOILED(l.d.struct_size = 2, ATTN_E_ARG, "struct_size", "sizeof");
    SPOILED(l.w_q.ndim = 1, ATTN_E_SHAPE, "w_q", "(in, H*d)");
    SPOILED(l.w_q.dtype = ATTN_I32, ATTN_E_DTYPE, "w_q", "i32");
    SPOILED(l.d.w_q = NULL, ATTN_E_ARG, "w_q", "NULL");
    SPOILED(l.d.w_v = NULL, ATTN_E_ARG, "w_v", "NULL");
    SPOILED(l.w_k.shape[1] = 2, ATTN_E_SHAPE, "head_dim", "w_k");
    SPOILED(l.w_k.shape[1] = 3, ATTN_E_SHAPE, "3 columns of w_k", "divide");
    SPOILED(l.w_o.shape[0] = 7, ATTN_E_SHAPE, "w_o [7,5]", "8");
    SPOILED((l.b = new_vector(&l.memory, ATTN_F32, 7), l.d.b_q = &l.b), ATTN_E_SHAPE, "b_q has shape [7]", "8");
    SPOILED((l.b = new_vector(&l.memory, ATTN_F32, 4), l.d.b_o = &l.b), ATTN_E_SHAPE, "b_o has shape [4]", "5");
    SPOILED((l.b = new_vector(&l.memory, ATTN_F32, 5), l.d.b_o = &l.b, l.d.w_o = NULL), ATTN_E_ARG, "b_o", "w_o");
    SPOILED((l.b = TENSOR(&l.memory, ATTN_F32, 8, 16), l.d.w_qkv = &l.b), ATTN_E_ARG, "w_qkv", "either");
    SPOILED((l.b = TENSOR(&l.memory, ATTN_F32, 3, 8, 2), l.d.w_q = &l.b), ATTN_E_SHAPE, "w_q [3,8,2]", "4");
    REFUSES(attn_mha_prepare(ctx, NULL, &l.d), ATTN_E_ARG, "out", "NULL");
    REFUSES(attn_mha_prepare(ctx, &w, NULL), ATTN_E_ARG, "desc", "NULL");
    attn_ctx_destroy(ctx);
}

static void inputs_that_do_not_fit(void **state) {
    (void)state;
    attn_ctx *ctx = new_ctx(NULL, 1);
    attn_mha_weights *w = NULL;
    layer l;
    make_layer(&l);
    assert_ok(ctx, attn_mha_prepare(ctx, &w, &l.d));
    attn_tensor wide = TENSOR(&l.memory, ATTN_F32, 2, 3, 9), other = TENSOR(&l.memory, ATTN_F32, 3, 3, 8);
    attn_tensor flat = TENSOR(&l.memory, ATTN_F32, 3, 8), longer = TENSOR(&l.memory, ATTN_F32, 2, 4, 8);
    attn_tensor whole = TENSOR(&l.memory, ATTN_I32, 2, 3, 8), sums = TENSOR(&l.memory, ATTN_I32, 2);
    REFUSES(attn_mha(ctx, &l.out, w, &wide, NULL, NULL, NULL), ATTN_E_SHAPE, "x [2,3,9]", "8");
    REFUSES(attn_mha(ctx, &l.out, w, &whole, NULL, NULL, NULL), ATTN_E_DTYPE, "x has dtype i32", "f32");
    REFUSES(attn_mha(ctx, &l.out, w, &l.x, &other, NULL, NULL), ATTN_E_SHAPE, "memory [3,3,8]", "x [2,3,8]");
    REFUSES(attn_mha(ctx, &l.out, w, &l.x, &flat, NULL, NULL), ATTN_E_SHAPE, "memory", "[B,L,width]");
    REFUSES(attn_mha(ctx, &l.out, w, &l.x, &l.x, &longer, NULL), ATTN_E_SHAPE, "memory", "4");
    REFUSES(attn_mha(ctx, &l.x, w, &l.x, NULL, NULL, NULL), ATTN_E_SHAPE, "out", "5");
    REFUSES(attn_mha(ctx, &l.out, NULL, &l.x, NULL, NULL, NULL), ATTN_E_ARG, "w", "NULL");
    REFUSES(attn_mha(ctx, &l.out, w, NULL, NULL, NULL, NULL), ATTN_E_ARG, "x", "NULL");
    REFUSES(attn_mha(ctx, NULL, w, &l.x, NULL, NULL, NULL), ATTN_E_ARG, "out", "NULL");
    attn_tensor in_x = l.out;
    in_x.data = l.x.data;
    REFUSES(attn_mha(ctx, &in_x, w, &l.x, NULL, NULL, NULL), ATTN_E_ARG, "out overlaps x", "");
    attn_sdpa_opts packed = {.cu_seqlens_q = &sums, .cu_seqlens_k = &sums}, scale = {.flags = 1u << 30};
    attn_mha_opts o = {.sdpa = &packed};
    REFUSES(attn_mha(ctx, &l.out, w, &l.x, NULL, NULL, &o), ATTN_E_UNSUPPORTED, "packed", "attn_mha");
    o.sdpa = &scale;
    REFUSES(attn_mha(ctx, &l.out, w, &l.x, NULL, NULL, &o), ATTN_E_ARG, "unknown", "0x40000000");
    o = (attn_mha_opts){.flags = 3};
    REFUSES(attn_mha(ctx, &l.out, w, &l.x, NULL, NULL, &o), ATTN_E_ARG, "flags", "0x3");
    o = (attn_mha_opts){.q = &wide};
    REFUSES(attn_mha(ctx, &l.out, w, &l.x, NULL, NULL, &o), ATTN_E_SHAPE, "q has shape [2,3,9]", "[2,4,3,2]");
    assert_ok(ctx, attn_mha(ctx, &l.out, w, &l.x, NULL, NULL, NULL));
    attn_mha_weights_destroy(w);
    attn_mha_weights_destroy(NULL);
    pool_free(&l.memory);
    attn_ctx_destroy(ctx);
}

/* ----------------------------------------------------------------- cache ---- */

static void what_a_cache_refuses(void **state) {
    (void)state;
    attn_ctx *ctx = new_ctx(NULL, 1);
    pool memory = {0};
    rng r = rng_of(test_seed(), 1);
    attn_kv *kv = NULL;
    attn_kv_desc d = {.kv_heads = 2, .capacity = 4, .head_dim = 3, .dtype = ATTN_I8};
    REFUSES(attn_kv_create(ctx, &kv, &d), ATTN_E_DTYPE, "dtype", "f16");
    d.dtype = ATTN_F32;
    d.kv_heads = 0;
    REFUSES(attn_kv_create(ctx, &kv, &d), ATTN_E_ARG, "kv_heads 0", "positive");
    d.kv_heads = (int64_t)1 << 40;
    d.capacity = (int64_t)1 << 40;
    REFUSES(attn_kv_create(ctx, &kv, &d), ATTN_E_SHAPE, "63 bits", "");
    REFUSES(attn_kv_create(ctx, &kv, NULL), ATTN_E_ARG, "NULL", "");
    assert_null(kv);
    d = (attn_kv_desc){.kv_heads = 2, .capacity = 4, .head_dim = 3};
    assert_ok(ctx, attn_kv_create(ctx, &kv, &d));
    attn_tensor k = TENSOR(&memory, ATTN_F32, 2, 3, 3), v = TENSOR(&memory, ATTN_F32, 2, 3, 3), wide = TENSOR(&memory, ATTN_F32, 2, 3, 4);
    attn_tensor two = TENSOR(&memory, ATTN_F32, 2, 2, 3), q = TENSOR(&memory, ATTN_F32, 4, 4, 3), out = TENSOR(&memory, ATTN_F32, 4, 4, 3);
    fill_normal(&k, &r, 1);
    REFUSES(attn_kv_append(ctx, kv, &wide, &v), ATTN_E_SHAPE, "k has shape [2,3,4]", "[1,2,n,3]");
    REFUSES(attn_kv_append(ctx, kv, &k, &two), ATTN_E_SHAPE, "3 rows", "2");
    REFUSES(attn_kv_append(ctx, kv, NULL, &v), ATTN_E_ARG, "k is NULL", "");
    assert_int_equal(attn_kv_length(kv), 0);
    assert_ok(ctx, attn_kv_append(ctx, kv, &k, &v));
    REFUSES(attn_kv_append(ctx, kv, &two, &two), ATTN_E_FULL, "3 of 4 rows", "truncate");
    attn_tensor held_k, held_v;
    attn_kv_view(kv, &held_k, &held_v);
    assert_int_equal(attn_kv_length(kv), 3);
    assert_int_equal(attn_kv_capacity(kv), 4);
    assert_true(same_bits("a full cache", &k, &held_k));
    REFUSES(attn_kv_truncate(ctx, kv, 4), ATTN_E_ARG, "length is 4", "3");
    REFUSES(attn_kv_truncate(ctx, kv, -1), ATTN_E_ARG, "length is -1", "0");
    REFUSES(attn_kv_attend(ctx, kv, &out, &q, NULL), ATTN_E_SHAPE, "4 rows", "3");
    attn_tensor three = slice(q, 1, 0, 3), three_out = slice(out, 1, 0, 3);
    const attn_sdpa_opts o = {.align = ATTN_ALIGN_TOP_LEFT};
    REFUSES(attn_kv_attend(ctx, kv, &three_out, &three, &o), ATTN_E_ARG, "align", "attn_kv_attend");
    assert_ok(ctx, attn_kv_attend(ctx, kv, &three_out, &three, NULL));
    attn_kv_destroy(kv);
    attn_kv_destroy(NULL);
    pool_free(&memory);
    attn_ctx_destroy(ctx);
}

/* --------------------------------------------------------------- explain ---- */

static void cells_that_are_not_there(void **state) {
    (void)state;
    attn_ctx *ctx = new_ctx(NULL, 1);
    pool memory = {0};
    attn_tensor q = TENSOR(&memory, ATTN_F32, 2, 3, 4, 5), short_row = TENSOR(&memory, ATTN_F32, 3), sums = TENSOR(&memory, ATTN_I32, 2);
    attn_row row = {0};
    REFUSES(attn_explain_cell(ctx, &row, &q, &q, &q, NULL, 2, 0, 0), ATTN_E_ARG, "(2,0,0)", "2 items");
    REFUSES(attn_explain_cell(ctx, &row, &q, &q, &q, NULL, 0, 3, 0), ATTN_E_ARG, "(0,3,0)", "3 heads");
    REFUSES(attn_explain_cell(ctx, &row, &q, &q, &q, NULL, 0, 0, -1), ATTN_E_ARG, "(0,0,-1)", "4 rows");
    REFUSES(attn_explain_cell(ctx, NULL, &q, &q, &q, NULL, 0, 0, 0), ATTN_E_ARG, "row is NULL", "");
    row.flags = 2;
    REFUSES(attn_explain_cell(ctx, &row, &q, &q, &q, NULL, 0, 0, 0), ATTN_E_ARG, "flags", "0x2");
    row = (attn_row){.weights = &short_row};
    REFUSES(attn_explain_cell(ctx, &row, &q, &q, &q, NULL, 0, 0, 0), ATTN_E_SHAPE, "weights has shape [3]", "[4]");
    row = (attn_row){0};
    attn_tensor t = TENSOR(&memory, ATTN_F32, 4, 3, 5);
    set_element(&sums, 0, 0, 0, 1, 4);
    const attn_sdpa_opts o = {.cu_seqlens_q = &sums, .cu_seqlens_k = &sums};
    REFUSES(attn_explain_cell(ctx, &row, &t, &t, &t, &o, 0, 0, 0), ATTN_E_UNSUPPORTED, "packed", "");
    assert_ok(ctx, attn_explain_cell(ctx, &row, &q, &q, &q, NULL, 1, 2, 3));
    pool_free(&memory);
    attn_ctx_destroy(ctx);
}

/* --------------------------------------------------------------- context ---- */

static void expect_no_context(const attn_ctx_opts *o, attn_status status, const char *words, const char *more) {
    char sentence[512];
    attn_ctx *ctx = (attn_ctx *)(void *)sentence;
    expect_refusal(attn_ctx_create(&ctx, o, sentence, sizeof sentence), status, sentence, words, more, __LINE__);
    assert_null(ctx);
    assert_int_equal(attn_ctx_create(&ctx, o, NULL, 0), status);
    char small[8];
    memset(small, 'x', sizeof small);
    assert_int_equal(attn_ctx_create(&ctx, o, small, 5), status);
    assert_int_equal(strlen(small), 4);
    assert_int_equal(small[5], 'x');
}

static void *no_alloc(void *user, size_t align, size_t size) {
    (void)user;
    (void)align;
    (void)size;
    return NULL;
}

static void no_free(void *user, void *memory) {
    (void)user;
    (void)memory;
}

static void contexts_that_cannot_be(void **state) {
    (void)state;
    expect_no_context(&(attn_ctx_opts){.isa = "mmx"}, ATTN_E_UNSUPPORTED, "isa is 'mmx'", "scalar");
    expect_no_context(&(attn_ctx_opts){.struct_size = 3}, ATTN_E_ARG, "struct_size", "sizeof");
    expect_no_context(&(attn_ctx_opts){.alloc = no_alloc}, ATTN_E_ARG, "alloc and free", "NULL");
    expect_no_context(&(attn_ctx_opts){.alloc = no_alloc, .free = no_free}, ATTN_E_NOMEM, "memory", "");
    expect_no_context(&(attn_ctx_opts){.threads = 2000000000}, ATTN_E_ARG, "threads is 2000000000", "");
    setenv("ATTN_ISA", "sse9", 1);
    expect_no_context(NULL, ATTN_E_UNSUPPORTED, "ATTN_ISA is 'sse9'", "scalar");
    unsetenv("ATTN_ISA");
    static const char *const numbers[] = {"0", "-2", "two", "3x", "99999999999999999999"};
    for (int n = 0; n < 5; n++) {
        setenv("ATTN_NUM_THREADS", numbers[n], 1);
        expect_no_context(NULL, ATTN_E_ARG, "ATTN_NUM_THREADS", numbers[n]);
    }
    setenv("ATTN_NUM_THREADS", "3", 1);
    setenv("OMP_NUM_THREADS", "5", 1);
    attn_ctx *ctx = new_ctx(NULL, 0);
    assert_int_equal(attn_ctx_info(ctx).threads, 3);
    assert_string_equal(attn_ctx_info(ctx).path, "none");
    attn_ctx_destroy(ctx);
    unsetenv("ATTN_NUM_THREADS");
    ctx = new_ctx("scalar", 0);
    assert_int_equal(attn_ctx_info(ctx).threads, 5);
    assert_string_equal(attn_ctx_info(ctx).isa, "scalar");
    attn_ctx_destroy(ctx);
    unsetenv("OMP_NUM_THREADS");
    attn_ctx_destroy(NULL);
    assert_int_equal(attn_ctx_create(NULL, NULL, NULL, 0), ATTN_E_ARG);
}

/* ---------------------------------------------------------------- status ---- */

/* And what they answer: rates above 0, and what attn_ctx_info tells is left alone. */
static void what_cannot_be_measured(void **state) {
    (void)state;
    attn_ctx *ctx = new_ctx(NULL, 2);
    float memory[1000] = {0};
    double rate = 0;
    REFUSES(attn_measure_peak(ctx, ATTN_F16, &rate), ATTN_E_ARG, "dtype is f16", "f32, f64 or bf16");
    REFUSES(attn_measure_peak(ctx, ATTN_F32, NULL), ATTN_E_ARG, "gflops NULL", "a place for the result");
    REFUSES(attn_measure_stream(ctx, NULL, 4, &rate), ATTN_E_ARG, "memory is NULL", "at least 4 bytes");
    REFUSES(attn_measure_stream(ctx, memory, 3, &rate), ATTN_E_ARG, "bytes 3", "at least 4 bytes");
    REFUSES(attn_measure_stream(ctx, memory, 4, NULL), ATTN_E_ARG, "gb_per_second NULL", "a place for the result");
    assert_int_equal(attn_measure_stream(NULL, memory, 4, &rate), ATTN_E_ARG);
    assert_ok(ctx, attn_measure_stream(ctx, memory, sizeof memory, &rate));
    assert_true(rate > 0);
    rate = 0;
    assert_ok(ctx, attn_measure_peak(ctx, ATTN_F64, &rate));
    assert_true(rate > 0);
    assert_int_equal(attn_ctx_info(ctx).threads, 2);
    assert_string_equal(attn_ctx_info(ctx).path, "none");
    attn_ctx_destroy(ctx);
    const char *isa;
    for (int level = 0; (isa = usable_isa(level)); level++) { /* a dot product of bf16: where the name says so */
        ctx = new_ctx(isa, 1);
        if (strstr(isa, "_bf16")) {
            rate = 0;
            assert_ok(ctx, attn_measure_peak(ctx, ATTN_BF16, &rate));
            assert_true(rate > 0);
        } else {
            REFUSES(attn_measure_peak(ctx, ATTN_BF16, &rate), ATTN_E_UNSUPPORTED, isa, "ask for f32");
        }
        attn_ctx_destroy(ctx);
    }
}

/* Pinned: a change of these values breaks callers. */
static void statuses_are_pinned(void **state) {
    (void)state;
    static const attn_status values[] = {ATTN_OK,     ATTN_E_ARG,    ATTN_E_SHAPE,     ATTN_E_DTYPE, ATTN_E_UNSUPPORTED, ATTN_E_NOMEM,
                                         ATTN_E_IO,   ATTN_E_FORMAT, ATTN_E_CANCELLED, ATTN_E_FULL};
    for (int n = 0; n < 10; n++) {
        assert_int_equal(values[n], n);
        assert_true(strlen(attn_status_str(values[n])) > 1);
        assert_true(strcmp(attn_status_str(values[n]), attn_status_str((attn_status)((n + 1) % 10))) != 0);
    }
    assert_non_null(attn_status_str((attn_status)77));
    assert_int_equal(attn_dtype_size((attn_dtype)77), 0);
    assert_string_equal(attn_dtype_name((attn_dtype)77), "?");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads_that_do_not_divide), cmocka_unit_test(weights_that_do_not_fit), cmocka_unit_test(inputs_that_do_not_fit),
        cmocka_unit_test(what_a_cache_refuses),     cmocka_unit_test(cells_that_are_not_there), cmocka_unit_test(contexts_that_cannot_be),
        cmocka_unit_test(what_cannot_be_measured),  cmocka_unit_test(statuses_are_pinned),
    };
    return cmocka_run_group_tests_name("refusals", tests, NULL, NULL);
}
