/* SPDX-License-Identifier: Apache-2.0 */
#include "attention.h"
#include "message.h"

#include <stdio.h>
#include <string.h>

int read_qkv(inputs *in, qkv *t)
{
    const options *o = in->o;
    static const char *const what[] = {"Q", "K", "V"}, *const name[] = {"q", "k", "v"};
    attn_tensor *const tensor[] = {&t->q, &t->k, &t->v};
    attn_file *f = NULL;
    if (o->operands == 2)
        return trouble("attn %s was given 2 files, and takes three (Q K V), or one .npz or .safetensors file with q, k and v",
                       o->verb->name);
    int status = EXIT_DONE;
    if (o->operands == 1)
        status = inputs_open(in, "QKV", o->operand[0], &f);
    const attn_format format = f ? attn_file_format(f) : ATTN_FORMAT_UNKNOWN;
    if (format == ATTN_FORMAT_NPY || format == ATTN_FORMAT_CSV)
        return trouble("%s holds one array, and attn %s needs Q, K and V: three files, or one .npz or .safetensors file with q, k and v",
                       o->operand[0], o->verb->name);
    const bool turned = setup_is_blhd(o, &status) && !opt_given(o, OPT_CU_Q); /* packed input has one order only */
    for (int i = 0; i < 3 && !status; i++) {
        status = f ? inputs_named(in, f, o->operand[0], name[i], tensor[i]) : inputs_float(in, what[i], name[i], o->operand[i], tensor[i]);
        if (!status && turned && tensor[i]->ndim >= 3)
            *tensor[i] = tensor_swapped(tensor[i], 2, 3);
    }
    return status;
}

bool sizes_of(sizes *z, const qkv *t, bool packed)
{
    const int32_t rank = t->q.ndim;
    if (rank < 2 || rank > 4 || t->k.ndim != rank || t->v.ndim != rank || (packed && rank != 3))
        return false;
    const int head = packed ? 1 : rank - 3, row = packed ? 0 : rank - 2;
    const bool f64 = t->q.dtype == ATTN_F64 || t->k.dtype == ATTN_F64 || t->v.dtype == ATTN_F64;
    *z = (sizes){.rank = rank,
                 .B = rank == 4 ? t->q.shape[0] : 1,
                 .H = rank >= 3 ? t->q.shape[head] : 1,
                 .Hkv = rank >= 3 ? t->k.shape[head] : 1,
                 .Lq = t->q.shape[row],
                 .Lk = t->k.shape[row],
                 .d = t->q.shape[rank - 1],
                 .d_v = t->v.shape[rank - 1],
                 .dtype = f64 ? ATTN_F64 : ATTN_F32,
                 .packed = packed};
    return true;
}

int32_t part_shape(const sizes *z, part p, int64_t shape[ATTN_MAX_DIMS])
{
    int32_t n = 0;
    if (z->packed && p == PART_OUTPUT) { /* (T,H,d_v): tokens first */
        shape[n++] = z->Lq;
        shape[n++] = z->H;
        shape[n++] = z->d_v;
        return n;
    }
    if (z->rank == 4)
        shape[n++] = z->B;
    if (z->rank >= 3 && p != PART_AVERAGE)
        shape[n++] = z->H;
    if (p != PART_KEYS)
        shape[n++] = z->Lq;
    if (p != PART_ROWS)
        shape[n++] = p == PART_OUTPUT ? z->d_v : z->Lk;
    return n;
}

attn_tensor **stage_field(attn_sdpa_opts *opts, const char *name, part *p)
{
    const struct {
        const char *name;
        part p;
        attn_tensor **field;
    } fields[] = {
        {"scores", PART_CELLS, &opts->scores},  {"scaled", PART_CELLS, &opts->scaled},   {"capped", PART_CELLS, &opts->capped},
        {"masked", PART_CELLS, &opts->masked},  {"weights", PART_CELLS, &opts->weights}, {"lse", PART_ROWS, &opts->lse},
        {"row_max", PART_ROWS, &opts->row_max}, {"entropy", PART_ROWS, &opts->entropy},  {"mass", PART_KEYS, &opts->mass},
    };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        if (strcmp(fields[i].name, name) == 0) {
            *p = fields[i].p;
            return fields[i].field;
        }
    return NULL;
}

