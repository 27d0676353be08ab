/* SPDX-License-Identifier: Apache-2.0 */
#include "explain_model.h"
#include "message.h"

#include <stdlib.h>
#include <string.h>

static int check_options(const options *o)
{
    static const opt_id of_files[] = {OPT_HEADS, OPT_KV_HEADS, OPT_MEMORY, OPT_MEMORY_V, OPT_TORCH, OPT_ROPE, OPT_POSITIONS, OPT_TOKENS,
                                      OPT_KEY_TOKENS, OPT_DIALECT, OPT_LAYOUT};
    for (size_t i = 0; i < sizeof of_files / sizeof of_files[0]; i++)
        if (opt_given(o, of_files[i]))
            return trouble("--%s is given, and with --from the model says it; leave it out", opt_table[of_files[i]].name);
    return EXIT_DONE;
}

/* ------------------------------------------------------------- hidden states ---- */

/* A copy of the one sequence of t [1,L,n]. */
static void keep(attn_tensor *kept, const attn_tensor *t)
{
    const size_t bytes = (size_t)tensor_count(t) * attn_dtype_size(t->dtype);
    free(kept->data);
    *kept = attn_tensor_of(need_memory(bytes), t->dtype, 2, t->shape + 1);
    memcpy(kept->data, t->data, bytes);
}

static int on_layer(void *user, const attn_layer_view *seen)
{
    model_layer *l = user;
    const bool is_decoder = seen->part == ATTN_PART_DECODER;
    if (is_decoder == (l->part != MODEL_ENCODER) && seen->layer == l->number - 1)
        keep(&l->states, seen->hidden);
    if (!is_decoder && l->part == MODEL_CROSS && seen->layer == l->run.info.layers - 1)
        keep(&l->memory, seen->hidden);
    return 0;
}

/* x = what the attention of the layer takes: its input behind the norm where that comes first, of cross-attention what the part before it
   gives. The layer runs again to give it. */
static int find_input(model_layer *l, attn_tensor *x)
{
    const bool is_cross = l->part == MODEL_CROSS, is_post = l->facts.flags & ATTN_LAYER_POST_NORM;
    attn_tensor out;
    attn_sdpa_opts self = {.struct_size = sizeof self};
    attn_layer_stages stages = {.struct_size = sizeof stages};
    *x = l->states;
    if (!is_cross && (is_post || !l->facts.has_norm))
        return EXIT_DONE;
    *x = attn_tensor_of(need_memory((size_t)tensor_count(&l->states) * attn_dtype_size(l->states.dtype)), l->states.dtype, 2,
                        l->states.shape);
    l->weights[0] = x->data;
    if (is_cross && !is_post)
        stages.cross_norm = x;
    else
        stages.self_norm = x;
    if (l->window)
        self = (attn_sdpa_opts){.struct_size = sizeof self, .flags = ATTN_WINDOW, .window_left = l->window - 1, .window_right = -1};
    const attn_layer_opts opts = {
        .struct_size = sizeof opts, .self = &self, .memory = is_cross ? &l->memory : NULL, .stages = &stages};
    const int status = tensor_new(&out, "the layer's output", l->states.dtype, 2, l->states.shape);
    const attn_status done = status ? ATTN_OK : attn_layer_run(l->run.s->ctx, &out, l->layer, &l->states, &opts);
    free(out.data);
    return done == ATTN_OK ? status : library_trouble(attn_ctx_error(l->run.s->ctx));
}

/* ------------------------------------------------------------------ weights ---- */

