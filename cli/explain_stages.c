/* SPDX-License-Identifier: Apache-2.0 */
/* The stages of attention as tables, head by head; a row at a time, so that no Lq x Lk matrix is ever held. */
#include "explain.h"
#include "message.h"
#include "text.h"

#include <math.h>

#include <stdlib.h>
#include <string.h>

enum { HEADING_COLUMNS = 30, MOST_BLOCKS = 4, MOST_HAND_KEYS = 8 };

/* The rows of one head that are shown. */
typedef struct block {
    const explanation *e;
    int rows;
    int64_t row[TABLE_ROWS + 1];
    row_numbers numbers[TABLE_ROWS + 1];
    int stage; /* that a table of the block shows; STAGE_COUNT: the output */
} block;

void explain_heading(const char *formula, const char *shapes, const char *line)
{
    char text[256];
    const int pad = HEADING_COLUMNS - text_columns(formula);
    snprintf(text, sizeof text, "%s%*s%s", formula, *shapes ? (pad > 2 ? pad : 2) : 0, "", shapes);
    putchar('\n');
    print_heading(stdout, "%s", text);
    if (*line)
        printf("%s\n", line);
}

static const row_numbers *row_of(const block *b, int64_t i)
{
    for (int k = 0; k < b->rows; k++)
        if (b->row[k] == i)
            return &b->numbers[k];
    return &b->numbers[0];
}

static double cell_value(const void *data, int64_t i, int64_t j)
{
    const block *b = data;
    const row_numbers *r = row_of(b, i);
    return b->stage == STAGE_COUNT ? r->output[j] : r->stage[b->stage][j];
}

static bool cell_word(const void *data, int64_t i, int64_t j, char out[CELL_TEXT])
{
    const block *b = data;
    if (b->stage != STAGE_MASKED && b->stage != STAGE_WEIGHTS)
        return false;
    if (row_of(b, i)->hidden[j])
        strcpy(out, "x");
    return row_of(b, i)->hidden[j];
}

static void print_table(block *b, int stage)
{
    const explanation *e = b->e;
    const bool output = stage == STAGE_COUNT;
    b->stage = stage;
    const matrix m = {.rows = e->z->Lq,
                      .cols = output ? e->z->d_v : e->z->Lk,
                      .value = cell_value,
                      .word = cell_word,
                      .data = b,
                      .row_names = e->row_names,
                      .col_names = output ? NULL : e->key_names,
                      .round = e->round};
    table_print(stdout, &m, 4);
}

static void product_shapes(char out[SHAPE_TEXT], int64_t rows, int64_t inner, int64_t cols)
{
    snprintf(out, SHAPE_TEXT, "(%lld,%lld) x (%lld,%lld) -> (%lld,%lld)", (long long)rows, (long long)inner, (long long)inner,
             (long long)cols, (long long)rows, (long long)cols);
}

static void print_scores(block *b)
{
    const explanation *e = b->e;
    char shapes[SHAPE_TEXT], scale[CELL_TEXT], formula[96], root[96];
    product_shapes(shapes, e->z->Lq, e->z->d, e->z->Lk);
    explain_heading("Q K^T = scores", shapes, explain_say(e->lang, W_SCORES));
    print_table(b, STAGE_SCORES);
    explain_setting(scale, b->numbers[0].row.scale);
    snprintf(formula, sizeof formula, "scores x %s = scaled", scale);
    snprintf(root, sizeof root, "%s = 1/sqrt(%lld)", scale, (long long)e->z->d);
    explain_heading(formula, explain_default_scale(e) ? root : "", explain_say(e->lang, W_SCALED));
    print_table(b, STAGE_SCALED);
}

static void print_masked(block *b)
{
    const explanation *e = b->e;
    const attn_sdpa_opts *o = e->opts;
    char formula[160], cap[CELL_TEXT];
    if (o->softcap > 0) {
        explain_setting(cap, o->softcap);
        snprintf(formula, sizeof formula, "%s tanh(scaled / %s) = capped", cap, cap);
        explain_heading(formula, "", explain_say(e->lang, W_CAPPED));
        print_table(b, STAGE_CAPPED);
    } else {
        explain_heading("scaled = capped", explain_say(e->lang, W_NOT_CAPPED), "");
    }
    if (!explain_masks(o)) {
        explain_heading("capped = masked", explain_say(e->lang, W_NOTHING_HIDDEN), "");
        return;
    }
    const bool biased = o->bias || (o->mask && dtype_is_float(o->mask->dtype));
    snprintf(formula, sizeof formula, "capped%s%s = masked", biased ? " + bias" : "", o->flags & ATTN_ALIBI ? " + ALiBi" : "");
    explain_heading(formula, "", explain_say(e->lang, W_MASKED));
    print_table(b, STAGE_MASKED);
    for (int k = 0; k < b->rows; k++)
        if (b->row[k] >= 0 && b->numbers[k].row.visible < e->z->Lk) {
            printf("    %s\n", explain_say(e->lang, W_HIDDEN_MARK));
            break;
        }
}

