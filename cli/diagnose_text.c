/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose_print.h"
#include "finish.h"

#include <attn/attn.h>
#include <math.h>
#include <stdio.h>

/* Conversions are the same in both languages and in the same order. */
enum text {
    T_EQUAL,
    T_UNUSUAL,
    T_NAMED,
    T_TIED,
    T_UNKNOWN,
    T_DIFFERS,
    T_FIRST,
    T_CONFINED,
    T_WEIGHTS,
    T_REPRODUCES,
    T_REMEDY,
    T_ALSO,
    T_APART,
    T_APART_SOME,
    T_NEAREST,
    T_MISSES,
    T_TRIED,
    T_LEFT_OUT,
    T_DROPOUT,
    T_BOUND,
    T_BOUND_GIVEN,
    T_SHARPER,
    T_UNJUDGED,
    T_SAMPLED,
    T_SAMPLED_ALL,
    TEXTS
};
static const char *const texts[TEXTS][DIAGNOSE_LANGS] = {
    [T_EQUAL] = {"Right: all %lld cells lie within the bound (greatest difference %.3g, %.2g of the bound).\n",
                 "맞음: 셀 %lld개가 모두 오차 한계 안에 있다 (가장 큰 차이 %.3g, 한계의 %.2g배).\n"},
    [T_UNUSUAL] = {"Yet the greatest difference is %.2g times what %s rounding usually makes here: look at [",
                   "다만 가장 큰 차이가 보통의 %.2g배이다 (여기서 %s 반올림이 만드는 오차에 비해). 살펴볼 셀: ["},
    [T_NAMED] = {"The mistake: ", "실수: "},
    [T_TIED] = {"One of %d mistakes, which this data cannot tell apart:\n",
                "다음 %d가지 실수 중 하나이며, 이 데이터로는 구별할 수 없다:\n"},
    [T_UNKNOWN] = {"Wrong, but by no known mistake, and no two of them together.\n",
                   "틀렸지만, 알려진 실수나 그 둘의 조합으로는 설명되지 않는다.\n"},
    [T_DIFFERS] = {"OUT differs in %lld of %lld cells, by up to %.3g (%.2g bounds).",
                   "OUT은 셀 %lld/%lld개가 다르고, 차이는 최대 %.3g (한계의 %.2g배)."},
    [T_FIRST] = {" The first is [", " 처음 다른 셀은 ["},
    [T_CONFINED] = {"All of them lie in ", "모두 여기에 있다: "},
    [T_WEIGHTS] = {"The weights given differ by up to %.2g bounds.\n", "주어진 가중치는 한계의 최대 %.2g배만큼 다르다.\n"},
    [T_REPRODUCES] = {"gives OUT to %.3g (%.2g of the bound)", "OUT과의 차이 %.3g (한계의 %.2g배)"},
    [T_REMEDY] = {"what to do: ", "고치는 법: "},
    [T_ALSO] = {"The same as the rule of:", "다음 시스템의 규칙과 같다:"},
    [T_APART] = {"What would tell them apart: ", "구별하려면: "},
    [T_APART_SOME] = {"What would tell some of them apart: ", "일부를 구별하려면: "},
    [T_NEAREST] = {"The nearest of the others (they do not give OUT):\n", "그다음으로 가까운 것 (OUT과 맞지 않음):\n"},
    [T_MISSES] = {"off by %.3g (%.2g bounds)", "차이 %.3g (한계의 %.2g배)"},
    [T_TRIED] = {"%d mistakes and pairs were tried.\n", "실수와 그 조합 %d가지를 시험했다.\n"},
    [T_LEFT_OUT] = {"%d others were left out for their size.\n", "%d가지는 커서 시험하지 않았다.\n"},
    [T_DROPOUT] = {"Dropout cannot be seen without the weights: --got-weights W.\n",
                   "dropout은 가중치 없이는 알 수 없다: --got-weights W.\n"},
    [T_BOUND] = {"Bound: docs/numerics.md for %s, cell by cell; at most %.3g beside half an ulp (%.3g of the value).\n",
                 "오차 한계: docs/numerics.md의 %s, 셀마다; 값의 반올림(%.3g배 이하) 외에 최대 %.3g.\n"},
    [T_BOUND_GIVEN] = {"Bound: atol %.3g + rtol %.3g * abs(right), as given.\n",
                       "오차 한계: atol %.3g + rtol %.3g * abs(정답), 지정한 값.\n"},
    [T_SHARPER] = {"That is %.2g of what holds for every order of the sums: 64 times the error of an ordinary computation in %s here, "
                   "%.2g.\n",
                   "어떤 덧셈 순서에서도 지켜지는 한계의 %.2g배로, 여기서 보통의 %s 계산이 내는 오차 %.2g의 64배이다.\n"},
    [T_UNJUDGED] = {"%lld of the cells were not judged: their numbers may leave the range of %s, and nothing is promised there.\n",
                    "셀 %lld개는 판정하지 않았다: 수가 %s의 범위를 벗어날 수 있어 아무것도 보장되지 않는다.\n"},
    [T_SAMPLED] = {"Too large to try everything on all rows: the mistakes were tried on %lld of %lld rows (%lld in each head).\n",
                   "모든 행에 시험하기에는 크다: 실수는 행 %lld/%lld개에서 시험했다 (헤드마다 %lld개).\n"},
    [T_SAMPLED_ALL] = {"Too large to compute in full: OUT was compared with the right answer in %lld of %lld rows (%lld in each head),\n"
                       "among them those furthest from what the kernels give.\n",
                       "모두 계산하기에는 크다: OUT을 정답과 행 %lld/%lld개에서 비교했다 (헤드마다 %lld개). 커널의 결과와 가장 먼 행도 들어 있다.\n"},
};

