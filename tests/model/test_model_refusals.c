/* SPDX-License-Identifier: Apache-2.0 */
/* What libattn_model refuses: status and the words that matter; nothing is written. Running out of memory at every allocation. */
#include "compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void expect_refusal(attn_status got, attn_status want, const char *sentence, const char *words, const char *more, int line) {
    if (got != want || !strstr(sentence, words) || !strstr(sentence, more) || strchr(sentence, '\n')) {
        print_error("status %d (should be %d), words \"%s\" and \"%s\" in: %s\n", (int)got, (int)want, words, more, sentence);
        _fail(__FILE__, line);
    }
}
#define REFUSES(call, status, words, more) expect_refusal(call, status, attn_ctx_error(ctx), words, more, __LINE__)

static float memory[6][64];
static attn_tensor floats(int n, int32_t ndim, const int64_t *shape) {
    return attn_tensor_of(memory[n], ATTN_F32, ndim, shape);
}

static void norms(void **state) {
    (void)state;
    attn_ctx *ctx = new_ctx(NULL, 1);
    attn_tensor x = floats(0, 2, SHAPE(2, 4)), out = floats(1, 2, SHAPE(2, 4)), w = floats(2, 1, SHAPE(3));
    attn_tensor short_out = floats(1, 2, SHAPE(2, 3));
    attn_norm_opts o = {.weight = &w};
    REFUSES(attn_layer_norm(ctx, &out, &x, &o), ATTN_E_SHAPE, "weight has shape [3]", "4");
    REFUSES(attn_layer_norm(ctx, &short_out, &x, NULL), ATTN_E_SHAPE, "[2,3]", "[2,4]");
    REFUSES(attn_layer_norm(ctx, NULL, &x, NULL), ATTN_E_ARG, "out is NULL", "");
    REFUSES(attn_rms_norm(ctx, &x, &x, NULL), ATTN_E_ARG, "out overlaps x", "");
    o = (attn_norm_opts){.flags = 1u << 9};
    REFUSES(attn_rms_norm(ctx, &out, &x, &o), ATTN_E_ARG, "unknown bits 0x200", "");
    o = (attn_norm_opts){.eps = 1e-6};
    REFUSES(attn_rms_norm(ctx, &out, &x, &o), ATTN_E_ARG, "eps is 1e-06", "ATTN_NORM_EPS");
    o = (attn_norm_opts){.flags = ATTN_NORM_EPS, .eps = -1};
    REFUSES(attn_rms_norm(ctx, &out, &x, &o), ATTN_E_ARG, "eps is -1", "not negative");
    o = (attn_norm_opts){.flags = ATTN_NORM_PLUS_ONE};
    REFUSES(attn_rms_norm(ctx, &out, &x, &o), ATTN_E_ARG, "ATTN_NORM_PLUS_ONE", "weight is NULL");
    x.dtype = ATTN_I32;
    REFUSES(attn_rms_norm(ctx, &out, &x, NULL), ATTN_E_DTYPE, "x has dtype i32", "bf16");
    attn_ctx_destroy(ctx);
}

