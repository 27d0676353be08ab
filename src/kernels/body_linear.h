/* SPDX-License-Identifier: Apache-2.0 */
/* Linear layer over packed weights. W [terms][columns] is packed once into panels of PANEL columns, [panel][term][column], the last one
   padded with zeros. Weights of 16 bits stay so and are widened, exactly, where they are used: the bits are those of weights widened
   before. The terms of every output are added in chains of CHAIN, and the chains in order to the bias, however many rows there are: a row
   alone has the same bits. */

enum {
    PANEL = GEMM_VECS * VL,
    /* Against one chain: attn_mha has 0.4 of the error (10 rows of 512; chains of 256: 0.7), in the same time within 2 % on a core of its
       own, in up to a quarter more where 10 rows share the core with another thread (chains of 256: 2 to 7 %). */
    CHAIN = 64,
    HIGHEST = GEMM_REGS / GEMM_VECS, /* rows of the highest tile of one panel */
    ASKING_TILES = 4, /* from so many tiles on, asking memory for the next panel pays: up to 8 % where the weights are not in L2 */
    EDGE_ROWS = 8, /* rows at a time in the last panel when it is not full */
};
_Static_assert(ATTN_LINEAR_COLUMNS % PANEL == 0, "a part of the columns begins with a panel");

typedef struct linear_piece {
    real *c; /* [rows][panels*PANEL] */
    const real *a, *bias;
    const char *panel;
    int64_t c_stride, a_stride, terms;
    const char *next;   /* what memory is asked for: the panel that follows, */
    int64_t next_lines; /* so many lines with every chain of every tile */
} linear_piece;

/* One tile: rows, panels and kind are constants after inlining, and sum[] is in registers as acc[] of body_tile.h is. */
INLINE void linear_tile(const linear_piece *m, const int rows, const int panels, const number_kind kind)
{
    const int vecs = panels * GEMM_VECS, regs = rows * vecs;
    const real *a = m->a, *bias = m->bias;
    const char *b = m->panel;
    real *const c = m->c;
    const int64_t vec_bytes = VL * kind_bytes(kind), term_bytes = GEMM_VECS * vec_bytes;
    const int64_t terms = m->terms, panel_bytes = terms * term_bytes, a_stride = m->a_stride, c_stride = m->c_stride;
    const char *next = m->next;
    vf sum[GEMM_REGS], total[GEMM_REGS];
    UNROLL for (int i = 0; i < regs; i++)
        total[i] = bias ? v_load(bias + i % vecs * VL) : v_zero();
    for (int64_t left = terms; left > 0; left -= CHAIN) {
        const char *const end = b + least(left, CHAIN) * term_bytes;
        for (const char *const last = next + m->next_lines * LINE_BYTES; next < last; next += LINE_BYTES)
            v_prefetch(next);
        UNROLL for (int i = 0; i < regs; i++)
            sum[i] = v_zero();
        for (; b < end; b += term_bytes, a++) {
            vf w[GEMM_REGS];
            UNROLL for (int i = 0; i < vecs; i++)
                w[i] = v_load_kind(b + i / GEMM_VECS * panel_bytes + i % GEMM_VECS * vec_bytes, kind);
            UNROLL for (int i = 0; i < regs; i++)
                sum[i] = v_fma(v_set1(a[i / vecs * a_stride]), w[i % vecs], sum[i]);
        }
        UNROLL for (int i = 0; i < regs; i++)
            total[i] = v_add(total[i], sum[i]);
    }
    UNROLL for (int i = 0; i < regs; i++)
        v_store(c + i / vecs * c_stride + i % vecs * VL, total[i]);
}

/* How many panels a tile of few rows spans. One row of one panel has so few sums that it waits for each multiply-add: two thirds of the
   rate at which the weights can be read. */
INLINE int panels_beside(int64_t rows) { return rows * 4 <= HIGHEST ? 4 : rows * 2 <= HIGHEST ? 2 : 1; }

