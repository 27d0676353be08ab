/* SPDX-License-Identifier: Apache-2.0 */
/* Weights as a heat map. */
#include "explain.h"
#include "message.h"
#include "text.h"

#include <math.h>
#include <stdlib.h>

enum { MOST_ROWS = 24, MOST_COLUMNS = 64, LABEL_COLUMNS = 16, LABEL_TEXT = 72, INDENT = 4 };

typedef struct map {
    int rows;
    int64_t row[MOST_ROWS];
    char label[MOST_ROWS][LABEL_TEXT];
    int labels;    /* columns of the widest */
    int64_t keys;  /* in one column of the map */
    int64_t count; /* columns of the map */
    double share[MOST_ROWS][MOST_COLUMNS];
    double largest;
    bool hidden;
} map;

/* All rows, or evenly spaced ones from the first to the last. */
static void choose_rows(const explanation *e, map *m)
{
    const int64_t Lq = e->z->Lq;
    m->rows = Lq < MOST_ROWS ? (int)Lq : MOST_ROWS;
    for (int k = 0; k < m->rows; k++) {
        m->row[k] = m->rows < MOST_ROWS ? k : k * (Lq - 1) / (MOST_ROWS - 1);
        if (e->row_names)
            text_cut(m->label[k], LABEL_TEXT, e->row_names[m->row[k]], LABEL_COLUMNS);
        else
            snprintf(m->label[k], LABEL_TEXT, "%lld", (long long)m->row[k]);
        const int columns = text_columns(m->label[k]);
        m->labels = columns > m->labels ? columns : m->labels;
    }
}

static void choose_columns(const explanation *e, map *m)
{
    int room = (terminal_columns(stdout) - INDENT - m->labels - 2) / 2;
    room = room < 4 ? 4 : room > MOST_COLUMNS ? MOST_COLUMNS : room;
    m->keys = (e->z->Lk + room - 1) / room;
    m->count = (e->z->Lk + m->keys - 1) / m->keys;
}

/* The largest share of each band of keys; NaN where all of them are hidden. */
static void pool(const explanation *e, const double *row, map *m, double *share)
{
    for (int64_t c = 0; c < m->count; c++)
        share[c] = NAN;
    for (int64_t j = 0; j < e->z->Lk; j++)
        if (!isnan(row[j]))
            share[j / m->keys] = fmax(share[j / m->keys], row[j]);
    for (int64_t c = 0; c < m->count; c++) {
        m->largest = fmax(m->largest, share[c]);
        m->hidden = m->hidden || isnan(share[c]);
    }
}

/* The numbers of the keys, where there is room for them: all of one digit, then every fifth. */
static void print_keys(const map *m)
{
    if (m->keys > 1 || m->count > 100)
        return;
    printf("%*s", INDENT + m->labels + 2, "");
    for (int64_t j = 0; j < m->count; j++) {
        if (j < 10 || j % 5 == 0)
            printf("%2lld", (long long)j);
        else if (j + 1 < m->count)
            printf("  ");
    }
    putchar('\n');
}

static void print_map(const explanation *e, const map *m)
{
    char text[CELL_TEXT];
    print_keys(m);
    for (int k = 0; k < m->rows; k++) {
        printf("%*s%s%*s", INDENT, "", m->label[k], m->labels - text_columns(m->label[k]) + 2, "");
        heat_row(stdout, e->heat, m->share[k], m->count, m->largest);
        putchar('\n');
    }
    printf("%*s0 [", INDENT, "");
    heat_scale(stdout, e->heat);
    printf("] %s%s%s", explain_number(text, e, 4, m->largest), m->hidden ? "   " : "",
           m->hidden ? explain_say(e->lang, W_HEAT_HIDDEN) : "");
    if (m->keys > 1) {
        printf("   ");
        printf(explain_say(e->lang, W_HEAT_KEYS), (long long)m->keys);
    }
    putchar('\n');
}

int explain_heat_map(const explanation *e, int (*read)(const explanation *e, const void *user, int64_t i, double *row), const void *user)
{
    int status = EXIT_DONE;
    if (e->heat == HEAT_OFF || e->z->Lk == 0)
        return EXIT_DONE;
    map *m = need_zeroed(1, sizeof *m);
    double *row = need_zeroed((size_t)e->z->Lk, sizeof *row);
    choose_rows(e, m);
    choose_columns(e, m);
    for (int k = 0; k < m->rows && !status; k++) {
        status = read(e, user, m->row[k], row);
        if (!status)
            pool(e, row, m, m->share[k]);
    }
    if (!status)
        print_map(e, m);
    free(row);
    free(m);
    return status;
}

typedef struct place {
    int64_t batch, head;
} place;

static int read_weights(const explanation *e, const void *user, int64_t i, double *row)
{
    const place *at = user;
    row_numbers r = {.b = 0};
    const int status = row_collect(e, at->batch, at->head, i, &r);
    for (int64_t j = 0; j < e->z->Lk && !status; j++)
        row[j] = r.hidden[j] ? NAN : r.stage[STAGE_WEIGHTS][j];
    row_free(&r);
    return status;
}

int explain_heat(const explanation *e, int64_t batch, int64_t head)
{
    return explain_heat_map(e, read_weights, &(place){.batch = batch, .head = head});
}
