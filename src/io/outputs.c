/* SPDX-License-Identifier: Apache-2.0 */
/* A set of outputs that appear together or not at all. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "outputs.h"
#include "shape.h"

enum { MAX_NAME = 65000 }; /* a zip entry's name has at most 65535 bytes */

struct attn_outputs {
    size_t count;
    struct output items[ATTN_OUTPUTS_MAX];
    unsigned char buffer[SINK_BUFFER];
};

struct attn_stream {
    struct sink *sink;
};

static struct report report_for(const char *path, char *err, size_t err_size)
{
    return (struct report){.text = err, .size = err_size, .file = strcmp(path, "-") == 0 ? "standard output" : path};
}

attn_status attn_outputs_create(attn_outputs **out, char *err, size_t err_size)
{
    const struct report r = {.text = err, .size = err_size, .file = "outputs"};
    *out = calloc(1, sizeof **out);
    if (*out == NULL)
        return attn_io_fail_nomem(&r);
    for (size_t i = 0; i < ATTN_OUTPUTS_MAX; i++)
        (*out)->items[i].target.fd = -1;
    return ATTN_OK;
}

static void output_close(struct output *o)
{
    attn_target_close(&o->target);
    for (size_t i = 0; i < o->count; i++)
        free(o->members[i].name);
    free(o->members);
    free(o->head);
    free(o->label);
    o->label = NULL;
    o->members = NULL;
    o->head = NULL;
    o->count = 0;
}

static void close_all(attn_outputs *o)
{
    for (size_t i = 0; i < o->count; i++)
        output_close(&o->items[i]);
    o->count = 0;
}

void attn_outputs_destroy(attn_outputs *o)
{
    if (o != NULL)
        close_all(o);
    free(o);
}

/* Only reads flags and unlinks: both are async-signal-safe. */
void attn_outputs_unlink(const attn_outputs *o)
{
    const int error = errno;
    for (size_t i = 0; o != NULL && i < ATTN_OUTPUTS_MAX; i++) {
        if (o->items[i].target.exists)
            unlink(o->items[i].target.temporary);
    }
    errno = error;
}

/* ---- adding ---- */

static attn_status check_tensor(const attn_tensor *t, attn_format format, uint64_t *bytes, const struct report *r)
{
    struct extent e;
    if (attn_dtype_size(t->dtype) == 0)
        return attn_io_fail(r, ATTN_E_DTYPE, "the array's dtype %d is none of attn_dtype", (int)t->dtype);
    if (!attn_io_tensor_extent(t, &e))
        return attn_io_fail(r, ATTN_E_SHAPE, "the array's shape has a negative size, more than %d axes or more than 63 bits of elements",
                            ATTN_MAX_DIMS);
    if (e.elements > 0 && t->data == NULL)
        return attn_io_fail(r, ATTN_E_ARG, "the array has %" PRId64 " elements but no data", e.elements);
    if (format == ATTN_FORMAT_CSV && (t->ndim > 2 || e.elements == 0)) {
        char shape[SHAPE_TEXT_SIZE];
        return attn_io_fail(r, ATTN_E_SHAPE, "shape %s does not fit a .csv, which holds rank 0 to 2 and at least one number; write a .npy",
                            attn_io_shape_text(shape, sizeof shape, t->ndim, t->shape));
    }
    *bytes = (uint64_t)e.elements * attn_dtype_size(t->dtype);
    return ATTN_OK;
}

