/* SPDX-License-Identifier: Apache-2.0 */
/* One block of rows against one block of keys: scores[key][lane] = K Q^T, weights = e^(scores - max), out[column][lane] += V^T weights. */

/* A product as wide as the block. Inlined into the two kernels below, whose inner stride of 1 is then a constant. */
INLINE void multiply(product m, int64_t rows, int vecs)
{
#define WIDTH(n) case n:                                                                                                                   \
    if (n > QUERY_VECS)                                                                                                                    \
        break;                                                                                                                             \
    if (m.ask && n * VL <= FEW_ROWS)                                                                                                       \
        multiply_rows(m, rows, n, TILE_REGS, 1, REALS);                                                                                    \
    else                                                                                                                                   \
        multiply_rows(m, rows, n, TILE_REGS, 0, REALS);                                                                                    \
    break;
    switch (vecs) {
        WIDTH(1) WIDTH(2) WIDTH(3) WIDTH(4)
    }
#undef WIDTH
}

/* scores[key][lane] = factor k[key] . q[lane], in chains: those of 32 columns have 0.6 of the error of one over 64, for 1 to 2 % of time */
KERNEL void score_keys(real *scores, const query_block *b, const real *q, real factor, const row_layout *k, int64_t dim, int n_keys)
{
    request next = k->next;
    const int is_wide = b->lanes > FEW_ROWS, step = is_wide && next.rows ? ASK_KEYS : n_keys;
    if (is_wide)
        next.at_once = tiles_of(next.rows, tiles_of(n_keys, ASK_KEYS));
    else if (next.rows)
        spread(&next, tiles_of(n_keys, highest_tile(TILE_REGS, b->vecs)) * terms_of(dim));
    for (int key = 0; key < n_keys; key += step) {
        if (is_wide)
            ask(&next);
        multiply((product){ .c = scores + key * b->lanes, .c_row = b->lanes, .chain = COLUMN_CHAIN,
                            .a = as_stored(row_start(k, key)), .a_row = k->position, .a_term = PAIR,
                            .b = q, .b_term = b->lanes, .terms = terms_of(dim), .factor = factor, .ask = next.rows ? &next : NULL },
                 least(step, n_keys - key), b->vecs);
    }
}

/* Scores of all rows of the block into w->tile, by the way that suits it; q as bring_queries has them. Of pairs times the factor. */
INLINE void score(const workspace *w, const query_block *b, const real *q, real factor, const row_layout *k, int64_t dim, int n_keys)
{
    if (PAIR > 1)
        score_keys(w->tile, b, q, factor, k, dim, n_keys);
    else if (b->free)
        score_free(w->tile, b, q, k, dim, n_keys);
    else if (scores_by_keys(b, k->kind))
        score_few(w->tile, w->keys_across, b, q, k, dim, n_keys);
    else
        score_keys(w->tile, b, q, 1, k, dim, n_keys);
}

/* out[column][lane] += sum over key of v[key][column] * weights[key][lane]: one chain over the keys of the block, which keeps the rounding
   errors of long sums small */
KERNEL void mix_values(const query_block *b, const real *weights, const row_layout *v, int64_t value_dim, int n_keys)
{
    multiply((product){ .c = b->now.out, .c_row = b->lanes,
                        .chain = terms_of(n_keys), .adds = !b->fresh,
                        .a = v->data, .a_row = PAIR, .a_term = PAIR * v->position,
                        .b = weights, .b_term = b->lanes, .terms = terms_of(n_keys), .factor = 1 }, value_dim, b->vecs);
}

/* mix_values when some are NaN or infinite: 0 * inf must not reach the lanes that a key is hidden from. Same bits, slower. */
KERNEL void mix_visible(const query_block *b, const real *weights, const hiding *h, const row_layout *v, int64_t value_dim, int n_keys)
{
    for (int64_t c = 0; c < value_dim; c++)
        for (int64_t j = 0; j < b->lanes; j += VL) {
            real *out = b->now.out + c * b->lanes + j;
            vf sum = v_zero();
            for (int i = 0; i < n_keys; i += PAIR)
                sum = add_seen(sum, h, b->lanes, i, j, n_keys, layout_row(v, i / PAIR) + c, weights + i / PAIR * b->lanes + j);
            v_store(out, b->fresh ? sum : v_add(v_load(out), sum));
        }
}

/* Raise the max of the lanes in `grown` to top, and shrink what they have summed so far. Other lanes: times exactly 1. */
KERNEL void rescale_lanes(const query_block *b, int64_t lane, vf top, vb grown, int64_t value_dim)
{
    vf old = v_load(b->now.max + lane);
    vf factor = v_select(grown, exp_of_difference(old, top), v_set1(1));
    v_store(b->now.max + lane, v_select(grown, top, old));
    for (int64_t i = lane; i < SUMS * b->lanes; i += b->lanes)
        v_store(b->now.sum + i, v_mul(v_load(b->now.sum + i), factor));
    if (b->few) {
        rescale_few(b, lane, factor, value_dim);
        return;
    }
    for (int64_t c = 0; c < value_dim; c++) {
        real *out = b->now.out + c * b->lanes + lane;
        v_store(out, v_mul(v_load(out), factor));
    }
}

