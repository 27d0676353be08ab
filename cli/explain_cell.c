/* SPDX-License-Identifier: Apache-2.0 */
/* One row with every number, and one key of it with its whole arithmetic. */
#include "explain.h"
#include "json_out.h"
#include "message.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_TERMS = 4096 }; /* of all sums of a row that are written out */

typedef struct cell_place {
    int64_t b, h, i, j; /* j = -1: no key */
} cell_place;

static int read_place(const sizes *z, const char *text, cell_place *p)
{
    const char *at = text;
    int64_t *const number[] = {&p->b, &p->h, &p->i, &p->j};
    const int64_t limit[] = {z->B, z->H, z->Lq, z->Lk};
    static const char *const names[] = {"batch items", "heads", "rows", "keys"};
    int count = 0;
    p->j = -1;
    while (count < 4 && parse_int(at, number[count], &at)) {
        count++;
        if (count == 4 || *at != ',')
            break;
        at++;
    }
    if (count < 3 || *at || at[-1] == ',')
        return trouble("--cell is %s, and must be B,H,I or B,H,I,J: batch item, head, row and key, counted from 0", text);
    for (int k = 0; k < count; k++)
        if (*number[k] < 0 || *number[k] >= limit[k])
            return trouble("--cell is %s, and there are %lld %s, counted from 0: (B,H,Lq,Lk) is (%lld,%lld,%lld,%lld)", text,
                           (long long)limit[k], names[k], (long long)z->B, (long long)z->H, (long long)z->Lq, (long long)z->Lk);
    return EXIT_DONE;
}

/* --- the table of the keys --- */

enum { COL_SCORES, COL_SCALED, COL_CAPPED, COL_MASKED, COL_POWER, COL_WEIGHTS, COL_WHY, COL_COUNT };

typedef struct key_table {
    const explanation *e;
    const row_numbers *r;
    int columns, column[COL_COUNT]; /* COL_* of each that is shown */
} key_table;

static double key_value(const void *data, int64_t j, int64_t place)
{
    const key_table *t = data;
    const int column = t->column[place];
    if (column < COL_POWER)
        return t->r->stage[column][j];
    return column == COL_POWER ? exp(t->r->stage[STAGE_MASKED][j] - t->r->row.row_max) : t->r->stage[STAGE_WEIGHTS][j];
}

/* Each cell in its own style: the columns have different units. */
static bool key_word(const void *data, int64_t j, int64_t place, char out[CELL_TEXT])
{
    const key_table *t = data;
    const int column = t->column[place];
    char why[NAME_TEXT];
    const uint8_t hidden = t->r->hidden[j];
    if (column == COL_WHY)
        snprintf(out, CELL_TEXT, "%s", explain_dropped(t->e, t->r, j) ? "dropout" : explain_why_short(why, hidden));
    else if (hidden && column >= COL_MASKED)
        strcpy(out, "x");
    else
        explain_number(out, t->e, 4, key_value(data, j, place));
    return true;
}

/* Columns that only repeat the one before are left out. */
static key_table choose_columns(const explanation *e, const row_numbers *r)
{
    key_table t = {.e = e, .r = r};
    for (int column = 0; column < COL_COUNT; column++)
        if ((column != COL_CAPPED || e->opts->softcap > 0) && (column != COL_MASKED || explain_masks(e->opts)) &&
            (column != COL_WHY || r->row.visible < e->z->Lk || e->opts->dropout > 0))
            t.column[t.columns++] = column;
    return t;
}

static void print_keys(const explanation *e, const row_numbers *r)
{
    static const char *const titles[COL_COUNT] = {"scores", "scaled", "capped", "masked", "e^(x-max)", "weights", "hidden by"};
    const key_table t = choose_columns(e, r);
    const int64_t count = e->z->Lk;
    char(*lines)[NAME_TEXT] = need_memory((size_t)count * sizeof *lines);
    const char **names = need_memory((size_t)count * sizeof *names), *columns[COL_COUNT];
    for (int64_t j = 0; j < count; j++) {
        char name[NAME_TEXT];
        snprintf(lines[j], NAME_TEXT, "%s %s", explain_say(e->lang, W_KEY), explain_place(name, e->key_names, j));
        names[j] = lines[j];
    }
    for (int c = 0; c < t.columns; c++)
        columns[c] = t.column[c] == COL_WHY && e->opts->dropout > 0 ? "taken out by" : titles[t.column[c]];
    table_print(stdout,
                &(matrix){.rows = count,
                          .cols = t.columns,
                          .value = key_value,
                          .word = key_word,
                          .data = &t,
                          .row_names = names,
                          .col_names = columns,
                          .round = e->round,
                          .whole = true},
                4);
    free(names);
    free(lines);
}

