/* SPDX-License-Identifier: Apache-2.0 */
/* An output set's insides. */
#ifndef ATTN_IO_OUTPUTS_H
#define ATTN_IO_OUTPUTS_H

#include <signal.h>
#include <sys/stat.h>

#include "report.h"
#include "sink.h"

/* One array of an output. */
struct member {
    char *name;
    attn_tensor tensor;
    uint64_t bytes;
    uint64_t at;  /* .npz: where its entry begins */
    uint32_t crc; /* .npz */
};

/* Where an output goes. */
struct target {
    char *path;      /* of the file itself, links followed; NULL: file descriptor 1 */
    char *temporary; /* beside it; NULL: written directly */
    int fd;          /* of the temporary, else -1 */
    dev_t device;    /* the folder */
    ino_t folder;
    volatile sig_atomic_t exists; /* the temporary; read by the signal handler */
};

struct output {
    char *label; /* the path as given */
    struct target target;
    attn_format format; /* UNKNOWN: bytes, or what stream_make makes */
    struct member *members;
    size_t count;
    char *head; /* .safetensors: what stands before the numbers */
    size_t head_size;
    const void *bytes;
    size_t size;
    attn_status (*stream_make)(void *user, attn_stream *to, char *err, size_t err_size); /* NULL: bytes */
    void *stream_user;
};

/* write_array.c */
void attn_write_npy(struct sink *s, const attn_tensor *t);
/* t has rank 0 to 2. ATTN_E_NOMEM is the only failure. */
attn_status attn_write_csv(struct sink *s, const attn_tensor *t, const struct report *r);

/* write_npz.c: no entry is compressed, every size is written in the zip64 form. */
void attn_write_npz(struct sink *s, struct member *members, size_t count);

/* write_safetensors.c: largest elements first, so that all are aligned. */
attn_status attn_safetensors_head(struct output *o, const struct report *r);
void attn_write_safetensors(struct sink *s, const struct output *o);

/* target.c */
attn_status attn_target_open(struct target *t, const char *path, const struct report *r);
bool attn_target_same(const struct target *a, const struct target *b);
/* Removes the temporary if it is still there, frees the rest. */
void attn_target_close(struct target *t);

#endif
