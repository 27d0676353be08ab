/* SPDX-License-Identifier: Apache-2.0 */
/* What hides keys from rows, and what is added to scores. Hiding by position, lengths and the bool mask is one bit for each pair; float
   masks, biases and ALiBi are a tile that is added, where HIDDEN, and only HIDDEN, hides the pair too. A sum that falls below the range
   stays the lowest real: a computed -inf hides nothing. */

#define LOWEST (-REAL_MAX) /* the running max before any key; finite, so that HIDDEN - LOWEST is -inf */

/* A key block as a block of rows sees it. */
typedef struct hiding {
    const word *bits; /* [KEY_BLOCK / WORD_BITS][lanes], 1 = seen; NULL: all is */
    const real *bias; /* [key][lanes]; NULL: nothing is added */
    int all;          /* all of it is hidden from all rows */
} hiding;

/* Do all rows of the block look at these keys by position and length? */
INLINE int is_inside(const query_block *b, int64_t key, int n_keys) { return key >= b->max_from && key + n_keys <= b->min_to; }

INLINE int adds_bias(const attn_sdpa_job *job) { return job->added[0].data || job->added[1].data || job->slopes; }

/* May anything be hidden from this block among these keys, or added to their scores? */
INLINE int may_hide(const query_block *b, const attn_sdpa_job *job, int64_t key, int n_keys)
{
    return adds_bias(job) || job->keep.data || !is_inside(b, key, n_keys);
}

/* How many of the keys [key, end), at most KEY_BLOCK, some lane may see by position and length. Those after are hidden from all. */
INLINE int keys_in_reach(const query_block *b, int64_t key, int64_t end)
{
    int64_t n = least(KEY_BLOCK, least(end, b->max_to) - key);
    return n <= 0 || key + n <= b->min_from ? 0 : (int)n;
}

/* ---- what hides by bits ---- */

INLINE word first_bits(int64_t n) { return n <= 0 ? 0 : n >= WORD_BITS ? ~(word)0 : ((word)1 << n) - 1; }

/* Which integers from element `offset` on are not 0. n <= WORD_BITS. */
INLINE word kept_keys(const attn_rows *m, int64_t offset, int n)
{
    uint8_t kept[WORD_BITS];
    for (int i = 0; i < n; i++)
        kept[i] = attn_load_int(m->data, m->dtype, offset + i * m->column) != 0;
    return nonzero_bytes(kept, n);
}

/* bits[i * step]: which of the keys [key + i * WORD_BITS, ...) the lane sees by the bool mask, and did before; n_keys in all. */
INLINE void keep_keys(word *bits, int64_t step, const attn_sdpa_job *job, const query_block *b, int lane, int64_t key, int n_keys)
{
    const attn_rows *m = &job->keep;
    const int64_t offset = row_offset(m, job->heads, b->first + lane) + key * m->column;
    const uint8_t *bytes = (const uint8_t *)m->data + offset;
    const word flip = job->keep_drops ? ~(word)0 : 0;
    const int direct = m->column == 1 && attn_dtype_is_byte(m->dtype);
    int i = 0;
    for (; direct && i + WORD_BITS <= n_keys; i += WORD_BITS, bits += step)
        *bits &= v_nonzero_bytes(bytes + i) ^ flip;
    for (; i < n_keys; i += WORD_BITS, bits += step)
        *bits &= kept_keys(m, offset + i * m->column, (int)least(WORD_BITS, n_keys - i)) ^ flip;
    for (i = 0; direct && b->few && i < KEY_BLOCK; i += LINE_BYTES) /* for the next key block */
        v_prefetch(bytes + n_keys + i);
}

/* The same by position, lengths and the bool mask. */
INLINE void seen_keys(word *bits, int64_t step, const attn_sdpa_job *job, const query_block *b, int lane, int64_t key, int n_keys)
{
    const key_range allowed = keys_allowed(job, position_of(job->heads, b->first + lane));
    const int64_t from = allowed.from - key, to = least(allowed.to - key, n_keys);
    for (int i = 0; i < n_keys; i += WORD_BITS)
        bits[i / WORD_BITS * step] = first_bits(to - i) & ~first_bits(from - i);
    if (job->keep.data)
        keep_keys(bits, step, job, b, lane, key, n_keys);
}

