/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of rows swept over the keys. The keys are cut in pieces at multiples of PIECE from key 0, whatever the call; each piece has a max,
   sum and out of its own, and pieces are merged in order. A piece or key block that hides all its keys from a row changes nothing in it. */

/* Before the first key of a piece. The first mix of a piece overwrites out. */
INLINE void start_piece(query_block *b)
{
    for (int64_t lane = 0; lane < b->lanes; lane += VL)
        v_store(b->now.max + lane, v_set1(LOWEST));
    for (int64_t i = 0; i < SUMS * b->lanes; i += VL)
        v_store(b->now.sum + i, v_zero());
    b->fresh = 1;
}

/* total += now, both scaled to the greater max */
KERNEL void merge_lanes(const query_block *block, int64_t value_dim)
{
    const lane_state total = block->total, now = block->now;
    for (int64_t lane = 0; lane < block->lanes; lane += VL) {
        vf a = v_load(total.max + lane), b = v_load(now.max + lane), max = v_max(a, b);
        vf a_factor = exp_of_difference(a, max), b_factor = exp_of_difference(b, max);
        v_store(total.max + lane, max);
        for (int64_t i = lane; i < SUMS * block->lanes; i += block->lanes)
            v_store(total.sum + i, v_fma(v_load(now.sum + i), b_factor, v_mul(v_load(total.sum + i), a_factor)));
        if (block->few) {
            merge_few(block, lane, a_factor, b_factor, value_dim);
            continue;
        }
        for (int64_t i = lane; i < value_dim * block->lanes; i += block->lanes)
            v_store(total.out + i, v_fma(v_load(now.out + i), b_factor, v_mul(v_load(total.out + i), a_factor)));
    }
}

/* The first piece becomes the total as it is. */
INLINE void end_piece(query_block *b, int64_t value_dim)
{
    if (b->fresh)
        return;
    if (b->pieces++ == 0) {
        lane_state other = b->total;
        b->total = b->now;
        b->now = other;
    } else {
        merge_lanes(b, value_dim);
    }
}

/* A sink joins the denominator: total.max and total.sum take it in, and what out must be multiplied by to follow is returned in factor.
   A row past q_len is no row and has no sink. */
INLINE void add_sinks(const query_block *b, const attn_sdpa_job *job, real *factor)
{
    for (int lane = 0; lane < b->lanes; lane++) {
        int64_t row = b->first + least(lane, b->count - 1);
        factor[lane] = row / job->heads < job->q_len ? (real)job->sinks[row % job->heads] : HIDDEN;
    }
    for (int64_t lane = 0; lane < b->lanes; lane += VL) {
        vf sink = v_load(factor + lane), old = v_load(b->total.max + lane), max = v_max(old, sink);
        vf shrink = exp_of_difference(old, max);
        v_store(b->total.max + lane, max);
        for (int64_t i = lane; i < SUMS * b->lanes; i += b->lanes)
            v_store(b->total.sum + i, v_fma(v_load(b->total.sum + i), shrink, exp_of_difference(sink, max)));
        v_store(factor + lane, shrink);
    }
}

/* factor[lane] * mixed / sum[lane] as out_factors; 0 where the sum is 0. The quotient is taken a little too small, so that the rest is
   above 0: an infinite output times it must not be NaN, or an infinity of the other sign. */
INLINE void divide_by_sums(real *factor, real *rest, real mixed, const real *sums, int64_t lanes)
{
    const vf zero = v_zero();
    for (int64_t lane = 0; lane < lanes; lane += VL) {
        const vf sum = v_load(sums + lane), numerator = v_mul(v_load(factor + lane), v_set1(mixed));
        const vf quotient = v_mul(v_div(numerator, sum), v_set1(1 - REAL_EPSILON));
        const vb none = v_equal(sum, zero);
        v_store(factor + lane, v_select(none, zero, quotient));
        v_store(rest + lane, v_select(none, zero, v_div(v_fma(v_sub(zero, quotient), sum, numerator), sum)));
    }
}

