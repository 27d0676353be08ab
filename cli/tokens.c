/* SPDX-License-Identifier: Apache-2.0 */
#include "tokens.h"
#include "message.h"
#include "text.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_BYTES = 1 << 20 };

static int read_file(tokens *t, const char *option, const char *path)
{
    FILE *f = fopen(path, "r");
    if (!f)
        return trouble("--%s: %s: %s", option, path, strerror(errno));
    t->text = need_memory(MOST_BYTES + 1);
    const size_t size = fread(t->text, 1, MOST_BYTES, f);
    const int more = size == MOST_BYTES && fgetc(f) != EOF;
    fclose(f);
    t->text[size] = 0;
    if (more)
        return trouble("--%s: %s is longer than 1 MiB", option, path);
    if (strlen(t->text) < size)
        return trouble("--%s: %s holds a 0 byte, and must be text", option, path);
    if (strncmp(t->text, "\xEF\xBB\xBF", 3) == 0) /* a byte-order mark */
        memmove(t->text, t->text + 3, size - 2);
    return EXIT_DONE;
}

static int check_utf8(const char *option, const char *text)
{
    int bytes;
    for (const char *c = text; *c; c += bytes)
        if (text_decode(c, &bytes) == NOT_UTF8)
            return trouble("--%s is no UTF-8: byte %zu is \\x%02x; save the words as UTF-8", option, (size_t)(c - text), (unsigned char)*c);
    return EXIT_DONE;
}

/* Appends a word in which nothing moves a cursor: line breaks and tabs as they are typed in C, other control characters as blanks. */
static char *append_word(tokens *t, char *at, const char *word)
{
    t->word[t->count++] = at;
    for (int bytes; *word; word += bytes) {
        const uint32_t c = text_decode(word, &bytes);
        if (c == '\n' || c == '\t' || c == '\r') {
            *at++ = '\\';
            *at++ = c == '\n' ? 'n' : c == '\t' ? 't' : 'r';
        } else if (text_is_control(c)) {
            *at++ = ' ';
        } else {
            memcpy(at, word, (size_t)bytes);
            at += bytes;
        }
    }
    *at++ = 0;
    return at;
}

static int split_list(tokens *t, const char *option, const char *path, const json_t *list)
{
    size_t bytes = 0;
    const size_t count = json_array_size(list);
    for (size_t i = 0; i < count; i++) {
        const char *word = json_string_value(json_array_get(list, i));
        if (!word)
            return trouble("--%s: element %zu of the list in %s is no string; the file must hold a list of strings", option, i, path);
        bytes += 2 * strlen(word) + 1;
    }
    char *at = t->text = need_memory(bytes);
    t->word = need_memory((count + 1) * sizeof *t->word);
    for (size_t i = 0; i < count; i++)
        at = append_word(t, at, json_string_value(json_array_get(list, i)));
    return EXIT_DONE;
}

static int split_json(tokens *t, const char *option, const char *path)
{
    json_error_t error;
    char *text = t->text;
    json_t *list = json_loads(text, 0, &error);
    t->text = NULL;
    int status = list && !json_is_array(list)
                     ? trouble("--%s: %s is no list; it must hold a list of strings such as [\"I\", \" am\"]", option, path)
                 : !list ? trouble("--%s: %s, line %d: %s", option, path, error.line, error.text)
                         : split_list(t, option, path, list);
    json_decref(list);
    free(text);
    return status;
}

static void split_words(tokens *t)
{
    char *rest = NULL;
    int bytes;
    for (char *c = t->text; *c; c += bytes)
        if (text_is_control(text_decode(c, &bytes)))
            memset(c, ' ', (size_t)bytes);
    t->word = need_memory((strlen(t->text) / 2 + 1) * sizeof *t->word);
    for (char *word = strtok_r(t->text, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        t->word[t->count++] = word;
}

static bool is_json(const char *path)
{
    const size_t n = strlen(path);
    return n > 5 && strcmp(path + n - 5, ".json") == 0;
}

int tokens_read(tokens *t, const options *o, opt_id id)
{
    struct stat info;
    const char *text = o->value[id], *option = opt_table[id].name;
    int status = EXIT_DONE;
    *t = (tokens){.count = 0};
    if (!text)
        return EXIT_DONE;
    const bool file = stat(text, &info) == 0 && !S_ISDIR(info.st_mode);
    if (file) {
        status = read_file(t, option, text);
    } else {
        t->text = need_memory(strlen(text) + 1);
        strcpy(t->text, text);
    }
    if (!status)
        status = check_utf8(option, t->text);
    if (status)
        return status;
    if (file && is_json(text))
        status = split_json(t, option, text);
    else
        split_words(t);
    if (!status && !t->count)
        status = trouble("--%s holds no word; give words separated by blanks, such as \"I am a student\"", option);
    return status;
}

void tokens_free(tokens *t)
{
    free(t->text);
    free((void *)t->word);
    *t = (tokens){.count = 0};
}

int labels_read(labels *l, const options *o)
{
    *l = (labels){.row = {.count = 0}};
    const int status = tokens_read(&l->row, o, OPT_TOKENS);
    return status ? status : tokens_read(&l->key, o, OPT_KEY_TOKENS);
}

void labels_free(labels *l)
{
    tokens_free(&l->row);
    tokens_free(&l->key);
}

int labels_fit(const labels *l, int64_t Lq, int64_t Lk, bool apart, const char *const **rows, const char *const **keys)
{
    *rows = *keys = NULL;
    if (l->key.word && l->key.count != Lk)
        return trouble("--key-tokens has %lld word%s, and there are %lld key%s; give one word for each", (long long)l->key.count,
                       plural_ending(l->key.count), (long long)Lk, plural_ending(Lk));
    *keys = l->key.word;
    if (!l->row.word)
        return EXIT_DONE;
    if (l->row.count == Lq)
        *rows = l->row.word;
    if (l->row.count == Lk && !l->key.word && !(apart && *rows))
        *keys = l->row.word;
    if (*rows || (*keys && !l->key.word))
        return EXIT_DONE;
    if (l->key.word)
        return trouble("--tokens has %lld word%s, and there are %lld row%s; give one word for each", (long long)l->row.count,
                       plural_ending(l->row.count), (long long)Lq, plural_ending(Lq));
    return trouble("--tokens has %lld word%s, and there are %lld row%s and %lld key%s; give one word for each", (long long)l->row.count,
                   plural_ending(l->row.count), (long long)Lq, plural_ending(Lq), (long long)Lk, plural_ending(Lk));
}
