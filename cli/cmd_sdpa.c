/* SPDX-License-Identifier: Apache-2.0 */
#include "attention.h"
#include "commands.h"
#include "message.h"
#include "rope.h"
#include "rule.h"

/* Q, K and V are read: the outputs, the call, the files. */
static int run(session *s, results *r, const qkv *t, attn_dtype of_q, attn_sdpa_opts *opts)
{
    sizes z;
    attn_tensor *out;
    int64_t shape[ATTN_MAX_DIMS];
    const attn_dtype dtype = output_dtype(s->o, of_q);
    if (!dtype)
        return EXIT_TROUBLE;
    if (!sizes_of(&z, t, opts->cu_seqlens_q != NULL)) { /* the library knows what is wrong with the ranks */
        const int status = results_add(r, "output", NULL, dtype, t->q.ndim, t->q.shape, false, &out);
        session_begin(s);
        return status ? status : session_end(s, attn_sdpa(s->ctx, out, &t->q, &t->k, &t->v, opts));
    }
    const int32_t ndim = part_shape(&z, PART_OUTPUT, shape);
    int status = results_add(r, "output", s->o->value[OPT_OUTPUT], dtype, ndim, shape, !z.packed, &out);
    if (!status)
        status = want_results(r, &z, opts, NULL, 0);
    if (!status)
        status = results_open(r, true);
    if (status)
        return status;
    status = rule_sdpa(s, out, &t->q, &t->k, &t->v, opts);
    return status ? status : results_write(r, s);
}

int cmd_sdpa(const options *o)
{
    session s;
    inputs in = {.o = o};
    results r = {.o = o};
    qkv t;
    attention_setup setup;
    rotation turn = {.given = false};
    int status = session_open(&s, o);
    if (status)
        return status;
    status = read_qkv(&in, &t);
    if (!status)
        status = setup_attention(&setup, &in);
    if (!status)
        status = rule_settle(&s, &setup.opts, &t.q, &t.k, &t.v, opt_given(o, OPT_LSE));
    if (!status)
        status = rope_read(&turn, &in);
    const attn_dtype of_q = status ? ATTN_F32 : t.q.dtype; /* RoPE gives f32 for 16 bits */
    if (!status)
        status = rope_turn(&turn, &s, &setup.opts, &t);
    if (!status)
        status = run(&s, &r, &t, of_q, &setup.opts);
    rope_free(&turn);
    results_close(&r);
    inputs_close(&in);
    session_close(&s);
    return status;
}
