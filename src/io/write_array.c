/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "npy.h"
#include "outputs.h"

void attn_write_npy(struct sink *s, const attn_tensor *t)
{
    char header[NPY_HEADER_SIZE];
    attn_sink_bytes(s, header, attn_npy_write_header(header, t));
    attn_sink_tensor(s, t);
}

/* ---- .csv ---- */

static double half_value(uint16_t h)
{
    const int exponent = h >> 10 & 31, fraction = h & 1023;
    double x = exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
    if (exponent == 31)
        x = fraction ? (double)NAN : (double)INFINITY;
    return h & 0x8000 ? -x : x;
}

static float bfloat_value(uint16_t b)
{
    const uint32_t bits = (uint32_t)b << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* "nan" without a sign that means nothing. */
static int print_float(char *text, size_t size, int digits, double x)
{
    return isnan(x) ? snprintf(text, size, "nan") : snprintf(text, size, "%.*g", digits, x);
}

#define LOAD(type) (*(const type *)p)
static int print_element(char *text, size_t size, attn_dtype dtype, const void *p)
{
    switch (dtype) {
    case ATTN_F64:
        return print_float(text, size, 17, LOAD(double));
    case ATTN_F32:
        return print_float(text, size, 9, (double)LOAD(float));
    case ATTN_F16:
        return print_float(text, size, 9, half_value(LOAD(uint16_t)));
    case ATTN_BF16:
        return print_float(text, size, 9, (double)bfloat_value(LOAD(uint16_t)));
    case ATTN_BOOL:
        return snprintf(text, size, "%d", LOAD(uint8_t) != 0);
    case ATTN_I8:
        return snprintf(text, size, "%d", LOAD(int8_t));
    case ATTN_U8:
        return snprintf(text, size, "%d", LOAD(uint8_t));
    case ATTN_I16:
        return snprintf(text, size, "%d", LOAD(int16_t));
    case ATTN_U16:
        return snprintf(text, size, "%d", LOAD(uint16_t));
    case ATTN_I32:
        return snprintf(text, size, "%" PRId32, LOAD(int32_t));
    case ATTN_U32:
        return snprintf(text, size, "%" PRIu32, LOAD(uint32_t));
    case ATTN_I64:
        return snprintf(text, size, "%" PRId64, LOAD(int64_t));
    case ATTN_U64:
        return snprintf(text, size, "%" PRIu64, LOAD(uint64_t));
    }
    return 0;
}
#undef LOAD

attn_status attn_write_csv(struct sink *s, const attn_tensor *t, const struct report *r)
{
    const locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (plain == (locale_t)0)
        return attn_io_fail_nomem(r);
    const locale_t before = uselocale(plain);
    const int64_t rows = t->ndim > 0 ? t->shape[0] : 1, columns = t->ndim > 1 ? t->shape[1] : 1;
    const int64_t row_stride = t->ndim > 0 ? t->stride[0] : 0, column_stride = t->ndim > 1 ? t->stride[1] : 0;
    const int64_t item = (int64_t)attn_dtype_size(t->dtype);
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < columns; j++) {
            char text[40];
            const unsigned char *p = (const unsigned char *)t->data + (i * row_stride + j * column_stride) * item;
            const int n = print_element(text, sizeof text - 1, t->dtype, p);
            text[n] = j + 1 < columns ? ',' : '\n';
            attn_sink_bytes(s, text, (size_t)n + 1);
        }
    }
    uselocale(before);
    freelocale(plain);
    return ATTN_OK;
}
