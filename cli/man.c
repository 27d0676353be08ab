/* SPDX-License-Identifier: Apache-2.0 */
#include "man.h"
#include "help.h"

#include <attn/attn.h>
#include <ctype.h>
#include <limits.h>
#include <string.h>

enum { TEXT_WIDTH = 60 }; /* after which a line of the source is broken */

/* Text: what roff would read as its own is escaped; every sentence begins a line, and lines longer than `width` are broken. */
static void print_text(FILE *f, const char *text, size_t length, int width)
{
    int column = 0;
    for (size_t i = 0; i < length; i++, column++) {
        const char c = text[i];
        const bool sentence_end = c == ' ' && i > 0 && strchr(".?!", text[i - 1]) && i + 1 < length && isupper((unsigned char)text[i + 1]);
        if (column == 0 && (c == '.' || c == '\''))
            fputs("\\&", f);
        if (c == '\n' || sentence_end || (c == ' ' && column > width))
            column = -1;
        if (column < 0)
            fputc('\n', f);
        else if (c == '-')
            fputs("\\-", f);
        else if (c == '\\')
            fputs("\\e", f);
        else if (c == '^')
            fputs("\\(ha", f);
        else
            fputc(c, f);
    }
    fputc('\n', f);
}

/* A word as an argument of a macro. */
static void print_word(FILE *f, const char *word, int length)
{
    fputc('"', f);
    for (int i = 0; i < length; i++)
        fputs(word[i] == '-' ? "\\-" : word[i] == '"' ? "\\(dq" : (const char[]){word[i], 0}, f);
    fputc('"', f);
}

static void print_title(FILE *f, const char *title, const char *name, const char *summary)
{
    fprintf(f, ".\\\" Made from the table of options; see cli/man.c.\n.Dd $Mdocdate$\n.Dt ");
    for (const char *c = title; *c; c++)
        fputc(toupper((unsigned char)*c), f);
    fprintf(f, " 1\n.Os libattn %s\n.Sh NAME\n.Nm %s\n.Nd %s\n", attn_version(), name, summary);
}

static void print_paragraphs(FILE *f, const char *text)
{
    for (const char *at = text; *at;) {
        const char *end = strstr(at, "\n\n");
        print_text(f, at, end ? (size_t)(end - at) : strlen(at), TEXT_WIDTH);
        if (!end)
            break;
        fputs(".Pp\n", f);
        at = end + 2;
    }
}

static void print_synopsis(FILE *f, const verb_desc *verb)
{
    fputs(".Sh SYNOPSIS\n", f);
    for (const char *line = verb->synopsis; line;) {
        const int length = (int)strcspn(line, "\n");
        fprintf(f, ".Nm attn\n.Ar ");
        print_word(f, line, length);
        fputc('\n', f);
        line = line[length] ? line + length + 1 : NULL;
    }
}

static void print_options(FILE *f, const verb_desc *verb)
{
    char form[128], text[600];
    for (int section = 0; section < SEC_COUNT; section++) {
        bool opened = false;
        for (int id = 0; id < OPT_COUNT; id++) {
            const opt_desc *d = &opt_table[id];
            if ((int)d->section != section || !(d->verbs & verb->bits))
                continue;
            if (!opened)
                fprintf(f, ".Ss %s\n.Bl -tag -width Ds\n", opt_section_title[section]);
            opened = true;
            help_option_form(form, sizeof form, d);
            fputs(".It Cm ", f);
            print_word(f, form, (int)strlen(form));
            fputc('\n', f);
            snprintf(text, sizeof text, "%s%s", d->help, help_option_limit(d, verb));
            print_text(f, text, strlen(text), TEXT_WIDTH);
        }
        if (opened)
            fputs(".El\n", f);
    }
}

