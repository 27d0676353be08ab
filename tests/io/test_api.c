/* SPDX-License-Identifier: Apache-2.0 */
/* What a C program sees: views, names, sentences, strides, a set that is given up. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "attn/attn_io.h"

#define FORTRAN "\x93NUMPY\x01\x00\x3a\x00{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }"

static char err[400];

static attn_file *from_text(attn_format format, const char *text, size_t size)
{
    attn_file *f;
    assert_int_equal(attn_file_from_memory(&f, format, text, size, "in", err, sizeof err), ATTN_OK);
    return f;
}

static void test_formats(void **state)
{
    (void)state;
    assert_int_equal(attn_format_of("a.npy"), ATTN_FORMAT_NPY);
    assert_int_equal(attn_format_of("a.b.NpZ"), ATTN_FORMAT_NPZ);
    assert_int_equal(attn_format_of("a.safetensors"), ATTN_FORMAT_SAFETENSORS);
    assert_int_equal(attn_format_of("a.safetensors.index.json"), ATTN_FORMAT_SAFETENSORS_INDEX);
    assert_int_equal(attn_format_of("a.csv"), ATTN_FORMAT_CSV);
    assert_int_equal(attn_format_of("a.txt"), ATTN_FORMAT_CSV);
    assert_int_equal(attn_format_of("a.GGUF"), ATTN_FORMAT_GGUF);
    assert_int_equal(attn_format_of("-"), ATTN_FORMAT_NPY);
    assert_int_equal(attn_format_of("npy"), ATTN_FORMAT_UNKNOWN);
    assert_int_equal(attn_format_of("a.json"), ATTN_FORMAT_UNKNOWN);
    assert_int_equal(attn_format_of(""), ATTN_FORMAT_UNKNOWN);
}

static void test_fortran_order_is_a_view(void **state)
{
    static const char text[] = FORTRAN "abcdef";
    attn_tensor t;
    attn_file *f = from_text(ATTN_FORMAT_NPY, text, sizeof text - 1);
    (void)state;
    assert_int_equal(attn_file_format(f), ATTN_FORMAT_NPY);
    assert_int_equal(attn_file_count(f), 1);
    assert_string_equal(attn_file_info(f, 0).name, "");
    assert_string_equal(attn_file_info(f, 0).dtype_name, "u8");
    assert_null(attn_file_info(f, 1).name);
    assert_int_equal(attn_file_find(f, ""), 0);
    assert_int_equal(attn_file_tensor(f, 0, &t, err, sizeof err), ATTN_OK);
    assert_ptr_equal(t.data, text + sizeof FORTRAN - 1);
    assert_int_equal(t.dtype, ATTN_U8);
    assert_int_equal(t.ndim, 2);
    assert_int_equal(t.shape[0], 2);
    assert_int_equal(t.shape[1], 3);
    assert_int_equal(t.stride[0], 1);
    assert_int_equal(t.stride[1], 2);
    assert_int_equal(attn_file_tensor(f, 1, &t, err, sizeof err), ATTN_E_ARG);
    assert_string_equal(err, "in: there is no array 1; the file has 1");
    attn_file_close(f);
    attn_file_close(NULL);
}

static void test_misaligned_numbers_are_copied_once(void **state)
{
    static const char header[] = "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                                 "\"b\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[1,9]}}";
    const double want = -1.25;
    char bytes[8 + sizeof header - 1 + 9] = {0};
    attn_tensor t, again;
    (void)state;
    bytes[0] = (char)(sizeof header - 1);
    memcpy(bytes + 8, header, sizeof header - 1);
    memcpy(bytes + sizeof bytes - 8, &want, 8);
    attn_file *f = from_text(ATTN_FORMAT_SAFETENSORS, bytes, sizeof bytes);
    assert_int_equal(attn_file_named(f, "b", &t, err, sizeof err), ATTN_OK);
    assert_int_equal((uintptr_t)t.data % 8, 0);
    assert_true(*(double *)t.data == want);
    assert_int_equal(attn_file_named(f, "b", &again, err, sizeof err), ATTN_OK);
    assert_ptr_equal(again.data, t.data);
    assert_int_equal(attn_file_find(f, "c"), -1);
    assert_int_equal(attn_file_named(f, "c", &t, err, sizeof err), ATTN_E_ARG);
    assert_string_equal(err, "in: there is no array 'c'; the file has a, b");
    attn_file_close(f);
}

static void test_sentences(void **state)
{
    char small[10];
    attn_file *f = (attn_file *)small;
    attn_tensor t;
    (void)state;
    assert_int_equal(attn_file_from_memory(&f, ATTN_FORMAT_CSV, "x", 1, "a\tb.csv", small, sizeof small), ATTN_E_FORMAT);
    assert_null(f);
    assert_string_equal(small, "a?b.csv: ");
    assert_int_equal(attn_file_from_memory(&f, ATTN_FORMAT_CSV, "x", 1, "b.csv", NULL, 0), ATTN_E_FORMAT);
    assert_int_equal(attn_file_from_memory(&f, ATTN_FORMAT_CSV, "x", 1, "b.csv", small, 0), ATTN_E_FORMAT);
    assert_int_equal(attn_file_from_memory(&f, ATTN_FORMAT_UNKNOWN, "x", 1, "b", err, sizeof err), ATTN_E_UNSUPPORTED);
    f = from_text(ATTN_FORMAT_SAFETENSORS, "\x02\0\0\0\0\0\0\0{}", 10);
    assert_int_equal(attn_file_count(f), 0);
    assert_int_equal(attn_file_named(f, "q", &t, err, sizeof err), ATTN_E_ARG);
    assert_string_equal(err, "in: there is no array 'q'; the file has none");
    attn_file_close(f);
}

static void test_long_lists_of_names_are_cut(void **state)
{
    char text[4096] = "\0\0\0\0\0\0\0\0{";
    size_t n = 9;
    attn_tensor t;
    (void)state;
    for (int length = 1; length < 40; length++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s\"%0*d\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}",
                              length > 1 ? "," : "", length, length % 10);
    text[n++] = '}';
    text[0] = (char)((n - 8) & 0xff);
    text[1] = (char)((n - 8) >> 8);
    attn_file *f = from_text(ATTN_FORMAT_SAFETENSORS, text, n);
    assert_int_equal(attn_file_named(f, "q", &t, err, sizeof err), ATTN_E_ARG);
    assert_true(strlen(err) > 200 && strcmp(err + strlen(err) - 5, ", ...") == 0);
    attn_file_close(f);
}

/* ---- writing ---- */

