/* SPDX-License-Identifier: Apache-2.0 */
/* What is added to a tile of scores, and what hides a key. bias[key][lane] holds the sum of the masks, biases and ALiBi; HIDDEN there, and
   only there, says that the lane does not see the key. A sum that falls below the range stays the lowest real: a computed -inf hides
   nothing. */

#define LOWEST (-REAL_MAX) /* the running max before any key; finite, so that HIDDEN - LOWEST is -inf */

/* Is anything hidden from this block among these keys, or added to their scores? */
INLINE int needs_bias(const query_block *b, const attn_sdpa_job *job, int64_t key, int n_keys)
{
    return job->added[0].data || job->added[1].data || job->keep.data || job->slopes || key < b->max_from || key + n_keys > b->min_to;
}

/* How many of the keys [key, end), at most KEY_BLOCK, some lane may see by position and length. Those after are hidden from all. */
INLINE int keys_in_reach(const query_block *b, int64_t key, int64_t end)
{
    int64_t n = least(KEY_BLOCK, least(end, b->max_to) - key);
    return n <= 0 || key + n <= b->min_from ? 0 : (int)n;
}

INLINE vf add_visible(vf a, vf b)
{
    vf hidden = v_set1(HIDDEN);
    vb hides = v_or_b(v_equal(a, hidden), v_equal(b, hidden));
    return v_select(hides, hidden, v_max(v_set1(LOWEST), v_add(a, b)));
}

/* row[i] += matrix[key + i] */
INLINE void add_row(real *row, const attn_rows *m, int64_t offset, int n_keys)
{
    real converted[KEY_BLOCK];
    const real *src = converted;
    if (is_direct(m, n_keys))
        src = (const real *)m->data + offset;
    else
        convert_row(converted, m, offset, n_keys);
    for (int i = 0; i < n_keys; i += VL)
        v_store(row + i, add_visible(v_load(row + i), v_load_first(src + i, n_keys - i)));
}

INLINE void hide_row(real *row, const attn_sdpa_job *job, int64_t offset, int n_keys)
{
    const attn_rows *m = &job->keep;
    uint8_t copy[KEY_BLOCK];
    const uint8_t *keep = copy;
    if (m->column == 1 && attn_dtype_is_byte(m->dtype))
        keep = (const uint8_t *)m->data + offset;
    else
        for (int i = 0; i < n_keys; i++)
            copy[i] = attn_load_int(m->data, m->dtype, offset + i * m->column) != 0;
    for (int i = 0; i < n_keys; i += VL) {
        vf seen = v_load(row + i), hidden = v_set1(HIDDEN);
        v_store(row + i, job->keep_drops ? v_select_bytes(keep + i, n_keys - i, hidden, seen)
                                         : v_select_bytes(keep + i, n_keys - i, seen, hidden));
    }
}

/* row[i] += -slope |position - (key + i)| */
INLINE void add_alibi(real *row, real slope, real distance, int n_keys)
{
    for (int i = 0; i < n_keys; i += VL) {
        vf away = v_abs(v_sub(v_set1(distance), v_add(v_lane_numbers(), v_set1((real)i))));
        v_store(row + i, add_visible(v_load(row + i), v_mul(v_set1(-slope), away)));
    }
}

INLINE void hide_outside(real *row, real from, real to, int n_keys)
{
    for (int i = 0; i < n_keys; i += VL) {
        vf key = v_add(v_lane_numbers(), v_set1((real)i)), hidden = v_set1(HIDDEN);
        vf seen = v_select(v_greater(v_set1(to), key), v_load(row + i), hidden);
        v_store(row + i, v_select(v_greater(v_set1(from), key), hidden, seen));
    }
}

