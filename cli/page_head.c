/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON of a page: attn-data. */
#include "json_out.h"
#include "page_data.h"

#include <stdlib.h>

static void write_shape(json_writer *j, const page_shape *s)
{
    jw_begin(j, "shape", '{');
    jw_int(j, "B", s->B);
    jw_int(j, "H", s->H);
    jw_int(j, "Hkv", s->Hkv);
    jw_int(j, "Lq", s->Lq);
    jw_int(j, "Lk", s->Lk);
    jw_int(j, "d_k", s->d_k);
    jw_int(j, "d_v", s->d_v);
    jw_int(j, "width", s->width);
    jw_int(j, "memory_width", s->memory_width);
    jw_int(j, "out_width", s->out_width);
    jw_int(j, "layers", s->layers);
    jw_end(j, '}');
}

static void write_null(json_writer *j, const char *key) { jw_string(j, key, NULL); }

static void write_integers(json_writer *j, const char *key, const attn_tensor *t)
{
    if (t)
        jw_values(j, key, t);
    else
        write_null(j, key);
}

/* [slope per head], or a list of these for each batch item where they differ. */
static void write_slopes(json_writer *j, const page *p)
{
    const attn_tensor *given = p->opts->alibi_slopes;
    if (!p->slopes) {
        write_null(j, "alibi");
        return;
    }
    const bool per_item = given && given->ndim == 2;
    const attn_tensor t =
        attn_tensor_of(p->slopes, ATTN_F64, per_item ? 2 : 1, per_item ? (int64_t[]){p->shape.B, p->shape.H} : (int64_t[]){p->shape.H});
    jw_values(j, "alibi", &t);
}

/* A string where it does not fit the numbers of JSON readers. */
static void write_seed(json_writer *j, uint64_t seed)
{
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)seed);
    if (seed <= INT64_MAX)
        jw_int(j, "seed", (int64_t)seed);
    else
        jw_string(j, "seed", text);
}

static void write_rope(json_writer *j, const page *p)
{
    const page_rope *r = &p->rope;
    const page_shape *s = &p->shape;
    if (!r->rows) {
        write_null(j, "rope");
        return;
    }
    const attn_tensor frequency = attn_tensor_of(r->frequency, ATTN_F64, 1, &r->pairs);
    const attn_tensor rows = attn_tensor_of((void *)(uintptr_t)r->rows, ATTN_I64, 2, (const int64_t[]){s->B, s->Lq});
    const attn_tensor keys = attn_tensor_of((void *)(uintptr_t)r->keys, ATTN_I64, 2, (const int64_t[]){s->B, s->Lk});
    jw_begin(j, "rope", '{');
    jw_bool(j, "interleaved", r->interleaved);
    jw_number(j, "factor", r->factor, ATTN_F64);
    jw_values(j, "frequencies", &frequency);
    jw_values(j, "rows", &rows);
    jw_values(j, "keys", &keys);
    jw_end(j, '}');
}

static void write_options(json_writer *j, const page *p)
{
    const attn_sdpa_opts *o = p->opts;
    jw_begin(j, "options", '{');
    jw_number(j, "scale", p->scale, ATTN_F64);
    jw_bool(j, "scale_given", o->flags & ATTN_SCALE);
    jw_number(j, "softcap", o->softcap, ATTN_F64);
    jw_bool(j, "causal", o->flags & ATTN_CAUSAL);
    if (o->flags & ATTN_WINDOW)
        jw_shape(j, "window", 2, (const int64_t[]){o->window_left, o->window_right});
    else
        write_null(j, "window");
    const attn_tensor offset = attn_tensor_of(p->offset, ATTN_I64, 1, &p->shape.B);
    jw_values(j, "offset", &offset);
    write_integers(j, "kv_len", o->kv_len);
    write_integers(j, "q_len", o->q_len);
    write_slopes(j, p);
    write_integers(j, "sinks", o->sinks);
    jw_number(j, "dropout", o->dropout, ATTN_F64);
    write_seed(j, o->seed);
    write_rope(j, p);
    if (p->round >= 0)
        jw_int(j, "round", p->round);
    else
        write_null(j, "round");
    jw_end(j, '}');
}

static void write_names(json_writer *j, const char *key, const char *const *names, int64_t count)
{
    if (!names) {
        write_null(j, key);
        return;
    }
    jw_begin(j, key, '[');
    for (int64_t i = 0; i < count; i++)
        jw_string(j, NULL, names[i]);
    jw_end(j, ']');
}

static void write_array(json_writer *j, const char *name, attn_dtype dtype, int32_t ndim, const int64_t *shape)
{
    jw_begin(j, name, '{');
    jw_shape(j, "shape", ndim, shape);
    jw_string(j, "dtype", attn_dtype_name(dtype));
    jw_end(j, '}');
}

