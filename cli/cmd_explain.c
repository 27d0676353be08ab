/* SPDX-License-Identifier: Apache-2.0 */
#include "commands.h"
#include "explain.h"
#include "finish.h"
#include "kinds.h"
#include "message.h"
#include "rule.h"

#include <stdlib.h>
#include <string.h>

/* --json and --npz: every stage of one call. */
static int compute_all(const explanation *e, results *r, const attn_sdpa_opts *opts)
{
    attn_sdpa_opts all = *opts;
    attn_tensor *out;
    int64_t shape[ATTN_MAX_DIMS];
    int status = e->turn->given ? rope_add_results(e->turn, r, e->z) : EXIT_DONE;
    if (!status)
        status = explain_add_stages(e, r, &all);
    const int32_t ndim = part_shape(e->z, PART_OUTPUT, shape);
    if (!status)
        status = results_add(r, "output", NULL, e->z->dtype, ndim, shape, true, &out);
    if (!status && opt_given(r->o, OPT_NPZ))
        explain_bundle(e, r, e->turn->given ? &e->turn->before : e->t, out);
    if (!status)
        status = results_open(r, false);
    return status ? status : rule_sdpa(e->s, out, &e->t->q, &e->t->k, &e->t->v, &all);
}

/* What goes to files or to JSON: --json, --npz, --html. */
static int run_all(const explanation *e, const attn_sdpa_opts *opts)
{
    const options *o = e->s->o;
    results r = {.o = o};
    page p = {.arrays = 0};
    const bool stages = opt_given(o, OPT_JSON) || opt_given(o, OPT_NPZ);
    if (opt_given(o, OPT_HTML))
        explain_page(o, "sdpa", e->lang, e->round, &r, &p);
    int status = stages ? compute_all(e, &r, opts) : results_open(&r, false);
    if (!status && opt_given(o, OPT_HTML))
        status = explain_page_attention(e, &p);
    if (!status && !stages)
        status = session_end(e->s, ATTN_OK); /* says what ran */
    if (!status)
        status = results_commit(&r);
    if (!status && opt_given(o, OPT_JSON))
        status = explain_print_json(e, &r);
    results_close(&r);
    page_close(&p);
    return status;
}

static int explain_qkv(explanation *e, const labels *words, const attn_sdpa_opts *opts)
{
    const options *o = e->s->o;
    char q[SHAPE_TEXT], k[SHAPE_TEXT], v[SHAPE_TEXT];
    int status = labels_fit(words, e->z->Lq, e->z->Lk, false, &e->row_names, &e->key_names);
    if (!status && opt_given(o, OPT_CELL))
        return explain_cell(e, o->value[OPT_CELL]);
    if (!status && (opt_given(o, OPT_JSON) || opt_given(o, OPT_NPZ) || opt_given(o, OPT_HTML)))
        status = run_all(e, opts);
    if (status || opt_given(o, OPT_JSON) || opt_given(o, OPT_HTML))
        return status;
    printf("Q %s, K %s, V %s\n", tensor_shape_text(q, &e->t->q), tensor_shape_text(k, &e->t->k), tensor_shape_text(v, &e->t->v));
    if (e->z->Hkv > 0 && e->z->Hkv != e->z->H && e->z->H % e->z->Hkv == 0) {
        printf(explain_say(e->lang, W_SHARED_HEADS), (long long)(e->z->H / e->z->Hkv));
        putchar('\n');
    }
    explain_rope(e);
    return explain_stages(e);
}

/* What is wrong with the arguments, in the library's own sentence. 0, or an exit code. */
static int check(const explanation *e, bool ranks_fit)
{
    session *s = e->s;
    row_numbers first = {.b = 0};
    attn_tensor nothing = {.data = NULL};
    if (e->opts->cu_seqlens_q || e->opts->cu_seqlens_k)
        return trouble("attn explain does not take packed input (--cu-q, --cu-k); give one sequence as Q, K and V");
    if (ranks_fit && (e->z->B == 0 || e->z->H == 0 || e->z->Lq == 0))
        return trouble("there is no row to explain: Q has no element along its batch, head or row axis");
    if (ranks_fit) {
        const int status = row_collect(e, 0, 0, 0, &first);
        row_free(&first);
        return status;
    }
    const int status = tensor_new(&nothing, "output", ATTN_F32, e->t->q.ndim, e->t->q.shape);
    const int refused = status ? status : session_end(s, attn_sdpa(s->ctx, &nothing, &e->t->q, &e->t->k, &e->t->v, e->opts));
    free(nothing.data);
    return refused;
}

static int explain_sdpa(const options *o)
{
    session s;
    inputs in = {.o = o};
    qkv t;
    sizes z = {0};
    attention_setup setup;
    labels words = {.row = {.count = 0}};
    rotation turn = {.given = false};
    explanation e = {.s = &s, .t = &t, .z = &z, .opts = &setup.opts, .turn = &turn};
    int status = session_open(&s, o);
    if (status)
        return status;
    status = explain_settings(o, &e, &words);
    if (!status)
        status = read_qkv(&in, &t);
    if (!status)
        status = setup_attention(&setup, &in);
    if (!status)
        status = rule_settle(&s, &setup.opts, &t.q, &t.k, &t.v, true);
    if (!status)
        status = rope_read(&turn, &in);
    if (!status)
        status = check(&e, sizes_of(&z, &t, false));
    if (!status)
        status = rope_turn(&turn, &s, &setup.opts, &t);
    if (!status)
        status = explain_qkv(&e, &words, &setup.opts);
    if (!status)
        status = finish_stdout();
    rope_free(&turn);
    labels_free(&words);
    inputs_close(&in);
    session_close(&s);
    return status;
}

static const kind kinds[] = {
    {{"explain sdpa", VERB_EXPLAIN_SDPA, "explain sdpa Q K V [--html F] [--cell B,H,I[,J]] [options]", NULL, NULL, NULL, 1, 3},
     explain_sdpa},
    {{"explain mha", VERB_EXPLAIN_MHA, "explain mha X WEIGHTS --heads H [--html F] [--cell B,H,I[,J]] [options]", NULL, NULL, NULL, 2, 2},
     explain_mha},
    {{"explain split", VERB_EXPLAIN_SPLIT, "explain split X --heads H [--html F] [options]", NULL, NULL, NULL, 1, 1}, explain_split},
};

int cmd_explain(int argc, char **argv) { return run_kind("explain", kinds, (int)(sizeof kinds / sizeof kinds[0]), argc, argv); }
