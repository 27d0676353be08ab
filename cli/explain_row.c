/* SPDX-License-Identifier: Apache-2.0 */
#include "explain.h"
#include "message.h"
#include "rule.h"
#include "text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const explain_hidden_name[HIDDEN_BITS] = {"mask", "bias", "causal", "window", "kv-len", "q-len"};
const char *const explain_stage_name[STAGE_COUNT] = {"scores", "scaled", "capped", "masked", "weights"};

/* count numbers of dtype f32 or f64 as double. */
static double *doubles_of(const void *data, attn_dtype dtype, int64_t count)
{
    double *out = need_memory((size_t)count * sizeof *out);
    for (int64_t i = 0; i < count; i++)
        out[i] = dtype == ATTN_F64 ? ((const double *)data)[i] : ((const float *)data)[i];
    return out;
}

int row_collect(const explanation *e, int64_t b, int64_t h, int64_t i, row_numbers *r)
{
    const sizes *z = e->z;
    const size_t size = attn_dtype_size(z->dtype);
    char *memory = need_zeroed((size_t)(STAGE_COUNT * z->Lk + z->d_v), size);
    attn_tensor stage[STAGE_COUNT], output = attn_tensor_of(memory + size * (size_t)(STAGE_COUNT * z->Lk), z->dtype, 1, &z->d_v);
    for (int k = 0; k < STAGE_COUNT; k++)
        stage[k] = attn_tensor_of(memory + size * (size_t)(k * z->Lk), z->dtype, 1, &z->Lk);
    *r = (row_numbers){.b = b, .h = h, .i = i, .hidden = need_zeroed((size_t)z->Lk, 1)};
    r->row = (attn_row){.struct_size = sizeof r->row,
                        .scores = &stage[0],
                        .scaled = &stage[1],
                        .capped = &stage[2],
                        .masked = &stage[3],
                        .weights = &stage[4],
                        .output = &output,
                        .hidden = r->hidden};
    const int status = rule_cell(e->s, &r->row, &e->t->q, &e->t->k, &e->t->v, e->opts, b, h, i);
    const bool done = status == EXIT_DONE;
    for (int k = 0; k < STAGE_COUNT && done; k++)
        r->stage[k] = doubles_of(stage[k].data, z->dtype, z->Lk);
    if (done)
        r->output = doubles_of(output.data, z->dtype, z->d_v);
    free(memory);
    return status;
}

void row_free(row_numbers *r)
{
    for (int k = 0; k < STAGE_COUNT; k++)
        free(r->stage[k]);
    free(r->output);
    free(r->hidden);
    *r = (row_numbers){.b = 0};
}

int explain_settings(const options *o, explanation *e, labels *words)
{
    static const opt_id wholes[] = {OPT_NPZ, OPT_HTML};
    int status = opt_round(o, &e->round);
    const int lang = opt_choice(o, OPT_LANG);
    if (!status && lang == -2)
        status = EXIT_TROUBLE;
    for (size_t i = 0; i < sizeof wholes / sizeof wholes[0] && !status && opt_given(o, OPT_CELL); i++)
        if (opt_given(o, wholes[i]))
            status = trouble("--cell shows one row, and --%s writes all of them; give one of the two", opt_table[wholes[i]].name);
    if (!status)
        status = heat_choose(&e->heat, stdout, o);
    e->lang = lang == 1 ? LANG_KO : LANG_EN;
    return status ? status : labels_read(words, o);
}

const char *explain_place(char out[NAME_TEXT], const char *const *names, int64_t at)
{
    char name[NAME_TEXT - 24];
    if (names)
        snprintf(out, NAME_TEXT, "%lld (%s)", (long long)at, text_cut(name, sizeof name, names[at], (int)sizeof name));
    else
        snprintf(out, NAME_TEXT, "%lld", (long long)at);
    return out;
}

const char *explain_number(char out[CELL_TEXT], const explanation *e, int decimals, double value)
{
    const double size = fabs(value);
    number_style style = number_style_of(size, e->round);
    if (e->round < 0) {
        style.decimals = decimals;
        style.exponent = size >= 1e7 || (size > 0 && size < 0.5 * pow(10, -decimals));
    }
    return number_text(out, style, value);
}

const char *explain_setting(char out[CELL_TEXT], double value)
{
    snprintf(out, CELL_TEXT, "%.6g", value);
    return out;
}

const char *explain_why_short(char out[NAME_TEXT], uint8_t hidden)
{
    size_t at = 0;
    out[0] = 0;
    for (int bit = 0; bit < HIDDEN_BITS; bit++)
        if (hidden >> bit & 1)
            at += (size_t)snprintf(out + at, NAME_TEXT - at, "%s%s", at ? ", " : "", explain_hidden_name[bit]);
    return out;
}

bool explain_masks(const attn_sdpa_opts *opts)
{
    return opts->mask || opts->bias || opts->kv_len || opts->q_len || opts->flags & (ATTN_CAUSAL | ATTN_WINDOW | ATTN_ALIBI);
}

bool explain_dropped(const explanation *e, const row_numbers *r, int64_t j)
{
    const bool has_share = (float)exp(r->stage[STAGE_MASKED][j] - r->row.lse) > 0; /* a share can be too small for a number */
    return e->opts->dropout > 0 && !r->hidden[j] && r->stage[STAGE_WEIGHTS][j] == 0 && has_share;
}

const char *explain_weights_formula(char out[FORMULA_TEXT], const attn_sdpa_opts *opts)
{
    const char *softmax = opts->sinks ? "softmax(masked, sink)" : "softmax(masked)";
    if (opts->dropout > 0)
        snprintf(out, FORMULA_TEXT, "%s / (1 - %.6g), 0 where dropped", softmax, opts->dropout);
    else
        snprintf(out, FORMULA_TEXT, "%s", softmax);
    return out;
}

bool explain_default_scale(const explanation *e) { return !(e->opts->flags & ATTN_SCALE); }
