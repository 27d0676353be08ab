/* SPDX-License-Identifier: Apache-2.0 */
/* Opening by suffix, looking up, and turning an entry into a tensor. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "npy.h"

static bool ends_with(const char *text, const char *suffix)
{
    const size_t n = strlen(text), m = strlen(suffix);
    return n >= m && strcasecmp(text + n - m, suffix) == 0;
}

attn_format attn_format_of(const char *path)
{
    static const struct {
        const char *suffix;
        attn_format format;
    } formats[] = {{".npy", ATTN_FORMAT_NPY},
                   {".npz", ATTN_FORMAT_NPZ},
                   {".safetensors", ATTN_FORMAT_SAFETENSORS},
                   {".safetensors.index.json", ATTN_FORMAT_SAFETENSORS_INDEX},
                   {".gguf", ATTN_FORMAT_GGUF},
                   {".csv", ATTN_FORMAT_CSV},
                   {".txt", ATTN_FORMAT_CSV}};
    if (strcmp(path, "-") == 0 || strcmp(path, "/dev/stdin") == 0 || strcmp(path, "/dev/stdout") == 0)
        return ATTN_FORMAT_NPY;
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        if (ends_with(path, formats[i].suffix))
            return formats[i].format;
    }
    return ATTN_FORMAT_UNKNOWN;
}

/* ---- opening ---- */

attn_status attn_io_allocate(struct attn_file *f, size_t count, size_t name_bytes, const struct report *r)
{
    f->arrays = calloc(count ? count : 1, sizeof f->arrays[0]);
    f->by_name = calloc(count ? count : 1, sizeof(struct array *));
    f->names = malloc(name_bytes ? name_bytes : 1);
    if (f->arrays == NULL || f->by_name == NULL || f->names == NULL)
        return attn_io_fail_nomem(r);
    f->count = count;
    return ATTN_OK;
}

static int compare_places(const void *a, const void *b)
{
    const struct array *const *x = a, *const *y = b;
    if ((*x)->data != (*y)->data)
        return (*x)->data < (*y)->data ? -1 : 1;
    return ((*x)->bytes > (*y)->bytes) - ((*x)->bytes < (*y)->bytes);
}

void attn_io_sort_by_place(struct attn_file *f)
{
    for (size_t i = 0; i < f->count; i++)
        f->by_name[i] = &f->arrays[i];
    qsort(f->by_name, f->count, sizeof(struct array *), compare_places);
}

static int compare_names(const void *a, const void *b)
{
    const struct array *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static attn_status sort_by_name(struct attn_file *f, const struct report *r)
{
    for (size_t i = 0; i < f->count; i++)
        f->by_name[i] = &f->arrays[i];
    qsort(f->by_name, f->count, sizeof(struct array *), compare_names);
    for (size_t i = 1; i < f->count; i++) {
        if (strcmp(f->by_name[i - 1]->name, f->by_name[i]->name) == 0)
            return attn_io_fail(r, ATTN_E_FORMAT, "two arrays are called '%s'", f->by_name[i]->name);
    }
    return ATTN_OK;
}

static attn_status parse(struct attn_file *f, const struct report *r)
{
    attn_status s = ATTN_E_UNSUPPORTED;
    switch (f->format) {
    case ATTN_FORMAT_NPY:
        s = attn_npy_parse(f, r);
        break;
    case ATTN_FORMAT_NPZ:
        s = attn_npz_parse(f, r);
        break;
    case ATTN_FORMAT_SAFETENSORS:
        s = attn_safetensors_parse(f, r);
        break;
    case ATTN_FORMAT_SAFETENSORS_INDEX:
        s = attn_shards_parse(f, r);
        break;
    case ATTN_FORMAT_CSV:
        s = attn_csv_parse(f, r);
        break;
    case ATTN_FORMAT_GGUF:
        s = attn_gguf_parse(f, r);
        break;
    case ATTN_FORMAT_UNKNOWN:
        return attn_io_fail(r, s, "unknown suffix; .npy, .npz, .safetensors, .safetensors.index.json, .gguf, .csv and .txt are read");
    }
    return s == ATTN_OK ? sort_by_name(f, r) : s;
}

/* A pipe or device: of a .npy just its own bytes, of the rest everything. */
static attn_status read_stream(struct attn_file *f, int fd, const struct report *r)
{
    const struct source source = attn_source_of_fd(&fd);
    struct buffer b = {.data = NULL};
    attn_status s = ATTN_OK;
    if (f->format == ATTN_FORMAT_NPY) {
        size_t need = attn_npy_need(b.data, 0);
        while (s == ATTN_OK && need > b.size) {
            s = attn_buffer_fill(&b, &source, need, r);
            if (b.size < need)
                break;
            need = attn_npy_need(b.data, b.size);
        }
    } else {
        s = attn_buffer_fill(&b, &source, SIZE_MAX, r);
    }
    f->bytes = (struct bytes){.data = b.data, .size = b.size, .kind = BYTES_HEAP};
    return s;
}

static attn_status read_fd(struct attn_file *f, int fd, const struct report *r)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return attn_io_fail_errno(r, errno, "cannot read");
    if (S_ISDIR(st.st_mode))
        return attn_io_fail_errno(r, EISDIR, "cannot read");
    if (fd == STDIN_FILENO || !S_ISREG(st.st_mode)) {
        if (f->format == ATTN_FORMAT_UNKNOWN)
            f->format = ATTN_FORMAT_NPY;
        return read_stream(f, fd, r);
    }
    if (f->format == ATTN_FORMAT_UNKNOWN)
        return parse(f, r);
    if ((uint64_t)st.st_size > SIZE_MAX / 2)
        return attn_io_fail(r, ATTN_E_IO, "the file is larger than the address space");
    return attn_bytes_map(&f->bytes, fd, (size_t)st.st_size, r);
}

