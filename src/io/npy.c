/* SPDX-License-Identifier: Apache-2.0 */
#include "npy.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { PREFIX = 8, MAX_HEADER = 1 << 20 };

static const struct {
    char kind[3];
    attn_dtype dtype;
} dtypes[] = {{"f4", ATTN_F32}, {"f8", ATTN_F64}, {"f2", ATTN_F16}, {"V2", ATTN_BF16}, {"b1", ATTN_BOOL}, {"i1", ATTN_I8}, {"u1", ATTN_U8},
              {"i2", ATTN_I16}, {"u2", ATTN_U16}, {"i4", ATTN_I32}, {"u4", ATTN_U32},  {"i8", ATTN_I64},  {"u8", ATTN_U64}};

/* ---- the dictionary ---- */

/* A place in the dictionary. Every take_ function moves it past what it took, or fails with a sentence. */
struct reader {
    const unsigned char *file, *at, *end;
    const struct report *report;
};

static attn_status expected(const struct reader *t, const char *what)
{
    if (t->at == t->end)
        return attn_io_fail(t->report, ATTN_E_FORMAT, "the header ends where %s is expected", what);
    const unsigned char c = *t->at;
    const int shown = c >= 0x20 && c < 0x7f ? c : '?';
    return attn_io_fail(t->report, ATTN_E_FORMAT, "byte %td: '%c' where %s is expected", t->at - t->file, shown, what);
}

static void skip_blanks(struct reader *t)
{
    while (t->at < t->end && (*t->at == ' ' || *t->at == '\n' || *t->at == '\t' || *t->at == '\r'))
        t->at++;
}

/* After blanks: c is next, and taken. */
static bool take(struct reader *t, char c)
{
    skip_blanks(t);
    if (t->at == t->end || *t->at != (unsigned char)c)
        return false;
    t->at++;
    return true;
}

static bool take_word(struct reader *t, const char *word)
{
    const size_t n = strlen(word);
    if ((size_t)(t->end - t->at) < n || memcmp(t->at, word, n) != 0)
        return false;
    t->at += n;
    return true;
}

/* A quoted string without escapes, cut to size. */
static attn_status take_string(struct reader *t, char *text, size_t size, const char *what)
{
    skip_blanks(t);
    if (t->at == t->end || (*t->at != '\'' && *t->at != '"'))
        return expected(t, what);
    const unsigned char quote = *t->at++;
    size_t n = 0;
    for (; t->at < t->end && *t->at != quote; t->at++) {
        if (*t->at < 0x20 || *t->at == '\\')
            return expected(t, "a plain character of a string");
        if (n + 1 < size)
            text[n++] = (char)*t->at;
    }
    text[n] = '\0';
    if (t->at == t->end)
        return expected(t, "the end of a string");
    t->at++;
    return ATTN_OK;
}

static attn_status take_size(struct reader *t, int64_t *size)
{
    skip_blanks(t);
    if (t->at < t->end && *t->at == '-')
        return attn_io_fail(t->report, ATTN_E_FORMAT, "byte %td: a negative size in the shape", t->at - t->file);
    const unsigned char *start = t->at;
    int64_t n = 0;
    for (; t->at < t->end && *t->at >= '0' && *t->at <= '9'; t->at++) {
        if (__builtin_mul_overflow(n, (int64_t)10, &n) || __builtin_add_overflow(n, (int64_t)(*t->at - '0'), &n))
            return attn_io_fail(t->report, ATTN_E_FORMAT, "byte %td: a size in the shape exceeds 63 bits", start - t->file);
    }
    if (t->at == start || (*start == '0' && t->at > start + 1))
        return expected(t, "a whole number of the shape");
    if (t->at < t->end && *t->at == 'L') /* Python 2 wrote its long integers so */
        t->at++;
    *size = n;
    return ATTN_OK;
}

