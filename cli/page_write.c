/* SPDX-License-Identifier: Apache-2.0 */
/* The file of a page: the text of web/, and between its halves the data as elements that no script runs. */
#include "page_data.h"
#include "tensor.h"

#include <math.h>
#include <page.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- base64, RFC 4648 section 4 --- */

static void flush(page_base64 *b)
{
    if (b->status == ATTN_OK)
        b->status = attn_stream_write(b->to, b->text, b->used);
    b->used = 0;
}

/* The bytes held, and "=" for those that lack to three. */
static void put_group(page_base64 *b)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned bits = (unsigned)b->held[0] << 16 | (unsigned)b->held[1] << 8 | b->held[2];
    if (b->used + 4 > sizeof b->text)
        flush(b);
    for (int i = 0; i < 4; i++)
        b->text[b->used++] = i <= b->count ? letters[bits >> (18 - 6 * i) & 63] : '=';
    memset(b->held, 0, sizeof b->held);
    b->count = 0;
}

static void put_byte(page_base64 *b, uint64_t byte)
{
    b->held[b->count++] = (unsigned char)byte;
    if (b->count == 3)
        put_group(b);
}

void page_base64_number(page_base64 *b, attn_dtype dtype, double value)
{
    uint64_t bits = 0;
    if (dtype == ATTN_F64) {
        memcpy(&bits, &value, sizeof value);
    } else if (dtype == ATTN_F32) {
        const float narrow = (float)value;
        uint32_t half;
        memcpy(&half, &narrow, sizeof narrow);
        bits = half;
    } else {
        bits = (uint64_t)(int64_t)value;
    }
    for (size_t i = 0; i < attn_dtype_size(dtype); i++) /* little-endian on every machine */
        put_byte(b, bits >> (8 * i) & 255);
}

void page_base64_end(page_base64 *b)
{
    if (b->count)
        put_group(b);
    flush(b);
}

/* --- elements --- */

static attn_status put_text(attn_stream *to, const char *text) { return attn_stream_write(to, text, strlen(text)); }

const char *page_array_name(char out[PAGE_NAME], const char *part, const char *name)
{
    snprintf(out, PAGE_NAME, "%s%s%s", part ? part : "", part ? "_" : "", name);
    return out;
}

attn_status page_begin_element(attn_stream *to, const char *part, const char *name)
{
    char tag[80 + PAGE_NAME], whole[PAGE_NAME];
    snprintf(tag, sizeof tag, "\n<script type=\"text/plain\" class=\"attn-array\" id=\"attn-array-%s\">",
             page_array_name(whole, part, name));
    return put_text(to, tag);
}

attn_status page_end_element(attn_stream *to) { return put_text(to, "</script>"); }

/* No "<" is left in the text: neither "</script" nor "<!--" can end or change the element. JSON reads the escape as "<" again. */
static attn_status put_json(attn_stream *to, const char *text, size_t size)
{
    attn_status s = put_text(to, "\n<script type=\"application/json\" id=\"attn-data\">");
    for (const char *end = text + size; s == ATTN_OK && text < end;) {
        const char *less = memchr(text, '<', (size_t)(end - text));
        s = attn_stream_write(to, text, (size_t)((less ? less : end) - text));
        if (s == ATTN_OK && less)
            s = put_text(to, "\\u003c");
        text = less ? less + 1 : end;
    }
    return s == ATTN_OK ? page_end_element(to) : s;
}

static double element_value(const page_array *a, const attn_tensor *t, const int64_t *index)
{
    const double value = tensor_value(t, index);
    if (a->form != PAGE_NUMBERS)
        return (value != 0) == (a->form == PAGE_SEEN);
    if (!a->plus)
        return value;
    const double more = tensor_value(a->plus, index);
    return value == -INFINITY || more == -INFINITY ? -INFINITY : value + more;
}

static void put_tensor(page_base64 *b, const page_array *a, const attn_tensor *t)
{
    int64_t index[ATTN_MAX_DIMS] = {0};
    const int64_t count = tensor_count(t);
    for (int64_t i = 0; i < count && b->status == ATTN_OK; i++, tensor_next(t, index))
        page_base64_number(b, a->dtype, element_value(a, t, index));
}

static attn_status put_rows(page *p, page_base64 *b, const page_array *a)
{
    double *row = malloc((size_t)(a->shape[3] ? a->shape[3] : 1) * sizeof *row);
    if (!row)
        return page_fail(p, ATTN_E_NOMEM, "out of memory for a row of %lld numbers", (long long)a->shape[3]);
    attn_status s = ATTN_OK;
    for (int64_t n = 0; n < a->shape[0] * a->shape[1] * a->shape[2] && s == ATTN_OK && b->status == ATTN_OK; n++) {
        const int64_t place[3] = {n / a->shape[2] / a->shape[1], n / a->shape[2] % a->shape[1], n % a->shape[2]};
        s = a->rows.read(a->rows.user, place, row, p->sentence, sizeof p->sentence);
        for (int64_t j = 0; j < a->shape[3] && s == ATTN_OK; j++)
            page_base64_number(b, a->dtype, row[j]);
    }
    free(row);
    return s;
}

static attn_status put_array(page *p, const char *part, attn_stream *to, const page_array *a)
{
    page_base64 b = {.to = to};
    attn_status s = page_begin_element(to, part, a->name);
    if (s == ATTN_OK && a->rows.read)
        s = put_rows(p, &b, a);
    for (int64_t i = 0; i < a->parts && s == ATTN_OK; i++)
        put_tensor(&b, a, &a->part[i]);
    page_base64_end(&b);
    s = s == ATTN_OK ? b.status : s;
    return s == ATTN_OK ? page_end_element(to) : s;
}

static attn_status put_arrays(page *p, const char *part, attn_stream *to)
{
    attn_status s = ATTN_OK;
    for (int i = 0; i < p->arrays && s == ATTN_OK; i++)
        s = put_array(p, part, to, &p->array[i]);
    return s == ATTN_OK ? page_write_weights(p, part, to) : s;
}

static attn_status put_data(page *p, attn_stream *to)
{
    char *text;
    size_t size;
    attn_status s = page_head(p, &text, &size);
    if (s != ATTN_OK)
        return page_fail(p, s, "out of memory for the data of the page");
    s = put_json(to, text, size);
    free(text);
    s = s == ATTN_OK ? put_arrays(p, NULL, to) : s;
    for (page *more = p->more; more && s == ATTN_OK; more = more->more) {
        s = put_arrays(more, more->part, to);
        if (s != ATTN_OK)
            page_fail(p, s, "%s", more->sentence);
    }
    return s;
}

attn_status page_write(void *user, attn_stream *to, char *err, size_t err_size)
{
    page *p = user;
    attn_status s = attn_stream_write(to, page_before_data, page_before_data_size);
    if (s == ATTN_OK)
        s = put_data(p, to);
    if (s == ATTN_OK)
        s = attn_stream_write(to, page_after_data, page_after_data_size);
    if (s != ATTN_OK && err)
        snprintf(err, err_size, "%s", p->sentence);
    return s;
}
