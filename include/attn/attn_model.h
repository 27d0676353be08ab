/* SPDX-License-Identifier: Apache-2.0 */
/* libattn_model: the layers around attention that models are made of.
 *
 *     attn_rope        rotary position embedding                 attn_linear      x W + b
 *     attn_layer_norm  attn_rms_norm                             attn_softmax
 *     attn_activate    GELU, SiLU, ReLU                          attn_glu         SwiGLU, GeGLU
 *     attn_embed       token + position + type
 *
 * What attn/attn.h says of tensors, contexts, option structs, errors and threads holds here too. Words: n the width of a row (its last
 * axis), u the unit roundoff of the output's dtype.
 *
 * Everything but attn_linear is computed in f64 whatever the dtypes are, and rounded once to the dtype of the output: its error is half a
 * unit in the last place and what docs/numerics.md says of f64. f16, bf16, f32 and f64 are taken, each tensor its own.
 * A row's bits depend on nothing but the row: not on threads, strides, the rows beside it, nor the ISA level (attn_linear: on one level).
 * NaN and Inf go through by IEEE arithmetic and stay in their row. No output may share an element with an input.
 *
 * Errors of every call: ATTN_E_ARG, ATTN_E_SHAPE, ATTN_E_DTYPE, ATTN_E_NOMEM, ATTN_E_CANCELLED; argument errors are found before anything
 * is written, and attn_ctx_error() has the sentence. Sizes of 0 are valid. A second call of a size allocates nothing. */
#ifndef ATTN_ATTN_MODEL_H
#define ATTN_ATTN_MODEL_H

#include "attn/attn.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------ RoPE ---- */

/* Column pair p of r/2 turns by the angle pos * f_p, f_p = theta^(-2p/r):
 *
 *     out_a = x_a cos - x_b sin        (a, b) = (p, p + r/2), or (2p, 2p+1) with ATTN_ROPE_INTERLEAVED
 *     out_b = x_b cos + x_a sin
 *
 * for the first r = rotary_dim columns; the others pass. (Su et al. 2021, "RoFormer", eq. 15 and 34: interleaved. Halves: GPT-NeoX, and
 * every Llama and Qwen checkpoint in Hugging Face's layout.) */
typedef struct attn_rope attn_rope;

enum { ATTN_ROPE_INTERLEAVED = 1u << 0 };

/* How the frequencies of a longer context are made of f_p. s = factor, N = original_length, and g_p what is used for f_p. */
typedef enum attn_rope_scaling {
    ATTN_ROPE_PLAIN = 0,   /* g = f */
    ATTN_ROPE_LINEAR = 1,  /* g = f / s (Chen et al. 2023, "Extending Context Window of LLMs via Position Interpolation") */
    ATTN_ROPE_DYNAMIC = 2, /* theta (s L/N - (s-1))^(r/(r-2)) for theta, with L = max(length, N) (the dynamic NTK rule of Hugging Face) */
    ATTN_ROPE_LLAMA3 = 3,  /* with the wavelength w = 2 pi / f: f/s where w > N / low_freq; f where w < N / high_freq; between them
                              (1-m) f/s + m f, m = (N/w - low_freq) / (high_freq - low_freq) (Llama 3.1's reference code) */
    ATTN_ROPE_YARN = 4     /* (1-m) f/s + m f, m = 1 - clamp((p - lo)/(hi - lo), 0, 1), lo = floor(c(beta_fast)) >= 0,
                              hi = ceil(c(beta_slow)) <= r-1, c(t) = r ln(N/(2 pi t)) / (2 ln theta); cos and sin times
                              attention_factor (Peng et al. 2023, "YaRN", section 3.2 and 3.4) */
} attn_rope_scaling;

