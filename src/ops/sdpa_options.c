/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of the options of attn_sdpa and what they come to. */
#include "sdpa_plan.h"

#include "../core/tensor.h"
#include "../kernels/convert.h"
#include <float.h>
#include <math.h>

enum { KNOWN_FLAGS = ATTN_CAUSAL | ATTN_SCALE | ATTN_WINDOW | ATTN_OFFSET | ATTN_ALIBI | ATTN_MASK_DROP | ATTN_AVERAGE | ATTN_RELAXED };

static int64_t integer_at(const attn_tensor *t, int64_t i)
{
    return attn_load_int(t->data, t->dtype, t->shape[0] == 1 ? 0 : i * t->stride[0]);
}

static int has(const attn_plan *p, uint32_t flag) { return (p->opts.flags & flag) != 0; }
static int has_alibi(const attn_plan *p) { return has(p, ATTN_ALIBI) || p->opts.alibi_slopes; }

static attn_status check_numbers(attn_ctx *ctx, const attn_plan *p)
{
    const attn_sdpa_opts *o = &p->opts;
    if (o->flags & ~(uint32_t)KNOWN_FLAGS)
        return attn_fail(ctx, ATTN_E_ARG, "flags has unknown bits 0x%x", o->flags & ~(uint32_t)KNOWN_FLAGS);
    if (has(p, ATTN_SCALE) && !isfinite(o->scale))
        return attn_fail(ctx, ATTN_E_ARG, "scale is %g; it must be finite", o->scale);
    if (!(o->softcap >= 0) || !isfinite(o->softcap))
        return attn_fail(ctx, ATTN_E_ARG, "softcap is %g; it must be positive and finite, or 0 for none", o->softcap);
    if (!(o->dropout >= 0 && o->dropout <= 1))
        return attn_fail(ctx, ATTN_E_ARG, "dropout is %g; it must be a probability from 0 to 1", o->dropout);
    if (o->first_batch < 0 || o->first_head < 0 || o->first_row < 0 || o->first_batch > ATTN_FAR || o->first_head > ATTN_FAR ||
        o->first_row > ATTN_FAR)
        return attn_fail(ctx, ATTN_E_ARG, "first_batch, first_head and first_row are %lld, %lld, %lld; none may be negative or beyond 2^61",
                         (long long)o->first_batch, (long long)o->first_head, (long long)o->first_row);
    if (has(p, ATTN_WINDOW) && (o->window_left < -1 || o->window_right < -1))
        return attn_fail(ctx, ATTN_E_ARG, "window is (%lld,%lld); each side is a count of keys, or -1 for open", (long long)o->window_left,
                         (long long)o->window_right);
    if ((unsigned)o->align > ATTN_ALIGN_BOTTOM_RIGHT)
        return attn_fail(ctx, ATTN_E_ARG, "align is %d; it must be ATTN_ALIGN_DEFAULT, _TOP_LEFT or _BOTTOM_RIGHT", (int)o->align);
    if (has(p, ATTN_OFFSET) && o->offsets)
        return attn_fail(ctx, ATTN_E_ARG, "offset and offsets are both given; one offset for all items or one for each");
    if (o->keep && !(o->dropout > 0))
        return attn_fail(ctx, ATTN_E_ARG,
                         "keep is given but dropout is 0; give the probability p, since kept weights are divided by 1 - p");
    if (has(p, ATTN_AVERAGE) && !o->weights)
        return attn_fail(ctx, ATTN_E_ARG, "ATTN_AVERAGE is set but weights is NULL; the average over the heads needs a place");
    if (!o->cu_seqlens_q != !o->cu_seqlens_k)
        return attn_fail(ctx, ATTN_E_ARG, "%s is missing; packed input needs both cu_seqlens_q and cu_seqlens_k",
                         o->cu_seqlens_q ? "cu_seqlens_k" : "cu_seqlens_q");
    return ATTN_OK;
}

/* ------------------------------------------------------- lengths and positions ---- */

