/* SPDX-License-Identifier: Apache-2.0 */
/* The register tile of attention. Scores and the mix of values are both this product:
       C[r][lane] = sum over t of A[r][t] * B[t][lane]      (C[r][lane] += ... if it adds)
   A is read as scalars, B and C as vectors. The terms are added in chains of multiply-adds, the chains in order, so a row's bits depend on
   nothing else; the shorter a chain, the smaller its rounding errors. */

enum { MAX_ROWS = 12, MAX_VECS = 4, COLUMN_CHAIN = 32, ASK_TERMS = 16, ASK_KEYS = 16 };
enum { LINE_BYTES = 64, LINE = LINE_BYTES / (int)sizeof(real) };

/* How numbers lie in memory. Those of 16 bits are widened, exactly, where they are used: the bits are those of reals. */
typedef enum number_kind { REALS, F16S, BF16S } number_kind;

INLINE number_kind kind_of(attn_dtype t) { return t == ATTN_F16 ? F16S : t == ATTN_BF16 ? BF16S : REALS; }
INLINE int64_t kind_bytes(number_kind kind) { return kind == REALS ? (int64_t)sizeof(real) : (int64_t)sizeof(uint16_t); }

/* VL numbers. */
INLINE vf v_load_kind(const char *p, const number_kind kind)
{
    const void *numbers = p;
    return kind == F16S ? v_load_f16(numbers) : kind == BF16S ? v_load_bf16(numbers) : v_load(numbers);
}

/* A term, added in the register that holds *sum: a real times a real; or, in a table of pairs, two bf16 side by side times two more, added
   by one dot product. */
#ifdef ATTN_PAIRS
enum { PAIR = 2 };
typedef uint16_t stored; /* what A is made of, PAIR of them for each term */
INLINE void add_product(vf *sum, const stored *a, const char *b, const number_kind kind)
{
    const void *pairs = b;
    (void)kind;
    *sum = v_dot(p_set1(a), p_load(pairs), *sum);
}
#else
enum { PAIR = 1 };
typedef real stored;
INLINE void add_product(vf *sum, const stored *a, const char *b, const number_kind kind)
{
    v_add_product(sum, v_set1(*a), v_load_kind(b, kind));
}
#endif
INLINE int64_t terms_of(int64_t n) { return (n + PAIR - 1) / PAIR; }
/* The same memory as the factor that is read as scalars. */
INLINE const stored *as_stored(const void *b) { return b; }

/* K and V of few rows, and masks, wait for memory, which has more streams of them than the CPU's own prefetch follows. What a product asks
   memory for while it computes: rows of lines that the next one needs, a few at a time. Line after line as they lie: a line of every row in
   turn takes up to twice as long to come. */
typedef struct request {
    const char *next;
    int64_t row, lines; /* bytes from row to row, lines of a row */
    int64_t rows;       /* that are left; 0: nothing is asked for */
    int64_t at_once;    /* rows with every ASK_TERMS terms, or ASK_KEYS keys */
} request;

INLINE void ask(request *r)
{
    for (int64_t n = r->at_once; n > 0 && r->rows > 0; n--, r->rows--, r->next += r->row)
        for (int64_t line = 0; line < r->lines; line++)
            v_prefetch(r->next + line * LINE_BYTES);
}

/* Spreads what is left over this many terms of a product. */
INLINE void spread(request *r, int64_t terms) { r->at_once = (r->rows * ASK_TERMS + terms - 1) / terms; }

typedef struct product {
    real *c;           /* [rows][vecs*VL] */
    int64_t c_row;     /* elements between rows of C */
    int adds;          /* the sum is added to what C holds, else C is overwritten */
    int64_t chain;     /* terms of a chain */
    const stored *a; /* A[r][t] = a[r*a_row + t*a_term], and of pairs the one after it */
    int64_t a_row, a_term;
    const void *b; /* B[t] = b + t*b_term, of the kind that the product is told */
    int64_t b_term;
    int64_t terms;
    real factor;   /* of pairs: C is multiplied by it at the end */
    request *ask; /* or NULL */
} product;

