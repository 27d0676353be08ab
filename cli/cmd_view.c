/* SPDX-License-Identifier: Apache-2.0 */
/* attn view: saved attention as a page. */
#include "commands.h"
#include "explain.h"
#include "message.h"
#include "view.h"
#include "view_model.h"

#include <math.h>
#include <string.h>

/* Row (layer and batch item, head, row) of the saved weights. */
static attn_status read_row(void *user, const int64_t place[3], double *row, char *err, size_t err_size)
{
    const view *w = user;
    int64_t index[4] = {place[0] % w->B, place[1], place[2], 0};
    (void)err;
    (void)err_size; /* memory cannot fail */
    for (; index[3] < w->Lk; index[3]++)
        row[index[3]] = tensor_value(&w->stage[VIEW_WEIGHTS][place[0] / w->B], index);
    return ATTN_OK;
}

/* What is odd about weights: numbers that are not finite, rows that do not sum to 1. */
typedef struct oddness {
    int64_t not_finite, layer, index[4]; /* the first of them */
    double least, most;                  /* sums of the rows that have a weight */
} oddness;

static oddness look_at(const view *w)
{
    oddness o = {.least = INFINITY, .most = -INFINITY};
    for (int64_t layer = 0; layer < w->layers; layer++) {
        const attn_tensor *t = &w->stage[VIEW_WEIGHTS][layer];
        int64_t index[4] = {0};
        double sum = 0;
        const int64_t count = tensor_count(t);
        for (int64_t n = 0; n < count; n++, tensor_next(t, index)) {
            const double x = tensor_value(t, index);
            if (!isfinite(x) && o.not_finite++ == 0) {
                o.layer = layer;
                memcpy(o.index, index, sizeof index);
            }
            sum = index[3] == 0 ? x : sum + x;
            if (index[3] == w->Lk - 1 && sum != 0 && isfinite(sum)) {
                o.least = fmin(o.least, sum);
                o.most = fmax(o.most, sum);
            }
        }
    }
    return o;
}

static void note_oddness(page *p, const view *w)
{
    const double far = 0.01; /* the sum of some thousand f16 or bf16 weights is nearer to 1 than this */
    const oddness o = look_at(w);
    if (o.not_finite)
        page_note(p, "%lld of the weights are not finite, the first at layer %lld, batch item %lld, head %lld, row %lld, key %lld",
                  "유한하지 않은 가중치가 %lld개 있다. 처음은 층 %lld, 배치 %lld, 헤드 %lld, 행 %lld, 키 %lld",
                  (long long)o.not_finite, (long long)o.layer, (long long)o.index[0], (long long)o.index[1], (long long)o.index[2],
                  (long long)o.index[3]);
    if (o.least < 1 - far || o.most > 1 + far)
        page_note(p, "the rows sum to %.4g at least and %.4g at most, not to 1: these may be scores, or weights after dropout",
                  "행의 합이 1이 아니라 %.4g부터 %.4g까지이다: 점수이거나 dropout 뒤의 가중치일 수 있다", o.least, o.most);
}

/* Every stage that the file has; the weights by the rule for their size. */
static attn_status add_stages(page *p, view *w)
{
    attn_status s = ATTN_OK;
    for (int i = 0; i < VIEW_STAGES && s == ATTN_OK; i++) {
        const attn_tensor *t = w->stage[i];
        if (!t || (i == VIEW_WEIGHTS && p->weights != PAGE_WEIGHTS_EXACT))
            continue;
        page_array a = {.name = view_stage_name[i], .dtype = ATTN_F32, .ndim = 4, .part = t, .parts = w->layers};
        memcpy(a.shape, t->shape, sizeof a.shape);
        a.shape[0] *= w->layers;
        for (int64_t n = 0; n < w->layers; n++)
            a.dtype = t[n].dtype == ATTN_F64 ? ATTN_F64 : a.dtype;
        if (page_elements(&a) <= PAGE_SAVED_CELLS)
            s = page_add_array(p, &a, false);
        else
            page_leave_out(p, &a, PAGE_SAVED_CELLS);
    }
    return s;
}

