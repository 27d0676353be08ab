/* SPDX-License-Identifier: Apache-2.0 */
/* Calls at the limits: memory that outputs share, sizes whose products wrap, empty arrays with absurd axes, numbers beyond f32. */
#include "support.h"

#include <math.h>
#include <string.h>

/* Two heads of two rows, and an attn_mha of width 4 around them. */
typedef struct fixture {
    pool memory;
    attn_ctx *ctx;
    attn_tensor q, k, v, out;      /* [1,2,2,4] */
    attn_tensor x, w, y;           /* [2,4], [4,4], [2,4] */
    attn_mha_weights *weights;
} fixture;

static fixture make_fixture(void)
{
    fixture f = { 0 };
    rng r = rng_of(test_seed(), 99);
    assert_int_equal(attn_ctx_create(&f.ctx, NULL, NULL, 0), ATTN_OK);
    attn_tensor *all[] = { &f.q, &f.k, &f.v, &f.out, &f.x, &f.w, &f.y };
    for (int i = 0; i < 7; i++) {
        *all[i] = i < 4    ? TENSOR(&f.memory, ATTN_F32, 1, 2, 2, 4)
                  : i == 5 ? TENSOR(&f.memory, ATTN_F32, 4, 4)
                           : TENSOR(&f.memory, ATTN_F32, 2, 4);
        fill_normal(all[i], &r, 1);
    }
    attn_mha_desc d = { .heads = 2, .w_q = &f.w, .w_k = &f.w, .w_v = &f.w, .w_o = &f.w };
    assert_int_equal(attn_mha_prepare(f.ctx, &f.weights, &d), ATTN_OK);
    return f;
}

static void free_fixture(fixture *f)
{
    attn_mha_weights_destroy(f->weights);
    attn_ctx_destroy(f->ctx);
    pool_free(&f->memory);
}

/* attn_mha with these options of its attention must be refused with these words, and write nothing. */
static void assert_mha_refuses(fixture *f, const attn_sdpa_opts *o, attn_status status, const char *words)
{
    attn_mha_opts m = { .sdpa = o };
    float before[8];
    memcpy(before, f->y.data, sizeof before);
    assert_int_equal(attn_mha(f->ctx, &f->y, f->weights, &f->x, NULL, NULL, &m), status);
    assert_non_null(strstr(attn_ctx_error(f->ctx), words));
    assert_memory_equal(before, f->y.data, sizeof before);
}

static void attn_mha_looks_at_every_output(void **state)
{
    (void)state;
    fixture f = make_fixture();
    attn_tensor lse_over_x = attn_tensor_of(f.x.data, ATTN_F32, 2, SHAPE(2, 2));
    attn_tensor max_over_y = attn_tensor_of(f.y.data, ATTN_F32, 2, SHAPE(2, 2));
    attn_tensor absurd = TENSOR(&f.memory, ATTN_BOOL, 2, 2, 2, 2, 2, 2, 2, 2); /* no axis is empty: one who walks them goes on */
    assert_mha_refuses(&f, &(attn_sdpa_opts){ .lse = &lse_over_x }, ATTN_E_ARG, "lse overlaps x");
    assert_mha_refuses(&f, &(attn_sdpa_opts){ .row_max = &max_over_y }, ATTN_E_ARG, "row_max overlaps out");
    absurd.ndim = 500;
    assert_mha_refuses(&f, &(attn_sdpa_opts){ .mask = &absurd }, ATTN_E_SHAPE, "500 axes");
    free_fixture(&f);
}

/* A caller built against an older header: what lies behind its struct is not read. */
static void attn_mha_honours_struct_size(void **state)
{
    (void)state;
    fixture f = make_fixture();
    attn_sdpa_opts o;
    memset(&o, 0xee, sizeof o);
    o.struct_size = offsetof(attn_sdpa_opts, mask);
    o.flags = 0;
    o.scale = o.softcap = 0;
    assert_int_equal(attn_mha(f.ctx, &f.y, f.weights, &f.x, NULL, NULL, &(attn_mha_opts){ .sdpa = &o }), ATTN_OK);
    free_fixture(&f);
}

