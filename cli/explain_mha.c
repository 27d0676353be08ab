/* SPDX-License-Identifier: Apache-2.0 */
/* Multi-head attention: projections, split, the stages of every head, joining, W_O. */
#include "explain_mha.h"
#include "explain_model.h"
#include "finish.h"
#include "message.h"
#include "rule.h"

#include <stdlib.h>

/* Everything of one run. */
typedef struct whole {
    explanation e;
    mha_files w;
    mha_inputs m;
    const attn_mha_weights *prepared;
    attn_tensor *out;
    attn_tensor *concat;      /* NULL, or of --json and --npz */
    attn_tensor head_results; /* of --npz */
    model_layer *from;        /* NULL, or of --from */
} whole;

static int64_t rows_of(const attn_tensor *t) { return t->shape[t->ndim - 2]; }

static int64_t columns_of(const attn_tensor *t) { return t->shape[t->ndim - 1]; }

/* "X W_Q = Q   (10,512) x (512,512) -> (10,512)", and what that is for each head. */
static void print_projection(const whole *a, char name, const attn_tensor *bias, const attn_tensor *x, int64_t columns, int64_t heads)
{
    char formula[32], shapes[SHAPE_TEXT], line[256];
    const char from = x == &a->m.x ? 'X' : 'M';
    const long long L = rows_of(x), in = columns_of(x), all = columns, one = columns / heads;
    if (bias || a->w.desc.b_qkv)
        snprintf(formula, sizeof formula, "%c W_%c + b_%c = %c", from, name, name, name);
    else
        snprintf(formula, sizeof formula, "%c W_%c = %c", from, name, name);
    snprintf(shapes, sizeof shapes, "(%lld,%lld) x (%lld,%lld) -> (%lld,%lld)", L, in, in, all, L, all);
    snprintf(line, sizeof line, "%s: (%lld,%lld) x (%lld,%lld) -> (%lld,%lld)", explain_say(a->e.lang, W_PER_HEAD), L, in, in, one, L, one);
    explain_heading(formula, shapes, line);
}

static void print_split(const whole *a)
{
    const sizes *z = a->e.z;
    char shapes[SHAPE_TEXT], line[256];
    const long long L = z->Lq, H = z->H, d = z->d;
    snprintf(shapes, sizeof shapes, "(%lld,%lld) -> (%lld,%lld,%lld) -> (%lld,%lld,%lld)", L, H * d, L, H, d, H, L, d);
    explain_heading(explain_say(a->e.lang, W_SPLIT), shapes, "");
    snprintf(line, sizeof line, explain_say(a->e.lang, W_RESHAPE), H);
    printf("reshape: %s; transpose: %s\n", line, explain_say(a->e.lang, W_TRANSPOSE));
    if (z->H != z->Hkv) {
        printf(explain_say(a->e.lang, W_SHARED_HEADS), (long long)(z->H / z->Hkv));
        putchar('\n');
    }
    table_tensor(stdout, a->e.turn->given ? &a->e.turn->before.q : &a->e.t->q, a->e.row_names, a->e.round, 4);
}

static void print_join(const whole *a)
{
    const sizes *z = a->e.z;
    char shapes[SHAPE_TEXT];
    const long long L = z->Lq, H = z->H, d = z->d_v, out = columns_of(a->out);
    snprintf(shapes, sizeof shapes, "(%lld,%lld,%lld) -> (%lld,%lld,%lld) -> (%lld,%lld)", H, L, d, L, H, d, L, H * d);
    explain_heading(explain_say(a->e.lang, W_JOIN), shapes, "");
    snprintf(shapes, sizeof shapes, "(%lld,%lld) x (%lld,%lld) -> (%lld,%lld)", L, H * d, H * d, out, L, out);
    explain_heading(a->w.desc.b_o ? "concat W_O + b_O = output" : "concat W_O = output", shapes, explain_say(a->e.lang, W_PROJECT_OUT));
    table_tensor(stdout, a->out, a->e.row_names, a->e.round, 4);
}

