/* SPDX-License-Identifier: Apache-2.0 */
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ----------------------------------------------------------------- memory ---- */

struct pool_block {
    struct pool_block *next;
    max_align_t memory[];
};

void *pool_get(pool *p, size_t size) {
    struct pool_block *b = calloc(1, sizeof *b + size + 1);
    if (!b) {
        fprintf(stderr, "the test ran out of memory\n");
        exit(2);
    }
    b->next = p->blocks;
    p->blocks = b;
    return b->memory;
}

void pool_free(pool *p) {
    while (p->blocks) {
        struct pool_block *next = p->blocks->next;
        free(p->blocks);
        p->blocks = next;
    }
}

/* ----------------------------------------------------------------- random ---- */

rng rng_of(uint64_t seed, uint64_t stream) {
    rng r = {(seed + 1) * 0x9E3779B97F4A7C15u ^ (stream + 1) * 0xBF58476D1CE4E5B9u};
    r.state += r.state == 0;
    for (int i = 0; i < 8; i++) {
        rng_next(&r);
    }
    return r;
}

uint64_t rng_next(rng *r) {
    r->state ^= r->state >> 12;
    r->state ^= r->state << 25;
    r->state ^= r->state >> 27;
    return r->state * 0x2545F4914F6CDD1Du;
}

int64_t rng_int(rng *r, int64_t low, int64_t high) {
    return low + (int64_t)((rng_next(r) >> 11) % (uint64_t)(high - low + 1));
}

double rng_unit(rng *r) {
    return (double)(rng_next(r) >> 11) * 0x1p-53;
}

double rng_normal(rng *r) {
    return sqrt(-2 * log(1 - rng_unit(r))) * cos(6.283185307179586 * rng_unit(r));
}

bool rng_chance(rng *r, double p) {
    return rng_unit(r) < p;
}

uint64_t test_seed(void) {
    const char *s = getenv("ATTN_TEST_SEED");
    return s ? strtoull(s, NULL, 10) : 1;
}

int64_t test_count(int64_t otherwise) {
    const char *s = getenv("ATTN_TEST_COUNT");
    return s ? strtoll(s, NULL, 10) : otherwise;
}

bool test_is_short(void) {
    return test_count(20000) < 20000;
}

/* --------------------------------------------------------------- elements ---- */

bool is_float_dtype(attn_dtype t) {
    return t == ATTN_F32 || t == ATTN_F64 || t == ATTN_F16 || t == ATTN_BF16;
}

/* x rounded to `digits` binary digits, at least 2^lowest apart, to infinity from `limit` on. */
static double rounded(double x, int digits, int lowest, double limit) {
    if (x == 0 || !isfinite(x)) {
        return x;
    }
    int exponent;
    frexp(x, &exponent);
    const int step = exponent - digits > lowest ? exponent - digits : lowest;
    const double y = ldexp(rint(ldexp(x, -step)), step);
    return fabs(y) >= limit ? copysign((double)INFINITY, x) : y;
}

double rounded_to(attn_dtype t, double x) {
    switch (t) {
    case ATTN_F32: return (double)(float)x;
    case ATTN_F16: return rounded(x, 11, -24, 65536);
    case ATTN_BF16: return rounded(x, 8, -133, 0x1p128);
    default: return x;
    }
}

static uint16_t f16_bits(double x) {
    const double y = fabs(rounded_to(ATTN_F16, x));
    const uint16_t sign = signbit(x) ? 0x8000 : 0;
    if (isnan(x)) {
        return 0x7e00;
    }
    if (isinf(y)) {
        return sign | 0x7c00;
    }
    if (y < 0x1p-14) {
        return (uint16_t)(sign | (int)ldexp(y, 24));
    }
    int exponent;
    const double fraction = frexp(y, &exponent); /* y = fraction 2^exponent, fraction in [0.5,1) */
    return (uint16_t)(sign | (exponent + 14) << 10 | (int)ldexp(2 * fraction - 1, 10));
}

