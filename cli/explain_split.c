/* SPDX-License-Identifier: Apache-2.0 */
/* (L, H*d) -> (L,H,d) -> (H,L,d) with the numbers, and back. */
#include "explain.h"
#include "finish.h"
#include "json_out.h"
#include "message.h"
#include "mha_weights.h"

#include <stdlib.h>

enum { FIRST_NUMBERS = 6 };

/* The last axis in H pieces: (..., L, H, d). */
static attn_tensor pieces_of(const attn_tensor *x, int64_t heads)
{
    attn_tensor t = *x;
    const int32_t last = x->ndim - 1;
    t.ndim = x->ndim + 1;
    t.shape[last] = heads;
    t.shape[last + 1] = x->shape[last] / heads;
    t.stride[last + 1] = x->stride[last];
    t.stride[last] = x->stride[last] * t.shape[last + 1];
    return t;
}

/* A packed copy. */
static int copy_of(attn_tensor *out, const attn_tensor *t)
{
    int64_t index[ATTN_MAX_DIMS] = {0};
    const int status = tensor_new(out, "a copy of X", ATTN_F64, t->ndim, t->shape);
    const int64_t count = tensor_count(t);
    for (int64_t i = 0; i < count && !status; i++, tensor_next(t, index))
        ((double *)out->data)[i] = tensor_value(t, index);
    return status;
}

/* The first numbers of row 0 of matrix `head`. */
static void print_start(const explanation *e, const attn_tensor *t, int64_t head)
{
    char text[CELL_TEXT];
    const attn_tensor m = tensor_matrix(t, head);
    const int64_t shown = m.shape[1] < FIRST_NUMBERS ? m.shape[1] : FIRST_NUMBERS;
    for (int64_t c = 0; c < shown && m.shape[0] > 0; c++)
        printf("%s%s", c ? ", " : " [", explain_number(text, e, 4, tensor_value(&m, (const int64_t[]){0, c})));
    puts(shown < m.shape[1] ? ", ...]" : "]");
}

static void print_heads(const explanation *e, const attn_tensor *x, const attn_tensor *pieces, const attn_tensor *heads)
{
    char from[SHAPE_TEXT], to[SHAPE_TEXT], shapes[2 * SHAPE_TEXT + 8], line[256];
    const int64_t H = heads->shape[heads->ndim - 3];
    print_heading(stdout, "X %s", tensor_shape_text(from, x));
    table_tensor(stdout, x, e->row_names, e->round, 4);

    snprintf(shapes, sizeof shapes, "%s -> %s", from, tensor_shape_text(to, pieces));
    snprintf(line, sizeof line, explain_say(e->lang, W_RESHAPE), (long long)H);
    explain_heading("reshape", shapes, line);
    table_tensor(stdout, pieces, NULL, e->round, 4);

    snprintf(shapes, sizeof shapes, "%s -> %s", to, tensor_shape_text(from, heads));
    explain_heading("transpose", shapes, explain_say(e->lang, W_TRANSPOSE));
    table_tensor(stdout, heads, e->row_names, e->round, 4);
}

/* What a reshape without the transpose would make of it: a common mistake, told apart by its numbers. */
static int print_mistake(const explanation *e, const attn_tensor *x, const attn_tensor *heads)
{
    attn_tensor copy;
    const int64_t H = heads->shape[heads->ndim - 3], head = H > 1 ? 1 : 0;
    if (H == 1 || x->shape[x->ndim - 2] < 2 || tensor_count(x) == 0)
        return EXIT_DONE;
    const int status = copy_of(&copy, x);
    if (!status) {
        const attn_tensor wrong = attn_tensor_of(copy.data, ATTN_F64, heads->ndim, heads->shape);
        printf("    ");
        printf(explain_say(e->lang, W_HEAD_STARTS), (long long)head);
        print_start(e, heads, head);
        printf("    ");
        printf(explain_say(e->lang, W_RESHAPE_ALONE), (long long)head);
        print_start(e, &wrong, head);
    }
    free(copy.data);
    return status;
}

