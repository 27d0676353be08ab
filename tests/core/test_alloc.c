/* SPDX-License-Identifier: Apache-2.0 */
/* Allocation failure at every allocation of every public call: ATTN_E_NOMEM, nothing leaked, and the call works afterwards. The second call
   of a size allocates nothing. */
#include "call.h"

#include <stdlib.h>
#include <string.h>

/* An allocator that counts, checks what it is given, and fails once `left` allocations have been made. */
typedef struct meter {
    int64_t held;    /* allocations not yet freed */
    int64_t made;    /* allocations so far */
    int64_t left;    /* until one fails; negative: none fails */
    int64_t refused; /* that failed */
} meter;

static void *metered_alloc(void *user, size_t align, size_t size) {
    meter *m = user;
    assert_true(align > 0 && (align & (align - 1)) == 0);
    assert_true(size > 0);
    if (m->left == 0) {
        m->refused++;
        return NULL;
    }
    m->left -= m->left > 0;
    m->made++;
    m->held++;
    return aligned_alloc(align, (size + align - 1) / align * align);
}

static void metered_free(void *user, void *memory) {
    meter *m = user;
    assert_non_null(memory);
    m->held--;
    free(memory);
}

/* Everything that the calls below use. */
typedef struct stage {
    pool memory;
    call c;
    attn_tensor x, w, b;
    attn_ctx *ctx;
    meter m;
} stage;

/* One public call, objects that it makes being destroyed again. */
typedef attn_status public_call(stage *s);

static attn_status do_sdpa(stage *s) {
    return call_run(s->ctx, &s->c);
}

static attn_status do_prepare(stage *s) {
    const attn_mha_desc d = {.heads = 4, .w_q = &s->w, .w_k = &s->w, .w_v = &s->w, .w_o = &s->w, .b_q = &s->b, .b_o = &s->b};
    attn_mha_weights *w = NULL;
    const attn_status status = attn_mha_prepare(s->ctx, &w, &d);
    assert_true((status == ATTN_OK) == (w != NULL));
    attn_mha_weights_destroy(w);
    return status;
}

static attn_status do_mha(stage *s) {
    const attn_mha_desc d = {.heads = 4, .w_q = &s->w, .w_k = &s->w, .w_v = &s->w, .w_o = &s->w, .b_q = &s->b, .b_o = &s->b};
    attn_mha_weights *w = NULL;
    attn_tensor out = TENSOR(&s->memory, ATTN_F32, 2, 70, 32);
    attn_status status = attn_mha_prepare(s->ctx, &w, &d);
    if (status == ATTN_OK) {
        status = attn_mha(s->ctx, &out, w, &s->x, NULL, NULL, NULL);
    }
    attn_mha_weights_destroy(w);
    return status;
}

static attn_status do_cache(stage *s) {
    const attn_kv_desc d = {.batch = 2, .kv_heads = 2, .capacity = 140, .head_dim = 16};
    attn_kv *kv = NULL;
    attn_status status = attn_kv_create(s->ctx, &kv, &d);
    assert_true((status == ATTN_OK) == (kv != NULL));
    if (status == ATTN_OK) {
        status = attn_kv_append(s->ctx, kv, &s->c.k, &s->c.v);
    }
    if (status == ATTN_OK) {
        call c = part_of(&s->memory, &s->c, (range){0, 2, 0, 4, 0, 70});
        c.o.flags &= ~(unsigned)(ATTN_WINDOW | ATTN_ALIBI);
        status = call_attend(s->ctx, kv, &c);
    }
    attn_kv_destroy(kv);
    return status;
}

static attn_status do_explain(stage *s) {
    attn_tensor weights = TENSOR(&s->memory, ATTN_F32, s->c.s.Lk);
    attn_row row = {.weights = &weights};
    const attn_sdpa_opts o = {.flags = ATTN_ALIBI | ATTN_OFFSET, .sinks = &s->c.sinks};
    return attn_explain_cell(s->ctx, &row, &s->c.q, &s->c.k, &s->c.v, &o, 1, 3, 5);
}

static attn_status do_create(stage *s) {
    const attn_ctx_opts o = {.threads = 2, .alloc = metered_alloc, .free = metered_free, .user = &s->m};
    attn_ctx *other = NULL;
    const attn_status status = attn_ctx_create(&other, &o, NULL, 0);
    assert_true((status == ATTN_OK) == (other != NULL));
    attn_ctx_destroy(other);
    return status;
}

