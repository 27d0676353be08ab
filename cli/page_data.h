/* SPDX-License-Identifier: Apache-2.0 */
/* The page of `attn explain --html` and `attn view`: docs/page.md. What it shows is gathered in a `page`, and written while it is made, a
   row at a time: no Lq x Lk matrix is held but one that is small.
   The page_*.c files use attn.h, attn_io.h and web/page.h, and of the command only what they need of tensors, text and JSON. */
#ifndef ATTN_CLI_PAGE_DATA_H
#define ATTN_CLI_PAGE_DATA_H

#include <attn/attn.h>
#include <attn/attn_io.h>
#include <stdbool.h>

enum {
    PAGE_ARRAYS = 40,
    PAGE_DIMS = 4,
    PAGE_NOTES = 16,
    PAGE_MEMORIES = 48,
    PAGE_SENTENCE = 512,
    PAGE_EXACT_CELLS = 65536,       /* up to here every stage is in the page as computed */
    PAGE_SAVED_CELLS = 4194304,     /* the same of weights that were saved: nothing there could recompute them */
    PAGE_OVERVIEW_CELLS = 16777216, /* up to here the weights as u8; beyond that the largest of each row */
    PAGE_ARRAY_BYTES = 1 << 28,     /* of one array: as base64 it must fit a string of the browser */
    PAGE_TOP_KEYS = 32
};

/* Where rows of Lk numbers come from. place: batch item (or layer), head, row. A failure leaves its sentence in err. */
typedef struct page_rows {
    attn_status (*read)(void *user, const int64_t place[3], double *row, char *err, size_t err_size);
    void *user;
} page_rows;

typedef enum page_form {
    PAGE_NUMBERS,
    PAGE_SEEN,  /* a mask, true = may be seen, as u8 */
    PAGE_HIDDEN /* a mask, true = hidden, as u8 that is 1 where it may be seen */
} page_form;

/* One array of the page. Its numbers are those of `part`, one tensor after the other in row-major order, or of `rows`. */
typedef struct page_array {
    const char *name;
    attn_dtype dtype; /* f32, f64, u8 or i32 */
    int32_t ndim;
    int64_t shape[PAGE_DIMS];
    page_form form;
    const attn_tensor *part;
    int64_t parts;
    const attn_tensor *plus; /* NULL, or a second bias of the shape of part[0]; -inf stays -inf */
    page_rows rows;
} page_array;

typedef struct page_shape {
    int64_t B, H, Hkv, Lq, Lk, d_k, d_v, width, memory_width, out_width, layers;
} page_shape;

/* How the weights are in the page. */
typedef enum page_weights { PAGE_NO_WEIGHTS, PAGE_WEIGHTS_EXACT, PAGE_WEIGHTS_U8, PAGE_WEIGHTS_TOP } page_weights;

/* Which word each token of an axis belongs to: `of` [tokens], `name` [count]. */
typedef struct page_words {
    const int64_t *of;
    int64_t count;
    const char *const *name;
} page_words;

/* How q and k were turned: column pair p by the angle pos * frequency[p], times `factor`. */
typedef struct page_rope {
    bool interleaved;
    double factor, *frequency;    /* [pairs] */
    int64_t pairs;
    const int64_t *rows, *keys;   /* positions [B,Lq] and [B,Lk]; rows NULL: nothing was turned */
} page_rope;