/* A rank-1 tensor of int32 or int64 with n entries. */
static attn_status check_integers(attn_ctx *ctx, const attn_tensor *t, const char *name, int64_t n, const char *of_what)
{
    char shape[ATTN_SHAPE_TEXT];
    attn_status status = attn_check_tensor(ctx, t, name);
    if (status != ATTN_OK)
        return status;
    if (t->dtype != ATTN_I32 && t->dtype != ATTN_I64)
        return attn_fail(ctx, ATTN_E_DTYPE, "%s has dtype %s; int32 or int64 is needed", name, attn_dtype_name(t->dtype));
    if (t->ndim != 1 && n < 0)
        return attn_fail(ctx, ATTN_E_SHAPE, "%s has shape %s; one axis is needed, %s", name, attn_shape_text(shape, t), of_what);
    if (t->ndim != 1 || (n >= 0 && t->shape[0] != n))
        return attn_fail(ctx, ATTN_E_SHAPE, "%s has shape %s; [%lld] is needed, %s", name, attn_shape_text(shape, t), (long long)n,
                         of_what);
    return ATTN_OK;
}

static attn_status check_cu_seqlens(attn_ctx *ctx, const attn_tensor *t, const char *name, int64_t items, int64_t rows, const char *of)
{
    attn_status status = check_integers(ctx, t, name, items < 0 ? -1 : items + 1, "one more than the sequences");
    if (status != ATTN_OK)
        return status;
    if (t->shape[0] < 1)
        return attn_fail(ctx, ATTN_E_SHAPE, "%s is empty; it needs a leading 0 and the end of each sequence", name);
    if (integer_at(t, 0) != 0)
        return attn_fail(ctx, ATTN_E_ARG, "%s begins with %lld; it must begin with 0", name, (long long)integer_at(t, 0));
    for (int64_t i = 1; i < t->shape[0]; i++)
        if (integer_at(t, i) < integer_at(t, i - 1))
            return attn_fail(ctx, ATTN_E_ARG, "%s falls from %lld to %lld at entry %lld; it may not decrease", name,
                             (long long)integer_at(t, i - 1), (long long)integer_at(t, i), (long long)i);
    if (integer_at(t, t->shape[0] - 1) != rows)
        return attn_fail(ctx, ATTN_E_SHAPE, "%s ends with %lld but %s has %lld rows; they must be equal", name,
                         (long long)integer_at(t, t->shape[0] - 1), of, (long long)rows);
    return ATTN_OK;
}

/* Where the rows and keys of an item lie; its lengths and offset are left 0. */
static attn_item extents_of(const attn_plan *p, int64_t b)
{
    const attn_sdpa_opts *o = &p->opts;
    attn_item at = {.rows = p->rows, .keys = p->keys};
    if (p->is_packed) {
        at.first_row = integer_at(o->cu_seqlens_q, b);
        at.rows = integer_at(o->cu_seqlens_q, b + 1) - at.first_row;
        at.first_key = integer_at(o->cu_seqlens_k, b);
        at.keys = integer_at(o->cu_seqlens_k, b + 1) - at.first_key;
    }
    return at;
}

static attn_status check_lengths(attn_ctx *ctx, const attn_plan *p, const attn_tensor *t, const char *name, int of_keys)
{
    if (!t)
        return ATTN_OK;
    attn_status status = check_integers(ctx, t, name, p->items, "one for each item");
    for (int64_t b = 0; status == ATTN_OK && b < p->items; b++) {
        attn_item at = extents_of(p, b);
        int64_t n = integer_at(t, b), most = of_keys ? at.keys : at.rows;
        if (n < 0 || n > most)
            return attn_fail(ctx, ATTN_E_ARG, "%s[%lld] is %lld; it must be from 0 to the %lld %s of the item", name, (long long)b,
                             (long long)n, (long long)most, of_keys ? "keys" : "rows");
    }
    return status;
}

static attn_status check_offsets(attn_ctx *ctx, const attn_plan *p)
{
    const attn_tensor *t = p->opts.offsets;
    attn_status status = t ? check_integers(ctx, t, "offsets", p->items, "one for each item") : ATTN_OK;
    for (int64_t b = 0; status == ATTN_OK && b < (t ? p->items : 1); b++) {
        int64_t offset = t ? integer_at(t, b) : has(p, ATTN_OFFSET) ? p->opts.offset : 0;
        if (offset < -ATTN_FAR || offset > ATTN_FAR)
            return attn_fail(ctx, ATTN_E_ARG, "offset %lld is beyond +-2^61", (long long)offset);
    }
    return status;
}

