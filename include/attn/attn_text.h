/* SPDX-License-Identifier: Apache-2.0 */
/* libattn_text: the tokenizers of models, from the models' own files, with the ids, offsets and texts of Hugging Face's `tokenizers`.
 *
 *     tokenizer.json                       WordPiece, BPE (byte-level or with byte fallback), Unigram
 *     vocab.txt                            BERT's WordPiece, as tokenizer_config.json says
 *     vocab.json and merges.txt            byte-level BPE of GPT-2, RoBERTa and Qwen2
 *     source.spm, target.spm, vocab.json   Marian's SentencePiece unigrams
 *     arrays                               what a GGUF file holds: gpt2, llama, bert
 *
 * A kind, step or option that is not known is refused by its name, never skipped. Files are never trusted.
 * The library never prints, aborts, exits or changes global state. Every function that can fail takes err and err_size: on failure err
 * (unless NULL) receives one sentence, cut to err_size bytes with its 0. On success err is not touched.
 *
 * Text is UTF-8 with its size in bytes; it may hold zeros. Anything that is not UTF-8 is an error that names the byte. */
#ifndef ATTN_ATTN_TEXT_H
#define ATTN_ATTN_TEXT_H

#include "attn/attn.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Never changes after it was made: any number of threads may use one. */
typedef struct attn_tokenizer attn_tokenizer;

/* *out = the tokenizer of the model folder `dir`, or of the one tokenizer.json, vocab.txt that dir names; NULL on failure.
   In a folder: tokenizer.json; else vocab.txt; else vocab.json and merges.txt; else source.spm, target.spm and vocab.json.
   tokenizer_config.json, special_tokens_map.json and chat_template.jinja beside it are read where they exist. Truncation and padding that
   tokenizer.json asks for are not done: see max_length below.
   ATTN_E_IO: no such files. ATTN_E_FORMAT: malformed or hostile. ATTN_E_UNSUPPORTED: a kind that is not known. ATTN_E_NOMEM. */
ATTN_API attn_status attn_tokenizer_open(attn_tokenizer **out, const char *dir, char *err, size_t err_size);

/* Bytes that someone else owns. */
typedef struct attn_span {
    const char *text;
    size_t size;
} attn_span;

/* What a token is for. The values never change; they index attn_tokenizer_desc.special. */
typedef enum attn_special {
    ATTN_SPECIAL_BOS = 0,
    ATTN_SPECIAL_EOS = 1,
    ATTN_SPECIAL_UNK = 2,
    ATTN_SPECIAL_PAD = 3,
    ATTN_SPECIAL_CLS = 4,
    ATTN_SPECIAL_SEP = 5,
    ATTN_SPECIAL_MASK = 6
} attn_special;
enum { ATTN_SPECIAL_COUNT = 7 };

/* A tokenizer as GGUF files hold it. Everything is copied. */
typedef struct attn_tokenizer_desc {
    size_t struct_size;       /* sizeof(attn_tokenizer_desc) */
    const char *name;         /* the file, for sentences; NULL: "tokenizer" */
    const char *model;        /* tokenizer.ggml.model: "gpt2", "llama", "bert" */
    const char *pre;          /* tokenizer.ggml.pre: "qwen2", "smollm", "gpt-2", "llama-bpe", ...; NULL: "default". Of gpt2 only */
    size_t count;             /* tokens; the index is the id */
    const attn_span *tokens;
    const float *scores;      /* of llama [count]; else NULL */
    const int32_t *types;     /* tokenizer.ggml.token_type [count]: 2 unknown, 3 control, 4 user-defined, 6 byte; or NULL */
    size_t merge_count;
    const attn_span *merges;  /* of gpt2: "left right", the best first */
    const int32_t *special;   /* [ATTN_SPECIAL_COUNT] ids, -1 = none; or NULL = none */
    int32_t add_bos, add_eos; /* 1 yes, -1 no, 0 as that model does by default */
    int32_t space_prefix;     /* tokenizer.ggml.add_space_prefix of llama: 1 yes (also 0), -1 no */
    const char *chat_template; /* or NULL */
} attn_tokenizer_desc;

/* ATTN_E_UNSUPPORTED: a model or pre-tokenizer that is not known, by its name. ATTN_E_FORMAT: tokens that contradict each other.
   ATTN_E_ARG, ATTN_E_NOMEM. */
ATTN_API attn_status attn_tokenizer_create(attn_tokenizer **out, const attn_tokenizer_desc *desc, char *err, size_t err_size);

/* NULL is fine. */
ATTN_API void attn_tokenizer_destroy(attn_tokenizer *t);

/* One more than the largest id. */
ATTN_API size_t attn_tokenizer_count(const attn_tokenizer *t);