static const struct {
    const char *name;
    public_call *call;
} calls[] = {{"attn_sdpa", do_sdpa}, {"attn_mha_prepare", do_prepare},  {"attn_mha", do_mha},
             {"attn_kv_*", do_cache}, {"attn_explain_cell", do_explain}, {"attn_ctx_create", do_create}};
enum { CALLS = sizeof calls / sizeof *calls };

static void open_stage(stage *s) {
    rng r = rng_of(test_seed(), 1);
    *s = (stage){.m = {.left = -1}};
    s->c = new_call(&s->memory, &r, ATTN_F32, (sizes){2, 4, 2, 70, 130, 16, 16}, CAUSAL | ALIBI | SINKS | MASK | BIAS);
    s->x = TENSOR(&s->memory, ATTN_F32, 2, 70, 32);
    s->w = TENSOR(&s->memory, ATTN_F32, 32, 32);
    s->b = TENSOR(&s->memory, ATTN_F32, 32);
    fill_normal(&s->x, &r, 1);
    fill_normal(&s->w, &r, 0.2);
    const attn_ctx_opts o = {.threads = 2, .alloc = metered_alloc, .free = metered_free, .user = &s->m};
    assert_int_equal(attn_ctx_create(&s->ctx, &o, NULL, 0), ATTN_OK);
}

static void close_stage(stage *s) {
    attn_ctx_destroy(s->ctx);
    assert_int_equal(s->m.held, 0);
    pool_free(&s->memory);
}

static void failure_at_every_allocation(void **state) {
    (void)state;
    for (int n = 0; n < CALLS; n++) {
        int64_t failures = 0;
        for (int64_t allowed = 0;; allowed++) {
            stage s;
            open_stage(&s);
            s.m.left = allowed;
            const int64_t held = s.m.held;
            const attn_status status = calls[n].call(&s);
            if (s.m.refused == 0) {
                assert_ok(s.ctx, status);
                close_stage(&s);
                break;
            }
            failures++;
            if (status != ATTN_E_NOMEM || (calls[n].call != do_create && !strstr(attn_ctx_error(s.ctx), "memory"))) {
                fail_msg("%s: allocation %lld refused: status %d, %s", calls[n].name, (long long)allowed, (int)status,
                         attn_ctx_error(s.ctx));
            }
            assert_true(s.m.held >= held - 1); /* a buffer of the context may be gone, none is freed twice */
            s.m.left = -1;
            assert_ok(s.ctx, calls[n].call(&s));
            close_stage(&s);
        }
        print_message("%s: %lld allocations refused in turn\n", calls[n].name, (long long)failures);
        assert_true(failures > 0);
    }
}

/* attn_sdpa, attn_mha and attn_kv_attend work in memory that the context keeps. */
static void second_call_allocates_nothing(void **state) {
    (void)state;
    stage s;
    open_stage(&s);
    assert_ok(s.ctx, do_sdpa(&s));
    int64_t made = s.m.made;
    assert_ok(s.ctx, do_sdpa(&s));
    if (s.m.made != made) {
        fail_msg("a second attn_sdpa made %lld allocations", (long long)(s.m.made - made));
    }
    const attn_mha_desc d = {.heads = 4, .w_q = &s.w, .w_k = &s.w, .w_v = &s.w, .w_o = &s.w};
    attn_mha_weights *w = NULL;
    attn_tensor out = TENSOR(&s.memory, ATTN_F32, 2, 70, 32);
    assert_ok(s.ctx, attn_mha_prepare(s.ctx, &w, &d));
    assert_ok(s.ctx, attn_mha(s.ctx, &out, w, &s.x, NULL, NULL, NULL));
    made = s.m.made;
    assert_ok(s.ctx, attn_mha(s.ctx, &out, w, &s.x, NULL, NULL, NULL));
    if (s.m.made != made) {
        fail_msg("a second attn_mha made %lld allocations", (long long)(s.m.made - made));
    }
    attn_mha_weights_destroy(w);
    close_stage(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(failure_at_every_allocation), cmocka_unit_test(second_call_allocates_nothing)};
    return cmocka_run_group_tests_name("alloc", tests, NULL, NULL);
}