static int read_weights(model_layer *l, mha_files *w)
{
    attn_layer_part *p = &l->facts;
    w->columns_q = p->heads * p->head_dim;
    w->columns_k = p->kv_heads * p->head_dim;
    w->columns_v = p->kv_heads * p->value_dim;
    const int64_t shapes[4][2] = {{p->width, w->columns_q},
                                  {p->memory_width, w->columns_k},
                                  {p->memory_width, w->columns_v},
                                  {p->heads * p->value_dim, l->run.info.width}};
    attn_tensor *const own[4][2] = {{&w->w_q, &w->b_q}, {&w->w_k, &w->b_k}, {&w->w_v, &w->b_v}, {&w->w_o, &w->b_o}};
    attn_tensor **const to[4][2] = {{&p->w_q, &p->b_q}, {&p->w_k, &p->b_k}, {&p->w_v, &p->b_v}, {&p->w_o, &p->b_o}};
    const attn_tensor **const given[4][2] = {
        {&w->desc.w_q, &w->desc.b_q}, {&w->desc.w_k, &w->desc.b_k}, {&w->desc.w_v, &w->desc.b_v}, {&w->desc.w_o, &w->desc.b_o}};
    int status = EXIT_DONE;
    for (int i = 0; i < 4 && !status; i++) {
        const bool biased = p->biases >> i & 1;
        const int64_t count = shapes[i][0] * shapes[i][1], size = (int64_t)attn_dtype_size(p->compute);
        char *memory = l->weights[1 + i] = need_memory((size_t)((count + shapes[i][1]) * size));
        *own[i][0] = attn_tensor_of(memory, p->compute, 2, shapes[i]);
        *own[i][1] = attn_tensor_of(memory + count * size, p->compute, 1, &shapes[i][1]);
        *to[i][0] = own[i][0];
        *to[i][1] = biased ? own[i][1] : NULL;
        *given[i][0] = own[i][0];
        *given[i][1] = biased ? own[i][1] : NULL;
    }
    w->desc.heads = p->heads;
    w->desc.kv_heads = p->kv_heads;
    const attn_status done = attn_layer_attention(l->run.s->ctx, l->layer, l->part == MODEL_CROSS, p);
    return done == ATTN_OK ? status : library_trouble(attn_ctx_error(l->run.s->ctx));
}

/* -------------------------------------------------------------------- open ---- */

static int find_layer(model_layer *l)
{
    const attn_part stack = l->part == MODEL_ENCODER ? ATTN_PART_ENCODER : ATTN_PART_DECODER;
    l->layer = attn_pretrained_layer(l->run.model, stack, l->number, &l->window);
    l->facts = (attn_layer_part){.struct_size = sizeof l->facts};
    const attn_status done = attn_layer_attention(l->run.s->ctx, l->layer, l->part == MODEL_CROSS, &l->facts);
    if (done == ATTN_OK && l->facts.has_head_norms)
        return trouble("%s norms q and k of each head, which the stages do not show; attn view shows its weights",
                       attn_pretrained_info(l->run.model).type);
    return done == ATTN_OK ? EXIT_DONE : library_trouble(attn_ctx_error(l->run.s->ctx));
}

int model_layer_open(model_layer *l, session *s, mha_inputs *m, mha_files *w)
{
    const attn_watch watch = {.struct_size = sizeof watch, .seen = on_layer, .user = l};
    *m = (mha_inputs){.memory_given = NULL};
    *w = (mha_files){.desc = {.struct_size = sizeof w->desc}};
    int status = check_options(s->o);
    if (!status)
        status = model_run_open(&l->run, s, s->o->value[OPT_FROM]);
    if (!status)
        status = model_part_chosen(&l->run, &l->part);
    if (!status)
        status = model_place_chosen(&l->run, OPT_LAYER, model_part_layers(&l->run, l->part), &l->number);
    if (!status)
        status = find_layer(l);
    if (!status)
        status = model_run_watched(&l->run, &watch);
    if (!status)
        status = find_input(l, &m->x);
    if (status)
        return status;
    if (l->part == MODEL_CROSS) {
        m->memory = l->memory;
        m->memory_given = &m->memory;
    }
    return read_weights(l, w);
}

void model_layer_close(model_layer *l)
{
    free(l->states.data);
    free(l->memory.data);
    for (size_t i = 0; i < sizeof l->weights / sizeof l->weights[0]; i++)
        free(l->weights[i]);
    model_run_close(&l->run);
}

void model_layer_settle(const model_layer *l, attn_sdpa_opts *opts, rotation *turn)
{
    if (l->facts.flags & ATTN_LAYER_CAUSAL)
        opts->flags |= ATTN_CAUSAL;
    if (l->window && !(opts->flags & ATTN_WINDOW)) {
        opts->flags |= ATTN_WINDOW;
        opts->window_left = l->window - 1;
        opts->window_right = -1;
    }
    turn->given = l->facts.rope != NULL;
    turn->rope = l->facts.rope;
    turn->interleaved = l->facts.rope_flags & ATTN_ROPE_INTERLEAVED;
}