/* The token of that id as the file writes it (byte-level tokens in their printable letters, "##ing", a leading U+2581), 0-terminated,
   its size in *size unless NULL; valid as long as t. NULL when no token has that id. */
ATTN_API const char *attn_tokenizer_token(const attn_tokenizer *t, int64_t id, size_t *size);

/* The id of a token written like that, or -1. */
ATTN_API int32_t attn_tokenizer_id(const attn_tokenizer *t, const char *token, size_t size);

/* The id of the token that the model's files name for that purpose, or -1. */
ATTN_API int32_t attn_tokenizer_special(const attn_tokenizer *t, attn_special kind);

/* 1 when the id is a special token, which decoding can leave out; else 0. */
ATTN_API int32_t attn_tokenizer_is_special(const attn_tokenizer *t, int64_t id);

/* model_max_length of tokenizer_config.json; 0 when there is none. */
ATTN_API int64_t attn_tokenizer_max_length(const attn_tokenizer *t);

/* The model's chat template (Jinja) as its files have it, or NULL; valid as long as t. */
ATTN_API const char *attn_tokenizer_chat_template(const attn_tokenizer *t);

/* ------------------------------------------------------------- encoding ---- */

enum {
    ATTN_ENCODE_SPECIAL = 1, /* add the model's special tokens: [CLS] ... [SEP], <s>, </s> */
    ATTN_ENCODE_LITERAL = 2, /* special tokens written in the text are text: for text from strangers */
    ATTN_ENCODE_TARGET = 4   /* Marian: the text is in the target's language; elsewhere nothing */
};

/* One element for each token. */
typedef struct attn_encoding {
    size_t count;
    int32_t *ids;
    int32_t *type_ids;    /* 0; 1 in the second text, where the model tells them apart */
    int64_t *start, *end; /* bytes [start, end) of the text (of the pair where sequence is 1) that the token came from, always whole
                             characters: tokens that share a character have the same range. 0, 0 for added tokens */
    int32_t *word;        /* index of the word in its text, by the model's own split; -1 for added tokens */
    int8_t *sequence;     /* 0 text, 1 pair, -1 for tokens that ATTN_ENCODE_SPECIAL added */
} attn_encoding;

/* *out = the tokens of text, and of pair unless it is NULL; NULL on failure. max_length > 0: the longer of the two is cut at its end, token
   by token, until all fits, added tokens counted (transformers' longest_first). Identical for any number of threads.
   ATTN_E_ARG: not UTF-8, unknown flags, max_length below the number of added tokens. ATTN_E_FORMAT: a word that the model has no token for
   and no unknown token either, or text that exceeds the match limit of the model's own pattern. ATTN_E_NOMEM. */
ATTN_API attn_status attn_tokenizer_encode(const attn_tokenizer *t, const char *text, size_t size, const char *pair, size_t pair_size,
                                           uint32_t flags, size_t max_length, attn_encoding **out, char *err, size_t err_size);

/* NULL is fine. */
ATTN_API void attn_encoding_destroy(attn_encoding *e);

/* ------------------------------------------------------------- decoding ---- */

enum { ATTN_DECODE_SKIP_SPECIAL = 1 };

/* *text = the text of the tokens, always UTF-8 (U+FFFD for bytes that are not), 0-terminated, its size in *size unless NULL; to be
   freed by attn_text_free. ATTN_E_ARG: an id that no token has. ATTN_E_NOMEM. */
ATTN_API attn_status attn_tokenizer_decode(const attn_tokenizer *t, const int32_t *ids, size_t count, uint32_t flags, char **text,
                                           size_t *size, char *err, size_t err_size);

/* NULL is fine. */
ATTN_API void attn_text_free(char *text);

/* Decodes token by token. One thread at a time; t must outlive it. */
typedef struct attn_decoder attn_decoder;

ATTN_API attn_status attn_decoder_create(attn_decoder **out, const attn_tokenizer *t, uint32_t flags, char *err, size_t err_size);

/* *text = what the token adds, whole characters only, 0-terminated ("" while a character is incomplete); valid until the next call.
   All pieces and that of attn_decoder_end together are attn_tokenizer_decode's text. ATTN_E_ARG: an id that no token has, which leaves
   the decoder as it was. ATTN_E_NOMEM. */
ATTN_API attn_status attn_decoder_put(attn_decoder *d, int32_t id, const char **text, size_t *size, char *err, size_t err_size);

/* *text = what is left, an incomplete character as U+FFFD. The decoder is as new afterwards. */
ATTN_API attn_status attn_decoder_end(attn_decoder *d, const char **text, size_t *size, char *err, size_t err_size);

/* NULL is fine. */
ATTN_API void attn_decoder_destroy(attn_decoder *d);

#ifdef __cplusplus
}
#endif
#endif
