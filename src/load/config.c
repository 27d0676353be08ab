/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_BYTES = 16 << 20 };

/* ---- opening ---- */

static attn_status read_all(const char *path, char **text, size_t *size, const struct load_report *r)
{
    struct stat st;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        const int missing = fd < 0 && errno == ENOENT, forbidden = fd < 0 && errno == EACCES;
        if (fd >= 0)
            close(fd);
        return attn_load_fail(r, ATTN_E_IO, missing     ? "there is no such file"
                                            : forbidden ? "permission to read it is denied"
                                                        : "cannot be read; a regular file is needed");
    }
    *size = (size_t)st.st_size;
    *text = st.st_size <= MAX_BYTES ? malloc(*size + 1) : NULL;
    size_t got = 0;
    for (ssize_t n = 1; *text && got < *size && n > 0; got += n > 0 ? (size_t)n : 0)
        n = read(fd, *text + got, *size - got);
    close(fd);
    if (st.st_size > MAX_BYTES)
        return attn_load_fail(r, ATTN_E_FORMAT, "has %lld bytes; at most %d are read", (long long)st.st_size, MAX_BYTES);
    if (!*text)
        return attn_load_fail_nomem(r);
    return got == *size ? ATTN_OK : attn_load_fail(r, ATTN_E_IO, "cannot be read to its end");
}

/* Reads DIR/NAME, which must hold an object, or an array. */
static attn_status open_json(struct config *c, const char *dir, const char *name, json_type type, const struct load_report *r)
{
    char *text = NULL;
    size_t size = 0;
    json_error_t e;
    c->root = NULL;
    c->asked_count = 0;
    c->status = attn_load_path(c->file, dir, name, r);
    c->report = (struct load_report){.text = r->text, .size = r->size, .file = c->file};
    if (c->status == ATTN_OK)
        c->status = read_all(c->file, &text, &size, &c->report);
    if (c->status == ATTN_OK) {
        c->root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &e);
        if (!c->root)
            c->status = attn_load_fail(&c->report, ATTN_E_FORMAT, "line %d: %s", e.line, e.text);
        else if (json_typeof(c->root) != type)
            c->status = attn_load_fail(&c->report, ATTN_E_FORMAT, "is no JSON %s", type == JSON_OBJECT ? "object" : "array");
    }
    free(text);
    return c->status;
}

attn_status attn_config_open(struct config *c, const char *dir, const char *name, const struct load_report *r)
{
    return open_json(c, dir, name, JSON_OBJECT, r);
}

attn_status attn_config_open_list(struct config *c, const char *dir, const char *name, const struct load_report *r)
{
    return open_json(c, dir, name, JSON_ARRAY, r);
}

void attn_config_close(struct config *c)
{
    json_decref(c->root);
    c->root = NULL;
}

/* ---- fields ---- */

/* NULL: absent, or an earlier failure. */
static json_t *ask(struct config *c, const char *field)
{
    if (c->status != ATTN_OK)
        return NULL;
    if (c->asked_count < CONFIG_FIELDS)
        c->asked[c->asked_count++] = field;
    json_t *value = json_object_get(c->root, field);
    return json_is_null(value) ? NULL : value;
}

__attribute__((format(printf, 3, 4))) static void fail(struct config *c, attn_status status, const char *format, ...)
{
    char sentence[512];
    va_list args;
    if (c->status != ATTN_OK)
        return;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    c->status = attn_load_fail(&c->report, status, "%s", sentence);
}

static json_t *need(struct config *c, const char *field, const char *what)
{
    json_t *value = ask(c, field);
    if (!value)
        fail(c, ATTN_E_FORMAT, "%s is missing; %s is needed", field, what);
    return value;
}

/* A value as the file has it, for a sentence. */
enum { VALUE_TEXT = 80 };
static const char *shown(char text[VALUE_TEXT], const json_t *value)
{
    char *dump = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    snprintf(text, VALUE_TEXT, "%s%s", dump ? dump : "?", "");
    if (dump && strlen(dump) >= VALUE_TEXT)
        strcpy(text + VALUE_TEXT - 4, "...");
    free(dump);
    return text;
}

