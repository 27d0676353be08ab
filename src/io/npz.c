/* SPDX-License-Identifier: Apache-2.0 */
/* .npz: a zip of .npy files, read by libzip. Headers are read when the file is opened, numbers when they are asked for. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zip.h>

#include "npy.h"

enum {
    MAX_ENTRIES = 65535,
    MAX_HEADER_END = 12 + (1 << 16), /* opening reads every header, and all entries may lie over the same deflated bytes */
    MAX_RATIO = 1032                 /* a deflate stream of n bytes holds at most 1032 n bytes */
};

static attn_status fail_zip(const struct report *r, zip_error_t *e)
{
    if (zip_error_code_zip(e) == ZIP_ER_MEMORY)
        return attn_io_fail_nomem(r);
    return attn_io_fail(r, ATTN_E_FORMAT, "a damaged zip: %s", zip_error_strerror(e));
}

static int64_t read_entry(void *user, void *to, size_t size, const struct report *r)
{
    zip_file_t *entry = user;
    const zip_int64_t n = zip_fread(entry, to, size);
    return n >= 0 ? n : -(int64_t)fail_zip(r, zip_file_get_error(entry));
}

/* The name of array number `entry` when the entry is a .npy: its length without the suffix, else 0 and the entry is no array. */
static size_t array_name(zip_t *z, zip_uint64_t entry, const char **name)
{
    *name = zip_get_name(z, entry, ZIP_FL_ENC_GUESS);
    const size_t n = *name ? strlen(*name) : 0;
    return n > 4 && strcmp(*name + n - 4, ".npy") == 0 ? n - 4 : 0;
}

/* What the directory says about an entry, held against what is possible. */
static attn_status check_entry(zip_t *z, uint32_t entry, size_t file_size, zip_stat_t *st, const struct report *r)
{
    const zip_uint64_t needed = ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
    if (zip_stat_index(z, entry, 0, st) != 0)
        return fail_zip(r, zip_get_error(z));
    if ((st->valid & needed) != needed)
        return attn_io_fail(r, ATTN_E_FORMAT, "the zip does not say how the entry is stored");
    if (st->encryption_method != ZIP_EM_NONE)
        return attn_io_fail(r, ATTN_E_FORMAT, "the entry is encrypted; encrypted entries are not read");
    if (st->comp_method != ZIP_CM_STORE && st->comp_method != ZIP_CM_DEFLATE)
        return attn_io_fail(r, ATTN_E_FORMAT, "compression method %u is not read; stored (0) and deflated (8) are", st->comp_method);
    if (st->comp_size > file_size)
        return attn_io_fail(r, ATTN_E_FORMAT, "the entry is said to have %" PRIu64 " bytes, but the file has %zu", st->comp_size,
                            file_size);
    if (st->size / MAX_RATIO > st->comp_size || (st->comp_method == ZIP_CM_STORE && st->size != st->comp_size))
        return attn_io_fail(r, ATTN_E_FORMAT, "%" PRIu64 " bytes are said to come out of %" PRIu64 "; that is more than deflate can",
                            st->size, st->comp_size);
    return ATTN_OK;
}

static attn_status refuse_header(size_t end, const struct report *r)
{
    return attn_io_fail(r, ATTN_E_FORMAT, "the header ends at byte %zu of the entry; in a .npz at most %d are read", end, MAX_HEADER_END);
}

/* Fills b with the beginning of the entry, or all of it, whatever attn_npy_need asks for. */
static attn_status read_npy(zip_t *z, uint32_t entry, bool whole, const zip_stat_t *st, struct buffer *b, const struct report *r)
{
    zip_file_t *stream = zip_fopen_index(z, entry, 0);
    if (stream == NULL)
        return fail_zip(r, zip_get_error(z));
    const struct source source = {.read = read_entry, .user = stream};
    attn_status s = ATTN_OK;
    b->size = 0;
    if (whole) {
        /* One byte more than there should be, so that libzip meets the end and compares the checksum. */
        s = attn_buffer_fill(b, &source, (size_t)st->size + 1, r);
    } else {
        struct npy_header h;
        const struct report nowhere = {.text = NULL};
        for (size_t need = attn_npy_need(b->data, 0); s == ATTN_OK && need > b->size; need = attn_npy_need(b->data, b->size)) {
            s = need > MAX_HEADER_END ? refuse_header(need, r) : attn_buffer_fill(b, &source, need, r);
            if (b->size < need || attn_npy_header(&h, b->data, b->size, &nowhere) == ATTN_OK)
                break;
        }
    }
    zip_fclose(stream);
    return s;
}