/* What X is in a model. */
static explain_word x_word(const whole *a)
{
    const attn_layer_part *facts = &a->from->facts;
    if (a->from->part == MODEL_CROSS)
        return W_X_CROSS;
    return facts->has_norm && !(facts->flags & ATTN_LAYER_POST_NORM) ? W_X_NORMED : W_X_STATES;
}

static int print_text(const whole *a)
{
    const attn_tensor *memory = a->m.memory_given ? a->m.memory_given : &a->m.x;
    const attn_tensor *memory_v = a->m.memory_v_given ? a->m.memory_v_given : memory;
    const attn_mha_desc *w = &a->w.desc;
    char x[SHAPE_TEXT];
    if (a->from) {
        printf(explain_say(a->e.lang, W_MODEL_LAYER), a->from->run.info.type, (long long)a->from->number, model_part_name[a->from->part]);
        printf("\n%s\n", explain_say(a->e.lang, x_word(a)));
    }
    printf("X %s\n", tensor_shape_text(x, &a->m.x));
    print_projection(a, 'Q', w->b_q, &a->m.x, a->w.columns_q, a->e.z->H);
    print_projection(a, 'K', w->b_k, memory, a->w.columns_k, a->e.z->Hkv);
    print_projection(a, 'V', w->b_v, memory_v, a->w.columns_v, a->e.z->Hkv);
    print_split(a);
    explain_rope(&a->e);
    const int status = explain_stages(&a->e);
    if (status)
        return status;
    print_join(a);
    return finish_stdout();
}

/* --json and --npz need every stage. */
static bool wants_stages(const options *o) { return (opt_given(o, OPT_NPZ) || opt_given(o, OPT_JSON)) && !opt_given(o, OPT_CELL); }

/* Arrays for q, k, v, z and the output; with --json or --npz for every stage, in the order in which they come about. */
static int add_results(whole *a, results *r, attn_sdpa_opts *sdpa, attn_mha_opts *opts)
{
    const sizes *z = a->e.z;
    extra_stage extra[4];
    int64_t shape[ATTN_MAX_DIMS];
    int status = EXIT_DONE;
    mha_stage_list(extra, z, opts);
    for (int i = 0; i < 4 && !status; i++) {
        if (i == 3 && wants_stages(r->o) && a->e.turn->given)
            status = rope_add_results(a->e.turn, r, z);
        if (!status && i == 3 && wants_stages(r->o))
            status = explain_add_stages(&a->e, r, sdpa);
        if (!status)
            status = results_add(r, extra[i].name, NULL, z->dtype, extra[i].ndim, extra[i].shape, true, extra[i].where);
    }
    mha_output_shape(&a->w, &a->m, z, shape);
    const int64_t out_width = shape[a->m.x.ndim - 1];
    shape[a->m.x.ndim - 1] = z->H * z->d_v;
    if (!status && wants_stages(r->o))
        status = results_add(r, "concat", NULL, z->dtype, a->m.x.ndim, shape, false, &a->concat);
    shape[a->m.x.ndim - 1] = out_width;
    if (!status)
        status = results_add(r, "output", NULL, z->dtype, a->m.x.ndim, shape, false, &a->out);
    if (!status && opt_given(r->o, OPT_NPZ))
        status = explain_mha_bundle(&a->e, r, opts, a->out, &a->head_results);
    return status;
}

/* What the library does not give: the heads joined, and each head's part of the output. */
static void derive(const whole *a, const attn_tensor *z)
{
    if (a->concat)
        explain_join(z, a->concat);
    if (a->head_results.data)
        explain_head_results(z, &a->w.w_o, &a->head_results);
}

static int compute(whole *a, results *r, page *p, qkv *t)
{
    session *s = a->e.s;
    attn_sdpa_opts sdpa = *a->e.opts;
    attn_mha_opts opts = {.struct_size = sizeof opts, .sdpa = &sdpa};
    const bool paged = opt_given(r->o, OPT_HTML);
    if (paged)
        explain_page(r->o, "mha", a->e.lang, a->e.round, r, p);
    if (paged && a->from)
        page_note(p, "%s", "%s", explain_say(a->e.lang, x_word(a)));
    int status = add_results(a, r, &sdpa, &opts);
    if (!status)
        status = results_open(r, false);
    if (status)
        return status;
    status = rope_mha(a->e.turn, s, a->out, a->prepared, &a->w, &a->m, &opts);
    if (status)
        return status;
    *t = a->e.turn->where.rows ? a->e.turn->turned : (qkv){*opts.q, *opts.k, *opts.v};
    a->e.t = t;
    derive(a, opts.z);
    if (paged)
        status = explain_mha_page(&a->e, p, &a->w, &a->m, opts.z, a->out);
    return status ? status : results_commit(r);
}

