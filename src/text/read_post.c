/* SPDX-License-Identifier: Apache-2.0 */
/* post_processor of tokenizer.json: which tokens stand around the texts, and what is trimmed from offsets. */
#include <string.h>

#include "read_steps.h"

static void put_part(struct get *g, struct template *to, int32_t id, int64_t type_id)
{
    if (to->count == TEMPLATE_MAX)
        attn_get_wrong(g, "single and pair", "of at most 64 parts");
    else
        to->at[to->count++] = (struct template_part){id, (int32_t)type_id};
}

static void put_special(struct get *g, json_t *specials, const char *name, int64_t type_id, attn_tokenizer *t, struct template *to)
{
    json_t *ids = json_object_get(json_object_get(specials, name), "ids"), *id;
    size_t i;
    if (!json_is_array(ids))
        attn_get_wrong(g, name, "among special_tokens, with its ids");
    json_array_foreach(ids, i, id)
    {
        if (!json_is_integer(id) || attn_tokenizer_token(t, json_integer_value(id), NULL) == NULL)
            attn_get_wrong(g, name, "a token of the vocabulary");
        if (g->status == ATTN_OK)
            put_part(g, to, (int32_t)json_integer_value(id), type_id);
    }
}

static void read_template(struct get *g, json_t *o, const char *key, attn_tokenizer *t, struct template *to)
{
    json_t *parts = json_object_get(o, key), *part;
    size_t i;
    if (!json_is_array(parts))
        attn_get_wrong(g, key, "an array");
    json_array_foreach(parts, i, part)
    {
        json_t *text = json_object_get(part, "Sequence"), *special = json_object_get(part, "SpecialToken");
        json_t *it = text ? text : special;
        if (json_object_size(part) != 1 || it == NULL)
            attn_get_wrong(g, key, "of Sequence and SpecialToken parts");
        const char *id = attn_get_name(g, it, "id");
        const int64_t type_id = attn_get_integer(g, it, "type_id", 0);
        if (g->status != ATTN_OK)
            return;
        if (text != NULL)
            put_part(g, to, strcmp(id, "A") == 0 ? TEMPLATE_TEXT : TEMPLATE_PAIR, type_id & 0x7fffffff);
        else
            put_special(g, json_object_get(o, "special_tokens"), id, type_id & 0x7fffffff, t, to);
    }
}

/* ["[SEP]", 102] */
static int32_t named_token(struct get *g, json_t *o, const char *key, const attn_tokenizer *t)
{
    const json_t *pair = json_object_get(o, key), *id = json_array_get(pair, 1);
    if (json_array_size(pair) != 2 || !json_is_integer(id) || attn_tokenizer_token(t, json_integer_value(id), NULL) == NULL)
        attn_get_wrong(g, key, "a token and its id");
    return g->status == ATTN_OK ? (int32_t)json_integer_value(id) : 0;
}

static void bert(struct get *g, json_t *o, attn_tokenizer *t)
{
    const bool roberta = strcmp(attn_get_name(g, o, "type"), "RobertaProcessing") == 0;
    attn_get_only(g, o, "", roberta ? "type sep cls trim_offsets add_prefix_space" : "type sep cls");
    const int32_t cls = named_token(g, o, "cls", t), sep = named_token(g, o, "sep", t), second = !roberta;
    put_part(g, &t->one, cls, 0);
    put_part(g, &t->one, TEMPLATE_TEXT, 0);
    put_part(g, &t->one, sep, 0);
    t->two = t->one;
    if (roberta)
        put_part(g, &t->two, sep, 0);
    put_part(g, &t->two, TEMPLATE_PAIR, second);
    put_part(g, &t->two, sep, second);
    if (roberta) {
        t->trim = attn_get_bool(g, o, "trim_offsets", true);
        t->trim_keeps_first = attn_get_bool(g, o, "add_prefix_space", true);
    }
}

static bool has(const struct template *t, int32_t part)
{
    for (size_t i = 0; i < t->count; i++) {
        if (t->at[i].id == part)
            return true;
    }
    return false;
}

static void read_one(struct get *g, json_t *o, attn_tokenizer *t)
{
    const char *type = attn_get_name(g, o, "type");
    const bool template = strcmp(type, "TemplateProcessing") == 0, level = strcmp(type, "ByteLevel") == 0;
    if (g->status != ATTN_OK)
        return;
    if (!level && t->one.count > 0) {
        attn_get_wrong(g, type, "the only step that adds tokens");
    } else if (template) {
        attn_get_only(g, o, type, "type single pair special_tokens");
        read_template(g, o, "single", t, &t->one);
        read_template(g, o, "pair", t, &t->two);
        if (g->status == ATTN_OK &&
            (!has(&t->one, TEMPLATE_TEXT) || has(&t->one, TEMPLATE_PAIR) || !has(&t->two, TEMPLATE_TEXT) || !has(&t->two, TEMPLATE_PAIR)))
            attn_get_wrong(g, "single and pair", "templates with A, and with A and B");
    } else if (level) {
        attn_get_only(g, o, type, "type add_prefix_space trim_offsets use_regex");
        t->trim = attn_get_bool(g, o, "trim_offsets", true);
        t->trim_keeps_first = attn_get_bool(g, o, "add_prefix_space", true);
    } else if (strcmp(type, "BertProcessing") == 0 || strcmp(type, "RobertaProcessing") == 0) {
        bert(g, o, t);
    } else {
        g->status = attn_text_fail(g->report, ATTN_E_UNSUPPORTED, "the post_processor \"%.60s\" is not known", type);
    }
}

void attn_read_post_processor(struct get *g, json_t *object, attn_tokenizer *t)
{
    json_t *members = json_object_get(object, "processors"), *member;
    size_t i;
    if (object == NULL || json_is_null(object))
        return;
    if (strcmp(attn_get_name(g, object, "type"), "Sequence") != 0) {
        read_one(g, object, t);
        return;
    }
    attn_get_only(g, object, "Sequence", "type processors");
    json_array_foreach(members, i, member)
    {
        if (g->status == ATTN_OK)
            read_one(g, member, t);
    }
}
