/* SPDX-License-Identifier: Apache-2.0 */
/* attn_chat_text. A chat template is a program (Jinja) that is never run: it is recognised by the marks that it writes, and what it would
   write is written here. One that has a mark or a rule of its own is refused by it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "report.h"

/* How a kind of template writes a message. */
struct chat_kind {
    const char *before, *behind_role, *after;
    const char *const *marks; /* of its templates; the first is what it is known by */
};
static const char *const chatml_marks[] = {"<|im_start|>", "<|im_end|>", "<|endoftext|>", NULL};
static const char *const llama3_marks[] = {"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|begin_of_text|>", "<|eom_id|>",
                                           "<|python_tag|>", NULL};
static const struct chat_kind chatml = {"<|im_start|>", "\n", "<|im_end|>\n", chatml_marks};
static const struct chat_kind llama3 = {"<|start_header_id|>", "<|end_header_id|>\n\n", "<|eot_id|>", llama3_marks};

/* The text that grows. A failure to grow is kept. */
struct grown {
    char *text;
    size_t size, room;
    int failed;
};

static void put(struct grown *g, const char *text, size_t size)
{
    if (!g->failed && g->size + size + 1 > g->room) {
        const size_t room = 2 * (g->size + size) + 256;
        char *more = realloc(g->text, room);
        g->failed = !more;
        g->text = more ? more : g->text;
        g->room = more ? room : g->room;
    }
    if (g->failed)
        return;
    memcpy(g->text + g->size, text, size);
    g->size += size;
    g->text[g->size] = '\0';
}

static void put_text(struct grown *g, const char *text) { put(g, text, strlen(text)); }

/* ---- recognising ---- */

static int is_known(const struct chat_kind *kind, const char *mark, size_t size)
{
    for (const char *const *m = kind->marks; *m; m++)
        if (strlen(*m) == size && memcmp(*m, mark, size) == 0)
            return 1;
    return 0;
}

/* NULL after a failure. */
static const struct chat_kind *kind_of(const char *template, const struct load_report *r)
{
    static const char *const rules[] = {"[INST]", "enable_thinking", "<think", "reasoning_content", "strip_thinking"};
    const struct chat_kind *kind = strstr(template, "<|im_start|>") ? &chatml : strstr(template, "<|start_header_id|>") ? &llama3 : NULL;
    static const char known[] = "those of ChatML and of Llama 3 to 3.2 are built in here; give the whole text as the prompt";
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (strstr(template, rules[i])) {
            attn_load_fail(r, ATTN_E_UNSUPPORTED, "the model's has \"%s\", which is not understood; %s", rules[i], known);
            return NULL;
        }
    for (const char *mark = template; (mark = strstr(mark, "<|")); mark += 2) {
        const char *end = strstr(mark, "|>");
        const size_t size = end ? (size_t)(end + 2 - mark) : 0;
        if (size && size <= 40 && (!kind || !is_known(kind, mark, size))) {
            attn_load_fail(r, ATTN_E_UNSUPPORTED, "the model's has \"%.*s\", which is not understood; %s", (int)size, mark, known);
            return NULL;
        }
    }
    if (!kind)
        attn_load_fail(r, ATTN_E_UNSUPPORTED, "the model's is none that is known; %s", known);
    return kind;
}

/* ---- the system's message ---- */

/* The system text that a ChatML template writes where none is given: what stands in it between the marks, without an expression. */
static void put_default_system(struct grown *g, const char *template)
{
    static const char begin[] = "<|im_start|>system";
    for (const char *from = template; (from = strstr(from, begin)); from++) {
        const char *text = from + strlen(begin), *end = strstr(text, "<|im_end|>");
        text += *text == '\n' ? 1 : strncmp(text, "\\n", 2) == 0 ? 2 : 0;
        if (end && text > from + strlen(begin) && !memchr(text, '\'', (size_t)(end - text)) && !memchr(text, '"', (size_t)(end - text)) &&
            !memchr(text, '\\', (size_t)(end - text))) {
            put_text(g, "<|im_start|>system\n");
            put(g, text, (size_t)(end - text));
            put_text(g, "<|im_end|>\n");
            return;
        }
    }
}

