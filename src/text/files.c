/* SPDX-License-Identifier: Apache-2.0 */
#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_FILE = 256 << 20 };

static attn_status read_all(struct text_file *f, int fd)
{
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        return attn_text_fail(&f->report, ATTN_E_IO, "this is no regular file");
    if (st.st_size > MAX_FILE)
        return attn_text_fail(&f->report, ATTN_E_FORMAT, "the file has %lld bytes; at most %d are read", (long long)st.st_size, MAX_FILE);
    f->text = malloc((size_t)st.st_size + 1);
    if (f->text == NULL)
        return attn_text_nomem(&f->report);
    while (f->size < (size_t)st.st_size) {
        const ssize_t n = read(fd, f->text + f->size, (size_t)st.st_size - f->size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return attn_text_fail(&f->report, ATTN_E_IO, "reading failed (error %d)", errno);
        if (n == 0)
            break;
        f->size += (size_t)n;
    }
    f->text[f->size] = '\0';
    return ATTN_OK;
}

attn_status attn_file_read(struct text_file *f, const struct report *r, const char *dir, const char *name)
{
    *f = (struct text_file){.text = NULL};
    const int n = name ? snprintf(f->path, sizeof f->path, "%s/%s", dir, name) : snprintf(f->path, sizeof f->path, "%s", dir);
    if (n < 0 || (size_t)n >= sizeof f->path)
        return attn_text_fail(r, ATTN_E_IO, "the name of the folder is too long");
    f->report = (struct report){r->text, r->size, f->path};
    const int fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return ATTN_OK;
    if (fd < 0)
        return attn_text_fail(&f->report, ATTN_E_IO, "it cannot be opened (error %d)", errno);
    const attn_status s = read_all(f, fd);
    close(fd);
    return s;
}

void attn_file_free(struct text_file *f)
{
    free(f->text);
    f->text = NULL;
}