/* Fills w->bits. h: NULL bits if all is seen, `all` if nothing is. Lanes without a row see nothing. */
KERNEL void find_bits(hiding *h, const workspace *w, const query_block *b, const attn_sdpa_job *job, int64_t key, int n_keys)
{
    word any = 0, missing = 0;
    for (int lane = 0; lane < b->count; lane++)
        seen_keys(w->bits + lane, b->lanes, job, b, lane, key, n_keys);
    for (int i = 0; i < n_keys; i += WORD_BITS) {
        word *bits = w->bits + i / WORD_BITS * b->lanes;
        for (int lane = 0; lane < b->count; lane++) {
            missing |= bits[lane] ^ first_bits(n_keys - i);
            any |= bits[lane];
        }
        for (int lane = b->count; lane < b->lanes; lane++)
            bits[lane] = 0;
    }
    h->bits = missing ? w->bits : NULL;
    h->all = !any;
}

/* ---- what is added ---- */

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

/* row[i] += -slope |position - (key + i)| */
INLINE void add_alibi(real *row, real slope, real distance, int n_keys)
{
    for (int i = 0; i < n_keys; i += VL) {
        vf away = v_abs(v_sub(v_set1(distance), v_add(v_lane_numbers(), v_set1((real)i))));
        v_store(row + i, add_visible(v_load(row + i), v_mul(v_set1(-slope), away)));
    }
}

/* What is added to the scores of one lane. */
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
}

/* Fills w->bias. One float mask or bias alone goes into lanes from where it is. */
KERNEL void make_bias(const workspace *w, const query_block *b, const attn_sdpa_job *job, int64_t key, int n_keys)
{
    row_layout rows = { .data = w->rows, .position = KEY_BLOCK, .heads = 1 };
    if (job->added[0].data && !job->added[1].data && !job->slopes) {
        attn_rows from_key = job->added[0];
        from_key.data = (char *)from_key.data + key * from_key.column * attn_float_size(from_key.dtype);
        rows = as_reals(&from_key, job->heads, b->first, b->count, n_keys, w->rows);
        for (int lane = 0; b->few && lane < b->count && rows.data != w->rows; lane++)
            for (int i = 0; i < n_keys; i += LINE) /* for the next key block */
                v_prefetch(layout_row(&rows, lane) + n_keys + i);
    } else {
        for (int lane = 0; lane < b->count; lane++)
            bias_of_row(w->rows + lane * KEY_BLOCK, job, b, lane, key, n_keys);
    }
    rows_to_lanes(w->bias, b->lanes, &rows, b->count, n_keys, 1);
}

INLINE int hides_all(const real *bias, const query_block *b, int n_keys)
{
    for (int i = 0; i < n_keys; i++)
        for (int lane = 0; lane < b->count; lane++)
            if (bias[i * b->lanes + lane] != HIDDEN)
                return 0;
    return 1;
}

/* ---- both ---- */

/* The first mask's rows of the block after this one, among the same keys: with all blocks of a sweep in between, those of the next keys
   would not stay in L2. */
INLINE request mask_of_next_block(const attn_sdpa_job *job, const query_block *b, int64_t key, int n_keys)
{
    const attn_rows *m = job->keep.data ? &job->keep : &job->added[0];
    const int64_t size = attn_dtype_is_byte(m->dtype) ? 1 : attn_float_size(m->dtype);
    const int64_t position = position_of(job->heads, b->first + b->count);
    if (!m->data || m->column != 1 || (job->heads > 1 && m->head))
        return (request){ 0 };
    return (request){ .next = (const char *)m->data + (position * m->position + key) * size, .row = m->position * size,
                      .lines = (n_keys * size + LINE_BYTES - 1) / LINE_BYTES,
                      .rows = greatest(0, least(position_of(job->heads, b->lanes + job->heads - 1), job->positions - position)) };
}

INLINE hiding find_hiding(const workspace *w, const query_block *b, const attn_sdpa_job *job, int64_t key, int n_keys)
{
    hiding h = { 0 };
    if (job->keep.data || !is_inside(b, key, n_keys))
        find_bits(&h, w, b, job, key, n_keys);
    if (h.all || !adds_bias(job))
        return h;
    make_bias(w, b, job, key, n_keys);
    return (hiding){ .bits = h.bits, .bias = w->bias, .all = hides_all(w->bias, b, n_keys) };
}

INLINE int hides(const hiding *h) { return h->bits || h->bias; }