/* All-zero is the default in every field but head_dim. */
typedef struct attn_rope_desc {
    uint32_t struct_size;        /* sizeof(attn_rope_desc) of the caller; 0 = this version's */
    uint32_t flags;              /* ATTN_ROPE_INTERLEAVED or 0 */
    int64_t head_dim;            /* d > 0 */
    int64_t rotary_dim;          /* r: even, 2..d; 0 = d, or twice the columns of cos */
    double theta;                /* > 1; 0 = 10000 */
    attn_rope_scaling scaling;
    double factor;               /* s >= 1; 0 = 1 */
    int64_t original_length;     /* N > 0: the positions that the model was trained on; dynamic, llama3 and yarn need it */
    int64_t length;              /* dynamic: the rows of the sequence so far */
    double low_freq, high_freq;  /* llama3: 0 < low < high; 0 = 1 and 4 */
    double beta_fast, beta_slow; /* yarn: fast > slow > 0; 0 = 32 and 1 */
    double attention_factor;     /* yarn: > 0; 0 = 0.1 ln s + 1 */
    /* Both or neither, floats [positions, r/2]: the cosines and sines themselves, instead of theta and a scaling. */
    const attn_tensor *cos, *sin;
} attn_rope_desc;

/* *out = the prepared rotation, NULL on failure. It copies what desc points at, and may be used by any context. */
ATTN_API attn_status attn_rope_create(attn_ctx *ctx, attn_rope **out, const attn_rope_desc *desc);
/* NULL is fine. Before what the allocator hooks of its context need is gone. */
ATTN_API void attn_rope_destroy(attn_rope *rope);
/* g_p in radians per position, 0 <= p < r/2; NaN when the rope was given tables, or has no pair p. */
ATTN_API double attn_rope_frequency(const attn_rope *rope, int64_t p);

/* All-zero is the default. Where no positions are given, row i stands at offset + i. */
typedef struct attn_rope_opts {
    uint32_t struct_size;         /* sizeof(attn_rope_opts) of the caller; 0 = this version's */
    uint32_t flags;               /* 0 */
    int64_t offset;               /* |offset| and |positions| at most 2^53; with tables a position is from 0 to their rows - 1 */
    const attn_tensor *positions; /* int32 or int64 [L], or [B,L] ([1,L] for all items); not together with an offset */
} attn_rope_opts;

/* x [B,H,L,d], [H,L,d] or [L,d]: every head alike. out: the shape of x. */
ATTN_API attn_status attn_rope_apply(attn_ctx *ctx, attn_tensor *out, const attn_tensor *x, const attn_rope *rope,
                                     const attn_rope_opts *opts);

/* ----------------------------------------------------------------- norms ---- */

enum {
    ATTN_NORM_EPS = 1u << 0,      /* `eps` is given (0 is a value) */
    ATTN_NORM_PLUS_ONE = 1u << 1, /* the factor is 1 + weight (Gemma's checkpoints) */
    ATTN_NORM_RMS = 1u << 2       /* where a norm is named by its options alone (attn_layer_desc): RMSNorm */
};

/* All-zero is the default. */
typedef struct attn_norm_opts {
    uint32_t struct_size; /* sizeof(attn_norm_opts) of the caller; 0 = this version's */
    uint32_t flags;
    double eps;                       /* with ATTN_NORM_EPS: finite, >= 0; else 1e-5 */
    const attn_tensor *weight, *bias; /* NULL (1 and 0) or floats [n] */
} attn_norm_opts;

/* out = (x - mean) / sqrt(var + eps) * weight + bias over the last axis, var = mean((x - mean)^2) (Ba et al. 2016).
   x: rank 1 to 8; out: the shape of x. */
ATTN_API attn_status attn_layer_norm(attn_ctx *ctx, attn_tensor *out, const attn_tensor *x, const attn_norm_opts *opts);
/* out = x / sqrt(mean(x^2) + eps) * weight + bias over the last axis (Zhang and Sennrich 2019). */
ATTN_API attn_status attn_rms_norm(attn_ctx *ctx, attn_tensor *out, const attn_tensor *x, const attn_norm_opts *opts);

/* ----------------------------------------------------------- activations ---- */

