/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens that are known: BERT's accents and unknown words, Qwen2's words, and every text back again. */
#include "support.h"

#include <jansson.h>

static json_t *case_items(const char *name, json_t **whole)
{
    char path[300];
    json_error_t e;
    snprintf(path, sizeof path, "%s/%s/case.json", CASES, name);
    *whole = json_load_file(path, 0, &e);
    assert_non_null(*whole);
    json_t *items = json_object_get(*whole, "items");
    assert_true(json_array_size(items) > 10);
    return items;
}

/* vocab.txt in a folder of its own, with the configuration that says whether letters become small. */
static attn_tokenizer *bert(int lower)
{
    char name[] = "bert-XXXXXX", command[700], err[300] = "";
    assert_non_null(mkdtemp(name));
    snprintf(command, sizeof command,
             "cp '%s/P26_bert_accents_unk/vocab.txt' %s/ && echo '{\"do_lower_case\": %s}' > %s/tokenizer_config.json", CASES, name,
             lower ? "true" : "false", name);
    assert_int_equal(system(command), 0);
    attn_tokenizer *t = NULL;
    if (attn_tokenizer_open(&t, name, err, sizeof err) != ATTN_OK)
        fail_msg("%s", err);
    snprintf(command, sizeof command, "rm -r %s", name);
    assert_int_equal(system(command), 0);
    return t;
}

static void test_bert(void **state)
{
    (void)state;
    attn_tokenizer *const both[2] = {bert(0), bert(1)};
    json_t *whole, *items = case_items("P26_bert_accents_unk", &whole), *item;
    size_t i;
    json_array_foreach(items, i, item)
    {
        const attn_tokenizer *t = both[json_is_true(json_object_get(item, "do_lower_case"))];
        json_t *ids = json_object_get(item, "ids");
        attn_encoding *e = encoded(t, json_string_value(json_object_get(item, "text")), 0);
        assert_int_equal(e->count, json_array_size(ids));
        for (size_t k = 0; k < e->count; k++)
            assert_int_equal(e->ids[k], json_integer_value(json_array_get(ids, k)));
        attn_encoding_destroy(e);
    }
    json_decref(whole);
    attn_tokenizer_destroy(both[0]);
    attn_tokenizer_destroy(both[1]);
}

static void test_qwen2(void **state)
{
    (void)state;
    attn_tokenizer *t = bytes_only("qwen2");
    json_t *whole, *items = case_items("P27_qwen2_split", &whole), *item;
    size_t i;
    json_array_foreach(items, i, item)
    {
        const char *text = json_string_value(json_object_get(item, "text"));
        json_t *pieces = json_object_get(item, "pieces");
        attn_encoding *e = encoded(t, text, 0);
        size_t words = 0;
        for (size_t k = 0, end; k < e->count; k = end, words++) {
            for (end = k; end < e->count && e->word[end] == e->word[k]; end++)
                ;
            const char *piece = json_string_value(json_array_get(pieces, words));
            assert_non_null(piece);
            assert_int_equal(e->end[end - 1] - e->start[k], strlen(piece));
            assert_memory_equal(text + e->start[k], piece, strlen(piece));
        }
        assert_int_equal(words, json_array_size(pieces));
        attn_encoding_destroy(e);
    }
    json_decref(whole);
    attn_tokenizer_destroy(t);
}

/* Any text comes back, at once and in pieces that are whole characters. */
static void test_round_trip(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "한국어 어텐션", "e\xcc\x81 \xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x91\xa7", "\t\r\n \x01\x7f",
                                        "注意力 ﷺ"};
    attn_tokenizer *t = bytes_only("gpt-2");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char err[300] = "", *back = NULL, joined[200] = "";
        size_t size = 0;
        attn_decoder *d = NULL;
        attn_encoding *e = encoded(t, texts[i], 0);
        assert_int_equal(attn_tokenizer_decode(t, e->ids, e->count, 0, &back, &size, err, sizeof err), ATTN_OK);
        assert_string_equal(back, texts[i]);
        assert_int_equal(size, strlen(texts[i]));
        assert_int_equal(attn_decoder_create(&d, t, 0, err, sizeof err), ATTN_OK);
        for (size_t k = 0; k <= e->count; k++) {
            const char *piece;
            const attn_status s = k < e->count ? attn_decoder_put(d, e->ids[k], &piece, &size, err, sizeof err)
                                               : attn_decoder_end(d, &piece, &size, err, sizeof err);
            assert_int_equal(s, ATTN_OK);
            assert_true(((unsigned char)piece[0] & 0xc0) != 0x80); /* no character begins in its middle */
            strcat(joined, piece);
        }
        assert_string_equal(joined, texts[i]);
        attn_decoder_destroy(d);
        attn_encoding_destroy(e);
        attn_text_free(back);
    }
    attn_tokenizer_destroy(t);
}

