/* SPDX-License-Identifier: Apache-2.0 */
/* The tokens of a text as a reader sees them, and the words that they belong to. */
#ifndef ATTN_CLI_MODEL_TOKENS_H
#define ATTN_CLI_MODEL_TOKENS_H

#include <attn/attn_text.h>
#include <stdbool.h>

/* A space is shown as U+2581, as SentencePiece writes it; bytes that are no character as <0xED>. An added token is a word of its own. */
typedef struct token_list {
    int64_t count, words;
    int32_t *ids, *types; /* [count]; types NULL: all 0 */
    char **name;          /* [count] */
    int64_t *word;        /* [count]: the word that the token is part of */
    char **word_name;     /* [words]: as the text has it */
} token_list;

/* The tokens of `text`, and of `pair` unless it is NULL, with the model's special tokens. 0, or an exit code after a message. */
int tokens_of_text(token_list *l, const attn_tokenizer *t, const char *text, const char *pair, uint32_t flags);
/* The same of ids that no text is known of: their words are joined of the tokens. */
void tokens_of_ids(token_list *l, const attn_tokenizer *t, const int32_t *ids, size_t count);
/* One more token in front. */
void tokens_prepend(token_list *l, const attn_tokenizer *t, int32_t id);
void token_list_free(token_list *l);
#endif
