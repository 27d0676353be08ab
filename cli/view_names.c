/* SPDX-License-Identifier: Apache-2.0 */
/* The names under which attention is saved. */
#include "view.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

const char *const view_stage_name[VIEW_STAGES] = {"q", "k", "v", "scores", "scaled", "capped", "masked", "weights", "output"};

/* TransformerLens's hook_attn_scores are scaled, biased and masked. */
static const struct {
    const char *name;
    enum view_stage_id stage;
    view_axes axes;
} hooks[] = {
    {"hook_q", VIEW_Q, VIEW_TOKENS},
    {"hook_k", VIEW_K, VIEW_TOKENS},
    {"hook_v", VIEW_V, VIEW_TOKENS},
    {"hook_attn_scores", VIEW_MASKED, VIEW_CELLS},
    {"hook_pattern", VIEW_WEIGHTS, VIEW_CELLS},
    {"hook_z", VIEW_OUTPUT, VIEW_TOKENS},
};

static bool is_cells(enum view_stage_id stage) { return stage >= VIEW_SCORES && stage <= VIEW_WEIGHTS; }

/* The number after "blocks.", or -1. */
static int64_t block_of(const char *name)
{
    const char *at = strstr(name, "blocks."), *digits = at ? at + strlen("blocks.") : "";
    char *end;
    const long long number = isdigit((unsigned char)*digits) ? strtoll(digits, &end, 10) : -1;
    return number < 0 || *end != '.' ? -1 : number;
}

bool view_name(const char *name, enum view_stage_id *stage, view_axes *axes, int64_t *layer)
{
    const char *dot = strrchr(name, '.'), *last = dot ? dot + 1 : name;
    *layer = block_of(name);
    for (size_t i = 0; i < sizeof hooks / sizeof hooks[0]; i++)
        if (strcmp(last, hooks[i].name) == 0) {
            *stage = hooks[i].stage;
            *axes = hooks[i].axes;
            return true;
        }
    for (int i = 0; i < VIEW_STAGES; i++)
        if (strcmp(name, view_stage_name[i]) == 0) {
            *stage = (enum view_stage_id)i;
            *axes = is_cells(*stage) ? VIEW_CELLS : VIEW_HEADS;
            return true;
        }
    return false;
}

/* The digits at s without leading zeros; *after is behind them. */
static size_t number_at(const char *s, const char **start, const char **after)
{
    while (*s == '0' && isdigit((unsigned char)s[1]))
        s++;
    *start = s;
    while (isdigit((unsigned char)*s))
        s++;
    *after = s;
    return (size_t)(s - *start);
}

int view_natural_order(const char *a, const char *b)
{
    while (*a && *b) {
        if (!isdigit((unsigned char)*a) || !isdigit((unsigned char)*b)) {
            if (*a != *b)
                return (unsigned char)*a - (unsigned char)*b;
            a++;
            b++;
            continue;
        }
        const char *x, *y;
        const size_t n = number_at(a, &x, &a), m = number_at(b, &y, &b);
        const int order = n != m ? (n < m ? -1 : 1) : strncmp(x, y, n);
        if (order)
            return order;
    }
    return (unsigned char)*a - (unsigned char)*b;
}

bool view_same_stem(const char *a, const char *b)
{
    for (;; a++, b++) {
        while (isdigit((unsigned char)*a))
            a++;
        while (isdigit((unsigned char)*b))
            b++;
        if (*a != *b || !*a)
            return *a == *b;
    }
}
