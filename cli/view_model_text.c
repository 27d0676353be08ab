/* SPDX-License-Identifier: Apache-2.0 */
/* attn view of a model on a terminal. */
#include "finish.h"
#include "text.h"
#include "view_model.h"

#include <math.h>
#include <stdlib.h>

/* The mean over the rows of the largest weight of each: 1 where every row looks at one key. */
static double sharpness(const void *data, int64_t layer, int64_t head)
{
    const attn_tensor *w = data;
    double sum = 0;
    for (int64_t i = 0; i < w->shape[2]; i++) {
        double most = 0;
        for (int64_t j = 0; j < w->shape[3]; j++)
            most = fmax(most, tensor_value(w, (const int64_t[]){layer, head, i, j}));
        sum += most;
    }
    return sum / (double)w->shape[2];
}

typedef struct place {
    const attn_tensor *weights;
    int64_t layer, head;
    bool causal;
} place;

static double weight_at(const void *data, int64_t i, int64_t j)
{
    const place *p = data;
    return tensor_value(p->weights, (const int64_t[]){p->layer, p->head, i, j});
}

static bool weight_word(const void *data, int64_t i, int64_t j, char out[CELL_TEXT])
{
    const place *p = data;
    if (p->causal && j > i)
        snprintf(out, CELL_TEXT, "x");
    return p->causal && j > i;
}

static int read_shares(const explanation *e, const void *user, int64_t i, double *row)
{
    const place *p = user;
    for (int64_t j = 0; j < e->z->Lk; j++)
        row[j] = p->causal && j > i ? NAN : weight_at(p, i, j);
    return EXIT_SUCCESS;
}

static int print_head(const model_view *v, const explanation *how, model_part which)
{
    const attn_tensor *w = &v->whole[which];
    const sizes z = {.rank = 4, .B = 1, .H = w->shape[1], .Hkv = w->shape[1], .Lq = w->shape[2], .Lk = w->shape[3]};
    const place at = {.weights = w, .layer = v->at_layer[which], .head = v->at_head, .causal = which == MODEL_DECODER};
    explanation e = *how;
    e.z = &z;
    e.row_names = (const char *const *)model_part_rows(&v->run, which)->name;
    e.key_names = (const char *const *)model_part_keys(&v->run, which)->name;
    const matrix m = {.rows = z.Lq, .cols = z.Lk, .value = weight_at, .word = weight_word, .data = &at, .row_names = e.row_names,
                      .col_names = e.key_names, .round = how->round};
    putchar('\n');
    print_heading(stdout, explain_say(how->lang, W_LAYER_HEAD), (long long)at.layer, (long long)at.head);
    table_print(stdout, &m, 4);
    if (at.causal && z.Lq > 1)
        printf("    %s\n", explain_say(how->lang, W_CAUSAL_MARK));
    return explain_heat_map(&e, read_shares, &at);
}

static void print_sharpness(const model_view *v, const explanation *how, model_part which)
{
    const attn_tensor *w = &v->whole[which];
    const matrix m = {.rows = w->shape[0], .cols = w->shape[1], .value = sharpness, .data = w, .round = how->round};
    puts(explain_say(how->lang, W_SHARPNESS));
    table_print(stdout, &m, 4);
}

static int print_part(const model_view *v, const explanation *how, model_part which)
{
    static const explain_word names[MODEL_PARTS] = {W_PART_ENCODER, W_PART_DECODER, W_PART_CROSS};
    const attn_tensor *w = &v->whole[which];
    char shape[SHAPE_TEXT];
    putchar('\n');
    print_heading(stdout, "%s %s", explain_say(how->lang, names[which]), tensor_shape_text(shape, w));
    print_sharpness(v, how, which);
    return print_head(v, how, which);
}

static void print_tokens(const char *title, const token_list *l)
{
    const int room = terminal_columns(stdout);
    int column = printf("%s", title);
    for (int64_t i = 0; i < l->count; i++) {
        const int wide = text_columns(l->name[i]) + 1;
        if (column + wide > room) {
            printf("\n   ");
            column = 3;
        }
        printf(" %s", l->name[i]);
        column += wide;
    }
    putchar('\n');
}

int view_model_print(const model_view *v, const explanation *how)
{
    const attn_model_info *m = &v->run.info;
    int status = EXIT_SUCCESS;
    printf(explain_say(how->lang, W_MODEL_SIZES), m->type, (long long)m->layers, (long long)m->heads, (long long)m->head_dim);
    putchar('\n');
    print_tokens(explain_say(how->lang, W_MODEL_TEXT), &v->run.text);
    if (v->run.target.count)
        print_tokens(explain_say(how->lang, W_MODEL_TARGET), &v->run.target);
    for (int which = 0; which < MODEL_PARTS && !status; which++)
        if (v->whole[which].data && (which == (int)v->first || !opt_given(v->o, OPT_PART)))
            status = print_part(v, how, which);
    return status ? status : finish_stdout();
}