static attn_status take_shape(struct reader *t, struct npy_header *h, struct extent *e)
{
    *e = extent_of_scalar();
    if (!take(t, '('))
        return expected(t, "the '(' of the shape, a tuple,");
    for (bool comma = true; !take(t, ')'); comma = take(t, ',')) {
        int64_t size = 0;
        if (!comma)
            return expected(t, "',' or ')' of the shape");
        const attn_status s = take_size(t, &size);
        if (s != ATTN_OK)
            return s;
        if (h->ndim < ATTN_MAX_DIMS)
            h->shape[h->ndim] = size;
        if (!attn_io_extent_add(e, size))
            return attn_io_fail(t->report, ATTN_E_FORMAT, "the product of the shape exceeds 63 bits");
        h->ndim++;
        skip_blanks(t);
        if (h->ndim == 1 && t->at < t->end && *t->at == ')')
            return attn_io_fail(t->report, ATTN_E_FORMAT, "byte %td: the shape is no tuple; one axis is written (%" PRId64 ",)",
                                t->at - t->file, size);
    }
    return ATTN_OK;
}

/* The list that describes a structured dtype: skipped, brackets and strings matched. */
static attn_status skip_list(struct reader *t)
{
    int depth = 0;
    do {
        char ignored[2];
        skip_blanks(t);
        if (t->at == t->end)
            return expected(t, "the end of a list");
        if (*t->at == '\'' || *t->at == '"') {
            const attn_status s = take_string(t, ignored, sizeof ignored, "a string");
            if (s != ATTN_OK)
                return s;
            continue;
        }
        depth += *t->at == '[' || *t->at == '(';
        depth -= *t->at == ']' || *t->at == ')';
        t->at++;
    } while (depth > 0);
    return ATTN_OK;
}

static attn_status take_dtype(struct reader *t, struct npy_header *h)
{
    skip_blanks(t);
    if (t->at < t->end && *t->at == '[') {
        strcpy(h->word, "[...]");
        return skip_list(t);
    }
    const attn_status s = take_string(t, h->word, sizeof h->word, "the dtype, a string,");
    if (s != ATTN_OK)
        return s;
    for (const char *c = h->word; *c != '\0'; c++) { /* it becomes a dtype_name */
        if ((unsigned char)*c >= 0x7f)
            return attn_io_fail(t->report, ATTN_E_FORMAT, "dtype '%s' is no plain ASCII", h->word);
    }
    const char order = h->word[0];
    const bool has_order = order == '<' || order == '>' || order == '=' || order == '|';
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        if (strcmp(h->word + has_order, dtypes[i].kind) == 0)
            h->dtype = dtypes[i].dtype;
    }
    h->swap = order == '>';
    return ATTN_OK;
}

static attn_status take_order(struct reader *t, struct npy_header *h)
{
    skip_blanks(t);
    h->fortran = take_word(t, "True");
    return h->fortran || take_word(t, "False") ? ATTN_OK : expected(t, "True or False of fortran_order");
}

enum { SEEN_DTYPE = 1, SEEN_ORDER = 2, SEEN_SHAPE = 4, SEEN_ALL = 7 };

static attn_status take_member(struct reader *t, struct npy_header *h, struct extent *e, unsigned *seen)
{
    char key[NPY_WORD_SIZE];
    attn_status s = take_string(t, key, sizeof key, "a key of the header");
    if (s != ATTN_OK)
        return s;
    const unsigned bit = strcmp(key, "descr") == 0           ? SEEN_DTYPE
                         : strcmp(key, "fortran_order") == 0 ? SEEN_ORDER
                         : strcmp(key, "shape") == 0         ? SEEN_SHAPE
                                                             : 0;
    if (bit == 0)
        return attn_io_fail(t->report, ATTN_E_FORMAT, "the header has a key '%s'; only descr, fortran_order and shape are known", key);
    if (*seen & bit)
        return attn_io_fail(t->report, ATTN_E_FORMAT, "the header has the key '%s' twice", key);
    *seen |= bit;
    if (!take(t, ':'))
        return expected(t, "':'");
    return bit == SEEN_DTYPE ? take_dtype(t, h) : bit == SEEN_ORDER ? take_order(t, h) : take_shape(t, h, e);
}

