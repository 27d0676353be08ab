/* SPDX-License-Identifier: Apache-2.0 */
#include "table.h"
#include "message.h"
#include "text.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { MOST_COLS = 16, MOST_SHOWN = 2 * MOST_COLS, MOST_WHOLE = 1 << 16, VECTOR_COLS = 8 };

number_style number_style_of(double largest, int round)
{
    if (round >= 0)
        return (number_style){.decimals = round, .exponent = largest >= 1e15};
    return (number_style){.decimals = 4, .exponent = largest >= 1e7 || (largest > 0 && largest < 1e-3)};
}

const char *number_text(char out[CELL_TEXT], number_style style, double value)
{
    if (isnan(value) || isinf(value)) {
        snprintf(out, CELL_TEXT, "%s", isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
        return out;
    }
    if (style.exponent) {
        snprintf(out, CELL_TEXT, "%.*e", style.decimals, value);
        return out;
    }
    snprintf(out, CELL_TEXT, "%.*f", style.decimals, value);
    char *end = out + strlen(out);
    if (style.decimals > 0 && !style.zeros) {
        while (end[-1] == '0')
            *--end = 0;
        if (end[-1] == '.')
            *--end = 0;
    }
    if (out[0] == '-' && strspn(out + 1, "0.") == strlen(out + 1)) /* no -0 */
        memmove(out, out + 1, strlen(out));
    return out;
}

int shown_places(int64_t n, int most, int64_t *shown)
{
    int count = 0;
    if (n <= most) {
        for (int64_t i = 0; i < n; i++)
            shown[count++] = i;
        return count;
    }
    const int first = most - most / 2, last = most / 2;
    for (int i = 0; i < first; i++)
        shown[count++] = i;
    shown[count++] = -1;
    for (int64_t i = n - last; i < n; i++)
        shown[count++] = i;
    return count;
}

int terminal_columns(FILE *f)
{
    struct winsize w;
    const char *set = getenv("COLUMNS");
    int columns = set ? atoi(set) : 0;
    if (isatty(fileno(f)) && ioctl(fileno(f), TIOCGWINSZ, &w) == 0 && w.ws_col > 0)
        columns = w.ws_col;
    return columns >= 40 ? columns : 80;
}

bool terminal_colours(FILE *f)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
    return isatty(fileno(f)) && !(no && *no) && term && strcmp(term, "dumb") != 0;
}

void print_heading(FILE *f, const char *format, ...)
{
    const bool bold = terminal_colours(f);
    va_list args;
    va_start(args, format);
    fputs(bold ? "\033[1m" : "", f);
    text_print(f, format, args);
    fputs(bold ? "\033[0m\n" : "\n", f);
    va_end(args);
}

/* The cells that are shown, as text, with the widths before and from the decimal point. */
typedef struct layout {
    int rows, cols;
    int64_t *row, col[MOST_SHOWN + 1];
    char (*text)[CELL_TEXT];
    int before[MOST_SHOWN + 1], after[MOST_SHOWN + 1];
    int names; /* columns of the row names */
    int width;
} layout;

static int point_of(const char *text)
{
    const char *p = strchr(text, '.');
    return p ? (int)(p - text) : (int)strlen(text);
}

static bool is_gap(const layout *l, int i, int j) { return l->row[i] < 0 || l->col[j] < 0; }

static double largest_shown(const matrix *m, const layout *l)
{
    double largest = 0;
    for (int i = 0; i < l->rows; i++)
        for (int j = 0; j < l->cols; j++) {
            if (is_gap(l, i, j))
                continue;
            const double v = fabs(m->value(m->data, l->row[i], l->col[j]));
            if (isfinite(v) && v > largest)
                largest = v;
        }
    return largest;
}

static void fill_cells(const matrix *m, layout *l)
{
    const number_style style = number_style_of(largest_shown(m, l), m->round);
    for (int i = 0; i < l->rows; i++)
        for (int j = 0; j < l->cols; j++) {
            char *cell = l->text[i * l->cols + j];
            if (is_gap(l, i, j))
                strcpy(cell, "...");
            else if (!m->word || !m->word(m->data, l->row[i], l->col[j], cell))
                number_text(cell, style, m->value(m->data, l->row[i], l->col[j]));
        }
}