INLINE vf only_seen(const hiding *h, int64_t lanes, int i, int64_t lane, vf x)
{
    return v_select_bit(h->bits + i / WORD_BITS * lanes + lane, i % WORD_BITS, x, v_set1(HIDDEN));
}

/* What is added to the scores of key i and the lanes from `lane` on: HIDDEN where the pair is hidden. */
INLINE vf added_to(const hiding *h, int64_t lanes, int i, int64_t lane)
{
    const vf added = h->bias ? v_load(h->bias + i * lanes + lane) : v_zero();
    return h->bits ? only_seen(h, lanes, i, lane, added) : added;
}

INLINE int is_seen(const hiding *h, int64_t lanes, int i, int64_t lane)
{
    return (!h->bits || h->bits[i / WORD_BITS * lanes + lane] >> i % WORD_BITS & 1) && (!h->bias || h->bias[i * lanes + lane] != HIDDEN);
}

/* A score and what is added to it; HIDDEN whatever the score is (NaN included) where the pair is hidden. */
INLINE vf biased_score(vf score, vf add)
{
    vf hidden = v_set1(HIDDEN);
    return v_select(v_equal(add, hidden), hidden, v_add(score, add));
}

/* What h hides and adds, in place. */
KERNEL void hide_scores(real *scores, const hiding *h, int64_t lanes, int n_keys)
{
    for (int i = 0; i < n_keys && hides(h); i++)
        for (int64_t j = 0; j < lanes; j += VL) {
            real *cell = scores + i * lanes + j;
            v_store(cell, biased_score(v_load(cell), added_to(h, lanes, i, j)));
        }
}

/* Does the lane see any key? Asked only of rows whose sum came out as 0: nothing visible, or nothing but scores of -inf. */
INLINE int sees_any(const workspace *w, const query_block *b, const attn_sdpa_job *job, int lane)
{
    const key_range allowed = keys_allowed(job, position_of(job->heads, b->first + lane));
    for (int64_t key = allowed.from / KEY_BLOCK * KEY_BLOCK; key < allowed.to; key += KEY_BLOCK) {
        const int n_keys = (int)least(KEY_BLOCK, job->n_keys - key);
        bias_of_row(w->rows, job, b, lane, key, n_keys);
        seen_keys(w->bits, 1, job, b, lane, key, n_keys);
        for (int i = 0; i < n_keys; i++)
            if (w->rows[i] != HIDDEN && w->bits[i / WORD_BITS] >> i % WORD_BITS & 1)
                return 1;
    }
    return 0;
}

/* scores -> cap * tanh(scores / cap) */
KERNEL void cap_scores(real *scores, real cap, int64_t n)
{
    for (int64_t i = 0; i < n; i += VL)
        v_store(scores + i, v_mul(v_set1(cap), v_tanh(v_div(v_load(scores + i), v_set1(cap)))));
}

/* What dropout knows of row r of the job. */
typedef struct dropout_row {
    attn_drop_row random;
    int64_t given; /* where its part of the given keep mask begins */
} dropout_row;

INLINE dropout_row dropout_row_of(const attn_sdpa_job *job, int64_t r)
{
    const int64_t head = r % job->heads, position = r / job->heads;
    return (dropout_row){ .random = attn_drop_row_of(job->seed, job->drop_batch, job->drop_head + head, job->drop_row + position),
                          .given = row_offset(&job->dropout_keep, job->heads, r) };
}
INLINE int is_kept(dropout_row *row, const attn_sdpa_job *job, int64_t key)
{
    const attn_rows *given = &job->dropout_keep;
    return given->data ? attn_load_int(given->data, given->dtype, row->given + key * given->column) != 0
                       : attn_drop_keeps(&row->random, key, job->dropout);
}
INLINE real kept_factor(const attn_sdpa_job *job) { return job->dropout < 1 ? (real)(1 / (1 - job->dropout)) : 0; }

/* Dropout of a tile of weights: times 1/(1-p) or 0. */
KERNEL void drop_out(real *weights, const query_block *b, const attn_sdpa_job *job, int64_t key, int n_keys)
{
    const real kept = kept_factor(job);
    for (int lane = 0; lane < b->count; lane++) {
        dropout_row row = dropout_row_of(job, b->first + lane);
        for (int i = 0; i < n_keys; i++)
            weights[i * b->lanes + lane] = is_kept(&row, job, key + i) ? weights[i * b->lanes + lane] * kept : 0;
    }
}