/* --- one key --- */

static void print_why(const explanation *e, const row_numbers *r, int64_t j)
{
    for (int bit = 0; bit < HIDDEN_BITS; bit++)
        if (r->hidden[j] >> bit & 1) {
            printf("    ");
            printf(explain_say(e->lang, (explain_word)(W_WHY_MASK + bit)), (long long)j, (long long)r->row.position);
            putchar('\n');
        }
    printf("    %s\n", explain_say(e->lang, W_KEY_NOTHING));
}

/* "weights = e^(masked - lse) = e^(1 - 1.31) = 0.73", and what dropout makes of it. */
static void print_weight(const explanation *e, const row_numbers *r, int64_t j)
{
    char a[CELL_TEXT], b[CELL_TEXT], c[CELL_TEXT], p[CELL_TEXT], kept[CELL_TEXT + 16] = "";
    const double masked = r->stage[STAGE_MASKED][j];
    if (explain_dropped(e, r, j)) {
        printf("    weights = 0   (%s, e^(masked - lse) = %s)\n", explain_say(e->lang, W_KEY_DROPPED),
               explain_number(a, e, 4, exp(masked - r->row.lse)));
        return;
    }
    if (e->opts->dropout > 0)
        snprintf(kept, sizeof kept, " / (1 - %s)", explain_setting(p, e->opts->dropout));
    printf("    weights = e^(masked - lse)%s = e^(%s - %s)%s = %s\n", kept, explain_number(a, e, 4, masked),
           explain_number(b, e, 4, r->row.lse), kept, explain_number(c, e, 4, r->stage[STAGE_WEIGHTS][j]));
}

static void print_key(const explanation *e, const row_numbers *r, int64_t j)
{
    char name[NAME_TEXT], a[CELL_TEXT], b[CELL_TEXT], c[CELL_TEXT];
    putchar('\n');
    print_heading(stdout, explain_say(e->lang, W_KEY_TITLE), explain_place(name, e->key_names, j));
    explain_dot(e, r, j, "scores  = q . k = ");
    explain_number(a, e, 4, r->stage[STAGE_SCORES][j]);
    printf("    scaled  = %s x %s = %s\n", a, explain_setting(b, r->row.scale), explain_number(c, e, 4, r->stage[STAGE_SCALED][j]));
    if (e->opts->softcap > 0) {
        explain_number(a, e, 4, r->stage[STAGE_SCALED][j]);
        explain_setting(b, e->opts->softcap);
        printf("    capped  = %s tanh(%s / %s) = %s\n", b, a, b, explain_number(c, e, 4, r->stage[STAGE_CAPPED][j]));
    }
    if (r->hidden[j]) {
        print_why(e, r, j);
        return;
    }
    const double added = r->stage[STAGE_MASKED][j] - r->stage[STAGE_CAPPED][j];
    explain_number(a, e, 4, r->stage[STAGE_MASKED][j]);
    if (added != 0)
        printf("    masked  = %s + %s = %s   (%s)\n", explain_number(b, e, 4, r->stage[STAGE_CAPPED][j]), explain_number(c, e, 4, added), a,
               explain_say(e->lang, W_ADDED));
    print_weight(e, r, j);
    explain_contribution(e, r, j);
}

/* Every product of the row: its scores, and its output. */
static void print_sums(const explanation *e, const row_numbers *r)
{
    char lead[NAME_TEXT + 32], name[NAME_TEXT];
    const sizes *z = e->z;
    if ((z->d + z->d_v) > MOST_TERMS / (z->Lk ? z->Lk : 1)) {
        printf("    ");
        printf(explain_say(e->lang, W_CELL_MORE), (long long)r->b, (long long)r->h, (long long)r->i);
        putchar('\n');
        return;
    }
    explain_mix(e, r);
    explain_heading("scores = q . k", "", "");
    for (int64_t j = 0; j < z->Lk; j++) {
        snprintf(lead, sizeof lead, "%s %s: ", explain_say(e->lang, W_KEY), explain_place(name, e->key_names, j));
        explain_dot(e, r, j, lead);
    }
}

