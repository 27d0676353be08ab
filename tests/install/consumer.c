/* SPDX-License-Identifier: Apache-2.0 */
/* A stranger's program, valid C17 and C++17: two words with d = 4, written as .npy, read back and attended. Returns 0 when
   the output is [[5,5],[2.689,7.311]], and its root mean square is 1 after a norm. */
#include <attn/attn.h>
#include <attn/attn_io.h>
#include <attn/attn_load.h>
#include <attn/attn_model.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define QUERIES "queries.npy"

static int fail(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    return 1;
}

static int write_queries(void)
{
    float numbers[8] = {1, 0, 1, 0, 0, 1, 0, 1};
    const int64_t shape[2] = {2, 4};
    const attn_tensor q = attn_tensor_of(numbers, ATTN_F32, 2, shape);
    char why[512] = "";
    attn_outputs *outputs = NULL;
    attn_status s = attn_outputs_create(&outputs, why, sizeof why);
    if (s == ATTN_OK)
        s = attn_outputs_arrays(outputs, QUERIES, 1, NULL, &q, why, sizeof why);
    if (s == ATTN_OK)
        s = attn_outputs_commit(outputs, why, sizeof why);
    attn_outputs_destroy(outputs);
    return s == ATTN_OK ? 0 : fail(QUERIES, why);
}

static int attend(const attn_tensor *q)
{
    float k_numbers[8] = {1, 0, 1, 0, 1, 1, 1, 1}, v_numbers[4] = {10, 0, 0, 10}, got[4] = {0, 0, 0, 0};
    const float right[4] = {5, 5, 2.6894142F, 7.3105858F};
    const int64_t k_shape[2] = {2, 4}, v_shape[2] = {2, 2};
    const attn_tensor k = attn_tensor_of(k_numbers, ATTN_F32, 2, k_shape), v = attn_tensor_of(v_numbers, ATTN_F32, 2, v_shape);
    attn_tensor out = attn_tensor_of(got, ATTN_F32, 2, v_shape);
    char why[512] = "";
    attn_ctx *ctx = NULL;
    if (attn_ctx_create(&ctx, NULL, why, sizeof why) != ATTN_OK)
        return fail("context", why);
    int failed = attn_sdpa(ctx, &out, q, &k, &v, NULL) == ATTN_OK ? 0 : fail("attention", attn_ctx_error(ctx));
    for (int i = 0; i < 4 && !failed; i++)
        failed = fabsf(got[i] - right[i]) > 1e-5F ? fail("attention", "wrong numbers") : 0;
    float normed[4] = {0, 0, 0, 0};
    attn_tensor to = attn_tensor_of(normed, ATTN_F32, 2, v_shape);
    if (!failed && attn_rms_norm(ctx, &to, &out, NULL) != ATTN_OK)
        failed = fail("norm", attn_ctx_error(ctx));
    attn_ctx_destroy(ctx);
    return failed || fabsf(normed[2] * normed[2] + normed[3] * normed[3] - 2) < 1e-5F ? failed : fail("norm", "wrong numbers");
}

int main(void)
{
    if (strncmp(attn_version(), "0.", 2) != 0 || write_queries() != 0)
        return fail("library", attn_version());
    char why[512] = "";
    attn_file *file = NULL;
    attn_tensor q;
    attn_status s = attn_file_open(&file, QUERIES, why, sizeof why);
    if (s == ATTN_OK)
        s = attn_file_tensor(file, 0, &q, why, sizeof why);
    const int failed = s == ATTN_OK ? attend(&q) : fail(QUERIES, why);
    attn_file_close(file);
    return failed;
}