/* The arguments are read and the weights prepared. */
static int run(whole *a, const labels *words)
{
    const options *o = a->e.s->o;
    results r = {.o = o};
    page p = {.arrays = 0};
    sizes z;
    qkv t;
    if (!mha_sizes(&z, &a->w, &a->m)) {
        char shape[SHAPE_TEXT];
        return trouble("X is %s, and X and --memory must both be (L,width) or (B,L,width)", tensor_shape_text(shape, &a->m.x));
    }
    a->e.z = &z;
    if (z.B == 0 || z.Lq == 0)
        return trouble("there is no row to explain: X has no element along its batch or row axis");
    int status = labels_fit(words, z.Lq, z.Lk, a->m.memory_given, &a->e.row_names, &a->e.key_names);
    if (a->from) {
        a->e.row_names = (const char *const *)model_part_rows(&a->from->run, a->from->part)->name;
        a->e.key_names = (const char *const *)model_part_keys(&a->from->run, a->from->part)->name;
    }
    if (!status)
        status = compute(a, &r, &p, &t);
    if (!status && opt_given(o, OPT_CELL))
        status = explain_cell(&a->e, o->value[OPT_CELL]);
    else if (!status && opt_given(o, OPT_JSON))
        status = explain_print_json(&a->e, &r);
    else if (!status && !opt_given(o, OPT_HTML))
        status = print_text(a);
    results_close(&r);
    page_close(&p);
    free(a->head_results.data);
    return status;
}

/* X, the memories and the weights: of files, or of a model. */
static int read_arrays(whole *a, inputs *in)
{
    const options *o = in->o;
    int status = EXIT_DONE;
    if (a->from)
        status = model_layer_open(a->from, a->e.s, &a->m, &a->w);
    else
        status = read_mha_inputs(&a->m, in, o->operand[0]);
    if (!status && !a->from)
        status = read_mha_weights(&a->w, in, o->operand[1]);
    if (!status)
        choose_mha_precision(&a->w, &a->m);
    return status;
}

/* The options of the attention, the files' or the model's RoPE. */
static int read_rules(whole *a, inputs *in, attention_setup *setup)
{
    int status = setup_attention(setup, in);
    if (!status)
        status = rule_settle(a->e.s, &setup->opts, &a->m.x, a->m.memory_given ? a->m.memory_given : &a->m.x, a->m.memory_v_given, true);
    if (!status)
        status = rope_read(a->e.turn, in);
    if (!status && a->from)
        model_layer_settle(a->from, &setup->opts, a->e.turn);
    return status;
}

int explain_mha(const options *o)
{
    session s;
    inputs in = {.o = o};
    attention_setup setup;
    attn_mha_weights *prepared = NULL;
    labels words = {.row = {.count = 0}};
    rotation turn = {.given = false};
    model_layer from = {.number = 0};
    whole a = {.e = {.s = &s, .opts = &setup.opts, .turn = &turn}, .from = opt_given(o, OPT_FROM) ? &from : NULL};
    int status = session_open(&s, o);
    if (status)
        return status;
    status = explain_settings(o, &a.e, &words);
    if (!status)
        status = read_arrays(&a, &in);
    if (!status)
        status = read_rules(&a, &in, &setup);
    if (!status && attn_mha_prepare(s.ctx, &prepared, &a.w.desc) != ATTN_OK)
        status = library_trouble(attn_ctx_error(s.ctx));
    a.prepared = prepared;
    if (!status)
        status = run(&a, &words);
    rope_free(&turn);
    model_layer_close(&from);
    labels_free(&words);
    attn_mha_weights_destroy(prepared);
    inputs_close(&in);
    session_close(&s);
    return status;
}
