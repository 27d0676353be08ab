/* SPDX-License-Identifier: Apache-2.0 */
/* The one register tile of the library. Scores, the mix of values and the linear layer are all this product:
       C[r][lane] = start[r][lane] + sum over t of A[r][t] * B[t][lane]
   A is read as scalars, B and C as vectors. The sum runs over t in order, so a row's bits depend on nothing else. */

typedef struct product {
    real *c;           /* [rows][vecs*VL] */
    int64_t c_row;     /* elements between rows of C */
    const real *start; /* where the sums begin: C itself, or one row for all (start_row = 0) such as zero_row */
    int64_t start_row;
    const real *a; /* A[r][t] = a[r*a_row + t*a_term] */
    int64_t a_row, a_term;
    const real *b; /* B[t] = b + t*b_term */
    int64_t b_term;
    int64_t terms;
} product;

enum { MAX_ROWS = 12, MAX_VECS = 4 };
static const real zero_row[MAX_VECS * VL] = { 0 };

/* One tile. rows and vecs are constants after inlining: acc[] is rows*vecs registers, acc[i] = row i/vecs, vector i%vecs.
   One flat loop over acc is the form that both gcc and clang keep in registers. */
INLINE void tile(const product *m, const int rows, const int vecs)
{
    vf acc[MAX_ROWS * MAX_VECS];
    UNROLL for (int i = 0; i < rows * vecs; i++)
        acc[i] = v_load(m->start + i / vecs * m->start_row + i % vecs * VL);

    const real *a = m->a, *b = m->b;
    const int64_t a_row = m->a_row, a_term = m->a_term, b_term = m->b_term;
    for (int64_t t = 0; t < m->terms; t++)
        UNROLL for (int i = 0; i < rows * vecs; i++)
            acc[i] = v_fma(v_set1(a[i / vecs * a_row + t * a_term]), v_load(b + t * b_term + i % vecs * VL), acc[i]);

    UNROLL for (int i = 0; i < rows * vecs; i++)
        v_store(m->c + i / vecs * m->c_row + i % vecs * VL, acc[i]);
}

/* The tile of a height known only at run time: one case for each, so that every remainder has a tile of its own. */
INLINE void tile_of_height(const product *m, int rows, const int vecs, const int highest)
{
#define HEIGHT(n) case n: if (n <= highest) tile(m, n, vecs); break;
    switch (rows) {
        HEIGHT(1) HEIGHT(2) HEIGHT(3) HEIGHT(4) HEIGHT(5) HEIGHT(6)
        HEIGHT(7) HEIGHT(8) HEIGHT(9) HEIGHT(10) HEIGHT(11) HEIGHT(12)
    }
#undef HEIGHT
}

/* All rows, in tiles of nearly equal height: 10 rows are 5 + 5, not 6 + 4. */
INLINE void multiply_rows(product m, int64_t rows, const int vecs, const int regs)
{
    const int highest = regs / vecs < MAX_ROWS ? regs / vecs : MAX_ROWS;
    for (int64_t tiles = (rows + highest - 1) / highest; tiles > 0; tiles--) {
        int height = (int)((rows + tiles - 1) / tiles);
        tile_of_height(&m, height, vecs, highest);
        m.c += height * m.c_row;
        m.start += height * m.start_row;
        m.a += height * m.a_row;
        rows -= height;
    }
}
