/* SPDX-License-Identifier: Apache-2.0 */
#include "mha_weights.h"
#include "message.h"

#include <stdio.h>
#include <string.h>

enum { MOST_HEADS = 65536 }; /* that a message lists */

/* The weights file while it is read. */
typedef struct reader {
    inputs *in;
    attn_file *f;
    const char *path;
    char prefix[128]; /* before PyTorch's names: "encoder.self_attn." */
    int status;       /* the first failure; then nothing more is read */
} reader;

/* An array that must be there is not. */
static void missing(reader *r, const char *name, const char *needs)
{
    char arrays[300];
    inputs_list(r->f, arrays, sizeof arrays);
    r->status = trouble("%s: %s%s is missing; the file has %s, and WEIGHTS needs %s", r->path, r->prefix, name, arrays, needs);
}

/* Says which arrays nothing reads: a name may be misspelt. Those of other modules are no concern of PyTorch's prefix. */
static void note_unread(const reader *r, const char *const *known, size_t count)
{
    char list[300] = "";
    size_t at = 0;
    const size_t skipped = strlen(r->prefix);
    for (size_t i = 0; i < attn_file_count(r->f) && at < sizeof list; i++) {
        const char *name = attn_file_info(r->f, i).name;
        bool read = strncmp(name, r->prefix, skipped) != 0;
        for (size_t k = 0; k < count && !read; k++)
            read = strcmp(name + skipped, known[k]) == 0;
        if (!read)
            at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", at ? ", " : "", name);
    }
    note(at == 0 || opt_given(r->in->o, OPT_QUIET), "%s: arrays that attn mha does not know are not read: %s%s", r->path, list,
         at < sizeof list ? "" : "...");
}

/* The array prefix + name, if the file has it, into *t. */
static bool read_if_there(reader *r, const char *name, attn_tensor *t)
{
    char full[256];
    snprintf(full, sizeof full, "%s%s", r->prefix, name);
    if (r->status || attn_file_find(r->f, full) < 0)
        return false;
    r->status = inputs_named(r->in, r->f, r->path, full, t);
    return !r->status;
}

/* An (out,in) matrix as (in,out). */
static void turn(reader *r, const char *name, attn_tensor *t)
{
    char shape[SHAPE_TEXT];
    if (t->ndim == 2)
        *t = tensor_swapped(t, 1, 2);
    else
        r->status = trouble("%s: %s%s is %s, and PyTorch's is a matrix (out,in)", r->path, r->prefix, name, tensor_shape_text(shape, t));
}

static const attn_tensor *read_turned(reader *r, const char *name, attn_tensor *t)
{
    if (!read_if_there(r, name, t))
        return NULL;
    turn(r, name, t);
    return t;
}

/* A piece of PyTorch's in_proj_bias. */
static const attn_tensor *slice(const attn_tensor *whole, int64_t from, int64_t count, attn_tensor *t)
{
    *t = *whole;
    t->shape[0] = count;
    t->data = (char *)whole->data + from * whole->stride[0] * (int64_t)attn_dtype_size(whole->dtype);
    return t;
}

/* Looks for "...in_proj_weight" or "...q_proj_weight": the names may stand behind a module's name, once. */
static void find_prefix(reader *r)
{
    static const char *const firsts[] = {"in_proj_weight", "q_proj_weight"};
    int found = 0;
    for (size_t i = 0; i < attn_file_count(r->f); i++) {
        const attn_array_info info = attn_file_info(r->f, i);
        const size_t length = strlen(info.name);
        for (int k = 0; k < 2; k++) {
            const size_t tail = strlen(firsts[k]);
            if (length < tail || strcmp(info.name + length - tail, firsts[k]) != 0 || length - tail >= sizeof r->prefix)
                continue;
            snprintf(r->prefix, sizeof r->prefix, "%.*s", (int)(length - tail), info.name);
            found++;
        }
    }
    if (found != 1)
        r->status = trouble(found ? "%s: several modules have PyTorch attention weights; write one of them to a file of its own"
                                  : "%s: no in_proj_weight or q_proj_weight; with --torch the names are PyTorch's: in_proj_weight (or "
                                    "q_proj_weight, k_proj_weight, v_proj_weight), in_proj_bias, out_proj.weight, out_proj.bias",
                            r->path);
}

static void read_torch_bias(reader *r, mha_files *w)
{
    char shape[SHAPE_TEXT];
    if (!read_if_there(r, "in_proj_bias", &w->b_qkv))
        return;
    if (w->desc.w_qkv) {
        w->desc.b_qkv = &w->b_qkv;
        return;
    }
    const int64_t q = w->w_q.shape[1], k = w->w_k.shape[1], v = w->w_v.shape[1];
    if (w->b_qkv.ndim != 1 || w->b_qkv.shape[0] != q + k + v) {
        r->status = trouble("%s: in_proj_bias is %s, and the projections have %lld + %lld + %lld columns", r->path,
                            tensor_shape_text(shape, &w->b_qkv), (long long)q, (long long)k, (long long)v);
        return;
    }
    w->desc.b_q = slice(&w->b_qkv, 0, q, &w->b_q);
    w->desc.b_k = slice(&w->b_qkv, q, k, &w->b_k);
    w->desc.b_v = slice(&w->b_qkv, q + k, v, &w->b_v);
}

