/* SPDX-License-Identifier: Apache-2.0 */
/* attn_explain_cell: one row of an attn_sdpa call, with every number. The kernel itself computes it, as a call of one row. */
#include "sdpa_plan.h"

#include "../core/tensor.h"
#include "../kernels/convert.h"
#include "overlap.h"
#include <math.h>

static attn_rows along_keys(const attn_view *v) { return (attn_rows){.data = v->data, .dtype = v->dtype, .column = v->stride[KEY]}; }

/* Only the row (head within the group, i) is left of a job; its outputs are cut off. */
static void narrow_to_row(attn_sdpa_job *j, int64_t head, int64_t i)
{
    attn_rows *inputs[] = {&j->q, &j->keep, &j->added[0], &j->added[1], &j->dropout_keep};
    for (size_t n = 0; n < sizeof inputs / sizeof *inputs; n++)
        if (inputs[n]->data)
            inputs[n]->data =
                (char *)inputs[n]->data + (i * inputs[n]->position + head * inputs[n]->head) * (int64_t)attn_dtype_size(inputs[n]->dtype);
    j->heads = j->positions = 1;
    j->offset += i;
    j->q_len = i < j->q_len;
    j->drop_row += i;
    j->drop_head += head;
    j->slopes = j->slopes ? j->slopes + head : NULL;
    j->sinks = j->sinks ? j->sinks + head : NULL;
    j->out = j->lse = j->row_max = j->entropy = j->mass = j->scores = j->scaled = j->capped = j->masked = j->weights = (attn_rows){0};
    j->average = 0;
}

/* Is key n outside the window of the row? Under causal the job's right side is 0; the window itself may reach further. */
static int outside_window(const attn_sdpa_job *j, const attn_sdpa_opts *o, int64_t n)
{
    return (o->flags & ATTN_WINDOW) && (n < j->offset - j->left || (o->window_right >= 0 && n - j->offset > o->window_right));
}

/* ATTN_HIDDEN_* bits of key n for a job of one row. */
static uint8_t reasons(const attn_sdpa_job *j, const attn_sdpa_opts *o, int64_t n)
{
    uint8_t why = j->q_len ? 0 : ATTN_HIDDEN_Q_LEN;
    if (j->keep.data && (attn_load_int(j->keep.data, j->keep.dtype, n * j->keep.column) != 0) == j->keep_drops)
        why |= ATTN_HIDDEN_MASK;
    for (int i = 0; i < ATTN_MAX_ADDED; i++)
        if (j->added[i].data && attn_load_float(j->added[i].data, j->added[i].dtype, n * j->added[i].column) == -INFINITY)
            why |= ATTN_HIDDEN_BIAS;
    if (n >= j->kv_len)
        why |= ATTN_HIDDEN_KV_LEN;
    if ((o->flags & ATTN_CAUSAL) && n > j->offset)
        why |= ATTN_HIDDEN_CAUSAL;
    if (outside_window(j, o, n))
        why |= ATTN_HIDDEN_WINDOW;
    return why;
}

static attn_status bind_row(attn_ctx *ctx, const attn_plan *p, attn_rows *to, const attn_tensor *t, const char *name, int64_t size)
{
    static const int axis[] = {KEY};
    attn_plan sized = {.keys = size, .is_f64 = p->is_f64};
    attn_view view = {0};
    attn_status status = attn_bind_output(ctx, &view, &sized, t, name, 1, axis);
    if (status == ATTN_OK)
        *to = along_keys(&view);
    return status;
}

static attn_status bind_rows(attn_ctx *ctx, const attn_plan *p, attn_sdpa_job *j, const attn_row *row)
{
    attn_status status = bind_row(ctx, p, &j->scores, row->scores, "scores", p->keys);
    status = status ? status : bind_row(ctx, p, &j->scaled, row->scaled, "scaled", p->keys);
    status = status ? status : bind_row(ctx, p, &j->capped, row->capped, "capped", p->keys);
    status = status ? status : bind_row(ctx, p, &j->masked, row->masked, "masked", p->keys);
    status = status ? status : bind_row(ctx, p, &j->weights, row->weights, "weights", p->keys);
    return status ? status : bind_row(ctx, p, &j->out, row->output, "output", p->value_dim);
}

static attn_status check_row_apart(attn_ctx *ctx, const attn_plan *p, const attn_row *row, const attn_tensor *const qkv[3])
{
    static const char *const names[] = {"q", "k", "v"};
    attn_tensor hidden = attn_tensor_of(row->hidden, ATTN_U8, 1, &p->keys);
    attn_named_list outputs = {.n = 0}, inputs = {.n = 0};
    attn_list_add(&outputs, row->scores, "scores");
    attn_list_add(&outputs, row->scaled, "scaled");
    attn_list_add(&outputs, row->capped, "capped");
    attn_list_add(&outputs, row->masked, "masked");
    attn_list_add(&outputs, row->weights, "weights");
    attn_list_add(&outputs, row->output, "output");
    attn_list_add(&outputs, row->hidden ? &hidden : NULL, "hidden");
    for (int i = 0; i < 3; i++)
        attn_list_add(&inputs, qkv[i], names[i]);
    attn_list_inputs(&inputs, &p->opts);
    return attn_check_apart(ctx, &outputs, &inputs);
}