/* SentencePiece's BPE by scores, with bytes for what is unknown. */
static void test_llama(void **state)
{
    (void)state;
    static const char *const names[] = {"<unk>",
                                        "<s>",
                                        "</s>",
                                        "<0xEA>",
                                        "<0xB0>",
                                        "<0x80>",
                                        "\xe2\x96\x81",
                                        "a",
                                        "b",
                                        "ab",
                                        ("\xe2\x96\x81"
                                         "ab")};
    static const float scores[] = {0, 0, 0, 0, 0, 0, -1, -2, -3, -0.5F, -0.25F};
    static const int32_t types[] = {2, 3, 3, 6, 6, 6, 1, 1, 1, 1, 1}, special[] = {1, 2, 0, -1, -1, -1, -1};
    static const int32_t right[] = {1, 10, 6, 3, 4, 5, 9};
    attn_span tokens[11];
    char err[300] = "", *back = NULL;
    attn_tokenizer *t = NULL;
    for (int i = 0; i < 11; i++)
        tokens[i] = (attn_span){names[i], strlen(names[i])};
    const attn_tokenizer_desc d = {
        .struct_size = sizeof d, .model = "llama", .count = 11, .tokens = tokens, .scores = scores, .types = types, .special = special};
    if (attn_tokenizer_create(&t, &d, err, sizeof err) != ATTN_OK)
        fail_msg("%s", err);
    attn_encoding *e = encoded(t, "ab 가ab", ATTN_ENCODE_SPECIAL);
    assert_int_equal(e->count, 7);
    assert_memory_equal(e->ids, right, sizeof right);
    assert_int_equal(attn_tokenizer_decode(t, e->ids, e->count, ATTN_DECODE_SKIP_SPECIAL, &back, NULL, err, sizeof err), ATTN_OK);
    assert_string_equal(back, "ab 가ab");
    attn_text_free(back);
    attn_encoding_destroy(e);
    attn_tokenizer_destroy(t);
}

/* Of two pairs that overlap the one with the higher score is merged first, wherever it stands. */
static void test_llama_scores(void **state)
{
    (void)state;
    static const attn_span tokens[] = {{"<unk>", 5}, {"\xe2\x96\x81", 3}, {"a", 1}, {"b", 1}, {"ab", 2}, {"ba", 2}};
    static const float scores[2][6] = {{0, -9, -9, -9, -2, -1}, {0, -9, -9, -9, -1, -2}};
    static const int32_t types[] = {2, 1, 1, 1, 1, 1}, special[] = {-1, -1, 0, -1, -1, -1, -1};
    static const int32_t right[2][3] = {{1, 2, 5}, {1, 4, 2}};
    for (int i = 0; i < 2; i++) {
        attn_tokenizer *t = NULL;
        char err[300] = "";
        const attn_tokenizer_desc d = {.struct_size = sizeof d,
                                       .model = "llama",
                                       .count = 6,
                                       .tokens = tokens,
                                       .scores = scores[i],
                                       .types = types,
                                       .special = special,
                                       .add_bos = -1};
        if (attn_tokenizer_create(&t, &d, err, sizeof err) != ATTN_OK)
            fail_msg("%s", err);
        attn_encoding *e = encoded(t, "aba", 0);
        assert_int_equal(e->count, 3);
        assert_memory_equal(e->ids, right[i], sizeof right[i]);
        attn_encoding_destroy(e);
        attn_tokenizer_destroy(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bert), cmocka_unit_test(test_qwen2), cmocka_unit_test(test_round_trip),
                                       cmocka_unit_test(test_llama), cmocka_unit_test(test_llama_scores)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
