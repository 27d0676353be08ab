/* SPDX-License-Identifier: Apache-2.0 */
#include "read_steps.h"

#include <string.h>

#include "utf8.h"

enum { MAX_DEPTH = 8, MAX_STEPS = 256 };

/* GPT-2's words: contractions, letters, digits and signs with at most one blank before, blanks but the last. */
const char attn_gpt2_pattern[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

attn_status attn_step_pattern(struct steps *to, const struct report *r, const char *pattern, enum behavior behavior)
{
    struct step s = {.kind = STEP_SPLIT, .behavior = behavior};
    const attn_status status = attn_pattern_make(&s.pattern, r, pattern, strlen(pattern), false);
    if (status != ATTN_OK || attn_steps_put(to, s))
        return status;
    attn_pattern_free(s.pattern);
    return attn_text_nomem(r);
}

attn_status attn_step_byte_level(struct steps *to, const struct report *r, unsigned flags)
{
    struct step s = {.kind = STEP_BYTE_LEVEL, .flags = flags, .behavior = BEHAVIOR_ISOLATED};
    attn_status status = ATTN_OK;
    if (flags & STEP_CUT)
        status = attn_pattern_make(&s.pattern, r, attn_gpt2_pattern, sizeof attn_gpt2_pattern - 1, false);
    if (status != ATTN_OK || attn_steps_put(to, s))
        return status;
    attn_pattern_free(s.pattern);
    return attn_text_nomem(r);
}

/* A kind of step: the name it has, the fields that are read, and what they become. */
struct kind {
    const char *type;
    enum step_kind kind;
    const char *keys;
    void (*read)(struct get *g, json_t *o, struct step *s);
};

static unsigned flag(struct get *g, json_t *o, const char *key, bool otherwise, unsigned bit)
{
    return attn_get_bool(g, o, key, otherwise) ? bit : 0;
}

static void put_text(struct get *g, const char *text, size_t size, struct step *s)
{
    if (!attn_runes_text(&s->content, text, size, 0))
        attn_get_nomem(g);
}

static void put_string(struct get *g, json_t *o, const char *key, struct step *s)
{
    size_t size = 0;
    const char *text = attn_get_string(g, o, key, &size);
    put_text(g, text, size, s);
}

static void read_pattern(struct get *g, json_t *o, struct step *s)
{
    json_t *p = json_object_get(o, "pattern");
    size_t size = 0;
    const bool regex = json_object_get(p, "Regex") != NULL;
    if (json_object_size(p) != 1 || (!regex && json_object_get(p, "String") == NULL))
        attn_get_wrong(g, "pattern", "{\"Regex\": ...} or {\"String\": ...}");
    const char *text = attn_get_string(g, p, regex ? "Regex" : "String", &size);
    if (g->status == ATTN_OK)
        g->status = attn_pattern_make(&s->pattern, g->report, text, size, !regex);
}

static void read_behavior(struct get *g, json_t *o, struct step *s)
{
    static const char *const names[] = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"};
    if (json_object_get(o, "behavior") == NULL && s->kind == STEP_PUNCTUATION) {
        s->behavior = BEHAVIOR_ISOLATED;
        return;
    }
    const char *name = attn_get_name(g, o, "behavior");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(name, names[i]) == 0) {
            s->behavior = (enum behavior)i;
            return;
        }
    }
    attn_get_wrong(g, "behavior", "Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous");
}

static void read_bert(struct get *g, json_t *o, struct step *s)
{
    const bool lower = attn_get_bool(g, o, "lowercase", true);
    s->flags = flag(g, o, "clean_text", true, STEP_CLEAN) | flag(g, o, "handle_chinese_chars", true, STEP_CJK) | (lower ? STEP_LOWER : 0) |
               flag(g, o, "strip_accents", lower, STEP_ACCENTS);
}

static void read_strip(struct get *g, json_t *o, struct step *s)
{
    s->flags = flag(g, o, "strip_left", true, STEP_LEFT) | flag(g, o, "strip_right", true, STEP_RIGHT);
}

static void read_replace(struct get *g, json_t *o, struct step *s)
{
    read_pattern(g, o, s);
    put_string(g, o, "content", s);
}

static void read_prepend(struct get *g, json_t *o, struct step *s) { put_string(g, o, "prepend", s); }