/* Runs the job of one row; lse, row_max and entropy land in numbers. */
static attn_status run_row(attn_ctx *ctx, const attn_plan *p, attn_sdpa_job *j, double numbers[3])
{
    const attn_kernels *kernels = attn_plan_kernels(ctx, p);
    const int64_t scratch = (kernels->sdpa_scratch(j) + ATTN_ALIGN - 1) / ATTN_ALIGN * ATTN_ALIGN;
    attn_status status = attn_reserve(ctx, &ctx->scratch, scratch + (p->value_dim + 1) * (int64_t)sizeof(double));
    if (status != ATTN_OK)
        return status;
    const attn_dtype dtype = p->is_f64 ? ATTN_F64 : ATTN_F32;
    union {
        float f32[3];
        double f64[3];
    } got;
    attn_rows *wanted[] = {&j->lse, &j->row_max, &j->entropy};
    for (int i = 0; i < 3; i++)
        *wanted[i] = (attn_rows){.data = p->is_f64 ? (void *)&got.f64[i] : (void *)&got.f32[i], .dtype = dtype};
    if (!j->out.data)
        j->out = (attn_rows){.data = (char *)ctx->scratch.data + scratch, .dtype = dtype, .column = 1};
    ctx->info.threads = 1;
    kernels->sdpa_rows(j, 0, 1, ctx->scratch.data);
    for (int i = 0; i < 3; i++)
        numbers[i] = p->is_f64 ? got.f64[i] : (double)got.f32[i];
    return ATTN_OK;
}

static attn_status explain_row(attn_ctx *ctx, const attn_plan *p, attn_row *row, const attn_tensor *const qkv[3], int64_t b, int64_t h,
                               int64_t i)
{
    if (p->is_packed)
        return attn_fail(ctx, ATTN_E_UNSUPPORTED,
                         "attn_explain_cell is not defined for packed input (cu_seqlens); give the sequence alone");
    if (b < 0 || b >= p->items || h < 0 || h >= p->heads || i < 0 || i >= p->rows)
        return attn_fail(ctx, ATTN_E_ARG,
                         "cell (%lld,%lld,%lld) is outside: there are %lld items, %lld heads and %lld rows, counted from 0", (long long)b,
                         (long long)h, (long long)i, (long long)p->items, (long long)p->heads, (long long)p->rows);
    attn_sdpa_job j;
    attn_plan_job(&j, p, b, h / p->group);
    double numbers[3];
    narrow_to_row(&j, h % p->group, i);
    attn_status status = bind_rows(ctx, p, &j, row);
    status = status ? status : check_row_apart(ctx, p, row, qkv);
    status = status ? status : run_row(ctx, p, &j, numbers);
    if (status != ATTN_OK)
        return status;
    row->lse = numbers[0];
    row->row_max = numbers[1];
    row->entropy = numbers[2];
    row->scale = p->scale;
    row->position = j.offset;
    row->kv_head = h / p->group;
    row->visible = 0;
    for (int64_t n = 0; n < p->keys; n++) {
        uint8_t why = reasons(&j, &p->opts, n);
        row->visible += why == 0;
        if (row->hidden)
            row->hidden[n] = why;
    }
    return ATTN_OK;
}

attn_status attn_explain_cell(attn_ctx *ctx, attn_row *row, const attn_tensor *q, const attn_tensor *k, const attn_tensor *v,
                              const attn_sdpa_opts *opts, int64_t b, int64_t h, int64_t i)
{
    attn_plan p;
    attn_sdpa_opts o;
    attn_row own;
    if (!ctx)
        return ATTN_E_ARG;
    attn_begin(ctx);
    if (!row)
        return attn_fail(ctx, ATTN_E_ARG, "row is NULL");
    attn_status status = attn_copy_struct(ctx, &own, sizeof own, row, "attn_row");
    status = status ? status : attn_copy_struct(ctx, &o, sizeof o, opts, "attn_sdpa_opts");
    if (status != ATTN_OK)
        return status;
    if (own.flags)
        return attn_fail(ctx, ATTN_E_ARG, "attn_row.flags is 0x%x; it must be 0", own.flags);
    if (own.out_dtype && !attn_dtype_is_float(own.out_dtype))
        return attn_fail(ctx, ATTN_E_DTYPE, "attn_row.out_dtype is %d; f32, f64, f16 or bf16 is needed, or 0", (int)own.out_dtype);
    o.struct_size = sizeof o;
    o.flags &= ~(uint32_t)ATTN_AVERAGE;
    o.lse = o.row_max = o.entropy = o.mass = o.weights = o.scores = o.scaled = o.capped = o.masked = NULL;
    status = attn_plan_make(ctx, &p, NULL, q, k, v, &o);
    p.out.dtype = own.out_dtype ? own.out_dtype : p.q.dtype;
    status = status ? status : explain_row(ctx, &p, &own, (const attn_tensor *const[]){q, k, v}, b, h, i);
    if (status == ATTN_OK) {
        size_t size = row->struct_size && row->struct_size < sizeof own ? row->struct_size : sizeof own;
        own.struct_size = row->struct_size;
        __builtin_memcpy(row, &own, size);
    }
    return status;
}