static attn_status take_dictionary(struct reader *t, struct npy_header *h)
{
    unsigned seen = 0;
    struct extent e = extent_of_scalar();
    if (!take(t, '{'))
        return expected(t, "the '{' of the header");
    for (bool comma = true; !take(t, '}'); comma = take(t, ',')) {
        if (!comma)
            return expected(t, "',' or '}'");
        const attn_status s = take_member(t, h, &e, &seen);
        if (s != ATTN_OK)
            return s;
    }
    skip_blanks(t);
    if (t->at != t->end)
        return expected(t, "the end of the header");
    if (seen != SEEN_ALL)
        return attn_io_fail(t->report, ATTN_E_FORMAT, "the header has no %s",
                            !(seen & SEEN_DTYPE)   ? "descr"
                            : !(seen & SEEN_ORDER) ? "fortran_order"
                                                   : "shape");
    if (h->dtype != 0 && !attn_io_extent_bytes(&e, 8 * (unsigned)attn_dtype_size(h->dtype), &h->bytes))
        return attn_io_fail(t->report, ATTN_E_FORMAT, "the array's size in bytes exceeds 63 bits");
    return ATTN_OK;
}

/* ---- the frame ---- */

/* Where the dictionary begins and how long it is said to be; false when size does not reach that far. The version is 1, 2 or 3. */
static bool frame(const unsigned char *b, size_t size, size_t *at, size_t *length)
{
    const size_t width = size > 6 && b[6] == 1 ? 2 : 4;
    if (size < PREFIX + width)
        return false;
    *at = PREFIX + width;
    *length = (size_t)b[8] | (size_t)b[9] << 8;
    if (width == 4)
        *length |= (size_t)b[10] << 16 | (size_t)b[11] << 24;
    return true;
}

static bool is_npy(const unsigned char *b, size_t size)
{
    return size >= PREFIX && memcmp(b, "\x93NUMPY", 6) == 0 && b[6] >= 1 && b[6] <= 3 && b[7] == 0;
}

size_t attn_npy_need(const unsigned char *bytes, size_t size)
{
    size_t at, length;
    if (size < PREFIX)
        return PREFIX;
    if (!is_npy(bytes, size))
        return size;
    if (!frame(bytes, size, &at, &length))
        return PREFIX + 4;
    if (length > MAX_HEADER || at + length > size)
        return length > MAX_HEADER ? size : at + length;
    struct npy_header h;
    const struct report nowhere = {.text = NULL};
    if (attn_npy_header(&h, bytes, size, &nowhere) != ATTN_OK || h.bytes > SIZE_MAX - h.data_at)
        return size;
    return h.data_at + (size_t)h.bytes;
}

attn_status attn_npy_header(struct npy_header *h, const unsigned char *bytes, size_t size, const struct report *r)
{
    size_t at = 0, length = 0;
    *h = (struct npy_header){.ndim = 0};
    if (size == 0)
        return attn_io_fail(r, ATTN_E_FORMAT, "the file is empty, no .npy");
    if (size < PREFIX || memcmp(bytes, "\x93NUMPY", 6) != 0)
        return attn_io_fail(r, ATTN_E_FORMAT, "not a .npy: it does not begin with \\x93NUMPY and a version");
    if (!is_npy(bytes, size))
        return attn_io_fail(r, ATTN_E_FORMAT, ".npy version %u.%u is not known; 1.0, 2.0 and 3.0 are", bytes[6], bytes[7]);
    if (!frame(bytes, size, &at, &length))
        return attn_io_fail(r, ATTN_E_FORMAT, "the file ends within the header length");
    if (length > MAX_HEADER)
        return attn_io_fail(r, ATTN_E_FORMAT, "a header of %zu bytes; at most %d are read", length, MAX_HEADER);
    if (length > size - at)
        return attn_io_fail(r, ATTN_E_FORMAT, "the header is said to have %zu bytes, but the file ends after %zu", length, size - at);
    h->data_at = at + length;
    struct reader t = {.file = bytes, .at = bytes + at, .end = bytes + at + length, .report = r};
    return take_dictionary(&t, h);
}

