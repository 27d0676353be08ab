/* SPDX-License-Identifier: Apache-2.0 */
#include "commands.h"
#include "attention.h"
#include "diagnose_print.h"
#include "kinds.h"
#include "message.h"
#include "mha_weights.h"
#include "rope.h"

#include <stdlib.h>

/* --got and --got-weights, and the tolerances. */
typedef struct judged {
    attn_tensor got, weights, computed;
    diagnose_input in;
} judged;

static int read_judged(judged *g, inputs *in)
{
    const options *o = in->o;
    *g = (judged){.in = {.got = &g->got, .computed = &g->computed, .tolerance_given = opt_given(o, OPT_RTOL) || opt_given(o, OPT_ATOL)}};
    if (!opt_given(o, OPT_GOT))
        return trouble("attn %s needs --got OUT, the output to be judged", o->verb->name);
    int status = inputs_float(in, "--got", "output", o->value[OPT_GOT], &g->got);
    if (!status && opt_given(o, OPT_GOT_WEIGHTS)) {
        status = inputs_float(in, "--got-weights", "weights", o->value[OPT_GOT_WEIGHTS], &g->weights);
        g->in.got_weights = &g->weights;
    }
    if (!status)
        status = opt_double(o, OPT_RTOL, &g->in.rtol);
    if (!status)
        status = opt_double(o, OPT_ATOL, &g->in.atol);
    if (!status && (g->in.rtol < 0 || g->in.atol < 0))
        return trouble("--rtol and --atol are tolerances, and must be 0 or more");
    if (!status && opt_choice(o, OPT_LANG) == -2)
        return EXIT_TROUBLE;
    return status;
}

/* The search itself, and its report. */
static int judge(const options *o, const diagnose_input *in)
{
    char why[512];
    diagnose_report *r;
    const enum diagnose_lang lang = opt_choice(o, OPT_LANG) == 1 ? DIAGNOSE_KO : DIAGNOSE_EN;
    const diagnose_status status = diagnose_run(&r, in, why, sizeof why);
    if (status != DIAGNOSE_OK)
        return trouble("%s", status == DIAGNOSE_NO_MEMORY ? "out of memory" : why);
    const bool given = in->tolerance_given, json = opt_given(o, OPT_JSON);
    const enum diagnose_verdict verdict = r->verdict;
    const int printed = json                             ? diagnose_print_json(r, o->verb->name, lang, given)
                        : verdict != DIAGNOSE_UNJUDGED ? diagnose_print_text(r, lang, given)
                                                         : EXIT_DONE;
    diagnose_free(r);
    if (printed)
        return printed;
    if (verdict == DIAGNOSE_UNJUDGED)
        return trouble("nothing could be judged: with these inputs the numbers of every cell may leave the range of %s, where no error "
                       "bound holds; give --rtol and --atol, or inputs and a --scale of ordinary size",
                       in->got->dtype == ATTN_F64 ? "f64" : "f32");
    return verdict == DIAGNOSE_EQUAL ? EXIT_DONE : EXIT_DIFFERS;
}

/* The library's own output. Its refusal is the one that the user reads. */
static int compute_sdpa(session *s, attn_tensor *out, const qkv *given, rotation *turn, const attn_sdpa_opts *opts)
{
    sizes z;
    qkv turned = *given;
    const qkv *t = &turned;
    int64_t shape[ATTN_MAX_DIMS];
    const bool fits = sizes_of(&z, t, opts->cu_seqlens_q != NULL);
    const int32_t ndim = fits ? part_shape(&z, PART_OUTPUT, shape) : t->q.ndim;
    int status = rope_turn(turn, s, opts, &turned);
    if (!status)
        status = tensor_new(out, "output", fits ? z.dtype : ATTN_F32, ndim, fits ? shape : t->q.shape);
    if (status)
        return status;
    session_begin(s);
    return session_end(s, attn_sdpa(s->ctx, out, &t->q, &t->k, &t->v, opts));
}