static void activations_and_linear(void **state) {
    (void)state;
    attn_ctx *ctx = new_ctx(NULL, 1);
    attn_tensor x = floats(0, 2, SHAPE(2, 4)), out = floats(1, 2, SHAPE(2, 4)), w = floats(2, 2, SHAPE(5, 4)), b = floats(3, 1, SHAPE(2));
    REFUSES(attn_activate(ctx, &out, &x, (attn_activation)4), ATTN_E_ARG, "the activation is 4", "ATTN_RELU");
    REFUSES(attn_glu(ctx, &out, &x, NULL, ATTN_SILU), ATTN_E_ARG, "up is NULL", "attn_activate");
    REFUSES(attn_glu(ctx, &out, &x, &w, ATTN_SILU), ATTN_E_SHAPE, "up has shape [5,4]", "gate has [2,4]");
    attn_linear_weights *made = NULL;
    attn_linear_desc d = {.w = &w, .b = &b};
    REFUSES(attn_linear_prepare(ctx, &made, &d), ATTN_E_SHAPE, "b has shape [2]", "4");
    d = (attn_linear_desc){.b = &b};
    REFUSES(attn_linear_prepare(ctx, &made, &d), ATTN_E_ARG, "w is NULL", "");
    d = (attn_linear_desc){.w = &w, .flags = 2};
    REFUSES(attn_linear_prepare(ctx, &made, &d), ATTN_E_ARG, "unknown bits 0x2", "");
    d.flags = 0;
    assert_ok(ctx, attn_linear_prepare(ctx, &made, &d));
    REFUSES(attn_linear(ctx, &out, made, &x), ATTN_E_SHAPE, "width 4 but w takes 5", "");
    x = attn_tensor_of(memory[0], ATTN_F64, 2, SHAPE(2, 5));
    REFUSES(attn_linear(ctx, &out, made, &x), ATTN_E_DTYPE, "x [2,5] is f64", "ATTN_LINEAR_F64");
    REFUSES(attn_linear(ctx, &out, NULL, &x), ATTN_E_ARG, "w is NULL", "");
    attn_linear_destroy(made);
    attn_linear_destroy(NULL);
    attn_ctx_destroy(ctx);
}

static void ropes(void **state) {
    (void)state;
    attn_ctx *ctx = new_ctx(NULL, 1);
    attn_rope *rope = NULL;
    attn_tensor table = floats(2, 2, SHAPE(3, 2)), other = floats(3, 2, SHAPE(3, 4));
#define DESC(...) (&(attn_rope_desc){__VA_ARGS__})
#define BAD(words, more, ...) REFUSES(attn_rope_create(ctx, &rope, DESC(__VA_ARGS__)), ATTN_E_ARG, words, more)
    BAD("head_dim is 0", "", .head_dim = 0);
    BAD("rotary_dim is 3", "head_dim of 4", .head_dim = 4, .rotary_dim = 3);
    BAD("rotary_dim is 6", "head_dim of 4", .head_dim = 4, .rotary_dim = 6);
    BAD("theta is 0.5", "greater than 1", .head_dim = 4, .theta = 0.5);
    BAD("factor is 0.5", "at least 1", .head_dim = 4, .factor = 0.5);
    BAD("scaling is 9", "ATTN_ROPE_YARN", .head_dim = 4, .scaling = (attn_rope_scaling)9);
    BAD("original_length is 0", "", .head_dim = 4, .scaling = ATTN_ROPE_LLAMA3);
    BAD("low_freq is 5", "high_freq 4", .head_dim = 4, .scaling = ATTN_ROPE_LLAMA3, .original_length = 9, .low_freq = 5);
    BAD("beta_slow 40", "", .head_dim = 4, .scaling = ATTN_ROPE_YARN, .original_length = 9, .beta_slow = 40);
    BAD("rotary_dim is 2", "dynamic", .head_dim = 2, .scaling = ATTN_ROPE_DYNAMIC, .original_length = 9);
    BAD("attention_factor is -1", "", .head_dim = 4, .scaling = ATTN_ROPE_YARN, .original_length = 9, .attention_factor = -1);
    BAD("unknown bits 0x8", "", .head_dim = 4, .flags = 8);
    float none[] = {1, 0}, one[] = {2, 2};
    attn_tensor zero = attn_tensor_of(none, ATTN_F32, 1, SHAPE(2)), two = attn_tensor_of(one, ATTN_F32, 1, SHAPE(2));
    BAD("divisors[1] is 0", "positive", .head_dim = 4, .divisors = &zero);
    BAD("divisors", "the tables say it all", .head_dim = 4, .cos = &table, .sin = &table, .divisors = &two);
    REFUSES(attn_rope_create(ctx, &rope, DESC(.head_dim = 6, .divisors = &two)), ATTN_E_SHAPE, "[2]", "half the rotary_dim is 3");
    assert_ok(ctx, attn_rope_create(ctx, &rope, DESC(.head_dim = 4, .theta = 100, .divisors = &two)));
    assert_true(attn_rope_frequency(rope, 0) == 0.5 && attn_rope_frequency(rope, 1) == 0.05);
    attn_rope_destroy(rope);
    rope = NULL;
    BAD("cos is given without sin", "", .head_dim = 4, .cos = &table);
    BAD("together with theta", "", .head_dim = 4, .cos = &table, .sin = &table, .theta = 10000);
    REFUSES(attn_rope_create(ctx, &rope, DESC(.head_dim = 4, .cos = &table, .sin = &other)), ATTN_E_SHAPE, "[3,4]", "[3,2]");
    assert_null(rope);
    assert_ok(ctx, attn_rope_create(ctx, &rope, DESC(.head_dim = 4, .cos = &table, .sin = &table)));
    attn_tensor x = floats(0, 2, SHAPE(3, 4)), out = floats(1, 2, SHAPE(3, 4)), wide = floats(0, 2, SHAPE(2, 6));
    int32_t far[] = {0, 3, 1};
    attn_tensor at = attn_tensor_of(far, ATTN_I32, 1, SHAPE(3));
    REFUSES(attn_rope_apply(ctx, &out, &x, rope, &(attn_rope_opts){.offset = 1}), ATTN_E_ARG, "from 1 on, 3 of them", "from 0 to 2");
    REFUSES(attn_rope_apply(ctx, &out, &x, rope, &(attn_rope_opts){.positions = &at}), ATTN_E_ARG, "row 1 of item 0 is 3", "from 0 to 2");
    REFUSES(attn_rope_apply(ctx, &out, &x, rope, &(attn_rope_opts){.positions = &at, .offset = 1}), ATTN_E_ARG, "offset is 1", "either");
    REFUSES(attn_rope_apply(ctx, &wide, &wide, rope, NULL), ATTN_E_SHAPE, "head_dim 6", "made for 4");
    REFUSES(attn_rope_apply(ctx, &x, &x, rope, NULL), ATTN_E_ARG, "out overlaps x", "");
    REFUSES(attn_rope_apply(ctx, &out, &x, NULL, NULL), ATTN_E_ARG, "rope is NULL", "");
    at.shape[0] = 2;
    REFUSES(attn_rope_apply(ctx, &out, &x, rope, &(attn_rope_opts){.positions = &at}), ATTN_E_SHAPE, "positions have shape [2]", "[3]");
    attn_rope_destroy(rope);
    attn_rope_destroy(NULL);
    attn_ctx_destroy(ctx);
}

