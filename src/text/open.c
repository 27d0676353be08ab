/* SPDX-License-Identifier: Apache-2.0 */
/* A tokenizer from a model folder: which files there are decides how it is read. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "files.h"
#include "json_get.h"
#include "json_scan.h"
#include "marian.h"

/* The files that are read beside the vocabulary. */
struct folder {
    const char *dir;
    const struct report *report;
    json_t *config; /* tokenizer_config.json, or NULL */
    struct text_file config_file;
};

static attn_status read_config(struct folder *f)
{
    attn_status s = attn_file_read(&f->config_file, f->report, f->dir, "tokenizer_config.json");
    if (s != ATTN_OK || f->config_file.text == NULL)
        return s;
    const struct value whole = {f->config_file.text, f->config_file.size};
    const struct scan scan = {whole.text, whole.text, whole.text + whole.size, &f->config_file.report};
    s = attn_scan_tree(&scan, whole, "the configuration", &f->config);
    if (s == ATTN_OK && !json_is_object(f->config))
        s = attn_text_fail(&f->config_file.report, ATTN_E_FORMAT, "the configuration must be an object");
    return s;
}

/* "bos_token": "<s>" or {"content": "<s>", ...} */
static const char *token_of(json_t *object, const char *key)
{
    json_t *v = json_object_get(object, key);
    return json_string_value(json_is_object(v) ? json_object_get(v, "content") : v);
}

static void take_specials(attn_tokenizer *t, json_t *o)
{
    static const char *const keys[ATTN_SPECIAL_COUNT] = {"bos_token", "eos_token", "unk_token", "pad_token",
                                                         "cls_token", "sep_token", "mask_token"};
    for (int i = 0; i < ATTN_SPECIAL_COUNT; i++) {
        const char *text = token_of(o, keys[i]);
        const int32_t id = text ? attn_tokenizer_id(t, text, strlen(text)) : -1;
        if (id >= 0)
            t->special[i] = id;
    }
}

static attn_status take_template(attn_tokenizer *t, const struct report *r, const char *text, size_t size)
{
    free(t->chat_template);
    t->chat_template = malloc(size + 1);
    if (t->chat_template == NULL)
        return attn_text_nomem(r);
    memcpy(t->chat_template, text, size);
    t->chat_template[size] = '\0';
    return ATTN_OK;
}

/* A string, or [{"name": "default", "template": ...}]. */
static const char *template_of(json_t *v)
{
    json_t *one;
    size_t i;
    json_array_foreach(v, i, one)
    {
        const char *name = json_string_value(json_object_get(one, "name"));
        if (name != NULL && strcmp(name, "default") == 0)
            return json_string_value(json_object_get(one, "template"));
    }
    return json_string_value(v);
}

/* What stands in the small files: which tokens are for what, the template, the length. */
static attn_status take_config(attn_tokenizer *t, struct folder *f)
{
    struct text_file map = {.text = NULL}, jinja = {.text = NULL};
    json_error_t e;
    attn_status s = attn_file_read(&map, f->report, f->dir, "special_tokens_map.json");
    s = s != ATTN_OK ? s : attn_file_read(&jinja, f->report, f->dir, "chat_template.jinja");
    if (s == ATTN_OK && map.text != NULL) {
        json_t *o = map.size <= 1 << 20 ? json_loadb(map.text, map.size, JSON_REJECT_DUPLICATES, &e) : NULL;
        if (o == NULL)
            s = attn_text_fail(&map.report, ATTN_E_FORMAT, "no JSON object");
        take_specials(t, o);
        json_decref(o);
    }
    take_specials(t, f->config);
    const double length = json_number_value(json_object_get(f->config, "model_max_length"));
    t->max_length = length >= 1 && length < 1e9 ? (int64_t)length : 0; /* transformers writes 1e30 for none */
    const char *text = template_of(json_object_get(f->config, "chat_template"));
    if (s == ATTN_OK && text != NULL)
        s = take_template(t, f->report, text, strlen(text));
    if (s == ATTN_OK && jinja.text != NULL)
        s = take_template(t, f->report, jinja.text, jinja.size);
    attn_file_free(&map);
    attn_file_free(&jinja);
    return s;
}

/* ------------------------------------------------------------ vocab.txt ---- */