static uint16_t bf16_bits(double x) {
    const float y = isnan(x) ? NAN : (float)rounded_to(ATTN_BF16, x);
    uint32_t word;
    memcpy(&word, &y, sizeof word);
    return (uint16_t)(word >> 16);
}

static int64_t element_offset(const attn_tensor *t, const int64_t index[4]) {
    int64_t at = 0;
    for (int32_t axis = 0; axis < t->ndim; axis++) {
        at += t->shape[axis] == 1 ? 0 : index[4 - t->ndim + axis] * t->stride[axis];
    }
    return at;
}

void set_element(const attn_tensor *t, int64_t i0, int64_t i1, int64_t i2, int64_t i3, double x) {
    const int64_t at = element_offset(t, (const int64_t[4]){i0, i1, i2, i3});
    switch (t->dtype) {
    case ATTN_F32: ((float *)t->data)[at] = (float)x; break;
    case ATTN_F64: ((double *)t->data)[at] = x; break;
    case ATTN_F16: ((uint16_t *)t->data)[at] = f16_bits(x); break;
    case ATTN_BF16: ((uint16_t *)t->data)[at] = bf16_bits(x); break;
    case ATTN_BOOL:
    case ATTN_U8: ((uint8_t *)t->data)[at] = (uint8_t)x; break;
    case ATTN_I8: ((int8_t *)t->data)[at] = (int8_t)x; break;
    case ATTN_I16: ((int16_t *)t->data)[at] = (int16_t)x; break;
    case ATTN_U16: ((uint16_t *)t->data)[at] = (uint16_t)x; break;
    case ATTN_I32: ((int32_t *)t->data)[at] = (int32_t)x; break;
    case ATTN_U32: ((uint32_t *)t->data)[at] = (uint32_t)x; break;
    case ATTN_I64: ((int64_t *)t->data)[at] = (int64_t)x; break;
    case ATTN_U64: ((uint64_t *)t->data)[at] = (uint64_t)x; break;
    }
}

/* ---------------------------------------------------------------- tensors ---- */

attn_tensor new_tensor(pool *p, attn_dtype t, int32_t ndim, const int64_t *shape) {
    int64_t n = 1;
    for (int32_t axis = 0; axis < ndim; axis++) {
        n *= shape[axis];
    }
    return attn_tensor_of(pool_get(p, (size_t)n * attn_dtype_size(t)), t, ndim, shape);
}

attn_tensor new_vector(pool *p, attn_dtype t, int64_t n) {
    return new_tensor(p, t, 1, &n);
}

attn_tensor new_scattered(pool *p, rng *r, attn_dtype t, int32_t ndim, const int64_t *shape, bool spread) {
    attn_tensor x = {.dtype = t, .ndim = ndim};
    int32_t order[ATTN_MAX_DIMS];
    for (int32_t axis = 0; axis < ndim; axis++) {
        x.shape[axis] = shape[axis];
        order[axis] = axis;
    }
    for (int32_t axis = ndim - 1; axis > 0 && rng_chance(r, 0.7); axis--) {
        const int64_t other = rng_int(r, 0, axis);
        const int32_t kept = order[axis];
        order[axis] = order[other];
        order[other] = kept;
    }
    int64_t step = rng_chance(r, 0.1) ? 2 : 1, first = 0; /* elements so far, and where [0,0,...] is among them */
    for (int32_t n = ndim - 1; n >= 0; n--) {
        const int32_t axis = order[n];
        x.stride[axis] = step;
        if (shape[axis] == 1) {
            x.stride[axis] = rng_int(r, -1000000000, 1000000000); /* never used */
            continue;
        }
        if (spread && rng_chance(r, 0.05)) {
            x.stride[axis] = 0;
            continue;
        }
        if (shape[axis] > 0 && rng_chance(r, 0.15)) {
            x.stride[axis] = -step;
            first += (shape[axis] - 1) * step;
        }
        step *= shape[axis] + (rng_chance(r, 0.1) ? rng_int(r, 1, 3) : 0);
    }
    char *memory = pool_get(p, (size_t)step * attn_dtype_size(t));
    x.data = memory + (size_t)first * attn_dtype_size(t);
    return x;
}

