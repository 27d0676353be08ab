/* SPDX-License-Identifier: Apache-2.0 */
#include "commands.h"
#include "finish.h"
#include "help.h"
#include "message.h"

#include <attn/attn.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static int print_version(void)
{
    printf("attn %s\n", attn_version());
    return finish_stdout();
}

static int print_help(const verb_desc *verb)
{
    if (verb)
        help_verb(stdout, verb);
    else
        help_overview(stdout);
    return finish_stdout();
}

static int unknown_verb(const char *word)
{
    const char *names[16];
    for (int i = 0; i < verb_count; i++)
        names[i] = verb_table[i].name;
    const char *near = nearest(word, names, verb_count);
    return trouble("there is no verb %s%s%s%s; the verbs are sdpa, mha, explain, view, diagnose, show, selftest, info, bench, generate, "
                   "embed", *word ? word : "''", near ? " (did you mean " : "", near ? near : "", near ? "?)" : "");
}

static int run_verb(const verb_desc *verb, int argc, char **argv)
{
    static int (*const commands[])(const options *) = {cmd_sdpa, cmd_mha,      NULL,     cmd_view, NULL,
                                                       cmd_show, cmd_selftest, cmd_info, cmd_bench, cmd_generate, cmd_embed};
    if (strcmp(verb->name, "explain") == 0)
        return cmd_explain(argc, argv);
    if (strcmp(verb->name, "diagnose") == 0)
        return cmd_diagnose(argc, argv);
    options o = {.operands = 0};
    const int status = options_parse(&o, verb, argc, argv);
    if (status)
        return status;
    if (opt_given(&o, OPT_HELP))
        return print_help(verb);
    return opt_given(&o, OPT_VERSION) ? print_version() : commands[verb - verb_table](&o);
}

/* A file that is opened must not get the number of a closed standard stream: messages would go into it. Each is opened the way round that
   makes its use fail, as on a closed one. */
static void hold_standard_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd)
            _exit(EXIT_TROUBLE);
}

int main(int argc, char **argv)
{
    hold_standard_streams();
    finish_install_handlers();
    if (argc < 2) {
        help_overview(stderr);
        return EXIT_TROUBLE;
    }
    if (strcmp(argv[1], "--version") == 0)
        return print_version();
    const bool help = strcmp(argv[1], "help") == 0 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0;
    if (help && argc == 2)
        return print_help(NULL);
    const char *word = help ? argv[2] : argv[1];
    const verb_desc *verb = verb_find(word);
    if (!verb)
        return unknown_verb(word);
    return help ? print_help(verb) : run_verb(verb, argc - 2, argv + 2);
}
