/* SPDX-License-Identifier: Apache-2.0 */
/* Memory runs out at every allocation of every reader and writer in turn: ATTN_E_NOMEM, one sentence, nothing leaked, nothing left behind.
   The linker sends malloc, calloc, realloc and free of our own code here (--wrap), jansson is told by its own hook. libzip keeps its own.
 */
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "attn/attn_io.h"

/* ---- an allocator that fails once, at the call numbered fail_at ---- */

static long calls, fail_at, live;

void *io_malloc(size_t size);
void *io_calloc(size_t count, size_t size);
void *io_realloc(void *p, size_t size);
void io_free(void *p);

static int fails(void) { return ++calls == fail_at; }

static void *counted(void *p)
{
    live += p != NULL;
    return p;
}

void *io_malloc(size_t size) { return fails() ? NULL : counted(malloc(size)); }
void *io_calloc(size_t count, size_t size) { return fails() ? NULL : counted(calloc(count, size)); }

void *io_realloc(void *p, size_t size)
{
    if (fails())
        return NULL;
    return p ? realloc(p, size) : counted(malloc(size));
}

void io_free(void *p)
{
    live -= p != NULL;
    free(p);
}

static int start_over(long n)
{
    calls = live = 0;
    fail_at = n;
    return 0;
}

/* Runs action with the 1st, 2nd, ... allocation failing, until it gets by without meeting the failure. */
static void fail_everywhere(attn_status (*action)(void *user, char *err, size_t size), void *user, long at_least)
{
    long n = 0;
    for (int met = 1; met;) {
        char err[300] = "";
        start_over(++n);
        const attn_status s = action(user, err, sizeof err);
        met = calls >= fail_at;
        assert_int_equal(live, 0);
        assert_int_equal(s, met ? ATTN_E_NOMEM : ATTN_OK);
        assert_true(!met || strstr(err, "out of memory") != NULL);
        assert_true(met || err[0] == '\0');
    }
    assert_true(n > at_least);
}

/* ---- a write that takes nothing ---- */

static int writes_nothing;

ssize_t io_write(int fd, const void *bytes, size_t size);
ssize_t io_write(int fd, const void *bytes, size_t size) { return writes_nothing ? 0 : write(fd, bytes, size); }

/* ---- readers ---- */

struct content {
    attn_format format;
    const void *bytes;
    size_t size;
};

static attn_status read_everything(void *user, char *err, size_t size)
{
    const struct content *c = user;
    attn_file *f;
    attn_tensor t;
    attn_status s = attn_file_from_memory(&f, c->format, c->bytes, c->size, "in", err, size);
    for (size_t i = 0; s == ATTN_OK && i < attn_file_count(f); i++)
        s = attn_file_tensor(f, i, &t, err, size);
    attn_file_close(f);
    return s;
}

static void test_npy(void **state)
{
    /* Big-endian, so that the numbers are copied. */
    static const char text[] =
        "\x93NUMPY\x01\x00\x3b\x00{'descr': '>f4', 'fortran_order': False, 'shape': (2, 3), }123456789012345678901234";
    struct content c = {ATTN_FORMAT_NPY, text, sizeof text - 1};
    (void)state;
    fail_everywhere(read_everything, &c, 4);
}

static void test_safetensors(void **state)
{
    static const char header[] =
        "{\"__metadata__\":{\"a\":\"\\u00e9\",\"b\":\"2\"},\"x\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
        "\"\\u00e9\":{\"dtype\":\"U8\",\"shape\":[2,0],\"data_offsets\":[4,4]}}";
    char bytes[8 + sizeof header - 1 + 4] = {0};
    struct content c = {ATTN_FORMAT_SAFETENSORS, bytes, sizeof bytes};
    (void)state;
    bytes[0] = (char)(sizeof header - 1);
    memcpy(bytes + 8, header, sizeof header - 1);
    fail_everywhere(read_everything, &c, 30);
}

static void test_gguf(void **state)
{
    static const char head[] = "GGUF\3\0\0\0\2\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0"
                               "\1\0\0\0\0\0\0\0k\7\0\0\0\1" /* k = true */
                               "\1\0\0\0\0\0\0\0x\1\0\0\0\2\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
                               "\1\0\0\0\0\0\0\0y\1\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\40\0\0\0\0\0\0\0";
    char bytes[164] = {0}; /* the numbers begin at 128 */
    struct content c = {ATTN_FORMAT_GGUF, bytes, sizeof bytes};
    (void)state;
    memcpy(bytes, head, sizeof head - 1);
    fail_everywhere(read_everything, &c, 9);
}

