/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of few rows, as decoding has them: the lanes of score_keys and mix_values would be mostly empty. The same sums with the roles of
   the factors swapped: a product commutes and every sum keeps its order, so the bits are those of the wide block. Lanes are columns in the
   mix of values, so out lies in rows: [row][value_dim]. In scores lanes are keys, which must be brought there: for that, rows must be
   fewer still. */

enum { FEW_ROWS = 16, FEW_VECS = QUERY_VECS < 3 ? QUERY_VECS : 3 };

INLINE int has_few_rows(const query_block *b, int64_t value_dim) { return b->lanes <= FEW_ROWS && value_dim % VL == 0; }

/* Numbers of 16 bits have one variant, which asks: it may have nothing to ask for. */
INLINE void multiply_few(product m, int64_t rows, int vecs, const number_kind kind)
{
#define WIDTH(n) case n:                                                                                                                   \
    if (kind != REALS || m.ask->rows)                                                                                                      \
        multiply_rows(m, rows, n, TILE_REGS, 1, kind);                                                                                     \
    else                                                                                                                                   \
        multiply_rows(m, rows, n, TILE_REGS, 0, kind);                                                                                     \
    break;
    switch (vecs) {
        WIDTH(1) WIDTH(2) WIDTH(3)
    }
#undef WIDTH
}

/* Then a product over whole vectors of keys saves more than bringing K into lanes costs. K of 16 bits is widened on the way, and else
   would be widened before. */
INLINE int scores_by_keys(const query_block *b, number_kind k)
{
    return b->count <= (k == REALS ? FEW_SCORE_ROWS : NARROW_SCORE_ROWS);
}

_Static_assert(FEW_SCORE_ROWS <= VL && NARROW_SCORE_ROWS <= VL, "keys_across holds the scores of so many rows");

/* scores[key][lane] as score_keys has them; across: workspace.keys_across */
KERNEL void score_few(real *scores, real *across, const query_block *b, const real *q, const row_layout *k, int64_t dim, int n_keys)
{
    real *const found = across + FEW_KEYS * round_up(dim, VL);
    request next = k->next;
    if (next.rows)
        spread(&next, tiles_of(n_keys, FEW_KEYS) * tiles_of(b->count, highest_tile(TILE_REGS, FEW_KEY_VECS)) * dim);
    for (int key = 0; key < n_keys; key += FEW_KEYS) {
        const int n = (int)least(FEW_KEYS, n_keys - key);
        const row_layout keys = { .data = row_start(k, key), .kind = k->kind, .position = k->position, .heads = 1 };
        const row_layout rows = { .data = found, .position = FEW_KEYS, .heads = 1 };
        const product m = { .c = found, .c_row = FEW_KEYS, .chain = COLUMN_CHAIN, .a = as_stored(q), .a_row = 1, .a_term = b->lanes,
                            .b = across, .b_term = FEW_KEYS, .terms = dim, .factor = 1, .ask = &next };
        rows_to_lanes(across, FEW_KEYS, &keys, n, dim, 1);
        if (next.rows)
            multiply_rows(m, b->count, FEW_KEY_VECS, TILE_REGS, 1, REALS);
        else
            multiply_rows(m, b->count, FEW_KEY_VECS, TILE_REGS, 0, REALS);
        rows_to_lanes(scores + key * b->lanes, b->lanes, &rows, b->count, n, 1);
    }
}

/* out[row][column] += sum over key of v[key][column] * weights[key][row] */
INLINE void mix_few_of(const query_block *b, const real *weights, const row_layout *v, int64_t value_dim, int n_keys,
                       const number_kind kind)
{
    request next = v->next;
    if (next.rows)
        spread(&next, tiles_of(value_dim, FEW_VECS * VL) * tiles_of(b->count, highest_tile(TILE_REGS, FEW_VECS)) * terms_of(n_keys));
    for (int64_t c = 0; c < value_dim; c += FEW_VECS * VL) {
        real *out = b->now.out + c;
        multiply_few((product){ .c = out, .c_row = value_dim,
                                .chain = terms_of(n_keys), .adds = !b->fresh,
                                .a = as_stored(weights), .a_row = PAIR, .a_term = PAIR * b->lanes,
                                .b = (const char *)v->data + c * kind_bytes(kind), .b_term = v->position,
                                .terms = terms_of(n_keys), .factor = 1, .ask = &next },
                     b->count, (int)least(FEW_VECS, (value_dim - c) / VL), kind);
    }
}

KERNEL void mix_few(const query_block *b, const real *weights, const row_layout *v, int64_t value_dim, int n_keys)
{
    switch (v->kind) {
    case REALS: mix_few_of(b, weights, v, value_dim, n_keys, REALS); break;
    case F16S: mix_few_of(b, weights, v, value_dim, n_keys, F16S); break;
    case BF16S: mix_few_of(b, weights, v, value_dim, n_keys, BF16S); break;
    }
}

/* mix_few when some values are NaN or infinite: a hidden pair must not be touched. Same bits, slower. */
KERNEL void mix_few_visible(const query_block *b, const real *weights, const hiding *h, const row_layout *v, int64_t value_dim, int n_keys)
{
    for (int row = 0; row < b->count; row++)
        for (int64_t c = 0; c < value_dim; c += VL) {
            real *out = b->now.out + row * value_dim + c;
            vf sum = v_zero();
            for (int i = 0; i < n_keys; i += PAIR)
                sum = add_seen_few(sum, h, b->lanes, i, row, n_keys, load_of_row(v, i / PAIR, c), weights + i / PAIR * b->lanes + row);
            v_store(out, b->fresh ? sum : v_add(v_load(out), sum));
        }
}

/* The rows of the lanes from `lane` on, times the factors of their lanes. */
INLINE void rescale_few(const query_block *b, int64_t lane, vf factor, int64_t value_dim)
{
    real factors[VL];
    v_store(factors, factor);
    for (int64_t row = lane; row < least(lane + VL, b->count); row++)
        for (int64_t c = 0; c < value_dim; c += VL) {
            real *out = b->now.out + row * value_dim + c;
            v_store(out, v_mul(v_load(out), v_set1(factors[row - lane])));
        }
}

/* total.out += now.out, both times the factors of their lanes: those from `lane` on. */
INLINE void merge_few(const query_block *b, int64_t lane, vf total_factor, vf now_factor, int64_t value_dim)
{
    real of_total[VL], of_now[VL];
    v_store(of_total, total_factor);
    v_store(of_now, now_factor);
    for (int64_t row = lane; row < least(lane + VL, b->count); row++)
        for (int64_t c = row * value_dim; c < (row + 1) * value_dim; c += VL) {
            vf total = v_mul(v_load(b->total.out + c), v_set1(of_total[row - lane]));
            v_store(b->total.out + c, v_fma(v_load(b->now.out + c), v_set1(of_now[row - lane]), total));
        }
}
