/* SPDX-License-Identifier: Apache-2.0 */
/* Matrices as text: numbers aligned at the decimal point, large ones shortened to their corners. */
#ifndef ATTN_CLI_TABLE_H
#define ATTN_CLI_TABLE_H

#include "tensor.h"

#include <stdint.h>
#include <stdio.h>

enum { CELL_TEXT = 48, TABLE_EDGE = 3, TABLE_ROWS = 12, TABLE_CELLS = 200 };

/* How numbers are shown: fixed with at most `decimals` decimals, or with an exponent. */
typedef struct number_style {
    int decimals;
    bool exponent;
    bool zeros; /* kept at the end: always `decimals` of them */
} number_style;

/* The style that suits the largest magnitude; round < 0: four decimals, or an exponent where these would say nothing. */
number_style number_style_of(double largest, int round);
/* "0.27", "-inf", "nan", never "-0"; returns out. */
const char *number_text(char out[CELL_TEXT], number_style style, double value);

/* A matrix that is asked for its cells. */
typedef struct matrix {
    int64_t rows, cols;
    double (*value)(const void *data, int64_t i, int64_t j);
    /* NULL, or the text of cells that are no plain number: true = out was filled in. */
    bool (*word)(const void *data, int64_t i, int64_t j, char out[CELL_TEXT]);
    const void *data;
    const char *const *row_names, *const *col_names; /* NULL, or one for each row / column */
    int round;                                       /* -1: not given */
    bool whole;                                      /* no row and no column is left out, up to 65536 rows of 16 */
} matrix;

/* Which of n places are shown when at most `most` fit: their numbers in shown[], -1 for the gap. Returns how many entries. */
int shown_places(int64_t n, int most, int64_t *shown);

/* Rows are shortened beyond TABLE_ROWS, or TABLE_CELLS cells, to TABLE_EDGE at each end; columns to what fits the terminal. */
void table_print(FILE *f, const matrix *m, int indent);

/* The matrices of a tensor, each headed by its place in the leading axes ("[0,3,:,:]"), few of many; row_names may be NULL. */
void table_tensor(FILE *f, const attn_tensor *t, const char *const *row_names, int round, int indent);

/* Every number of a vector, eight to a line. */
void table_vector(FILE *f, const attn_tensor *t, int round, int indent);

/* Columns of the terminal at f, else of COLUMNS, else 80. */
int terminal_columns(FILE *f);
/* True when f is a terminal that wants colours (NO_COLOR, TERM=dumb). */
bool terminal_colours(FILE *f);
/* Bold on a terminal, plain elsewhere. */
void print_heading(FILE *f, const char *format, ...) __attribute__((format(printf, 2, 3)));
#endif