static int diagnose_sdpa(const options *o)
{
    session s;
    inputs in = {.o = o};
    judged g = {.in = {.got = NULL}};
    qkv t;
    attention_setup setup;
    rotation turn = {.given = false};
    int status = session_open(&s, o);
    if (status)
        return status;
    status = read_judged(&g, &in);
    if (!status)
        status = read_qkv(&in, &t);
    if (!status)
        status = setup_attention(&setup, &in);
    if (!status)
        status = rope_read(&turn, &in);
    if (!status)
        status = compute_sdpa(&s, &g.computed, &t, &turn, &setup.opts);
    if (!status) {
        g.in.rope = turn.where.rows ? &turn.where : NULL;
        g.in.q = &t.q;
        g.in.k = &t.k;
        g.in.v = &t.v;
        g.in.opts = &setup.opts;
        g.in.blhd = setup_is_blhd(o, &status) && !opt_given(o, OPT_CU_Q);
        if (g.in.blhd && g.got.ndim >= 3)
            g.got = tensor_swapped(&g.got, 2, 3);
        status = judge(o, &g.in);
    }
    free(g.computed.data);
    rope_free(&turn);
    inputs_close(&in);
    session_close(&s);
    return status;
}

static int compute_mha(session *s, attn_tensor *out, const mha_files *w, const mha_inputs *m, rotation *turn,
                       const attn_sdpa_opts *sdpa)
{
    sizes z;
    int64_t shape[ATTN_MAX_DIMS];
    attn_mha_weights *prepared = NULL;
    attn_mha_opts opts = {.struct_size = sizeof opts, .sdpa = sdpa};
    if (attn_mha_prepare(s->ctx, &prepared, &w->desc) != ATTN_OK)
        return library_trouble(attn_ctx_error(s->ctx));
    const bool fits = mha_sizes(&z, w, m);
    if (fits)
        mha_output_shape(w, m, &z, shape);
    int status = tensor_new(out, "output", fits ? z.dtype : ATTN_F32, m->x.ndim, fits ? shape : m->x.shape);
    if (!status) {
        session_begin(s);
        status = turn->given ? rope_mha(turn, s, out, prepared, w, m, &opts)
                             : session_end(s, attn_mha(s->ctx, out, prepared, &m->x, m->memory_given, m->memory_v_given, &opts));
    }
    attn_mha_weights_destroy(prepared);
    return status;
}

static int diagnose_mha(const options *o)
{
    session s;
    inputs in = {.o = o};
    judged g = {.in = {.got = NULL}};
    mha_files w;
    mha_inputs m;
    attention_setup setup;
    rotation turn = {.given = false};
    int status = session_open(&s, o);
    if (status)
        return status;
    status = read_judged(&g, &in);
    if (!status)
        status = read_mha_inputs(&m, &in, o->operand[0]);
    if (!status)
        status = read_mha_weights(&w, &in, o->operand[1]);
    if (!status) {
        choose_mha_precision(&w, &m);
        status = setup_attention(&setup, &in);
    }
    if (!status)
        status = rope_read(&turn, &in);
    if (!status)
        status = compute_mha(&s, &g.computed, &w, &m, &turn, &setup.opts);
    if (!status) {
        g.in.rope = turn.where.rows ? &turn.where : NULL;
        g.in.mha = &w.desc;
        g.in.x = &m.x;
        g.in.memory = m.memory_given;
        g.in.memory_v = m.memory_v_given;
        g.in.opts = &setup.opts;
        status = judge(o, &g.in);
    }
    free(g.computed.data);
    rope_free(&turn);
    inputs_close(&in);
    session_close(&s);
    return status;
}

static const kind kinds[] = {
    {{"diagnose sdpa", VERB_DIAGNOSE_SDPA, "diagnose sdpa Q K V --got OUT [options]", NULL, NULL, NULL, 1, 3}, diagnose_sdpa},
    {{"diagnose mha", VERB_DIAGNOSE_MHA, "diagnose mha X WEIGHTS --heads H --got OUT [options]", NULL, NULL, NULL, 2, 2}, diagnose_mha},
};

int cmd_diagnose(int argc, char **argv) { return run_kind("diagnose", kinds, (int)(sizeof kinds / sizeof kinds[0]), argc, argv); }
