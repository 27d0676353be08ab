/* SPDX-License-Identifier: Apache-2.0 */
/* A program of the build, not installed: writes the man pages and the shell completions from the table of options.
   usage: attn_docs FILE attn|VERB|bash|zsh|fish */
#include "completion.h"
#include "man.h"

#include <string.h>

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
    fprintf(stderr, "usage: attn_docs FILE attn|VERB|bash|zsh|fish\n");
    return 2;
}