static void projections_have_a_greatest_size(void **state)
{
    (void)state;
    fixture f = make_fixture();
    attn_mha_weights *none;
    attn_tensor wide = attn_tensor_of(f.w.data, ATTN_F16, 2, SHAPE((int64_t)1 << 30, (int64_t)1 << 31)), empty = wide;
    wide.stride[0] = wide.stride[1] = 0;
    empty.shape[0] = 0;
    empty.shape[1] = ((int64_t)1 << 61) - 1;
    attn_mha_desc d = { .flags = ATTN_MHA_F64, .heads = 2, .w_q = &wide, .w_k = &wide, .w_v = &wide };
    assert_int_equal(attn_mha_prepare(f.ctx, &none, &d), ATTN_E_SHAPE);
    assert_non_null(strstr(attn_ctx_error(f.ctx), "too big"));
    d.w_q = d.w_k = d.w_v = &empty;
    assert_int_equal(attn_mha_prepare(f.ctx, &none, &d), ATTN_E_SHAPE);
    free_fixture(&f);
}

/* Nothing to do is done at once, whatever the other axes are. */
static void empty_arrays_cost_nothing(void **state)
{
    (void)state;
    fixture f = make_fixture();
    attn_tensor q = attn_tensor_of(NULL, ATTN_F32, 4, SHAPE((int64_t)1 << 50, 1, 0, 4));
    attn_tensor mass = attn_tensor_of(NULL, ATTN_F32, 3, SHAPE((int64_t)1 << 50, 1, 0));
    assert_int_equal(attn_sdpa(f.ctx, &q, &q, &q, &q, &(attn_sdpa_opts){ .mass = &mass, .flags = ATTN_CAUSAL }), ATTN_OK);
    free_fixture(&f);
}

static void explained_row_overlaps_nothing(void **state)
{
    (void)state;
    fixture f = make_fixture();
    attn_tensor over_v = attn_tensor_of(f.v.data, ATTN_F32, 1, SHAPE(4)), weights = TENSOR(&f.memory, ATTN_F32, 2);
    assert_int_equal(attn_explain_cell(f.ctx, &(attn_row){ .output = &over_v }, &f.q, &f.k, &f.v, NULL, 0, 0, 0), ATTN_E_ARG);
    assert_non_null(strstr(attn_ctx_error(f.ctx), "output overlaps v"));
    weights.stride[0] = 0;
    assert_int_equal(attn_explain_cell(f.ctx, &(attn_row){ .weights = &weights }, &f.q, &f.k, &f.v, NULL, 0, 0, 0), ATTN_E_ARG);
    assert_int_equal(attn_explain_cell(f.ctx, &(attn_row){ .hidden = f.k.data }, &f.q, &f.k, &f.v, NULL, 0, 0, 0), ATTN_E_ARG);
    free_fixture(&f);
}

static void a_cache_takes_no_packed_rows(void **state)
{
    (void)state;
    fixture f = make_fixture();
    attn_kv *kv;
    attn_tensor cu = new_vector(&f.memory, ATTN_I32, 2);
    assert_int_equal(attn_kv_create(f.ctx, &kv, &(attn_kv_desc){ .kv_heads = 2, .capacity = 4, .head_dim = 4 }), ATTN_OK);
    assert_int_equal(attn_kv_append(f.ctx, kv, &f.k, &f.v), ATTN_OK);
    attn_sdpa_opts o = { .cu_seqlens_q = &cu, .cu_seqlens_k = &cu };
    assert_int_equal(attn_kv_attend(f.ctx, kv, &f.out, &f.q, &o), ATTN_E_UNSUPPORTED);
    attn_kv_destroy(kv);
    free_fixture(&f);
}