static attn_status read_bert(attn_tokenizer *t, const struct folder *f, const struct text_file *vocab)
{
    struct get g = {&f->config_file.report, "the configuration", attn_read_vocab_txt(t, &vocab->report, vocab->text, vocab->size)};
    if (g.status != ATTN_OK)
        return g.status;
    const bool lower = attn_get_bool(&g, f->config, "do_lower_case", true);
    const bool accents = attn_get_bool(&g, f->config, "strip_accents", lower);
    const bool cjk = attn_get_bool(&g, f->config, "tokenize_chinese_chars", true);
    if (!attn_get_bool(&g, f->config, "do_basic_tokenize", true))
        attn_get_wrong(&g, "do_basic_tokenize", "true");
    t->normalizers.at[0].flags = STEP_CLEAN | (cjk ? STEP_CJK : 0) | (lower ? STEP_LOWER : 0) | (accents ? STEP_ACCENTS : 0);
    return g.status;
}

/* -------------------------------------------------- vocab.json, merges.txt ---- */

/* added_tokens_decoder of tokenizer_config.json: {"50256": {"content": ..., "special": ...}} */
static attn_status added_decoder(attn_tokenizer *t, const struct folder *f)
{
    const char *key;
    json_t *o;
    struct get g = {&f->config_file.report, "added_tokens_decoder", ATTN_OK};
    json_object_foreach(json_object_get(f->config, "added_tokens_decoder"), key, o)
    {
        size_t size = 0;
        char *end = NULL;
        const long long id = strtoll(key, &end, 10);
        const char *text = attn_get_string(&g, o, "content", &size);
        const unsigned flags = (attn_get_bool(&g, o, "special", false) ? ADDED_SPECIAL : 0) |
                               (attn_get_bool(&g, o, "lstrip", false) ? ADDED_LSTRIP : 0) |
                               (attn_get_bool(&g, o, "rstrip", false) ? ADDED_RSTRIP : 0) |
                               (attn_get_bool(&g, o, "single_word", false) ? ADDED_SINGLE_WORD : 0) |
                               (attn_get_bool(&g, o, "normalized", false) ? ADDED_NORMALIZED : 0);
        if (end == key || *end != '\0' || size == 0)
            attn_get_wrong(&g, key, "an id with the content of its token");
        if (g.status == ATTN_OK)
            g.status = attn_added_put(t, g.report, text, size, id, flags);
    }
    return g.status;
}

/* Tokens that the configuration names are found in text even when it lists no added tokens. */
static attn_status named_specials(attn_tokenizer *t, const struct report *r)
{
    attn_status s = ATTN_OK;
    for (int i = 0; i < ATTN_SPECIAL_COUNT && s == ATTN_OK; i++) {
        size_t size = 0;
        const int32_t id = t->special[i];
        const char *text = id >= 0 ? attn_vocab_text(&t->model.vocab, id, &size) : NULL;
        if (text != NULL && attn_vocab_text(&t->added.vocab, id, NULL) == NULL)
            s = attn_added_put(t, r, text, size, id, ADDED_SPECIAL | (i == ATTN_SPECIAL_MASK ? ADDED_LSTRIP : 0));
    }
    return s;
}

static attn_status read_gpt2(attn_tokenizer *t, const struct folder *f, const struct text_file *vocab, const struct text_file *merges)
{
    const char *kind = token_of(f->config, "tokenizer_class");
    const bool qwen = kind != NULL && strncmp(kind, "Qwen2", 5) == 0, roberta = kind != NULL && strncmp(kind, "Roberta", 7) == 0;
    struct get g = {&f->config_file.report, "the configuration", ATTN_OK};
    if (kind != NULL && !qwen && !roberta && strncmp(kind, "GPT2", 4) != 0)
        return attn_text_fail(g.report, ATTN_E_UNSUPPORTED, "the tokenizer_class \"%.60s\" is not known without tokenizer.json", kind);
    const unsigned space = attn_get_bool(&g, f->config, "add_prefix_space", false) ? STEP_ADD_SPACE : 0;
    attn_status s = g.status;
    s = s != ATTN_OK ? s : attn_read_gpt2(t, &vocab->report, vocab->text, vocab->size, &merges->report, merges->text, merges->size);
    s = s != ATTN_OK ? s : added_decoder(t, f);
    if (s == ATTN_OK && qwen && !attn_steps_put(&t->normalizers, (struct step){.kind = STEP_NFC}))
        s = attn_text_nomem(f->report);
    if (s == ATTN_OK && qwen)
        s = attn_step_pattern(&t->pre_tokenizers, f->report, attn_qwen2_pattern, BEHAVIOR_ISOLATED);
    s = s != ATTN_OK ? s : attn_step_byte_level(&t->pre_tokenizers, f->report, space | (qwen ? 0 : STEP_CUT));
    if (s == ATTN_OK && !attn_steps_put(&t->decoders, (struct step){.kind = STEP_BYTE_LEVEL}))
        s = attn_text_nomem(f->report);
    t->has_decoder = true;
    s = s != ATTN_OK ? s : take_config(t, (struct folder *)f);
    s = s != ATTN_OK ? s : named_specials(t, &vocab->report);
    const int32_t bos = attn_tokenizer_id(t, "<s>", 3), eos = attn_tokenizer_id(t, "</s>", 4);
    if (s == ATTN_OK && roberta && bos >= 0 && eos >= 0) {
        t->one = (struct template){{{bos, 0}, {TEMPLATE_TEXT, 0}, {eos, 0}}, 3};
        t->two = (struct template){{{bos, 0}, {TEMPLATE_TEXT, 0}, {eos, 0}, {eos, 0}, {TEMPLATE_PAIR, 0}, {eos, 0}}, 6};
    }
    t->trim = roberta;
    t->trim_keeps_first = space != 0;
    return s;
}