static int compare_names(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

static attn_status check_different(size_t count, const char *const *names, const struct report *r)
{
    const char **sorted = malloc((count + 1) * sizeof sorted[0]);
    if (sorted == NULL)
        return attn_io_fail_nomem(r);
    for (size_t i = 0; i < count; i++)
        sorted[i] = names[i];
    qsort(sorted, count, sizeof sorted[0], compare_names);
    attn_status s = ATTN_OK;
    for (size_t i = 1; i < count && s == ATTN_OK; i++) {
        if (strcmp(sorted[i - 1], sorted[i]) == 0)
            s = attn_io_fail(r, ATTN_E_ARG, "two arrays are called '%s'", sorted[i]);
    }
    free(sorted);
    return s;
}

static attn_status check_names(size_t count, const char *const *names, const struct report *r)
{
    for (size_t i = 0; i < count; i++) {
        const char *name = names ? names[i] : NULL;
        if (name == NULL || name[0] == '\0' || strlen(name) > MAX_NAME || strcmp(name, "__metadata__") == 0)
            return attn_io_fail(r, ATTN_E_ARG, "array %zu needs a name of 1 to %d bytes other than __metadata__", i, MAX_NAME);
        for (const char *p = name; *p != '\0'; p += attn_utf8_length(p)) {
            if (attn_utf8_length(p) == 0)
                return attn_io_fail(r, ATTN_E_ARG, "the name of array %zu is no UTF-8", i);
        }
    }
    return check_different(count, names, r);
}

static char *copy_of(const char *text)
{
    char *copy = malloc(strlen(text) + 1);
    return copy ? strcpy(copy, text) : NULL;
}

static attn_status copy_members(struct output *o, size_t count, const char *const *names, const attn_tensor *tensors,
                                const struct report *r)
{
    o->members = calloc(count ? count : 1, sizeof o->members[0]);
    if (o->members == NULL)
        return attn_io_fail_nomem(r);
    o->count = count;
    for (size_t i = 0; i < count; i++) {
        const attn_status s = check_tensor(&tensors[i], o->format, &o->members[i].bytes, r);
        if (s != ATTN_OK)
            return s;
        o->members[i].tensor = tensors[i];
        o->members[i].name = copy_of(names ? names[i] : "");
        if (o->members[i].name == NULL)
            return attn_io_fail_nomem(r);
    }
    return ATTN_OK;
}

/* Opens the target last: everything else has been checked. */
static attn_status keep(attn_outputs *o, struct output *item, const char *path, const struct report *r)
{
    item->label = copy_of(r->file);
    attn_status s = item->label ? attn_target_open(&item->target, path, r) : attn_io_fail_nomem(r);
    for (size_t i = 0; s == ATTN_OK && i < o->count; i++) {
        if (attn_target_same(&o->items[i].target, &item->target))
            s = attn_io_fail(r, ATTN_E_ARG, "this is the same file as the output %s; give each output a file of its own",
                             o->items[i].label);
    }
    o->count += s == ATTN_OK;
    return s;
}

static attn_status check_room(const attn_outputs *o, const struct report *r)
{
    return o->count < ATTN_OUTPUTS_MAX ? ATTN_OK : attn_io_fail(r, ATTN_E_ARG, "more than %d outputs", ATTN_OUTPUTS_MAX);
}

/* By the suffix; .npy for what exists and is no regular file. */
static attn_format output_format(const char *path)
{
    struct stat st;
    const attn_format format = attn_format_of(path);
    if (format == ATTN_FORMAT_UNKNOWN && stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
        return ATTN_FORMAT_NPY;
    return format;
}

static attn_status add_arrays(attn_outputs *o, struct output *item, const char *path, size_t count, const char *const *names,
                              const attn_tensor *tensors, const struct report *r)
{
    attn_status s = ATTN_OK;
    item->format = output_format(path);
    if (item->format == ATTN_FORMAT_UNKNOWN || item->format == ATTN_FORMAT_SAFETENSORS_INDEX || item->format == ATTN_FORMAT_GGUF)
        return attn_io_fail(r, ATTN_E_UNSUPPORTED,
                            "arrays are written as .npy, .npz, .safetensors, .csv or .txt; the suffix is none of these");
    if (item->format == ATTN_FORMAT_NPZ || item->format == ATTN_FORMAT_SAFETENSORS)
        s = check_names(count, names, r);
    else if (count != 1)
        s = attn_io_fail(r, ATTN_E_ARG, "this format holds one array, not %zu; write a .npz or .safetensors", count);
    if (s == ATTN_OK)
        s = copy_members(item, count, names, tensors, r);
    if (s == ATTN_OK && item->format == ATTN_FORMAT_SAFETENSORS)
        s = attn_safetensors_head(item, r);
    return s == ATTN_OK ? keep(o, item, path, r) : s;
}

attn_status attn_outputs_arrays(attn_outputs *o, const char *path, size_t count, const char *const *names, const attn_tensor *tensors,
                                char *err, size_t err_size)
{
    const struct report r = report_for(path, err, err_size);
    attn_status s = check_room(o, &r);
    if (s != ATTN_OK)
        return s;
    struct output *item = &o->items[o->count];
    s = add_arrays(o, item, path, count, names, tensors, &r);
    if (s != ATTN_OK)
        output_close(item);
    return s;
}

/* A file of no arrays: its bytes, or the function that makes them. */
static attn_status add_plain(attn_outputs *o, const char *path, const struct output *what, char *err, size_t err_size)
{
    const struct report r = report_for(path, err, err_size);
    attn_status s = check_room(o, &r);
    if (s != ATTN_OK)
        return s;
    struct output *item = &o->items[o->count];
    *item = *what;
    s = keep(o, item, path, &r);
    if (s != ATTN_OK)
        output_close(item);
    return s;
}

attn_status attn_outputs_bytes(attn_outputs *o, const char *path, const void *bytes, size_t size, char *err, size_t err_size)
{
    const struct output plain = {.target = {.fd = -1}, .format = ATTN_FORMAT_UNKNOWN, .bytes = bytes, .size = size};
    return add_plain(o, path, &plain, err, err_size);
}

attn_status attn_outputs_stream(attn_outputs *o, const char *path,
                                attn_status (*make)(void *user, attn_stream *to, char *err, size_t err_size), void *user, char *err,
                                size_t err_size)
{
    const struct output made = {.target = {.fd = -1}, .format = ATTN_FORMAT_UNKNOWN, .stream_make = make, .stream_user = user};
    return add_plain(o, path, &made, err, err_size);
}

attn_status attn_stream_write(attn_stream *s, const void *bytes, size_t size)
{
    attn_sink_bytes(s->sink, bytes, size);
    return s->sink->error ? ATTN_E_IO : ATTN_OK;
}

/* ---- committing ---- */

static attn_status write_output(attn_outputs *o, struct output *item, int fd, const struct report *r)
{
    struct sink sink = {.fd = fd, .buffer = o->buffer};
    struct attn_stream stream = {.sink = &sink};
    attn_status s = ATTN_OK;
    switch (item->format) {
    case ATTN_FORMAT_NPY:
        attn_write_npy(&sink, &item->members[0].tensor);
        break;
    case ATTN_FORMAT_CSV:
        s = attn_write_csv(&sink, &item->members[0].tensor, r);
        break;
    case ATTN_FORMAT_NPZ:
        attn_write_npz(&sink, item->members, item->count);
        break;
    case ATTN_FORMAT_SAFETENSORS:
        attn_write_safetensors(&sink, item);
        break;
    case ATTN_FORMAT_SAFETENSORS_INDEX:
    case ATTN_FORMAT_GGUF:
    case ATTN_FORMAT_UNKNOWN:
        if (item->stream_make)
            s = item->stream_make(item->stream_user, &stream, r->text, r->size);
        else
            attn_sink_bytes(&sink, item->bytes, item->size);
        break;
    }
    attn_sink_flush(&sink);
    return sink.error != 0 ? attn_io_fail_errno(r, sink.error, "cannot write") : s;
}

/* close() too may report that the bytes did not arrive. */
static attn_status write_and_close(attn_outputs *o, struct output *item, int fd, const struct report *r)
{
    const attn_status s = write_output(o, item, fd, r);
    if (close(fd) != 0 && s == ATTN_OK && errno != EINTR)
        return attn_io_fail_errno(r, errno, "cannot write");
    return s;
}

static attn_status write_direct(attn_outputs *o, struct output *item, const struct report *r)
{
    if (item->target.path == NULL)
        return write_output(o, item, STDOUT_FILENO, r);
    const int fd = open(item->target.path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    return fd < 0 ? attn_io_fail_errno(r, errno, "cannot open") : write_and_close(o, item, fd, r);
}

static attn_status write_all(attn_outputs *o, bool direct, char *err, size_t err_size)
{
    attn_status s = ATTN_OK;
    for (size_t i = 0; i < o->count && s == ATTN_OK; i++) {
        struct output *item = &o->items[i];
        const struct report r = {.text = err, .size = err_size, .file = item->label};
        if (direct != (item->target.temporary == NULL))
            continue;
        if (direct) {
            s = write_direct(o, item, &r);
        } else {
            const int fd = item->target.fd;
            item->target.fd = -1;
            s = write_and_close(o, item, fd, &r);
        }
    }
    return s;
}

/* Says honestly how far the renaming came. */
static attn_status fail_rename(const attn_outputs *o, size_t failed, int error, char *err, size_t err_size)
{
    char done[256] = "";
    size_t n = 0;
    for (size_t i = 0; i < failed; i++) {
        if (o->items[i].target.temporary != NULL && n < sizeof done)
            n += (size_t)snprintf(done + n, sizeof done - n, "%s%s", n ? ", " : "; already replaced: ", o->items[i].label);
    }
    const struct report r = {.text = err, .size = err_size, .file = o->items[failed].label};
    char doing[300];
    snprintf(doing, sizeof doing, "cannot rename the finished file to this name%s", done);
    return attn_io_fail_errno(&r, error, doing);
}

static attn_status rename_all(attn_outputs *o, char *err, size_t err_size)
{
    attn_status s = ATTN_OK;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (size_t i = 0; i < o->count && s == ATTN_OK; i++) {
        struct target *t = &o->items[i].target;
        if (t->temporary == NULL)
            continue;
        if (rename(t->temporary, t->path) == 0)
            t->exists = 0;
        else
            s = fail_rename(o, i, errno, err, err_size);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return s;
}

/* SIGPIPE and SIGXFSZ would end the process before anything is tidied up. They are held back in this thread while it writes, and those
   that the writing raised are dropped. */
struct held_signals {
    sigset_t before, pending;
};

static void hold_signals(struct held_signals *h)
{
    sigset_t both;
    sigemptyset(&both);
    sigaddset(&both, SIGPIPE);
    sigaddset(&both, SIGXFSZ);
    sigpending(&h->pending);
    pthread_sigmask(SIG_BLOCK, &both, &h->before);
}

static void release_signals(const struct held_signals *h)
{
    const int both[] = {SIGPIPE, SIGXFSZ};
    sigset_t now;
    sigpending(&now);
    for (int i = 0; i < 2; i++) {
        if (sigismember(&now, both[i]) && !sigismember(&h->pending, both[i])) {
            sigset_t one;
            int taken;
            sigemptyset(&one);
            sigaddset(&one, both[i]);
            sigwait(&one, &taken);
        }
    }
    pthread_sigmask(SIG_SETMASK, &h->before, NULL);
}

attn_status attn_outputs_commit(attn_outputs *o, char *err, size_t err_size)
{
    struct held_signals held;
    hold_signals(&held);
    attn_status s = write_all(o, false, err, err_size);
    if (s == ATTN_OK)
        s = write_all(o, true, err, err_size);
    if (s == ATTN_OK)
        s = rename_all(o, err, err_size);
    release_signals(&held);
    close_all(o);
    return s;
}
