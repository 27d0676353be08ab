/* SPDX-License-Identifier: Apache-2.0 */
/* Linear layer over packed weights. W [terms][columns] is packed once into panels of PANEL columns, [panel][term][column], the last one
   padded with zeros. Weights of 16 bits stay so and are widened, exactly, where they are used: the bits are those of weights widened
   before. The terms of every output are added in chains of CHAIN, and the chains in order to the bias, however many rows there are: a row
   alone has the same bits.

   The rows of A are packed too, once for all products of a part: tile after tile, a tile as [step][row][term] with steps of STEP terms, the
   last one with those that are left. So a tile reads A and W as they lie, from one address each, and a turn of its loop is little more
   than multiply-adds. That matters where a core is shared (two hardware threads): then it takes half of the operations of a core alone,
   3 in a cycle on Zen 3, and the multiply-adds are only 2 of them. docs/performance.md has the count. */

enum {
    PANEL = GEMM_VECS * VL,
    /* Against one chain: attn_mha has 0.4 of the error (10 rows of 512; chains of 256: 0.7), in the same time within 2 % on a core of its
       own, in up to a quarter more where 10 rows share the core with another thread (chains of 256: 2 to 7 %). */
    CHAIN = 64,
    HIGHEST = GEMM_REGS / GEMM_VECS, /* rows of the highest tile of one panel */
    STEP = 4,         /* terms of a turn of the loop: 8 gain nothing more */
    ASKING_TILES = 4, /* from so many tiles on, asking memory for the next panel pays: up to 8 % where the weights are not in L2 */
};
_Static_assert(ATTN_LINEAR_COLUMNS % PANEL == 0, "a part of the columns begins with a panel");
_Static_assert(CHAIN % STEP == 0, "only the last step of a row may be shorter");
_Static_assert(HIGHEST <= 6, "a case for every height");

/* The next tile of so many rows that are left. Tiles are of nearly equal height: 10 rows are 5 + 5, not 6 + 4. */
INLINE int tile_height(int64_t rows)
{
    const int64_t tiles = tiles_of(rows, HIGHEST);
    return (int)((rows + tiles - 1) / tiles);
}

static void linear_rows(void *packed, const void *rows_of_a, int64_t a_stride, int64_t rows, int64_t terms)
{
    const real *a = rows_of_a;
    real *to = packed;
    while (rows > 0) {
        const int height = tile_height(rows);
        int64_t t = 0;
        for (; t + STEP <= terms; t += STEP)
            for (int row = 0; row < height; row++, to += STEP)
                memcpy(to, a + row * a_stride + t, STEP * sizeof *to);
        for (int row = 0; row < height; row++)
            for (int64_t rest = t; rest < terms; rest++)
                *to++ = a[row * a_stride + rest];
        a += height * a_stride;
        rows -= height;
    }
}

typedef struct linear_piece {
    real *c;       /* [rows][panels*PANEL] */
    const real *a; /* rows as linear_rows packs them */
    const real *bias;
    const char *panel;
    int64_t c_stride, terms;
    int64_t columns;    /* in c: of the last panel those that there are */
    const char *next;   /* what memory is asked for: the panel that follows, */
    int64_t next_lines; /* so many lines with every chain of every tile */
} linear_piece;

/* One term of a tile, its rows a_row apart: sum[i] is row i / vecs, vector i % vecs. */
INLINE void add_term(vf *sum, const real *a, int64_t a_row, const char *b, int64_t panel_bytes, const int rows, const int panels,
                     const number_kind kind)
{
    const int vecs = panels * GEMM_VECS;
    const int64_t vec_bytes = VL * kind_bytes(kind);
    vf w[GEMM_REGS];
    UNROLL for (int i = 0; i < vecs; i++)
        w[i] = v_load_kind(b + i / GEMM_VECS * panel_bytes + i % GEMM_VECS * vec_bytes, kind);
    UNROLL for (int i = 0; i < rows * vecs; i++)
        v_add_product(&sum[i], v_set1(a[i / vecs * a_row]), w[i % vecs]);
}

