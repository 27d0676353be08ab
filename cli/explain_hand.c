/* SPDX-License-Identifier: Apache-2.0 */
/* The softmax of one row as a person would write it down. */
#include "explain.h"

#include <math.h>
#include <string.h>

enum { DECIMALS = 2, MOST_VALUES = 6 };

/* The visible numbers of one stage: "0, 2". */
static void print_stage(const explanation *e, const row_numbers *r, int stage)
{
    char text[CELL_TEXT];
    const char *comma = "";
    for (int64_t j = 0; j < e->z->Lk; j++)
        if (!r->hidden[j]) {
            printf("%s%s", comma, explain_number(text, e, DECIMALS, r->stage[stage][j]));
            comma = ", ";
        }
}

/* The softmax, before dropout. */
static void print_shares(const explanation *e, const row_numbers *r)
{
    char text[CELL_TEXT];
    const char *comma = "";
    for (int64_t j = 0; j < e->z->Lk; j++)
        if (!r->hidden[j]) {
            const double share = e->opts->dropout > 0 ? exp(r->stage[STAGE_MASKED][j] - r->row.lse) : r->stage[STAGE_WEIGHTS][j];
            printf("%s%s", comma, explain_number(text, e, DECIMALS, share));
            comma = ", ";
        }
}

/* "e^0 = 1, e^1 = 2.72, sum 3.72", every exponent less `shift`. */
static void print_powers(const explanation *e, const row_numbers *r, double shift)
{
    char exponent[CELL_TEXT], power[CELL_TEXT];
    double sum = 0;
    for (int64_t j = 0; j < e->z->Lk; j++) {
        if (r->hidden[j])
            continue;
        const double x = r->stage[STAGE_MASKED][j] - shift;
        explain_number(exponent, e, DECIMALS, x);
        printf("e^%s = %s, ", exponent, explain_number(power, e, DECIMALS, exp(x)));
        sum += exp(x);
    }
    if (e->opts->sinks) { /* lse = ln(sum of all powers and the sink's) */
        const double sink = exp(r->row.lse - shift) - sum;
        printf("sink %s, ", explain_number(power, e, DECIMALS, sink));
        sum += sink;
    }
    printf("sum %s", explain_number(power, e, DECIMALS, sum));
}

/* "-> x 0.5 ->", and "/2" where the default scale is one over a whole number. */
static void print_scaling(const explanation *e, const row_numbers *r)
{
    char text[CELL_TEXT];
    const double root = sqrt((double)e->z->d);
    if (explain_default_scale(e) && root == floor(root))
        printf("  ->  /%.0f  ->  ", root);
    else
        printf("  ->  x %s  ->  ", explain_setting(text, r->row.scale));
    print_stage(e, r, STAGE_SCALED);
}

static void print_output(const explanation *e, const row_numbers *r)
{
    char text[CELL_TEXT];
    const int64_t shown = e->z->d_v < MOST_VALUES ? e->z->d_v : MOST_VALUES;
    printf("    -> weights V = (");
    for (int64_t c = 0; c < shown; c++)
        printf("%s%s", c ? ", " : "", explain_number(text, e, DECIMALS, r->output[c]));
    printf("%s)\n", shown < e->z->d_v ? ", ..." : "");
}

void explain_hand_sum(const explanation *e, const row_numbers *r)
{
    char name[NAME_TEXT], top[CELL_TEXT], title[128];
    const double largest = r->row.row_max;
    snprintf(title, sizeof title, explain_say(e->lang, W_BY_HAND), explain_place(name, e->row_names, r->i));
    putchar('\n');
    print_heading(stdout, "%s%s%s", title, r->row.visible < e->z->Lk ? " " : "",
                  r->row.visible < e->z->Lk ? explain_say(e->lang, W_ONLY_VISIBLE) : "");
    printf("    ");
    print_stage(e, r, STAGE_SCORES);
    print_scaling(e, r);
    if (e->opts->softcap > 0) {
        printf("  ->  tanh  ->  ");
        print_stage(e, r, STAGE_CAPPED);
    }
    if (e->opts->bias || e->opts->flags & ATTN_ALIBI || (e->opts->mask && dtype_is_float(e->opts->mask->dtype))) {
        printf("  ->  + bias  ->  ");
        print_stage(e, r, STAGE_MASKED);
    }
    printf("\n    -> ");
    print_powers(e, r, 0);
    printf("\n    -> ");
    print_shares(e, r);
    putchar('\n');
    explain_number(top, e, DECIMALS, largest);
    printf("    ");
    printf(explain_say(e->lang, W_MAXIMUM_OFF), top);
    printf("\n    -> ");
    print_powers(e, r, largest);
    printf("\n    -> ");
    print_shares(e, r);
    printf("\n    ");
    printf(explain_say(e->lang, W_WHY_SAME), top);
    putchar('\n');
    if (e->opts->dropout > 0) {
        printf("    ");
        printf(explain_say(e->lang, W_DROP_BY_HAND), explain_setting(top, e->opts->dropout));
        printf("\n    -> ");
        print_stage(e, r, STAGE_WEIGHTS);
        putchar('\n');
    }
    print_output(e, r);
}