/* "26 Jul 2024" where the template names it and never asks for today's; else date, else today. */
static void put_date(struct grown *g, const char *template, const char *date)
{
    static const char *const months[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    char today[32] = "26 Jul 2024";
    const time_t now = time(NULL);
    struct tm t;
    if (!date && strstr(template, "strftime_now") && localtime_r(&now, &t))
        snprintf(today, sizeof today, "%02d %s %d", t.tm_mday % 100, months[t.tm_mon % 12], (1900 + t.tm_year) % 10000);
    put_text(g, date ? date : today);
}

static void put_content(struct grown *g, const char *template, const char *content)
{
    static const char blank[] = " \t\n\v\f\r";
    size_t size = strlen(content);
    if (strstr(template, "|trim") || strstr(template, "| trim")) {
        content += strspn(content, blank);
        for (size = strlen(content); size && strchr(blank, content[size - 1]);)
            size--;
    }
    put(g, content, size);
}

/* ---- the whole ---- */

static void put_messages(struct grown *g, const attn_tokenizer *t, const struct chat_kind *kind, const attn_message *m, size_t count,
                         const char *date)
{
    const char *template = attn_tokenizer_chat_template(t);
    const char *bos = attn_tokenizer_token(t, attn_tokenizer_special(t, ATTN_SPECIAL_BOS), NULL);
    const int is_dated = kind == &llama3 && strstr(template, "Cutting Knowledge Date: December 2023") != NULL;
    if (strstr(template, "bos_token") || strstr(template, "<|begin_of_text|>"))
        put_text(g, bos ? bos : kind == &llama3 ? "<|begin_of_text|>" : "");
    const int has_system = strcmp(m->role, "system") == 0;
    if (is_dated) {
        put_text(g, "<|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday Date: ");
        put_date(g, template, date);
        put_text(g, "\n\n");
        put_content(g, template, has_system ? m->content : "");
        put_text(g, kind->after);
    } else if (!has_system && kind == &chatml) {
        put_default_system(g, template);
    }
    for (size_t i = is_dated && has_system; i < count; i++) {
        put_text(g, kind->before);
        put_text(g, m[i].role);
        put_text(g, kind->behind_role);
        put_content(g, template, m[i].content);
        put_text(g, kind->after);
    }
    put_text(g, kind->before);
    put_text(g, "assistant");
    put_text(g, kind->behind_role);
}

static attn_status check_messages(const attn_message *m, size_t count, const struct load_report *r)
{
    if (count == 0)
        return attn_load_fail(r, ATTN_E_ARG, "there are no messages");
    for (size_t i = 0; i < count; i++) {
        if (!m[i].role || !m[i].content)
            return attn_load_fail(r, ATTN_E_ARG, "the %s of message %zu is NULL", m[i].role ? "content" : "role", i);
        const int is_system = strcmp(m[i].role, "system") == 0;
        if (!is_system && strcmp(m[i].role, "user") != 0 && strcmp(m[i].role, "assistant") != 0)
            return attn_load_fail(r, ATTN_E_ARG, "message %zu is by \"%.40s\"; \"system\", \"user\" and \"assistant\" speak here", i,
                                  m[i].role);
        if (is_system && i > 0)
            return attn_load_fail(r, ATTN_E_ARG, "message %zu is the system's; only the first may be", i);
    }
    return ATTN_OK;
}

attn_status attn_chat_text(const attn_tokenizer *t, const attn_message *messages, size_t count, const char *date, char **text, size_t *size,
                           char *err, size_t err_size)
{
    const struct load_report r = {.text = err, .size = err_size, .file = "chat template"};
    struct grown g = {.text = NULL};
    if (text)
        *text = NULL;
    if (!t || !messages || !text)
        return attn_load_fail(&r, ATTN_E_ARG, "%s is NULL", !t ? "the tokenizer" : !messages ? "messages" : "text");
    const char *template = attn_tokenizer_chat_template(t);
    attn_status status = check_messages(messages, count, &r);
    if (status != ATTN_OK)
        return status;
    if (!template)
        return attn_load_fail(&r, ATTN_E_UNSUPPORTED, "the model has none; give the whole text as the prompt");
    const struct chat_kind *kind = kind_of(template, &r);
    if (!kind)
        return ATTN_E_UNSUPPORTED;
    put_messages(&g, t, kind, messages, count, date);
    if (g.failed) {
        free(g.text);
        return attn_load_fail_nomem(&r);
    }
    *text = g.text;
    if (size)
        *size = g.size;
    return ATTN_OK;
}
