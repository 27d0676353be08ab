/* SPDX-License-Identifier: Apache-2.0 */
/* tokenizer.json of Hugging Face's `tokenizers`. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "json_scan.h"
#include "read_steps.h"

/* The members of the file and of its model, as they stand there. */
struct parts {
    struct value added, normalizer, pre_tokenizer, post_processor, decoder, model;
    struct value vocab, merges;
    json_t *options; /* the small members of the model */
};

static struct value *part_of(struct parts *p, struct value key)
{
    static const char *const names[] = {"\"added_tokens\"",   "\"normalizer\"", "\"pre_tokenizer\"",
                                        "\"post_processor\"", "\"decoder\"",    "\"model\""};
    struct value *const parts[] = {&p->added, &p->normalizer, &p->pre_tokenizer, &p->post_processor, &p->decoder, &p->model};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (attn_scan_is(key, names[i]))
            return parts[i];
    }
    return NULL;
}

static attn_status outline(struct scan *s, struct parts *p)
{
    attn_status status = attn_scan_enter(s, '{');
    bool more = true;
    for (bool first = true; status == ATTN_OK; first = false) {
        struct value key, value;
        status = attn_scan_next(s, first, &key, &value, &more);
        if (status != ATTN_OK || !more)
            break;
        struct value *to = part_of(p, key);
        if (to != NULL)
            *to = value;
        else if (!attn_scan_is(key, "\"version\"") && !attn_scan_is(key, "\"truncation\"") && !attn_scan_is(key, "\"padding\""))
            status = attn_text_fail(s->report, ATTN_E_UNSUPPORTED, "%.*s is not known", (int)(key.size < 60 ? key.size : 60), key.text);
    }
    if (status == ATTN_OK && s->at + strspn(s->at, " \n\t\r") != s->end)
        status = attn_text_fail(s->report, ATTN_E_FORMAT, "something follows the JSON at byte %zu", (size_t)(s->at - s->start));
    if (status == ATTN_OK && p->model.text == NULL)
        status = attn_text_fail(s->report, ATTN_E_FORMAT, "there is no \"model\"");
    return status;
}

/* The model's members: the large ones stay where they are. */
static attn_status model_members(const struct scan *file, struct parts *p)
{
    struct scan s = attn_scan_value(file, p->model);
    struct bytes name = {.at = NULL};
    attn_status status = attn_scan_enter(&s, '{');
    bool more = true;
    p->options = json_object();
    for (bool first = true; status == ATTN_OK; first = false) {
        struct value key, value;
        status = attn_scan_next(&s, first, &key, &value, &more);
        if (status != ATTN_OK || !more)
            break;
        if (attn_scan_is(key, "\"vocab\"") || attn_scan_is(key, "\"merges\"")) {
            *(key.text[1] == 'v' ? &p->vocab : &p->merges) = value;
            continue;
        }
        json_t *tree = NULL;
        name.count = 0;
        status = attn_scan_string(&s, key, &name);
        if (status == ATTN_OK)
            status = attn_scan_tree(&s, value, "a member of the model", &tree);
        if (status == ATTN_OK && json_object_setn_new(p->options, name.at, name.count, tree) != 0)
            status = attn_text_nomem(file->report);
    }
    free(name.at);
    if (status == ATTN_OK && p->vocab.text == NULL)
        status = attn_text_fail(file->report, ATTN_E_FORMAT, "the model has no \"vocab\"");
    return status;
}

/* [["token", score], ...] */
static attn_status vocab_array(struct scan s, struct model *m)
{
    struct bytes text = {.at = NULL};
    size_t capacity = 0;
    attn_status status = attn_scan_enter(&s, '[');
    bool more = true;
    for (int64_t id = 0; status == ATTN_OK; id++) {
        struct value pair, token, score;
        bool has[3] = {false, false, false};
        status = attn_scan_next(&s, id == 0, NULL, &pair, &more);
        if (status != ATTN_OK || !more)
            break;
        struct scan inner = attn_scan_value(&s, pair);
        status = attn_scan_enter(&inner, '[');
        status = status != ATTN_OK ? status : attn_scan_next(&inner, true, NULL, &token, &has[0]);
        status = status != ATTN_OK || !has[0] ? status : attn_scan_next(&inner, false, NULL, &score, &has[1]);
        status = status != ATTN_OK || !has[1] ? status : attn_scan_next(&inner, false, NULL, &(struct value){NULL, 0}, &has[2]);
        if (status == ATTN_OK && (!has[1] || has[2]))
            status = attn_text_fail(s.report, ATTN_E_FORMAT, "token %lld must be [\"text\", score]", (long long)id);
        if (status == ATTN_OK && !attn_text_grow(&m->scores, &capacity, (size_t)id + 1, sizeof *m->scores))
            status = attn_text_nomem(s.report);
        status = status != ATTN_OK ? status : attn_scan_string(&s, token, &text);
        status = status != ATTN_OK ? status : attn_scan_number(&s, score, &m->scores[id]);
        if (status == ATTN_OK)
            status = attn_vocab_add(&m->vocab, s.report, text.at, text.count, id);
    }
    free(text.at);
    return status;
}

