/* SPDX-License-Identifier: Apache-2.0 */
/* A pretrained model in memory, whatever family it came from. open.c makes it with the help of the family's file; run_*.c run it. */
#ifndef ATTN_LOAD_MODEL_H
#define ATTN_LOAD_MODEL_H
#include <attn/attn_load.h>

#include "config.h"
#include "weights.h"

/* A norm outside the layers. Its tensors are views into the weights. */
struct norm {
    int is_there;
    uint32_t flags; /* of attn_norm_opts */
    double eps;
    attn_tensor weight, bias; /* ndim 0: none */
};

/* Tables are views into the weights; ndim 0: there is none. */
struct embeddings {
    attn_tensor token, position, type;
    int64_t gguf_table;     /* where token.ndim is 0: the tensor of the .gguf whose rows are read one by one */
    int has_scale;
    double scale;           /* of the token's row */
    int64_t first_position; /* row of `position` for the first token */
    struct norm norm;
};

/* A pile of layers. */
struct stack {
    struct embeddings in;
    attn_layer **layer; /* [layers] */
    int64_t layers;
    struct norm final;
    attn_rope *rope; /* NULL: none; that of every layer */
    int64_t *window; /* [layers]: keys that a row of the layer sees, itself included; 0 = all before it */
};

enum { MODEL_STOPS = 16 };

/* Of an encoder-decoder. */
enum { SEQ2SEQ_BANNED = 16 };
struct seq2seq {
    attn_linear_weights *product; /* hidden state -> logits, with the bias */
    float *positions;             /* the table that both stacks see */
    /* How the files want to generate. */
    int64_t start, eos, forced_eos; /* forced_eos -1: none */
    int64_t beams, max_length;      /* max_length counts the start token */
    double length_penalty;
    int early, never;
    int64_t banned[SEQ2SEQ_BANNED]; /* ids that never come */
    int banned_count;
};

/* What makes one vector of a sequence's rows (modules.c reads it, pooling.c runs it). */
enum dense_activation { DENSE_IDENTITY, DENSE_TANH, DENSE_SIGMOID, DENSE_RELU, DENSE_GELU, DENSE_SILU };
struct module {
    attn_linear_weights *dense; /* NULL: to length 1 */
    int64_t in, out;            /* columns of a dense one */
    enum dense_activation activation;
};
struct prompt {
    char *name, *text;
};
enum { POOL_MODES = 6, POOL_MODULES = 16 };
struct vectors {
    attn_pooling mode[POOL_MODES]; /* side by side */
    int modes;
    struct module module[POOL_MODULES]; /* behind the pooling */
    int modules;
    struct prompt *prompt;
    size_t prompts;
    const char *default_prompt; /* NULL, or the text of one of them */
};

struct attn_pretrained {
    char *path;
    char *type; /* model_type */
    const struct family *family;
    attn_model_info info;
    struct weights weights; /* stays open: tables and norms are views */
    struct stack encoder, decoder;
    attn_linear_weights *head; /* of a decoder: hidden state -> logits */
    int32_t stop[MODEL_STOPS]; /* ids that end a text */
    int stop_count;
    struct seq2seq seq2seq;
    struct vectors vectors; /* of an encoder */
};

/* What a family's build function works with. */
struct builder {
    attn_ctx *ctx;
    struct attn_pretrained *model;
    struct config *config;    /* config.json, opened */
    struct weights *weights;  /* &model->weights, opened */
    struct load_report report; /* about the folder */
    int is_f64;
};

/* One file each; listed in families.c. */
struct family {
    const char *const *types; /* of config.json's model_type; ends with NULL */
    attn_model_kind kind;
    /* Fills model->info but for type, kind, compute, parameters; and the stacks. Ends with attn_config_rest and attn_weights_rest. What it
       made is freed by attn_pretrained_destroy, also after a failure. */
    attn_status (*build)(struct builder *b);
};
extern const struct family attn_family_bert, attn_family_gpt2, attn_family_llama, attn_family_marian;

/* NULL when no family has the type. */
const struct family *attn_family_of(const char *type);
/* "bert, roberta, ..." into text; returns text. */
const char *attn_family_types(char *text, size_t size);

/* ---- build.c: what families share ---- */

/* Room for `layers` layers. */
attn_status attn_build_stack(struct builder *b, struct stack *s, int64_t layers);
/* Prepares layer i of the stack and forgets the pages that it was read from. First looks at the status of the weights. */
attn_status attn_build_layer(struct builder *b, struct stack *s, int64_t i, const attn_layer_desc *desc);
/* Options for a norm; n must stay while they are used. */
attn_norm_opts attn_norm_opts_of(const struct norm *n);
/* LayerNorm of n columns: NAME.weight and NAME.bias, or NAME.gamma and NAME.beta as TensorFlow called them. */
struct norm attn_build_layer_norm(struct builder *b, int64_t n, double eps, const char *name);
void attn_stack_free(struct stack *s);

/* ---- modules.c: what sentence-transformers declares beside an encoder ---- */

/* Fills model->vectors, and of model->info embedding, max_tokens and skips_prompt. */
attn_status attn_modules_read(struct builder *b);
void attn_modules_free(struct vectors *v);
#endif