/* Fills array i's description from the header of its entry. */
static attn_status describe(struct attn_file *f, struct array *a, uint32_t entry, struct buffer *b, char *word, const struct report *r)
{
    zip_stat_t st;
    struct npy_header h;
    attn_status s = check_entry(f->zip, entry, f->bytes.size, &st, r);
    if (s == ATTN_OK)
        s = read_npy(f->zip, entry, false, &st, b, r);
    if (s == ATTN_OK)
        s = attn_npy_header(&h, b->data, b->size, r);
    if (s != ATTN_OK)
        return s;
    if (h.dtype != 0 && (st.size < h.data_at || st.size - h.data_at != h.bytes)) {
        char shape[SHAPE_TEXT_SIZE];
        return attn_io_fail(r, ATTN_E_FORMAT, "shape %s of %s needs %" PRIu64 " bytes after the header, but the entry has %" PRId64,
                            attn_io_shape_text(shape, sizeof shape, h.ndim, h.shape), attn_dtype_name(h.dtype), h.bytes,
                            (int64_t)(st.size - h.data_at));
    }
    attn_npy_describe(a, &h);
    a->inner = entry;
    if (h.dtype == 0)
        a->dtype_name = strcpy(word, h.word);
    return ATTN_OK;
}

/* Each array's name and, after it, room for the word of a dtype that is not read. */
static attn_status describe_all(struct attn_file *f, size_t entries, const struct report *r)
{
    struct buffer b = {.data = NULL};
    char *names = f->names;
    attn_status s = ATTN_OK;
    for (size_t entry = 0, i = 0; entry < entries && s == ATTN_OK; entry++) {
        const char *name;
        const size_t n = array_name(f->zip, entry, &name);
        if (n == 0)
            continue;
        struct array *a = &f->arrays[i++];
        a->name = memcpy(names, name, n);
        names[n] = '\0';
        const struct report here = {.text = r->text, .size = r->size, .file = r->file, .part = a->name};
        s = describe(f, a, (uint32_t)entry, &b, names + n + 1, &here);
        names += n + 1 + NPY_WORD_SIZE;
    }
    free(b.data);
    return s;
}

static attn_status open_zip(struct attn_file *f, const struct report *r)
{
    zip_error_t e;
    zip_error_init(&e);
    zip_source_t *source = zip_source_buffer_create(f->bytes.data, f->bytes.size, 0, &e);
    f->zip = source ? zip_open_from_source(source, ZIP_RDONLY, &e) : NULL;
    attn_status s = ATTN_OK;
    if (f->zip == NULL) {
        zip_source_free(source);
        s = fail_zip(r, &e);
    }
    zip_error_fini(&e);
    return s;
}

attn_status attn_npz_parse(struct attn_file *f, const struct report *r)
{
    if (f->bytes.size == 0)
        return attn_io_fail(r, ATTN_E_FORMAT, "the file is empty, no .npz");
    attn_status s = open_zip(f, r);
    if (s != ATTN_OK)
        return s;
    const zip_int64_t entries = zip_get_num_entries(f->zip, 0);
    if (entries > MAX_ENTRIES)
        return attn_io_fail(r, ATTN_E_FORMAT, "the zip has %" PRId64 " entries; at most %d are read", entries, MAX_ENTRIES);
    size_t count = 0, name_bytes = 0;
    for (zip_int64_t i = 0; i < entries; i++) {
        const char *name;
        const size_t n = array_name(f->zip, (zip_uint64_t)i, &name);
        count += n > 0;
        name_bytes += n > 0 ? n + 1 + NPY_WORD_SIZE : 0;
    }
    s = attn_io_allocate(f, count, name_bytes, r);
    return s == ATTN_OK ? describe_all(f, (size_t)entries, r) : s;
}

attn_status attn_npz_load(struct attn_file *f, struct array *a, const struct report *r)
{
    zip_stat_t st;
    struct npy_header h;
    struct buffer b = {.data = NULL};
    attn_status s = check_entry(f->zip, a->inner, f->bytes.size, &st, r);
    if (s == ATTN_OK)
        s = read_npy(f->zip, a->inner, true, &st, &b, r);
    if (s == ATTN_OK && b.size != st.size)
        s = attn_io_fail(r, ATTN_E_FORMAT, "the entry is said to have %" PRIu64 " bytes, but holds %s", st.size,
                         b.size < st.size ? "fewer" : "more");
    if (s == ATTN_OK)
        s = attn_npy_header(&h, b.data, b.size, r);
    if (s == ATTN_OK) {
        a->owned = b.data;
        a->data = b.data + h.data_at;
        return ATTN_OK;
    }
    free(b.data);
    return s;
}

void attn_npz_close(struct zip *z)
{
    if (z != NULL)
        zip_discard(z);
}