static void measure(const matrix *m, layout *l)
{
    l->names = 0;
    for (int i = 0; m->row_names && i < l->rows; i++) {
        const int columns = l->row[i] < 0 ? 3 : text_columns(m->row_names[l->row[i]]);
        l->names = columns > l->names ? columns : l->names;
    }
    l->width = l->names ? l->names + 2 : 0;
    for (int j = 0; j < l->cols; j++) {
        l->before[j] = l->after[j] = 0;
        for (int i = 0; i < l->rows && l->col[j] >= 0; i++) {
            const char *cell = l->text[i * l->cols + j];
            const int before = point_of(cell), after = (int)strlen(cell) - before;
            if (is_gap(l, i, j))
                continue;
            l->before[j] = before > l->before[j] ? before : l->before[j];
            l->after[j] = after > l->after[j] ? after : l->after[j];
        }
        const int name = m->col_names && l->col[j] >= 0 ? text_columns(m->col_names[l->col[j]]) : 0;
        const int least = l->col[j] < 0 || l->row[l->rows / 2] < 0 ? 3 : 1; /* "..."; a gap in the rows is in their middle */
        const int wanted = name > least ? name : least;
        if (wanted > l->before[j] + l->after[j])
            l->before[j] = wanted - l->after[j];
        l->width += l->before[j] + l->after[j] + (j ? 2 : 0);
    }
}

/* Text right-aligned in `columns` columns. */
static void print_right(FILE *f, const char *text, int columns)
{
    const int pad = columns - text_columns(text);
    fprintf(f, "%*s%s", pad > 0 ? pad : 0, "", text);
}

static void print_row(FILE *f, const layout *l, int i)
{
    for (int j = 0; j < l->cols; j++) {
        const char *cell = l->text[i * l->cols + j];
        const int before = point_of(cell), after = (int)strlen(cell) - before;
        if (!*cell && j + 1 == l->cols)
            break;
        fputs(j ? "  " : "", f);
        if (is_gap(l, i, j)) {
            print_right(f, cell, l->before[j] + l->after[j]);
            continue;
        }
        fprintf(f, "%*s%s", l->before[j] - before, "", cell);
        if (j + 1 < l->cols)
            fprintf(f, "%*s", l->after[j] - after, "");
    }
    fputc('\n', f);
}

static void print_layout(FILE *f, const matrix *m, const layout *l, int indent)
{
    if (m->col_names && l->rows) {
        fprintf(f, "%*s", indent + (l->names ? l->names + 2 : 0), "");
        for (int j = 0; j < l->cols; j++) {
            fputs(j ? "  " : "", f);
            print_right(f, l->col[j] < 0 ? "..." : m->col_names[l->col[j]], l->before[j] + l->after[j]);
        }
        fputc('\n', f);
    }
    for (int i = 0; i < l->rows; i++) {
        fprintf(f, "%*s", indent, "");
        if (l->names) {
            const char *name = l->row[i] < 0 ? "..." : m->row_names[l->row[i]];
            fprintf(f, "%s%*s", name, l->names - text_columns(name) + 2, "");
        }
        print_row(f, l, i);
    }
}

void table_print(FILE *f, const matrix *m, int indent)
{
    layout l = {0};
    const int room = terminal_columns(f) - indent;
    const bool whole = m->whole && m->rows <= MOST_WHOLE && m->cols <= MOST_COLS;
    const bool all_rows = m->rows <= TABLE_ROWS && m->rows * (m->cols < TABLE_CELLS ? m->cols : TABLE_CELLS) <= TABLE_CELLS;
    const int rows = whole ? (int)m->rows : all_rows ? TABLE_ROWS : 2 * TABLE_EDGE;
    l.row = need_memory((size_t)(rows + 1) * sizeof *l.row);
    l.rows = shown_places(m->rows, rows, l.row);
    l.text = need_memory((size_t)l.rows * (MOST_COLS + 1) * CELL_TEXT);
    for (int most = MOST_COLS; most >= 2; most--) {
        l.cols = shown_places(m->cols, most, l.col);
        fill_cells(m, &l);
        measure(m, &l);
        if (l.width <= room || whole)
            break;
    }
    if (m->rows == 0 || m->cols == 0)
        fprintf(f, "%*s(no element)\n", indent, "");
    else
        print_layout(f, m, &l, indent);
    free(l.text);
    free(l.row);
}