static void print_row(const explanation *e, const row_numbers *r, int64_t j)
{
    char name[NAME_TEXT], a[CELL_TEXT], b[CELL_TEXT], c[CELL_TEXT];
    print_heading(stdout, explain_say(e->lang, W_CELL_TITLE), (long long)r->b, (long long)r->h, explain_place(name, e->row_names, r->i));
    printf("    ");
    printf(explain_say(e->lang, W_CELL_PLACE), (long long)r->row.position, (long long)r->row.kv_head);
    printf("\n    ");
    printf(explain_say(e->lang, explain_default_scale(e) ? W_CELL_SCALE_DEFAULT : W_CELL_SCALE_GIVEN), explain_setting(a, r->row.scale),
           (long long)e->z->d);
    printf("\n    ");
    printf(explain_say(e->lang, W_CELL_SEES), (long long)r->row.visible, (long long)e->z->Lk);
    puts("\n");
    print_keys(e, r);
    printf("\n    max = %s, entropy = %s\n", explain_number(a, e, 4, r->row.row_max), explain_number(c, e, 4, r->row.entropy));
    printf("    lse = max + ln(sum of e^(x-max)%s) = %s\n", e->opts->sinks ? " and e^(sink-max)" : "", explain_number(b, e, 4, r->row.lse));
    const attn_tensor output = attn_tensor_of(r->output, ATTN_F64, 1, &e->z->d_v);
    explain_heading("weights V = output", "", explain_say(e->lang, r->row.visible ? W_OUTPUT : W_EMPTY_ROW));
    table_vector(stdout, &output, e->round, 4);
    if (j >= 0)
        print_key(e, r, j);
    else
        print_sums(e, r);
}

static int print_json(const explanation *e, const row_numbers *r, int64_t key)
{
    json_writer j = jw_begin_document(e->s->o->verb->name);
    explain_json_run(&j, e);
    jw_begin(&j, "cell", '{');
    jw_int(&j, "batch", r->b);
    jw_int(&j, "head", r->h);
    jw_int(&j, "row", r->i);
    if (key >= 0)
        jw_int(&j, "key", key);
    jw_int(&j, "kv_head", r->row.kv_head);
    jw_int(&j, "position", r->row.position);
    jw_int(&j, "visible", r->row.visible);
    jw_number(&j, "scale", r->row.scale, ATTN_F64);
    jw_number(&j, "row_max", r->row.row_max, e->z->dtype);
    jw_number(&j, "lse", r->row.lse, e->z->dtype);
    jw_number(&j, "entropy", r->row.entropy, e->z->dtype);
    jw_end(&j, '}');
    jw_begin(&j, "stages", '{');
    for (int k = 0; k < STAGE_COUNT; k++)
        jw_numbers(&j, explain_stage_name[k], r->stage[k], e->z->Lk, e->z->dtype);
    jw_numbers(&j, "output", r->output, e->z->d_v, e->z->dtype);
    jw_end(&j, '}');
    jw_begin(&j, "hidden", '[');
    for (int64_t k = 0; k < e->z->Lk; k++) {
        jw_begin(&j, NULL, '[');
        for (int bit = 0; bit < HIDDEN_BITS; bit++)
            if (r->hidden[k] >> bit & 1)
                jw_string(&j, NULL, explain_hidden_name[bit]);
        jw_end(&j, ']');
    }
    jw_end(&j, ']');
    return jw_end_document(&j);
}

int explain_cell(const explanation *e, const char *text)
{
    cell_place p = {0};
    row_numbers r = {.b = 0};
    int status = read_place(e->z, text, &p);
    if (!status)
        status = row_collect(e, p.b, p.h, p.i, &r);
    if (!status && opt_given(e->s->o, OPT_JSON))
        status = print_json(e, &r, p.j);
    else if (!status)
        print_row(e, &r, p.j);
    row_free(&r);
    return status;
}
