/* SPDX-License-Identifier: Apache-2.0 */
/* usage: io_copy IN [OUT...]     every array of IN into each OUT; without OUT, one line for each array.
   The library seen from outside: exit code 2 and the sentence on stderr after a failure; SIGTERM removes the temporaries. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "attn/attn_io.h"

static attn_outputs *volatile outputs; /* for the signal handler */

static void on_signal(int signal_number)
{
    attn_outputs_unlink(outputs);
    signal(signal_number, SIG_DFL);
    raise(signal_number); /* ends the process when this handler returns */
}

static void must(attn_status s, const char *err)
{
    if (s == ATTN_OK)
        return;
    fprintf(stderr, "%d %s\n", (int)s, err);
    attn_outputs_destroy(outputs);
    exit(2);
}

static void list(const attn_file *f)
{
    for (size_t i = 0; i < attn_file_count(f); i++) {
        const attn_array_info info = attn_file_info(f, i);
        printf("'%s' %s [", info.name, info.dtype_name);
        for (int j = 0; j < info.ndim && j < ATTN_MAX_DIMS; j++)
            printf("%s%lld", j ? "," : "", (long long)info.shape[j]);
        printf("]\n");
    }
}

int main(int argc, char **argv)
{
    char err[512] = "no sentence";
    attn_file *f;
    attn_outputs *o;
    signal(SIGTERM, on_signal);
    must(attn_file_open(&f, argc > 1 ? argv[1] : "-", err, sizeof err), err);
    const size_t count = attn_file_count(f);
    const char **names = calloc(count + 1, sizeof names[0]);
    attn_tensor *tensors = calloc(count + 1, sizeof tensors[0]);
    if (names == NULL || tensors == NULL)
        return 2;
    if (argc <= 2)
        list(f);
    for (size_t i = 0; i < count && argc > 2; i++) {
        names[i] = attn_file_info(f, i).name;
        if (names[i][0] == '\0')
            names[i] = "array";
        must(attn_file_tensor(f, i, &tensors[i], err, sizeof err), err);
    }
    must(attn_outputs_create(&o, err, sizeof err), err);
    outputs = o;
    for (int i = 2; i < argc; i++)
        must(attn_outputs_arrays(o, argv[i], count, names, tensors, err, sizeof err), err);
    must(attn_outputs_commit(o, err, sizeof err), err);
    outputs = NULL;
    attn_outputs_destroy(o);
    attn_file_close(f);
    free(names);
    free(tensors);
    return 0;
}
