/* SPDX-License-Identifier: Apache-2.0 */
/* Scores in an order of their own, which ATTN_RELAXED allows: lanes are columns. Every lane adds up the products of its columns, and the
   lanes are added at the end. So K and Q are read as vectors, and K of 16 bits is widened on its way. A score is the same function of its
   row and key in every tile: the bits of a row depend neither on the other rows nor on the other keys. */

/* Keys of a tile: as many as registers allow. Rows take turns, FREE_PASS of them at a time. */
INLINE int keys_of_tile(int64_t rows) { return FREE_REGS / (int)least(rows, FREE_PASS); }

typedef struct free_scores {
    real *scores;  /* [key][lanes], of the first key and row */
    const real *q; /* of a group of rows, as queries_in_vectors has them */
    const char *k; /* of the first key */
    int64_t lanes, dim, key_bytes;
} free_scores;

/* sums[key * count + row]: what each lane adds up, for the rows [first, first + count) of a group of `rows`, which are constants, as keys
   and kind are. */
INLINE void free_products(vf *sums, const free_scores *m, const int first, const int count, const int rows, const int keys,
                          const number_kind kind)
{
    const int64_t whole = m->dim / VL * VL, key_bytes = m->key_bytes;
    const real *q = m->q + first * VL;
    const char *k = m->k;
    UNROLL for (int i = 0; i < count * keys; i++)
        sums[i] = v_zero();
    for (const char *const end = k + whole * kind_bytes(kind); k < end; k += VL * kind_bytes(kind), q += rows * VL)
        UNROLL for (int i = 0; i < count * keys; i++)
            sums[i] = v_fma(v_load_kind(k + i / count * key_bytes, kind), v_load(q + i % count * VL), sums[i]);
    if (kind == REALS && whole < m->dim)
        UNROLL for (int i = 0; i < count * keys; i++) {
            const void *at = k + i / count * key_bytes;
            sums[i] = v_fma(v_load_first(at, (int)(m->dim - whole)), v_load(q + i % count * VL), sums[i]);
        }
}

/* One tile. rows, keys and kind are constants after inlining. SUMS_PART rows have their lanes added at once. */
INLINE void free_tile(const free_scores *m, const int rows, const int keys, const number_kind kind)
{
    vf part[FREE_REGS][VL / SUMS_PART];
    UNROLL for (int first = 0; first < VL; first += FREE_PASS) {
        const int count = rows - first < FREE_PASS ? rows - first : FREE_PASS;
        vf sums[FREE_REGS];
        if (count > 0)
            free_products(sums, m, first, count, rows, keys, kind);
        UNROLL for (int key = 0; key < keys; key++)
            UNROLL for (int p = 0; p < FREE_PASS; p += SUMS_PART) {
                vf of_part[SUMS_PART];
                UNROLL for (int i = 0; i < SUMS_PART; i++)
                    of_part[i] = p + i < count ? sums[key * count + p + i] : v_zero();
                part[key][(first + p) / SUMS_PART] = p < count ? v_sums_part(of_part) : v_zero();
            }
    }
    UNROLL for (int key = 0; key < keys; key++)
        v_store(m->scores + key * m->lanes, v_sums_whole(part[key]));
}

/* All keys with one group of rows. The last tile begins earlier if it must: a score is the same in any. Of keys too few for a tile each
   takes all its places. */
INLINE void free_group(const free_scores *all, int n_keys, request *next, const int rows, const number_kind kind)
{
    const int keys = keys_of_tile(rows), step = n_keys < keys ? 1 : keys;
    for (int key = 0; key < n_keys; key += step) {
        const int64_t at = least(key, n_keys - step);
        free_scores m = *all;
        m.scores += at * m.lanes;
        m.k += at * m.key_bytes;
        if (n_keys < keys)
            m.lanes = m.key_bytes = 0;
        ask(next);
        free_tile(&m, rows, keys, kind);
    }
}

INLINE void free_group_of(const free_scores *m, int rows, int n_keys, request *next, const number_kind kind)
{
#define ROWS(n) case n: if (n <= VL) free_group(m, n_keys, next, n, kind); break;
    switch (rows) {
        ROWS(1) ROWS(2) ROWS(3) ROWS(4) ROWS(5) ROWS(6) ROWS(7) ROWS(8)
        ROWS(9) ROWS(10) ROWS(11) ROWS(12) ROWS(13) ROWS(14) ROWS(15) ROWS(16)
    }
#undef ROWS
}
_Static_assert(VL <= 16, "a case for every number of rows");

/* scores[key][lane] as score_keys has them, of q from queries_in_vectors; those of lanes without a row are 0. */
KERNEL void score_free(real *scores, const query_block *b, const real *q, const row_layout *k, int64_t dim, int n_keys)
{
    request next = k->next;
    if (next.rows)
        spread(&next, tiles_of(n_keys, keys_of_tile(b->count)) * tiles_of(b->count, VL) * ASK_TERMS);
    for (int first = 0; first < b->count; first += VL) {
        const free_scores m = { .scores = scores + first, .q = q + first * round_up(dim, VL), .k = k->data, .lanes = b->lanes, .dim = dim,
                                .key_bytes = k->position * kind_bytes(k->kind) };
        const int rows = (int)least(VL, b->count - first);
        switch (k->kind) {
        case REALS: free_group_of(&m, rows, n_keys, &next, REALS); break;
        case F16S: free_group_of(&m, rows, n_keys, &next, F16S); break;
        case BF16S: free_group_of(&m, rows, n_keys, &next, BF16S); break;
        }
    }
}
