/* SPDX-License-Identifier: Apache-2.0 */
#include "bench.h"
#include "commands.h"
#include "message.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The former file is looked at before anything is measured, with no case to compare. */
static int check_options(const options *o, double *seconds)
{
    if (opt_choice(o, OPT_SUITE) == -2)
        return EXIT_TROUBLE;
    if (opt_given(o, OPT_JSON) && opt_given(o, OPT_MARKDOWN))
        return trouble("--json and --markdown both say what is printed; leave one out");
    const int status = opt_double(o, OPT_SECONDS, seconds);
    if (status)
        return status;
    if (!(*seconds > 0))
        return trouble("--seconds is %s, and must be above 0", o->value[OPT_SECONDS]);
    return opt_given(o, OPT_COMPARE) ? bench_compare(NULL, 0, o->value[OPT_COMPARE]) : EXIT_DONE;
}

static int print(const options *o, bench_result *results, int count, const char *suite)
{
    const int status = opt_given(o, OPT_COMPARE) ? bench_compare(results, count, o->value[OPT_COMPARE]) : EXIT_DONE;
    if (status)
        return status;
    if (opt_given(o, OPT_JSON))
        return bench_print_json(results, count, suite);
    return opt_given(o, OPT_MARKDOWN) ? bench_print_markdown(results, count) : bench_print_text(results, count);
}

int cmd_bench(const options *o)
{
    const char *suite = opt_given(o, OPT_SUITE) ? o->value[OPT_SUITE] : "quick";
    const bool is_watched = isatty(STDERR_FILENO);
    double seconds = 1;
    int count = 0, status = check_options(o, &seconds);
    bench_result *results = need_zeroed((size_t)bench_case_count, sizeof *results);
    for (int i = 0; i < bench_case_count && !status; i++) {
        char name[BENCH_NAME];
        if (strcmp(suite, "all") != 0 && strcmp(suite, bench_cases[i].suite) != 0)
            continue;
        bench_name(name, &bench_cases[i]);
        if (is_watched)
            fprintf(stderr, "\r\033[K%s: %s", bench_cases[i].suite, name);
        status = bench_run(&results[count++], &bench_cases[i], o, seconds);
    }
    if (is_watched)
        fputs("\r\033[K", stderr);
    if (!status)
        status = print(o, results, count, suite);
    free(results);
    return status;
}
