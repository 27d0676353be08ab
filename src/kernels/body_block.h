/* SPDX-License-Identifier: Apache-2.0 */
/* A block of query rows, lanes = rows. Nothing of K or V is packed for the products, and no operation crosses lanes, so that the bits of
   a row do not depend on the rows around it. Here: how rows are brought into lanes and back, and what a lane knows of itself. */

enum {
    KEY_BLOCK = 128,          /* keys per softmax step; a multiple of every VL; 64..256 measure the same within 3 % */
    PIECE = 8 * KEY_BLOCK,    /* keys with a max, sum and out of their own; counted from key 0 of the sequence */
    BLOCK_LANES = QUERY_VECS * VL,
    MAX_BLOCKS = (512 + BLOCK_LANES - 1) / BLOCK_LANES,
    L2_BYTES = 512 << 10,     /* K and V that L2 holds, on the CPUs at hand */
    FEW_KEY_VECS = 4, FEW_KEYS = FEW_KEY_VECS * VL, /* keys that score_few takes together; they divide KEY_BLOCK */
    SWEEP_ROWS = MAX_BLOCKS * BLOCK_LANES, /* rows that pass over a key block before it leaves the cache: 4-6 % when L3 is busy */
};
#define HIDDEN (-(real)INFINITY)
#define SLACK ((real)5) /* weights may reach e^SLACK before a lane is rescaled: about 1 % */

enum { SUMS = PAIR };

/* What a lane knows about the keys of a piece (or of several, merged): out / sum would be its attention. */
typedef struct lane_state {
    real *out;       /* [value_dim][lanes], of a block of few rows [count][value_dim] */
    real *max;       /* [lanes] */
    real *sum;       /* [SUMS][lanes]: of the weights that are mixed; of pairs also of them before they are rounded: exact_sums */
} lane_state;

typedef struct query_block {
    int64_t first;                       /* its first row */
    int count, vecs;                     /* rows, and the vectors that hold them */
    int64_t lanes;                       /* vecs * VL */
    real *q;                             /* [dim][lanes], scaled */
    int64_t min_from, max_from;          /* of the keys that position and lengths allow: below min_from no row sees any, ... */
    int64_t min_to, max_to;              /* ... in max_from <= j < min_to all see everything, from max_to on nothing */
    lane_state now;                      /* of the current piece of keys */
    lane_state total;                    /* of the pieces before it */
    int pieces;                          /* how many those are */
    int few;                             /* a block of few rows: body_few.h */
    int free;                            /* scores by body_free.h; q is what queries_in_vectors leaves */
    int fresh;                           /* nothing of the current piece has been mixed in yet */
} query_block;

INLINE const real *exact_sums(const query_block *b) { return b->total.sum + (SUMS - 1) * b->lanes; }

/* Memory that is used up between two steps, shared by all blocks of a thread. */
typedef struct workspace {
    real *tile, *bias; /* [KEY_BLOCK][BLOCK_LANES] */
    word *bits;        /* [KEY_BLOCK / WORD_BITS][BLOCK_LANES]: body_hide.h */
    real *rows;        /* [BLOCK_LANES][widest of KEY_BLOCK, dim, value_dim]: rows on their way into lanes or out */
    real *k, *v;       /* keys [KEY_BLOCK][dim] and values [terms_of(KEY_BLOCK)][value_dim] where memory has them in another form */
    real *keys_across; /* [dim][FEW_KEYS] and [VL][FEW_KEYS]: some keys in lanes, and their scores: body_few.h */
    real *raw_q;       /* [dim][BLOCK_LANES]: queries without the scale, for the scores stage */
} workspace;

/* Rows with columns side by side: row r is head r % heads of position r / heads. Those of another kind than REALS have one head. */
typedef struct row_layout {
    const void *data;
    number_kind kind;
    int64_t position, head, heads;
    request next; /* for the rows of the next key block, as memory holds them */
} row_layout;

INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
INLINE int64_t greatest(int64_t a, int64_t b) { return a > b ? a : b; }
INLINE int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

INLINE int64_t row_offset(const attn_rows *m, int64_t heads, int64_t r)
{
    return heads == 1 ? r * m->position : r / heads * m->position + r % heads * m->head;
}
/* Row r of any kind; of reals. */
INLINE const char *row_start(const row_layout *l, int64_t r)
{
    const int64_t at = l->heads == 1 ? r * l->position : r / l->heads * l->position + r % l->heads * l->head;
    return (const char *)l->data + at * kind_bytes(l->kind);
}
INLINE const real *layout_row(const row_layout *l, int64_t r)
{
    const void *row = row_start(l, r);
    return row;
}