static attn_status read_path(struct attn_file *f, const char *path, const struct report *r)
{
    if (strcmp(path, "-") == 0)
        return read_fd(f, STDIN_FILENO, r);
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return attn_io_fail_errno(r, errno, "cannot open");
    const attn_status s = read_fd(f, fd, r);
    close(fd);
    return s;
}

static attn_status file_create(struct attn_file **out, attn_format format, const struct report *r)
{
    struct attn_file *f = calloc(1, sizeof *f);
    char *copy = malloc(strlen(r->file) + 1);
    if (f == NULL || copy == NULL) {
        free(f);
        free(copy);
        return attn_io_fail_nomem(r);
    }
    f->format = format;
    f->path = strcpy(copy, r->file);
    *out = f;
    return ATTN_OK;
}

attn_status attn_file_open(attn_file **out, const char *path, char *err, size_t err_size)
{
    const struct report r = {.text = err, .size = err_size, .file = strcmp(path, "-") == 0 ? "standard input" : path};
    *out = NULL;
    struct attn_file *f;
    attn_status s = file_create(&f, attn_format_of(path), &r);
    if (s != ATTN_OK)
        return s;
    s = read_path(f, path, &r);
    if (s == ATTN_OK)
        s = parse(f, &r);
    if (s == ATTN_OK)
        *out = f;
    else
        attn_file_close(f);
    return s;
}

attn_status attn_file_from_memory(attn_file **out, attn_format format, const void *bytes, size_t size, const char *name, char *err,
                                  size_t err_size)
{
    const struct report r = {.text = err, .size = err_size, .file = name};
    *out = NULL;
    struct attn_file *f;
    attn_status s = file_create(&f, format, &r);
    if (s != ATTN_OK)
        return s;
    f->bytes = (struct bytes){.data = bytes, .size = size, .kind = BYTES_BORROWED};
    s = parse(f, &r);
    if (s == ATTN_OK)
        *out = f;
    else
        attn_file_close(f);
    return s;
}

void attn_file_close(attn_file *f)
{
    if (f == NULL)
        return;
    for (size_t i = 0; i < f->count; i++)
        free(f->arrays[i].owned);
    for (size_t i = 0; i < f->shard_count; i++)
        attn_file_close(f->shards[i]);
    free(f->shards);
    attn_npz_close(f->zip);
    attn_bytes_release(&f->bytes);
    free(f->arrays);
    free(f->by_name);
    free(f->names);
    free(f->values);
    free(f->values_by_key);
    free(f->keys);
    free(f->path);
    free(f);
}

/* ---- looking up ---- */

attn_format attn_file_format(const attn_file *f) { return f->format; }

size_t attn_file_count(const attn_file *f) { return f->count; }

attn_array_info attn_file_info(const attn_file *f, size_t i)
{
    attn_array_info info = {.name = NULL};
    if (i >= f->count)
        return info;
    const struct array *a = &f->arrays[i];
    info.name = a->name;
    info.dtype_name = a->dtype_name;
    info.dtype = (attn_dtype)a->dtype;
    info.ndim = a->ndim;
    memcpy(info.shape, a->shape, sizeof info.shape);
    return info;
}

int64_t attn_file_find(const attn_file *f, const char *name)
{
    size_t low = 0, high = f->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const int order = strcmp(name, f->by_name[middle]->name);
        if (order == 0)
            return f->by_name[middle] - f->arrays;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return -1;
}

