/* SPDX-License-Identifier: Apache-2.0 */
/* What is particular to products of bf16 pairs, for calls whose q, k, v are bf16 and whose output is: the functions of body_reals.h.
   A pair of a score is two columns of a row of Q and of K; a pair of the mix two keys: two weights, rounded to bf16, and two rows of V
   zipped. Pairs are counted from column 0 and from the first key of a block, so they do not depend on the call. Where there is no second
   one, it is a zero on both sides. */

/* ---- into the products ---- */

/* n columns of a row side by side in pairs. dst is memory of reals, hence no plain store. */
INLINE void copy_bf16(uint16_t *dst, const attn_rows *m, int64_t offset, int64_t n)
{
    const uint16_t *src = (const uint16_t *)m->data + offset;
    for (int64_t c = 0; c < n; c++)
        memcpy(dst + c, src + c * m->column, sizeof *dst);
    if (n % PAIR)
        memset(dst + n, 0, sizeof *dst);
}

INLINE void load_queries(const query_block *b, const attn_sdpa_job *job, const workspace *w)
{
    const int64_t terms = terms_of(job->dim);
    for (int i = 0; i < b->count; i++)
        copy_bf16((uint16_t *)(void *)(w->rows + i * terms), &job->q, row_offset(&job->q, job->heads, b->first + i), job->dim);
    rows_to_lanes(b->q, b->lanes, &(row_layout){ .data = w->rows, .position = terms, .heads = 1 }, b->count, terms, 1);
}

/* Pairs are not scaled, which would round them: the exact products are. */
INLINE const real *raw_queries(const query_block *b, const attn_sdpa_job *job, const workspace *w) { return (void)job, (void)w, b->q; }
INLINE real scale_of_scores(const attn_sdpa_job *job) { return (real)job->scale; }

INLINE row_layout rows_of_keys(const attn_sdpa_job *job, const workspace *w, int64_t key, int n_keys, int late, int ahead)
{
    (void)late;
    const int64_t columns = terms_of(job->dim) * PAIR;
    uint16_t *copy = (uint16_t *)(void *)w->k;
    row_layout rows = { .data = copy, .kind = BF16S, .position = columns, .heads = 1 };
    if (job->k.column == 1 && columns == job->dim)
        rows = (row_layout){ .data = (const uint16_t *)job->k.data + key * job->k.position, .kind = BF16S, .position = job->k.position,
                             .heads = 1 };
    else
        for (int i = 0; i < n_keys; i++)
            copy_bf16(copy + i * columns, &job->k, (key + i) * job->k.position, job->dim);
    if (ahead)
        rows.next = next_rows(&job->k, key, job->dim);
    return rows;
}

/* One row of V, or of zeros, for zipping: where it is, or copied. */
INLINE const uint16_t *row_of_values(const attn_sdpa_job *job, uint16_t *copy, int64_t key)
{
    if (job->v.column == 1)
        return (const uint16_t *)job->v.data + key * job->v.position;
    copy_bf16(copy, &job->v, key * job->v.position, job->value_dim);
    return copy;
}

KERNEL void zip_values(real *pairs, const attn_sdpa_job *job, uint16_t *copy, int64_t key, int n_keys)
{
    const int64_t width = round_up(job->value_dim, VL);
    uint16_t *const copy_of_second = copy + width;
    for (int i = 0; i < n_keys; i += PAIR, pairs += width) {
        const int both = i + 1 < n_keys;
        const uint16_t *low = row_of_values(job, copy, key + i), *high = both ? row_of_values(job, copy_of_second, key + i + 1) : low;
        for (int64_t c = 0; c < job->value_dim; c += VL) {
            const vp pair = p_zip(low + c, high + c, (int)least(VL, job->value_dim - c));
            p_store(pairs + c, both ? pair : p_and(pair, 0xffff));
        }
    }
}

INLINE row_layout rows_of_values(const attn_sdpa_job *job, const workspace *w, int64_t key, int n_keys, int late, int ahead)
{
    (void)late;
    zip_values(w->v, job, (uint16_t *)(void *)w->rows, key, n_keys);
    row_layout rows = { .data = w->v, .position = round_up(job->value_dim, VL), .heads = 1 };
    if (ahead)
        rows.next = next_rows(&job->v, key, job->value_dim);
    return rows;
}

/* ---- softmax and mix ---- */

