/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of `attn explain` share. */
#ifndef ATTN_CLI_EXPLAIN_H
#define ATTN_CLI_EXPLAIN_H

#include "attention.h"
#include "explain_words.h"
#include "heat.h"
#include "json_out.h"
#include "page_data.h"
#include "rope.h"
#include "table.h"
#include "tokens.h"

/* One attention and how it is to be told. */
typedef struct explanation {
    session *s;
    const qkv *t;
    const sizes *z;
    const attn_sdpa_opts *opts;
    explain_lang lang;
    int round; /* -1: not given */
    heat_form heat;
    rotation *turn; /* of --rope; t is turned then */
    const char *const *row_names, *const *key_names; /* of --tokens and --key-tokens, or NULL */
} explanation;

enum { STAGE_SCORES, STAGE_SCALED, STAGE_CAPPED, STAGE_MASKED, STAGE_WEIGHTS, STAGE_COUNT };
extern const char *const explain_stage_name[STAGE_COUNT];

enum { HIDDEN_BITS = 6 };
/* The options that hide a key, in the order of ATTN_HIDDEN_*. */
extern const char *const explain_hidden_name[HIDDEN_BITS];

/* Every number of row i of head h of batch item b. */
typedef struct row_numbers {
    int64_t b, h, i;
    double *stage[STAGE_COUNT]; /* [Lk] each */
    double *output;             /* [d_v] */
    uint8_t *hidden;            /* [Lk]: ATTN_HIDDEN_* */
    attn_row row;               /* what attn_explain_cell sets; its tensors are gone */
} row_numbers;

/* 0, or an exit code after a message. Free in either case. */
int row_collect(const explanation *e, int64_t b, int64_t h, int64_t i, row_numbers *r);
void row_free(row_numbers *r);

/* --round, --lang, --tokens and --key-tokens. 0, or an exit code after a message. */
int explain_settings(const options *o, explanation *e, labels *words);

/* What RoPE makes of q and k, where there is one. */
void explain_rope(const explanation *e);
/* The stages of every head that is shown. */
int explain_stages(const explanation *e);
/* The weights of one head as a heat map, as --heat has it: some rows of many, keys in bands. 0, or an exit code after a message. */
int explain_heat(const explanation *e, int64_t batch, int64_t head);
/* The same of rows that `read` gives: Lk shares, NaN for a hidden key. */
int explain_heat_map(const explanation *e, int (*read)(const explanation *e, const void *user, int64_t i, double *row), const void *user);
/* --cell. */
int explain_cell(const explanation *e, const char *place);
/* The sums of a row, every term of them: q . k of key j, behind `lead`; the columns of the output; the part of it that is key j's. */
void explain_dot(const explanation *e, const row_numbers *r, int64_t j, const char *lead);
void explain_mix(const explanation *e, const row_numbers *r);
void explain_contribution(const explanation *e, const row_numbers *r, int64_t j);
/* The softmax of one row written out, with and without its maximum taken off. */
void explain_hand_sum(const explanation *e, const row_numbers *r);

/* "1", or "1 (am)" with names; returns out. */
enum { NAME_TEXT = 80 };
const char *explain_place(char out[NAME_TEXT], const char *const *names, int64_t at);
/* A number for running text: `decimals` of --round, else the given number of them. */
const char *explain_number(char out[CELL_TEXT], const explanation *e, int decimals, double value);
/* A setting, which --round does not touch: six digits. */
const char *explain_setting(char out[CELL_TEXT], double value);
/* The words for the bits of why a key is hidden: "causal, kv-len". */
const char *explain_why_short(char out[NAME_TEXT], uint8_t hidden);
/* "formula = name", the shapes, and a line of words. */
void explain_heading(const char *formula, const char *shapes, const char *line);
/* True when the options hide a key or add to a score. */
bool explain_masks(const attn_sdpa_opts *opts);
/* Dropout took key j of the row out: visible, its weight 0 though its share is not. */
bool explain_dropped(const explanation *e, const row_numbers *r, int64_t j);
/* "softmax(masked)", and what sinks and dropout make of it; returns out. */
enum { FORMULA_TEXT = 96 };
const char *explain_weights_formula(char out[FORMULA_TEXT], const attn_sdpa_opts *opts);
/* The scale is 1/sqrt(d). */
bool explain_default_scale(const explanation *e);

/* Every stage of the attention into r, under the names of the contract, for --json and --npz; opts gets the tensors. The output is not
   among them. */
int explain_add_stages(const explanation *e, results *r, attn_sdpa_opts *opts);
/* --npz: the stages in r, q, k, v and z (B,H,L,d) under TransformerLens's names and in its shapes. Before results_open. */
void explain_bundle(const explanation *e, results *r, const qkv *t, const attn_tensor *z);
/* "run": what ran. */
void explain_json_run(json_writer *j, const explanation *e);
/* What --json prints: the settings, and every result as a stage with its formula. There is a row. */
int explain_print_json(const explanation *e, const results *r);

/* --html: what every page has; r writes it when it commits. The caller adds what the page shows, before. */
void explain_page(const options *o, const char *kind, explain_lang lang, int round, results *r, page *p);
/* The names of rows and keys, and the attention of e. 0, or an exit code after a message. */
int explain_page_attention(const explanation *e, page *p);
/* Writes the page unless status says that something went wrong, and closes both. The exit code. */
int explain_page_end(results *r, page *p, int status);
/* 0, or an exit code after the sentence of the page. */
int explain_page_status(const page *p, attn_status status);

/* attn explain split. */
int explain_split(const options *o);
/* attn explain mha. */
int explain_mha(const options *o);
#endif