typedef struct page {
    const char *kind, *title, *command, *lang, *isa;
    const char *part;                     /* NULL, or which attention of a model this is */
    struct page *more;                    /* NULL, or the model's next attention: of it `part` to `array` and `weights` count */
    page_words query_words, key_words;    /* of NULL: not known */
    bool causal;                          /* without options: a row sees no key after it */
    int64_t at_layer, at_head;            /* of a view: what it opens at */
    page_shape shape;
    const attn_sdpa_opts *opts;                                             /* NULL: no options to show */
    double scale;                                                           /* that was used */
    int64_t *offset;                                                        /* [B] */
    double *slopes;                                                         /* NULL, or of ALiBi: [H], or [B,H] where they differ */
    page_rope rope;
    int round;                                                              /* -1: not given */
    const char *const *query_names, *const *key_names, *const *layer_names; /* NULL, or one for each */
    page_array array[PAGE_ARRAYS];
    int arrays;
    page_weights weights;
    page_rows weight_rows;
    void (*progress)(void *user, double done); /* NULL, or told the share of the rows that are written, 1 at the end */
    void *progress_user;
    int64_t top_keys;
    char *note[PAGE_NOTES];
    int notes;
    const char *left_out[PAGE_ARRAYS]; /* arrays that are too large; there is a note */
    int left;
    void *memory[PAGE_MEMORIES];
    int memories;
    char sentence[PAGE_SENTENCE]; /* of the last failure */
} page;

void page_close(page *p);

/* All of these leave a sentence in p->sentence when they fail. */

/* An array of numbers: t with any strides, of `ndim` axes in the page (t's elements in row-major order). NULL adds nothing. */
attn_status page_add(page *p, const char *name, const attn_tensor *t, int32_t ndim, const int64_t *shape);
/* The same of a t that is there; without it the page is whole, so that it is left out with a note when it has more than `most` elements. */
attn_status page_add_optional(page *p, const char *name, const attn_tensor *t, int32_t ndim, const int64_t *shape, int64_t most);
/* An array in any form; a copy of *a is kept. One that is too large is refused, or left out with a note where that can be. */
attn_status page_add_array(page *p, const page_array *a, bool can_be_left_out);
/* Names an array that is too large among those left out, and says so in a note. */
void page_leave_out(page *p, const page_array *a, int64_t most);
/* Says how the weights are in the page: up to `exact` cells in full (then the caller adds them), else by p->weight_rows. */
void page_choose_weights(page *p, int64_t exact);

/* q [B,H,Lq,d], k, v of one attention (or without the leading axes) with what they give: adds inputs, masks, output, and the stages where
   they are small. The tensors stay until the page was written. shape gets the sizes of the attention. */
attn_status page_add_attention(page *p, attn_ctx *ctx, const attn_tensor *q, const attn_tensor *k, const attn_tensor *v,
                               const attn_sdpa_opts *opts);

/* What attn_outputs_stream calls; user is the page. */
attn_status page_write(void *user, attn_stream *to, char *err, size_t err_size);

/* --- between the page_*.c files --- */

/* p->sentence = the words; returns status. */
attn_status page_fail(page *p, attn_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* A sentence on the page, in its language. Conversions are the same in both, in the same order. */
void page_note(page *p, const char *english, const char *korean, ...) __attribute__((format(printf, 2, 4), format(printf, 3, 4)));
/* Zeroed memory that lives as long as the page; NULL after a sentence. */
void *page_memory(page *p, int64_t count, size_t size);
/* B*H*Lq*Lk (of a view layers*B*H*Lq*Lk), INT64_MAX when it is more. */
int64_t page_cells(const page *p);
int64_t page_elements(const page_array *a);

/* Base64 into a stream; the first failure stays in status. */
typedef struct page_base64 {
    attn_stream *to;
    attn_status status;
    unsigned char held[3];
    int count;
    size_t used;
    char text[8192];
} page_base64;
void page_base64_number(page_base64 *b, attn_dtype dtype, double value);
void page_base64_end(page_base64 *b);
/* part: NULL, or what stands before the names of a further attention's arrays. */
attn_status page_begin_element(attn_stream *to, const char *part, const char *name);
attn_status page_end_element(attn_stream *to);

/* The name of an array in the file: NAME, or PART_NAME of a further attention. */
enum { PAGE_NAME = 96 };
const char *page_array_name(char out[PAGE_NAME], const char *part, const char *name);
/* The text of attn-data; *text is to be freed. */
attn_status page_head(const page *p, char **text, size_t *size);
/* The elements of the weights that are not exact. */
attn_status page_write_weights(page *p, const char *part, attn_stream *to);
#endif
