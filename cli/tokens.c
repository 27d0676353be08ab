/* SPDX-License-Identifier: Apache-2.0 */
#include "tokens.h"
#include "message.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_BYTES = 1 << 20 };

static int read_file(tokens *t, const char *path)
{
    FILE *f = fopen(path, "r");
    if (!f)
        return trouble("--tokens: %s: %s", path, strerror(errno));
    t->text = need_memory(MOST_BYTES + 1);
    const size_t size = fread(t->text, 1, MOST_BYTES, f);
    const int more = size == MOST_BYTES && fgetc(f) != EOF;
    fclose(f);
    t->text[size] = 0;
    return more ? trouble("--tokens: %s is longer than 1 MiB", path) : EXIT_DONE;
}

int tokens_read(tokens *t, const char *text)
{
    struct stat info;
    *t = (tokens){.count = 0};
    if (!text)
        return EXIT_DONE;
    if (stat(text, &info) == 0 && !S_ISDIR(info.st_mode)) {
        const int status = read_file(t, text);
        if (status)
            return status;
    } else {
        t->text = need_memory(strlen(text) + 1);
        strcpy(t->text, text);
    }
    for (char *c = t->text; *c; c++) /* what would move the cursor */
        if ((unsigned char)*c < 0x20 || *c == 0x7F)
            *c = ' ';
    t->word = need_memory((strlen(t->text) / 2 + 1) * sizeof *t->word);
    char *rest = NULL;
    for (char *word = strtok_r(t->text, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        t->word[t->count++] = word;
    return t->count ? EXIT_DONE : trouble("--tokens holds no word; give words separated by blanks, such as \"I am a student\"");
}

void tokens_free(tokens *t)
{
    free(t->text);
    free((void *)t->word);
    *t = (tokens){.count = 0};
}