static void read_torch(reader *r, mha_files *w)
{
    static const char *const known[] = {"in_proj_weight", "q_proj_weight",   "k_proj_weight", "v_proj_weight",
                                        "in_proj_bias",   "out_proj.weight", "out_proj.bias"};
    attn_tensor unused;
    find_prefix(r);
    w->desc.w_qkv = read_turned(r, "in_proj_weight", &w->w_qkv);
    if (!r->status && !w->desc.w_qkv) {
        w->desc.w_q = read_turned(r, "q_proj_weight", &w->w_q);
        w->desc.w_k = read_turned(r, "k_proj_weight", &w->w_k);
        w->desc.w_v = read_turned(r, "v_proj_weight", &w->w_v);
        if (!r->status && (!w->desc.w_k || !w->desc.w_v))
            r->status = trouble("%s: %sq_proj_weight is there without k_proj_weight and v_proj_weight", r->path, r->prefix);
    }
    if (!r->status)
        read_torch_bias(r, w);
    w->desc.w_o = read_turned(r, "out_proj.weight", &w->w_o);
    w->desc.b_o = read_if_there(r, "out_proj.bias", &w->b_o) ? &w->b_o : NULL;
    if (read_if_there(r, "bias_k", &unused) || read_if_there(r, "bias_v", &unused))
        r->status =
            trouble("%s: bias_k and bias_v (add_bias_kv) are rows that attn mha does not add; append them to --memory yourself", r->path);
    if (!r->status && !w->desc.w_o)
        missing(r, "out_proj.weight",
                "in_proj_weight (or q_proj_weight, k_proj_weight, v_proj_weight), out_proj.weight and perhaps "
                "in_proj_bias, out_proj.bias");
    if (!r->status)
        note_unread(r, known, sizeof known / sizeof known[0]);
}

static void read_ours(reader *r, mha_files *w)
{
    const struct {
        const char *name;
        attn_tensor *tensor;
        const attn_tensor **where;
    } names[] = {
        {"w_q", &w->w_q, &w->desc.w_q},       {"w_k", &w->w_k, &w->desc.w_k},       {"w_v", &w->w_v, &w->desc.w_v},
        {"b_q", &w->b_q, &w->desc.b_q},       {"b_k", &w->b_k, &w->desc.b_k},       {"b_v", &w->b_v, &w->desc.b_v},
        {"w_o", &w->w_o, &w->desc.w_o},       {"w_qkv", &w->w_qkv, &w->desc.w_qkv}, {"b_o", &w->b_o, &w->desc.b_o},
        {"b_qkv", &w->b_qkv, &w->desc.b_qkv},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (read_if_there(r, names[i].name, names[i].tensor))
            *names[i].where = names[i].tensor;
    const bool has_qkv = w->desc.w_qkv || (w->desc.w_q && w->desc.w_k && w->desc.w_v);
    for (size_t i = 0; i < attn_file_count(r->f) && !r->status && !has_qkv; i++)
        if (strstr(attn_file_info(r->f, i).name, "_proj"))
            r->status = trouble("%s: no w_q, w_k and w_v, but %s: these look like PyTorch's names; add --torch", r->path,
                                attn_file_info(r->f, i).name);
    if (r->status)
        return;
    if (has_qkv && w->desc.w_o) {
        static const char *const known[] = {"w_q", "w_k", "w_v", "w_qkv", "w_o", "b_q", "b_k", "b_v", "b_qkv", "b_o"};
        note_unread(r, known, sizeof known / sizeof known[0]);
        return;
    }
    missing(r,
            has_qkv        ? "w_o"
            : !w->desc.w_q ? "w_q"
            : !w->desc.w_k ? "w_k"
                           : "w_v",
            "w_q, w_k, w_v (or w_qkv), w_o and perhaps b_q, b_k, b_v, b_o");
}

/* (in, columns), or a table per head (H, in, d). */
static int64_t columns_of(const attn_tensor *w) { return w->ndim == 3 ? w->shape[0] * w->shape[2] : w->ndim == 2 ? w->shape[1] : 0; }

int refuse_heads(const char *what, int64_t width, int64_t heads)
{
    char list[256] = "";
    size_t at = 0;
    for (int64_t h = 1; h <= width && h <= MOST_HEADS && at + 24 < sizeof list; h++)
        if (width % h == 0)
            at += (size_t)snprintf(list + at, sizeof list - at, "%s%lld", at ? ", " : "", (long long)h);
    return trouble("%s is %lld wide, which %lld heads do not divide; head counts that do: %s", what, (long long)width, (long long)heads,
                   list);
}

int read_mha_weights(mha_files *w, inputs *in, const char *path)
{
    reader r = {.in = in, .path = path};
    *w = (mha_files){.desc = {.struct_size = sizeof w->desc}};
    if (!opt_given(in->o, OPT_HEADS))
        return trouble("attn %s needs --heads H, the number of query heads", in->o->verb->name);
    r.status = opt_count(in->o, OPT_HEADS, &w->desc.heads);
    if (!r.status)
        r.status = opt_count(in->o, OPT_KV_HEADS, &w->desc.kv_heads);
    if (!r.status)
        r.status = inputs_open(in, "WEIGHTS", path, &r.f);
    if (r.status)
        return r.status;
    if (opt_given(in->o, OPT_TORCH))
        read_torch(&r, w);
    else
        read_ours(&r, w);
    if (r.status)
        return r.status;
    const int64_t H = w->desc.heads, Hkv = w->desc.kv_heads ? w->desc.kv_heads : H;
    if (w->desc.w_qkv) {
        const int64_t d = columns_of(&w->w_qkv) / (H + 2 * Hkv);
        w->columns_q = H * d;
        w->columns_k = w->columns_v = Hkv * d;
    } else {
        w->columns_q = columns_of(&w->w_q);
        w->columns_k = columns_of(&w->w_k);
        w->columns_v = columns_of(&w->w_v);
    }
    return EXIT_DONE;
}

int read_mha_inputs(mha_inputs *m, inputs *in, const char *path)
{
    const options *o = in->o;
    *m = (mha_inputs){.memory_given = NULL};
    if (opt_given(o, OPT_MEMORY_V) && !opt_given(o, OPT_MEMORY))
        return trouble("--memory-v is given without --memory, which has the keys; give both");
    int status = inputs_float(in, "X", "x", path, &m->x);
    if (!status && opt_given(o, OPT_MEMORY)) {
        status = inputs_float(in, "--memory", "memory", o->value[OPT_MEMORY], &m->memory);
        m->memory_given = &m->memory;
    }
    if (!status && opt_given(o, OPT_MEMORY_V)) {
        status = inputs_float(in, "--memory-v", "memory_v", o->value[OPT_MEMORY_V], &m->memory_v);
        m->memory_v_given = &m->memory_v;
    }
    return status;
}

void choose_mha_precision(mha_files *w, const mha_inputs *m)
{
    const attn_mha_desc *d = &w->desc;
    const attn_tensor *all[] = {&m->x,  m->memory_given, m->memory_v_given, d->w_q, d->w_k, d->w_v, d->w_qkv, d->w_o, d->b_q,
                                d->b_k, d->b_v,          d->b_qkv,          d->b_o};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i] && all[i]->dtype == ATTN_F64)
            w->desc.flags |= ATTN_MHA_F64;
}

