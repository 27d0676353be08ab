/* SPDX-License-Identifier: Apache-2.0 */
/* Any combination of shapes, dtypes and options: attn_sdpa refuses it, or computes the same bits twice, and attn_explain_cell has them
   too. */
#include "fuzz_program.h"

/* The first row by attn_explain_cell must have the bits of the call. */
static void check_explained(attn_ctx *ctx, const attn_tensor *out, const attn_tensor *q, const attn_tensor *k, const attn_tensor *v,
                            const attn_sdpa_opts *o)
{
    float row_out[256];
    const int64_t d_v = out->shape[out->ndim - 1];
    attn_tensor to = attn_tensor_of(row_out, ATTN_F32, 1, &d_v);
    attn_row row = { .output = &to };
    const int is_f64 = q->dtype == ATTN_F64 || k->dtype == ATTN_F64 || v->dtype == ATTN_F64;
    if (is_f64 || out->dtype != ATTN_F32 || !out->data || d_v > 256 || o->cu_seqlens_q)
        return;
    require(is_done(ctx, attn_explain_cell(ctx, &row, q, k, v, o, 0, 0, 0)));
    require(!memcmp(row_out, out->data, (size_t)d_v * sizeof *row_out));
}

static void run(program *p, attn_ctx *ctx)
{
    const shapes s = any_shapes(p);
    const attn_tensor *q = rows(p, &s, s.H, s.Lq, s.d), *k = rows(p, &s, s.Hkv, s.Lk, s.d), *v = rows(p, &s, s.Hkv, s.Lk, s.d_v);
    attn_tensor *out = rows(p, &s, s.H, s.Lq, s.d_v);
    const attn_sdpa_opts o = any_options(p, &s);
    size_t bytes;
    if (!is_done(ctx, attn_sdpa(ctx, out, q, k, v, &o)))
        return;
    char *first = copy_of(out, &bytes);
    require(is_done(ctx, attn_sdpa(ctx, out, q, k, v, &o)) && has_bytes(out, first, bytes));
    free(first);
    if (bytes)
        check_explained(ctx, out, q, k, v, &o);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_of_data) { return run_program(run, data, size_of_data); }
