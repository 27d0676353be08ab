/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of this machine against the float64 definition, on built-in data. */
#include "commands.h"
#include "finish.h"
#include "json_out.h"
#include "message.h"
#include "setup.h"

#include <attn_ref.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One built-in problem. Sizes around the tile and vector widths, so that every tail is met. */
typedef struct selftest_case {
    int64_t B, H, Hkv, Lq, Lk, d, d_v;
    attn_sdpa_opts opts;
    attn_dtype dtype;
} selftest_case;

static const selftest_case cases[] = {
    {1, 1, 1, 2, 2, 4, 2, {0}, ATTN_F32},
    {2, 4, 2, 33, 65, 64, 64, {0}, ATTN_F32},
    {1, 3, 1, 17, 130, 33, 7, {.flags = ATTN_CAUSAL, .align = ATTN_ALIGN_BOTTOM_RIGHT}, ATTN_F32},
    {1, 2, 2, 70, 70, 80, 80, {.flags = ATTN_CAUSAL | ATTN_WINDOW, .window_left = 9, .window_right = 0}, ATTN_F32},
    {1, 6, 3, 5, 41, 16, 16, {.flags = ATTN_ALIBI, .align = ATTN_ALIGN_BOTTOM_RIGHT, .softcap = 3}, ATTN_F32},
    {1, 4, 4, 1, 257, 64, 64, {.flags = ATTN_SCALE, .scale = -0.5}, ATTN_F32},
    {1, 2, 1, 9, 19, 40, 24, {.dropout = 0.25, .seed = 7}, ATTN_F32},
    {1, 2, 1, 20, 48, 64, 64, {0}, ATTN_F16},
    {1, 2, 1, 20, 48, 64, 64, {0}, ATTN_BF16},
    {1, 2, 2, 31, 63, 64, 64, {.flags = ATTN_CAUSAL, .align = ATTN_ALIGN_TOP_LEFT}, ATTN_F64},
};

enum { CASES = sizeof cases / sizeof cases[0] };

/* The result of one level. */
typedef struct level {
    const char *isa;
    bool usable;
    int failed;   /* cases out of bound */
    double share; /* the greatest |got - want| / bound over all elements */
    double error; /* the greatest |got - want| in f32 cases */
    bool rounds_weights; /* the case at hand ran on dot products of bf16 */
} level;

/* The error bound of docs/numerics.md for each visible key's weight, relative, the same for the whole row: scores off by e make numerator
   and denominator off by e^e each; a sum of n terms adds n roundoffs. rounding: of a weight to bf16, or 0. */
static double weight_bound(const selftest_case *c, const ref_result *r, const attn_tensor *q, const attn_tensor *k, const int64_t at[3],
                           double rounding)
{
    const bool f64 = c->dtype == ATTN_F64;
    const double u = f64 ? 0x1p-53 : 0x1p-24, exp_error = f64 ? 3e-16 : 1.5e-7, tanh_error = f64 ? 2e-15 : 6e-7;
    const double scale = fabs(c->opts.flags & ATTN_SCALE ? c->opts.scale : 1 / sqrt((double)c->d));
    const double steps = 1 + ceil((double)c->Lk / 128) + 2 * ceil((double)c->Lk / 1024);
    const int64_t row = (at[0] * c->H + at[1]) * c->Lq + at[2];
    const double roundings = (double)c->d + (rounding > 0 ? 8 : 4);
    double worst = 0;
    for (int64_t j = 0; j < c->Lk; j++) {
        const int64_t cell = row * c->Lk + j;
        double size = 0;
        for (int64_t n = 0; n < c->d && !r->hidden[cell]; n++)
            size += fabs(ref_element(q, at[0], at[1], at[2], n) * ref_element(k, at[0], at[1] / (c->H / c->Hkv), j, n));
        if (r->hidden[cell])
            continue;
        double e = roundings * u * scale * size + 6 * u * (fabs(r->capped[cell]) + fabs(r->masked[cell] - r->capped[cell]));
        e += c->opts.softcap > 0 ? tanh_error * fabs(r->capped[cell]) + 4 * u * c->opts.softcap : 0;
        e += 4 * u * (fabs(r->masked[cell] - r->row_max[row]) + 10) + (exp_error + 2 * u) * steps;
        worst = fmax(worst, e);
    }
    return exp(2 * (worst + rounding)) - 1 + ((double)c->Lk + steps + 8) * u;
}

/* Half an ulp of the output's dtype, relative. */
static double rounding_of(attn_dtype dtype)
{
    return dtype == ATTN_F64 ? 0x1p-53 : dtype == ATTN_F32 ? 0x1p-24 : dtype == ATTN_F16 ? 0x1p-11 : 0x1p-8;
}

/* Every element of one row; t holds q, k, v and the output. true: all within the bound, which is doubled in f64: there the reference's own
   errors are of the same size. */