bool mha_sizes(sizes *z, const mha_files *w, const mha_inputs *m)
{
    const attn_tensor *memory = m->memory_given ? m->memory_given : &m->x;
    if (m->x.ndim < 2 || m->x.ndim > 3 || memory->ndim != m->x.ndim)
        return false;
    const int64_t H = w->desc.heads, Hkv = w->desc.kv_heads ? w->desc.kv_heads : H;
    *z = (sizes){.rank = m->x.ndim + 1,
                 .B = m->x.ndim == 3 ? m->x.shape[0] : 1,
                 .H = H,
                 .Hkv = Hkv,
                 .Lq = m->x.shape[m->x.ndim - 2],
                 .Lk = memory->shape[m->x.ndim - 2],
                 .d = w->columns_q / H,
                 .d_v = w->columns_v / Hkv,
                 .dtype = w->desc.flags & ATTN_MHA_F64 ? ATTN_F64 : ATTN_F32};
    return true;
}

void mha_output_shape(const mha_files *w, const mha_inputs *m, const sizes *z, int64_t shape[ATTN_MAX_DIMS])
{
    memcpy(shape, m->x.shape, sizeof m->x.shape);
    shape[m->x.ndim - 1] = w->desc.w_o && w->w_o.ndim == 2 ? w->w_o.shape[1] : z->H * z->d_v;
}

void mha_stage_list(extra_stage extra[4], const sizes *z, attn_mha_opts *opts)
{
    const int64_t heads[] = {z->H, z->Hkv, z->Hkv, z->H}, rows[] = {z->Lq, z->Lk, z->Lk, z->Lq}, widths[] = {z->d, z->d, z->d_v, z->d_v};
    static const char *const names[] = {"q", "k", "v", "z"};
    attn_tensor **const where[] = {&opts->q, &opts->k, &opts->v, &opts->z};
    for (int i = 0; i < 4; i++) {
        extra[i] = (extra_stage){.name = names[i], .where = where[i]};
        if (z->rank == 4)
            extra[i].shape[extra[i].ndim++] = z->B;
        extra[i].shape[extra[i].ndim++] = heads[i];
        extra[i].shape[extra[i].ndim++] = rows[i];
        extra[i].shape[extra[i].ndim++] = widths[i];
    }
}
