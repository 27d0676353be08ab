/* SPDX-License-Identifier: Apache-2.0 */
#include "rope.h"
#include "explain_mha.h"
#include "message.h"
#include "rule.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --------------------------------------------------------------- options ---- */

int rope_read(rotation *r, inputs *in)
{
    const options *o = in->o;
    const char *text = o->value[OPT_ROPE];
    *r = (rotation){.given = text != NULL};
    if (!text && opt_given(o, OPT_POSITIONS))
        return trouble("--positions says where RoPE turns to, and there is none; give --rope THETA");
    if (!text)
        return EXIT_DONE;
    char *end;
    r->theta = strtod(text, &end);
    r->interleaved = strcmp(end, ",interleaved") == 0;
    if (end == text || !isfinite(r->theta) || r->theta <= 1 || (*end && !r->interleaved && strcmp(end, ",half") != 0))
        return trouble("--rope is %s, and must be a theta above 1, alone or with ,half or ,interleaved: 10000 or 500000,interleaved", text);
    return opt_given(o, OPT_POSITIONS) ? inputs_integers(in, "--positions", o->value[OPT_POSITIONS], &r->positions) : EXIT_DONE;
}

void rope_free(rotation *r)
{
    for (int i = 0; i < r->memories; i++)
        free(r->memory[i]);
    r->memories = 0;
}

/* ------------------------------------------------------------- positions ---- */

static int64_t integer_at(const attn_tensor *t, int64_t i) { return tensor_integer(t, (const int64_t[]){i, 0, 0, 0, 0, 0, 0, 0}); }

static int64_t *new_integers(rotation *r, int64_t count)
{
    int64_t *all = need_memory((size_t)(count + 1) * sizeof *all);
    return r->memory[r->memories++] = all;
}

/* Row 0 of item b stands at this key. */
static int64_t offset_of(const attn_sdpa_opts *o, const sizes *z, int64_t b)
{
    if (o->offsets)
        return integer_at(o->offsets, o->offsets->shape[0] == 1 ? 0 : b);
    if (o->align != ATTN_ALIGN_BOTTOM_RIGHT)
        return o->flags & ATTN_OFFSET ? o->offset : 0;
    return (o->kv_len ? integer_at(o->kv_len, b) : z->Lk) - (o->q_len ? integer_at(o->q_len, b) : z->Lq);
}

/* Positions of packed sequences count from the first key of each. */
static void fill_packed(const attn_sdpa_opts *o, int64_t *rows, int64_t *keys)
{
    const int64_t sequences = o->cu_seqlens_q->shape[0] - 1;
    for (int64_t s = 0; s < sequences; s++) {
        const int64_t q = integer_at(o->cu_seqlens_q, s), q_end = integer_at(o->cu_seqlens_q, s + 1);
        const int64_t k = integer_at(o->cu_seqlens_k, s), k_end = integer_at(o->cu_seqlens_k, s + 1);
        const int64_t own = o->offsets ? integer_at(o->offsets, s) : o->flags & ATTN_OFFSET ? o->offset : 0;
        const int64_t offset = o->align == ATTN_ALIGN_BOTTOM_RIGHT ? (k_end - k) - (q_end - q) : own;
        for (int64_t i = q; i < q_end; i++)
            rows[i] = offset + i - q;
        for (int64_t j = k; j < k_end; j++)
            keys[j] = j - k;
    }
}

/* The position of key j of item b, by --positions or j itself. */
static int64_t key_position(const rotation *r, int64_t b, int64_t j)
{
    const attn_tensor *t = &r->positions;
    if (!t->data)
        return j;
    const int64_t item = t->ndim == 2 && t->shape[0] > 1 ? b : 0;
    return tensor_integer(t, t->ndim == 2 ? (const int64_t[]){item, j, 0, 0, 0, 0, 0, 0} : (const int64_t[]){j, 0, 0, 0, 0, 0, 0, 0});
}

static int check_positions(const rotation *r, const attn_sdpa_opts *o, const sizes *z)
{
    const attn_tensor *t = &r->positions;
    char shape[SHAPE_TEXT];
    if (z->Lq != z->Lk && !o->align && !(o->flags & ATTN_OFFSET) && !o->offsets && !z->packed)
        return trouble("--rope with Lq = %lld and Lk = %lld is ambiguous: top-left puts row 0 at key 0, bottom-right the last row at the "
                       "last key (row 0 at position %lld, as in decoding); name one with --align, or give --offset",
                       (long long)z->Lq, (long long)z->Lk, (long long)(z->Lk - z->Lq));
    if (!t->data)
        return EXIT_DONE;
    if (z->packed)
        return trouble("--positions is not for packed input (--cu-q), whose sequences count from 0 each; leave it out");
    const bool rank = t->ndim == 1 || (t->ndim == 2 && (t->shape[0] == 1 || t->shape[0] == z->B));
    const bool fits = rank && t->shape[t->ndim - 1] == z->Lk;
    return fits ? EXIT_DONE
                : trouble("--positions is %s, and must have one position for each of %lld keys: (%lld) or (%lld,%lld)",
                          tensor_shape_text(shape, t), (long long)z->Lk, (long long)z->Lk, (long long)z->B, (long long)z->Lk);
}