/* (Hendrycks and Gimpel 2016; SiLU, also called Swish: Elfwing et al. 2017.) The values never change. */
typedef enum attn_activation {
    ATTN_GELU = 0,      /* x Phi(x) = x/2 (1 + erf(x / sqrt 2)) */
    ATTN_GELU_TANH = 1, /* x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))): "gelu_new", "gelu_pytorch_tanh" */
    ATTN_SILU = 2,      /* x / (1 + e^-x): "swish" */
    ATTN_RELU = 3       /* max(x, 0); NaN stays */
} attn_activation;

/* out = f(x), element by element. x: rank 1 to 8; out: the shape of x. -inf gives NaN but with ATTN_RELU. */
ATTN_API attn_status attn_activate(attn_ctx *ctx, attn_tensor *out, const attn_tensor *x, attn_activation f);
/* out = f(gate) * up: SwiGLU with ATTN_SILU (Shazeer 2020, "GLU Variants Improve Transformer"). All of one shape. */
ATTN_API attn_status attn_glu(attn_ctx *ctx, attn_tensor *out, const attn_tensor *gate, const attn_tensor *up, attn_activation f);
/* out = softmax over the last axis. A row of nothing but -inf gives 0. */
ATTN_API attn_status attn_softmax(attn_ctx *ctx, attn_tensor *out, const attn_tensor *x);

/* ------------------------------------------------------------ embeddings ---- */

enum { ATTN_EMBED_SCALE = 1u << 0 }; /* `scale` is given */

/* Tables are floats [rows, n] of one width; ids and positions int32 or int64. All-zero is the default in every field but token. */
typedef struct attn_embed_opts {
    uint32_t struct_size; /* sizeof(attn_embed_opts) of the caller; 0 = this version's */
    uint32_t flags;
    double scale;                 /* with ATTN_EMBED_SCALE, of the token's row alone: sqrt(n) in Vaswani et al. 2017, section 3.4; else 1 */
    const attn_tensor *token;     /* needed */
    const attn_tensor *position;  /* NULL = nothing is added */
    const attn_tensor *type;      /* NULL = nothing is added (BERT's segments) */
    int64_t offset;               /* row i takes row offset + i of `position`, unless position_ids are given */
    const attn_tensor *position_ids; /* [L], or as ids */
    const attn_tensor *type_ids;     /* NULL = type 0; [L], or as ids */
} attn_embed_opts;

/* out = scale * token[ids] + position[position_ids] + type[type_ids].
   ids [L] or [B,L]; out [L,n] or [B,L,n]. An id that its table does not have is ATTN_E_ARG. */
ATTN_API attn_status attn_embed(attn_ctx *ctx, attn_tensor *out, const attn_tensor *ids, const attn_embed_opts *opts);

/* ---------------------------------------------------------------- linear ---- */

typedef struct attn_linear_weights attn_linear_weights;

enum { ATTN_LINEAR_F64 = 1u << 0 }; /* compute in f64 whatever the weights are: needed when x is f64 */

/* An (out,in) matrix such as PyTorch's is given as its transposed view. */
typedef struct attn_linear_desc {
    uint32_t struct_size; /* sizeof(attn_linear_desc) of the caller; 0 = this version's */
    uint32_t flags;       /* ATTN_LINEAR_F64 or 0 */
    const attn_tensor *w; /* floats (in, out) */
    const attn_tensor *b; /* NULL or floats (out) */
} attn_linear_desc;

/* Copies and packs the weights once, for the ISA level of ctx, as attn_mha_prepare does. Computed in f64 if a weight is f64 or
   ATTN_LINEAR_F64 is set, else in f32. */
ATTN_API attn_status attn_linear_prepare(attn_ctx *ctx, attn_linear_weights **out, const attn_linear_desc *desc);
/* NULL is fine. */
ATTN_API void attn_linear_destroy(attn_linear_weights *w);
/* out = x W + b. x [L,in] or [B,L,in]; out the same with the columns of W. */
ATTN_API attn_status attn_linear(attn_ctx *ctx, attn_tensor *out, const attn_linear_weights *w, const attn_tensor *x);

#ifdef __cplusplus
}
#endif
#endif
