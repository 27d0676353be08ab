/* SPDX-License-Identifier: Apache-2.0 */
/* Weights that are too many to be shown in full, a row at a time: u8 with one scale a row, or the largest of each row. */
#include "page_data.h"

#include <math.h>
#include <stdlib.h>

/* What a pass over the rows makes; what goes into the second element is kept for it. */
typedef struct pass {
    page *p;
    page_base64 *b;
    double *row; /* [Lk] */
    float *kept; /* [rows], or [rows, k] */
} pass;

/* A weight that an overview can show: NaN and what is below 0 are none. */
static double visible(double weight) { return weight > 0 ? weight : 0; }

/* weight = u8 / 255 * scale, within half a step. */
static void put_u8_row(pass *a, int64_t n)
{
    const int64_t Lk = a->p->shape.Lk;
    float scale = 0;
    for (int64_t j = 0; j < Lk; j++)
        scale = fmaxf(scale, (float)fmin(visible(a->row[j]), 1e30)); /* an infinite weight of a saved file */
    a->kept[n] = scale;
    for (int64_t j = 0; j < Lk; j++)
        page_base64_number(a->b, ATTN_U8, scale > 0 ? floor(fmin(visible(a->row[j]) / scale, 1) * 255 + 0.5) : 0);
}

/* The k largest in falling order, the earlier key first among equals; index -1, weight 0 where no key has any weight. */
static void put_top_row(pass *a, int64_t n)
{
    const int64_t k = a->p->top_keys;
    int64_t index[PAGE_TOP_KEYS], count = 0;
    for (int64_t j = 0; j < a->p->shape.Lk; j++) {
        const double weight = visible(a->row[j]);
        if (weight == 0 || (count == k && weight <= a->row[index[k - 1]]))
            continue;
        int64_t at = count < k ? count++ : k - 1;
        for (; at > 0 && a->row[index[at - 1]] < weight; at--)
            index[at] = index[at - 1];
        index[at] = j;
    }
    for (int64_t i = 0; i < k; i++) {
        page_base64_number(a->b, ATTN_I32, i < count ? (double)index[i] : -1);
        a->kept[n * k + i] = i < count ? (float)a->row[index[i]] : 0;
    }
}

static attn_status put_rows(pass *a, void (*put)(pass *, int64_t))
{
    page *p = a->p;
    const page_shape *s = &p->shape;
    const int64_t rows = s->layers * s->B * s->H * s->Lq;
    attn_status status = ATTN_OK;
    int64_t n = 0;
    for (int64_t b = 0; b < s->layers * s->B; b++)
        for (int64_t h = 0; h < s->H; h++)
            for (int64_t i = 0; i < s->Lq && status == ATTN_OK && a->b->status == ATTN_OK; i++, n++) {
                status = p->weight_rows.read(p->weight_rows.user, (const int64_t[]){b, h, i}, a->row, p->sentence, sizeof p->sentence);
                if (status == ATTN_OK)
                    put(a, n);
                if (p->progress)
                    p->progress(p->progress_user, (double)n / (double)rows);
            }
    page_base64_end(a->b);
    if (p->progress)
        p->progress(p->progress_user, 1);
    return status == ATTN_OK ? a->b->status : status;
}

static attn_status put_kept(attn_stream *to, const char *part, const char *name, const float *kept, int64_t count)
{
    page_base64 b = {.to = to};
    attn_status s = page_begin_element(to, part, name);
    for (int64_t i = 0; i < count && s == ATTN_OK && b.status == ATTN_OK; i++)
        page_base64_number(&b, ATTN_F32, kept[i]);
    page_base64_end(&b);
    s = s == ATTN_OK ? b.status : s;
    return s == ATTN_OK ? page_end_element(to) : s;
}

attn_status page_write_weights(page *p, const char *part, attn_stream *to)
{
    const bool top = p->weights == PAGE_WEIGHTS_TOP;
    if (!top && p->weights != PAGE_WEIGHTS_U8)
        return ATTN_OK;
    const page_shape *s = &p->shape;
    const int64_t kept = s->layers * s->B * s->H * s->Lq * (top ? p->top_keys : 1);
    page_base64 b = {.to = to};
    pass a = {.p = p, .b = &b, .row = malloc((size_t)s->Lk * sizeof *a.row), .kept = malloc((size_t)kept * sizeof *a.kept)};
    attn_status status = a.row && a.kept ? page_begin_element(to, part, top ? "top_index" : "weights_u8")
                                         : page_fail(p, ATTN_E_NOMEM, "out of memory for %lld rows of weights", (long long)kept);
    if (status == ATTN_OK)
        status = put_rows(&a, top ? put_top_row : put_u8_row);
    if (status == ATTN_OK)
        status = page_end_element(to);
    if (status == ATTN_OK)
        status = put_kept(to, part, top ? "top_weight" : "weights_scale", a.kept, kept);
    free(a.row);
    free(a.kept);
    return status;
}
