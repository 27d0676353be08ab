/* SPDX-License-Identifier: Apache-2.0 */
/* --html: the page of an explanation. */
#include "explain.h"
#include "message.h"

#include <stdlib.h>
#include <string.h>

/* Text that grows; everything the page needs of it stays with the page. */
typedef struct words {
    char *text;
    size_t used, room;
} words;

static void append(words *w, const char *text, size_t length)
{
    if (w->used + length < w->room) {
        memcpy(w->text + w->used, text, length);
        w->used += length;
        w->text[w->used] = 0;
    }
}

/* A word as a shell reads it back. */
static void append_quoted(words *w, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./,=:+@%";
    if (*word && strspn(word, plain) == strlen(word)) {
        append(w, word, strlen(word));
        return;
    }
    append(w, "'", 1);
    for (; *word; word++)
        append(w, *word == '\'' ? "'\\''" : word, *word == '\'' ? 4 : 1);
    append(w, "'", 1);
}

/* "attn explain sdpa q.csv k.csv v.csv --causal" */
static const char *command_of(page *p, const options *o)
{
    words w = {.room = 64 + strlen(o->verb->name)};
    for (int i = 0; i < o->words; i++)
        w.room += 4 * strlen(o->word[i]) + 3;
    w.text = page_memory(p, (int64_t)w.room, 1);
    if (!w.text)
        return "";
    append(&w, "attn ", 5);
    append(&w, o->verb->name, strlen(o->verb->name));
    for (int i = 0; i < o->words; i++) {
        append(&w, " ", 1);
        append_quoted(&w, o->word[i]);
    }
    return w.text;
}

/* A path without its folders, and without a slash at its end. */
static void append_name(words *w, const char *path)
{
    size_t end = strlen(path), start;
    while (end > 1 && path[end - 1] == '/')
        end--;
    for (start = end; start > 0 && path[start - 1] != '/'; start--)
        continue;
    append(w, path + start, end - start);
}

/* "q.csv, k.csv, v.csv", or "model: the text that it reads". */
static const char *title_of(page *p, const options *o)
{
    const char *model = o->value[OPT_FROM], *text = o->value[OPT_TEXT];
    words w = {.room = 3 + (model ? strlen(model) : 0) + (text ? strlen(text) : 0)};
    for (int i = 0; i < o->operands; i++)
        w.room += strlen(o->operand[i]) + 3;
    w.text = page_memory(p, (int64_t)w.room, 1);
    if (!w.text)
        return "";
    for (int i = 0; i < o->operands; i++) {
        append(&w, ", ", i ? 2 : 0);
        append_name(&w, o->operand[i]);
    }
    if (model)
        append_name(&w, model);
    if (text) {
        append(&w, ": ", 2);
        append(&w, text, strlen(text));
    }
    return w.text;
}

void explain_page(const options *o, const char *kind, explain_lang lang, int round, results *r, page *p)
{
    *p = (page){.kind = kind, .lang = lang == LANG_KO ? "ko" : "en", .round = round};
    p->command = command_of(p, o);
    p->title = title_of(p, o);
    r->stream_path = o->value[OPT_HTML];
    r->stream_make = page_write;
    r->stream_user = p;
}

int explain_page_status(const page *p, attn_status status) { return status == ATTN_OK ? EXIT_DONE : library_trouble(p->sentence); }

static void on_page_progress(void *user, double done) { session_progress(user, done); }

int explain_page_attention(const explanation *e, page *p)
{
    p->query_names = e->row_names;
    p->key_names = e->key_names;
    p->progress = on_page_progress;
    p->progress_user = e->s;
    session_begin(e->s);
    const attn_status status = page_add_attention(p, e->s->ctx, &e->t->q, &e->t->k, &e->t->v, e->opts);
    session_progress(e->s, 1);
    return explain_page_status(p, status);
}

int explain_page_end(results *r, page *p, int status)
{
    if (!status)
        status = results_open(r, false);
    if (!status)
        status = results_commit(r);
    results_close(r);
    page_close(p);
    return status;
}
