/* SPDX-License-Identifier: Apache-2.0 */
/* The hash of vocabularies: SipHash-1-3 by the numbers of another implementation (CPython's of bytes, whose key is 0 with
   PYTHONHASHSEED=0), and a key that nobody can know. */
#include "../../src/text/hash.h"
#include "support.h"

static void test_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t hash;
    } known[] = {
        {"a", 0x407448d2b89b1813U},
        {"abc", 0xc03bc3a0042630f2U},
        {"seven_7", 0x1c633bbe065f793fU},
        {"abcdefgh", 0x3f7b849c0b8e35eaU},
        {"abcdefghi", 0xf89b34a3d11eb6e5U},
        {"the quick brown fox jumps", 0x00c98b97e4f70042U}
    };
    const struct hash_key zero = {{0, 0}}, one = {{0, 1}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        assert_true(attn_hash(&zero, known[i].text, strlen(known[i].text)) == known[i].hash);
        assert_true(attn_hash(&one, known[i].text, strlen(known[i].text)) != known[i].hash);
    }
}

static void test_key(void **state)
{
    (void)state;
    const struct hash_key a = attn_hash_key(), b = attn_hash_key();
    assert_true(a.k[0] != b.k[0] && a.k[1] != b.k[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_numbers), cmocka_unit_test(test_key)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
