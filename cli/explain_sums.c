/* SPDX-License-Identifier: Apache-2.0 */
/* The sums of one row with every term: q . k of a key, and the columns of the output. */
#include "explain.h"
#include "text.h"

enum { INDENT = 4, DEEPER = 8, TERM_TEXT = 2 * CELL_TEXT + 16 };

/* A text that goes on below where it meets the edge. */
typedef struct flow {
    int column, room;
} flow;

static void put(flow *f, const char *text)
{
    const int columns = text_columns(text);
    if (f->column + columns > f->room && f->column > DEEPER) {
        printf("\n%*s", DEEPER, "");
        f->column = DEEPER;
        text += *text == ' ';
    }
    fputs(text, stdout);
    f->column += text_columns(text);
}

static flow begin(const char *text)
{
    flow f = {.column = INDENT, .room = terminal_columns(stdout)};
    printf("%*s", INDENT, "");
    put(&f, text);
    return f;
}

static double q_at(const explanation *e, const row_numbers *r, int64_t c)
{
    const int64_t index[4] = {r->b, r->h, r->i, c};
    return tensor_value(&e->t->q, index + 4 - e->z->rank);
}

static double kv_at(const explanation *e, const attn_tensor *t, const row_numbers *r, int64_t j, int64_t c)
{
    const int64_t index[4] = {r->b, r->row.kv_head, j, c};
    return tensor_value(t, index + 4 - e->z->rank);
}

/* " + a x b", or "a x b" for the first term. */
static void put_product(flow *f, const explanation *e, bool first, double x, double y)
{
    char a[CELL_TEXT], b[CELL_TEXT], term[TERM_TEXT];
    snprintf(term, sizeof term, "%s%s x %s", first ? "" : " + ", explain_number(a, e, 4, x), explain_number(b, e, 4, y));
    put(f, term);
}

static void put_result(flow *f, const explanation *e, bool empty, double sum)
{
    char a[CELL_TEXT], text[CELL_TEXT + 8];
    if (empty)
        put(f, "0");
    snprintf(text, sizeof text, " = %s", explain_number(a, e, 4, sum));
    put(f, text);
    putchar('\n');
}

void explain_dot(const explanation *e, const row_numbers *r, int64_t j, const char *lead)
{
    flow f = begin(lead);
    for (int64_t c = 0; c < e->z->d; c++)
        put_product(&f, e, c == 0, q_at(e, r, c), kv_at(e, &e->t->k, r, j, c));
    put_result(&f, e, e->z->d == 0, r->stage[STAGE_SCORES][j]);
}

void explain_mix(const explanation *e, const row_numbers *r)
{
    char lead[40];
    for (int64_t c = 0; c < e->z->d_v; c++) {
        bool first = true;
        snprintf(lead, sizeof lead, "output[%lld] = ", (long long)c);
        flow f = begin(lead);
        for (int64_t j = 0; j < e->z->Lk; j++)
            if (!r->hidden[j]) {
                put_product(&f, e, first, r->stage[STAGE_WEIGHTS][j], kv_at(e, &e->t->v, r, j, c));
                first = false;
            }
        put_result(&f, e, first, r->output[c]);
    }
}

/* The values of key j times `factor`: "(0, 7.31)". */
static void put_values(flow *f, const explanation *e, const row_numbers *r, int64_t j, double factor)
{
    char number[CELL_TEXT], text[CELL_TEXT + 8];
    if (e->z->d_v == 0)
        put(f, "(");
    for (int64_t c = 0; c < e->z->d_v; c++) {
        snprintf(text, sizeof text, "%s%s%s", c ? " " : "(", explain_number(number, e, 4, factor * kv_at(e, &e->t->v, r, j, c)),
                 c + 1 < e->z->d_v ? "," : "");
        put(f, text);
    }
    put(f, ")");
}

void explain_contribution(const explanation *e, const row_numbers *r, int64_t j)
{
    char number[CELL_TEXT], lead[128];
    const double weight = r->stage[STAGE_WEIGHTS][j];
    snprintf(lead, sizeof lead, "%s: %s x ", explain_say(e->lang, W_KEY_ADDS), explain_number(number, e, 4, weight));
    flow f = begin(lead);
    put_values(&f, e, r, j, 1);
    put(&f, " = ");
    put_values(&f, e, r, j, weight);
    putchar('\n');
}