static void print_parts(const diagnose_candidate *c, enum diagnose_lang lang)
{
    for (int i = 0; i < c->parts; i++)
        printf("%s%s", i == 0 ? "" : lang == DIAGNOSE_EN ? "; and " : "; 그리고 ", c->part[i]->name[lang]);
    putchar('\n');
}

static void print_details(const diagnose_candidate *c, enum diagnose_lang lang)
{
    printf("    ");
    printf(texts[c->matches ? T_REPRODUCES : T_MISSES][lang], c->max_abs, c->max_bounds);
    printf(" [");
    for (int i = 0; i < c->parts; i++)
        printf("%s%s", i ? " + " : "", c->part[i]->id);
    puts("]");
    for (int i = 0; i < c->parts && c->matches; i++)
        printf("    %s%s\n", texts[T_REMEDY][lang], c->part[i]->remedy[lang]);
}

/* "nan" whatever the sign bit says */
static double unsigned_nan(double x) { return isnan(x) ? fabs(x) : x; }

static void print_place(const int64_t *place, int32_t rank)
{
    for (int32_t i = 0; i < rank; i++)
        printf("%s%lld", i ? "," : "", (long long)place[i]);
}

static void print_first(const diagnose_report *r, enum diagnose_lang lang)
{
    if (!r->differing) {
        putchar('\n');
        return;
    }
    fputs(texts[T_FIRST][lang], stdout);
    print_place(r->first, r->rank);
    printf(lang == DIAGNOSE_EN ? "]: %.6g, and should be %.6g.\n" : "]: %.6g, 정답은 %.6g.\n", unsigned_nan(r->first_got),
           unsigned_nan(r->first_right));
}

/* "They lie in head 2, rows 3-5." where they do not lie everywhere. */
static void print_confined(const diagnose_report *r, enum diagnose_lang lang)
{
    static const char *const axes[][DIAGNOSE_LANGS] = {{"batch item", "배치"}, {"head", "헤드"}, {"row", "행"}, {"column", "열"}};
    int printed = 0;
    for (int axis = 0; axis < 4 && r->differing; axis++) {
        const int64_t from = r->from[axis], to = r->to[axis];
        if (to - from + 1 == r->extent[axis])
            continue;
        printf("%s%s %lld", printed++ ? ", " : texts[T_CONFINED][lang], axes[axis][lang], (long long)from);
        if (to > from)
            printf("-%lld", (long long)to);
    }
    if (printed)
        puts(".");
}

/* The rules of other systems that match too. */
static void print_dialects(const diagnose_report *r, enum diagnose_lang lang, int from)
{
    int count = 0;
    for (int i = from; i < r->candidates; i++)
        if (r->candidate[i].matches && r->candidate[i].is_dialect) {
            if (count++ == 0)
                fputs(texts[T_ALSO][lang], stdout);
            printf("%s %s", count > 1 ? "," : "", r->candidate[i].part[r->candidate[i].parts - 1]->id);
        }
    if (count)
        puts(".");
}