attn_item attn_plan_item(const attn_plan *p, int64_t b)
{
    const attn_sdpa_opts *o = &p->opts;
    attn_item at = extents_of(p, b);
    at.kv_len = o->kv_len ? integer_at(o->kv_len, b) : at.keys;
    at.q_len = o->q_len ? integer_at(o->q_len, b) : at.rows;
    if (o->offsets)
        at.offset = integer_at(o->offsets, b);
    else if (has(p, ATTN_OFFSET))
        at.offset = o->offset;
    else if (o->align == ATTN_ALIGN_BOTTOM_RIGHT)
        at.offset = at.kv_len - at.q_len;
    return at;
}

/* The anchor of the diagonal must be named where it matters, and once. */
static attn_status check_anchor(attn_ctx *ctx, const attn_plan *p)
{
    const attn_sdpa_opts *o = &p->opts;
    const char *who = has(p, ATTN_CAUSAL) ? "causal" : has(p, ATTN_WINDOW) ? "window" : has_alibi(p) ? "ALiBi" : NULL;
    int has_offset = has(p, ATTN_OFFSET) || o->offsets;
    const int64_t different = p->is_packed || o->kv_len || o->q_len || o->offsets ? p->items : p->items > 0;
    for (int64_t b = 0; b < different; b++) {
        attn_item at = attn_plan_item(p, b);
        int64_t named = o->align == ATTN_ALIGN_BOTTOM_RIGHT ? at.kv_len - at.q_len : 0;
        if (has_offset && o->align != ATTN_ALIGN_DEFAULT && at.offset != named)
            return attn_fail(ctx, ATTN_E_ARG, "offset %lld of item %lld and align %s (offset %lld there) disagree; give one of them",
                             (long long)at.offset, (long long)b, o->align == ATTN_ALIGN_BOTTOM_RIGHT ? "bottom-right" : "top-left",
                             (long long)named);
        if (who && !has_offset && o->align == ATTN_ALIGN_DEFAULT && at.rows != at.keys)
            return attn_fail(
                ctx, ATTN_E_ARG,
                "%s with Lq = %lld and Lk = %lld is ambiguous: top-left puts row 0 at key 0 (row i at position i), bottom-right puts the "
                "last row at the last key (row 0 at position %lld, as in decoding); name one with align, or give an offset",
                who, (long long)at.rows, (long long)at.keys, (long long)(at.kv_len - at.q_len));
    }
    return ATTN_OK;
}

/* How long the longest item is, and how many cells all of them have. */
static void measure_items(attn_plan *p)
{
    p->longest = p->rows;
    p->cells = (double)p->items * (double)p->rows * (double)p->keys;
    if (!p->is_packed)
        return;
    p->longest = 0;
    p->cells = 0;
    for (int64_t b = 0; b < p->items; b++) {
        attn_item at = extents_of(p, b);
        p->longest = at.rows > p->longest ? at.rows : p->longest;
        p->cells += (double)at.rows * (double)at.keys;
    }
}

static attn_status plan_positions(attn_ctx *ctx, attn_plan *p)
{
    const attn_sdpa_opts *o = &p->opts;
    attn_status status = ATTN_OK;
    if (p->is_packed) {
        status = check_cu_seqlens(ctx, o->cu_seqlens_q, "cu_seqlens_q", -1, p->rows, "q");
        if (status == ATTN_OK)
            status = check_cu_seqlens(ctx, o->cu_seqlens_k, "cu_seqlens_k", o->cu_seqlens_q->shape[0] - 1, p->keys, "k");
        if (status == ATTN_OK)
            p->items = o->cu_seqlens_q->shape[0] - 1;
    }
    if (status == ATTN_OK)
        measure_items(p);
    status = status ? status : check_lengths(ctx, p, o->kv_len, "kv_len", 1);
    status = status ? status : check_lengths(ctx, p, o->q_len, "q_len", 0);
    status = status ? status : check_offsets(ctx, p);
    status = status ? status : check_anchor(ctx, p);
    p->left = has(p, ATTN_WINDOW) && o->window_left >= 0 && o->window_left < ATTN_FAR ? o->window_left : ATTN_FAR;
    p->right = has(p, ATTN_WINDOW) && o->window_right >= 0 && o->window_right < ATTN_FAR ? o->window_right : ATTN_FAR;
    if (has(p, ATTN_CAUSAL))
        p->right = 0;
    return status;
}