/* ---- tensors ---- */

static void swap_bytes(unsigned char *p, size_t count, size_t item)
{
    for (size_t i = 0; i < count; i++, p += item) {
        for (size_t j = 0; j < item / 2; j++) {
            const unsigned char c = p[j];
            p[j] = p[item - 1 - j];
            p[item - 1 - j] = c;
        }
    }
}

/* Numbers in this machine's byte order at an address that its loads accept. */
static attn_status make_native(struct array *a, const struct report *r)
{
    const size_t item = attn_dtype_size((attn_dtype)a->dtype);
    if (a->bytes == 0 || (!a->swap && (uintptr_t)a->data % item == 0))
        return ATTN_OK;
    unsigned char *copy = malloc((size_t)a->bytes);
    if (copy == NULL)
        return attn_io_fail_nomem(r);
    memcpy(copy, a->data, (size_t)a->bytes);
    if (a->swap)
        swap_bytes(copy, (size_t)a->bytes / item, item);
    free(a->owned);
    a->owned = copy;
    a->data = copy;
    a->swap = false;
    return ATTN_OK;
}

static attn_tensor view_of(const struct array *a)
{
    void *data = a->bytes == 0 ? NULL : (void *)(uintptr_t)a->data;
    attn_tensor t = attn_tensor_of(data, (attn_dtype)a->dtype, a->ndim, a->shape);
    int64_t stride = 1;
    for (int32_t i = 0; a->fortran && i < a->ndim; i++) {
        t.stride[i] = stride;
        stride *= a->shape[i] > 0 ? a->shape[i] : 1;
    }
    return t;
}

attn_status attn_file_tensor(attn_file *f, size_t i, attn_tensor *t, char *err, size_t err_size)
{
    if (i >= f->count) {
        const struct report r = {.text = err, .size = err_size, .file = f->path};
        return attn_io_fail(&r, ATTN_E_ARG, "there is no array %zu; the file has %zu", i, f->count);
    }
    struct array *a = &f->arrays[i];
    if (f->format == ATTN_FORMAT_SAFETENSORS_INDEX)
        return attn_file_tensor(f->shards[a->shard], a->inner, t, err, err_size);
    const struct report r = {.text = err, .size = err_size, .file = f->path, .part = a->name[0] != '\0' ? a->name : NULL};
    if (a->dtype == 0 && f->format == ATTN_FORMAT_GGUF)
        return attn_io_fail(&r, ATTN_E_DTYPE, "the numbers are stored in %s blocks, not as plain numbers; attn_gguf_rows reads them",
                            a->dtype_name);
    if (a->dtype == 0)
        return attn_npy_refuse_dtype(a->dtype_name, &r);
    if (a->ndim > ATTN_MAX_DIMS)
        return attn_io_fail(&r, ATTN_E_SHAPE, "the array has %d axes; at most %d are read", (int)a->ndim, ATTN_MAX_DIMS);
    attn_status s = ATTN_OK;
    if (a->data == NULL && f->format == ATTN_FORMAT_NPZ)
        s = attn_npz_load(f, a, &r);
    if (s == ATTN_OK)
        s = make_native(a, &r);
    if (s == ATTN_OK)
        *t = view_of(a);
    return s;
}

void attn_file_forget(const attn_file *f)
{
    attn_bytes_forget(&f->bytes);
    for (size_t i = 0; i < f->shard_count; i++)
        attn_file_forget(f->shards[i]);
}

/* "a, b, c" of the first names, "..." for those that do not fit. */
static void list_names(const attn_file *f, char *text, size_t size)
{
    size_t n = 0;
    text[0] = '\0';
    for (size_t i = 0; i < f->count; i++) {
        const char *name = f->arrays[i].name;
        if (n + strlen(name) + 2 * sizeof ", ..." >= size) {
            strcpy(text + n, i ? ", ..." : "...");
            return;
        }
        n += strlen(strcpy(text + n, i ? ", " : ""));
        n += strlen(strcpy(text + n, name));
    }
}

attn_status attn_file_named(attn_file *f, const char *name, attn_tensor *t, char *err, size_t err_size)
{
    const int64_t i = attn_file_find(f, name);
    if (i >= 0)
        return attn_file_tensor(f, (size_t)i, t, err, err_size);
    char names[256];
    const struct report r = {.text = err, .size = err_size, .file = f->path};
    if (f->count == 0)
        return attn_io_fail(&r, ATTN_E_ARG, "there is no array '%s'; the file has none", name);
    list_names(f, names, sizeof names);
    return attn_io_fail(&r, ATTN_E_ARG, "there is no array '%s'; the file has %s", name, names);
}
