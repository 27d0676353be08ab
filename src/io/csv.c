/* SPDX-License-Identifier: Apache-2.0 */
/* .csv and .txt: a table of numbers. The text is gone through twice: once to check and count, once to fill an array of exactly that size,
   so that a malformed file allocates nothing. */
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "file.h"

enum { CELL_SIZE = 1024 };

struct table {
    const char *at, *end;
    char separator; /* ' ': any number of blanks and tabs */
    int64_t line, first_line;
    int64_t rows, columns;
    double *numbers; /* NULL in the first pass */
    size_t filled;
    const struct report *report;
};

/* ---- a cell ---- */

static size_t digits(const char *text)
{
    size_t n = 0;
    while (text[n] >= '0' && text[n] <= '9')
        n++;
    return n;
}

/* What a number may look like: [+-] (digits [. digits] [e [+-] digits] | inf | infinity | nan). strtod alone takes more. */
static bool is_number(const char *text)
{
    text += *text == '+' || *text == '-';
    if (strcasecmp(text, "inf") == 0 || strcasecmp(text, "infinity") == 0 || strcasecmp(text, "nan") == 0)
        return true;
    const size_t whole = digits(text);
    text += whole;
    size_t fraction = 0;
    if (*text == '.') {
        fraction = digits(text + 1);
        text += 1 + fraction;
    }
    if (whole + fraction == 0)
        return false;
    if (*text == 'e' || *text == 'E') {
        text += 1 + (text[1] == '+' || text[1] == '-');
        const size_t exponent = digits(text);
        text += exponent;
        if (exponent == 0)
            return false;
    }
    return *text == '\0';
}

static attn_status take_cell(struct table *t, const char *start, const char *end, int64_t column)
{
    char text[CELL_SIZE];
    const size_t n = (size_t)(end - start);
    if (n == 0)
        return attn_io_fail(t->report, ATTN_E_FORMAT, "line %" PRId64 ", column %" PRId64 ": an empty cell", t->line, column);
    if (n >= sizeof text)
        return attn_io_fail(t->report, ATTN_E_FORMAT,
                            "line %" PRId64 ", column %" PRId64 ": a cell of %zu characters; at most %zu are read", t->line, column, n,
                            sizeof text - 1);
    memcpy(text, start, n);
    text[n] = '\0';
    if (!is_number(text) || strlen(text) != n)
        return attn_io_fail(t->report, ATTN_E_FORMAT,
                            "line %" PRId64 ", column %" PRId64 ": '%.40s' is no number (the decimal point is '.'; '#' begins a comment)",
                            t->line, column, text);
    const double number = strtod(text, NULL);
    if (isinf(number) && strpbrk(text, "nN") == NULL)
        return attn_io_fail(t->report, ATTN_E_FORMAT, "line %" PRId64 ", column %" PRId64 ": '%.40s' is beyond the range of f64", t->line,
                            column, text);
    if (t->numbers != NULL)
        t->numbers[t->filled] = number;
    t->filled++;
    return ATTN_OK;
}

/* ---- a row ---- */

static bool is_blank(const struct table *t, char c) { return c == ' ' || (c == '\t' && t->separator != '\t'); }

/* The separator of the file, by its first row. */
static char separator_of(const char *row, const char *end)
{
    const size_t n = (size_t)(end - row);
    return memchr(row, ';', n) ? ';' : memchr(row, ',', n) ? ',' : memchr(row, '\t', n) ? '\t' : ' ';
}

/* at <= end: the cells between them, which are not all blank. */
static attn_status take_row(struct table *t, const char *at, const char *end)
{
    int64_t column = 0;
    for (bool more = true; more;) {
        while (at < end && is_blank(t, *at))
            at++;
        const char *start = at;
        while (at < end && *at != t->separator && !(t->separator == ' ' && is_blank(t, *at)))
            at++;
        const char *cell_end = at;
        while (cell_end > start && is_blank(t, cell_end[-1]))
            cell_end--;
        const attn_status s = take_cell(t, start, cell_end, ++column);
        if (s != ATTN_OK)
            return s;
        while (t->separator == ' ' && at < end && is_blank(t, *at))
            at++;
        more = at < end;
        at += more && t->separator != ' ';
    }
    if (t->rows++ == 0) {
        t->columns = column;
        t->first_line = t->line;
    }
    if (column != t->columns)
        return attn_io_fail(t->report, ATTN_E_FORMAT,
                            "line %" PRId64 " has %" PRId64 " cell%s, line %" PRId64 " has %" PRId64
                            "; the rows of a table are equally long",
                            t->line, column, column == 1 ? "" : "s", t->first_line, t->columns);
    return ATTN_OK;
}

static attn_status take_line(struct table *t, const char *start, const char *end)
{
    const char *comment = memchr(start, '#', (size_t)(end - start));
    end = comment ? comment : end;
    while (end > start && end[-1] == '\r')
        end--;
    const char *first = start;
    while (first < end && (*first == ' ' || *first == '\t'))
        first++;
    if (first == end)
        return ATTN_OK;
    if (t->rows == 0)
        t->separator = separator_of(start, end);
    while (end > start && is_blank(t, end[-1]))
        end--;
    return take_row(t, start, end);
}

static attn_status take_table(struct table *t)
{
    if (t->end - t->at >= 3 && memcmp(t->at, "\xef\xbb\xbf", 3) == 0)
        t->at += 3;
    while (t->at < t->end) {
        const char *newline = memchr(t->at, '\n', (size_t)(t->end - t->at));
        const char *end = newline ? newline : t->end;
        t->line++;
        const attn_status s = take_line(t, t->at, end);
        if (s != ATTN_OK)
            return s;
        t->at = newline ? newline + 1 : t->end;
    }
    return t->rows > 0 ? ATTN_OK : attn_io_fail(t->report, ATTN_E_FORMAT, "the file holds no number");
}

static attn_status read_table(struct attn_file *f, const struct report *r)
{
    const char *text = (const char *)f->bytes.data;
    const struct table start = {.at = text, .end = text + f->bytes.size, .report = r};
    if (f->bytes.size == 0)
        return attn_io_fail(r, ATTN_E_FORMAT, "the file is empty");
    struct table t = start;
    attn_status s = take_table(&t);
    if (s == ATTN_OK)
        s = attn_io_allocate(f, 1, 1, r);
    if (s != ATTN_OK)
        return s;
    struct array *a = &f->arrays[0];
    f->names[0] = '\0';
    a->name = f->names;
    a->dtype = ATTN_F64;
    a->dtype_name = attn_dtype_name(ATTN_F64);
    a->ndim = 2;
    a->shape[0] = t.rows;
    a->shape[1] = t.columns;
    a->bytes = t.filled * sizeof(double);
    a->owned = malloc((size_t)a->bytes);
    a->data = a->owned;
    if (a->owned == NULL)
        return attn_io_fail_nomem(r);
    t = start;
    t.numbers = a->owned;
    return take_table(&t);
}

attn_status attn_csv_parse(struct attn_file *f, const struct report *r)
{
    /* The caller's locale may write a decimal comma: this thread reads in the C locale meanwhile. */
    const locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (plain == (locale_t)0)
        return attn_io_fail_nomem(r);
    const locale_t before = uselocale(plain);
    const attn_status s = read_table(f, r);
    uselocale(before);
    freelocale(plain);
    return s;
}