/* out / sum. A sum of 0 is a row that sees nothing, output 0, or only scores of -inf, output NaN. */
INLINE void finish_block(query_block *b, const attn_sdpa_job *job, const workspace *w)
{
    lane_state t = b->total;
    real *factor = b->now.sum, *rest = b->now.max;
    if (b->pieces == 0) {
        for (int64_t i = 0; i < job->value_dim * b->lanes; i += VL)
            v_store(t.out + i, v_zero());
        for (int64_t lane = 0; lane < b->lanes; lane += VL)
            v_store(t.max + lane, v_set1(LOWEST));
        for (int64_t i = 0; i < SUMS * b->lanes; i += VL)
            v_store(t.sum + i, v_zero());
    }
    for (int64_t lane = 0; lane < b->lanes; lane += VL)
        v_store(factor + lane, v_set1(1));
    if (job->sinks)
        add_sinks(b, job, factor);
    divide_by_sums(factor, rest, after_mix(job), t.sum, b->lanes);
    for (int lane = 0; lane < b->count; lane++)
        if (t.sum[lane] == 0 && sees_any(w, b, job, lane))
            factor[lane] = (real)NAN;
    store_output(job, w, b, (out_factors){ .factor = factor, .rest = rest });
    if (job->lse.data)
        for (int lane = 0; lane < b->count; lane++)
            ((real *)job->lse.data)[row_offset(&job->lse, job->heads, b->first + lane)] =
                (real)attn_log_sum(t.max[lane], exact_sums(b)[lane]);
}

/* Must memory be asked for the next key block? Where K and V are in L2 anyway, asking only costs. */
INLINE int waits_for_memory(const query_block *b, const attn_sdpa_job *job)
{
    return b->lanes <= FEW_ROWS && job->n_keys * (job->dim + job->value_dim) * attn_float_size(job->k.dtype) > L2_BYTES;
}

/* Are the keys of a block that is alone widened on their way into its tiles, or once before? Late pays up to FEW_ROWS rows; the tiles of
   score_keys, where K's elements are scalars, cannot. */
INLINE int widens_keys_late(const query_block *b, const attn_sdpa_job *job)
{
    return b->count <= FEW_ROWS && job->dim % VL == 0 && (b->free || scores_by_keys(b, kind_of(job->k.dtype)));
}

/* The keys [key, end) of one piece, for all blocks. */
INLINE void attend_piece(query_block *block, int n, const attn_sdpa_job *job, const workspace *w, int64_t key, int64_t end)
{
    const int ahead = n == 1 && waits_for_memory(block, job);
    for (int i = 0; i < n; i++)
        start_piece(&block[i]);
    for (; key < end; key += KEY_BLOCK) {
        int hides = 0, n_keys = 0;
        for (int i = 0; i < n; i++) {
            int seen = keys_in_reach(&block[i], key, end);
            n_keys = (int)greatest(n_keys, seen);
            hides |= seen && may_hide(&block[i], job, key, seen);
        }
        if (n_keys == 0)
            continue;
        row_layout k = rows_of_keys(job, w, key, n_keys, n == 1 && widens_keys_late(block, job), ahead);
        row_layout v = rows_of_values(job, w, key, n_keys, n == 1 && block->few, ahead);
        int finite = !hides || values_finite(&v, job->value_dim, n_keys);
        for (int i = 0; i < n; i++) {
            int seen = keys_in_reach(&block[i], key, end);
            if (seen)
                attend_keys(&block[i], job, w, &k, &v, key, seen, finite);
        }
    }
}

static int64_t sdpa_unit(void) { return SWEEP_ROWS; }

/* The reals of each array of the workspace, in its order. */
INLINE int64_t tile_reals(void) { return KEY_BLOCK * BLOCK_LANES; }
INLINE int64_t bits_words(void) { return tile_reals() / WORD_BITS; }
INLINE int64_t rows_reals(const attn_sdpa_job *job)
{
    return BLOCK_LANES * greatest(KEY_BLOCK, greatest(round_up(job->dim, VL), round_up(job->value_dim, VL)));
}
INLINE int64_t raw_q_reals(const attn_sdpa_job *job) { return PAIR > 1 ? 0 : BLOCK_LANES * round_up(job->dim, VL); }
INLINE int64_t k_reals(const attn_sdpa_job *job) { return KEY_BLOCK * job->dim; }
INLINE int64_t v_reals(const attn_sdpa_job *job) { return KEY_BLOCK / PAIR * round_up(job->value_dim, VL); }
INLINE int64_t keys_across_reals(const attn_sdpa_job *job) { return FEW_KEYS * (round_up(job->dim, VL) + VL); }
INLINE int64_t workspace_bytes(const attn_sdpa_job *job)
{
    int64_t reals = 2 * tile_reals() + bits_words() + rows_reals(job) + keys_across_reals(job) + raw_q_reals(job) +
                    k_reals(job) + v_reals(job);
    return round_up(reals * (int64_t)sizeof(real), 64);
}