/* All rows over the panels of one tile, in tiles of nearly equal height: 10 rows are 5 + 5, not 6 + 4. */
INLINE void linear_panels_of(linear_piece m, int64_t rows, int panels, const number_kind kind)
{
#define HEIGHT(n)                                                                                                                          \
    case n:                                                                                                                                \
        if (panels_beside(n) > 1 && panels > 1)                                                                                            \
            linear_tile(&m, n, panels_beside(n), kind);                                                                                    \
        else if (n <= HIGHEST)                                                                                                             \
            linear_tile(&m, n, 1, kind);                                                                                                   \
        break;
    int64_t tiles = (rows + HIGHEST - 1) / HIGHEST;
    const int64_t chains = (m.terms + CHAIN - 1) / CHAIN, asks = greatest(tiles * chains, 1);
    const int64_t lines = (m.terms * PANEL * kind_bytes(kind) + LINE_BYTES - 1) / LINE_BYTES;
    m.next = m.panel + lines * LINE_BYTES;
    m.next_lines = tiles >= ASKING_TILES ? (lines + asks - 1) / asks : 0;
    for (; tiles > 0; tiles--) {
        const int height = (int)((rows + tiles - 1) / tiles);
        switch (height) { HEIGHT(1) HEIGHT(2) HEIGHT(3) HEIGHT(4) HEIGHT(5) HEIGHT(6) }
        m.c += height * m.c_stride;
        m.a += height * m.a_stride;
        m.next += chains * m.next_lines * LINE_BYTES;
        rows -= height;
    }
#undef HEIGHT
}

KERNEL void linear_panels(const linear_piece *m, int64_t rows, int panels, number_kind kind)
{
    switch (kind) {
    case REALS: linear_panels_of(*m, rows, panels, REALS); break;
    case F16S: linear_panels_of(*m, rows, panels, F16S); break;
    case BF16S: linear_panels_of(*m, rows, panels, BF16S); break;
    }
}
_Static_assert(HIGHEST <= 6, "a case for every height");

static int64_t linear_size(attn_dtype dtype, int64_t terms, int64_t columns)
{
    return (columns + PANEL - 1) / PANEL * PANEL * terms * kind_bytes(kind_of(dtype));
}

#define PACK(type)                                                                                                                         \
    for (int64_t panel = 0; panel < columns; panel += PANEL)                                                                               \
        for (int64_t t = 0; t < terms; t++)                                                                                                \
            for (int64_t c = panel; c < panel + PANEL; c++)                                                                                \
                ((type *)packed)[panel * terms + t * PANEL + c - panel] =                                                                  \
                    c < columns ? ((const type *)w)[t * row_stride + c * column_stride] : 0;

static void linear_pack(void *packed, const void *w, attn_dtype dtype, int64_t row_stride, int64_t column_stride, int64_t terms,
                        int64_t columns)
{
    if (kind_of(dtype) == REALS)
        PACK(real)
    else
        PACK(uint16_t)
}
#undef PACK

/* The last panel when it is not full: through a buffer, some rows at a time. */
KERNEL void linear_edge(const attn_linear_job *job, linear_piece m, int64_t column)
{
    real buffer[EDGE_ROWS * PANEL], start[PANEL] = { 0 }, *const c = m.c;
    const int64_t width = job->columns - column;
    for (int64_t i = 0; m.bias && i < width; i++)
        start[i] = m.bias[i];
    m.bias = start;
    m.c = buffer;
    m.c_stride = PANEL;
    for (int64_t row = 0; row < job->rows; row += EDGE_ROWS) {
        const int64_t rows = least(job->rows - row, EDGE_ROWS);
        linear_panels(&m, rows, 1, kind_of(job->dtype));
        for (int64_t r = 0; r < rows; r++)
            for (int64_t i = 0; i < width; i += VL)
                v_store_first(c + (row + r) * job->c_stride + i, v_load(buffer + r * PANEL + i), (int)least(width - i, VL));
        m.a += rows * m.a_stride;
    }
}

static void linear(const attn_linear_job *job)
{
    const number_kind kind = kind_of(job->dtype);
    const real *bias = job->bias;
    int panels = panels_beside(job->rows);
    for (int64_t column = 0; column < job->columns; column += panels * PANEL) {
        const linear_piece m = { .c = (real *)job->c + column, .c_stride = job->c_stride,
                                 .a = job->a, .a_stride = job->a_stride,
                                 .panel = (const char *)job->packed + column * job->terms * kind_bytes(kind), .terms = job->terms,
                                 .bias = bias ? bias + column : NULL };
        if (column + panels * PANEL > job->columns)
            panels = 1;
        if (column + PANEL > job->columns)
            linear_edge(job, m, column);
        else
            linear_panels(&m, job->rows, panels, kind);
    }
}
