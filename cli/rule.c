/* SPDX-License-Identifier: Apache-2.0 */
#include "rule.h"
#include "message.h"

/* An anchor that is said and is not the system's. */
static int check_anchor(const options *o, const attn_sdpa_opts *opts, enum dialect d)
{
    static const char *const anchors[] = {[ATTN_ALIGN_TOP_LEFT] = "top-left", [ATTN_ALIGN_BOTTOM_RIGHT] = "bottom-right"};
    const attn_align anchor = dialect_anchor(d);
    const char *name = o->value[OPT_DIALECT];
    if (!anchor)
        return EXIT_DONE;
    if (opt_given(o, OPT_OFFSET))
        return trouble("--dialect %s anchors rows %s, and --offset says otherwise; give one of the two", name, anchors[anchor]);
    if (opts->align && opts->align != anchor)
        return trouble("--dialect %s anchors rows %s, and %s is asked for; give one of the two", name, anchors[anchor],
                       anchors[opts->align]);
    return EXIT_DONE;
}

int rule_settle(session *s, attn_sdpa_opts *opts, const attn_tensor *q, const attn_tensor *k, const attn_tensor *v, bool lse)
{
    if (!opt_given(s->o, OPT_DIALECT))
        return EXIT_DONE;
    const int choice = opt_choice(s->o, OPT_DIALECT);
    if (choice < 0)
        return EXIT_TROUBLE;
    const int status = check_anchor(s->o, opts, (enum dialect)choice);
    if (status)
        return status;
    s->rule = dialect_settle(opts, (enum dialect)choice, q, k, v, lse);
    s->by_definition = !s->rule.in_options;
    if (s->by_definition && opt_given(s->o, OPT_HTML))
        return trouble("--html shows the numbers of the kernels, and options cannot say the rule of %s here; give one of the two",
                       s->o->value[OPT_DIALECT]);
    note(!opt_given(s->o, OPT_VERBOSE), "the rule of %s is %s", s->o->value[OPT_DIALECT],
         s->by_definition ? "computed by its definition in float64" : "said by options");
    return EXIT_DONE;
}

static int no_memory(void) { return trouble("out of memory"); }

int rule_sdpa(session *s, attn_tensor *out, const attn_tensor *q, const attn_tensor *k, const attn_tensor *v, const attn_sdpa_opts *opts)
{
    session_begin(s);
    const attn_status refused = attn_sdpa(s->ctx, out, q, k, v, opts); /* also where its numbers are overwritten: it judges the arguments */
    const bool done = refused != ATTN_OK || !s->by_definition || dialect_sdpa(&s->rule, out, q, k, v, opts);
    const int status = session_end(s, refused);
    return status || done ? status : no_memory();
}

int rule_mha(session *s, attn_tensor *out, const attn_mha_weights *prepared, const attn_mha_desc *w, const attn_tensor *x,
             const attn_tensor *memory, const attn_tensor *memory_v, const attn_mha_opts *opts)
{
    session_begin(s);
    const attn_status refused = attn_mha(s->ctx, out, prepared, x, memory, memory_v, opts);
    const bool done = refused != ATTN_OK || !s->by_definition || dialect_mha(&s->rule, out, w, x, memory, memory_v, opts);
    const int status = session_end(s, refused);
    return status || done ? status : no_memory();
}

int rule_cell(session *s, attn_row *row, const attn_tensor *q, const attn_tensor *k, const attn_tensor *v, const attn_sdpa_opts *opts,
              int64_t b, int64_t h, int64_t i)
{
    if (attn_explain_cell(s->ctx, row, q, k, v, opts, b, h, i) != ATTN_OK)
        return library_trouble(attn_ctx_error(s->ctx));
    return !s->by_definition || dialect_cell(&s->rule, row, q, k, v, opts, b, h, i) ? EXIT_DONE : no_memory();
}