/* inner = the value, which `field` names, of outer. */
static attn_status enter(struct config *inner, struct config *outer, json_t *value, const char *field)
{
    char text[VALUE_TEXT];
    *inner = (struct config){.status = outer->status};
    if (!value)
        return outer->status;
    if (!json_is_object(value))
        fail(outer, ATTN_E_FORMAT, "%s is %s; an object is needed", field, shown(text, value));
    snprintf(inner->file, sizeof inner->file, "%.*s: %s", (int)(sizeof inner->file / 2), outer->report.file, field);
    inner->report = (struct load_report){.text = outer->report.text, .size = outer->report.size, .file = inner->file};
    inner->status = outer->status;
    inner->root = json_incref(value);
    return inner->status;
}

attn_status attn_config_enter(struct config *inner, struct config *outer, const char *field)
{
    return enter(inner, outer, need(outer, field, "an object"), field);
}

attn_status attn_config_item(struct config *inner, struct config *list, size_t i)
{
    char name[32];
    snprintf(name, sizeof name, "element %zu", i);
    return enter(inner, list, json_array_get(list->root, i), name);
}

int attn_config_has(const struct config *c, const char *field)
{
    const json_t *value = json_object_get(c->root, field);
    return value && !json_is_null(value);
}

int64_t attn_config_int(struct config *c, const char *field, int64_t least, int64_t most)
{
    char text[VALUE_TEXT];
    const json_t *value = need(c, field, "a whole number");
    if (!value)
        return 0;
    if (!json_is_integer(value) || json_integer_value(value) < least || json_integer_value(value) > most) {
        fail(c, ATTN_E_FORMAT, "%s is %s; a whole number from %lld to %lld is needed", field, shown(text, value), (long long)least,
             (long long)most);
        return 0;
    }
    return json_integer_value(value);
}

double attn_config_number(struct config *c, const char *field, double least, double most)
{
    char text[VALUE_TEXT];
    const json_t *value = need(c, field, "a number");
    if (!value)
        return 0;
    const double number = json_number_value(value);
    if (!json_is_number(value) || !isfinite(number) || number < least || number > most) {
        fail(c, ATTN_E_FORMAT, "%s is %s; a number from %g to %g is needed", field, shown(text, value), least, most);
        return 0;
    }
    return number;
}

int attn_config_bool(struct config *c, const char *field)
{
    char text[VALUE_TEXT];
    const json_t *value = need(c, field, "true or false");
    if (value && !json_is_boolean(value))
        fail(c, ATTN_E_FORMAT, "%s is %s; true or false is needed", field, shown(text, value));
    return value && json_is_true(value);
}

const char *attn_config_text(struct config *c, const char *field)
{
    char text[VALUE_TEXT];
    const json_t *value = need(c, field, "a string");
    if (value && !json_is_string(value))
        fail(c, ATTN_E_FORMAT, "%s is %s; a string is needed", field, shown(text, value));
    return value && json_is_string(value) ? json_string_value(value) : "";
}

int64_t attn_config_int_or(struct config *c, const char *field, int64_t least, int64_t most, int64_t otherwise)
{
    return ask(c, field) ? attn_config_int(c, field, least, most) : otherwise;
}

double attn_config_number_or(struct config *c, const char *field, double least, double most, double otherwise)
{
    return ask(c, field) ? attn_config_number(c, field, least, most) : otherwise;
}

int attn_config_bool_or(struct config *c, const char *field, int otherwise)
{
    return ask(c, field) ? attn_config_bool(c, field) : otherwise;
}

const char *attn_config_text_or(struct config *c, const char *field, const char *otherwise)
{
    return ask(c, field) ? attn_config_text(c, field) : otherwise;
}

/* ---- fields that can have one value here ---- */

static void refuse(struct config *c, const char *field, const json_t *value, const char *only)
{
    char text[VALUE_TEXT];
    fail(c, ATTN_E_UNSUPPORTED, "%s is %s; only %s is computed here", field, shown(text, value), only);
}