static void test_csv(void **state)
{
    struct content c = {ATTN_FORMAT_CSV, "1,2\n3,4\n", 8};
    (void)state;
    fail_everywhere(read_everything, &c, 6);
}

/* ---- writers, and what they wrote read back ---- */

static const char *folder;

static char *path_of(const char *name)
{
    static char path[4][300];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
    return path[turn];
}

static attn_status write_everything(void *user, char *err, size_t size)
{
    const char *const names[] = {"a", "\xc3\xa9"};
    static float numbers[6];
    const int64_t shape[] = {2, 3};
    const attn_tensor t = attn_tensor_of(numbers, ATTN_F32, 2, shape);
    const attn_tensor both[] = {t, attn_tensor_permute(&t, (const int32_t[]){1, 0})};
    attn_outputs *o;
    (void)user;
    attn_status s = attn_outputs_create(&o, err, size);
    if (s == ATTN_OK)
        s = attn_outputs_arrays(o, path_of("o.npz"), 2, names, both, err, size);
    if (s == ATTN_OK)
        s = attn_outputs_arrays(o, path_of("o.safetensors"), 2, names, both, err, size);
    if (s == ATTN_OK)
        s = attn_outputs_arrays(o, path_of("o.csv"), 1, NULL, both, err, size);
    if (s == ATTN_OK)
        s = attn_outputs_bytes(o, "/dev/null", "text", 4, err, size);
    if (s == ATTN_OK)
        s = attn_outputs_commit(o, err, size);
    attn_outputs_destroy(o);
    assert_true(s == ATTN_OK || access(path_of("o.csv"), F_OK) != 0);
    return s;
}

static attn_status open_everything(void *user, char *err, size_t size)
{
    attn_file *f;
    attn_tensor t;
    attn_status s = attn_file_open(&f, user, err, size);
    for (size_t i = 0; s == ATTN_OK && i < attn_file_count(f); i++)
        s = attn_file_tensor(f, i, &t, err, size);
    attn_file_close(f);
    return s;
}

static void test_outputs(void **state)
{
    static const char index_text[] = "{\"weight_map\": {\"a\": \"o.safetensors\", \"\\u00e9\": \"o.safetensors\"}}";
    char err[300];
    attn_outputs *o;
    (void)state;
    fail_everywhere(write_everything, NULL, 40);
    start_over(0);
    assert_int_equal(attn_outputs_create(&o, err, sizeof err), ATTN_OK);
    const char *index = path_of("o.safetensors.index.json");
    assert_int_equal(attn_outputs_bytes(o, index, index_text, sizeof index_text - 1, err, sizeof err), ATTN_OK);
    assert_int_equal(attn_outputs_commit(o, err, sizeof err), ATTN_OK);
    attn_outputs_destroy(o);
    fail_everywhere(open_everything, path_of("o.npz"), 8);
    fail_everywhere(open_everything, path_of("o.safetensors"), 8);
    fail_everywhere(open_everything, path_of("o.safetensors.index.json"), 20);
    fail_everywhere(open_everything, path_of("o.csv"), 6);
    for (int i = 0; i < 4; i++)
        unlink(path_of((const char *const[]){"o.npz", "o.safetensors", "o.safetensors.index.json", "o.csv"}[i]));
}

static void test_a_write_of_nothing(void **state)
{
    char err[300] = "";
    attn_outputs *o;
    (void)state;
    start_over(0);
    assert_int_equal(attn_outputs_create(&o, err, sizeof err), ATTN_OK);
    assert_int_equal(attn_outputs_bytes(o, "/dev/null", "text", 4, err, sizeof err), ATTN_OK);
    writes_nothing = 1;
    alarm(60); /* it once tried for ever */
    assert_int_equal(attn_outputs_commit(o, err, sizeof err), ATTN_E_IO);
    alarm(0);
    writes_nothing = 0;
    attn_outputs_destroy(o);
    assert_string_equal(err, "/dev/null: cannot write: Input/output error");
    assert_int_equal(live, 0);
}

int main(void)
{
    static char name[] = "memory-XXXXXX";
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_npy), cmocka_unit_test(test_safetensors), cmocka_unit_test(test_csv),
                                       cmocka_unit_test(test_gguf),
                                       cmocka_unit_test(test_outputs), cmocka_unit_test(test_a_write_of_nothing)};
    folder = mkdtemp(name);
    json_set_alloc_funcs(io_malloc, io_free);
    const int failed = folder == NULL ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
    return rmdir(name) != 0 || failed; /* not empty: something was left behind */
}