/* Finite options beyond the range of f32 count as the greatest f32: nothing becomes NaN. */
static void options_beyond_f32(void **state)
{
    (void)state;
    fixture f = make_fixture();
    attn_tensor huge = new_vector(&f.memory, ATTN_F64, 2), plain = TENSOR(&f.memory, ATTN_F32, 1, 2, 2, 4);
    set_element(&huge, 0, 0, 0, 0, -1e300);
    set_element(&huge, 0, 0, 0, 1, -1e300);
    assert_int_equal(attn_sdpa(f.ctx, &plain, &f.q, &f.k, &f.v, NULL), ATTN_OK);
    const attn_sdpa_opts harmless[] = { { .softcap = 1e39 }, { .softcap = 1e308 }, { .sinks = &huge } };
    for (int n = 0; n < 3; n++) {
        assert_int_equal(attn_sdpa(f.ctx, &f.out, &f.q, &f.k, &f.v, &harmless[n]), ATTN_OK);
        for (int i = 0; i < 16; i++)
            assert_true(fabsf(((float *)f.out.data)[i] - ((float *)plain.data)[i]) < 1e-5f);
    }
    attn_tensor zeros = TENSOR(&f.memory, ATTN_F32, 1, 2, 2, 4);
    const attn_sdpa_opts extreme[] = { { .flags = ATTN_SCALE, .scale = 1e300 }, { .softcap = 1e-50 }, { .alibi_slopes = &huge } };
    for (int n = 0; n < 3; n++) {
        assert_int_equal(attn_sdpa(f.ctx, &f.out, &zeros, &f.k, &f.v, &extreme[n]), ATTN_OK);
        for (int i = 0; i < 16; i++)
            assert_true(isfinite(((float *)f.out.data)[i]));
    }
    free_fixture(&f);
}

/* A score that underflows to -0 is stored alike whether its block was given a bias (row 1 beside row 0 under causal) or not (alone). */
static void zeros_have_one_sign(void **state)
{
    (void)state;
    fixture f = make_fixture();
    float q[] = { 1e-30f, 1e-30f }, k[] = { -1e-30f, -1e-30f }, v[] = { 1, 2 }, out[2], whole[4], alone[2];
    attn_tensor tq = attn_tensor_of(q, ATTN_F32, 2, SHAPE(2, 1)), tk = attn_tensor_of(k, ATTN_F32, 2, SHAPE(2, 1));
    attn_tensor tv = attn_tensor_of(v, ATTN_F32, 2, SHAPE(2, 1)), to = attn_tensor_of(out, ATTN_F32, 2, SHAPE(2, 1));
    attn_tensor masked = attn_tensor_of(whole, ATTN_F32, 2, SHAPE(2, 2)), one = attn_tensor_of(alone, ATTN_F32, 2, SHAPE(1, 2));
    assert_int_equal(attn_sdpa(f.ctx, &to, &tq, &tk, &tv, &(attn_sdpa_opts){ .flags = ATTN_CAUSAL, .masked = &masked }), ATTN_OK);
    tq.shape[0] = to.shape[0] = 1;
    assert_int_equal(attn_sdpa(f.ctx, &to, &tq, &tk, &tv,
                               &(attn_sdpa_opts){ .flags = ATTN_CAUSAL | ATTN_OFFSET, .offset = 1, .masked = &one }), ATTN_OK);
    assert_memory_equal(whole + 2, alone, sizeof alone);
    free_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attn_mha_looks_at_every_output), cmocka_unit_test(attn_mha_honours_struct_size),
        cmocka_unit_test(projections_have_a_greatest_size), cmocka_unit_test(empty_arrays_cost_nothing),
        cmocka_unit_test(explained_row_overlaps_nothing), cmocka_unit_test(a_cache_takes_no_packed_rows),
        cmocka_unit_test(options_beyond_f32), cmocka_unit_test(zeros_have_one_sign),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