static void embeddings(void **state) {
    (void)state;
    attn_ctx *ctx = new_ctx(NULL, 1);
    int32_t numbers[] = {0, 5, 2}, places[] = {0, 1, -1};
    attn_tensor ids = attn_tensor_of(numbers, ATTN_I32, 1, SHAPE(3)), at = attn_tensor_of(places, ATTN_I32, 1, SHAPE(3));
    attn_tensor token = floats(0, 2, SHAPE(5, 4)), position = floats(1, 2, SHAPE(2, 4)), out = floats(2, 2, SHAPE(3, 4));
#define EMBED(...) attn_embed(ctx, &out, &ids, &(attn_embed_opts){__VA_ARGS__})
    memory[2][0] = 77;
    REFUSES(EMBED(.token = &token), ATTN_E_ARG, "ids has 5 at place 1 of item 0", "rows 0 to 4");
    numbers[1] = 1;
    REFUSES(EMBED(.token = NULL), ATTN_E_ARG, "token is NULL", "");
    REFUSES(EMBED(.token = &token, .position = &position), ATTN_E_ARG, "3 rows from row 0 on", "has 2");
    REFUSES(EMBED(.token = &token, .position = &position, .position_ids = &at), ATTN_E_ARG, "position_ids has -1 at place 2", "0 to 1");
    REFUSES(EMBED(.token = &token, .position_ids = &at), ATTN_E_ARG, "position_ids are given without", "position");
    REFUSES(EMBED(.token = &token, .offset = 1), ATTN_E_ARG, "offset is 1", "position");
    REFUSES(EMBED(.token = &token, .scale = 2), ATTN_E_ARG, "scale is 2", "ATTN_EMBED_SCALE");
    ids.dtype = ATTN_F32;
    REFUSES(EMBED(.token = &token), ATTN_E_DTYPE, "ids has dtype f32", "i64");
    assert_true(memory[2][0] == 77);
    attn_ctx_destroy(ctx);
}