static void print_matches(const diagnose_report *r, enum diagnose_lang lang)
{
    const bool only_dialects = r->candidate[0].is_dialect;
    int listed = 0;
    for (int i = 0; i < r->candidates; i++)
        listed += r->candidate[i].matches && r->candidate[i].is_dialect == only_dialects;
    if (r->verdict == DIAGNOSE_TIED)
        printf(texts[T_TIED][lang], listed);
    else
        fputs(texts[T_NAMED][lang], stdout);
    for (int i = 0; i < listed; i++) {
        if (r->verdict == DIAGNOSE_TIED)
            printf("  %d. ", i + 1);
        print_parts(&r->candidate[i], lang);
        print_details(&r->candidate[i], lang);
    }
    print_dialects(r, lang, listed);
    if (r->verdict == DIAGNOSE_TIED && r->tell_apart[lang])
        printf("%s%s.\n", texts[r->tells_all ? T_APART : T_APART_SOME][lang], r->tell_apart[lang]);
}

static void print_nearest(const diagnose_report *r, enum diagnose_lang lang)
{
    if (r->matching == r->candidates)
        return;
    fputs(texts[T_NEAREST][lang], stdout);
    for (int i = r->matching; i < r->candidates; i++) {
        printf("  ");
        print_parts(&r->candidate[i], lang);
        print_details(&r->candidate[i], lang);
    }
}

/* What OUT was computed in. */
static const char *precision_of(const diagnose_report *r) { return r->dtype == ATTN_F64 ? "f64" : "f32"; }

/* OUT is right, yet further off than others are; the rounding to 16 bits would cover that. */
static void print_unusual(const diagnose_report *r, enum diagnose_lang lang)
{
    static const double much = 10;
    const bool tells = r->dtype == ATTN_F64 || r->dtype == ATTN_F32;
    if (!tells || !(r->usual_abs > 0) || !(r->max_abs > much * r->usual_abs))
        return;
    printf(texts[T_UNUSUAL][lang], r->max_abs / r->usual_abs, precision_of(r));
    print_place(r->worst, r->rank);
    puts("].");
}

static void print_bound(const diagnose_report *r, enum diagnose_lang lang, bool given)
{
    if (given)
        printf(texts[T_BOUND_GIVEN][lang], r->atol, r->rtol);
    else if (lang == DIAGNOSE_EN)
        printf(texts[T_BOUND][lang], attn_dtype_name(r->dtype), r->atol, r->rtol);
    else
        printf(texts[T_BOUND][lang], attn_dtype_name(r->dtype), r->rtol, r->atol);
    if (r->sharpness < 1)
        printf(texts[T_SHARPER][lang], r->sharpness, precision_of(r), r->usual_abs);
    if (r->unjudged)
        printf(texts[T_UNJUDGED][lang], (long long)r->unjudged, precision_of(r));
    if (r->sampled_equality)
        printf(texts[T_SAMPLED_ALL][lang], (long long)r->compared, (long long)r->of_all, (long long)r->of_rows);
    if (r->sampled && r->verdict != DIAGNOSE_EQUAL)
        printf(texts[T_SAMPLED][lang], (long long)r->sampled_all, (long long)r->of_all, (long long)r->of_rows);
}

int diagnose_print_text(const diagnose_report *r, enum diagnose_lang lang, bool given)
{
    if (r->verdict == DIAGNOSE_EQUAL) {
        printf(texts[T_EQUAL][lang], (long long)(r->cells - r->unjudged), r->max_abs, r->max_bounds);
        print_unusual(r, lang);
        print_bound(r, lang, given);
        return finish_stdout();
    }
    if (r->matching)
        print_matches(r, lang);
    else
        fputs(texts[T_UNKNOWN][lang], stdout);
    printf(texts[T_DIFFERS][lang], (long long)r->differing, (long long)r->cells, r->max_abs, r->max_bounds);
    print_first(r, lang);
    print_confined(r, lang);
    if (r->weights_max_bounds > 1)
        printf(texts[T_WEIGHTS][lang], r->weights_max_bounds);
    if (!r->matching)
        print_nearest(r, lang);
    if (!r->matching && r->dropout_untold)
        fputs(texts[T_DROPOUT][lang], stdout);
    printf(texts[T_TRIED][lang], r->tried);
    if (r->left_out)
        printf(texts[T_LEFT_OUT][lang], r->left_out);
    print_bound(r, lang, given);
    return finish_stdout();
}