/* -------------------------------------------------------------- masks and biases ---- */

/* Rank 2..4, every axis full or 1. */
static attn_status bind_spread(attn_ctx *ctx, const attn_plan *p, attn_view *view, const attn_tensor *t, const char *name)
{
    static const int axes[] = {ITEM, HEAD, ROW, KEY};
    char shape[ATTN_SHAPE_TEXT];
    const int64_t full[AXES] = {p->items, p->heads, p->rows, p->keys};
    attn_status status = attn_check_tensor(ctx, t, name);
    if (status != ATTN_OK)
        return status;
    int fits = t->ndim >= 2 && t->ndim <= AXES;
    for (int i = 0; fits && i < t->ndim; i++)
        fits = t->shape[i] == 1 || t->shape[i] == full[AXES - t->ndim + i];
    if (!fits)
        return attn_fail(
            ctx, ATTN_E_SHAPE,
            "%s has shape %s; [Lq,Lk], [H,Lq,Lk] or [B,H,Lq,Lk] of [%lld,%lld,%lld,%lld] is needed, where an axis of size 1 spreads (a "
            "padding mask is kv_len, or [B,1,1,Lk])",
            name, attn_shape_text(shape, t), (long long)full[ITEM], (long long)full[HEAD], (long long)full[ROW], (long long)full[KEY]);
    *view = attn_bind(t, axes + (AXES - t->ndim));
    return ATTN_OK;
}

/* An integer mask holds 0 and 1 only. */
static attn_status check_zero_one(attn_ctx *ctx, const attn_tensor *t, const char *name)
{
    int64_t index[AXES] = {0}, at = 0, count = attn_tensor_count(t);
    for (int64_t n = 0; n < count; n++) {
        int64_t x = attn_load_int(t->data, t->dtype, at);
        if (x != 0 && x != 1)
            return attn_fail(ctx, ATTN_E_ARG, "%s holds %lld; an integer mask holds 0 and 1 only (a float mask or bias is added)", name,
                             (long long)x);
        for (int i = t->ndim - 1; i >= 0; i--) {
            at += t->shape[i] == 1 ? 0 : t->stride[i];
            if (++index[i] < t->shape[i])
                break;
            at -= t->shape[i] == 1 ? 0 : t->stride[i] * t->shape[i];
            index[i] = 0;
        }
    }
    return ATTN_OK;
}

static attn_status bind_mask(attn_ctx *ctx, attn_plan *p, attn_view *view, const attn_tensor *t, const char *name)
{
    attn_status status = bind_spread(ctx, p, view, t, name);
    return status == ATTN_OK && t->dtype != ATTN_BOOL ? check_zero_one(ctx, t, name) : status;
}

static attn_status plan_masks(attn_ctx *ctx, attn_plan *p)
{
    const attn_sdpa_opts *o = &p->opts;
    attn_status status = ATTN_OK;
    if (p->is_packed && (o->mask || o->bias || o->keep || o->weights || o->scores || o->scaled || o->capped || o->masked))
        return attn_fail(
            ctx, ATTN_E_UNSUPPORTED,
            "%s is not defined for packed input (cu_seqlens): its rows have keys of different numbers; call attn_sdpa per sequence",
            o->mask      ? "mask"
            : o->bias    ? "bias"
            : o->keep    ? "keep"
            : o->weights ? "weights"
                         : "a stage");
    int is_bias = o->mask && attn_dtype_is_float(o->mask->dtype);
    if (has(p, ATTN_MASK_DROP) && (!o->mask || is_bias))
        return attn_fail(ctx, ATTN_E_ARG, "ATTN_MASK_DROP is set but mask is %s; it says what true means in a bool mask",
                         o->mask ? "additive" : "NULL");
    if (is_bias)
        status = bind_spread(ctx, p, &p->added[0], o->mask, "mask");
    else if (o->mask)
        status = bind_mask(ctx, p, &p->keep, o->mask, "mask");
    if (status == ATTN_OK && o->bias) {
        status = bind_spread(ctx, p, &p->added[1], o->bias, "bias");
        if (status == ATTN_OK && !attn_dtype_is_float(o->bias->dtype))
            status = attn_fail(ctx, ATTN_E_DTYPE, "bias has dtype %s; f32, f64, f16 or bf16 is needed (a bool goes into mask)",
                               attn_dtype_name(o->bias->dtype));
    }
    if (status == ATTN_OK && o->keep) {
        status = bind_spread(ctx, p, &p->dropout_keep, o->keep, "keep");
        if (status == ATTN_OK && o->keep->dtype != ATTN_BOOL)
            status = attn_fail(ctx, ATTN_E_DTYPE, "keep has dtype %s; bool is needed", attn_dtype_name(o->keep->dtype));
    }
    return status;
}

