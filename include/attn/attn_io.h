/* SPDX-License-Identifier: Apache-2.0 */
/* libattn_io: arrays from files and into files.
 *
 *     suffix                     read                                          written
 *     .npy                       NumPy format 1, 2, 3; C or Fortran order;     format 1, C order
 *                                both byte orders; bf16 is <V2
 *     .npz                       zip of .npy, stored or deflated               stored
 *     .safetensors               mapped; every dtype checked                   yes
 *     .safetensors.index.json    the shards that it names, as one file         -
 *     .gguf                      version 2 and 3, little endian; mapped        -
 *     .csv .txt                  a table of numbers, always f64, rank 2        rank 0, 1, 2
 *
 * Suffixes are read without regard to case. "-" is standard input or output, as .npy; so is a pipe or device whose name has no
 * suffix of the table. Files are never trusted: sizes are checked against what is there before anything is allocated.
 *
 * The library never prints, aborts, exits or changes global state (no locale, no signal handler, no umask). Every function that can fail
 * takes err and err_size: on failure err (unless NULL) receives one sentence, cut to err_size bytes with its 0, that names the file;
 * control characters that a file's names may hold are shown as '?'. On success err is not touched. */
#ifndef ATTN_ATTN_IO_H
#define ATTN_ATTN_IO_H

#include "attn/attn.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The values never change. */
typedef enum attn_format {
    ATTN_FORMAT_UNKNOWN = 0,
    ATTN_FORMAT_NPY = 1,
    ATTN_FORMAT_NPZ = 2,
    ATTN_FORMAT_SAFETENSORS = 3,
    ATTN_FORMAT_SAFETENSORS_INDEX = 4,
    ATTN_FORMAT_CSV = 5,
    ATTN_FORMAT_GGUF = 6
} attn_format;

/* By the suffix alone; "-", /dev/stdin and /dev/stdout are ATTN_FORMAT_NPY; any other name is ATTN_FORMAT_UNKNOWN. */
ATTN_API attn_format attn_format_of(const char *path);

/* --------------------------------------------------------------- reading ---- */

/* A file of named arrays. One thread at a time; different files are independent. */
typedef struct attn_file attn_file;

/* *out = the arrays of the file at path, NULL on failure. Everything but the numbers themselves is checked here.
   Regular files are mapped, not copied: do not shorten them while they are open (a new file renamed over the old one is harmless).
   Pipes and "-" are read into memory; from a pipe of .npy only the array's own bytes are taken.
   .npy: bytes after the array are ignored, as NumPy does. .npz: entries whose name does not end in .npy are ignored.
   .csv: cells separated by ';', ',' or tab (the first of these that the first row has), else by blanks; '#' starts a comment; blank
   lines, CRLF and a byte-order mark are fine; the decimal point is '.'; inf and nan are numbers.
   ATTN_E_IO: the operating system's reason. ATTN_E_FORMAT: malformed, truncated or hostile. ATTN_E_DTYPE: a .npy of a dtype that is not
   read. ATTN_E_UNSUPPORTED: a suffix that is not in the table above. ATTN_E_NOMEM. */
ATTN_API attn_status attn_file_open(attn_file **out, const char *path, char *err, size_t err_size);

/* The same from memory, which must stay until attn_file_close. name stands for the path in sentences; the shards of an index are looked
   for in its folder. */
ATTN_API attn_status attn_file_from_memory(attn_file **out, attn_format format, const void *bytes, size_t size, const char *name, char *err,
                                           size_t err_size);

/* Frees everything that was read from f. NULL is fine. */
ATTN_API void attn_file_close(attn_file *f);

ATTN_API attn_format attn_file_format(const attn_file *f);

/* How many arrays f has: 1 for .npy and .csv; 0 is possible. */
ATTN_API size_t attn_file_count(const attn_file *f);

/* What the file says about one array. The pointers stay valid until attn_file_close. */
typedef struct attn_array_info {
    const char *name;       /* UTF-8; "" for the one array of a .npy or .csv */
    const char *dtype_name; /* "f32"; for a dtype that is not read, the file's own word: "F8_E4M3", "<U10" */
    attn_dtype dtype;       /* 0 for a dtype that is not read */
    int32_t ndim;           /* more than ATTN_MAX_DIMS is possible; then shape holds the first ones */
    int64_t shape[ATTN_MAX_DIMS];
} attn_array_info;