attn_status attn_npy_refuse_dtype(const char *word, const struct report *r)
{
    const char kind = word[0] != '\0' && strchr("<>=|", word[0]) != NULL ? word[1] : word[0];
    const char *meaning = kind == 'c'                                 ? " (complex numbers)"
                          : kind == 'O'                               ? " (Python objects)"
                          : kind == 'U' || kind == 'S' || kind == 'a' ? " (strings)"
                          : kind == 'M' || kind == 'm'                ? " (dates or times)"
                          : kind == '['                               ? " (structured records)"
                                                                      : "";
    return attn_io_fail(r, ATTN_E_DTYPE, "dtype '%s'%s is not read; save it as bool, an integer, f16, bf16 (<V2), f32 or f64", word,
                        meaning);
}

void attn_npy_describe(struct array *a, const struct npy_header *h)
{
    a->dtype = (uint8_t)h->dtype;
    a->dtype_name = attn_dtype_name(h->dtype);
    a->ndim = h->ndim;
    memcpy(a->shape, h->shape, sizeof a->shape);
    a->bytes = h->bytes;
    a->fortran = h->fortran;
    a->swap = h->swap;
}

attn_status attn_npy_parse(struct attn_file *f, const struct report *r)
{
    struct npy_header h;
    attn_status s = attn_npy_header(&h, f->bytes.data, f->bytes.size, r);
    if (s != ATTN_OK)
        return s;
    if (h.dtype == 0)
        return attn_npy_refuse_dtype(h.word, r);
    if (h.ndim > ATTN_MAX_DIMS)
        return attn_io_fail(r, ATTN_E_SHAPE, "the array has %d axes; at most %d are read", (int)h.ndim, ATTN_MAX_DIMS);
    if (h.bytes > f->bytes.size - h.data_at) {
        char shape[SHAPE_TEXT_SIZE];
        return attn_io_fail(r, ATTN_E_FORMAT, "shape %s of %s needs %" PRIu64 " bytes after the header, but the file has %zu",
                            attn_io_shape_text(shape, sizeof shape, h.ndim, h.shape), attn_dtype_name(h.dtype), h.bytes,
                            f->bytes.size - h.data_at);
    }
    s = attn_io_allocate(f, 1, 1, r);
    if (s != ATTN_OK)
        return s;
    f->names[0] = '\0';
    f->arrays[0].name = f->names;
    attn_npy_describe(&f->arrays[0], &h);
    f->arrays[0].data = f->bytes.data + h.data_at;
    return ATTN_OK;
}

size_t attn_npy_write_header(char text[NPY_HEADER_SIZE], const attn_tensor *t)
{
    const char *kind = "";
    char shape[SHAPE_TEXT_SIZE];
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        if (dtypes[i].dtype == t->dtype)
            kind = dtypes[i].kind;
    }
    const char order = attn_dtype_size(t->dtype) == 1 ? '|' : '<';
    const int n = snprintf(text + PREFIX + 2, NPY_HEADER_SIZE - PREFIX - 2, "{'descr': '%c%s', 'fortran_order': False, 'shape': %s, }",
                           order, kind, attn_io_shape_text(shape, sizeof shape, t->ndim, t->shape));
    const size_t used = PREFIX + 2 + (size_t)n, whole = (used + 1 + 63) / 64 * 64, length = whole - PREFIX - 2;
    memcpy(text, "\x93NUMPY\x01\x00", PREFIX);
    text[8] = (char)(length & 0xff);
    text[9] = (char)(length >> 8);
    memset(text + used, ' ', whole - used - 1);
    text[whole - 1] = '\n';
    return whole;
}
