/* SPDX-License-Identifier: Apache-2.0 */
/* Where an output goes, and the temporary file beside it. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "outputs.h"

enum { MAX_LINKS = 40, MAX_TRIES = 10000, TEMPORARY_SIZE = 64 };

static size_t folder_length(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) + 1 : 0;
}

/* folder/name in new memory, the folder being the first n bytes of path. */
static char *join(const char *path, size_t n, const char *name)
{
    char *joined = malloc(n + strlen(name) + 1);
    if (joined != NULL) {
        memcpy(joined, path, n);
        strcpy(joined + n, name);
    }
    return joined;
}

/* t->path = what path names when its last part is a link, and so on; the file need not exist. */
static attn_status follow_links(struct target *t, const char *path, const struct report *r)
{
    char link[PATH_MAX];
    t->path = join(path, strlen(path), "");
    for (int hops = 0; t->path != NULL; hops++) {
        const ssize_t n = readlink(t->path, link, sizeof link - 1);
        if (n < 0)
            return ATTN_OK;
        if (hops == MAX_LINKS)
            return attn_io_fail_errno(r, ELOOP, "cannot write");
        link[n] = '\0';
        char *next = join(t->path, link[0] == '/' ? 0 : folder_length(t->path), link);
        free(t->path);
        t->path = next;
    }
    return attn_io_fail_nomem(r);
}

/* Creates the file and marks it as there, in one step for the handlers of signals of this thread. */
static int create_marked(struct target *t)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    t->fd = open(t->temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    const int error = t->fd < 0 ? errno : 0;
    t->exists = t->fd >= 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

static attn_status create_temporary(struct target *t, const struct report *r)
{
    struct stat folder;
    const size_t n = folder_length(t->path);
    const size_t size = n + TEMPORARY_SIZE;
    t->temporary = malloc(size);
    if (t->temporary == NULL)
        return attn_io_fail_nomem(r);
    memcpy(t->temporary, t->path, n);
    strcpy(t->temporary + n, ".");
    if (stat(t->temporary, &folder) != 0)
        return attn_io_fail_errno(r, errno, "cannot write into its folder");
    t->device = folder.st_dev;
    t->folder = folder.st_ino;
    int error = EEXIST;
    for (int i = 0; error == EEXIST && i < MAX_TRIES; i++) {
        snprintf(t->temporary + n, TEMPORARY_SIZE, ".attn-%ld-%d.tmp", (long)getpid(), i);
        error = create_marked(t);
    }
    return error ? attn_io_fail_errno(r, error, "cannot create a file in its folder") : ATTN_OK;
}

attn_status attn_target_open(struct target *t, const char *path, const struct report *r)
{
    struct stat old;
    *t = (struct target){.fd = -1};
    if (strcmp(path, "-") == 0 || strcmp(path, "/dev/stdout") == 0)
        return ATTN_OK;
    const bool found = stat(path, &old) == 0;
    if (!found && errno != ENOENT)
        return attn_io_fail_errno(r, errno, "cannot write");
    const size_t n = strlen(path);
    if ((found && S_ISDIR(old.st_mode)) || (n > 0 && path[n - 1] == '/'))
        return attn_io_fail_errno(r, EISDIR, "cannot write");
    if (n == 0 || (found && access(path, W_OK) != 0))
        return attn_io_fail_errno(r, n == 0 ? ENOENT : errno, "cannot write");
    if (found && !S_ISREG(old.st_mode)) {
        t->path = join(path, n, "");
        return t->path ? ATTN_OK : attn_io_fail_nomem(r);
    }
    attn_status s = follow_links(t, path, r);
    if (s == ATTN_OK)
        s = create_temporary(t, r);
    if (s == ATTN_OK && found && fchmod(t->fd, old.st_mode & 0777) != 0)
        s = attn_io_fail_errno(r, errno, "cannot keep the old file's permissions");
    return s;
}

bool attn_target_same(const struct target *a, const struct target *b)
{
    if (a->path == NULL || b->path == NULL)
        return a->path == b->path;
    return a->temporary != NULL && b->temporary != NULL && a->device == b->device && a->folder == b->folder &&
           strcmp(a->path + folder_length(a->path), b->path + folder_length(b->path)) == 0;
}

void attn_target_close(struct target *t)
{
    if (t->exists)
        unlink(t->temporary);
    t->exists = 0;
    if (t->fd >= 0)
        close(t->fd);
    free(t->path);
    free(t->temporary);
    *t = (struct target){.fd = -1};
}
