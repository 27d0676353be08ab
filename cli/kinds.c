/* SPDX-License-Identifier: Apache-2.0 */
#include "kinds.h"
#include "finish.h"
#include "help.h"
#include "message.h"

#include <attn/attn.h>
#include <string.h>

static int print_page(const char *verb, bool version)
{
    if (version)
        printf("attn %s\n", attn_version());
    else
        help_verb(stdout, verb_find(verb));
    return finish_stdout();
}

/* "sdpa, mha and split", or the same with bars. */
static const char *list_kinds(char out[64], const kind *kinds, int count, bool bars)
{
    size_t at = 0;
    for (int i = 0; i < count && at < 64; i++)
        at += (size_t)snprintf(out + at, 64 - at, "%s%s",
                               i == 0           ? ""
                               : bars           ? "|"
                               : i == count - 1 ? " and "
                                                : ", ",
                               strchr(kinds[i].verb.name, ' ') + 1);
    return out;
}

int run_kind(const char *verb, const kind *kinds, int count, int argc, char **argv)
{
    options o = {.operands = 0};
    char list[64];
    if (argc == 0)
        return trouble("attn %s needs to know what: attn %s %s; see attn %s --help", verb, verb, list_kinds(list, kinds, count, true),
                       verb);
    if (strcmp(argv[0], "--help") == 0 || strcmp(argv[0], "-h") == 0 || strcmp(argv[0], "--version") == 0)
        return print_page(verb, strcmp(argv[0], "--version") == 0);
    for (int i = 0; i < count; i++) {
        if (strcmp(argv[0], strchr(kinds[i].verb.name, ' ') + 1) != 0)
            continue;
        const int status = options_parse(&o, &kinds[i].verb, argc - 1, argv + 1);
        if (status)
            return status;
        if (opt_given(&o, OPT_HELP) || opt_given(&o, OPT_VERSION))
            return print_page(verb, !opt_given(&o, OPT_HELP));
        return kinds[i].run(&o);
    }
    return trouble("attn %s knows %s, and was given %s; for example: attn %.*s", verb, list_kinds(list, kinds, count, false), argv[0],
                   (int)strcspn(kinds[0].verb.synopsis, "[") - 1, kinds[0].verb.synopsis);
}
