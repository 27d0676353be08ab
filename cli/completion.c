/* SPDX-License-Identifier: Apache-2.0 */
#include "completion.h"

#include <string.h>

/* What these verbs take first. */
static const struct {
    const char *verb, *kinds;
} first[] = {{"explain", "sdpa mha split"}, {"diagnose", "sdpa mha"}};

enum { FIRST = sizeof first / sizeof first[0] };

/* The argument without the brackets of one that may be left out; "" for none. Returns its length. */
static int argument_of(const opt_desc *d, const char **argument)
{
    *argument = d->arg ? d->arg + (d->arg[0] == '[' ? 2 : 0) : "";
    return (int)strcspn(*argument, "]");
}

/* "a|b" with lower-case words: a choice; "N|F" and "F" are files or numbers. */
static bool is_choice(const opt_desc *d)
{
    const char *argument;
    const int length = argument_of(d, &argument);
    return memchr(argument, '|', (size_t)length) && argument[0] >= 'a' && argument[0] <= 'z';
}

static void print_choices(FILE *f, const opt_desc *d)
{
    const char *argument;
    const int length = argument_of(d, &argument);
    for (int i = 0; i < length; i++)
        fputc(argument[i] == '|' ? ' ' : argument[i], f);
}

static void print_verbs(FILE *f)
{
    for (int i = 0; i < verb_count; i++)
        fprintf(f, "%s%s", i ? " " : "", verb_table[i].name);
}

void completion_bash(FILE *f)
{
    fputs("# bash completion for attn; made from its table of options\n_attn()\n{\n"
          "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words=\n"
          "    if [ \"$COMP_CWORD\" = 1 ]; then\n        words='",
          f);
    print_verbs(f);
    fputs(" --help --version'\n", f);
    for (int i = 0; i < FIRST; i++)
        fprintf(f, "    elif [ \"$COMP_CWORD\" = 2 ] && [ \"$prev\" = %s ]; then\n        words='%s --help'\n", first[i].verb,
                first[i].kinds);
    fputs("    else\n        case $prev in\n", f);
    for (int id = 0; id < OPT_COUNT; id++)
        if (is_choice(&opt_table[id]) && opt_table[id].arg[0] != '[') {
            fprintf(f, "        --%s) words='", opt_table[id].name);
            print_choices(f, &opt_table[id]);
            fputs("' ;;\n", f);
        }
    fputs("        *)\n            case $cur in -*) case ${COMP_WORDS[1]} in\n", f);
    for (int i = 0; i < verb_count; i++) {
        fprintf(f, "            %s) words='", verb_table[i].name);
        for (int id = 0; id < OPT_COUNT; id++)
            if (opt_table[id].verbs & verb_table[i].bits)
                fprintf(f, "--%s ", opt_table[id].name);
        fputs("' ;;\n", f);
    }
    fputs("            esac ;; esac ;;\n        esac\n    fi\n    if [ -n \"$words\" ]; then\n"
          "        mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n    else\n"
          "        mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n    fi\n}\ncomplete -o filenames -F _attn attn\n",
          f);
}

/* Inside single quotes and the brackets of _arguments. */
static void print_zsh_text(FILE *f, const char *text)
{
    for (; *text; text++) {
        if (*text == '\'')
            fputs("'\\''", f);
        else if (strchr("[]:\\", *text))
            fprintf(f, "\\%c", *text);
        else
            fputc(*text, f);
    }
}

static void print_zsh_option(FILE *f, const opt_desc *d)
{
    const bool optional = d->arg && d->arg[0] == '[';
    fprintf(f, "        '--%s%s[", d->name, !d->arg ? "" : optional ? "=-" : "=");
    print_zsh_text(f, d->help);
    fputc(']', f);
    if (d->arg && is_choice(d)) {
        fprintf(f, "%s%s:(", optional ? "::" : ":", d->name);
        print_choices(f, d);
        fputc(')', f);
    } else if (d->arg) {
        fprintf(f, "%s%s:_files", optional ? "::" : ":", d->name);
    }
    fputs("' \\\n", f);
}

void completion_zsh(FILE *f)
{
    fputs("#compdef attn\n# made from the table of options of attn\nif (( CURRENT == 2 )); then\n    compadd ", f);
    print_verbs(f);
    fputs(" --help --version\n    return\nfi\n", f);
    for (int i = 0; i < FIRST; i++)
        fprintf(f, "if (( CURRENT == 3 )) && [[ $words[2] == %s ]]; then\n    compadd %s --help\n    return\nfi\n", first[i].verb,
                first[i].kinds);
    fputs("case $words[2] in\n", f);
    for (int i = 0; i < verb_count; i++) {
        fprintf(f, "%s)\n    _arguments \\\n", verb_table[i].name);
        for (int id = 0; id < OPT_COUNT; id++)
            if (opt_table[id].verbs & verb_table[i].bits)
                print_zsh_option(f, &opt_table[id]);
        fputs("        '*:file:_files' ;;\n", f);
    }
    fputs("esac\n", f);
}

static void print_fish_text(FILE *f, const char *text)
{
    fputc('\'', f);
    for (; *text; text++)
        fprintf(f, strchr("'\\", *text) ? "\\%c" : "%c", *text);
    fputc('\'', f);
}

void completion_fish(FILE *f)
{
    fputs("# fish completion for attn; made from its table of options\n", f);
    for (int i = 0; i < verb_count; i++) {
        fprintf(f, "complete -c attn -n __fish_use_subcommand -f -a %s -d ", verb_table[i].name);
        print_fish_text(f, verb_table[i].summary);
        fputc('\n', f);
    }
    for (int i = 0; i < FIRST; i++)
        fprintf(f, "complete -c attn -n '__fish_seen_subcommand_from %s' -a '%s'\n", first[i].verb, first[i].kinds);
    for (int i = 0; i < verb_count; i++)
        for (int id = 0; id < OPT_COUNT; id++) {
            const opt_desc *d = &opt_table[id];
            if (!(d->verbs & verb_table[i].bits))
                continue;
            fprintf(f, "complete -c attn -n '__fish_seen_subcommand_from %s' -l %s", verb_table[i].name, d->name);
            if (d->letter)
                fprintf(f, " -s %c", d->letter);
            if (d->arg && d->arg[0] != '[')
                fputs(" -r", f);
            if (is_choice(d)) {
                fputs(" -f -a '", f);
                print_choices(f, d);
                fputc('\'', f);
            }
            fputs(" -d ", f);
            print_fish_text(f, d->help);
            fputc('\n', f);
        }
}