/* "left right", or ["left", "right"]. */
static attn_status one_merge(const struct scan *s, struct value v, struct bytes *a, struct bytes *b, uint32_t rank, struct model *m)
{
    if (v.size > 0 && v.text[0] == '"') {
        const attn_status status = attn_scan_string(s, v, a);
        const char *blank = status == ATTN_OK ? memchr(a->at, ' ', a->count) : NULL;
        if (status != ATTN_OK)
            return status;
        if (blank == NULL)
            return attn_text_fail(s->report, ATTN_E_FORMAT, "merge %u, \"%.60s\", must be two tokens with a blank between", (unsigned)rank,
                                  a->at);
        const size_t left = (size_t)(blank - a->at);
        return attn_model_merge_texts(m, s->report, a->at, left, blank + 1, a->count - left - 1, rank);
    }
    struct scan inner = attn_scan_value(s, v);
    struct value left = {NULL, 0}, right = {NULL, 0}, none = {NULL, 0};
    bool two[3] = {false, false, false};
    attn_status status = attn_scan_enter(&inner, '[');
    status = status != ATTN_OK ? status : attn_scan_next(&inner, true, NULL, &left, &two[0]);
    status = status != ATTN_OK || !two[0] ? status : attn_scan_next(&inner, false, NULL, &right, &two[1]);
    status = status != ATTN_OK || !two[1] ? status : attn_scan_next(&inner, false, NULL, &none, &two[2]);
    if (status == ATTN_OK && (!two[1] || two[2]))
        status = attn_text_fail(s->report, ATTN_E_FORMAT, "merge %u must be two tokens", (unsigned)rank);
    status = status != ATTN_OK ? status : attn_scan_string(s, left, a);
    status = status != ATTN_OK ? status : attn_scan_string(s, right, b);
    return status != ATTN_OK ? status : attn_model_merge_texts(m, s->report, a->at, a->count, b->at, b->count, rank);
}

static attn_status merges(struct scan s, struct model *m)
{
    struct bytes a = {.at = NULL}, b = {.at = NULL};
    attn_status status = attn_scan_enter(&s, '[');
    bool more = true;
    for (uint32_t rank = 0; status == ATTN_OK; rank++) {
        struct value v;
        status = attn_scan_next(&s, rank == 0, NULL, &v, &more);
        if (status != ATTN_OK || !more)
            break;
        status = one_merge(&s, v, &a, &b, rank, m);
    }
    free(a.at);
    free(b.at);
    return status;
}

static char *copy_string(struct get *g, json_t *o, const char *key)
{
    size_t size = 0;
    const char *text = attn_get_string(g, o, key, &size);
    char *copy = malloc(size + 1);
    if (copy == NULL)
        attn_get_nomem(g);
    else
        memcpy(copy, text, size + 1);
    return copy;
}

static const char bpe_keys[] = "type dropout unk_token continuing_subword_prefix end_of_word_suffix fuse_unk byte_fallback ignore_merges";

/* The model's kind, and the options that are read before its vocabulary. */
static void model_options(struct get *g, json_t *o, bool array, struct model *m)
{
    size_t size = 0;
    const char *type = attn_get_string(g, o, "type", &size);
    if (size == 0) /* the oldest files have no type */
        type = array ? "Unigram" : json_object_get(o, "max_input_chars_per_word") != NULL ? "WordPiece" : "BPE";
    free(m->prefix);
    free(m->suffix);
    m->prefix = copy_string(g, o, "continuing_subword_prefix");
    m->suffix = copy_string(g, o, "end_of_word_suffix");
    if (strcmp(type, "WordPiece") == 0) {
        m->kind = MODEL_WORDPIECE;
        attn_get_only(g, o, type, "type unk_token continuing_subword_prefix max_input_chars_per_word");
        m->max_chars = (size_t)attn_get_integer(g, o, "max_input_chars_per_word", 100);
    } else if (strcmp(type, "BPE") == 0) {
        m->kind = MODEL_BPE;
        attn_get_only(g, o, type, bpe_keys);
        const json_t *dropout = json_object_get(o, "dropout");
        if (dropout != NULL && !json_is_null(dropout) && json_number_value(dropout) != 0)
            attn_get_wrong(g, "dropout", "null: tokens are not left to chance");
    } else if (strcmp(type, "Unigram") == 0) {
        m->kind = MODEL_UNIGRAM;
        attn_get_only(g, o, type, "type unk_id byte_fallback");
    } else if (g->status == ATTN_OK) {
        g->status =
            attn_text_fail(g->report, ATTN_E_UNSUPPORTED, "the model \"%.60s\" is not known; known are BPE, Unigram and WordPiece", type);
    }
    m->flags = (attn_get_bool(g, o, "byte_fallback", false) ? MODEL_BYTE_FALLBACK : 0) |
               (attn_get_bool(g, o, "fuse_unk", false) ? MODEL_FUSE_UNK : 0) |
               (attn_get_bool(g, o, "ignore_merges", false) ? MODEL_IGNORE_MERGES : 0);
}