/* A vector in lines of VECTOR_COLS numbers. */
static double vector_cell(const void *data, int64_t i, int64_t j)
{
    const attn_tensor *t = data;
    const int64_t at = i * VECTOR_COLS + j;
    return at < t->shape[0] ? tensor_value(t, &at) : 0;
}

static bool vector_word(const void *data, int64_t i, int64_t j, char out[CELL_TEXT])
{
    out[0] = 0;
    return i * VECTOR_COLS + j >= ((const attn_tensor *)data)->shape[0];
}

void table_vector(FILE *f, const attn_tensor *t, int round, int indent)
{
    const int64_t count = t->shape[0], rows = (count + VECTOR_COLS - 1) / VECTOR_COLS;
    char(*texts)[CELL_TEXT] = need_zeroed((size_t)rows, sizeof *texts);
    const char **names = need_zeroed((size_t)rows, sizeof *names);
    for (int64_t i = 0; i < rows; i++) {
        snprintf(texts[i], CELL_TEXT, "[%lld]", (long long)(i * VECTOR_COLS));
        names[i] = texts[i];
    }
    table_print(f,
                &(matrix){.rows = rows,
                          .cols = count < VECTOR_COLS ? count : VECTOR_COLS,
                          .value = vector_cell,
                          .word = vector_word,
                          .data = t,
                          .row_names = rows > 1 ? names : NULL,
                          .round = round,
                          .whole = true},
                indent);
    free(names);
    free(texts);
}

static double tensor_cell(const void *data, int64_t i, int64_t j) { return tensor_value(data, (const int64_t[]){i, j}); }

/* Integers in full, and bool as words. */
static bool tensor_word(const void *data, int64_t i, int64_t j, char out[CELL_TEXT])
{
    const attn_tensor *t = data;
    const int64_t index[] = {i, j};
    if (dtype_is_float(t->dtype))
        return false;
    if (t->dtype == ATTN_BOOL)
        strcpy(out, tensor_integer(t, index) ? "true" : "false");
    else if (t->dtype == ATTN_U64)
        snprintf(out, CELL_TEXT, "%llu", (unsigned long long)tensor_integer(t, index));
    else
        snprintf(out, CELL_TEXT, "%lld", (long long)tensor_integer(t, index));
    return true;
}

static void print_place(FILE *f, const attn_tensor *t, int64_t block, int indent)
{
    int64_t place[ATTN_MAX_DIMS];
    for (int32_t axis = t->ndim - 3; axis >= 0; axis--) {
        place[axis] = block % t->shape[axis];
        block /= t->shape[axis];
    }
    fprintf(f, "%*s[", indent, "");
    for (int32_t axis = 0; axis < t->ndim - 2; axis++)
        fprintf(f, "%lld,", (long long)place[axis]);
    fputs(":,:]\n", f);
}

void table_tensor(FILE *f, const attn_tensor *t, const char *const *row_names, int round, int indent)
{
    enum { BLOCKS = 4 };
    int64_t blocks = 1, shown[BLOCKS + 1];
    for (int32_t axis = 0; axis < t->ndim - 2; axis++)
        blocks *= t->shape[axis];
    const bool large = tensor_count(t) > BLOCKS * TABLE_CELLS;
    const int count = shown_places(tensor_count(t) == 0 ? 1 : blocks, large ? 2 : BLOCKS, shown);
    for (int b = 0; b < count; b++) {
        if (shown[b] < 0) {
            fprintf(f, "%*s...\n", indent, "");
            continue;
        }
        if (blocks > 1)
            print_place(f, t, shown[b], indent);
        const attn_tensor block = tensor_matrix(t, shown[b]);
        const bool empty = tensor_count(t) == 0;
        table_print(f,
                    &(matrix){.rows = empty ? 0 : block.shape[0],
                              .cols = empty ? 0 : block.shape[1],
                              .value = tensor_cell,
                              .word = tensor_word,
                              .data = &block,
                              .row_names = row_names,
                              .round = round},
                    indent);
    }
}
