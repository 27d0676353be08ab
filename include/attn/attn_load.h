/* SPDX-License-Identifier: Apache-2.0 */
/* libattn_load: pretrained models from the files that people have.
 *
 *     attn_pretrained_open        a folder as Hugging Face's libraries write it -> a model, ready to run
 *     attn_pretrained_encode      token ids -> hidden states, and everything between them for whoever watches
 *     attn_pretrained_embed       token ids -> one vector for each sequence, pooled as the folder declares
 *     attn_pretrained_tokenizer   the tokenizer of the same folder or .gguf
 *     attn_chat_text              messages -> the text that the model's chat template makes of them
 *
 * What attn/attn.h says of tensors, contexts, option structs, errors and threads holds here too. docs/models.md has the models that are
 * loaded and what is refused. Words: B sequences, L tokens of the longest, n the width of the model.
 *
 * Nothing is guessed. A field of config.json that is missing, unknown or contradicts the tensors, a tensor that is missing, left over or
 * of another shape, a model_type that is not in the table: each is an error that names the file and the thing. Files are never trusted:
 * sizes are checked before anything is allocated.
 *
 * A row's bits depend on nothing but the tokens of its own sequence: not on threads, on the other sequences, nor on padding, of which
 * nothing is computed. */
#ifndef ATTN_ATTN_LOAD_H
#define ATTN_ATTN_LOAD_H

#include "attn/attn_model.h"
#include "attn/attn_text.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ----------------------------------------------------------------- opening ---- */

/* A model: weights, configuration, tokenizer. It never changes: any number of contexts may run it at once. */
typedef struct attn_pretrained attn_pretrained;

enum { ATTN_PRETRAINED_F64 = 1u << 0 }; /* compute in f64 whatever the weights are */

/* All-zero is the default. */
typedef struct attn_pretrained_opts {
    uint32_t struct_size; /* sizeof(attn_pretrained_opts) of the caller; 0 = this version's */
    uint32_t flags;
} attn_pretrained_opts;

/* *out = the model at path, NULL on failure. path is a folder with config.json and model.safetensors, or the shards that
   model.safetensors.index.json names. Weights are f32, f16, bf16 or f64, packed once for the ISA level of ctx and for contexts of that
   level; embedding tables stay in the mapped file, which must not be shortened meanwhile. A folder without a tokenizer opens: it is missed
   where text is given.
   Of encoders the modules that sentence-transformers declares beside the model are read too: modules.json with one Transformer, which is
   the folder itself, one Pooling and any Normalize, Dense and Dropout behind it; max_seq_length and do_lower_case of
   sentence_bert_config.json; the prompts of config_sentence_transformers.json. Another module, or a field of theirs that is not known, is
   refused by name. Without modules.json the rows are averaged, and nothing comes behind it, as sentence-transformers does.
   err, when not NULL, receives the sentence of a failure (at most err_size bytes with the 0).
   ATTN_E_IO: a file cannot be read. ATTN_E_FORMAT: a file says what cannot be, or lacks what must be. ATTN_E_UNSUPPORTED: it says what is
   not computed here; it is refused by name. ATTN_E_SHAPE, ATTN_E_DTYPE: a tensor that the configuration contradicts. ATTN_E_ARG,
   ATTN_E_NOMEM, ATTN_E_CANCELLED. */
ATTN_API attn_status attn_pretrained_open(attn_ctx *ctx, attn_pretrained **out, const char *path, const attn_pretrained_opts *opts,
                                          char *err, size_t err_size);
/* NULL is fine. Before what the allocator hooks of its context need is gone. */
ATTN_API void attn_pretrained_destroy(attn_pretrained *model);

/* The values never change. */
typedef enum attn_model_kind {
    ATTN_MODEL_ENCODER = 1,        /* hidden states: encode, embed */
    ATTN_MODEL_DECODER = 2,        /* logits of the next token */
    ATTN_MODEL_ENCODER_DECODER = 3 /* both, with cross-attention */
} attn_model_kind;

typedef struct attn_model_info {
    const char *type;          /* the model_type of config.json: "bert"; lives as long as the model */
    attn_model_kind kind;
    attn_dtype compute;        /* f32 or f64 */
    int64_t layers;            /* of the encoder, or of a decoder without one */
    int64_t decoder_layers;    /* of an encoder-decoder; else 0 */
    int64_t heads, kv_heads, head_dim;
    int64_t width;             /* n */
    int64_t hidden;            /* columns of the MLP's middle */
    int64_t vocab;             /* ids are 0 .. vocab - 1 */
    int64_t max_positions;     /* tokens that a sequence may have; 0 = any number */
    int64_t max_tokens;        /* to which a text is cut: the smaller of max_seq_length, where it is declared, and max_positions; what the
                                  tokenizer declares (attn_tokenizer_max_length) bounds it too; 0 = any number */
    int64_t embedding;         /* columns that attn_pretrained_embed gives for the declared pooling; 0 for other kinds than encoders */
    int64_t parameters;        /* numbers in all tensors that are used */
    int32_t skips_prompt;      /* 1: a prompt before a text is attended to, but its tokens are not pooled; attn_vector_opts.skip tells
                                  how many they are */
} attn_model_info;