/* What is added to the scores of one lane. Offsets into the masks are those of its row and of `key`. */
INLINE void bias_of_row(real *row, const attn_sdpa_job *job, const query_block *b, int lane, int64_t key, int n_keys)
{
    const int64_t r = b->first + lane;
    for (int i = 0; i < n_keys; i += VL)
        v_store(row + i, v_zero());
    for (int i = 0; i < ATTN_MAX_ADDED; i++)
        if (job->added[i].data)
            add_row(row, &job->added[i], row_offset(&job->added[i], job->heads, r) + key * job->added[i].column, n_keys);
    if (job->slopes)
        add_alibi(row, (real)job->slopes[r % job->heads], (real)(lane_position(job, b, lane) - key), n_keys);
    if (job->keep.data)
        hide_row(row, job, row_offset(&job->keep, job->heads, r) + key * job->keep.column, n_keys);
    int64_t from = b->from[lane] - key, to = b->to[lane] - key;
    if (from > 0 || to < n_keys)
        hide_outside(row, (real)greatest(0, least(from, n_keys)), (real)greatest(0, least(to, n_keys)), n_keys);
}

KERNEL void make_bias(const workspace *w, const query_block *b, const attn_sdpa_job *job, int64_t key, int n_keys)
{
    for (int lane = 0; lane < b->count; lane++)
        bias_of_row(w->rows + lane * KEY_BLOCK, job, b, lane, key, n_keys);
    row_layout rows = { .data = w->rows, .position = KEY_BLOCK, .heads = 1 };
    rows_to_lanes(w->bias, b->lanes, &rows, b->count, n_keys, 1);
}

/* A hidden pair becomes HIDDEN whatever its score is (NaN included). */
KERNEL void add_bias(real *scores, const real *bias, int64_t n)
{
    for (int64_t i = 0; i < n; i += VL) {
        vf hidden = v_set1(HIDDEN), add = v_load(bias + i);
        v_store(scores + i, v_select(v_equal(add, hidden), hidden, v_add(v_load(scores + i), add)));
    }
}

/* scores -> cap * tanh(scores / cap) */
KERNEL void cap_scores(real *scores, real cap, int64_t n)
{
    for (int64_t i = 0; i < n; i += VL)
        v_store(scores + i, v_mul(v_set1(cap), v_tanh(v_div(v_load(scores + i), v_set1(cap)))));
}

/* Does the lane see any key? Asked only of rows whose sum came out as 0: nothing visible, or nothing but scores of -inf. */
INLINE int sees_any(const workspace *w, const query_block *b, const attn_sdpa_job *job, int lane)
{
    for (int64_t key = b->from[lane] / KEY_BLOCK * KEY_BLOCK; key < b->to[lane]; key += KEY_BLOCK) {
        int n_keys = (int)least(KEY_BLOCK, job->n_keys - key);
        bias_of_row(w->rows, job, b, lane, key, n_keys);
        for (int i = 0; i < n_keys; i++)
            if (w->rows[i] != HIDDEN)
                return 1;
    }
    return 0;
}

/* Dropout of a tile of weights: times 1/(1-p) or 0. */
KERNEL void drop_out(real *weights, const query_block *b, const attn_sdpa_job *job, int64_t key, int n_keys)
{
    const real kept = job->dropout < 1 ? (real)(1 / (1 - job->dropout)) : 0;
    for (int lane = 0; lane < b->count; lane++) {
        int64_t r = b->first + lane, head = r % job->heads, position = r / job->heads;
        int64_t at = row_offset(&job->dropout_keep, job->heads, r);
        attn_drop_row row = attn_drop_row_of(job->seed, job->drop_batch, job->drop_head + head, job->drop_row + position);
        for (int i = 0; i < n_keys; i++) {
            int keeps = job->dropout_keep.data
                            ? attn_load_int(job->dropout_keep.data, job->dropout_keep.dtype, at + (key + i) * job->dropout_keep.column) != 0
                            : attn_drop_keeps(&row, key + i, job->dropout);
            weights[i * b->lanes + lane] = keeps ? weights[i * b->lanes + lane] * kept : 0;
        }
    }
}