/* VL columns of row r of any kind, from c on. */
INLINE vf load_of_row(const row_layout *l, int64_t r, int64_t c)
{
    return v_load_kind(row_start(l, r) + c * kind_bytes(l->kind), l->kind);
}

INLINE int is_direct(const attn_rows *m, int64_t columns) { return m->dtype == REAL_DTYPE && (m->column == 1 || columns <= 1); }

/* dst[c] = column c of a row of any float dtype, c < n. Finite values beyond the range of real become the greatest real of their sign: only
   a stored infinity is one. */
KERNEL void convert_row(real *dst, const attn_rows *m, int64_t offset, int64_t n)
{
    int64_t c = 0;
    if (m->dtype == ATTN_F16 && m->column == 1)
        for (; c + VL <= n; c += VL)
            v_store(dst + c, v_load_f16((const uint16_t *)m->data + offset + c));
    if (m->dtype == ATTN_BF16 && m->column == 1)
        for (; c + VL <= n; c += VL)
            v_store(dst + c, v_load_bf16((const uint16_t *)m->data + offset + c));
    for (; c < n; c++) {
        double x = attn_load_float(m->data, m->dtype, offset + c * m->column);
        dst[c] = x - x != 0 ? (real)x : x > REAL_MAX ? REAL_MAX : x < -REAL_MAX ? -REAL_MAX : (real)x;
    }
}

/* Rows [first, first + n) as reals side by side: where they are if they are so, else converted into `memory`. */
INLINE row_layout as_reals(const attn_rows *m, int64_t heads, int64_t first, int64_t n, int64_t columns, real *memory)
{
    if (is_direct(m, columns)) {
        const real *data = m->data;
        if (heads == 1)
            return (row_layout){ .data = data + first * m->position, .position = m->position, .heads = 1 };
        if (first % heads == 0)
            return (row_layout){ .data = data + first / heads * m->position, .position = m->position, .head = m->head, .heads = heads };
    }
    if (heads == 1 && m->column == 1 && m->position == columns) /* one long row */
        convert_row(memory, m, first * columns, n * columns);
    else
        for (int64_t i = 0; i < n; i++)
            convert_row(memory + i * columns, m, row_offset(m, heads, first + i), columns);
    return (row_layout){ .data = memory, .position = columns, .heads = 1 };
}

/* The rows of the next key block, which will be needed soon. */
INLINE request next_rows(const attn_rows *m, int64_t first, int64_t columns)
{
    const int64_t size = attn_float_size(m->dtype);
    return (request){ .next = (const char *)m->data + (first + KEY_BLOCK) * m->position * size, .row = m->position * size,
                      .lines = (columns * size + LINE_BYTES - 1) / LINE_BYTES, .rows = columns && m->column == 1 ? KEY_BLOCK : 0 };
}

/* Keys from `first` on as reals, or as they are if they have 16 bits and that is wanted; ahead: the block of keys after them will be needed
   next, and soon. */
INLINE row_layout key_rows(const attn_rows *m, int64_t first, int64_t n, int64_t columns, real *memory, int as_they_are, int ahead)
{
    row_layout l = { .kind = kind_of(m->dtype), .position = m->position, .heads = 1 };
    if (as_they_are && l.kind != REALS && m->column == 1)
        l.data = (const uint16_t *)m->data + first * m->position;
    else
        l = as_reals(m, 1, first, n, columns, memory);
    if (ahead)
        l.next = next_rows(m, first, columns);
    return l;
}

/* rows_to_lanes of one kind, which is a constant after inlining. */
INLINE void rows_to_lanes_of(real *dst, int64_t lanes, const row_layout *src, int rows, int64_t cols, real factor,
                             const number_kind kind)
{
    for (int first = 0; first < lanes; first += VL, dst += VL) {
        const char *row[VL];
        for (int i = 0; i < VL; i++)
            row[i] = row_start(src, least(first + i, rows - 1));
        for (int64_t col = 0; col < cols; col += VL) {
            vf r[VL];
            if (col + VL <= cols)
                UNROLL for (int i = 0; i < VL; i++)
                    r[i] = v_load_kind(row[i] + col * kind_bytes(kind), kind);
            else
                UNROLL for (int i = 0; i < VL; i++)
                    r[i] = v_load_first((const real *)(const void *)row[i] + col, (int)(cols - col));
            v_transpose(r);
            UNROLL for (int i = 0; i < VL; i++)
                v_store(dst + (col + i) * lanes, PAIR > 1 ? r[i] : v_mul(r[i], v_set1(factor))); /* pairs are moved only */
        }
    }
}