/* NULL gives all-zero. */
ATTN_API attn_model_info attn_pretrained_info(const attn_pretrained *model);

/* -------------------------------------------------------------------- text ---- */

/* *out = the tokenizer of the model at path: attn_tokenizer_open of a folder (or of the file that it takes), or what a .gguf holds. The
   model need not be open. Ends with attn_tokenizer_destroy. err and errors are those of attn_tokenizer_open. */
ATTN_API attn_status attn_pretrained_tokenizer(attn_tokenizer **out, const char *path, char *err, size_t err_size);

/* What one side says: role is "system" (first only), "user" or "assistant". Both are UTF-8 that ends with a 0. */
typedef struct attn_message {
    const char *role, *content;
} attn_message;

/* *text = the messages as the model's chat template writes them, up to where the answer begins; its size in *size unless NULL; to be freed
   by attn_text_free. It holds the special tokens: to be encoded without ATTN_ENCODE_SPECIAL. Without a message of the system the template's
   own one is written. A template is never run but recognised: ChatML (Qwen2, Qwen2.5, SmolLM2) and Llama 3, 3.1 and 3.2 without tools, the
   texts that Jinja makes of them. date: what Llama 3.1 and 3.2 write as today's, "26 Jul 2024"; NULL: what the template says, which in 3.2
   is the day by the clock.
   ATTN_E_UNSUPPORTED: no template, or another one, by what in it is not understood. ATTN_E_ARG: a role, or no messages. ATTN_E_NOMEM. */
ATTN_API attn_status attn_chat_text(const attn_tokenizer *t, const attn_message *messages, size_t count, const char *date, char **text,
                                    size_t *size, char *err, size_t err_size);

/* -------------------------------------------------------------- watching ---- */

/* What makes a model visible: a callback after each layer. Only one layer's weights exist at a time. */
enum {
    ATTN_WATCH_SELF = 1u << 0, /* self_weights are wanted */
    ATTN_WATCH_CROSS = 1u << 1  /* cross_weights are wanted */
};

typedef enum attn_part { ATTN_PART_ENCODER = 0, ATTN_PART_DECODER = 1 } attn_part;

/* Numbers are of the compute dtype and valid during the callback. Rows and weights of padding are 0. */
typedef struct attn_layer_view {
    uint32_t struct_size;              /* of this version */
    attn_part part;
    int64_t layer;                     /* 0 .. layers-1; -1: `hidden` is what the first layer takes, and there is nothing else */
    const attn_tensor *hidden;         /* [B,L,n]: what the layer gives */
    const attn_tensor *self_weights;   /* NULL or [B,H,L,Lk]; Lk counts cached keys too */
    const attn_tensor *cross_weights;  /* NULL or [B,H,L,Ls] */
} attn_layer_view;

/* All-zero watches nothing. */
typedef struct attn_watch {
    uint32_t struct_size; /* sizeof(attn_watch) of the caller; 0 = this version's */
    uint32_t flags;       /* what is wanted beside the hidden states */
    int (*seen)(void *user, const attn_layer_view *view); /* nonzero cancels: ATTN_E_CANCELLED */
    void *user;
} attn_watch;

/* Layer `layer` of a part, as the model runs it: attn_layer_run on the hidden states of the layer before gives every stage, and
   attn_layer_attention its weights. NULL when there is no such layer. *window, unless NULL: the keys that a row of it sees, itself
   included; 0 = no limit. It lives as long as the model. */
ATTN_API const attn_layer *attn_pretrained_layer(const attn_pretrained *model, attn_part part, int64_t layer, int64_t *window);

/* -------------------------------------------------------------- encoders ---- */

/* All-zero is the default. Each sequence is one run of tokens in its row: those of `mask`, else the first `lengths`, else all L. The rest
   is padding, whatever ids it holds. */
typedef struct attn_encode_opts {
    uint32_t struct_size;        /* sizeof(attn_encode_opts) of the caller; 0 = this version's */
    uint32_t flags;              /* 0 */
    const attn_tensor *lengths;  /* NULL, or int32 or int64 [B], 0..L */
    const attn_tensor *mask;     /* NULL, or bool or an integer dtype [B,L]: nonzero = a token. Left and right padding are fine, a hole
                                    in a sequence is not. Not together with lengths */
    const attn_tensor *type_ids; /* NULL = 0, or int32 or int64 [B,L]: the segment of a token, where the model has segments */
    const attn_watch *watch;
} attn_encode_opts;