static void read_charsmap(struct get *g, json_t *o, struct step *s)
{
    size_t size = 0;
    const char *text = attn_get_string(g, o, "precompiled_charsmap", &size);
    if (g->status == ATTN_OK)
        g->status = attn_charsmap_base64(&s->map, g->report, text, size);
}

static void read_byte_level(struct get *g, json_t *o, struct step *s)
{
    s->flags = flag(g, o, "add_prefix_space", true, STEP_ADD_SPACE) | flag(g, o, "use_regex", true, STEP_CUT);
    s->behavior = BEHAVIOR_ISOLATED;
    if (g->status == ATTN_OK && (s->flags & STEP_CUT))
        g->status = attn_pattern_make(&s->pattern, g->report, attn_gpt2_pattern, sizeof attn_gpt2_pattern - 1, false);
}

static void read_split(struct get *g, json_t *o, struct step *s)
{
    read_pattern(g, o, s);
    read_behavior(g, o, s);
    s->flags = flag(g, o, "invert", false, STEP_INVERT);
}

static void read_digits(struct get *g, json_t *o, struct step *s)
{
    s->behavior = attn_get_bool(g, o, "individual_digits", false) ? BEHAVIOR_ISOLATED : BEHAVIOR_CONTIGUOUS;
}

static void read_metaspace(struct get *g, json_t *o, struct step *s)
{
    size_t size = 0;
    const char *scheme = attn_get_string(g, o, "prepend_scheme", &size);
    if (size == 0)
        scheme = attn_get_bool(g, o, "add_prefix_space", true) ? "always" : "never";
    const bool first = strcmp(scheme, "first") == 0, always = strcmp(scheme, "always") == 0;
    if (!first && !always && strcmp(scheme, "never") != 0)
        attn_get_wrong(g, "prepend_scheme", "always, first or never");
    s->flags = (first || always ? STEP_ADD_SPACE : 0) | (first ? STEP_FIRST_ONLY : 0) | flag(g, o, "split", true, STEP_CUT);
    put_string(g, o, "replacement", s);
    if (s->content.count != 1)
        attn_get_wrong(g, "replacement", "one character");
}

static void read_wordpiece(struct get *g, json_t *o, struct step *s)
{
    s->flags = flag(g, o, "cleanup", true, STEP_CLEANUP);
    if (json_object_get(o, "prefix") == NULL)
        put_text(g, "##", 2, s);
    else
        put_string(g, o, "prefix", s);
}

static void read_strip_tokens(struct get *g, json_t *o, struct step *s)
{
    put_string(g, o, "content", s);
    s->start = (size_t)attn_get_integer(g, o, "start", 0);
    s->stop = (size_t)attn_get_integer(g, o, "stop", 0);
    if (s->content.count != 1)
        attn_get_wrong(g, "content", "one character");
}

static void read_suffix(struct get *g, json_t *o, struct step *s)
{
    if (json_object_get(o, "suffix") == NULL)
        put_text(g, "</w>", 4, s);
    else
        put_string(g, o, "suffix", s);
}

static const struct kind normalizers[] = {
    {"BertNormalizer", STEP_BERT_NORMALIZER, "type clean_text handle_chinese_chars strip_accents lowercase", read_bert},
    {"NFC", STEP_NFC, "type", NULL},
    {"NFD", STEP_NFD, "type", NULL},
    {"NFKC", STEP_NFKC, "type", NULL},
    {"NFKD", STEP_NFKD, "type", NULL},
    {"Lowercase", STEP_LOWERCASE, "type", NULL},
    {"StripAccents", STEP_STRIP_ACCENTS, "type", NULL},
    {"Strip", STEP_STRIP, "type strip_left strip_right", read_strip},
    {"Replace", STEP_REPLACE, "type pattern content", read_replace},
    {"Prepend", STEP_PREPEND, "type prepend", read_prepend},
    {"Precompiled", STEP_CHARSMAP, "type precompiled_charsmap", read_charsmap},
    {"Nmt", STEP_NMT, "type", NULL},
    {"ByteLevel", STEP_BYTE_LEVEL, "type", NULL},
    {NULL, 0, NULL, NULL}};

