/* SPDX-License-Identifier: Apache-2.0 */
/* From the arrays of a file to stages of layers. */
#include "message.h"
#include "view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LIST = 600, MOST_LAYERS = 4096 };

/* One array and what it is. */
typedef struct entry {
    size_t at; /* in the file */
    const char *name;
    enum view_stage_id stage;
    view_axes axes;
    int64_t layer;
} entry;

/* The file while it is read. */
typedef struct reader {
    view *w;
    inputs *in;
    attn_file *f;
    const char *path;
    entry *list;
    size_t count;
} reader;

/* The sentence for a file that is none of what is read. */
static int refuse(const reader *r, const char *fault)
{
    char arrays[LIST];
    inputs_list(r->f, arrays, sizeof arrays);
    return trouble(
        "%s: %s; the file has %s. Expected: weights as one array (L,H,Lq,Lk) or (H,Lq,Lk), or one array (B,H,Lq,Lk) or (H,Lq,Lk) "
        "for each layer; or TransformerLens's hook_pattern, hook_attn_scores, hook_q, ...; or weights, scores, ... of attn",
        r->path, fault, *arrays ? arrays : "no array");
}

static void *view_memory(view *w, size_t count, size_t size) { return w->memory[w->memories++] = need_zeroed(count, size); }

void view_close(view *w)
{
    for (int i = 0; i < w->memories; i++)
        free(w->memory[i]);
    *w = (view){.layers = 0};
}

/* --- which arrays --- */

static bool is_wanted(const reader *r, const char *name)
{
    const char *prefix = r->in->o->value[OPT_ARRAY];
    return !prefix || strncmp(name, prefix, strlen(prefix)) == 0;
}

/* Stages by their names. */
static void list_named(reader *r)
{
    for (size_t i = 0; i < attn_file_count(r->f); i++) {
        entry e = {.at = i, .name = attn_file_info(r->f, i).name};
        if (is_wanted(r, e.name) && view_name(e.name, &e.stage, &e.axes, &e.layer))
            r->list[r->count++] = e;
    }
}

static bool has_cells(const reader *r)
{
    for (size_t i = 0; i < r->count; i++)
        if (r->list[i].axes == VIEW_CELLS)
            return true;
    return false;
}

/* Could array i be weights? Masks, token numbers and texts lie beside them. */
static bool may_be_weights(const reader *r, size_t i, bool called)
{
    const attn_array_info info = attn_file_info(r->f, i);
    const bool is_bf16 = info.dtype == ATTN_U16 && opt_given(r->in->o, OPT_IN_DTYPE);
    return is_wanted(r, info.name) && (dtype_is_float(info.dtype) || is_bf16) && !strstr(info.name, "mask") &&
           (!called || strstr(info.name, "attention"));
}

/* Every float array as weights; those called attention alone, where there are such. Where there is none, what there is, to say so. */
static void list_weights(reader *r)
{
    bool called = false, any = false;
    for (size_t i = 0; i < attn_file_count(r->f); i++) {
        called = called || (may_be_weights(r, i, false) && strstr(attn_file_info(r->f, i).name, "attention"));
        any = any || may_be_weights(r, i, false);
    }
    r->count = 0;
    for (size_t i = 0; i < attn_file_count(r->f); i++)
        if (any ? may_be_weights(r, i, called) : is_wanted(r, attn_file_info(r->f, i).name))
            r->list[r->count++] = (entry){.at = i, .name = attn_file_info(r->f, i).name, .stage = VIEW_WEIGHTS, .layer = -1};
}

static int in_order(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->stage != y->stage)
        return x->stage < y->stage ? -1 : 1;
    return x->layer != y->layer ? (x->layer < y->layer ? -1 : 1) : view_natural_order(x->name, y->name);
}

/* What is not shown, for a note. */
static void list_unread(reader *r)
{
    char *text = view_memory(r->w, LIST, 1);
    size_t at = 0;
    for (size_t i = 0; i < attn_file_count(r->f) && at + 8 < LIST; i++) {
        bool read = false;
        for (size_t k = 0; k < r->count; k++)
            read = read || r->list[k].at == i;
        if (!read)
            at += (size_t)snprintf(text + at, LIST - at, "%s%s", at ? ", " : "", attn_file_info(r->f, i).name);
    }
    if (at >= LIST)
        strcpy(text + LIST - 4, "...");
    r->w->unread = at ? text : NULL;
}

/* --- their shapes --- */