/* One tile: rows, panels and kind are constants after inlining, and sum[] is in registers as acc[] of body_tile.h is. */
INLINE void linear_tile(const linear_piece *m, const int rows, const int panels, const number_kind kind)
{
    const int vecs = panels * GEMM_VECS, regs = rows * vecs;
    const real *a = m->a, *bias = m->bias;
    const char *b = m->panel, *next = m->next;
    const int64_t term_bytes = PANEL * kind_bytes(kind), panel_bytes = m->terms * term_bytes;
    vf sum[GEMM_REGS], total[GEMM_REGS];
    UNROLL for (int i = 0; i < regs; i++)
        total[i] = bias ? v_load(bias + i % vecs * VL) : v_zero();
    for (int64_t left = m->terms; left > 0; left -= CHAIN) {
        const int64_t terms = least(left, CHAIN), rest = terms % STEP;
        for (const char *const last = next + m->next_lines * LINE_BYTES; next < last; next += LINE_BYTES)
            v_prefetch(next);
        UNROLL for (int i = 0; i < regs; i++)
            sum[i] = v_zero();
        for (const char *const end = b + (terms - rest) * term_bytes; b < end; b += STEP * term_bytes, a += STEP * rows)
            GEMM_UNROLL for (int t = 0; t < STEP; t++)
                add_term(sum, a + t, STEP, b + t * term_bytes, panel_bytes, rows, panels, kind);
        for (int64_t t = 0; t < rest; t++, b += term_bytes)
            add_term(sum, a + t, rest, b, panel_bytes, rows, panels, kind);
        UNROLL for (int i = 0; i < regs; i++)
            total[i] = v_add(total[i], sum[i]);
    }
    UNROLL for (int i = 0; i < regs; i++)
        v_store(m->c + i / vecs * m->c_stride + i % vecs * VL, total[i]);
}

/* How many panels a tile of few rows spans. One row of one panel has so few sums that it waits for each multiply-add: two thirds of the
   rate at which the weights can be read. */
INLINE int panels_beside(int64_t rows) { return rows * 4 <= HIGHEST ? 4 : rows * 2 <= HIGHEST ? 2 : 1; }

/* The first columns of rows of a whole panel. */
INLINE void store_columns(real *c, int64_t c_stride, const real *from, int rows, int64_t columns)
{
    for (int row = 0; row < rows; row++)
        for (int64_t i = 0; i < columns; i += VL)
            v_store_first(c + row * c_stride + i, v_load(from + row * PANEL + i), (int)least(columns - i, VL));
}

/* All rows over the panels of one tile. A panel that is not full goes through a buffer. */
INLINE void linear_panels_of(linear_piece m, int64_t rows, int panels, const number_kind kind)
{
#define HEIGHT(n)                                                                                                                          \
    case n:                                                                                                                                \
        if (panels_beside(n) > 1 && panels > 1)                                                                                            \
            linear_tile(&m, n, panels_beside(n), kind);                                                                                    \
        else if (n <= HIGHEST)                                                                                                             \
            linear_tile(&m, n, 1, kind);                                                                                                   \
        break;
    const int64_t tiles = tiles_of(rows, HIGHEST), chains = (m.terms + CHAIN - 1) / CHAIN, asks = greatest(tiles * chains, 1);
    const int64_t lines = (m.terms * PANEL * kind_bytes(kind) + LINE_BYTES - 1) / LINE_BYTES, stride = m.c_stride;
    const int is_full = m.columns >= PANEL;
    real buffer[HIGHEST * PANEL], *c = m.c;
    m.next = m.panel + lines * LINE_BYTES;
    m.next_lines = tiles >= ASKING_TILES ? (lines + asks - 1) / asks : 0;
    m.c_stride = is_full ? stride : PANEL;
    for (int height; rows > 0; rows -= height) {
        height = tile_height(rows);
        m.c = is_full ? c : buffer;
        switch (height) { HEIGHT(1) HEIGHT(2) HEIGHT(3) HEIGHT(4) HEIGHT(5) HEIGHT(6) }
        if (!is_full)
            store_columns(c, stride, buffer, height, m.columns);
        c += height * stride;
        m.a += height * m.terms;
        m.next += chains * m.next_lines * LINE_BYTES;
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

/* The last panel when it is not full: its bias is padded as the panel is. */
KERNEL void linear_edge(const linear_piece *m, int64_t rows, number_kind kind)
{
    linear_piece edge = *m;
    real bias[PANEL] = { 0 };
    for (int64_t i = 0; m->bias && i < m->columns; i++)
        bias[i] = m->bias[i];
    edge.bias = bias;
    linear_panels(&edge, rows, 1, kind);
}

static void linear(const attn_linear_job *job)
{
    const number_kind kind = kind_of(job->dtype);
    const real *bias = job->bias;
    int panels = panels_beside(job->rows);
    for (int64_t column = 0; column < job->columns; column += panels * PANEL) {
        const linear_piece m = { .c = (real *)job->c + column, .c_stride = job->c_stride, .a = job->a,
                                 .panel = (const char *)job->packed + column * job->terms * kind_bytes(kind), .terms = job->terms,
                                 .columns = job->columns - column, .bias = bias ? bias + column : NULL };
        if (m.columns < panels * PANEL)
            panels = 1;
        if (m.columns < PANEL)
            linear_edge(&m, job->rows, kind);
        else
            linear_panels(&m, job->rows, panels, kind);
    }
}