static void print_examples(FILE *f, const verb_desc *verb)
{
    fputs(".Sh EXAMPLES\n", f);
    for (const char *line = verb->examples; line;) {
        const size_t length = strcspn(line, "\n");
        if (line[0] == '#') {
            print_text(f, line + 2, length - 2, TEXT_WIDTH);
        } else {
            fputs(".Dl ", f);
            print_text(f, line, length, INT_MAX); /* a command stays on its line */
        }
        line = line[length] ? line + length + 1 : NULL;
        if (line && line[0] == '#')
            fputs(".Pp\n", f);
    }
}

static void print_exit_status(FILE *f)
{
    fputs(".Sh EXIT STATUS\n.Bl -tag -width Ds -compact\n.It 0\ndone\n.It 1\ndiffers: diagnose found a difference,\nor selftest a kernel "
          "outside its error bound\n"
          ".It 2\ntrouble; one sentence on standard error says which\n.It 130\ninterrupted\n.El\n",
          f);
}

void man_verb(FILE *f, const verb_desc *verb)
{
    char title[64], name[64];
    snprintf(title, sizeof title, "attn-%s", verb->name);
    snprintf(name, sizeof name, "attn\\-%s", verb->name);
    print_title(f, title, name, verb->summary);
    print_synopsis(f, verb);
    fputs(".Sh DESCRIPTION\n", f);
    print_paragraphs(f, verb->text);
    print_options(f, verb);
    print_exit_status(f);
    print_examples(f, verb);
    fputs(".Sh SEE ALSO\n.Xr attn 1\n", f);
}

static void print_files_and_environment(FILE *f)
{
    fputs(".Sh ENVIRONMENT\n.Bl -tag -width Ds\n"
          ".It Ev ATTN_NUM_THREADS\nThe number of threads where\n.Cm \\-\\-threads\nis not given; then\n.Ev OMP_NUM_THREADS .\n"
          ".It Ev ATTN_ISA\nThe instruction set level where\n.Cm \\-\\-isa\nis not given.\n"
          ".It Ev NO_COLOR\nNo bold headings on a terminal.\n"
          ".It Ev COLUMNS\nThe width of tables that do not go to a terminal.\n.El\n"
          ".Sh FILES\n"
          "Arrays are read from .npy, .npz, .safetensors, .safetensors.index.json and\n"
          "the tensors of .gguf, and from .csv or .txt with a table of numbers, and\nwritten to all of these but the index and .gguf.\n"
          "The name\n.Ql \\-\nis standard input or standard output, as .npy.\n"
          "Output files are written beside their targets and renamed, all of a\ncall together, so that a file is whole or not there.\n",
          f);
}

void man_overview(FILE *f)
{
    print_title(f, "attn", "attn", "exact attention on CPUs that you can see");
    fputs(".Sh SYNOPSIS\n.Nm\n.Ar verb\n.Op Ar file ...\n.Op Ar options\n.Sh DESCRIPTION\n", f);
    print_paragraphs(
        f, "Computes attention on arrays in files, and shows every number on the way.\n\n"
           "Without -o a terminal gets the shape and a shortened table, and a pipe gets .npy bytes. Results go to standard output, "
           "messages to standard error.");
    fputs(".Bl -tag -width selftest\n", f);
    for (int i = 0; i < verb_count; i++)
        fprintf(f, ".It Cm %s\n%s; see\n.Xr attn-%s 1 .\n", verb_table[i].name, verb_table[i].summary, verb_table[i].name);
    fputs(".El\n", f);
    print_files_and_environment(f);
    print_exit_status(f);
    fputs(".Sh SEE ALSO\n", f);
    for (int i = 0; i < verb_count; i++) /* in the order of the alphabet, as man pages do */
        for (int k = 0; k < verb_count; k++) {
            int before = 0;
            for (int m = 0; m < verb_count; m++)
                before += strcmp(verb_table[m].name, verb_table[k].name) < 0;
            if (before == i)
                fprintf(f, ".Xr attn-%s 1%s\n", verb_table[k].name, i + 1 < verb_count ? " ," : "");
        }
}