/* One layer's array as (B,H,L,..). false: its rank does not fit. */
static bool as_layer(attn_tensor *t, view_axes axes)
{
    if (t->ndim < 2 || t->ndim > 4)
        return false;
    *t = tensor_rank4(axes == VIEW_TOKENS && t->ndim >= 3 ? tensor_swapped(t, 2, 3) : *t);
    return true;
}

/* The size that an axis must have: that of the array read first. */
static int agree(const reader *r, const char *name, const char *axis, int64_t *wanted, int64_t found)
{
    if (*wanted < 0)
        *wanted = found;
    return *wanted == found ? EXIT_DONE
                            : trouble("%s: %s has %lld %s, and the arrays before it have %lld; all layers and stages of a view must agree",
                                      r->path, name, (long long)found, axis, (long long)*wanted);
}

static int check_shape(const reader *r, const entry *e, const attn_tensor *t)
{
    view *w = r->w;
    const bool of_keys = e->stage == VIEW_K || e->stage == VIEW_V;
    int status = agree(r, e->name, "batch items", &w->B, t->shape[0]);
    if (!status)
        status = agree(r, e->name, "heads", of_keys ? &w->Hkv : &w->H, t->shape[1]);
    if (!status)
        status = agree(r, e->name, of_keys ? "keys" : "rows", of_keys ? &w->Lk : &w->Lq, t->shape[2]);
    if (status)
        return status;
    if (e->axes == VIEW_CELLS)
        return agree(r, e->name, "keys", &w->Lk, t->shape[3]);
    return agree(r, e->name, "columns", e->stage == VIEW_V || e->stage == VIEW_OUTPUT ? &w->d_v : &w->d_k, t->shape[3]);
}

static int read_entry(const reader *r, const entry *e, attn_tensor *t)
{
    char shape[SHAPE_TEXT], fault[SHAPE_TEXT + 128];
    const attn_array_info info = attn_file_info(r->f, e->at);
    if (!info.dtype || info.ndim > ATTN_MAX_DIMS) {
        snprintf(fault, sizeof fault, "%s is of dtype %s, which is not read%s", e->name, info.dtype_name,
                 strcmp(info.dtype_name, "|O") == 0 ? " (a list of arrays: save numpy.stack of it, or savez(F, *list))" : "");
        return info.dtype ? refuse(r, "an array has too many axes") : refuse(r, fault);
    }
    const int status = inputs_named(r->in, r->f, r->path, e->name, t);
    if (status)
        return status;
    shape_text(shape, t->ndim, t->shape);
    if (as_layer(t, e->axes))
        return check_shape(r, e, t);
    snprintf(fault, sizeof fault, "%s %s is of rank %d", e->name, shape, (int)info.ndim);
    return refuse(r, fault);
}

/* --- layers --- */

/* One array for everything: (L,B,H,Lq,Lk), (L,H,Lq,Lk), (H,Lq,Lk) or (Lq,Lk). */
static int read_single(reader *r)
{
    view *w = r->w;
    attn_tensor whole;
    char fault[SHAPE_TEXT + 128], shape[SHAPE_TEXT];
    const entry *e = r->list;
    const attn_array_info info = attn_file_info(r->f, e->at);
    w->layers = 1;
    w->stage[VIEW_WEIGHTS] = view_memory(w, MOST_LAYERS, sizeof *w->stage[0]);
    if (!info.dtype || info.ndim < 4)
        return read_entry(r, e, w->stage[VIEW_WEIGHTS]);
    snprintf(fault, sizeof fault, "%s %s is of rank %d", e->name, shape_text(shape, info.ndim, info.shape), (int)info.ndim);
    if (info.ndim > 5)
        return refuse(r, fault);
    if (info.shape[0] > MOST_LAYERS)
        return trouble("%s: %s would be %lld layers, and a view has at most %d", r->path, fault, (long long)info.shape[0], MOST_LAYERS);
    int status = inputs_named(r->in, r->f, r->path, e->name, &whole);
    w->layers = info.shape[0];
    for (int64_t n = 0; n < w->layers && !status; n++) {
        attn_tensor *layer = &w->stage[VIEW_WEIGHTS][n];
        *layer = (attn_tensor){.data = whole.data, .dtype = whole.dtype, .ndim = whole.ndim - 1};
        if (whole.data)
            layer->data = (char *)whole.data + n * whole.stride[0] * (int64_t)attn_dtype_size(whole.dtype);
        memcpy(layer->shape, whole.shape + 1, sizeof *whole.shape * (size_t)layer->ndim);
        memcpy(layer->stride, whole.stride + 1, sizeof *whole.stride * (size_t)layer->ndim);
        status = as_layer(layer, VIEW_CELLS) ? check_shape(r, e, layer) : EXIT_TROUBLE;
    }
    return status;
}