/* out = the hidden states behind the last layer (last_hidden_state), 0 for padding. ids int32 or int64 [B,L] or [L]; out [B,L,n] or
   [L,n], any float dtype.
   Positions are counted within the sequence from its first token, as for the same sequence without padding: BERT from 0, RoBERTa, XLM-R
   and CamemBERT from padding_idx + 1. An encoder-decoder gives its encoder's states.
   ATTN_E_ARG: an id, type or length out of range, a hole, an overlap. ATTN_E_SHAPE, ATTN_E_DTYPE. ATTN_E_UNSUPPORTED: the model has no
   encoder. ATTN_E_NOMEM, ATTN_E_CANCELLED. Memory beyond the arguments: O(tokens * (n + hidden)), and L*L*H of a watched layer. */
ATTN_API attn_status attn_pretrained_encode(attn_ctx *ctx, const attn_pretrained *model, attn_tensor *out, const attn_tensor *ids,
                                            const attn_encode_opts *opts);

/* How the rows of a sequence become one vector. The values never change. */
typedef enum attn_pooling {
    ATTN_POOL_DECLARED = 0,      /* what the folder declares, several side by side; without modules.json the mean */
    ATTN_POOL_CLS = 1,           /* the first token's row */
    ATTN_POOL_MEAN = 2,
    ATTN_POOL_MAX = 3,           /* column by column */
    ATTN_POOL_MEAN_SQRT_LEN = 4, /* the sum / sqrt(tokens) */
    ATTN_POOL_WEIGHTED_MEAN = 5, /* token i (from 1) weighs i */
    ATTN_POOL_LAST = 6           /* the last token's row */
} attn_pooling;

/* "mean", "cls", "max", "mean_sqrt_len_tokens", "weightedmean", "lasttoken", "declared"; "?" for a value that is none. Static. */
ATTN_API const char *attn_pooling_name(attn_pooling p);

enum {
    ATTN_VECTOR_NORMALIZE = 1u << 0, /* to length 1 at the end, though the folder does not */
    ATTN_VECTOR_RAW = 1u << 1        /* none of the declared modules behind the pooling (Dense, Normalize) */
};

/* All-zero is the default. */
typedef struct attn_vector_opts {
    uint32_t struct_size; /* sizeof(attn_vector_opts) of the caller; 0 = this version's */
    uint32_t flags;
    attn_pooling pooling; /* in place of the declared one; declared modules behind it stay, and must fit */
    int64_t skip;         /* tokens at the start of each sequence that are attended to but not pooled: those of a prompt where the folder
                             says include_prompt: false. The others keep their weights in ATTN_POOL_WEIGHTED_MEAN */
} attn_vector_opts;

/* out [B,n'], any float dtype = one vector for each sequence; ids [B,L] or [L] (out [n']), encode as for attn_pretrained_encode; encode
   and opts may be NULL. n' is attn_pretrained_columns(model, opts). Where no token is left to pool the pooled row is 0. Sums are made in
   f64 and rounded to the compute dtype, in which the modules run; Normalize divides by max(length, 1e-12).
   Errors as attn_pretrained_encode; ATTN_E_ARG: unknown flags or pooling, a negative skip. ATTN_E_SHAPE: a pooling of another width than
   the declared Dense behind it takes. ATTN_E_UNSUPPORTED: the model is no encoder. */
ATTN_API attn_status attn_pretrained_embed(attn_ctx *ctx, const attn_pretrained *model, attn_tensor *out, const attn_tensor *ids,
                                           const attn_encode_opts *encode, const attn_vector_opts *opts);

/* The columns that attn_pretrained_embed gives with opts: attn_pretrained_info().embedding for NULL; 0 for options that it refuses. */
ATTN_API int64_t attn_pretrained_columns(const attn_pretrained *model, const attn_vector_opts *opts);

/* The text that the folder declares under a prompt's name (config_sentence_transformers.json), NULL when there is none; "" is one. name
   NULL: the declared default. It is put before each text that is embedded, by who has the text.
   attn_pretrained_prompt_name: the names, i = 0, 1, ... until NULL. They live as long as the model. */
ATTN_API const char *attn_pretrained_prompt(const attn_pretrained *model, const char *name);
ATTN_API const char *attn_pretrained_prompt_name(const attn_pretrained *model, size_t i);

#ifdef __cplusplus
}
#endif
#endif