/* --------------------------------------------------------------- numbers per head ---- */

/* 2^(-8(h+1)/H) when H is a power of two; else the slopes of the power n below H, then every other one of 2n (Press et al. 2022). */
static double default_slope(int64_t h, int64_t heads)
{
    int64_t n = 1;
    while (n * 2 <= heads)
        n *= 2;
    return h < n ? pow(2, -8.0 * (double)(h + 1) / (double)n) : pow(2, -4.0 * (double)(2 * (h - n) + 1) / (double)n);
}

static attn_status check_per_head(attn_ctx *ctx, const attn_plan *p, const attn_tensor *t, const char *name, int per_item)
{
    char shape[ATTN_SHAPE_TEXT];
    attn_status status = attn_check_tensor(ctx, t, name);
    if (status != ATTN_OK)
        return status;
    if (t->dtype != ATTN_F32 && t->dtype != ATTN_F64)
        return attn_fail(ctx, ATTN_E_DTYPE, "%s has dtype %s; f32 or f64 is needed", name, attn_dtype_name(t->dtype));
    int fits =
        (t->ndim == 1 && t->shape[0] == p->heads) || (per_item && t->ndim == 2 && t->shape[0] == p->items && t->shape[1] == p->heads);
    return fits ? ATTN_OK
                : attn_fail(ctx, ATTN_E_SHAPE, "%s has shape %s; [%lld], one for each head,%s is needed", name, attn_shape_text(shape, t),
                            (long long)p->heads, per_item ? " or [B,H]" : "");
}

/* A finite number beyond the range of what is computed in counts as the greatest of its sign, as a bias does. */
static double in_range(const attn_plan *p, double x)
{
    return p->is_f64 || !isfinite(x) ? x : x > FLT_MAX ? FLT_MAX : x < -FLT_MAX ? -FLT_MAX : x;
}

/* As doubles [items][heads]; t NULL: the default slopes. */
static void read_per_head(double *values, const attn_plan *p, const attn_tensor *t, int64_t items)
{
    for (int64_t b = 0; b < items; b++)
        for (int64_t h = 0; h < p->heads; h++) {
            int64_t at = t && p->heads > 1 ? h * t->stride[t->ndim - 1] : 0;
            if (t && t->ndim == 2 && items > 1)
                at += b * t->stride[0];
            values[b * p->heads + h] = in_range(p, t ? attn_load_float(t->data, t->dtype, at) : default_slope(h, p->heads));
        }
}