/* ------------------------------------------------------- out of memory ---- */

typedef struct meter {
    int left, held; /* allocations until one is refused; those not yet freed */
} meter;

static void *metered_alloc(void *user, size_t align, size_t size) {
    meter *m = user;
    if (m->left-- <= 0) {
        return NULL;
    }
    m->held++;
    return aligned_alloc(align, (size + align - 1) / align * align);
}

static void metered_free(void *user, void *p) {
    meter *m = user;
    m->held--;
    free(p);
}

static void norms_of_heads(void **state) {
    (void)state;
    attn_ctx *ctx = new_ctx(NULL, 1);
    const attn_tensor table = floats(2, 2, SHAPE(4, 4)), two = floats(3, 1, SHAPE(2)), four = floats(4, 1, SHAPE(4));
    const attn_mha_desc mha = {.heads = 2, .w_q = &table, .w_k = &table, .w_v = &table, .w_o = &table};
    const attn_norm_opts right = {.weight = &two}, wide = {.weight = &four};
    attn_layer *layer = NULL;
    REFUSES(attn_layer_prepare(ctx, &layer, &(attn_layer_desc){.self = &mha, .q_norm = &right}), ATTN_E_ARG,
            "q_norm is given without k_norm", "");
    REFUSES(attn_layer_prepare(ctx, &layer, &(attn_layer_desc){.self = &mha, .q_norm = &right, .k_norm = &wide}), ATTN_E_SHAPE,
            "k_norm: weight has shape [4]", "2");
    assert_null(layer);
    attn_ctx_destroy(ctx);
}

/* A layer with all its parts. */
static attn_status do_layer(attn_ctx *ctx) {
    attn_tensor x = floats(0, 2, SHAPE(2, 4)), out = floats(1, 2, SHAPE(2, 4));
    const attn_tensor table = floats(2, 2, SHAPE(4, 4)), b = floats(3, 1, SHAPE(4));
    const attn_mha_desc mha = {.heads = 2, .w_q = &table, .w_k = &table, .w_v = &table, .w_o = &table, .b_o = &b};
    const attn_mlp_desc mlp = {.w_up = &table, .b_up = &b, .w_gate = &table, .w_down = &table};
    const attn_tensor two = floats(4, 1, SHAPE(2));
    const attn_norm_opts norm = {.weight = &b, .bias = &b}, head = {.weight = &two, .bias = &two};
    const attn_layer_desc d = {.self = &mha, .self_norm = &norm, .cross = &mha, .cross_norm = &norm, .mlp = &mlp, .mlp_norm = &norm,
                               .q_norm = &head, .k_norm = &head};
    const attn_kv_desc room = {.kv_heads = 2, .capacity = 4, .head_dim = 2};
    attn_layer *layer = NULL;
    attn_kv *kv = NULL, *memory_kv = NULL;
    attn_status s = attn_layer_prepare(ctx, &layer, &d);
    s = s ? s : attn_kv_create(ctx, &kv, &room);
    s = s ? s : attn_kv_create(ctx, &memory_kv, &room);
    s = s ? s : attn_layer_memory(ctx, memory_kv, layer, &x);
    s = s ? s : attn_layer_run(ctx, &out, layer, &x, &(attn_layer_opts){.kv = kv, .memory_kv = memory_kv});
    assert_true(s == ATTN_OK || !kv || attn_kv_length(kv) == 0);
    attn_kv_destroy(kv);
    attn_kv_destroy(memory_kv);
    attn_layer_destroy(layer);
    return s;
}

