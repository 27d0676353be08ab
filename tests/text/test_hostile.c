/* SPDX-License-Identifier: Apache-2.0 */
/* Files and arguments that are wrong: one sentence that names what, and nothing made. */
#include "support.h"

static void refused(const char *name, const char *bytes, attn_status status, const char *word)
{
    char path[256], err[300] = "";
    attn_tokenizer *t = NULL;
    write_file(path, name, bytes, strlen(bytes));
    const attn_status got = attn_tokenizer_open(&t, path, err, sizeof err);
    remove_file(path);
    if (got != status || t != NULL || strstr(err, word) == NULL)
        fail_msg("%.60s: status %d, \"%s\" lacks \"%s\"", bytes, (int)got, err, word);
}

#define WITH(rest) "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2}, \"merges\": [\"a b\"]}" rest "}"

static void test_json(void **state)
{
    (void)state;
    refused("tokenizer.json", "", ATTN_E_FORMAT, "'{'");
    refused("tokenizer.json", "{\"model\": {\"vocab\": {\"a\": 0", ATTN_E_FORMAT, "ends");
    refused("tokenizer.json", "{\"model\": {\"type\": \"Magic\", \"vocab\": {}}}", ATTN_E_UNSUPPORTED, "Magic");
    refused("tokenizer.json", WITH(", \"surprise\": 1"), ATTN_E_UNSUPPORTED, "surprise");
    refused("tokenizer.json", WITH(", \"normalizer\": {\"type\": \"NFC\", \"\": 1}"), ATTN_E_UNSUPPORTED, "not known");
    refused("tokenizer.json", WITH(", \"normalizer\": {\"type\": \"Rot13\"}"), ATTN_E_UNSUPPORTED, "Rot13");
    refused("tokenizer.json", WITH(", \"normalizer\": {\"type\": \"NFC\", \"twice\": true}"), ATTN_E_UNSUPPORTED, "twice");
    refused("tokenizer.json",
            WITH(", \"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"Regex\": \"(\"}, \"behavior\": \"Isolated\"}"), ATTN_E_FORMAT,
            "parenthes");
    refused("tokenizer.json", WITH(", \"added_tokens\": [{\"id\": 1, \"content\": \"x\"}]"), ATTN_E_FORMAT, "id 1");
    refused("tokenizer.json", "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 0}}}", ATTN_E_FORMAT, "same id 0");
    refused("tokenizer.json", "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 99999999999}}}", ATTN_E_FORMAT, "too large");
    refused("tokenizer.json", "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [\"a c\"]}}", ATTN_E_FORMAT, "merge 0");
    refused("tokenizer.json", "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"\\ud800\": 0}}}", ATTN_E_FORMAT, "character of a string");
    refused("vocab.txt", "a\nb\na\n", ATTN_E_FORMAT, "\"a\"");
    refused("vocab.txt", "a\n\xff\n", ATTN_E_FORMAT, "byte 2");
}

static void test_deep(void **state)
{
    (void)state;
    enum { DEPTH = 100000 };
    char *text = malloc(DEPTH + 40);
    assert_non_null(text);
    strcpy(text, "{\"model\": ");
    memset(text + strlen(text), '[', DEPTH);
    text[10 + DEPTH] = '\0';
    refused("tokenizer.json", text, ATTN_E_FORMAT, "nested");
    free(text);
}

static void test_arguments(void **state)
{
    (void)state;
    attn_tokenizer *t = bytes_only("gpt-2");
    char err[300] = "", *text = NULL;
    attn_encoding *e = NULL;
    const int32_t wrong = 256;
    assert_int_equal(attn_tokenizer_encode(t, "a\xed\xa0\x80", 4, NULL, 0, 0, 0, &e, err, sizeof err), ATTN_E_ARG);
    assert_non_null(strstr(err, "byte 1"));
    assert_int_equal(attn_tokenizer_encode(t, "a", 1, NULL, 0, 64, 0, &e, err, sizeof err), ATTN_E_ARG);
    assert_int_equal(attn_tokenizer_decode(t, &wrong, 1, 0, &text, NULL, err, sizeof err), ATTN_E_ARG);
    assert_non_null(strstr(err, "256"));
    assert_null(e);
    assert_null(text);
    attn_tokenizer_destroy(t);
    const attn_tokenizer_desc d = {.struct_size = sizeof d, .model = "gpt2", .pre = "nobody"};
    assert_int_equal(attn_tokenizer_create(&t, &d, err, sizeof err), ATTN_E_UNSUPPORTED);
    assert_non_null(strstr(err, "nobody"));
}

/* 200 thousand characters without a blank: a minute if merging were quadratic. */
static void test_long_word(void **state)
{
    (void)state;
    enum { SIZE = 200000, WITHIN = 20 };
    char path[256], err[300] = "";
    const char *json =
        "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"aa\": 1, \"aaaa\": 2}, \"merges\": [\"a a\", [\"aa\", \"aa\"]]}}";
    attn_tokenizer *t = NULL;
    write_file(path, "tokenizer.json", json, strlen(json));
    assert_int_equal(attn_tokenizer_open(&t, path, err, sizeof err), ATTN_OK);
    remove_file(path);
    char *text = malloc(SIZE + 1);
    assert_non_null(text);
    memset(text, 'a', SIZE);
    text[SIZE] = '\0';
    alarm(WITHIN);
    attn_encoding *e = encoded(t, text, 0);
    alarm(0);
    assert_int_equal(e->count, SIZE / 4);
    assert_int_equal(e->ids[e->count - 1], 2);
    attn_encoding_destroy(e);
    attn_tokenizer_destroy(t);
    free(text);
}

/* 200 thousand marks on one letter, above it and below it by turns: minutes if they were put in order one by one. Those below come
   first. */
static void test_marks(void **state)
{
    (void)state;
    enum { MARKS = 200000, WITHIN = 20 };
    static const char json[] = "{\"normalizer\": {\"type\": \"NFD\"}, \"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, "
                               "\"\xcc\x81\": 1, \"\xcc\xa3\": 2}, \"merges\": []}}";
    char path[256], err[300] = "", *text = malloc(2 * MARKS + 2);
    attn_tokenizer *t = NULL;
    assert_non_null(text);
    write_file(path, "tokenizer.json", json, strlen(json));
    assert_int_equal(attn_tokenizer_open(&t, path, err, sizeof err), ATTN_OK);
    remove_file(path);
    text[0] = 'a';
    for (int i = 0; i < MARKS; i++)
        memcpy(text + 1 + 2 * i, i % 2 ? "\xcc\xa3" : "\xcc\x81", 2);
    text[2 * MARKS + 1] = '\0';
    alarm(WITHIN);
    attn_encoding *e = encoded(t, text, 0);
    alarm(0);
    assert_int_equal(e->count, MARKS + 1);
    for (int i = 0; i <= MARKS; i++)
        assert_int_equal(e->ids[i], i == 0 ? 0 : i <= MARKS / 2 ? 2 : 1);
    assert_int_equal(e->start[1], 3); /* the first mark below */
    attn_encoding_destroy(e);
    attn_tokenizer_destroy(t);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_json), cmocka_unit_test(test_deep), cmocka_unit_test(test_arguments),
                                       cmocka_unit_test(test_long_word), cmocka_unit_test(test_marks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
