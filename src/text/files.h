/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a model folder, read whole. */
#ifndef ATTN_TEXT_FILES_H
#define ATTN_TEXT_FILES_H

#include "report.h"

struct text_file {
    char path[4096];
    char *text; /* NULL: there is none. Followed by a 0 */
    size_t size;
    struct report report; /* names the path */
};

/* dir/name, or dir itself when name is NULL. A file that is not there is ATTN_OK with text NULL. At most 256 MiB. */
attn_status attn_file_read(struct text_file *f, const struct report *r, const char *dir, const char *name);
void attn_file_free(struct text_file *f);

#endif