/* Prepares and runs one of each on a fresh context; ATTN_E_NOMEM as soon as one is refused. */
static attn_status do_all(meter *m) {
    const attn_ctx_opts hooks = {.threads = 1, .alloc = metered_alloc, .free = metered_free, .user = m};
    attn_ctx *ctx = NULL;
    attn_rope *rope = NULL;
    attn_linear_weights *w = NULL;
    attn_tensor x = floats(0, 2, SHAPE(2, 4)), out = floats(1, 2, SHAPE(2, 4)), table = floats(2, 2, SHAPE(4, 4));
    const attn_tensor b = floats(3, 1, SHAPE(4));
    int32_t numbers[] = {0, 1};
    const attn_tensor ids = attn_tensor_of(numbers, ATTN_I32, 1, SHAPE(2));
    attn_status s = attn_ctx_create(&ctx, &hooks, NULL, 0);
    s = s ? s : attn_rope_create(ctx, &rope, DESC(.head_dim = 4));
    s = s ? s : attn_linear_prepare(ctx, &w, &(attn_linear_desc){.w = &table, .b = &b});
    s = s ? s : attn_layer_norm(ctx, &out, &x, NULL);
    s = s ? s : attn_rope_apply(ctx, &out, &x, rope, NULL);
    s = s ? s : attn_linear(ctx, &out, w, &x);
    s = s ? s : attn_embed(ctx, &out, &ids, &(attn_embed_opts){.token = &table});
    s = s ? s : do_layer(ctx);
    attn_linear_destroy(w);
    attn_rope_destroy(rope);
    attn_ctx_destroy(ctx);
    return s;
}

static void out_of_memory(void **state) {
    (void)state;
    int refused = 0;
    for (int n = 0; n < 100; n++) {
        meter m = {.left = n};
        const attn_status s = do_all(&m);
        assert_int_equal(m.held, 0);
        assert_true(s == ATTN_OK || s == ATTN_E_NOMEM);
        if (s == ATTN_OK) {
            break;
        }
        refused++;
    }
    assert_in_range(refused, 20, 99);
}

static void second_calls_allocate_nothing(void **state) {
    (void)state;
    meter m = {.left = 1000};
    const attn_ctx_opts hooks = {.threads = 1, .alloc = metered_alloc, .free = metered_free, .user = &m};
    attn_tensor x = floats(0, 2, SHAPE(2, 4)), out = floats(1, 2, SHAPE(2, 4));
    const attn_tensor table = floats(2, 2, SHAPE(4, 4)), b = floats(3, 1, SHAPE(4));
    const attn_mha_desc mha = {.heads = 2, .w_q = &table, .w_k = &table, .w_v = &table, .w_o = &table};
    const attn_mlp_desc mlp = {.w_up = &table, .w_gate = &table, .w_down = &table};
    const attn_norm_opts norm = {.weight = &b, .bias = &b};
    attn_ctx *ctx = NULL;
    attn_layer *layer = NULL;
    attn_rope *rope = NULL;
    assert_int_equal(attn_ctx_create(&ctx, &hooks, NULL, 0), ATTN_OK);
    assert_ok(ctx, attn_rope_create(ctx, &rope, DESC(.head_dim = 2)));
    const attn_layer_desc d = {.self = &mha, .self_norm = &norm, .mlp = &mlp, .mlp_norm = &norm, .rope = rope};
    assert_ok(ctx, attn_layer_prepare(ctx, &layer, &d));
    int left = 0;
    for (int run = 0; run < 3; run++) {
        assert_ok(ctx, attn_layer_run(ctx, &out, layer, &x, NULL));
        assert_ok(ctx, attn_glu(ctx, &out, &x, &x, ATTN_SILU));
        assert_true(run == 0 || m.left == left);
        left = m.left;
    }
    attn_layer_destroy(layer);
    attn_rope_destroy(rope);
    attn_ctx_destroy(ctx);
    assert_int_equal(m.held, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(norms), cmocka_unit_test(activations_and_linear), cmocka_unit_test(ropes),
                                       cmocka_unit_test(embeddings), cmocka_unit_test(norms_of_heads),
                                       cmocka_unit_test(out_of_memory),
                                       cmocka_unit_test(second_calls_allocate_nothing)};
    return cmocka_run_group_tests_name("model_refusals", tests, NULL, NULL);
}