/* The greatest score of each lane, after what h hides and adds, which is written back. */
INLINE void find_tops(vf *top, real *scores, const hiding *h, int n_keys, const int vecs)
{
    const int64_t lanes = vecs * VL;
    UNROLL for (int j = 0; j < vecs; j++)
        top[j] = v_set1(HIDDEN);
    for (int i = 0; i < n_keys; i++, scores += lanes)
        UNROLL for (int j = 0; j < vecs; j++) {
            vf score = v_load(scores + j * VL);
            if (h->bias)
                score = biased_score(score, added_to(h, lanes, i, j * VL));
            else if (h->bits)
                score = only_seen(h, lanes, i, j * VL, score);
            if (hides(h))
                v_store(scores + j * VL, score);
            top[j] = v_max(top[j], score);
        }
}

/* scores -> weights = e^(score - max), in place; adds them to the sums (online softmax, Milakov and Gimelshein 2018). The rescale is
   decided per lane and block of keys. */
INLINE void softmax_vecs(const query_block *b, real *scores, const hiding *h, int n_keys, int64_t value_dim, const int vecs)
{
    vf top[MAX_VECS], max[MAX_VECS], sum[SUMS * MAX_VECS];
    if (h->bias && h->bits)
        find_tops(top, scores, h, n_keys, vecs);
    else if (h->bias)
        find_tops(top, scores, &(hiding){ .bias = h->bias }, n_keys, vecs);
    else if (h->bits)
        find_tops(top, scores, &(hiding){ .bits = h->bits }, n_keys, vecs);
    else
        find_tops(top, scores, &(hiding){ 0 }, n_keys, vecs);
    UNROLL for (int j = 0; j < vecs; j++) {
        vb grown = v_greater(top[j], v_add(v_load(b->now.max + j * VL), v_set1(SLACK)));
        if (v_any(grown))
            rescale_lanes(b, j * VL, top[j], grown, b->fresh ? 0 : value_dim);
    }
    UNROLL for (int j = 0; j < vecs; j++)
        max[j] = v_load(b->now.max + j * VL);
    UNROLL for (int j = 0; j < SUMS * vecs; j++)
        sum[j] = v_zero();
    weigh(scores, n_keys, max, sum, vecs);
    UNROLL for (int j = 0; j < SUMS * vecs; j++)
        v_store(b->now.sum + j * VL, v_add(v_load(b->now.sum + j * VL), sum[j]));
}

KERNEL void softmax_block(const query_block *b, real *scores, const hiding *h, int n_keys, int64_t value_dim)
{
    switch (b->vecs) {
    case 1: softmax_vecs(b, scores, h, n_keys, value_dim, 1); break;
    case 2: softmax_vecs(b, scores, h, n_keys, value_dim, 2); break;
    case 3: softmax_vecs(b, scores, h, n_keys, value_dim, 3); break;
    case 4: softmax_vecs(b, scores, h, n_keys, value_dim, 4); break;
    }
}

/* out += V^T weights, by the way that suits the block and the values. */
INLINE void mix(query_block *b, const workspace *w, const hiding *h, int finite, const row_layout *v, int64_t value_dim, int n_keys)
{
    const int only_visible = hides(h) && !finite;
    if (only_visible && b->few)
        mix_few_visible(b, w->tile, h, v, value_dim, n_keys);
    else if (only_visible)
        mix_visible(b, w->tile, h, v, value_dim, n_keys);
    else if (b->few)
        mix_few(b, w->tile, v, value_dim, n_keys);
    else
        mix_values(b, w->tile, v, value_dim, n_keys);
    b->fresh = 0;
}

/* The keys [key, key + n_keys), whose K and V rows are k and v. finite: no V among them is NaN or infinite, or all of it is visible. */
INLINE void attend_keys(query_block *b, const attn_sdpa_job *job, const workspace *w, const row_layout *k, const row_layout *v, int64_t key,
                        int n_keys, int finite)
{
    const hiding h = find_hiding(w, b, job, key, n_keys);
    if (h.all)
        return;
    row_layout keys = *k;
    if (!b->few)
        keys.next = mask_of_next_block(job, b, key, n_keys);
    score(w, b, b->q, scale_of_scores(job), &keys, job->dim, n_keys);
    if (job->softcap > 0)
        cap_scores(w->tile, (real)job->softcap, n_keys * b->lanes);
    softmax_block(b, w->tile, &h, n_keys, job->value_dim);
    if (job->drops_out)
        drop_from_mix(w->tile, b, job, key, n_keys);
    mix(b, w, &h, finite, v, job->value_dim, n_keys);
}