static const struct kind pre_tokenizers[] = {
    {"BertPreTokenizer", STEP_BERT_SPLIT, "type", NULL},
    {"ByteLevel", STEP_BYTE_LEVEL, "type add_prefix_space trim_offsets use_regex", read_byte_level},
    {"Split", STEP_SPLIT, "type pattern behavior invert", read_split},
    {"Whitespace", STEP_WHITESPACE, "type", NULL},
    {"WhitespaceSplit", STEP_WHITESPACE_SPLIT, "type", NULL},
    {"Punctuation", STEP_PUNCTUATION, "type behavior", read_behavior},
    {"Digits", STEP_DIGITS, "type individual_digits", read_digits},
    {"Metaspace", STEP_METASPACE, "type replacement prepend_scheme split add_prefix_space str_rep", read_metaspace},
    {NULL, 0, NULL, NULL}};

static const struct kind decoders[] = {
    {"ByteLevel", STEP_BYTE_LEVEL, "type add_prefix_space trim_offsets use_regex", NULL},
    {"WordPiece", STEP_WORDPIECE, "type prefix cleanup", read_wordpiece},
    {"Metaspace", STEP_METASPACE, "type replacement prepend_scheme split add_prefix_space str_rep", read_metaspace},
    {"Replace", STEP_REPLACE, "type pattern content", read_replace},
    {"ByteFallback", STEP_BYTE_FALLBACK, "type", NULL},
    {"Fuse", STEP_FUSE, "type", NULL},
    {"Strip", STEP_STRIP_TOKENS, "type content start stop", read_strip_tokens},
    {"BPEDecoder", STEP_BPE_SUFFIX, "type suffix", read_suffix},
    {NULL, 0, NULL, NULL}};

/* Where a Sequence keeps its members. */
struct role {
    const struct kind *kinds;
    const char *members;
};

static void read_step(struct get *g, const struct role *role, json_t *o, int depth, struct steps *to);

static void read_sequence(struct get *g, const struct role *role, json_t *o, int depth, struct steps *to)
{
    json_t *members = json_object_get(o, role->members), *member;
    size_t i;
    char keys[40] = "type ";
    strcat(keys, role->members);
    attn_get_only(g, o, "Sequence", keys);
    if (!json_is_array(members))
        attn_get_wrong(g, role->members, "an array");
    json_array_foreach(members, i, member)
    {
        if (g->status == ATTN_OK)
            read_step(g, role, member, depth + 1, to);
    }
}

static void read_step(struct get *g, const struct role *role, json_t *o, int depth, struct steps *to)
{
    const char *type = attn_get_name(g, o, "type");
    if (g->status != ATTN_OK)
        return;
    if (depth > MAX_DEPTH || to->count >= MAX_STEPS) {
        g->status = attn_text_fail(g->report, ATTN_E_FORMAT, "%s: sequences nested deeper than %d, or more than %d steps", g->what,
                                   MAX_DEPTH, MAX_STEPS);
        return;
    }
    if (strcmp(type, "Sequence") == 0) {
        read_sequence(g, role, o, depth, to);
        return;
    }
    const struct kind *k = role->kinds;
    while (k->type != NULL && strcmp(k->type, type) != 0)
        k++;
    if (k->type == NULL) {
        g->status = attn_text_fail(g->report, ATTN_E_UNSUPPORTED, "the %s \"%.60s\" is not known", g->what, type);
        return;
    }
    attn_get_only(g, o, type, k->keys);
    struct step s = {.kind = k->kind,
                     .behavior = k->kind == STEP_WHITESPACE || k->kind == STEP_WHITESPACE_SPLIT ? BEHAVIOR_REMOVED : BEHAVIOR_ISOLATED};
    if (g->status == ATTN_OK && k->read != NULL)
        k->read(g, o, &s);
    if (g->status == ATTN_OK && attn_steps_put(to, s))
        return;
    if (g->status == ATTN_OK)
        attn_get_nomem(g);
    attn_runes_free(&s.content);
    attn_pattern_free(s.pattern);
    attn_charsmap_free(s.map);
}

static void read_role(struct get *g, const struct role *role, json_t *object, struct steps *to)
{
    if (object != NULL && !json_is_null(object))
        read_step(g, role, object, 0, to);
}

void attn_read_normalizer(struct get *g, json_t *object, struct steps *to)
{
    read_role(g, &(struct role){normalizers, "normalizers"}, object, to);
}

void attn_read_pre_tokenizer(struct get *g, json_t *object, struct steps *to)
{
    read_role(g, &(struct role){pre_tokenizers, "pretokenizers"}, object, to);
}

void attn_read_decoder(struct get *g, json_t *object, struct steps *to) { read_role(g, &(struct role){decoders, "decoders"}, object, to); }
