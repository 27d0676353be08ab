/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose_print.h"
#include "json_out.h"

static void print_ids(json_writer *j, const char *key, const diagnose_candidate *c)
{
    jw_begin(j, key, '[');
    for (int i = 0; i < c->parts; i++)
        jw_string(j, NULL, c->part[i]->id);
    jw_end(j, ']');
}

/* The names of a pair, with a plus between them. */
static void print_joined(json_writer *j, const char *key, const diagnose_candidate *c, enum diagnose_lang lang,
                         const char *const *(*text)(const mistake_words *))
{
    static const char *const and_then[] = {"; and ", "; 그리고 "};
    char all[1024];
    size_t at = 0;
    for (int i = 0; i < c->parts && at < sizeof all; i++)
        at += (size_t)snprintf(all + at, sizeof all - at, "%s%s", i ? and_then[lang] : "", text(c->part[i])[lang]);
    jw_string(j, key, all);
}

static const char *const *name_of(const mistake_words *w) { return w->name; }
static const char *const *remedy_of(const mistake_words *w) { return w->remedy; }

static void print_candidate(json_writer *j, const diagnose_candidate *c, enum diagnose_lang lang)
{
    jw_begin(j, NULL, '{');
    print_ids(j, "ids", c);
    print_joined(j, "name", c, lang, name_of);
    print_joined(j, "remedy", c, lang, remedy_of);
    jw_bool(j, "matches", c->matches);
    jw_number(j, "max_abs", c->max_abs, ATTN_F32);
    jw_number(j, "max_bounds", c->max_bounds, ATTN_F32);
    jw_end(j, '}');
}

static void print_comparison(json_writer *j, const diagnose_report *r, bool given)
{
    char source[64];
    snprintf(source, sizeof source, given ? "given" : "docs/numerics.md %s", attn_dtype_name(r->dtype));
    jw_bool(j, "equal", r->verdict == DIAGNOSE_EQUAL);
    jw_begin(j, "bound", '{');
    jw_number(j, "rtol", r->rtol, ATTN_F32);
    jw_number(j, "atol", r->atol, ATTN_F32);
    jw_string(j, "source", source);
    if (r->usual_abs > 0)
        jw_number(j, "usual", r->usual_abs, ATTN_F32);
    else
        jw_string(j, "usual", NULL);
    jw_number(j, "share", r->sharpness, ATTN_F32);
    jw_end(j, '}');
    jw_begin(j, "error", '{');
    jw_number(j, "max_abs", r->max_abs, ATTN_F32);
    jw_number(j, "max_bounds", r->max_bounds, ATTN_F32);
    jw_end(j, '}');
    jw_int(j, "cells", r->cells);
    jw_int(j, "unjudged", r->unjudged);
    jw_int(j, "differing", r->differing);
    if (!r->differing) {
        jw_string(j, "first_difference", NULL);
        return;
    }
    static const char *const axes[] = {"batch", "head", "row", "column"};
    jw_begin(j, "confined", '{');
    for (int axis = 0; axis < 4; axis++) {
        const int64_t range[] = {r->from[axis], r->to[axis]};
        if (range[1] - range[0] + 1 < r->extent[axis])
            jw_shape(j, axes[axis], 2, range);
    }
    jw_end(j, '}');
    jw_begin(j, "first_difference", '{');
    jw_shape(j, "index", r->rank, r->first);
    jw_number(j, "got", r->first_got, r->dtype);
    jw_number(j, "right", r->first_right, ATTN_F64);
    jw_end(j, '}');
}

static void print_apart(json_writer *j, const diagnose_report *r, enum diagnose_lang lang)
{
    static const char *const some[] = {"some of them: ", "일부만: "};
    char text[256];
    const char *apart = r->tell_apart[lang];
    snprintf(text, sizeof text, "%s%s", r->tells_all ? "" : some[lang], apart ? apart : "");
    jw_string(j, "tell_apart", apart ? text : NULL);
}

static void print_sampled(json_writer *j, const diagnose_report *r)
{
    if (!r->sampled) {
        jw_string(j, "sampled", NULL);
        return;
    }
    jw_begin(j, "sampled", '{');
    jw_begin(j, "rows", '[');
    for (int64_t i = 0; i < r->sampled_rows; i++)
        jw_int(j, NULL, r->sampled[i]);
    jw_end(j, ']');
    jw_int(j, "of", r->of_rows);
    jw_int(j, "compared", r->sampled_all);
    jw_int(j, "all", r->of_all);
    jw_bool(j, "equality_too", r->sampled_equality);
    jw_end(j, '}');
}

int diagnose_print_json(const diagnose_report *r, const char *command, enum diagnose_lang lang, bool given)
{
    static const char *const verdicts[] = {"equal", "named", "tied", "unknown", "unjudged"};
    json_writer j = jw_begin_document(command);
    print_comparison(&j, r, given);
    jw_string(&j, "verdict", verdicts[r->verdict]);
    jw_begin(&j, "candidates", '[');
    for (int i = 0; i < r->candidates; i++)
        print_candidate(&j, &r->candidate[i], lang);
    jw_end(&j, ']');
    jw_begin(&j, "tied", '[');
    for (int i = 0; i < r->candidates && r->matching > 1; i++)
        if (r->candidate[i].matches)
            print_ids(&j, NULL, &r->candidate[i]);
    jw_end(&j, ']');
    print_apart(&j, r, lang);
    print_sampled(&j, r);
    jw_int(&j, "tried", r->tried);
    jw_int(&j, "left_out", r->left_out);
    return jw_end_document(&j);
}