/* Row i stands at key offset + i, and has that key's position. */
static int find_positions(rotation *r, const attn_sdpa_opts *o, const sizes *z)
{
    const int status = check_positions(r, o, z);
    if (status)
        return status;
    int64_t *rows = new_integers(r, z->B * z->Lq), *keys = new_integers(r, z->B * z->Lk);
    r->where = (diagnose_rope){.theta = r->theta, .interleaved = r->interleaved, .rows = rows, .keys = keys};
    if (z->packed) {
        fill_packed(o, rows, keys);
        return EXIT_DONE;
    }
    for (int64_t b = 0; b < z->B; b++) {
        const int64_t offset = offset_of(o, z, b), count = o->q_len ? integer_at(o->q_len, b) : z->Lq;
        for (int64_t j = 0; j < z->Lk; j++)
            keys[b * z->Lk + j] = key_position(r, b, j);
        for (int64_t i = 0; i < z->Lq; i++) {
            const bool is_key = offset + i >= 0 && offset + i < z->Lk;
            if (r->positions.data && !is_key && i < count)
                return trouble("row %lld stands at key %lld, and --positions has those of %lld keys; give --align or --offset",
                               (long long)i, (long long)(offset + i), (long long)z->Lk);
            rows[b * z->Lq + i] = r->positions.data ? (is_key ? key_position(r, b, offset + i) : 0) : offset + i;
        }
    }
    return EXIT_DONE;
}

/* --------------------------------------------------------------- turning ---- */

/* A packed array of the shape of t; packed input as (H,T,d), whose rows are the tokens. */
static int turn_one(rotation *r, session *s, const attn_rope *rope, const sizes *z, const attn_tensor *t, const int64_t *at,
                    attn_tensor *out)
{
    const attn_tensor from = z->packed ? tensor_swapped(t, 2, 3) : *t;
    const int status = out->data ? EXIT_DONE : tensor_new(out, "RoPE", z->dtype, from.ndim, from.shape);
    if (status)
        return status;
    if (!r->wanted[0])
        r->memory[r->memories++] = out->data;
    const int64_t shape[] = {z->B, from.shape[from.ndim - 2]};
    const int skip = from.ndim < 4;
    const attn_tensor positions = attn_tensor_of((void *)(uintptr_t)at, ATTN_I64, 2 - skip, shape + skip);
    const attn_rope_opts opts = {.struct_size = sizeof opts, .positions = &positions};
    if (attn_rope_apply(s->ctx, out, &from, rope, &opts) != ATTN_OK)
        return library_trouble(attn_ctx_error(s->ctx));
    *out = z->packed ? tensor_swapped(out, 2, 3) : *out;
    return EXIT_DONE;
}

int rope_turn(rotation *r, session *s, const attn_sdpa_opts *opts, qkv *t)
{
    sizes z;
    attn_rope *own = NULL;
    if (!r->given || !sizes_of(&z, t, opts->cu_seqlens_q != NULL)) /* the library says what is wrong with the ranks */
        return EXIT_DONE;
    if ((opts->cu_seqlens_q == NULL) != (opts->cu_seqlens_k == NULL) || z.B * z.H * z.Lq * z.Lk == 0)
        return EXIT_DONE; /* refused later, or nothing to turn */
    const attn_rope_desc desc = {.struct_size = sizeof desc,
                                 .flags = r->interleaved ? ATTN_ROPE_INTERLEAVED : 0,
                                 .head_dim = z.d,
                                 .theta = r->theta};
    int status = find_positions(r, opts, &z);
    if (!status && !r->rope && attn_rope_create(s->ctx, &own, &desc) != ATTN_OK)
        status = library_trouble(attn_ctx_error(s->ctx));
    r->before = *t;
    r->turned = (qkv){.q = {.data = NULL}, .v = t->v};
    if (r->wanted[0]) {
        r->turned.q = *r->wanted[0];
        r->turned.k = *r->wanted[1];
    }
    const attn_rope *rope = r->rope ? r->rope : own;
    if (!status)
        status = turn_one(r, s, rope, &z, &t->q, r->where.rows, &r->turned.q);
    if (!status)
        status = turn_one(r, s, rope, &z, &t->k, r->where.keys, &r->turned.k);
    attn_rope_destroy(own);
    *t = status ? *t : r->turned;
    return status;
}

/* Both of rank z->rank. */
static void copy_numbers(const attn_tensor *to, const attn_tensor *from)
{
    int64_t index[ATTN_MAX_DIMS] = {0}, place[ATTN_MAX_DIMS] = {0};
    const int64_t count = tensor_count(from);
    for (int64_t i = 0; i < count; i++, tensor_next(from, index), tensor_next(to, place)) {
        int64_t at = 0;
        for (int32_t n = 0; n < to->ndim; n++)
            at += place[n] * to->stride[n];
        if (to->dtype == ATTN_F64)
            ((double *)to->data)[at] = tensor_value(from, index);
        else
            ((float *)to->data)[at] = (float)tensor_value(from, index);
    }
}