/* dst[col][row] = src[row][col] * factor; lanes from `rows` on repeat the last row. dst has room for round_up(cols, VL) rows. */
KERNEL void rows_to_lanes(real *dst, int64_t lanes, const row_layout *src, int rows, int64_t cols, real factor)
{
    switch (src->kind) {
    case REALS: rows_to_lanes_of(dst, lanes, src, rows, cols, factor, REALS); break;
    case F16S: rows_to_lanes_of(dst, lanes, src, rows, cols, factor, F16S); break;
    case BF16S: rows_to_lanes_of(dst, lanes, src, rows, cols, factor, BF16S); break;
    }
}

/* dst: groups of VL rows (the last of fewer), in a group [dim / VL][row][VL]; the columns of the last vector are filled up with +0. */
KERNEL void queries_in_vectors(real *dst, const row_layout *src, int rows, int64_t dim, real factor)
{
    for (int first = 0; first < rows; first += VL)
        for (int64_t c = 0; c < dim; c += VL)
            for (int row = first; row < rows && row < first + VL; row++, dst += VL)
                v_store(dst, v_mul(v_load_first(layout_row(src, row) + c, (int)least(VL, dim - c)), v_set1(factor)));
}

/* Rows into `dst`, as the scores of the block want them. */
INLINE void bring_queries(real *dst, const query_block *b, const row_layout *q, int64_t dim, real factor)
{
    if (b->free)
        queries_in_vectors(dst, q, b->count, dim, factor);
    else
        rows_to_lanes(dst, b->lanes, q, b->count, dim, factor);
}

/* Of the two kinds of products: body_reals.h, body_pairs.h. */
INLINE void load_queries(const query_block *b, const attn_sdpa_job *job, const workspace *w);
INLINE int64_t store_vectors(const attn_rows *out, int64_t at, const real *row, int64_t columns);

/* What out is multiplied by, in two parts: factor + rest, one number for each lane. */
typedef struct out_factors {
    const real *factor, *rest;
} out_factors;

/* What leaves the kernel: out * (factor + rest), which rounds once where out * factor would be the product of a rounded quotient. The + 0
   makes every zero +0: a hidden key of weight 0 turns a -0 into +0, and how many such keys a row meets depends on its neighbours. Any NaN
   becomes the one NaN: which operand's bits x86 passes on is the compiler's choice. */
INLINE vf finished(vf out, vf factor, vf rest)
{
    vf x = v_fma(out, factor, v_fma(out, rest, v_zero()));
    return v_select(v_equal(x, x), x, v_set1((real)NAN));
}

/* dst[row][col] = src[col][row] * by[row] */
KERNEL void lanes_to_rows(real *dst, const attn_rows *to, int64_t heads, int64_t first, const real *src, int64_t lanes, out_factors by,
                          int rows, int64_t cols)
{
    for (int row = 0; row < rows; row += VL, src += VL) {
        const int full = row + VL <= rows;
        real *at[VL];
        for (int i = 0; i < VL && row + i < rows; i++)
            at[i] = dst + row_offset(to, heads, first + row + i);
        for (int64_t col = 0; col < cols; col += VL) {
            vf r[VL];
            UNROLL for (int i = 0; i < VL; i++)
                r[i] = finished(v_load(src + (col + i) * lanes), v_load(by.factor + row), v_load(by.rest + row));
            v_transpose(r);
            if (full && col + VL <= cols)
                UNROLL for (int i = 0; i < VL; i++)
                    v_store(at[i] + col, r[i]);
            else
                UNROLL for (int i = 0; i < VL; i++)
                    if (row + i < rows)
                        v_store_first(at[i] + col, r[i], (int)least(cols - col, VL));
        }
    }
}

/* dst[row][col] = src[row][col] * by[row], columns a multiple of VL */
KERNEL void finish_rows(real *dst, const attn_rows *to, int64_t heads, int64_t first, const real *src, out_factors by, int rows,
                        int64_t cols)
{
    for (int row = 0; row < rows; row++, src += cols) {
        real *at = dst + row_offset(to, heads, first + row);
        for (int64_t col = 0; col < cols; col += VL)
            v_store(at + col, finished(v_load(src + col), v_set1(by.factor[row]), v_set1(by.rest[row])));
    }
}

