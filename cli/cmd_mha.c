/* SPDX-License-Identifier: Apache-2.0 */
#include "attention.h"
#include "commands.h"
#include "message.h"
#include "mha_weights.h"
#include "rope.h"
#include "rule.h"

static int run(session *s, results *r, const attn_mha_weights *prepared, const mha_files *w, const mha_inputs *m, rotation *turn,
               attn_sdpa_opts *sdpa)
{
    sizes z;
    attn_tensor *out;
    extra_stage extra[4];
    int64_t shape[ATTN_MAX_DIMS];
    attn_mha_opts opts = {.struct_size = sizeof opts, .sdpa = sdpa};
    const attn_dtype dtype = output_dtype(s->o, m->x.dtype);
    if (!dtype)
        return EXIT_TROUBLE;
    if (!mha_sizes(&z, w, m)) { /* the library knows what is wrong with the ranks */
        const int status = results_add(r, "output", NULL, dtype, m->x.ndim, m->x.shape, false, &out);
        session_begin(s);
        return status ? status : session_end(s, attn_mha(s->ctx, out, prepared, &m->x, m->memory_given, m->memory_v_given, &opts));
    }
    mha_stage_list(extra, &z, &opts);
    mha_output_shape(w, m, &z, shape);
    int status = results_add(r, "output", s->o->value[OPT_OUTPUT], dtype, m->x.ndim, shape, false, &out);
    if (!status)
        status = want_results(r, &z, sdpa, extra, 4);
    if (!status)
        status = results_open(r, true);
    if (status)
        return status;
    status = rope_mha(turn, s, out, prepared, w, m, &opts);
    return status ? status : results_write(r, s);
}

int cmd_mha(const options *o)
{
    session s;
    inputs in = {.o = o};
    results r = {.o = o};
    mha_files w;
    mha_inputs m;
    attention_setup setup;
    rotation turn = {.given = false};
    attn_mha_weights *prepared = NULL;
    int status = session_open(&s, o);
    if (status)
        return status;
    status = read_mha_inputs(&m, &in, o->operand[0]);
    if (!status)
        status = read_mha_weights(&w, &in, o->operand[1]);
    if (!status) {
        choose_mha_precision(&w, &m);
        status = setup_attention(&setup, &in);
    }
    if (!status)
        status = rule_settle(&s, &setup.opts, &m.x, m.memory_given ? m.memory_given : &m.x, m.memory_v_given, opt_given(o, OPT_LSE));
    if (!status && attn_mha_prepare(s.ctx, &prepared, &w.desc) != ATTN_OK)
        status = library_trouble(attn_ctx_error(s.ctx));
    if (!status)
        status = rope_read(&turn, &in);
    if (!status)
        status = run(&s, &r, prepared, &w, &m, &turn, &setup.opts);
    rope_free(&turn);
    results_close(&r);
    attn_mha_weights_destroy(prepared);
    inputs_close(&in);
    session_close(&s);
    return status;
}