/* The two keys of one pair, at scores; has_high: there is a second. */
INLINE void weigh_pair(real *pair, const real *scores, const vf *max, vf *sum, const int vecs, const int has_high)
{
    const vp ones = p_round(v_set1(1), v_set1(1));
    UNROLL for (int j = 0; j < vecs; j++) {
        vf low = exp_of_difference(v_load(scores + j * VL), max[j]), high = v_zero();
        if (has_high)
            high = exp_of_difference(v_load(scores + (vecs + j) * VL), max[j]);
        vp rounded = p_round(low, high);
        sum[j] = v_dot(rounded, ones, sum[j]);
        sum[vecs + j] = v_add(sum[vecs + j], v_add(low, high));
        p_store(pair + j * VL, rounded);
    }
}

/* scores -> pairs of weights [terms][lanes], in place. The first sums are of what will be mixed, the rounded weights. */
INLINE void weigh(real *scores, int n_keys, const vf *max, vf *sum, const int vecs)
{
    const int64_t lanes = vecs * VL;
    int i = 0;
    for (; i + 1 < n_keys; i += PAIR)
        weigh_pair(scores + i / PAIR * lanes, scores + i * lanes, max, sum, vecs, 1);
    if (i < n_keys)
        weigh_pair(scores + i / PAIR * lanes, scores + i * lanes, max, sum, vecs, 0);
}

/* A weight that is kept stays as it is, so that nothing is rounded twice: after_mix has the 1/(1-p). */
KERNEL void drop_from_mix(real *weights, const query_block *b, const attn_sdpa_job *job, int64_t key, int n_keys)
{
    for (int lane = 0; lane < b->count; lane++) {
        dropout_row row = dropout_row_of(job, b->first + lane);
        for (int i = 0; i < n_keys; i++)
            if (!is_kept(&row, job, key + i))
                memset((uint16_t *)(void *)(weights + i / PAIR * b->lanes + lane) + i % PAIR, 0, sizeof(uint16_t));
    }
}
INLINE real after_mix(const attn_sdpa_job *job) { return job->drops_out ? kept_factor(job) : 1; }

/* Times 0 a finite value is 0, any other NaN. */
KERNEL int values_finite(const row_layout *v, int64_t value_dim, int n_keys)
{
    const vp zeros = p_round(v_zero(), v_zero());
    vf zero = v_zero();
    for (int i = 0; i < n_keys; i += PAIR)
        for (int64_t c = 0; c < value_dim; c += VL)
            zero = v_dot(p_load(layout_row(v, i / PAIR) + c), zeros, zero);
    return v_sum(zero) == 0;
}

/* A lane that does not see one of the two keys has that value replaced by 0. */
INLINE vf add_seen(vf sum, const hiding *h, int64_t lanes, int i, int64_t lane, int n_keys, const real *value, const real *weights)
{
    const vp values = p_set1(as_stored(value)), weight = p_load(weights);
    const vf hidden = v_set1(HIDDEN);
    const vb low_hidden = v_equal(added_to(h, lanes, i, lane), hidden);
    const vb high_hidden = v_equal(added_to(h, lanes, (int)least(i + 1, n_keys - 1), lane), hidden);
    const vf both = v_dot(values, weight, sum), low = v_dot(p_and(values, 0xffff), weight, sum),
             high = v_dot(p_and(values, 0xffff0000), weight, sum);
    return v_select(low_hidden, v_select(high_hidden, sum, high), v_select(high_hidden, low, both));
}

INLINE vf add_seen_few(vf sum, const hiding *h, int64_t lanes, int i, int64_t lane, int n_keys, vf values, const real *weight)
{
    word seen = is_seen(h, lanes, i, lane) ? 0xffff : 0;
    seen |= i + 1 < n_keys && is_seen(h, lanes, i + 1, lane) ? 0xffff0000 : 0;
    real pairs[VL];
    v_store(pairs, values);
    return v_dot(p_and(p_load(pairs), seen), p_set1(as_stored(weight)), sum);
}

/* ---- out ---- */

INLINE int64_t store_vectors(const attn_rows *out, int64_t at, const real *row, int64_t columns)
{
    int64_t c = 0;
    if (out->dtype == ATTN_BF16 && out->column == 1)
        for (; c + VL <= columns; c += VL)
            v_store_bf16((uint16_t *)out->data + at + c, v_load(row + c));
    return c;
}