/* Terms [first, end) added to acc, `step` of them in a turn: the more, the fewer operations beside the multiply-adds. */
INLINE void tile_terms(const product *m, vf *acc, const int rows, const int vecs, int64_t first, int64_t end, const number_kind kind,
                       const int step)
{
    const stored *a = m->a;
    const char *b = m->b;
    const int64_t a_row = m->a_row, a_term = m->a_term, b_term = m->b_term * kind_bytes(kind), b_vec = VL * kind_bytes(kind);
    int64_t t = first;
    if (step > 1) {
        const stored *row[MAX_ROWS];
        UNROLL for (int i = 0; i < rows; i++)
            row[i] = a + i * a_row;
        for (const char *at = b + t * b_term; t + step <= end; t += step, at += step * b_term)
            UNROLL for (int s = 0; s < step; s++)
                UNROLL for (int i = 0; i < rows * vecs; i++)
                    add_product(&acc[i], row[i / vecs] + (t + s) * a_term, at + s * b_term + i % vecs * b_vec, kind);
    }
    for (; t < end; t++)
        UNROLL for (int i = 0; i < rows * vecs; i++)
            add_product(&acc[i], a + i / vecs * a_row + t * a_term, b + t * b_term + i % vecs * b_vec, kind);
}

/* One tile. rows, vecs, asks (is m->ask followed?), the kind of B and step are constants after inlining: acc[] is rows*vecs registers,
   acc[i] = row i/vecs, vector i%vecs. One flat loop over acc is the form that both gcc and clang keep in registers. */
INLINE void tile(const product *m, const int rows, const int vecs, const int asks, const number_kind kind, const int step)
{
    int adds = m->adds;
    int64_t first = 0;
    do {
        const int64_t end = first + m->chain < m->terms ? first + m->chain : m->terms;
        vf acc[MAX_ROWS * MAX_VECS];
        UNROLL for (int i = 0; i < rows * vecs; i++)
            acc[i] = v_zero();
        for (int64_t t = first; asks && t < end; t += ASK_TERMS) {
            ask(m->ask);
            tile_terms(m, acc, rows, vecs, t, t + ASK_TERMS < end ? t + ASK_TERMS : end, kind, 1);
        }
        if (!asks)
            tile_terms(m, acc, rows, vecs, first, end, kind, step);
        if (adds)
            UNROLL for (int i = 0; i < rows * vecs; i++)
                acc[i] = v_add(v_load(m->c + i / vecs * m->c_row + i % vecs * VL), acc[i]);
        if (PAIR > 1 && m->factor != 1 && end == m->terms)
            UNROLL for (int i = 0; i < rows * vecs; i++)
                acc[i] = v_mul(acc[i], v_set1(m->factor));
        UNROLL for (int i = 0; i < rows * vecs; i++)
            v_store(m->c + i / vecs * m->c_row + i % vecs * VL, acc[i]);
        adds = 1;
        first += m->chain;
    } while (first < m->terms); /* without a term the sum is 0 */
}

/* The tile of a height known only at run time: one case for each, so that every remainder has a tile of its own. The highest takes more
   terms in a turn; where memory is asked for, it is that which takes the time. */
INLINE void tile_of_height(const product *m, int rows, const int vecs, const int highest, const int asks, const number_kind kind)
{
#define HEIGHT(n) case n: if (n <= highest) tile(m, n, vecs, asks, kind, vecs > 1 && n == highest && !asks ? TILE_STEP : 1); break;
    switch (rows) {
        HEIGHT(1) HEIGHT(2) HEIGHT(3) HEIGHT(4) HEIGHT(5) HEIGHT(6)
        HEIGHT(7) HEIGHT(8) HEIGHT(9) HEIGHT(10) HEIGHT(11) HEIGHT(12)
    }
#undef HEIGHT
}

INLINE int highest_tile(int regs, int vecs) { return regs / vecs < MAX_ROWS ? regs / vecs : MAX_ROWS; }
INLINE int64_t tiles_of(int64_t rows, int highest) { return (rows + highest - 1) / highest; }

/* All rows, in tiles of nearly equal height: 10 rows are 5 + 5, not 6 + 4. */
INLINE void multiply_rows(product m, int64_t rows, const int vecs, const int regs, const int asks, const number_kind kind)
{
    const int highest = highest_tile(regs, vecs);
    for (int64_t tiles = tiles_of(rows, highest); tiles > 0; tiles--) {
        int height = (int)((rows + tiles - 1) / tiles);
        tile_of_height(&m, height, vecs, highest, asks, kind);
        m.c += height * m.c_row;
        m.a += height * m.a_row;
        rows -= height;
    }
}