/* All-zero when i is not below attn_file_count. Arrays come in the file's order (an index: in its order). */
ATTN_API attn_array_info attn_file_info(const attn_file *f, size_t i);

/* The index of the array of that name, or -1. */
ATTN_API int64_t attn_file_find(const attn_file *f, const char *name);

/* *t = a view of array i, valid until attn_file_close; read only: writing to it may end the process. Fortran order is a strided view.
   Copied, once, at the first call: arrays of a .npz, of the other byte order, or misaligned in their file. data is aligned to the
   element size, NULL when there is no element.
   ATTN_E_DTYPE: a dtype that is not read, or blocks of a .gguf (attn_gguf_rows reads those).
   ATTN_E_SHAPE: more than ATTN_MAX_DIMS axes. ATTN_E_FORMAT: a damaged .npz entry.
   ATTN_E_ARG: no array i. ATTN_E_NOMEM. */
ATTN_API attn_status attn_file_tensor(attn_file *f, size_t i, attn_tensor *t, char *err, size_t err_size);

/* attn_file_tensor of the array called name. ATTN_E_ARG: there is none; the sentence lists those there are. */
ATTN_API attn_status attn_file_named(attn_file *f, const char *name, attn_tensor *t, char *err, size_t err_size);

/* Gives back the memory that reading a mapped file has taken: its pages, which the system reads again where a view is used. Views stay
   valid. For who has copied or converted what was read, and keeps the file. */
ATTN_API void attn_file_forget(const attn_file *f);

/* ------------------------------------------------------------------ GGUF ---- */

/* A .gguf (the files of llama.cpp) is a file of tensors like any other, in NumPy's order of axes, and has values by key besides. Tensors
   that are stored in blocks have dtype 0 and the block's name, "Q4_K", for dtype_name.
   Refused by name: version 1, big-endian files, arrays of arrays. */

/* The values are the format's own. */
typedef enum attn_gguf_type {
    ATTN_GGUF_U8 = 0,
    ATTN_GGUF_I8 = 1,
    ATTN_GGUF_U16 = 2,
    ATTN_GGUF_I16 = 3,
    ATTN_GGUF_U32 = 4,
    ATTN_GGUF_I32 = 5,
    ATTN_GGUF_F32 = 6,
    ATTN_GGUF_BOOL = 7,
    ATTN_GGUF_STRING = 8,
    ATTN_GGUF_ARRAY = 9, /* never in attn_gguf_value: is_array says it */
    ATTN_GGUF_U64 = 10,
    ATTN_GGUF_I64 = 11,
    ATTN_GGUF_F64 = 12
} attn_gguf_type;

/* "u32", "string", ...; "?" for a value that is no type. Static. */
ATTN_API const char *attn_gguf_type_name(attn_gguf_type type);

/* A value of the file, valid until attn_file_close. Its bytes stay where they are in the file. */
typedef struct attn_gguf_value {
    const char *key;     /* UTF-8; NULL: there is no such value */
    attn_gguf_type type; /* of the value, or of each element of an array */
    int32_t is_array;
    uint64_t count;      /* elements; 1 where it is no array */
    const void *data;    /* little endian, not aligned */
    size_t bytes;
} attn_gguf_value;

/* How many values f has; 0 for other formats. */
ATTN_API size_t attn_gguf_count(const attn_file *f);
/* Value i in the file's order; key is NULL when i is not below attn_gguf_count. */
ATTN_API attn_gguf_value attn_gguf_at(const attn_file *f, size_t i);
/* The value of that key; key is NULL when there is none. */
ATTN_API attn_gguf_value attn_gguf_find(const attn_file *f, const char *key);
/* Element i as a whole number; a bool is 0 or 1. 1 on success, 0 when it is no whole number of 64 bits with a sign or there is none. */
ATTN_API int attn_gguf_integer(const attn_gguf_value *v, uint64_t i, int64_t *out);
/* Element i, a float or a whole number. 1 on success. */
ATTN_API int attn_gguf_number(const attn_gguf_value *v, uint64_t i, double *out);
/* The string at *cursor, which begins at 0 and is moved to the next one. *text is not ended by a 0 and may hold any bytes. 1 on success, 0
   when the value is of another type or there is no further string. */
ATTN_API int attn_gguf_string(const attn_gguf_value *v, size_t *cursor, const char **text, size_t *size);