/* "blocks.3" where the name has a number of the block, else the array's name. */
static void name_layers(reader *r, size_t from, int64_t count)
{
    enum { NAME = 40 };
    char *texts = view_memory(r->w, (size_t)count, NAME);
    r->w->layer_name = view_memory(r->w, (size_t)count, sizeof *r->w->layer_name);
    for (int64_t n = 0; n < count; n++) {
        const entry *e = &r->list[from + (size_t)n];
        snprintf(texts + n * NAME, NAME, "blocks.%lld", (long long)e->layer);
        r->w->layer_name[n] = e->layer < 0 ? e->name : texts + n * NAME;
    }
}

/* The layers of one stage: entries from..to-1. All stages have the same ones. */
static int read_stage(reader *r, size_t from, size_t to)
{
    view *w = r->w;
    const enum view_stage_id stage = r->list[from].stage;
    const int64_t count = (int64_t)(to - from);
    if (w->layers == 0)
        name_layers(r, from, count);
    w->layers = w->layers ? w->layers : count;
    if (w->layers != count)
        return trouble(
            "%s: %s is there for %lld layers, and the stages before it for %lld; save every stage of every layer, or choose with "
            "--array",
            r->path, r->list[from].name, (long long)count, (long long)w->layers);
    attn_tensor *tensors = view_memory(w, (size_t)count, sizeof *tensors);
    int status = EXIT_DONE;
    for (int64_t n = 0; n < count && !status; n++)
        status = read_entry(r, &r->list[from + (size_t)n], &tensors[n]);
    w->stage[stage] = tensors;
    return status;
}

static int read_stages(reader *r)
{
    int status = EXIT_DONE;
    for (size_t from = 0, to; from < r->count && !status; from = to) {
        for (to = from + 1; to < r->count && r->list[to].stage == r->list[from].stage; to++)
            if (r->list[to].layer >= 0 && r->list[to].layer == r->list[to - 1].layer)
                return trouble("%s: %s and %s are the same stage of one layer; choose with --array", r->path, r->list[to - 1].name,
                               r->list[to].name);
        status = read_stage(r, from, to);
    }
    return status;
}

/* Arrays of several kinds cannot be layers of one. */
static int check_stems(const reader *r)
{
    for (size_t i = 1; i < r->count; i++)
        if (!view_same_stem(r->list[0].name, r->list[i].name))
            return refuse(r, "its arrays are not layers of one kind (their names differ in more than a number); choose with --array NAME");
    return EXIT_DONE;
}

static int read_listed(reader *r)
{
    view *w = r->w;
    list_named(r);
    const bool alone = attn_file_count(r->f) == 1 && r->count == 1 && strcmp(r->list[0].name, "weights") == 0; /* (L,H,Lq,Lk) */
    const bool named = has_cells(r) && !alone;
    if (!has_cells(r) && r->count)
        return refuse(r, "it has queries, keys or values, and no weights (attn explain sdpa computes them)");
    if (!named)
        list_weights(r);
    if (r->count == 0)
        return refuse(r, opt_given(r->in->o, OPT_ARRAY) ? "no array's name begins as --array says" : "there is no array");
    if (r->count > MOST_LAYERS)
        return trouble("%s has %zu arrays, and a view has at most %d", r->path, r->count, MOST_LAYERS);
    qsort(r->list, r->count, sizeof *r->list, in_order);
    list_unread(r);
    int status = named ? EXIT_DONE : check_stems(r);
    if (!status)
        status = !named && r->count == 1 ? read_single(r) : read_stages(r);
    w->Hkv = w->Hkv < 0 ? w->H : w->Hkv;
    w->d_k = w->d_k < 0 ? 0 : w->d_k;
    w->d_v = w->d_v < 0 ? 0 : w->d_v;
    return status;
}

int view_read(view *w, inputs *in, const char *path)
{
    reader r = {.w = w, .in = in, .path = path};
    *w = (view){.B = -1, .H = -1, .Hkv = -1, .Lq = -1, .Lk = -1, .d_k = -1, .d_v = -1};
    int status = inputs_open(in, "FILE", path, &r.f);
    if (status)
        return status;
    r.list = need_zeroed(attn_file_count(r.f), sizeof *r.list);
    status = read_listed(&r);
    free(r.list);
    if (!status && (w->layers == 0 || w->B == 0 || w->H == 0 || w->Lq == 0))
        status = trouble("%s: there is no row to show: an axis of the weights has no element", path);
    return status;
}
