/* SPDX-License-Identifier: Apache-2.0 */
/* What may be seen of a block besides its output: the stages, the weights, and what is summed from them. The tiles are computed a second
   time, by the same steps, when the max and sum of every lane are known; so the fast path pays nothing and nothing of size Lq x Lk is
   held. */

INLINE int wants_trace(const attn_sdpa_job *job)
{
    return job->scores.data || job->scaled.data || job->capped.data || job->masked.data || job->weights.data || job->mass.data ||
           job->row_max.data || job->entropy.data;
}

/* Any NaN becomes the one NaN and any zero +0, as in lanes_to_rows: a score of -0 becomes +0 where its block adds a bias. */
INLINE real settled(real x) { return x == x ? x + 0 : (real)NAN; }

/* to[position][head][key + i] = tile[i][lane], or added to with `average` (0: set) */
KERNEL void store_tile(const attn_rows *to, const query_block *b, const attn_sdpa_job *job, const real *tile, int64_t key, int n_keys,
                       real average)
{
    if (!to->data)
        return;
    for (int lane = 0; lane < b->count; lane++) {
        real *row = (real *)to->data + row_offset(to, job->heads, b->first + lane) + key * to->column;
        for (int i = 0; i < n_keys; i++) {
            real *cell = row + i * to->column, x = tile[i * b->lanes + lane];
            *cell = settled(average != 0 ? *cell + average * x : x);
        }
    }
}

/* What a lane gathers over all keys. */
typedef struct row_trace {
    real inverse[BLOCK_LANES]; /* 1 / sum; of a row without a sum what finish_block decided, 0 or NaN */
    real top[BLOCK_LANES];    /* the greatest visible masked score */
    real seen[BLOCK_LANES];   /* sum of the weights */
    real spread[BLOCK_LANES]; /* sum of weight * (max - score) */
} row_trace;

/* masked scores -> weights before dropout, in place; gathers */
KERNEL void trace_weights(const query_block *b, real *tile, const hiding *h, row_trace *t, int n_keys)
{
    for (int i = 0; i < n_keys; i++)
        for (int64_t j = 0; j < b->lanes; j += VL) {
            real *cell = tile + i * b->lanes + j;
            vf score = v_load(cell), max = v_load(b->total.max + j), zero = v_zero();
            vb hidden = v_equal(added_to(h, b->lanes, i, j), v_set1(HIDDEN));
            vf weight = v_select(hidden, zero, v_mul(exp_of_difference(score, max), v_load(t->inverse + j)));
            vf spread = v_select(v_equal(weight, zero), zero, v_mul(weight, v_sub(max, score)));
            v_store(cell, weight);
            v_store(t->top + j, v_select(hidden, v_load(t->top + j), v_max(v_load(t->top + j), score)));
            v_store(t->seen + j, v_add(v_load(t->seen + j), weight));
            v_store(t->spread + j, v_add(v_load(t->spread + j), spread));
        }
}

/* mass[head][key] += the weights of the block's rows, in their order */
KERNEL void add_mass(const query_block *b, const attn_sdpa_job *job, const real *weights, int64_t key, int n_keys)
{
    if (!job->mass.data)
        return;
    for (int i = 0; i < n_keys; i++)
        for (int64_t head = 0; head < least(job->heads, b->count); head++) {
            double sum = 0;
            for (int64_t lane = head; lane < b->count; lane += job->heads)
                sum += (double)weights[i * b->lanes + lane];
            int64_t h = (b->first + head) % job->heads;
            ((real *)job->mass.data)[h * job->mass.head + (key + i) * job->mass.column] += (real)sum;
        }
}

/* One tile: its stages are stored, its weights traced. */
INLINE void trace_keys(const query_block *b, const attn_sdpa_job *job, const workspace *w, const real *raw_q, row_trace *t, int64_t key,
                       int n_keys)
{
    const int64_t cells = n_keys * b->lanes;
    row_layout k = rows_of_keys(job, w, key, n_keys, 0, 0);
    if (job->scores.data) {
        score(w, b, raw_q, 1, &k, job->dim, n_keys);
        store_tile(&job->scores, b, job, w->tile, key, n_keys, 0);
    }
    score(w, b, b->q, scale_of_scores(job), &k, job->dim, n_keys);
    store_tile(&job->scaled, b, job, w->tile, key, n_keys, 0);
    if (job->softcap > 0)
        cap_scores(w->tile, (real)job->softcap, cells);
    store_tile(&job->capped, b, job, w->tile, key, n_keys, 0);
    const hiding h = find_hiding(w, b, job, key, n_keys);
    hide_scores(w->tile, &h, b->lanes, n_keys);
    store_tile(&job->masked, b, job, w->tile, key, n_keys, 0);
    trace_weights(b, w->tile, &h, t, n_keys);
    if (job->drops_out)
        drop_out(w->tile, b, job, key, n_keys);
    store_tile(&job->weights, b, job, w->tile, key, n_keys, (real)job->average);
    add_mass(b, job, w->tile, key, n_keys);
}

/* A block that finish_block has left, with the factors of its lanes in now.sum. All keys of the arrays, hidden ones too. */
INLINE void trace_block(const query_block *b, const attn_sdpa_job *job, const workspace *w)
{
    row_trace t;
    for (int64_t j = 0; j < b->lanes; j += VL) {
        vf sum = v_load(exact_sums(b) + j), factor = v_load(b->now.sum + j);
        vf inverse = v_select(v_equal(sum, v_zero()), factor, v_div(v_set1(1), sum));
        v_store(t.inverse + j, inverse);
        v_store(t.top + j, v_set1(HIDDEN));
        v_store(t.seen + j, v_zero());
        v_store(t.spread + j, v_zero());
    }
    const real *raw_q = job->scores.data ? raw_queries(b, job, w) : NULL;
    for (int64_t key = 0; key < job->n_keys; key += KEY_BLOCK)
        trace_keys(b, job, w, raw_q, &t, key, (int)least(KEY_BLOCK, job->n_keys - key));
    for (int lane = 0; lane < b->count; lane++) {
        if (job->row_max.data)
            ((real *)job->row_max.data)[row_offset(&job->row_max, job->heads, b->first + lane)] = settled(t.top[lane]);
        if (job->entropy.data)
            ((real *)job->entropy.data)[row_offset(&job->entropy, job->heads, b->first + lane)] =
                (real)attn_entropy(t.seen[lane], t.spread[lane], exact_sums(b)[lane]);
    }
}