static bool compare_row(const selftest_case *c, const ref_result *r, const attn_tensor t[4], const int64_t at[3], level *l)
{
    const double u = c->dtype == ATTN_F64 ? 0x1p-53 : 0x1p-24,
                 weight = (c->dtype == ATTN_F64 ? 2.02 : 1.01) * weight_bound(c, r, &t[0], &t[1], at, l->rounds_weights ? 0x1p-8 : 0);
    const int64_t row = (at[0] * c->H + at[1]) * c->Lq + at[2];
    double worst = 0;
    for (int64_t n = 0; n < c->d_v; n++) {
        double size = 0;
        for (int64_t j = 0; j < c->Lk; j++)
            size += r->weights[row * c->Lk + j] * fabs(ref_element(&t[2], at[0], at[1] / (c->H / c->Hkv), j, n));
        const double want = r->output[row * c->d_v + n], got = ref_element(&t[3], at[0], at[1], at[2], n), off = fabs(got - want);
        const double most = (weight + ((double)c->Lk + 8) * u) * size;
        const double bound = most + (fabs(want) + most) * rounding_of(c->dtype) + 0x1p-24 * (c->dtype == ATTN_F16);
        const double share = off == 0 ? 0 : off <= bound || off > bound ? off / bound : INFINITY; /* NaN: INFINITY */
        worst = fmax(worst, share);
        l->error = c->dtype == ATTN_F32 ? fmax(l->error, off) : l->error;
    }
    l->share = fmax(l->share, worst);
    return worst <= 1;
}

static bool compare(const selftest_case *c, const ref_result *r, const attn_tensor t[4], level *l)
{
    bool within = true;
    int64_t at[3];
    for (at[0] = 0; at[0] < c->B; at[0]++)
        for (at[1] = 0; at[1] < c->H; at[1]++)
            for (at[2] = 0; at[2] < c->Lq; at[2]++)
                within = compare_row(c, r, t, at, l) && within;
    return within;
}

static int run_case(session *s, const selftest_case *c, level *l)
{
    const int64_t shapes[4][4] = {
        {c->B, c->H, c->Lq, c->d}, {c->B, c->Hkv, c->Lk, c->d}, {c->B, c->Hkv, c->Lk, c->d_v}, {c->B, c->H, c->Lq, c->d_v}};
    attn_tensor t[4] = {0};
    ref_result r;
    int status = EXIT_DONE;
    for (int i = 0; i < 4 && !status; i++) {
        status = tensor_new(&t[i], "built-in data", c->dtype, 4, shapes[i]);
        if (!status)
            tensor_fill(&t[i], (uint64_t)(i + 1));
    }
    session_begin(s);
    if (!status)
        status = session_end(s, attn_sdpa(s->ctx, &t[3], &t[0], &t[1], &t[2], &c->opts));
    l->rounds_weights = strcmp(attn_ctx_info(s->ctx).path, "tiled bf16") == 0;
    if (!status && ref_sdpa(&r, &t[0], &t[1], &t[2], &c->opts) != 0)
        status = trouble("out of memory");
    if (!status) {
        l->failed += !compare(c, &r, t, l);
        ref_free(&r);
    }
    for (int i = 0; i < 4; i++)
        free(t[i].data);
    return status;
}

static int run_level(const options *o, const char *isa, level *l)
{
    session s;
    options forced = *o;
    *l = (level){.isa = isa, .usable = attn_isa_usable(isa)};
    forced.value[OPT_ISA] = isa;
    if (!l->usable)
        return EXIT_DONE;
    int status = session_open(&s, &forced);
    for (int i = 0; i < CASES && !status; i++)
        status = run_case(&s, &cases[i], l);
    session_close(&s);
    return status;
}

static void print_level(const level *l)
{
    if (!l->usable)
        printf("%-11s not run: this CPU cannot run it\n", l->isa);
    else
        printf("%-11s %d of %d cases within the bound; worst: %.2g of the bound, f32 error %.2g\n", l->isa, CASES - l->failed, CASES,
               l->share, l->error);
}

static void print_json(json_writer *j, const level *l)
{
    jw_begin(j, NULL, '{');
    jw_string(j, "isa", l->isa);
    jw_bool(j, "usable", l->usable);
    if (l->usable) {
        jw_int(j, "cases", CASES);
        jw_int(j, "failed", l->failed);
        jw_number(j, "worst_share_of_bound", l->share, ATTN_F32);
        jw_number(j, "worst_f32_error", l->error, ATTN_F32);
    }
    jw_end(j, '}');
}

int cmd_selftest(const options *o)
{
    enum { LEVELS = 8 };
    level levels[LEVELS];
    int count = 0, failed = 0;
    const char *wanted = opt_given(o, OPT_ISA) ? o->value[OPT_ISA] : getenv("ATTN_ISA");
    if (wanted && !*wanted)
        wanted = NULL; /* as the library reads it */
    for (int i = 0; attn_isa_name(i) && count < LEVELS; i++) {
        if (wanted && strcmp(wanted, attn_isa_name(i)) != 0)
            continue;
        const int status = run_level(o, attn_isa_name(i), &levels[count]);
        if (status)
            return status;
        failed += levels[count++].failed;
    }
    if (!count || (wanted && !levels[0].usable)) { /* the library says which levels there are */
        session s;
        const int status = session_open(&s, o);
        session_close(&s);
        return status;
    }
    if (wanted && !opt_given(o, OPT_ISA))
        note(0, "ATTN_ISA is %s: no other level is tested", wanted);
    if (opt_given(o, OPT_JSON)) {
        json_writer j = jw_begin_document("selftest");
        jw_bool(&j, "ok", failed == 0);
        jw_begin(&j, "levels", '[');
        for (int i = 0; i < count; i++)
            print_json(&j, &levels[i]);
        jw_end(&j, ']');
        const int status = jw_end_document(&j);
        return status ? status : failed ? EXIT_DIFFERS : EXIT_DONE;
    }
    for (int i = 0; i < count; i++)
        print_level(&levels[i]);
    const int status = finish_stdout();
    return status ? status : failed ? EXIT_DIFFERS : EXIT_DONE;
}
