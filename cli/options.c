/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"
#include "message.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Levenshtein's distance, for words of up to 31 letters (longer ones are near nothing). */
static int distance(const char *a, const char *b)
{
    enum { MOST = 31 };
    const int n = (int)strlen(a), m = (int)strlen(b);
    if (n > MOST || m > MOST)
        return MOST;
    int row[MOST + 1];
    for (int j = 0; j <= m; j++)
        row[j] = j;
    for (int i = 1; i <= n; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= m; j++) {
            const int above = row[j];
            const int best = above < row[j - 1] ? above + 1 : row[j - 1] + 1;
            const int change = diagonal + (a[i - 1] != b[j - 1]);
            row[j] = best < change ? best : change;
            diagonal = above;
        }
    }
    return row[m];
}

const char *nearest(const char *word, const char *const *names, int count)
{
    const char *best = NULL;
    int least = 1 + (int)strlen(word) / 3; /* two letters of "cusal" may be wrong, one of "qqq" */
    for (int i = 0; i < count; i++) {
        const bool begins = strlen(word) >= 3 && strncmp(names[i], word, strlen(word)) == 0;
        const int d = begins ? 0 : distance(word, names[i]);
        if (d < least || (d == least && !best)) {
            least = d;
            best = names[i];
        }
    }
    return best;
}

const verb_desc *verb_find(const char *name)
{
    for (int i = 0; i < verb_count; i++)
        if (strcmp(verb_table[i].name, name) == 0)
            return &verb_table[i];
    return NULL;
}

/* Names the verbs that have the option. */
static int option_of_others(const options *o, const opt_desc *d)
{
    char verbs[128] = "";
    size_t at = 0;
    for (int i = 0; i < verb_count; i++)
        if (d->verbs & verb_table[i].bits)
            at += (size_t)snprintf(verbs + at, sizeof verbs - at, "%sattn %s", at ? ", " : "", verb_table[i].name);
    return trouble("attn %s has no option --%s; it belongs to %s", o->verb->name, d->name, verbs);
}

static int unknown_option(const options *o, const char *word)
{
    const char *names[OPT_COUNT];
    int count = 0;
    for (int i = 0; i < OPT_COUNT; i++) {
        if (strcmp(opt_table[i].name, word) == 0)
            return option_of_others(o, &opt_table[i]);
        if (opt_table[i].verbs & o->bit)
            names[count++] = opt_table[i].name;
    }
    const char *near = nearest(word, names, count);
    if (near)
        return trouble("attn %s has no option --%s; did you mean --%s?", o->verb->name, word, near);
    return trouble("attn %s has no option --%s; attn %.*s --help lists them", o->verb->name, word, (int)strcspn(o->verb->name, " "),
                   o->verb->name);
}

static int record(options *o, opt_id id, const char *value)
{
    if (id == OPT_STAGE || id == OPT_STOP) {
        int *count = id == OPT_STAGE ? &o->stages : &o->stops;
        if (*count == MAX_REPEATED)
            return trouble("--%s is given more than %d times", opt_table[id].name, MAX_REPEATED);
        (id == OPT_STAGE ? o->stage : o->stop)[(*count)++] = value;
    } else if (id == OPT_TEXT && o->bit == VERB_EMBED) {
        if (o->texts == MAX_TEXTS)
            return trouble("--text is given more than %d times; write the texts into a file, each on a line, and give --file", MAX_TEXTS);
        o->text[o->texts++] = value;
    } else if (o->value[id] && opt_table[id].arg) {
        return trouble("--%s is given twice, and only one of them can hold; leave one out", opt_table[id].name);
    }
    o->value[id] = value;
    return EXIT_DONE;
}

/* Reads the option argv[*at] (and the argument after it); *at is left at the last word used. */
static int read_option(options *o, int argc, char **argv, int *at)
{
    const char *word = argv[*at];
    const bool is_long = word[1] == '-';
    const char *name = word + (is_long ? 2 : 1);
    const char *equals = is_long ? strchr(name, '=') : NULL;
    char key[64];
    snprintf(key, sizeof key, "%.*s", equals ? (int)(equals - name) : (int)strlen(name), name);
    int id = 0;
    while (id < OPT_COUNT && !((opt_table[id].verbs & o->bit) &&
                               (is_long ? strcmp(opt_table[id].name, key) == 0 : opt_table[id].letter && opt_table[id].letter == name[0])))
        id++;
    if (id == OPT_COUNT && is_long)
        return unknown_option(o, key);
    if (id == OPT_COUNT)
        return trouble("attn %s has no option %s; the only short options are -o and -h", o->verb->name, word);
    const opt_desc *d = &opt_table[id];
    const char *value = equals ? equals + 1 : (!is_long && name[1]) ? name + 1 : NULL;
    if (!d->arg && value)
        return trouble("--%s takes no argument, and %s gives one", d->name, word);
    if (!d->arg || (d->arg[0] == '[' && !value))
        return record(o, (opt_id)id, "");
    if (!value && *at + 1 < argc && strncmp(argv[*at + 1], "--", 2) != 0)
        value = argv[++*at];
    if (!value || (!*value && !(equals && id == OPT_PROMPT)))
        return trouble("--%s needs an argument: --%s %s", d->name, d->name, d->arg[0] == '[' ? d->arg + 2 : d->arg);
    return record(o, (opt_id)id, value);
}

