/* SPDX-License-Identifier: Apache-2.0 */
/* What a verb computes and where it goes: files that appear together, standard output, JSON. */
#ifndef ATTN_CLI_RESULTS_H
#define ATTN_CLI_RESULTS_H

#include "json_out.h"
#include "options.h"
#include "setup.h"
#include "tensor.h"

#include <attn/attn_io.h>

enum { MAX_RESULTS = 24 };

typedef struct result {
    const char *name;   /* "output", "weights", "lse", ... */
    const char *path;   /* NULL: standard output, in the form that suits it */
    attn_tensor tensor; /* as it is written */
    attn_tensor view;   /* as the library fills it: differs with --layout blhd */
} result;

/* One file of arrays under names of its own. */
typedef struct bundle {
    const char *path; /* NULL: there is none */
    const char *name[MAX_RESULTS];
    attn_tensor tensor[MAX_RESULTS];
    int count;
} bundle;

typedef struct results {
    const options *o;
    attn_outputs *set;
    result item[MAX_RESULTS];
    int count;
    void *memory[MAX_RESULTS];
    int memories;
    char *text[MAX_RESULTS]; /* of .csv outputs that are rounded */
    int texts;
    void (*more_json)(json_writer *j, const void *user); /* NULL, or writes the keys of --json between run and arrays */
    const void *more_json_user;
    bundle also;
    const char *stream_path; /* NULL, or of a file that is made while it is written */
    attn_status (*stream_make)(void *user, attn_stream *to, char *err, size_t err_size);
    void *stream_user;
} results;

void results_close(results *r);

/* A new array that the library is to fill, written to path. `heads` says that it is (.., H, L, d), which --layout blhd turns round.
 *view is what to give to the library. 0, or an exit code after a message. */
int results_add(results *r, const char *name, const char *path, attn_dtype dtype, int32_t ndim, const int64_t *shape, bool heads,
                attn_tensor **view);
/* The first result of that name, or NULL. */
const result *results_find(const results *r, const char *name);
/* The result `name` to one more path. */
int results_again(results *r, const char *name, const char *path);

/* Makes every output file's temporary: what cannot be written is said before the work is done. With to_stdout a result without a path
   goes to standard output, as .npy bytes when that is no terminal. */
int results_open(results *r, bool to_stdout);
/* After the work: all files. */
int results_commit(results *r);
/* After the work: all files, then what standard output shows (JSON with --json). */
int results_write(results *r, const session *s);
#endif
