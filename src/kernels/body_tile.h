/* SPDX-License-Identifier: Apache-2.0 */
/* The register tile of attention. Scores and the mix of values are both this product:
       C[r][lane] = sum over t of A[r][t] * B[t][lane]      (C[r][lane] += ... if it adds)
   A is read as scalars, B and C as vectors. The terms are added in chains of multiply-adds, the chains in order, so a row's bits depend on
   nothing else; the shorter a chain, the smaller its rounding errors. */

typedef struct product {
    real *c;           /* [rows][vecs*VL] */
    int64_t c_row;     /* elements between rows of C */
    int adds;          /* the sum is added to what C holds, else C is overwritten */
    int64_t chain;     /* terms of a chain, whole lines of A if it is asked for */
    const real *a; /* A[r][t] = a[r*a_row + t*a_term] */
    int64_t a_row, a_term;
    const real *b; /* B[t] = b + t*b_term */
    int64_t b_term;
    int64_t terms;
    const char *next; /* the factor to ask for, as it will lie in memory: A[r][t] or B[t] at the byte next + r*next_row + t*next_term */
    int64_t next_row, next_term;
} product;

enum { MAX_ROWS = 12, MAX_VECS = 4, LINE = 64 / (int)sizeof(real), COLUMN_CHAIN = 32 };

/* Few rows wait for memory, and a tile has more streams than the CPU's own prefetch follows. Which factor a tile asks memory for, spread
   over its terms so that memory and arithmetic overlap: */
typedef enum asking { ASK_NOTHING, ASK_A, ASK_B } asking; /* ASK_A: a_term is 1; a line of every row, now and then */

/* Terms [first, end) added to acc. */
INLINE void tile_terms(const product *m, vf *acc, const int rows, const int vecs, const asking asks, int64_t first, int64_t end)
{
    const real *a = m->a, *b = m->b;
    const int64_t a_row = m->a_row, a_term = m->a_term, b_term = m->b_term;
    for (int64_t t = first; t < end; t++) {
        if (asks == ASK_B) {
            v_prefetch(m->next + t * m->next_term);
            v_prefetch(m->next + t * m->next_term + vecs * VL * (int)sizeof(real) - 1);
        }
        UNROLL for (int i = 0; i < rows * vecs; i++)
            acc[i] = v_fma(v_set1(a[i / vecs * a_row + t * a_term]), v_load(b + t * b_term + i % vecs * VL), acc[i]);
    }
}

/* One tile. rows, vecs and asks are constants after inlining: acc[] is rows*vecs registers, acc[i] = row i/vecs, vector i%vecs.
   One flat loop over acc is the form that both gcc and clang keep in registers. */
INLINE void tile(const product *m, const int rows, const int vecs, const asking asks)
{
    int adds = m->adds;
    int64_t first = 0;
    do {
        const int64_t end = first + m->chain < m->terms ? first + m->chain : m->terms;
        vf acc[MAX_ROWS * MAX_VECS];
        UNROLL for (int i = 0; i < rows * vecs; i++)
            acc[i] = v_zero();
        if (asks == ASK_A)
            for (int64_t line = first; line < end; line += LINE) {
                UNROLL for (int r = 0; r < rows; r++)
                    v_prefetch(m->next + r * m->next_row + line * m->next_term);
                tile_terms(m, acc, rows, vecs, asks, line, line + LINE < end ? line + LINE : end);
            }
        else
            tile_terms(m, acc, rows, vecs, asks, first, end);
        if (adds)
            UNROLL for (int i = 0; i < rows * vecs; i++)
                acc[i] = v_add(v_load(m->c + i / vecs * m->c_row + i % vecs * VL), acc[i]);
        UNROLL for (int i = 0; i < rows * vecs; i++)
            v_store(m->c + i / vecs * m->c_row + i % vecs * VL, acc[i]);
        adds = 1;
        first += m->chain;
    } while (first < m->terms); /* without a term the sum is 0 */
}

/* The tile of a height known only at run time: one case for each, so that every remainder has a tile of its own. */
INLINE void tile_of_height(const product *m, int rows, const int vecs, const int highest, const asking asks)
{
#define HEIGHT(n) case n: if (n <= highest) tile(m, n, vecs, asks); break;
    switch (rows) {
        HEIGHT(1) HEIGHT(2) HEIGHT(3) HEIGHT(4) HEIGHT(5) HEIGHT(6)
        HEIGHT(7) HEIGHT(8) HEIGHT(9) HEIGHT(10) HEIGHT(11) HEIGHT(12)
    }
#undef HEIGHT
}

/* All rows, in tiles of nearly equal height: 10 rows are 5 + 5, not 6 + 4. */
INLINE void multiply_rows(product m, int64_t rows, const int vecs, const int regs, const asking asks)
{
    const int highest = regs / vecs < MAX_ROWS ? regs / vecs : MAX_ROWS;
    for (int64_t tiles = (rows + highest - 1) / highest; tiles > 0; tiles--) {
        int height = (int)((rows + tiles - 1) / tiles);
        tile_of_height(&m, height, vecs, highest, asks);
        m.c += height * m.c_row;
        m.a += height * m.a_row;
        m.next += asks == ASK_A ? height * m.next_row : 0;
        rows -= height;
    }
}