static void write_arrays_of(json_writer *j, const page *p, const char *part)
{
    char name[PAGE_NAME];
    const page_shape *s = &p->shape;
    const int64_t cells[] = {s->layers * s->B, s->H, s->Lq, p->weights == PAGE_WEIGHTS_TOP ? p->top_keys : s->Lk};
    for (int i = 0; i < p->arrays; i++)
        write_array(j, page_array_name(name, part, p->array[i].name), p->array[i].dtype, p->array[i].ndim, p->array[i].shape);
    if (p->weights == PAGE_WEIGHTS_U8) {
        write_array(j, page_array_name(name, part, "weights_u8"), ATTN_U8, 4, cells);
        write_array(j, page_array_name(name, part, "weights_scale"), ATTN_F32, 3, cells);
    } else if (p->weights == PAGE_WEIGHTS_TOP) {
        write_array(j, page_array_name(name, part, "top_index"), ATTN_I32, 4, cells);
        write_array(j, page_array_name(name, part, "top_weight"), ATTN_F32, 4, cells);
    }
}

static void write_arrays(json_writer *j, const page *p)
{
    jw_begin(j, "arrays", '{');
    write_arrays_of(j, p, NULL);
    for (const page *more = p->more; more; more = more->more)
        write_arrays_of(j, more, more->part);
    jw_end(j, '}');
}

static void write_summary(json_writer *j, const page *p)
{
    if (p->weights != PAGE_WEIGHTS_TOP) {
        write_null(j, "summary");
        return;
    }
    jw_begin(j, "summary", '{');
    jw_int(j, "k", p->top_keys);
    jw_end(j, '}');
}

static void write_words(json_writer *j, const char *key, const page_words *w, int64_t tokens)
{
    const attn_tensor of = attn_tensor_of((void *)(uintptr_t)w->of, ATTN_I64, 1, &tokens);
    jw_begin(j, key, '{');
    jw_values(j, "of", &of);
    write_names(j, "names", w->name, w->count);
    jw_end(j, '}');
}

static void write_labels(json_writer *j, const page *p)
{
    jw_begin(j, "labels", '{');
    write_names(j, "query", p->query_names, p->shape.Lq);
    write_names(j, "key", p->key_names, p->shape.Lk);
    write_names(j, "layer", p->layer_names, p->shape.layers);
    jw_end(j, '}');
}

static void write_part(json_writer *j, const page *p)
{
    jw_string(j, "part", p->part);
    jw_bool(j, "causal", p->causal);
    jw_begin(j, "words", '{');
    write_words(j, "query", &p->query_words, p->shape.Lq);
    write_words(j, "key", &p->key_words, p->shape.Lk);
    jw_end(j, '}');
}

/* Of a model: what tells this attention from others, where the page opens, and the model's other attentions. */
static void write_model(json_writer *j, const page *p)
{
    write_part(j, p);
    jw_begin(j, "at", '{');
    jw_int(j, "layer", p->at_layer);
    jw_int(j, "head", p->at_head);
    jw_end(j, '}');
    jw_begin(j, "more", '[');
    for (const page *more = p->more; more; more = more->more) {
        jw_begin(j, NULL, '{');
        write_shape(j, &more->shape);
        write_labels(j, more);
        write_part(j, more);
        write_summary(j, more);
        jw_end(j, '}');
    }
    jw_end(j, ']');
}

static void write_rest(json_writer *j, const page *p)
{
    write_summary(j, p);
    write_names(j, "left_out", p->left_out, p->left);
    write_names(j, "notes", (const char *const *)p->note, p->notes);
}

static void write_document(json_writer *j, const page *p)
{
    fputc('{', j->f);
    j->depth = 1;
    jw_int(j, "schema", 1);
    jw_string(j, "kind", p->kind);
    jw_string(j, "title", p->title);
    jw_string(j, "lang", p->lang);
    jw_string(j, "command", p->command);
    jw_string(j, "isa", p->isa);
    jw_string(j, "version", attn_version());
    write_shape(j, &p->shape);
    if (p->opts)
        write_options(j, p);
    else
        write_null(j, "options");
    write_labels(j, p);
    if (p->part)
        write_model(j, p);
    write_arrays(j, p);
    write_rest(j, p);
    jw_end(j, '}');
}

attn_status page_head(const page *p, char **text, size_t *size)
{
    *text = NULL;
    json_writer j = {.f = open_memstream(text, size)};
    if (!j.f)
        return ATTN_E_NOMEM;
    write_document(&j, p);
    if (fclose(j.f) == 0)
        return ATTN_OK;
    free(*text);
    return ATTN_E_NOMEM;
}
