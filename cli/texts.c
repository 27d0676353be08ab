/* SPDX-License-Identifier: Apache-2.0 */
#include "texts.h"
#include "message.h"
#include "text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* All bytes of a stream with a 0 behind them; *size is without it. NULL after an error of reading. */
static char *read_stream(FILE *f, size_t *size)
{
    struct stat st;
    size_t room = fstat(fileno(f), &st) == 0 && S_ISREG(st.st_mode) ? (size_t)st.st_size + 2 : 1 << 16;
    char *bytes = need_memory(room);
    *size = 0;
    for (size_t n; (n = fread(bytes + *size, 1, room - 1 - *size, f)) > 0;) {
        *size += n;
        if (*size + 1 < room)
            continue;
        char *more = need_memory(2 * room);
        memcpy(more, bytes, *size);
        free(bytes);
        bytes = more;
        room *= 2;
    }
    bytes[*size] = '\0';
    if (!ferror(f))
        return bytes;
    free(bytes);
    return NULL;
}

/* Lines end with \n or \r\n; a last one without is a line too. */
static size_t lines_of(const char *bytes, size_t size, attn_span *lines)
{
    size_t count = 0;
    for (size_t at = 0; at < size; count++) {
        const char *end = memchr(bytes + at, '\n', size - at);
        const size_t length = end ? (size_t)(end - bytes) - at : size - at;
        const size_t mark = length && end && bytes[at + length - 1] == '\r';
        if (lines)
            lines[count] = (attn_span){.text = bytes + at, .size = length - mark};
        at += length + 1;
    }
    return count;
}

static int read_file(texts *t, size_t *size)
{
    static const char byte_order_mark[] = "\xEF\xBB\xBF";
    const bool is_stdin = strcmp(t->file, "-") == 0;
    FILE *f = is_stdin ? stdin : fopen(t->file, "rb");
    errno = f ? 0 : errno;
    t->bytes = f ? read_stream(f, size) : NULL;
    const int error = errno;
    if (f && !is_stdin)
        fclose(f);
    if (!t->bytes)
        return trouble("%s: cannot be read: %s", is_stdin ? "standard input" : t->file, strerror(error ? error : EIO));
    if (*size >= 3 && memcmp(t->bytes, byte_order_mark, 3) == 0)
        memmove(t->bytes, t->bytes + 3, *size -= 3);
    return EXIT_DONE;
}

int texts_read(texts *t, const options *o)
{
    size_t size = 0;
    *t = (texts){.file = o->value[OPT_FILE], .given = o->texts};
    if (!o->texts && !t->file)
        return trouble("there is no text; give --text TEXT, once or more, or --file F with a text on each line, - for standard input");
    const int status = t->file ? read_file(t, &size) : EXIT_DONE;
    if (status)
        return status;
    const size_t lines = lines_of(t->bytes, size, NULL);
    t->count = t->given + (int64_t)lines;
    t->text = need_zeroed((size_t)t->count, sizeof *t->text);
    for (int i = 0; i < o->texts; i++)
        t->text[i] = (attn_span){.text = o->text[i], .size = strlen(o->text[i])};
    lines_of(t->bytes, size, t->text + t->given);
    return t->count ? EXIT_DONE : trouble("%s: there is no line in it; a text on each line is needed", t->file);
}

void texts_close(texts *t)
{
    free(t->text);
    free(t->bytes);
    *t = (texts){.text = NULL};
}

const char *texts_name(const texts *t, int64_t i, char name[TEXT_NAME])
{
    if (i < t->given)
        snprintf(name, TEXT_NAME, "--text %lld", (long long)i + 1);
    else
        snprintf(name, TEXT_NAME, "%.200s, line %lld", strcmp(t->file, "-") == 0 ? "standard input" : t->file,
                 (long long)(i - t->given) + 1);
    return name;
}

const char *texts_shown(const texts *t, int64_t i, int columns, char out[TEXT_NAME])
{
    enum { MOST = TEXT_NAME - 4 };
    char text[TEXT_NAME];
    size_t size = t->text[i].size < MOST ? t->text[i].size : MOST;
    while (size && size < t->text[i].size && (t->text[i].text[size] & 0xC0) == 0x80)
        size--; /* whole characters */
    for (size_t k = 0; k < size; k++)
        text[k] = (unsigned char)t->text[i].text[k] < 0x20 || t->text[i].text[k] == 0x7F ? ' ' : t->text[i].text[k];
    text[size] = '\0';
    if (size == t->text[i].size && text_columns(text) <= columns)
        return strcpy(out, text);
    text_cut(out, MOST, text, columns - 3);
    return strcat(out, "...");
}
