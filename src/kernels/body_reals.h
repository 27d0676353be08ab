/* SPDX-License-Identifier: Apache-2.0 */
/* What is particular to products of reals; body_pairs.h has the same functions for pairs. */

/* ---- into the products ---- */

/* The block's rows into b->q, scaled. */
INLINE void load_queries(const query_block *b, const attn_sdpa_job *job, const workspace *w)
{
    row_layout q = as_reals(&job->q, job->heads, b->first, b->count, job->dim, w->rows);
    bring_queries(b->q, b, &q, job->dim, (real)job->scale);
}

/* The same without the scale, and what the scores of the others must be multiplied by. */
INLINE const real *raw_queries(const query_block *b, const attn_sdpa_job *job, const workspace *w)
{
    row_layout q = as_reals(&job->q, job->heads, b->first, b->count, job->dim, w->rows);
    bring_queries(w->raw_q, b, &q, job->dim, 1);
    return w->raw_q;
}
INLINE real scale_of_scores(const attn_sdpa_job *job) { return (void)job, 1; }

/* Keys from `key` on; late: they are widened in the tiles. */
INLINE row_layout rows_of_keys(const attn_sdpa_job *job, const workspace *w, int64_t key, int n_keys, int late, int ahead)
{
    return key_rows(&job->k, key, n_keys, job->dim, w->k, late, ahead);
}
INLINE row_layout rows_of_values(const attn_sdpa_job *job, const workspace *w, int64_t key, int n_keys, int late, int ahead)
{
    return key_rows(&job->v, key, n_keys, job->value_dim, w->v, late, ahead);
}

/* ---- softmax and mix ---- */

INLINE vf weigh_score(real *score, vf max)
{
    const vf weight = exp_of_difference(v_load(score), max);
    v_store(score, weight);
    return weight;
}

/* scores -> weights e^(score - max), in place; adds them to sum. Four keys are added to each other first: a chain a fourth as long.
   A key that is not there weighs 0, as a hidden one does. */
INLINE void weigh(real *scores, int n_keys, const vf *max, vf *sum, const int vecs)
{
    const int64_t lanes = vecs * VL;
    for (; n_keys >= 4; n_keys -= 4, scores += 4 * lanes)
        UNROLL for (int j = 0; j < vecs; j++) {
            const vf first = weigh_score(scores + j * VL, max[j]);
            const vf second = weigh_score(scores + lanes + j * VL, max[j]);
            const vf third = weigh_score(scores + 2 * lanes + j * VL, max[j]);
            const vf fourth = weigh_score(scores + 3 * lanes + j * VL, max[j]);
            sum[j] = v_add(sum[j], v_add(v_add(first, second), v_add(third, fourth)));
        }
    UNROLL for (int j = 0; j < vecs && n_keys > 0; j++) {
        vf few = weigh_score(scores + j * VL, max[j]);
        for (int i = 1; i < n_keys; i++)
            few = v_add(few, weigh_score(scores + i * lanes + j * VL, max[j]));
        sum[j] = v_add(sum[j], few);
    }
}

/* Dropout of the weights that weigh left, but for what after_mix is. */
INLINE void drop_from_mix(real *weights, const query_block *b, const attn_sdpa_job *job, int64_t key, int n_keys)
{
    drop_out(weights, b, job, key, n_keys);
}
INLINE real after_mix(const attn_sdpa_job *job) { return (void)job, 1; }

/* 1 if none of these values is NaN or infinite: x - x is 0 exactly then. */
KERNEL int values_finite(const row_layout *v, int64_t value_dim, int n_keys)
{
    vf zero = v_zero();
    for (int i = 0; i < n_keys; i++)
        for (int64_t c = 0; c < value_dim; c += VL) {
            vf x = c + VL <= value_dim ? load_of_row(v, i, c) : v_load_first(layout_row(v, i) + c, (int)(value_dim - c));
            zero = v_add(zero, v_sub(x, x));
        }
    return v_sum(zero) == 0;
}

/* sum + weights of key i in the lanes from `lane` on, times one value: in the lanes that see the key. */
INLINE vf add_seen(vf sum, const hiding *h, int64_t lanes, int i, int64_t lane, int n_keys, const real *value, const real *weights)
{
    (void)n_keys;
    return v_select(v_equal(added_to(h, lanes, i, lane), v_set1(HIDDEN)), sum, v_fma(v_set1(*value), v_load(weights), sum));
}

/* sum + values of key i times the weight of one lane, if it sees the key. */
INLINE vf add_seen_few(vf sum, const hiding *h, int64_t lanes, int i, int64_t lane, int n_keys, vf values, const real *weight)
{
    (void)n_keys;
    return is_seen(h, lanes, i, lane) ? v_fma(values, v_set1(*weight), sum) : sum;
}

/* ---- out ---- */

/* Stores whole vectors of a row, where there is a way that is faster than one by one; returns how many columns. */
INLINE int64_t store_vectors(const attn_rows *out, int64_t at, const real *row, int64_t columns)
{
    return (void)out, (void)at, (void)row, (void)columns, 0;
}
