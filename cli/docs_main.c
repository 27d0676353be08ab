/* SPDX-License-Identifier: Apache-2.0 */
/* A program of the build, not installed: writes the man pages and the shell completions from the table of options, and the table of
   docs/diagnose.md from that of the mistakes.
   usage: attn_docs FILE attn|VERB|bash|zsh|fish|mistakes */
#include "completion.h"
#include "man.h"

#include <diagnose.h>
#include <string.h>

/* Markdown: a row of each mistake. */
static void print_mistakes(FILE *f)
{
    fputs("| id | what happened | what to do |\n|---|---|---|\n", f);
    for (int i = 0; diagnose_mistake(i); i++) {
        const mistake_words *m = diagnose_mistake(i);
        fprintf(f, "| `%s` | %s | ", m->id, m->name[DIAGNOSE_EN]);
        for (const char *c = m->remedy[DIAGNOSE_EN]; *c; c++)
            fprintf(f, *c == '|' ? "\\|" : "%c", *c);
        fputs(" |\n", f);
    }
}

static bool write_document(FILE *f, const char *name)
{
    const verb_desc *verb = verb_find(name);
    if (verb)
        man_verb(f, verb);
    else if (strcmp(name, "attn") == 0)
        man_overview(f);
    else if (strcmp(name, "bash") == 0)
        completion_bash(f);
    else if (strcmp(name, "zsh") == 0)
        completion_zsh(f);
    else if (strcmp(name, "fish") == 0)
        completion_fish(f);
    else if (strcmp(name, "mistakes") == 0)
        print_mistakes(f);
    else
        return false;
    return true;
}

int main(int argc, char **argv)
{
    FILE *f = argc == 3 ? fopen(argv[1], "w") : NULL;
    const bool known = f && write_document(f, argv[2]);
    if (f && fclose(f) == 0 && known)
        return 0;
    fprintf(stderr, "usage: attn_docs FILE attn|VERB|bash|zsh|fish|mistakes\n");
    return 2;
}
