/* SPDX-License-Identifier: Apache-2.0 */
#include "view_model.h"
#include "commands.h"
#include "message.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_CELLS = 1 << 28 }; /* weights of all layers and heads that are held: 1 GiB of f32 */

bool is_model(const char *path)
{
    struct stat info;
    return attn_format_of(path) == ATTN_FORMAT_GGUF || (stat(path, &info) == 0 && S_ISDIR(info.st_mode));
}

/* ------------------------------------------------------------- gathering ---- */

static int64_t cells_of(const model_run *m, model_part which)
{
    const token_list *rows = model_part_rows(m, which), *keys = model_part_keys(m, which);
    return model_has(m, which) ? model_part_layers(m, which) * m->info.heads * rows->count * keys->count : 0;
}

static int make_room(model_view *v)
{
    const model_run *m = &v->run;
    int64_t all = 0;
    for (int which = 0; which < MODEL_PARTS; which++)
        all += cells_of(m, which);
    if (all > MOST_CELLS)
        return trouble("%s and %lld tokens are %lld weights in all layers and heads, and %d are shown; give a shorter text", m->path,
                       (long long)m->text.count, (long long)all, MOST_CELLS);
    for (int which = 0; which < MODEL_PARTS; which++) {
        const int64_t layers = model_part_layers(m, which);
        if (!model_has(m, which))
            continue;
        const int64_t shape[] = {layers, m->info.heads, model_part_rows(m, which)->count, model_part_keys(m, which)->count};
        attn_tensor *whole = &v->whole[which];
        const int status = tensor_new(whole, "the weights", m->info.compute, 4, shape);
        if (status)
            return status;
        v->layer[which] = need_zeroed((size_t)layers, sizeof **v->layer);
        for (int64_t n = 0; n < layers; n++) {
            v->layer[which][n] = *whole;
            v->layer[which][n].shape[0] = 1;
            v->layer[which][n].data = (char *)whole->data + n * whole->stride[0] * (int64_t)attn_dtype_size(whole->dtype);
        }
    }
    return EXIT_DONE;
}

static void keep(const model_view *v, model_part which, int64_t layer, const attn_tensor *weights)
{
    if (weights)
        memcpy(v->layer[which][layer].data, weights->data, (size_t)tensor_count(weights) * attn_dtype_size(weights->dtype));
}

static int on_layer(void *user, const attn_layer_view *seen)
{
    const model_view *v = user;
    const double parts = v->run.info.layers + v->run.info.decoder_layers;
    if (seen->layer < 0)
        return 0;
    keep(v, seen->part == ATTN_PART_DECODER ? MODEL_DECODER : MODEL_ENCODER, seen->layer, seen->self_weights);
    keep(v, MODEL_CROSS, seen->layer, seen->cross_weights);
    session_progress(v->run.s, (double)(seen->layer + 1 + (seen->cross_weights ? v->run.info.layers : 0)) / parts);
    return 0;
}

/* --part, --layer and --head. */
static int choose_place(model_view *v)
{
    const model_run *m = &v->run;
    int64_t layer = 0;
    int status = model_part_chosen(m, &v->first);
    if (!status)
        status = model_place_chosen(m, OPT_LAYER, model_part_layers(m, v->first), &layer);
    if (!status)
        status = model_place_chosen(m, OPT_HEAD, m->info.heads, &v->at_head);
    for (int which = 0; which < MODEL_PARTS; which++) {
        const int64_t last = model_part_layers(m, which) - 1;
        v->at_layer[which] = layer < last ? layer : last;
    }
    return status;
}

static int gather(model_view *v)
{
    const attn_watch watch = {.struct_size = sizeof watch, .flags = ATTN_WATCH_SELF | ATTN_WATCH_CROSS, .seen = on_layer, .user = v};
    int status = choose_place(v);
    if (!status)
        status = make_room(v);
    if (status)
        return status;
    session_begin(v->run.s);
    status = model_run_watched(&v->run, &watch);
    session_progress(v->run.s, 1);
    return status;
}

/* --------------------------------------------------------------- the page ---- */

/* Row (layer, head, row) of a part. */
static attn_status read_row(void *user, const int64_t place[3], double *row, char *err, size_t err_size)
{
    const attn_tensor *t = user;
    int64_t index[4] = {place[0], place[1], place[2], 0};
    (void)err;
    (void)err_size; /* memory cannot fail */
    for (; index[3] < t->shape[3]; index[3]++)
        row[index[3]] = tensor_value(t, index);
    return ATTN_OK;
}

static page_words words_of(const token_list *l)
{
    return (page_words){.of = l->word, .count = l->words, .name = (const char *const *)l->word_name};
}

static attn_status fill_part(page *p, model_view *v, model_part which)
{
    const token_list *rows = model_part_rows(&v->run, which), *keys = model_part_keys(&v->run, which);
    const attn_tensor *w = &v->whole[which];
    p->part = model_part_name[which];
    p->causal = which == MODEL_DECODER;
    p->at_layer = v->at_layer[which];
    p->at_head = v->at_head;
    p->query_names = (const char *const *)rows->name;
    p->key_names = (const char *const *)keys->name;
    p->query_words = words_of(rows);
    p->key_words = words_of(keys);
    p->shape = (page_shape){.B = 1, .H = w->shape[1], .Hkv = w->shape[1], .Lq = w->shape[2], .Lk = w->shape[3], .layers = w->shape[0]};
    p->weight_rows = (page_rows){.read = read_row, .user = &v->whole[which]};
    page_choose_weights(p, PAGE_SAVED_CELLS);
    return p->weights == PAGE_WEIGHTS_EXACT ? page_add(p, "weights", w, 4, w->shape) : ATTN_OK;
}