void attn_config_only_text(struct config *c, const char *field, const char *value)
{
    const json_t *got = ask(c, field);
    if (got && !(json_is_string(got) && !strcmp(json_string_value(got), value)))
        refuse(c, field, got, value);
}

void attn_config_only_bool(struct config *c, const char *field, int value)
{
    const json_t *got = ask(c, field);
    if (got && !(json_is_boolean(got) && json_is_true(got) == !!value))
        refuse(c, field, got, value ? "true" : "false");
}

void attn_config_only_empty(struct config *c, const char *field)
{
    const json_t *got = ask(c, field);
    if (got && json_object_size(got) + json_array_size(got) > 0)
        refuse(c, field, got, "an empty one");
}

attn_activation attn_config_activation(struct config *c, const char *field)
{
    static const struct {
        const char *name;
        attn_activation f;
    } known[] = {{"gelu", ATTN_GELU},           {"gelu_python", ATTN_GELU},  {"gelu_new", ATTN_GELU_TANH},
                 {"gelu_pytorch_tanh", ATTN_GELU_TANH}, {"relu", ATTN_RELU}, {"silu", ATTN_SILU},
                 {"swish", ATTN_SILU}};
    const char *name = attn_config_text(c, field);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(name, known[i].name))
            return known[i].f;
    fail(c, ATTN_E_UNSUPPORTED, "%s is \"%.60s\"; gelu, gelu_new, gelu_pytorch_tanh, relu, silu and swish are computed here", field, name);
    return ATTN_GELU;
}

/* ---- the rest ---- */

/* Of every model of transformers: how it is trained, saved, called or generated with; nothing of its arithmetic. */
static const char *const of_every_model[] = {
    "_attn_implementation_autoset", "_commit_hash", "_name_or_path", "architectures", "attn_implementation", "auto_map",
    "bad_words_ids", "begin_suppress_tokens", "bos_token_id", "chunk_size_feed_forward", "classifier_dropout",
    "cross_attention_hidden_size", "decoder_start_token_id", "directionality", "diversity_penalty", "do_sample", "dtype",
    "early_stopping", "encoder_no_repeat_ngram_size", "eos_token_id", "exponential_decay_length_penalty", "finetuning_task",
    "forced_bos_token_id", "forced_eos_token_id", "gradient_checkpointing", "id2label", "initializer_range", "is_encoder_decoder",
    "label2id", "language", "length_penalty", "max_length", "min_length", "model_type", "name", "no_repeat_ngram_size",
    "num_beam_groups", "num_beams", "num_labels", "num_return_sequences", "output_attentions", "output_hidden_states", "output_past",
    "output_scores", "pad_token_id", "prefix", "problem_type", "remove_invalid_values", "repetition_penalty", "return_dict",
    "return_dict_in_generate", "sep_token_id", "suppress_tokens", "task_specific_params", "temperature", "tf_legacy_loss",
    "tie_encoder_decoder", "tie_word_embeddings", "tokenizer_class", "top_k", "top_p", "torch_dtype", "torchscript",
    "transformers.js_config", "transformers_version", "typical_p", "use_bfloat16", "use_cache", NULL};

static int listed(const char *const *list, const char *field)
{
    while (list && *list && strcmp(*list, field) != 0)
        list++;
    return list && *list;
}

static int was_asked(const struct config *c, const char *field)
{
    for (size_t i = 0; i < c->asked_count; i++)
        if (!strcmp(c->asked[i], field))
            return 1;
    return 0;
}

attn_status attn_config_rest(struct config *c, const char *const *harmless)
{
    char text[VALUE_TEXT];
    const char *field;
    json_t *value;
    attn_config_only_empty(c, "pruned_heads");
    json_object_foreach(c->root, field, value)
        if (!was_asked(c, field) && !listed(harmless, field) && !listed(of_every_model, field))
            fail(c, ATTN_E_UNSUPPORTED,
                 "%.100s (%s) is a field that is not known here, and may change what the model computes; remove it if it does not", field,
                 shown(text, value));
    return c->status;
}
