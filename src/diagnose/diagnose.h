/* SPDX-License-Identifier: Apache-2.0 */
/* Which mistake makes attention give this output? The right answer is ref/attn_ref.c; each mistake is a variation of it. No I/O: tensors
   and options in, a report out. */
#ifndef ATTN_DIAGNOSE_H
#define ATTN_DIAGNOSE_H

#include <attn/attn.h>
#include <stdbool.h>

/* Systems whose rules differ from ours in places (docs/dialects.md). */
enum dialect {
    DIALECT_TORCH,
    DIALECT_TORCH_MHA,
    DIALECT_ONNX_1_21,
    DIALECT_ONNX_1_22,
    DIALECT_ONNX_1_23,
    DIALECT_FLASH2,
    DIALECT_FLASH3,
    DIALECT_HF_EAGER,
    DIALECT_MLX,
    DIALECT_JAX,
    DIALECT_GGML,
    DIALECT_ORT,
    DIALECTS
};

/* q and k of each head are turned first (attn_rope_apply). */
typedef struct diagnose_rope {
    double theta;
    bool interleaved;
    const int64_t *rows, *keys; /* [B,Lq] and [B,Lk]: the positions */
} diagnose_rope;

typedef struct diagnose_input {
    /* Attention alone: q, k, v as attn_sdpa takes them. Otherwise q is NULL, and mha, x, memory, memory_v are as attn_mha takes them. */
    const attn_tensor *q, *k, *v;
    const attn_mha_desc *mha;
    const attn_tensor *x, *memory, *memory_v;
    const attn_sdpa_opts *opts;     /* NULL = all-zero; its outputs are ignored */
    const diagnose_rope *rope;      /* NULL: none. q, k, v are given before it */
    bool blhd;                      /* q, k, v and got are (..,H,L,d) views of (..,L,H,d) memory */
    const attn_tensor *got;         /* the output to be judged: f32, f16, bf16 or f64 */
    const attn_tensor *got_weights; /* NULL, or its weights (..,H,Lq,Lk) */
    const attn_tensor *computed;    /* NULL, or what the library gives, in the shape of the right answer: where rows are sampled, those
                                       that are furthest from it are among them, so that one wrong row is not missed */
    bool tolerance_given;           /* rtol and atol instead of the bounds of docs/numerics.md */
    double rtol, atol;
    double work; /* multiply-adds that trying one mistake may take; more is sampled by rows. 0 = a default of about a tenth of a second */
} diagnose_input;

enum { DIAGNOSE_PARTS = 4 };
enum diagnose_lang { DIAGNOSE_EN, DIAGNOSE_KO, DIAGNOSE_LANGS };

/* One mistake in words. Static. */
typedef struct mistake_words {
    const char *id;
    const char *name[DIAGNOSE_LANGS], *remedy[DIAGNOSE_LANGS];
} mistake_words;

/* A mistake, or several together, and how near it comes to the output. */
typedef struct diagnose_candidate {
    const mistake_words *part[DIAGNOSE_PARTS];
    int parts;
    bool matches;      /* every compared cell lies within its bound */
    bool is_dialect;   /* the rule of another system */
    double max_abs;    /* the greatest difference; INFINITY where one of the two is not finite */
    double max_bounds; /* the same in bounds */
} diagnose_candidate;

typedef enum diagnose_verdict { DIAGNOSE_EQUAL, DIAGNOSE_NAMED, DIAGNOSE_TIED, DIAGNOSE_UNKNOWN, DIAGNOSE_UNJUDGED } diagnose_verdict;

typedef struct diagnose_report {
    diagnose_verdict verdict;
    attn_dtype dtype;           /* of OUT, whose bound is used */
    double rtol, atol;          /* given, or: half an ulp of the dtype, and the greatest bound of a cell beside it */
    double max_abs, max_bounds; /* OUT against the right answer */
    double usual_abs;           /* how far an ordinary f32 (f64) computation is off here; 0: not measured */
    double sharpness;           /* the part of the bounds of docs/numerics.md that was allowed, a multiple of what is usual; 1: all of it */
    double weights_max_bounds;  /* the same of the weights; 0 where none were given */
    int64_t cells, differing;   /* compared, and beyond their bound */
    int64_t unjudged;           /* of the cells: their numbers may leave the range of the precision, where no bound holds */
    int64_t worst[4];           /* the one that is most bounds off, in the axes of OUT */
    int64_t first[4];           /* the first of them, in the axes of OUT */
    int32_t rank;               /* of OUT: axes of worst and first */
    double first_got, first_right;
    /* The cells that differ lie between these places, both included: batch item, head (mha: 0), row, column; and how many there are. */
    int64_t from[4], to[4], extent[4];
    diagnose_candidate *candidate; /* those that match, best first; then the nearest others */
    int candidates, matching;
    int left_out;                           /* not tried for their cost */
    bool dropout_untold;                    /* the weights are not known: whether dropout was on cannot be seen */
    int tried;                              /* mistakes and pairs */
    const char *tell_apart[DIAGNOSE_LANGS]; /* with several that match: an input that would tell them apart; NULL: none is known */
    bool tells_all;                         /* all of them; otherwise some */
    int64_t *sampled;                       /* NULL, or the rows (along Lq) that were compared */
    int64_t sampled_rows, of_rows;
    int64_t sampled_all, of_all; /* the same counted over all batch items and heads (mha: batch items) */
    int64_t compared;            /* of of_all, that were compared with the right answer */
    bool sampled_equality;       /* even whether OUT is right was judged by these rows alone */
} diagnose_report;

typedef enum diagnose_status { DIAGNOSE_OK, DIAGNOSE_BAD_SHAPE, DIAGNOSE_NO_MEMORY } diagnose_status;

/* *out is a report, to be freed; NULL on failure. DIAGNOSE_BAD_SHAPE: got or got_weights has no shape that can be read; why has the
   sentence. The arguments must be valid: attn_sdpa or attn_mha took them. */
diagnose_status diagnose_run(diagnose_report **out, const diagnose_input *in, char *why, size_t why_size);
void diagnose_free(diagnose_report *r);

/* Every mistake that is known, for documents: i = 0, 1, ... until NULL. Dialects are at the end. */
const mistake_words *diagnose_mistake(int i);
#endif