/* The part that was asked for, then the others. */
static attn_status fill_pages(page pages[MODEL_PARTS], model_view *v)
{
    attn_status s = fill_part(&pages[0], v, v->first);
    page *last = &pages[0];
    for (int which = 0; which < MODEL_PARTS && s == ATTN_OK; which++) {
        if (which == (int)v->first || !v->whole[which].data)
            continue;
        last = last->more = last + 1;
        last->lang = pages[0].lang;
        s = fill_part(last, v, which);
        if (s != ATTN_OK)
            page_fail(&pages[0], s, "%s", last->sentence);
        for (int i = 0; i < last->notes; i++)
            page_note(&pages[0], "%s: %s", "%s: %s", last->part, last->note[i]);
    }
    return s;
}

/* ------------------------------------------------------------------- files ---- */

/* The names that Hugging Face's outputs have. */
static const char *array_name(const model_view *v, model_part which)
{
    static const char *const names[MODEL_PARTS] = {"encoder_attentions", "decoder_attentions", "cross_attentions"};
    return v->whole[MODEL_CROSS].data ? names[which] : "attentions";
}

static void bundle_all(const model_view *v, bundle *b)
{
    b->path = v->o->value[OPT_NPZ];
    for (int which = 0; which < MODEL_PARTS && b->path; which++)
        if (v->whole[which].data) {
            b->name[b->count] = array_name(v, which);
            b->tensor[b->count++] = v->whole[which];
        }
}

static int write_files(model_view *v, explain_lang lang)
{
    page pages[MODEL_PARTS] = {{.kind = NULL}};
    results r = {.o = v->o};
    int status = EXIT_DONE;
    bundle_all(v, &r.also);
    if (opt_given(v->o, OPT_HTML)) {
        explain_page(v->o, "view", lang, -1, &r, &pages[0]);
        status = explain_page_status(&pages[0], fill_pages(pages, v));
    }
    for (int i = 0; i < pages[0].notes && !status; i++)
        note(opt_given(v->o, OPT_QUIET), "%s: %s", v->run.path, pages[0].note[i]);
    if (!status)
        status = results_open(&r, false);
    if (!status)
        status = results_commit(&r);
    results_close(&r);
    for (int which = 0; which < MODEL_PARTS; which++)
        page_close(&pages[which]);
    return status;
}

static void json_tokens(json_writer *j, const char *key, const token_list *l)
{
    const attn_tensor ids = attn_tensor_of(l->ids, ATTN_I32, 1, &l->count), of = attn_tensor_of(l->word, ATTN_I64, 1, &l->count);
    jw_begin(j, key, '{');
    jw_values(j, "ids", &ids);
    jw_begin(j, "tokens", '[');
    for (int64_t i = 0; i < l->count; i++)
        jw_string(j, NULL, l->name[i]);
    jw_end(j, ']');
    jw_values(j, "word", &of);
    jw_begin(j, "words", '[');
    for (int64_t i = 0; i < l->words; i++)
        jw_string(j, NULL, l->word_name[i]);
    jw_end(j, ']');
    jw_end(j, '}');
}

static int print_json(const model_view *v)
{
    json_writer j = jw_begin_document("view");
    jw_begin(&j, "model", '{');
    jw_string(&j, "type", v->run.info.type);
    jw_int(&j, "layers", v->run.info.layers);
    jw_int(&j, "decoder_layers", v->run.info.decoder_layers);
    jw_int(&j, "heads", v->run.info.heads);
    jw_end(&j, '}');
    json_tokens(&j, "text", &v->run.text);
    if (v->run.target.count)
        json_tokens(&j, "target", &v->run.target);
    jw_begin(&j, "arrays", '{');
    for (int which = 0; which < MODEL_PARTS; which++)
        if (v->whole[which].data)
            jw_array(&j, array_name(v, which), NULL, &v->whole[which], NULL);
    jw_end(&j, '}');
    return jw_end_document(&j);
}

/* ----------------------------------------------------------------- command ---- */

static int check_options(const options *o)
{
    static const opt_id of_files[] = {OPT_ARRAY, OPT_TOKENS, OPT_KEY_TOKENS, OPT_IN_DTYPE};
    for (size_t i = 0; i < sizeof of_files / sizeof of_files[0]; i++)
        if (opt_given(o, of_files[i]))
            return trouble("--%s is for a file of saved attention, and %s is a model, which knows its tokens; leave it out",
                           opt_table[of_files[i]].name, o->operand[0]);
    return EXIT_DONE;
}

static void close_view(model_view *v)
{
    for (int which = 0; which < MODEL_PARTS; which++) {
        free(v->whole[which].data);
        free(v->layer[which]);
    }
    model_run_close(&v->run);
}

int view_model(const options *o)
{
    session s;
    model_view v = {.o = o};
    labels none;
    explanation how = {.round = -1};
    int status = check_options(o);
    if (!status)
        status = explain_settings(o, &how, &none);
    if (!status)
        status = session_open(&s, o);
    if (status)
        return status;
    status = model_run_open(&v.run, &s, o->operand[0]);
    if (!status)
        status = gather(&v);
    if (!status && (opt_given(o, OPT_HTML) || opt_given(o, OPT_NPZ)))
        status = write_files(&v, how.lang);
    if (!status && opt_given(o, OPT_JSON))
        status = print_json(&v);
    else if (!status && !opt_given(o, OPT_HTML))
        status = view_model_print(&v, &how);
    close_view(&v);
    session_close(&s);
    return status;
}