static int print_text(const explanation *e, const attn_tensor *x, const attn_tensor *pieces, const attn_tensor *heads)
{
    char a[SHAPE_TEXT], b[SHAPE_TEXT], c[SHAPE_TEXT], shapes[3 * SHAPE_TEXT + 16];
    print_heads(e, x, pieces, heads);
    const int status = print_mistake(e, x, heads);
    if (status)
        return status;
    snprintf(shapes, sizeof shapes, "%s -> %s -> %s", tensor_shape_text(a, heads), tensor_shape_text(b, pieces), tensor_shape_text(c, x));
    explain_heading(explain_say(e->lang, W_JOIN), shapes, explain_say(e->lang, W_JOINED_SAME));
    const attn_tensor back = tensor_swapped(heads, 2, 3); /* its rows are those of X: the last two axes are one again */
    attn_tensor joined = *x;
    joined.stride[x->ndim - 2] = back.stride[back.ndim - 3];
    table_tensor(stdout, &joined, e->row_names, e->round, 4);
    return finish_stdout();
}

static int print_json(int64_t H, const attn_tensor *x, const attn_tensor *pieces, const attn_tensor *heads)
{
    json_writer j = jw_begin_document("explain split");
    jw_int(&j, "heads", H);
    jw_begin(&j, "stages", '{');
    jw_array(&j, "x", NULL, x, NULL);
    jw_array(&j, "pieces", "x reshaped to (L,H,d)", pieces, NULL);
    jw_array(&j, "heads", "pieces transposed to (H,L,d)", heads, NULL);
    jw_array(&j, "joined", "heads transposed back and reshaped to (L,H*d)", x, NULL);
    jw_end(&j, '}');
    return jw_end_document(&j);
}

static int write_page(const explanation *e, const options *o, int64_t H, const attn_tensor *x)
{
    page p;
    results r = {.o = o};
    const int64_t B = x->ndim == 3 ? x->shape[0] : 1, L = x->shape[x->ndim - 2], width = x->shape[x->ndim - 1];
    explain_page(o, "split", e->lang, e->round, &r, &p);
    p.query_names = e->row_names;
    p.shape = (page_shape){.B = B, .H = H, .Hkv = H, .Lq = L, .d_k = width / H, .width = width, .layers = 1};
    int status = explain_page_status(&p, page_add(&p, "x", x, 3, (const int64_t[]){B, L, width}));
    return explain_page_end(&r, &p, status);
}

static int show(const explanation *e, const options *o, int64_t H, const attn_tensor *x)
{
    const attn_tensor pieces = pieces_of(x, H), heads = tensor_swapped(&pieces, 2, 3);
    int status = opt_given(o, OPT_HTML) ? write_page(e, o, H, x) : EXIT_DONE;
    if (!status && opt_given(o, OPT_JSON))
        return print_json(H, x, &pieces, &heads);
    return status || opt_given(o, OPT_HTML) ? status : print_text(e, x, &pieces, &heads);
}

int explain_split(const options *o)
{
    char shape[SHAPE_TEXT];
    inputs in = {.o = o};
    attn_tensor x;
    int64_t H = 0;
    labels words = {.row = {.count = 0}};
    explanation e = {.round = -1};
    int status = explain_settings(o, &e, &words);
    if (!status && !opt_given(o, OPT_HEADS))
        status = trouble("attn explain split needs --heads H, the number of heads");
    if (!status)
        status = opt_count(o, OPT_HEADS, &H);
    if (!status)
        status = inputs_float(&in, "X", "x", o->operand[0], &x);
    if (!status && (x.ndim < 2 || x.ndim > 3))
        status = trouble("X is %s, and must be (L,width) or (B,L,width)", tensor_shape_text(shape, &x));
    if (!status && x.shape[x.ndim - 1] % H)
        status = refuse_heads("X", x.shape[x.ndim - 1], H);
    if (!status && words.row.word && words.row.count != x.shape[x.ndim - 2])
        status = trouble("--tokens has %lld words, and X has %lld rows; give one word for each", (long long)words.row.count,
                         (long long)x.shape[x.ndim - 2]);
    e.row_names = words.row.word;
    if (!status)
        status = show(&e, o, H, &x);
    labels_free(&words);
    inputs_close(&in);
    return status;
}