static int64_t sdpa_scratch(const attn_sdpa_job *job)
{
    return workspace_bytes(job) + MAX_BLOCKS * block_bytes(job->dim, job->value_dim);
}

INLINE workspace workspace_at(const attn_sdpa_job *job, void *scratch)
{
    workspace w = { .tile = scratch };
    w.bias = w.tile + tile_reals();
    w.bits = (word *)(w.bias + tile_reals());
    w.rows = w.bias + tile_reals() + bits_words();
    w.keys_across = w.rows + rows_reals(job);
    w.raw_q = w.keys_across + keys_across_reals(job);
    w.k = w.raw_q + raw_q_reals(job);
    w.v = w.k + k_reals(job);
    return w;
}

/* Up to SWEEP_ROWS rows from `first` on; returns the first row after them. */
INLINE int64_t sweep(const attn_sdpa_job *job, const workspace *w, int64_t first, int64_t end, char *memory)
{
    query_block block[MAX_BLOCKS];
    int64_t from = INT64_MAX, to = 0;
    int n = 0;
    for (; n < MAX_BLOCKS && first < end; first += block[n++].count) {
        start_block(&block[n], job, w, first, end, memory);
        block[n].few = has_few_rows(&block[n], job->value_dim);
        memory += block_bytes(job->dim, job->value_dim);
        from = least(from, block[n].min_from);
        to = greatest(to, block[n].max_to);
    }
    for (int64_t piece = from / PIECE * PIECE; piece < to; piece += PIECE) {
        attend_piece(block, n, job, w, piece, least(job->n_keys, piece + PIECE));
        for (int i = 0; i < n; i++)
            end_piece(&block[i], job->value_dim);
    }
    for (int i = 0; i < n; i++) {
        finish_block(&block[i], job, w);
        if (wants_trace(job))
            trace_block(&block[i], job, w);
    }
    return first;
}

static void sdpa_rows(const attn_sdpa_job *job, int64_t first, int64_t end, void *scratch)
{
    const workspace w = workspace_at(job, scratch);
    char *memory = (char *)scratch + workspace_bytes(job);
    while (first < end)
        first = sweep(job, &w, first, end, memory);
}

/* ---- few rows, cut along the keys ---- */

/* What a piece leaves: an int that says whether any row saw any of its keys, and a lane_state. */
enum { STATE_HEAD = 64 }; /* bytes before the lane_state, which keep it aligned */

static int64_t sdpa_block(void) { return BLOCK_LANES; }
static int64_t sdpa_pieces(const attn_sdpa_job *job) { return (job->n_keys + PIECE - 1) / PIECE; }
static int64_t sdpa_state(const attn_sdpa_job *job)
{
    const int64_t lanes = round_up(job->positions * job->heads, VL);
    return round_up(STATE_HEAD + (round_up(job->value_dim, VL) + 1 + SUMS) * lanes * (int64_t)sizeof(real), 64);
}

INLINE query_block only_block(const attn_sdpa_job *job, const workspace *w, void *scratch)
{
    query_block b;
    start_block(&b, job, w, 0, job->positions * job->heads, (char *)scratch + workspace_bytes(job));
    b.few = has_few_rows(&b, job->value_dim);
    return b;
}

static void sdpa_piece(const attn_sdpa_job *job, int64_t piece, void *state, void *scratch)
{
    const workspace w = workspace_at(job, scratch);
    const int64_t from = piece * PIECE, to = least(job->n_keys, from + PIECE);
    query_block b = only_block(job, &w, scratch);
    place_state(&b.now, (real *)((char *)state + STATE_HEAD), b.lanes, job->value_dim);
    start_piece(&b);
    if (from < b.max_to && to > b.min_from)
        attend_piece(&b, 1, job, &w, from, to);
    *(int *)state = !b.fresh;
}

static void sdpa_join(const attn_sdpa_job *job, void *states, void *scratch)
{
    const workspace w = workspace_at(job, scratch);
    query_block b = only_block(job, &w, scratch);
    const lane_state own = b.now;
    for (int64_t piece = 0; piece < sdpa_pieces(job); piece++) {
        char *state = (char *)states + piece * sdpa_state(job);
        place_state(&b.now, (real *)(state + STATE_HEAD), b.lanes, job->value_dim);
        b.fresh = !*(const int *)(const void *)state;
        end_piece(&b, job->value_dim);
    }
    b.now = own;
    finish_block(&b, job, &w);
    if (wants_trace(job))
        trace_block(&b, job, &w);
}