/* Rows first .. first + count - 1 of tensor i as f32, [count, last axis]: F32, F16, BF16, F64 (rounded), Q4_0, Q4_1, Q5_0, Q5_1, Q8_0,
   Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, the bits of ggml's reference. Rows are counted over all axes but the
   last; a tensor of rank 0 has one row of
   one number. Several threads may call it at once.
   ATTN_E_DTYPE: another type. ATTN_E_ARG: no tensor i, f is no .gguf, or there are no such rows. */
ATTN_API attn_status attn_gguf_rows(const attn_file *f, size_t i, int64_t first, int64_t count, float *out, char *err, size_t err_size);

/* --------------------------------------------------------------- writing ---- */

/* A set of outputs that appear together or not at all.

   Each regular output gets a temporary file beside its target when it is added: a missing or read-only folder is found before the
   work is done. attn_outputs_commit fills all temporaries, then writes devices and pipes, then renames. Until the renames every old
   file is whole and untouched, whatever happens: a full disk, a signal, a crash. A symbolic link stays and its target is replaced; an
   old file's permissions are kept, its owner and hard links are not; a new file obeys the umask; a write-protected target is refused.
   No fsync: an output survives the end of the process in any form, not a power failure in the seconds after.
   "-" and /dev/stdout are file descriptor 1. Do not change the working folder between adding and committing. */
typedef struct attn_outputs attn_outputs;

enum { ATTN_OUTPUTS_MAX = 64 };

ATTN_API attn_status attn_outputs_create(attn_outputs **out, char *err, size_t err_size);

/* Adds a file of `count` arrays, its format by the suffix of path. names[i] names array i in .npz and .safetensors (UTF-8, all
   different, not empty); .npy and .csv take exactly one array and ignore names, which may be NULL.
   The views and names are copied, the numbers are not: they are read, with any strides, at commit.
   .csv: rank 0 to 2, at least one number; rank 1 is one number a line; f64 with 17 significant digits, other floats with 9.
   ATTN_E_ARG: the same target twice, too many outputs, bad names. ATTN_E_SHAPE, ATTN_E_DTYPE: a tensor that the format cannot hold.
   ATTN_E_UNSUPPORTED: a suffix that is not written. ATTN_E_IO, ATTN_E_NOMEM. After a failure the set is as it was before the call. */
ATTN_API attn_status attn_outputs_arrays(attn_outputs *o, const char *path, size_t count, const char *const *names,
                                         const attn_tensor *tensors, char *err, size_t err_size);

/* Adds a file of `size` bytes, any suffix. The bytes are not copied: they are read at commit. */
ATTN_API attn_status attn_outputs_bytes(attn_outputs *o, const char *path, const void *bytes, size_t size, char *err, size_t err_size);

/* Where a file that is made while it is written takes its bytes. */
typedef struct attn_stream attn_stream;

/* Gives the stream its next bytes. ATTN_E_IO when they, or bytes before them, could not be written: nothing more is. */
ATTN_API attn_status attn_stream_write(attn_stream *s, const void *bytes, size_t size);

/* Adds a file, any suffix, that is made piece by piece, for what is too large to be held: `make` is called once, at commit. It returns the
   first status that is not ATTN_OK; a sentence of its own goes into err, that of attn_stream_write is added here. user must stay until
   then. ATTN_E_ARG, ATTN_E_IO, ATTN_E_NOMEM. */
ATTN_API attn_status attn_outputs_stream(attn_outputs *o, const char *path,
                                         attn_status (*make)(void *user, attn_stream *to, char *err, size_t err_size), void *user,
                                         char *err, size_t err_size);

/* Writes and renames all. On failure nothing is left behind and no target has changed, except that devices and pipes may have received a
   part, and that a rename refused after others succeeded (the sentence says which) leaves those done. SIGPIPE and SIGXFSZ that
   the writing raises are taken as errors. Either way the set is empty afterwards. */
ATTN_API attn_status attn_outputs_commit(attn_outputs *o, char *err, size_t err_size);

/* Removes the temporaries of outputs that were not committed, and o. NULL is fine. */
ATTN_API void attn_outputs_destroy(attn_outputs *o);

/* Removes the temporaries only, leaving o unusable but for attn_outputs_destroy. Async-signal-safe: for the SIGINT and SIGTERM handler
   of a program that ends there. NULL is fine. */
ATTN_API void attn_outputs_unlink(const attn_outputs *o);

#ifdef __cplusplus
}
#endif
#endif
