/* SPDX-License-Identifier: Apache-2.0 */
#include "help.h"

#include <string.h>

enum { WIDTH = 80, INDENT = 26 };

/* Prints text from column `column` on, breaking lines before WIDTH and indenting the next ones by `indent`. */
static void print_wrapped(FILE *f, const char *text, int column, int indent)
{
    while (*text) {
        const int word = (int)strcspn(text, " \n");
        if (column > indent && column + 1 + word > WIDTH) {
            fprintf(f, "\n%*s", indent, "");
            column = indent;
        } else if (column > indent) {
            fputc(' ', f);
            column++;
        }
        fprintf(f, "%.*s", word, text);
        column += word;
        text += word;
        if (text[0] == '\n' && text[1] == '\n') {
            fprintf(f, "\n\n%*s", indent, "");
            column = indent;
            text += 2;
        } else if (*text) {
            text++;
        }
    }
    fputc('\n', f);
}

void help_option_form(char *out, size_t size, const opt_desc *d)
{
    char letter[8] = "";
    if (d->letter)
        snprintf(letter, sizeof letter, "-%c, ", d->letter);
    snprintf(out, size, "%s--%s%s%s", letter, d->name, d->arg && d->arg[0] != '[' ? " " : "", d->arg ? d->arg : "");
}

const char *help_option_limit(const opt_desc *d, const verb_desc *verb)
{
    const unsigned held = d->verbs & verb->bits;
    if (held == verb->bits)
        return "";
    if (held == VERB_EXPLAIN_MHA)
        return " (Of explain mha.)";
    if (held == VERB_DIAGNOSE_MHA)
        return " (Of diagnose mha.)";
    return held & VERB_EXPLAIN_SPLIT ? " (Of explain mha and split.)" : " (Not of explain split.)";
}

/* The form of an option; a list of choices that is too long goes on in the next line. Returns the columns of the last line. */
static int print_form(FILE *f, const char *form)
{
    enum { DEEPER = 6 };
    int column = fprintf(f, "  ");
    while (*form) {
        const char *bar = strchr(form, '|');
        const int piece = bar ? (int)(bar - form) + 1 : (int)strlen(form);
        if (column + piece > WIDTH)
            column = fprintf(f, "\n%*s", DEEPER, "") - 1;
        column += fprintf(f, "%.*s", piece, form);
        form += piece;
    }
    return column;
}

static void print_option(FILE *f, const opt_desc *d, const verb_desc *verb)
{
    char form[128], text[512];
    help_option_form(form, sizeof form, d);
    snprintf(text, sizeof text, "%s%s", d->help, help_option_limit(d, verb));
    const int length = print_form(f, form);
    if (length > INDENT - 2)
        fprintf(f, "\n%*s", INDENT, "");
    else
        fprintf(f, "%*s", INDENT - length, "");
    print_wrapped(f, text, INDENT, INDENT);
}

static void print_synopsis(FILE *f, const verb_desc *verb)
{
    const char *lead = "Usage: ";
    for (const char *line = verb->synopsis; line;) {
        const int length = (int)strcspn(line, "\n");
        fprintf(f, "%sattn %.*s\n", lead, length, line);
        lead = "       ";
        line = line[length] ? line + length + 1 : NULL;
    }
    fputc('\n', f);
}

static void print_examples(FILE *f, const verb_desc *verb)
{
    fputs("\nExamples\n", f);
    for (const char *line = verb->examples; line;) {
        const int length = (int)strcspn(line, "\n");
        fprintf(f, "  %s%.*s\n", line[0] == '#' ? "" : "  ", length, line);
        line = line[length] ? line + length + 1 : NULL;
    }
}

void help_verb(FILE *f, const verb_desc *verb)
{
    print_synopsis(f, verb);
    print_wrapped(f, verb->text, 0, 0);
    for (int section = 0; section < SEC_COUNT; section++) {
        int printed = 0;
        for (int id = 0; id < OPT_COUNT; id++) {
            if ((int)opt_table[id].section != section || !(opt_table[id].verbs & verb->bits))
                continue;
            if (!printed++)
                fprintf(f, "\n%s\n", opt_section_title[section]);
            print_option(f, &opt_table[id], verb);
        }
    }
    print_examples(f, verb);
    fputs("\nExit status: 0 done, 1 differs (diagnose, selftest), 2 trouble, 130 interrupted.\n", f);
}

void help_overview(FILE *f)
{
    fputs("Usage: attn VERB [FILES] [options]\n\nExact attention on CPUs that you can see.\n\nVerbs\n", f);
    for (int i = 0; i < verb_count; i++)
        fprintf(f, "  %-10s%s\n", verb_table[i].name, verb_table[i].summary);
    fputs("\nOptions\n"
          "  --help      print this help; attn VERB --help prints that of a verb\n"
          "  --version   print the version\n"
          "\nFiles are .npy, .npz, .safetensors, and .csv or .txt for rank 2; - is standard input\n"
          "or output. Without -o a terminal gets a table and a pipe gets .npy bytes.\n"
          "\nExit status: 0 done, 1 differs (diagnose, selftest), 2 trouble, 130 interrupted.\n",
          f);
}