static int given_twice(const char *name) { return trouble("%s is given twice, and is written to one file; leave one out", name); }

/* One result of opts, to path. */
static int want(results *r, const sizes *z, attn_sdpa_opts *opts, const char *name, const char *path)
{
    part p;
    int64_t shape[ATTN_MAX_DIMS];
    attn_tensor **field = stage_field(opts, name, &p);
    if (results_find(r, name))
        return given_twice(name);
    if (strcmp(name, "weights") == 0 && opts->flags & ATTN_AVERAGE)
        p = PART_AVERAGE;
    const int32_t ndim = part_shape(z, p, shape);
    return results_add(r, name, path, z->dtype, ndim, shape, false, field);
}

/* One --stage NAME=F. */
static int want_stage(results *r, const sizes *z, attn_sdpa_opts *opts, const char *text, const extra_stage *extra, int extras)
{
    char name[32];
    const char *equals = strchr(text, '=');
    const size_t length = equals ? (size_t)(equals - text) : 0;
    if (!equals || !equals[1] || length >= sizeof name)
        return trouble("--stage is %s, and must be NAME=F such as scores=scores.npy", text);
    snprintf(name, sizeof name, "%.*s", (int)length, text);
    for (int i = 0; i < extras; i++)
        if (strcmp(extra[i].name, name) == 0)
            return results_find(r, extra[i].name)
                       ? given_twice(extra[i].name)
                       : results_add(r, extra[i].name, equals + 1, z->dtype, extra[i].ndim, extra[i].shape, true, extra[i].where);
    static const char *const stages[] = {"scores", "scaled", "capped", "masked", "weights", "output", "row_max", "entropy"};
    for (size_t i = 0; i < sizeof stages / sizeof stages[0]; i++) {
        if (strcmp(stages[i], name) != 0)
            continue;
        return strcmp(name, "output") == 0 ? results_again(r, "output", equals + 1) : want(r, z, opts, stages[i], equals + 1);
    }
    return trouble("--stage names %s, and the stages are scores, scaled, capped, masked, weights, output, row_max, entropy%s", name,
                   extras ? ", q, k, v, z" : "");
}

int want_results(results *r, const sizes *z, attn_sdpa_opts *opts, const extra_stage *extra, int extras)
{
    const options *o = r->o;
    int status = EXIT_DONE;
    bool has_weights = opt_given(o, OPT_WEIGHTS);
    for (int i = 0; i < o->stages; i++)
        has_weights = has_weights || strncmp(o->stage[i], "weights=", strlen("weights=")) == 0;
    if (opt_given(o, OPT_AVERAGE) && !has_weights)
        return trouble("--average averages the weights over the heads, and nothing asks for them; give --weights F");
    opts->flags |= opt_given(o, OPT_AVERAGE) ? ATTN_AVERAGE : 0;
    if (opt_given(o, OPT_WEIGHTS))
        status = want(r, z, opts, "weights", o->value[OPT_WEIGHTS]);
    if (!status && opt_given(o, OPT_LSE))
        status = want(r, z, opts, "lse", o->value[OPT_LSE]);
    if (!status && opt_given(o, OPT_MASS))
        status = want(r, z, opts, "mass", o->value[OPT_MASS]);
    for (int i = 0; i < o->stages && !status; i++)
        status = want_stage(r, z, opts, o->stage[i], extra, extras);
    return status;
}

attn_dtype output_dtype(const options *o, attn_dtype otherwise)
{
    static const attn_dtype dtypes[] = {ATTN_F32, ATTN_F16, ATTN_BF16, ATTN_F64};
    const int choice = opt_choice(o, OPT_DTYPE);
    return choice == -1 ? otherwise : choice < 0 ? (attn_dtype)0 : dtypes[choice];
}