/* The rows of the block, to direct rows of which the first is number `first`. */
INLINE void store_rows(const query_block *b, const attn_rows *to, int64_t heads, int64_t first, out_factors by, int64_t cols)
{
    if (b->few)
        finish_rows(to->data, to, heads, first, b->total.out, by, b->count, cols);
    else
        lanes_to_rows(to->data, to, heads, first, b->total.out, b->lanes, by, b->count, cols);
}

/* Writes the rows of the block to the output, whatever its dtype and strides. */
INLINE void store_output(const attn_sdpa_job *job, const workspace *w, const query_block *b, out_factors by)
{
    const int64_t columns = job->value_dim;
    if (is_direct(&job->out, columns)) {
        store_rows(b, &job->out, job->heads, b->first, by, columns);
        return;
    }
    store_rows(b, &(attn_rows){ .data = w->rows, .position = columns }, 1, 0, by, columns);
    for (int row = 0; row < b->count; row++) {
        int64_t at = row_offset(&job->out, job->heads, b->first + row);
        for (int64_t c = store_vectors(&job->out, at, w->rows + row * columns, columns); c < columns; c++)
            attn_store_float(job->out.data, job->out.dtype, at + c * job->out.column, w->rows[row * columns + c]);
    }
}

INLINE int64_t position_of(int64_t heads, int64_t r) { return heads == 1 ? r : r / heads; }

INLINE int64_t lane_position(const attn_sdpa_job *job, const query_block *b, int lane)
{
    return job->offset + position_of(job->heads, b->first + lane);
}

/* The keys from <= j < to that the position, window and lengths allow to the rows of position offset + i; none: from = to = 0. */
typedef struct key_range {
    int64_t from, to;
} key_range;

INLINE key_range keys_allowed(const attn_sdpa_job *job, int64_t i)
{
    const int64_t position = job->offset + i, from = greatest(0, position - job->left), to = least(job->kv_len, position + job->right + 1);
    return i >= job->q_len || to <= from ? (key_range){ 0, 0 } : (key_range){ from, to };
}

/* What the rows of the block have in common. A row that sees nothing leaves no key that all rows see. */
INLINE void set_bounds(query_block *b, const attn_sdpa_job *job)
{
    b->min_from = b->min_to = INT64_MAX;
    b->max_from = b->max_to = 0;
    for (int64_t i = position_of(job->heads, b->first); i <= position_of(job->heads, b->first + b->count - 1); i++) {
        const key_range allowed = keys_allowed(job, i);
        if (allowed.to)
            b->min_from = least(b->min_from, allowed.from);
        b->max_from = greatest(b->max_from, allowed.to ? allowed.from : INT64_MAX);
        b->min_to = least(b->min_to, allowed.to);
        b->max_to = greatest(b->max_to, allowed.to);
    }
}

INLINE real *place_state(lane_state *s, real *memory, int64_t lanes, int64_t value_dim)
{
    s->out = memory;
    s->max = s->out + round_up(value_dim, VL) * lanes;
    s->sum = s->max + lanes;
    return s->sum + SUMS * lanes;
}

/* Bytes of a block as wide as they come; a multiple of 64. */
INLINE int64_t block_bytes(int64_t dim, int64_t value_dim)
{
    int64_t reals = round_up(dim, VL) + 2 * (round_up(value_dim, VL) + 1 + SUMS);
    return round_up(BLOCK_LANES * reals * (int64_t)sizeof(real), 64);
}

/* Vectors of the next block of so many rows: the widest, but the last two share what is left: one vector alone waits for its chains. */
INLINE int64_t next_vecs(int64_t rows)
{
    const int64_t vecs = (rows + VL - 1) / VL;
    return vecs <= QUERY_VECS ? vecs : vecs < 2 * QUERY_VECS ? (vecs + 1) / 2 : QUERY_VECS;
}

/* A block of the rows [first, end), as many as fit, in block_bytes of memory. */
INLINE void start_block(query_block *b, const attn_sdpa_job *job, const workspace *w, int64_t first, int64_t end, void *memory)
{
    int64_t left = end - first;
    *b = (query_block){ .first = first, .vecs = (int)next_vecs(left), .q = memory, .free = PAIR == 1 && job->any_order };
    b->lanes = b->vecs * VL;
    b->count = (int)least(left, b->lanes);
    real *rest = place_state(&b->now, b->q + round_up(job->dim, VL) * b->lanes, b->lanes, job->value_dim);
    place_state(&b->total, rest, b->lanes, job->value_dim);
    load_queries(b, job, w);
    set_bounds(b, job);
}