static int check_operands(const options *o)
{
    if (opt_given(o, OPT_HELP) || opt_given(o, OPT_VERSION))
        return EXIT_DONE;
    const bool from = opt_given(o, OPT_FROM); /* a model takes the place of the files */
    if (from ? o->operands == 0 : o->operands >= o->verb->min_operands && o->operands <= o->verb->max_operands)
        return EXIT_DONE;
    if (from)
        return trouble("--from takes the place of X and WEIGHTS, and %s is given too; leave one out", o->operand[0]);
    const char *hint = "";
    for (int id = 0; id < OPT_COUNT; id++) /* "--causal top-left" leaves a file called top-left */
        if (o->operands > o->verb->max_operands && o->value[id] && !*o->value[id] && opt_table[id].arg)
            hint = "; what --causal and --alibi take comes after =";
    return trouble("attn %s was given %d file%s, and takes: attn %.*s%s", o->verb->name, o->operands, plural_ending(o->operands),
                   (int)strcspn(o->verb->synopsis, "\n"), o->verb->synopsis, hint);
}

int options_parse(options *o, const verb_desc *verb, int argc, char **argv)
{
    bool only_operands = false;
    if (!o->bit)
        o->bit = verb->bits;
    o->verb = verb;
    o->word = argv;
    o->words = argc;
    for (int i = 0; i < argc; i++) {
        if (!only_operands && strcmp(argv[i], "--") == 0) {
            only_operands = true;
        } else if (!only_operands && argv[i][0] == '-' && argv[i][1]) {
            const int status = read_option(o, argc, argv, &i);
            if (status)
                return status;
        } else if (o->operands == MAX_OPERANDS) {
            return trouble("attn %s was given too many files: %s is one more than it takes", verb->name, argv[i]);
        } else {
            o->operand[o->operands++] = argv[i];
        }
    }
    return check_operands(o);
}

bool parse_int(const char *text, int64_t *out, const char **end)
{
    char *stop;
    errno = 0;
    const long long value = strtoll(text, &stop, 10);
    *end = stop;
    *out = value;
    return stop != text && errno == 0;
}

int opt_whole(const options *o, opt_id id, uint64_t least, uint64_t most, uint64_t *out)
{
    const char *text = o->value[id];
    if (!text)
        return EXIT_DONE;
    char *end;
    errno = 0;
    const unsigned long long value = strtoull(text, &end, 10); /* takes a sign, which a count has not */
    if (*text < '0' || *text > '9' || *end || errno || value < least || value > most)
        return most == INT64_MAX ? trouble("--%s is %s, and must be a whole number of %llu or more", opt_table[id].name, text,
                                           (unsigned long long)least)
                                 : trouble("--%s is %s, and must be a whole number from %llu to %llu", opt_table[id].name, text,
                                           (unsigned long long)least, (unsigned long long)most);
    *out = value;
    return EXIT_DONE;
}

int opt_count(const options *o, opt_id id, int64_t *out)
{
    uint64_t value = (uint64_t)*out;
    const int status = opt_whole(o, id, 1, INT64_MAX, &value);
    *out = (int64_t)value;
    return status;
}

int opt_round(const options *o, int *decimals)
{
    enum { MOST_DECIMALS = 17 }; /* that tell any two f64 apart */
    uint64_t round = 0;
    const int status = opt_whole(o, OPT_ROUND, 0, MOST_DECIMALS, &round);
    *decimals = opt_given(o, OPT_ROUND) ? (int)round : -1;
    return status;
}

int opt_double(const options *o, opt_id id, double *out)
{
    const char *text = o->value[id];
    if (!text)
        return EXIT_DONE;
    char *end;
    const double value = strtod(text, &end);
    if (end == text || *end || !isfinite(value))
        return trouble("--%s is %s, and must be a finite number such as 0.125", opt_table[id].name, text);
    *out = value;
    return EXIT_DONE;
}

int opt_choice(const options *o, opt_id id)
{
    const char *text = o->value[id];
    if (!text || !*text)
        return -1;
    const char *choices = opt_table[id].arg + (opt_table[id].arg[0] == '[' ? 2 : 0);
    const size_t length = strlen(text);
    int place = 0;
    for (const char *c = choices;; place++) {
        const size_t n = strcspn(c, "|]");
        if (n == length && strncmp(c, text, n) == 0)
            return place;
        if (c[n] != '|')
            break;
        c += n + 1;
    }
    trouble("--%s is %s, and must be one of: %.*s", opt_table[id].name, text, (int)strcspn(choices, "]"), choices);
    return -2;
}