static void model_unknown(struct get *g, json_t *o, struct model *m)
{
    size_t size = 0;
    const char *text = attn_get_string(g, o, "unk_token", &size);
    const int64_t id = attn_get_integer(g, o, "unk_id", -1);
    if (size > 0)
        m->unk = attn_vocab_id(&m->vocab, text, size);
    if (size > 0 && m->unk < 0 && m->kind == MODEL_WORDPIECE)
        attn_get_wrong(g, "unk_token", "a token of the vocabulary");
    if (id >= 0 && attn_vocab_text(&m->vocab, id, NULL) == NULL)
        attn_get_wrong(g, "unk_id", "a token of the vocabulary");
    if (id >= 0)
        m->unk = (int32_t)id;
}

static attn_status read_model(const struct scan *file, struct parts *p, struct model *m)
{
    struct get g = {file->report, "model", model_members(file, p)};
    if (g.status != ATTN_OK)
        return g.status;
    model_options(&g, p->options, p->vocab.text[0] == '[', m);
    if (g.status != ATTN_OK)
        return g.status;
    const struct scan vocab = attn_scan_value(file, p->vocab);
    g.status = m->kind == MODEL_UNIGRAM ? vocab_array(vocab, m) : attn_scan_vocab(vocab, &m->vocab);
    if (g.status == ATTN_OK && m->kind == MODEL_BPE && p->merges.text != NULL)
        g.status = merges(attn_scan_value(file, p->merges), m);
    if (g.status == ATTN_OK)
        model_unknown(&g, p->options, m);
    return g.status == ATTN_OK ? attn_model_finish(m, file->report) : g.status;
}

static void added_token(struct get *g, json_t *o, attn_tokenizer *t)
{
    static const struct {
        const char *key;
        unsigned bit;
    } flags[] = {{"special", ADDED_SPECIAL},
                 {"lstrip", ADDED_LSTRIP},
                 {"rstrip", ADDED_RSTRIP},
                 {"single_word", ADDED_SINGLE_WORD},
                 {"normalized", ADDED_NORMALIZED}};
    unsigned bits = 0;
    size_t size = 0;
    attn_get_only(g, o, "", "id content special lstrip rstrip single_word normalized");
    const char *text = attn_get_string(g, o, "content", &size);
    const int64_t id = attn_get_integer(g, o, "id", -1);
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        bits |= attn_get_bool(g, o, flags[i].key, false) ? flags[i].bit : 0;
    if (id < 0)
        attn_get_wrong(g, "id", "there");
    if (g->status == ATTN_OK && size > 0)
        g->status = attn_added_put(t, g->report, text, size, id, bits);
}

static attn_status read_added(const struct scan *file, struct value v, attn_tokenizer *t)
{
    struct get g = {file->report, "added_tokens", ATTN_OK};
    if (v.text == NULL || attn_scan_is(v, "null"))
        return ATTN_OK;
    struct scan s = attn_scan_value(file, v);
    bool more = true;
    g.status = attn_scan_enter(&s, '[');
    for (bool first = true; g.status == ATTN_OK; first = false) {
        struct value element;
        json_t *o = NULL;
        g.status = attn_scan_next(&s, first, NULL, &element, &more);
        if (g.status != ATTN_OK || !more)
            break;
        g.status = attn_scan_tree(&s, element, "an added token", &o);
        if (g.status == ATTN_OK)
            added_token(&g, o, t);
        json_decref(o);
    }
    return g.status;
}

static attn_status read_steps(const struct scan *file, struct value v, const char *what, attn_tokenizer *t)
{
    json_t *o = NULL;
    struct get g = {file->report, what, ATTN_OK};
    if (v.text == NULL)
        return ATTN_OK;
    g.status = attn_scan_tree(file, v, what, &o);
    if (g.status == ATTN_OK) {
        if (what[0] == 'n')
            attn_read_normalizer(&g, o, &t->normalizers);
        else if (what[0] == 'd')
            attn_read_decoder(&g, o, &t->decoders);
        else if (what[1] == 'r')
            attn_read_pre_tokenizer(&g, o, &t->pre_tokenizers);
        else
            attn_read_post_processor(&g, o, t);
        t->has_decoder = t->has_decoder || (what[0] == 'd' && !json_is_null(o));
    }
    json_decref(o);
    return g.status;
}

attn_status attn_read_json(attn_tokenizer *t, const struct report *r, const char *text, size_t size)
{
    struct scan file = {text, text, text + size, r};
    struct parts p = {.options = NULL};
    attn_status s = outline(&file, &p);
    s = s != ATTN_OK ? s : read_model(&file, &p, &t->model);
    s = s != ATTN_OK ? s : read_steps(&file, p.normalizer, "normalizer", t);
    s = s != ATTN_OK ? s : read_steps(&file, p.pre_tokenizer, "pre_tokenizer", t);
    s = s != ATTN_OK ? s : read_added(&file, p.added, t);
    s = s != ATTN_OK ? s : read_steps(&file, p.decoder, "decoder", t);
    s = s != ATTN_OK ? s : read_steps(&file, p.post_processor, "post_processor", t);
    json_decref(p.options);
    return s;
}