/* ------------------------------------------------------------------ open ---- */

enum { TOKENIZER_JSON, VOCAB_TXT, VOCAB_JSON, MERGES_TXT, SOURCE_SPM, TARGET_SPM, FILE_COUNT };

static attn_status read_marian(attn_tokenizer *t, struct text_file files[FILE_COUNT])
{
    const struct text_file *s = &files[SOURCE_SPM], *g = &files[TARGET_SPM], *v = &files[VOCAB_JSON];
    return attn_read_marian(
        t, &(struct marian_files){s->text, g->text, v->text, s->size, g->size, v->size, &s->report, &g->report, &v->report});
}

static attn_status read_folder(attn_tokenizer *t, struct folder *f, struct text_file files[FILE_COUNT])
{
    static const char *const names[FILE_COUNT] = {"tokenizer.json", "vocab.txt", "vocab.json", "merges.txt", "source.spm", "target.spm"};
    attn_status s = read_config(f);
    for (int i = 0; i < FILE_COUNT && s == ATTN_OK; i++) {
        s = attn_file_read(&files[i], f->report, f->dir, names[i]);
        if (i <= VOCAB_TXT && files[i].text != NULL)
            break;
    }
    if (s != ATTN_OK)
        return s;
    if (files[TOKENIZER_JSON].text != NULL)
        s = attn_read_json(t, &files[TOKENIZER_JSON].report, files[TOKENIZER_JSON].text, files[TOKENIZER_JSON].size);
    else if (files[VOCAB_TXT].text != NULL)
        s = read_bert(t, f, &files[VOCAB_TXT]);
    else if (files[VOCAB_JSON].text != NULL && files[MERGES_TXT].text != NULL)
        return read_gpt2(t, f, &files[VOCAB_JSON], &files[MERGES_TXT]);
    else if (files[VOCAB_JSON].text != NULL && files[SOURCE_SPM].text != NULL && files[TARGET_SPM].text != NULL)
        s = read_marian(t, files);
    else
        return attn_text_fail(f->report, ATTN_E_IO,
                              "no tokenizer is there: neither tokenizer.json, nor vocab.txt, nor vocab.json with merges.txt, nor "
                              "vocab.json with source.spm and target.spm");
    return s == ATTN_OK ? take_config(t, f) : s;
}

/* A file that is named itself. */
static attn_status read_one(attn_tokenizer *t, const struct report *r, const char *path)
{
    struct text_file file;
    attn_status s = attn_file_read(&file, r, path, NULL);
    const size_t n = strlen(path);
    if (s == ATTN_OK && file.text == NULL)
        s = attn_text_fail(r, ATTN_E_IO, "there is no such file or folder");
    if (s == ATTN_OK && n > 4 && strcmp(path + n - 4, ".txt") == 0)
        s = attn_read_vocab_txt(t, &file.report, file.text, file.size);
    else if (s == ATTN_OK)
        s = attn_read_json(t, &file.report, file.text, file.size);
    attn_file_free(&file);
    return s;
}

attn_status attn_tokenizer_open(attn_tokenizer **out, const char *dir, char *err, size_t err_size)
{
    const struct report r = {err, err_size, dir};
    struct text_file files[FILE_COUNT] = {{.text = NULL}};
    struct folder f = {.dir = dir, .report = &r};
    struct stat st;
    *out = NULL;
    attn_tokenizer *t = attn_tokenizer_start(&r);
    if (t == NULL)
        return ATTN_E_NOMEM;
    const bool is_folder = stat(dir, &st) == 0 && S_ISDIR(st.st_mode);
    const attn_status s = is_folder ? read_folder(t, &f, files) : read_one(t, &r, dir);
    for (int i = 0; i < FILE_COUNT; i++)
        attn_file_free(&files[i]);
    attn_file_free(&f.config_file);
    json_decref(f.config);
    return attn_tokenizer_done(t, &r, s, out);
}
