/* SPDX-License-Identifier: Apache-2.0 */
/* Every stage in full, for --json and --npz. */
#include "explain.h"
#include "json_out.h"
#include "message.h"

#include <string.h>

/* NULL: a stage without one; `room` is for a formula that the options make. */
static const char *formula_of(const explanation *e, const char *name, char room[FORMULA_TEXT])
{
    static const char *const formulas[][2] = {
        {"scaled", "scores * scale"},
        {"output", "weights V"},
        {"q", "X W_Q + b_Q, split into heads"},
        {"k", "X W_K + b_K, split into heads"},
        {"v", "X W_V + b_V, split into heads"},
        {"q_rot", "RoPE(q)"},
        {"k_rot", "RoPE(k)"},
        {"z", "weights V"},
        {"concat", "the heads of z joined"},
        {"lse", "ln of the softmax denominator"},
        {"row_max", "the greatest masked score"},
        {"entropy", "-sum of w ln w, before dropout"},
    };
    if (strcmp(name, "scores") == 0)
        return e->turn->given ? "q_rot k_rot^T" : "Q K^T";
    if (strcmp(name, "capped") == 0)
        return e->opts->softcap > 0 ? "softcap * tanh(scaled / softcap)" : "scaled";
    if (strcmp(name, "masked") == 0)
        return explain_masks(e->opts) ? "capped + bias + ALiBi; hidden cells -inf" : "capped";
    if (strcmp(name, "output") == 0 && strcmp(e->s->o->verb->name, "explain mha") == 0)
        return "concat(z) W_O + b_O";
    if (strcmp(name, "weights") == 0)
        return explain_weights_formula(room, e->opts);
    for (size_t i = 0; i < sizeof formulas / sizeof formulas[0]; i++)
        if (strcmp(name, formulas[i][0]) == 0)
            return formulas[i][1];
    return NULL;
}

void explain_json_run(json_writer *j, const explanation *e)
{
    const attn_info info = session_info(e->s);
    jw_begin(j, "run", '{');
    jw_string(j, "path", info.path);
    jw_string(j, "isa", info.isa);
    jw_int(j, "threads", info.threads);
    jw_end(j, '}');
}

int explain_add_stages(const explanation *e, results *r, attn_sdpa_opts *opts)
{
    static const char *const names[] = {"scores", "scaled", "capped", "masked", "weights", "lse", "row_max", "entropy"};
    int status = EXIT_DONE;
    for (size_t i = 0; i < sizeof names / sizeof names[0] && !status; i++) {
        part p;
        int64_t shape[ATTN_MAX_DIMS];
        attn_tensor **field = stage_field(opts, names[i], &p);
        const int32_t ndim = part_shape(e->z, p, shape);
        status = results_add(r, names[i], NULL, e->z->dtype, ndim, shape, false, field);
    }
    return status;
}

static void print_names(json_writer *j, const char *key, const char *const *names, int64_t count)
{
    jw_begin(j, key, '[');
    for (int64_t i = 0; i < count; i++)
        jw_string(j, NULL, names[i]);
    jw_end(j, ']');
}

int explain_print_json(const explanation *e, const results *r)
{
    row_numbers first = {.b = 0};
    char room[FORMULA_TEXT];
    const int status = row_collect(e, 0, 0, 0, &first);
    const double scale = first.row.scale;
    row_free(&first);
    if (status)
        return status;
    json_writer j = jw_begin_document(e->s->o->verb->name);
    explain_json_run(&j, e);
    jw_number(&j, "scale", scale, ATTN_F64);
    if (e->row_names || e->key_names)
        print_names(&j, "tokens", e->row_names ? e->row_names : e->key_names, e->row_names ? e->z->Lq : e->z->Lk);
    if (e->key_names && e->key_names != e->row_names)
        print_names(&j, "key_tokens", e->key_names, e->z->Lk);
    jw_begin(&j, "stages", '{');
    for (int i = 0; i < r->count; i++)
        jw_array(&j, r->item[i].name, formula_of(e, r->item[i].name, room), &r->item[i].tensor, NULL);
    jw_end(&j, '}');
    return jw_end_document(&j);
}