static const char *folder;

static const char *in_folder(const char *name)
{
    static char path[300];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static attn_outputs *new_outputs(void)
{
    attn_outputs *o;
    assert_int_equal(attn_outputs_create(&o, err, sizeof err), ATTN_OK);
    return o;
}

static void check_file(const char *name, const void *bytes, size_t size)
{
    static char got[400000];
    FILE *file = fopen(in_folder(name), "rb");
    assert_non_null(file);
    assert_int_equal(fread(got, 1, sizeof got, file), size);
    fclose(file);
    assert_memory_equal(got, bytes, size);
    unlink(in_folder(name));
}

static void test_any_strides(void **state)
{
    static int32_t numbers[] = {1, 2, 3, 4, 5, 6};
    attn_outputs *o = new_outputs();
    attn_tensor backwards = {.data = numbers + 5, .dtype = ATTN_I32, .ndim = 2, .shape = {3, 2}, .stride = {-2, -1}};
    attn_tensor spread = {.data = numbers, .dtype = ATTN_I32, .ndim = 2, .shape = {2, 3}, .stride = {0, 2}};
    (void)state;
    assert_int_equal(attn_outputs_arrays(o, in_folder("backwards.csv"), 1, NULL, &backwards, err, sizeof err), ATTN_OK);
    assert_int_equal(attn_outputs_arrays(o, in_folder("spread.csv"), 1, NULL, &spread, err, sizeof err), ATTN_OK);
    assert_int_equal(attn_outputs_arrays(o, in_folder("spread.npy"), 1, NULL, &spread, err, sizeof err), ATTN_OK);
    numbers[0] = 7; /* the numbers are read at commit */
    assert_int_equal(attn_outputs_commit(o, err, sizeof err), ATTN_OK);
    attn_outputs_destroy(o);
    check_file("backwards.csv", "6,5\n4,3\n2,7\n", 12);
    check_file("spread.csv", "7,3,5\n7,3,5\n", 12);
    attn_file *f;
    attn_tensor t;
    assert_int_equal(attn_file_open(&f, in_folder("spread.npy"), err, sizeof err), ATTN_OK);
    assert_int_equal(attn_file_tensor(f, 0, &t, err, sizeof err), ATTN_OK);
    assert_memory_equal(t.data, ((const int32_t[]){7, 3, 5, 7, 3, 5}), 24);
    attn_file_close(f);
    unlink(in_folder("spread.npy"));
}

/* 2^41 elements to a full device: nothing is read after the first write that fails. */
static void test_the_first_error_ends_it(void **state)
{
    char byte = 0;
    const attn_tensor t = {.data = &byte, .dtype = ATTN_U8, .ndim = 2, .shape = {2, INT64_C(1) << 40}, .stride = {0, 0}};
    attn_outputs *o = new_outputs();
    (void)state;
    if (access("/dev/full", W_OK) != 0)
        skip();
    assert_int_equal(attn_outputs_arrays(o, "/dev/full", 1, NULL, &t, err, sizeof err), ATTN_OK);
    alarm(60);
    assert_int_equal(attn_outputs_commit(o, err, sizeof err), ATTN_E_IO);
    alarm(0);
    assert_non_null(strstr(err, "No space left"));
    attn_outputs_destroy(o);
}

/* The stride of an axis of size 1 is never used: a sanitizer sees it overflow where it is. */
static void test_strides_of_single_axes(void **state)
{
    static const uint8_t numbers[] = {1, 2, 3, 4};
    attn_outputs *o = new_outputs();
    const attn_tensor t = {
        .data = (void *)(uintptr_t)numbers, .dtype = ATTN_U8, .ndim = 3, .shape = {2, 2, 1}, .stride = {1, 2, INT64_MAX}};
    (void)state;
    assert_int_equal(attn_outputs_arrays(o, in_folder("a.safetensors"), 1, (const char *const[]){"a"}, &t, err, sizeof err), ATTN_OK);
    assert_int_equal(attn_outputs_commit(o, err, sizeof err), ATTN_OK);
    attn_outputs_destroy(o);
    attn_file *f;
    attn_tensor got;
    assert_int_equal(attn_file_open(&f, in_folder("a.safetensors"), err, sizeof err), ATTN_OK);
    assert_int_equal(attn_file_tensor(f, 0, &got, err, sizeof err), ATTN_OK);
    assert_memory_equal(got.data, ((const uint8_t[]){1, 3, 2, 4}), 4);
    attn_file_close(f);
    unlink(in_folder("a.safetensors"));
}

/* Of every format with a frame: the whole is read, no beginning of it is. */
static void test_every_truncation(void **state)
{
    static const char *const files[] = {"t.npy", "t.npz", "t.safetensors"}, *const names[] = {"a"};
    static double numbers[3] = {1, 2, 3};
    const attn_tensor t = attn_tensor_of(numbers, ATTN_F64, 1, (const int64_t[]){3});
    (void)state;
    for (int i = 0; i < 3; i++) {
        char bytes[1000];
        attn_file *f;
        attn_outputs *o = new_outputs();
        assert_int_equal(attn_outputs_arrays(o, in_folder(files[i]), 1, names, &t, err, sizeof err), ATTN_OK);
        assert_int_equal(attn_outputs_commit(o, err, sizeof err), ATTN_OK);
        attn_outputs_destroy(o);
        FILE *file = fopen(in_folder(files[i]), "rb");
        assert_non_null(file);
        const size_t size = fread(bytes, 1, sizeof bytes, file);
        fclose(file);
        unlink(in_folder(files[i]));
        for (size_t n = 0; n <= size; n++) {
            char *copy = malloc(n ? n : 1);
            assert_non_null(copy);
            memcpy(copy, bytes, n);
            assert_int_equal(attn_file_from_memory(&f, attn_format_of(files[i]), copy, n, files[i], err, sizeof err),
                             n < size ? ATTN_E_FORMAT : ATTN_OK);
            attn_file_close(f);
            free(copy);
        }
    }
}

static void test_wrong_arguments(void **state)
{
    char byte = 0;
    const attn_tensor good = {.data = &byte, .dtype = ATTN_U8};
    attn_tensor t = good;
    const char *const same[] = {"a", "a"}, *const latin1[] = {"\xe9"}, *const none[] = {""}, *const taken[] = {"__metadata__"};
    const attn_tensor two[] = {good, good};
    const char *npz = "never.npz", *npy = "never.npy";
    attn_outputs *o = new_outputs();
    (void)state;
    assert_int_equal(attn_outputs_arrays(o, npz, 2, same, two, err, sizeof err), ATTN_E_ARG);
    assert_int_equal(attn_outputs_arrays(o, npz, 1, latin1, two, err, sizeof err), ATTN_E_ARG);
    assert_int_equal(attn_outputs_arrays(o, npz, 1, none, two, err, sizeof err), ATTN_E_ARG);
    assert_int_equal(attn_outputs_arrays(o, npz, 1, taken, two, err, sizeof err), ATTN_E_ARG);
    assert_int_equal(attn_outputs_arrays(o, npz, 1, NULL, two, err, sizeof err), ATTN_E_ARG);
    assert_int_equal(attn_outputs_arrays(o, npy, 0, NULL, two, err, sizeof err), ATTN_E_ARG);
    t.dtype = (attn_dtype)99;
    assert_int_equal(attn_outputs_arrays(o, npy, 1, NULL, &t, err, sizeof err), ATTN_E_DTYPE);
    t = (attn_tensor){.data = &byte, .dtype = ATTN_U8, .ndim = 1, .shape = {-1}};
    assert_int_equal(attn_outputs_arrays(o, npy, 1, NULL, &t, err, sizeof err), ATTN_E_SHAPE);
    t = (attn_tensor){.data = &byte, .dtype = ATTN_F64, .ndim = 2, .shape = {INT64_C(1) << 31, INT64_C(1) << 31}};
    assert_int_equal(attn_outputs_arrays(o, npy, 1, NULL, &t, err, sizeof err), ATTN_E_SHAPE);
    t = (attn_tensor){.data = NULL, .dtype = ATTN_F64};
    assert_int_equal(attn_outputs_arrays(o, npy, 1, NULL, &t, err, sizeof err), ATTN_E_ARG);
    for (int i = 0; i < ATTN_OUTPUTS_MAX; i++)
        assert_int_equal(attn_outputs_bytes(o, "/dev/null", "", 0, err, sizeof err), ATTN_OK);
    assert_int_equal(attn_outputs_bytes(o, "/dev/null", "", 0, err, sizeof err), ATTN_E_ARG);
    assert_int_equal(attn_outputs_commit(o, err, sizeof err), ATTN_OK);
    assert_int_equal(access("never.npz", F_OK), -1);
    attn_outputs_destroy(o);
}

static void test_given_up(void **state)
{
    attn_outputs *o = new_outputs();
    (void)state;
    assert_int_equal(attn_outputs_bytes(o, in_folder("a"), "text", 4, err, sizeof err), ATTN_OK);
    assert_int_equal(attn_outputs_bytes(o, in_folder("b"), "text", 4, err, sizeof err), ATTN_OK);
    errno = 77;
    attn_outputs_unlink(o);
    assert_int_equal(errno, 77);
    assert_int_equal(rmdir(folder), 0); /* empty: both temporaries are gone */
    attn_outputs_destroy(o);
    assert_int_equal(mkdir(folder, 0700), 0);
    o = new_outputs();
    assert_int_equal(attn_outputs_bytes(o, in_folder("a"), "text", 4, err, sizeof err), ATTN_OK);
    attn_outputs_destroy(o);
    assert_int_equal(rmdir(folder), 0);
    assert_int_equal(mkdir(folder, 0700), 0);
    attn_outputs_unlink(NULL);
    attn_outputs_destroy(NULL);
}

static void test_a_rename_that_fails_half_way(void **state)
{
    char in_the_way[300];
    attn_outputs *o = new_outputs();
    (void)state;
    assert_int_equal(attn_outputs_bytes(o, in_folder("a"), "A", 1, err, sizeof err), ATTN_OK);
    assert_int_equal(attn_outputs_bytes(o, in_folder("b"), "B", 1, err, sizeof err), ATTN_OK);
    assert_int_equal(attn_outputs_bytes(o, in_folder("c"), "C", 1, err, sizeof err), ATTN_OK);
    strcpy(in_the_way, in_folder("b"));
    assert_int_equal(mkdir(in_the_way, 0700), 0);
    assert_int_equal(attn_outputs_commit(o, err, sizeof err), ATTN_E_IO);
    assert_non_null(strstr(err, "/b: cannot rename"));
    assert_non_null(strstr(err, "already replaced: "));
    assert_non_null(strstr(err, "/a: Is a directory"));
    attn_outputs_destroy(o);
    rmdir(in_the_way);
    assert_int_equal(access(in_folder("c"), F_OK), -1);
    check_file("a", "A", 1);
    assert_int_equal(rmdir(folder), 0);
    assert_int_equal(mkdir(folder, 0700), 0);
}

/* A file of `pieces` pieces of text, or what goes wrong in its middle. */
struct made {
    int pieces, calls;
    attn_status fails;
};

static attn_status make(void *user, attn_stream *to, char *text, size_t size)
{
    struct made *m = user;
    m->calls++;
    for (int i = 0; i < m->pieces; i++) {
        if (i == m->pieces / 2 && m->fails != ATTN_OK) {
            snprintf(text, size, "half way");
            return m->fails;
        }
        const attn_status s = attn_stream_write(to, "piece ", 6);
        if (s != ATTN_OK)
            return s;
    }
    return ATTN_OK;
}

static void test_a_file_made_while_it_is_written(void **state)
{
    enum { MANY = 50000 };
    static char whole[6 * MANY + 1];
    struct made all = {.pieces = MANY}, half = {.pieces = MANY, .fails = ATTN_E_CANCELLED};
    attn_outputs *o = new_outputs();
    (void)state;
    for (int i = 0; i < MANY; i++)
        memcpy(whole + 6 * i, "piece ", 6);
    assert_int_equal(attn_outputs_stream(o, in_folder("a"), make, &all, err, sizeof err), ATTN_OK);
    assert_int_equal(attn_outputs_stream(o, in_folder("a"), make, &all, err, sizeof err), ATTN_E_ARG);
    assert_int_equal(all.calls, 0);
    assert_int_equal(attn_outputs_commit(o, err, sizeof err), ATTN_OK);
    assert_int_equal(all.calls, 1);
    check_file("a", whole, 6 * MANY);

    assert_int_equal(attn_outputs_bytes(o, in_folder("b"), "text", 4, err, sizeof err), ATTN_OK);
    assert_int_equal(attn_outputs_stream(o, in_folder("a"), make, &half, err, sizeof err), ATTN_OK);
    assert_int_equal(attn_outputs_commit(o, err, sizeof err), ATTN_E_CANCELLED);
    assert_string_equal(err, "half way");
    assert_int_equal(rmdir(folder), 0); /* empty: nothing is left */
    assert_int_equal(mkdir(folder, 0700), 0);

    assert_int_equal(attn_outputs_stream(o, "/dev/full", make, &all, err, sizeof err), ATTN_OK);
    assert_int_equal(attn_outputs_commit(o, err, sizeof err), ATTN_E_IO);
    assert_non_null(strstr(err, "/dev/full: cannot write: No space left on device"));
    attn_outputs_destroy(o);
}

/* A set is empty after its commit and can be used again; the caller's signal mask is as it was. */
static void test_again(void **state)
{
    sigset_t before, after;
    attn_outputs *o = new_outputs();
    (void)state;
    sigprocmask(SIG_BLOCK, NULL, &before);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(attn_outputs_bytes(o, in_folder("a"), "text", (size_t)i, err, sizeof err), ATTN_OK);
        assert_int_equal(attn_outputs_commit(o, err, sizeof err), ATTN_OK);
    }
    sigprocmask(SIG_BLOCK, NULL, &after);
    for (int s = 1; s < 32; s++)
        assert_int_equal(sigismember(&before, s), sigismember(&after, s));
    assert_false(sigismember(&after, SIGPIPE) || sigismember(&after, SIGXFSZ)); /* nor has an earlier commit kept them */
    assert_int_equal(attn_outputs_commit(o, err, sizeof err), ATTN_OK);
    attn_outputs_destroy(o);
    check_file("a", "te", 2);
}

int main(void)
{
    static char name[] = "outputs-XXXXXX";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formats),
        cmocka_unit_test(test_fortran_order_is_a_view),
        cmocka_unit_test(test_misaligned_numbers_are_copied_once),
        cmocka_unit_test(test_sentences),
        cmocka_unit_test(test_long_lists_of_names_are_cut),
        cmocka_unit_test(test_any_strides),
        cmocka_unit_test(test_the_first_error_ends_it),
        cmocka_unit_test(test_strides_of_single_axes),
        cmocka_unit_test(test_every_truncation),
        cmocka_unit_test(test_wrong_arguments),
        cmocka_unit_test(test_given_up),
        cmocka_unit_test(test_a_rename_that_fails_half_way),
        cmocka_unit_test(test_a_file_made_while_it_is_written),
        cmocka_unit_test(test_again),
    };
    folder = mkdtemp(name);
    const int failed = folder == NULL ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
    return rmdir(name) != 0 || failed;
}