/* A name for each layer, and where there are several batch items for each of these: "blocks.3 [1]". NULL: the numbers say it. */
static const char *const *name_layers(page *p, const view *w)
{
    enum { NAME = 128 };
    const int64_t count = w->layers * w->B;
    const char **names = page_memory(p, count, sizeof *names);
    char *text = page_memory(p, count, NAME);
    if (!names || !text || (!w->layer_name && w->B == 1))
        return NULL;
    for (int64_t n = 0; n < count; n++) {
        char number[24], *name = text + n * NAME;
        snprintf(number, sizeof number, "%lld", (long long)(n / w->B));
        const char *layer = w->layer_name ? w->layer_name[n / w->B] : number;
        if (w->B == 1)
            snprintf(name, NAME, "%s", layer);
        else
            snprintf(name, NAME, "%.96s [%lld]", layer, (long long)(n % w->B));
        names[n] = name;
    }
    return names;
}

static int fill(page *p, view *w, const labels *words)
{
    p->shape =
        (page_shape){.B = 1, .H = w->H, .Hkv = w->Hkv, .Lq = w->Lq, .Lk = w->Lk, .d_k = w->d_k, .d_v = w->d_v, .layers = w->layers * w->B};
    p->layer_names = name_layers(p, w);
    const int status = labels_fit(words, w->Lq, w->Lk, false, &p->query_names, &p->key_names);
    if (status)
        return status;
    if (w->stage[VIEW_WEIGHTS]) {
        page_choose_weights(p, PAGE_SAVED_CELLS);
        p->weight_rows = (page_rows){.read = read_row, .user = w};
        note_oddness(p, w);
    }
    if (w->unread)
        page_note(p, "arrays that are not shown: %s", "보이지 않은 배열: %s", w->unread);
    return explain_page_status(p, add_stages(p, w));
}

static int write_page(const options *o, explain_lang lang, view *w, const labels *words)
{
    page p;
    results r = {.o = o};
    explain_page(o, "view", lang, -1, &r, &p);
    int status = fill(&p, w, words);
    for (int i = 0; i < p.notes && !status; i++)
        note(opt_given(o, OPT_QUIET), "%s: %s", o->operand[0], p.note[i]);
    return explain_page_end(&r, &p, status);
}

/* Options that only a model has a use for. */
static int check_options(const options *o)
{
    static const opt_id of_models[] = {OPT_TEXT, OPT_TEXT2, OPT_TARGET, OPT_LAYER, OPT_HEAD, OPT_PART, OPT_NPZ, OPT_JSON};
    for (size_t i = 0; i < sizeof of_models / sizeof of_models[0]; i++)
        if (opt_given(o, of_models[i]))
            return trouble("--%s is for a model, and %s is neither a model folder nor a .gguf file", opt_table[of_models[i]].name,
                           o->operand[0]);
    return opt_given(o, OPT_HTML) ? EXIT_DONE : trouble("attn view needs --html OUT, the page that it writes");
}

static int view_file(const options *o)
{
    view w = {.layers = 0};
    inputs in = {.o = o};
    labels words = {.row = {.count = 0}};
    const int lang = opt_choice(o, OPT_LANG);
    int status = lang == -2 ? EXIT_TROUBLE : check_options(o);
    if (!status)
        status = labels_read(&words, o);
    if (!status)
        status = view_read(&w, &in, o->operand[0]);
    if (!status)
        status = write_page(o, lang == 1 ? LANG_KO : LANG_EN, &w, &words);
    labels_free(&words);
    view_close(&w);
    inputs_close(&in);
    return status;
}

int cmd_view(const options *o) { return is_model(o->operand[0]) ? view_model(o) : view_file(o); }
