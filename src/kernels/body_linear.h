/* SPDX-License-Identifier: Apache-2.0 */
/* Linear layer over packed weights. W [terms][columns] is packed once into panels of PANEL columns, [panel][term][column], the last one
   padded with zeros. The terms of every output are added in order (bias first), however many rows there are: a row alone has the same
   bits. */

enum {
    PANEL = GEMM_VECS * VL,
    TERM_BLOCK = 2048, /* terms per pass: a panel's TERM_BLOCK rows (512 KiB at most) stay in L2 for all rows of A */
    EDGE_ROWS = 8,     /* rows at a time in the last panel when it is not full */
};

KERNEL void multiply_panel(product m, int64_t rows) { multiply_rows(m, rows, GEMM_VECS, GEMM_REGS, ASK_NOTHING); }

static int64_t linear_size(int64_t terms, int64_t columns)
{
    return (columns + PANEL - 1) / PANEL * PANEL * terms * (int64_t)sizeof(real);
}

static void linear_pack(void *packed, const void *w, int64_t row_stride, int64_t column_stride, int64_t terms, int64_t columns)
{
    real *dst = packed;
    for (int64_t panel = 0; panel < columns; panel += PANEL)
        for (int64_t t = 0; t < terms; t++)
            for (int64_t c = panel; c < panel + PANEL; c++)
                *dst++ = c < columns ? ((const real *)w)[t * row_stride + c * column_stride] : 0;
}

/* The last panel when it is not full: through a buffer, some rows at a time. */
KERNEL void linear_edge(const attn_linear_job *job, int64_t column)
{
    const real *a = job->a, *bias = job->bias, *packed = (const real *)job->packed + column * job->terms;
    real buffer[EDGE_ROWS * PANEL], start[PANEL] = { 0 }, *c = job->c;
    const int64_t width = job->columns - column;
    for (int64_t i = 0; bias && i < width; i++)
        start[i] = bias[column + i];
    for (int64_t row = 0; row < job->rows; row += EDGE_ROWS) {
        int64_t rows = least(job->rows - row, EDGE_ROWS);
        multiply_panel((product){ .c = buffer, .c_row = PANEL, .start = start, .a = a + row * job->a_stride,
                                  .a_row = job->a_stride, .a_term = 1, .b = packed, .b_term = PANEL, .terms = job->terms }, rows);
        for (int64_t r = 0; r < rows; r++)
            for (int64_t i = 0; i < width; i += VL)
                v_store_first(c + (row + r) * job->c_stride + column + i, v_load(buffer + r * PANEL + i), (int)least(width - i, VL));
    }
}

static void linear(const attn_linear_job *job)
{
    const real *a = job->a, *bias = job->bias, *packed = job->packed;
    const int64_t full = job->columns / PANEL * PANEL;
    for (int64_t t = 0; t < greatest(job->terms, 1); t += TERM_BLOCK)
        for (int64_t column = 0; column < full; column += PANEL) {
            real *c = (real *)job->c + column;
            multiply_panel((product){ .c = c, .c_row = job->c_stride,
                                      .start = !t && bias ? bias + column : zero_row, .adds = t > 0,
                                      .a = a + t, .a_row = job->a_stride, .a_term = 1,
                                      .b = packed + column * job->terms + t * PANEL, .b_term = PANEL,
                                      .terms = least(job->terms - t, TERM_BLOCK) }, job->rows);
        }
    if (full < job->columns)
        linear_edge(job, full);
}