/* Reads slopes and sinks into memory of the context. */
static attn_status read_heads(attn_ctx *ctx, attn_plan *p)
{
    const attn_sdpa_opts *o = &p->opts;
    p->slopes_per_item = o->alibi_slopes && o->alibi_slopes->ndim == 2;
    const int64_t items = p->slopes_per_item ? p->items : 1;
    const int64_t n_slopes = has_alibi(p) ? items * p->heads : 0, n_sinks = o->sinks ? p->heads : 0;
    if (p->heads > ATTN_FAR >> 4)
        return attn_fail(ctx, ATTN_E_NOMEM, "out of memory: the ALiBi slopes or sinks of %lld heads", (long long)p->heads);
    attn_status status = attn_reserve(ctx, &ctx->per_head, (n_slopes + n_sinks) * (int64_t)sizeof(double));
    if (status != ATTN_OK || n_slopes + n_sinks == 0)
        return status;
    double *values = ctx->per_head.data;
    p->slopes = n_slopes ? values : NULL;
    p->sinks = n_sinks ? values + n_slopes : NULL;
    read_per_head(values, p, o->alibi_slopes, n_slopes ? items : 0);
    read_per_head(values + n_slopes, p, o->sinks, n_sinks ? 1 : 0);
    for (int64_t i = 0; i < n_slopes; i++)
        if (!isfinite(p->slopes[i]))
            return attn_fail(ctx, ATTN_E_ARG, "alibi_slopes holds %g; slopes must be finite", p->slopes[i]);
    for (int64_t i = 0; i < n_sinks; i++)
        if (!(p->sinks[i] < INFINITY))
            return attn_fail(ctx, ATTN_E_ARG, "sinks holds %g; a sink must be finite, or -inf for none", p->sinks[i]);
    return ATTN_OK;
}

static attn_status plan_heads(attn_ctx *ctx, attn_plan *p)
{
    const attn_sdpa_opts *o = &p->opts;
    attn_status status = o->alibi_slopes ? check_per_head(ctx, p, o->alibi_slopes, "alibi_slopes", 1) : ATTN_OK;
    if (status == ATTN_OK && o->sinks)
        status = check_per_head(ctx, p, o->sinks, "sinks", 0);
    return status == ATTN_OK && (has_alibi(p) || o->sinks) ? read_heads(ctx, p) : status;
}

/* ------------------------------------------------------------------- by-products ---- */

static attn_status plan_outputs(attn_ctx *ctx, attn_plan *p, int rank)
{
    static const int per_row[] = {ITEM, HEAD, ROW}, per_key[] = {ITEM, HEAD, KEY}, cells[] = {ITEM, HEAD, ROW, KEY};
    static const int averaged[] = {ITEM, ROW, KEY};
    const attn_sdpa_opts *o = &p->opts;
    const int skip = p->is_packed ? 1 : AXES - rank; /* leading axes that q lacks */
    attn_status status = attn_bind_output(ctx, &p->lse, p, o->lse, "lse", 3 - skip, per_row + skip);
    status = status ? status : attn_bind_output(ctx, &p->row_max, p, o->row_max, "row_max", 3 - skip, per_row + skip);
    status = status ? status : attn_bind_output(ctx, &p->entropy, p, o->entropy, "entropy", 3 - skip, per_row + skip);
    status = status ? status : attn_bind_output(ctx, &p->mass, p, o->mass, "mass", 3 - skip, per_key + skip);
    status = status ? status : attn_bind_output(ctx, &p->scores, p, o->scores, "scores", 4 - skip, cells + skip);
    status = status ? status : attn_bind_output(ctx, &p->scaled, p, o->scaled, "scaled", 4 - skip, cells + skip);
    status = status ? status : attn_bind_output(ctx, &p->capped, p, o->capped, "capped", 4 - skip, cells + skip);
    status = status ? status : attn_bind_output(ctx, &p->masked, p, o->masked, "masked", 4 - skip, cells + skip);
    if (status != ATTN_OK || !has(p, ATTN_AVERAGE))
        return status ? status : attn_bind_output(ctx, &p->weights, p, o->weights, "weights", 4 - skip, cells + skip);
    return attn_bind_output(ctx, &p->weights, p, o->weights, "weights", skip ? 2 : 3, averaged + (skip ? 1 : 0));
}

attn_status attn_plan_options(attn_ctx *ctx, attn_plan *p, int rank)
{
    attn_status status = check_numbers(ctx, p);
    status = status ? status : plan_positions(ctx, p);
    status = status ? status : plan_masks(ctx, p);
    status = status ? status : plan_heads(ctx, p);
    status = status ? status : plan_outputs(ctx, p, rank);
    p->scale = in_range(p, has(p, ATTN_SCALE) ? p->opts.scale : 1 / sqrt((double)p->dim));
    if (p->opts.softcap > 0 && !p->is_f64)
        p->opts.softcap = fmax(in_range(p, p->opts.softcap), FLT_MIN);
    return status;
}