int64_t axis_extent(const attn_tensor *t, int axis) {
    return axis < 4 - t->ndim ? 1 : t->shape[axis - (4 - t->ndim)];
}

int64_t element_count(const attn_tensor *t) {
    return axis_extent(t, 0) * axis_extent(t, 1) * axis_extent(t, 2) * axis_extent(t, 3);
}

/* For every index [i[0],i[1],i[2],i[3]] of t. */
#define FOR_EACH(i, t)                                                                                                                     \
    for (int64_t i[4] = {0}; i[0] < axis_extent(t, 0); i[0]++)                                                                             \
        for (i[1] = 0; i[1] < axis_extent(t, 1); i[1]++)                                                                                   \
            for (i[2] = 0; i[2] < axis_extent(t, 2); i[2]++)                                                                               \
                for (i[3] = 0; i[3] < axis_extent(t, 3); i[3]++)

void fill_normal(const attn_tensor *t, rng *r, double size) {
    FOR_EACH(i, t) {
        set_element(t, i[0], i[1], i[2], i[3], size * rng_normal(r));
    }
}

void copy_elements(const attn_tensor *to, const attn_tensor *from) {
    FOR_EACH(i, to) {
        set_element(to, i[0], i[1], i[2], i[3], ref_element(from, i[0], i[1], i[2], i[3]));
    }
}

attn_tensor slice(attn_tensor t, int axis, int64_t begin, int64_t end) {
    t.data = (char *)t.data + begin * t.stride[axis] * (int64_t)attn_dtype_size(t.dtype);
    t.shape[axis] = end - begin;
    return t;
}

attn_tensor packed_copy(pool *p, const attn_tensor *t) {
    const attn_tensor copy = new_tensor(p, t->dtype, t->ndim, t->shape);
    copy_elements(&copy, t);
    return copy;
}

bool same_bits(const char *what, const attn_tensor *a, const attn_tensor *b) {
    const size_t size = attn_dtype_size(a->dtype);
    FOR_EACH(i, a) {
        const char *x = (const char *)a->data + element_offset(a, i) * (int64_t)size;
        const char *y = (const char *)b->data + element_offset(b, i) * (int64_t)size;
        if (memcmp(x, y, size) != 0) {
            print_error("%s: element [%lld,%lld,%lld,%lld] is %.17g in one and %.17g in the other\n", what, (long long)i[0],
                        (long long)i[1], (long long)i[2],
                        (long long)i[3], ref_element(a, i[0], i[1], i[2], i[3]), ref_element(b, i[0], i[1], i[2], i[3]));
            return false;
        }
    }
    return true;
}

void fill_bytes(const attn_tensor *t, int byte) {
    memset(t->data, byte, (size_t)element_count(t) * attn_dtype_size(t->dtype));
}

/* --------------------------------------------------------------- contexts ---- */

attn_ctx *new_ctx(const char *isa, uint32_t threads) {
    const attn_ctx_opts o = {.isa = isa, .threads = threads};
    char sentence[512] = "";
    attn_ctx *ctx = NULL;
    if (attn_ctx_create(&ctx, &o, sentence, sizeof sentence) != ATTN_OK) {
        fail_msg("attn_ctx_create: %s", sentence);
    }
    return ctx;
}

const char *usable_isa(int i) {
    const char *name;
    for (int level = 0; (name = attn_isa_name(level)); level++) {
        if (!attn_isa_usable(name)) {
            if (i == 0) {
                print_message("skipped: this CPU cannot run the ISA level %s\n", name);
            }
        } else if (i-- == 0) {
            return name;
        }
    }
    return NULL;
}

void assert_status(const attn_ctx *ctx, attn_status got, attn_status want, const char *call, const char *file, int line) {
    if (got != want) {
        fail_msg("%s:%d: %s: %s", file, line, call, attn_ctx_error(ctx));
    }
}