static void print_row_sums(const block *b)
{
    const explanation *e = b->e;
    char text[CELL_TEXT];
    bool empty = false;
    printf("    %s", explain_say(e->lang, W_ROW_SUMS));
    for (int k = 0; k < b->rows; k++) {
        double sum = 0;
        for (int64_t j = 0; j < e->z->Lk && b->row[k] >= 0; j++)
            sum += b->numbers[k].stage[STAGE_WEIGHTS][j];
        printf("  %s", b->row[k] < 0 ? "..." : explain_number(text, e, 4, sum));
        empty = empty || (b->row[k] >= 0 && b->numbers[k].row.visible == 0);
    }
    putchar('\n');
    if (e->opts->sinks)
        printf("    %s\n", explain_say(e->lang, W_SINK_TAKES));
    if (e->opts->dropout > 0)
        printf("    %s\n", explain_say(e->lang, W_DROPPED));
    if (empty)
        printf("    %s\n", explain_say(e->lang, W_EMPTY_ROW));
}

static int print_weights(block *b)
{
    const explanation *e = b->e;
    char shapes[SHAPE_TEXT], softmax[FORMULA_TEXT], formula[FORMULA_TEXT + 16];
    snprintf(formula, sizeof formula, "%s = weights", explain_weights_formula(softmax, e->opts));
    explain_heading(formula, "", explain_say(e->lang, W_WEIGHTS));
    print_table(b, STAGE_WEIGHTS);
    print_row_sums(b);
    const int status = explain_heat(e, b->numbers[0].b, b->numbers[0].h);
    if (status)
        return status;
    product_shapes(shapes, e->z->Lq, e->z->Lk, e->z->d_v);
    explain_heading("weights V = output", shapes, explain_say(e->lang, W_OUTPUT));
    print_table(b, STAGE_COUNT);
    return EXIT_DONE;
}

/* The last row that sees few enough keys to be summed by hand. */
static void print_hand_sum(const block *b)
{
    for (int k = b->rows - 1; k >= 0; k--)
        if (b->row[k] >= 0 && b->numbers[k].row.visible > 0 && b->numbers[k].row.visible <= MOST_HAND_KEYS) {
            explain_hand_sum(b->e, &b->numbers[k]);
            return;
        }
}

static int explain_head(const explanation *e, int64_t batch, int64_t head, bool by_hand)
{
    block b = {.e = e};
    int status = EXIT_DONE;
    b.rows = shown_places(e->z->Lq, e->z->Lq <= TABLE_ROWS ? TABLE_ROWS : 2 * TABLE_EDGE, b.row);
    for (int k = 0; k < b.rows && !status; k++)
        if (b.row[k] >= 0)
            status = row_collect(e, batch, head, b.row[k], &b.numbers[k]);
    if (!status) {
        print_scores(&b);
        print_masked(&b);
        status = print_weights(&b);
    }
    if (!status && by_hand)
        print_hand_sum(&b);
    for (int k = 0; k < b.rows; k++)
        row_free(&b.numbers[k]);
    return status;
}

/* Which columns turn together, and by how much. */
static void print_angles(const explanation *e)
{
    const char *pairs = e->turn->interleaved ? "(2p, 2p+1)" : "(p, p + d/2)";
    char first[CELL_TEXT], last[CELL_TEXT];
    int64_t p = e->z->d / 2 - 1;
    if (!e->turn->rope) {
        printf("    %s: pos * %s^(-2p/%lld)\n", pairs, explain_setting(first, e->turn->theta), (long long)e->z->d);
        return;
    }
    while (p > 0 && isnan(attn_rope_frequency(e->turn->rope, p))) /* fewer columns than all turn */
        p--;
    printf("    ");
    printf(explain_say(e->lang, W_ROPE_MODEL), pairs, explain_setting(first, attn_rope_frequency(e->turn->rope, 0)),
           explain_setting(last, attn_rope_frequency(e->turn->rope, p)));
    putchar('\n');
}

void explain_rope(const explanation *e)
{
    if (!e->turn->given)
        return;
    explain_heading("RoPE(q), RoPE(k) = q_rot, k_rot", "", explain_say(e->lang, W_ROPE));
    print_angles(e);
    print_heading(stdout, "q_rot");
    table_tensor(stdout, &e->t->q, e->row_names, e->round, 4);
    print_heading(stdout, "k_rot");
    table_tensor(stdout, &e->t->k, e->key_names, e->round, 4);
}

int explain_stages(const explanation *e)
{
    const sizes *z = e->z;
    int64_t shown[MOST_BLOCKS + 1];
    const bool small = z->Lq <= TABLE_ROWS && z->Lk <= TABLE_ROWS && z->B * z->H <= MOST_BLOCKS;
    const int count = small ? shown_places(z->B * z->H, MOST_BLOCKS, shown) : 1;
    int status = EXIT_DONE;
    if (!small)
        shown[0] = 0;
    for (int k = 0; k < count && !status; k++) {
        const long long batch = shown[k] / z->H, head = shown[k] % z->H;
        if (z->B > 1) {
            putchar('\n');
            print_heading(stdout, explain_say(e->lang, W_BATCH_HEAD), batch, head);
        } else if (z->H > 1) {
            putchar('\n');
            print_heading(stdout, explain_say(e->lang, W_HEAD), head);
        }
        status = explain_head(e, batch, head, k == 0);
    }
    if (!status && !small && z->B * z->H > 1) {
        putchar('\n');
        printf(explain_say(e->lang, W_OTHER_HEADS), (long long)(z->B * z->H - 1));
        putchar('\n');
    }
    return status;
}
