/* SPDX-License-Identifier: Apache-2.0 */
#include "heat.h"
#include "message.h"
#include "table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* From blue to yellow, ever lighter: it reads the same without colour, and to the colour-blind. */
static const int colors[] = {16, 17, 18, 60, 102, 144, 186, 228, 230};
static const char letters[] = " .:-=+*#%@";
enum { COLORS = sizeof colors / sizeof colors[0], LETTERS = sizeof letters - 1 };

/* Of the first of these variables that is set, as setlocale does it. */
static bool locale_is_utf8(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *value = getenv(names[i]), *codeset = value ? strchr(value, '.') : NULL;
        if (value && *value)
            return codeset && (strncasecmp(codeset, ".utf-8", 6) == 0 || strncasecmp(codeset, ".utf8", 5) == 0);
    }
    return false;
}

static bool has_256_colors(void)
{
    const char *term = getenv("TERM"), *more = getenv("COLORTERM");
    return (more && *more) || (term && (strstr(term, "256color") || strstr(term, "direct") || strstr(term, "kitty")));
}

int heat_choose(heat_form *form, FILE *f, const options *o)
{
    static const heat_form chosen[] = {HEAT_ASCII, HEAT_COLOR, HEAT_ASCII, HEAT_OFF};
    const int choice = opt_choice(o, OPT_HEAT);
    if (choice == -2)
        return EXIT_TROUBLE;
    *form = chosen[choice < 0 ? 0 : choice];
    if (choice <= 0 && terminal_colours(f) && has_256_colors() && locale_is_utf8())
        *form = HEAT_COLOR;
    return EXIT_DONE;
}

static void put_block(FILE *f, heat_form form, int level)
{
    if (form == HEAT_COLOR)
        fprintf(f, "\033[48;5;%dm  ", colors[level]);
    else
        fprintf(f, "%c%c", letters[level], letters[level]);
}

static void put_end(FILE *f, heat_form form) { fputs(form == HEAT_COLOR ? "\033[0m" : "", f); }

void heat_row(FILE *f, heat_form form, const double *shares, int64_t count, double largest)
{
    const int levels = form == HEAT_COLOR ? COLORS : LETTERS;
    for (int64_t i = 0; i < count; i++) {
        if (isnan(shares[i])) {
            put_end(f, form);
            fputs(" x", f);
            continue;
        }
        const double share = largest > 0 ? shares[i] / largest : 0;
        const int level = (int)ceil(share * (levels - 1)); /* the lowest level is nothing at all */
        put_block(f, form, level < 0 ? 0 : level >= levels ? levels - 1 : level);
    }
    put_end(f, form);
}

void heat_scale(FILE *f, heat_form form)
{
    for (int level = 0; level < (form == HEAT_COLOR ? COLORS : LETTERS); level++)
        put_block(f, form, level);
    put_end(f, form);
}