int rope_add_results(rotation *r, results *to, const sizes *z)
{
    static const char *const names[] = {"q_rot", "k_rot"};
    const attn_tensor *const turned[] = {&r->turned.q, &r->turned.k};
    const int64_t shapes[2][4] = {{z->B, z->H, z->Lq, z->d}, {z->B, z->Hkv, z->Lk, z->d}};
    int status = EXIT_DONE;
    for (int i = 0; i < 2 && !status; i++) {
        status = results_add(to, names[i], NULL, z->dtype, z->rank, shapes[i] + 4 - z->rank, true, &r->wanted[i]);
        if (!status && turned[i]->data)
            copy_numbers(r->wanted[i], turned[i]);
    }
    return status;
}

/* ------------------------------------------------------------------- mha ---- */

/* An array that attn_mha is to fill, where nobody asked for it. */
static int own_stage(rotation *r, const extra_stage *stage, attn_dtype dtype, attn_tensor *own)
{
    if (*stage->where)
        return EXIT_DONE;
    const int status = tensor_new(own, stage->name, dtype, stage->ndim, stage->shape);
    if (status)
        return status;
    r->memory[r->memories++] = own->data;
    *stage->where = own;
    return EXIT_DONE;
}

/* concat(z) W_O + b_O; z is (..,H,L,d_v). */
static int project_out(session *s, attn_tensor *out, const attn_mha_desc *w, const attn_tensor *z)
{
    attn_linear_weights *prepared = NULL;
    attn_tensor joined;
    const attn_linear_desc desc = {.struct_size = sizeof desc,
                                   .flags = w->flags & ATTN_MHA_F64 ? ATTN_LINEAR_F64 : 0,
                                   .w = w->w_o,
                                   .b = w->b_o};
    const int64_t shape[] = {out->ndim == 3 ? out->shape[0] : 1, out->shape[out->ndim - 2], w->w_o->shape[0]};
    const int status = tensor_new(&joined, "the joined heads", z->dtype, out->ndim, shape + 3 - out->ndim);
    if (status)
        return status;
    explain_join(z, &joined);
    attn_status done = attn_linear_prepare(s->ctx, &prepared, &desc);
    done = done == ATTN_OK ? attn_linear(s->ctx, out, prepared, &joined) : done;
    attn_linear_destroy(prepared);
    free(joined.data);
    return done == ATTN_OK ? EXIT_DONE : library_trouble(attn_ctx_error(s->ctx));
}

/* The projections and the checks of attn_mha are wanted, not its attention: a window of one key costs little. */
static int project_in(session *s, attn_tensor *out, const attn_mha_weights *prepared, const mha_inputs *m, const attn_mha_opts *opts)
{
    attn_mha_opts stages = *opts;
    const attn_sdpa_opts one_key = {.struct_size = sizeof one_key, .flags = ATTN_WINDOW, .align = ATTN_ALIGN_TOP_LEFT};
    stages.sdpa = &one_key;
    if (attn_mha(s->ctx, out, prepared, &m->x, m->memory_given, m->memory_v_given, &stages) != ATTN_OK)
        return library_trouble(attn_ctx_error(s->ctx));
    return EXIT_DONE;
}

int rope_mha(rotation *r, session *s, attn_tensor *out, const attn_mha_weights *prepared, const mha_files *w, const mha_inputs *m,
             const attn_mha_opts *opts)
{
    sizes z;
    extra_stage extra[4];
    attn_tensor own[4];
    attn_mha_opts stages = *opts;
    if (!r->given)
        return rule_mha(s, out, prepared, &w->desc, &m->x, m->memory_given, m->memory_v_given, opts);
    if (s->by_definition)
        return trouble("--dialect %s is computed by its definition here, which knows no --rope; give one of the two",
                       s->o->value[OPT_DIALECT]);
    if (opts->sdpa->cu_seqlens_q || opts->sdpa->cu_seqlens_k || !mha_sizes(&z, w, m))
        return rule_mha(s, out, prepared, &w->desc, &m->x, m->memory_given, m->memory_v_given, opts); /* it refuses */
    mha_stage_list(extra, &z, &stages);
    int status = EXIT_DONE;
    for (int i = 0; i < 4 && !status; i++)
        status = own_stage(r, &extra[i], z.dtype, &own[i]);
    session_begin(s);
    if (!status)
        status = project_in(s, out, prepared, m, &stages);
    if (status)
        return status;
    qkv t = {*stages.q, *stages.k, *stages.v};
    status = rope_turn(r, s, opts->sdpa, &t);
    if (!status)
        status = session_end(s, attn_sdpa(s->ctx, stages.z, &t.q, &t.k, &t.v, opts->sdpa));
    return status ? status : project_out(s, out, &w->desc, stages.z);
}
