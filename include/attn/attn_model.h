/* SPDX-License-Identifier: Apache-2.0 */
/* libattn_model: the layers around attention that models are made of.
 *
 *     attn_rope        rotary position embedding                 attn_linear      x W + b
 *     attn_layer_norm  attn_rms_norm                             attn_softmax
 *     attn_activate    GELU, SiLU, ReLU                          attn_glu         SwiGLU, GeGLU
 *     attn_embed       token + position + type                   attn_layer       encoder and decoder layers of all these
 *
 * What attn/attn.h says of tensors, contexts, option structs, errors and threads holds here too. Words: n the width of a row (its last
 * axis), u the unit roundoff of the output's dtype.
 *
 * Everything but attn_linear and the activations is computed in f64 whatever the dtypes are, and rounded once to the dtype of the output:
 * its error is half a unit in the last place and what docs/numerics.md says of f64. attn_linear and the activations are computed in f64 if
 * anything is f64, else in f32. f16, bf16, f32 and f64 are taken, each tensor its own.
 * A row's bits depend on nothing but the row: not on threads, strides, the rows beside it, nor on the ISA level but for attn_linear and
 * GELU and SiLU.
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
    const attn_tensor *divisors; /* NULL, or floats [r/2] > 0: g_p is divided by divisors[p] (ggml's rope_freqs). Not with tables */
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

/* out = f(x), element by element. x: rank 1 to 8; out: the shape of x. -inf gives 0, inf gives inf. */
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
   ATTN_LINEAR_F64 is set, else in f32. Weights of f16 and bf16 stay 16 bits wide, and give the bits of the same weights in f32. */
ATTN_API attn_status attn_linear_prepare(attn_ctx *ctx, attn_linear_weights **out, const attn_linear_desc *desc);
/* NULL is fine. */
ATTN_API void attn_linear_destroy(attn_linear_weights *w);
/* out = x W + b. x [L,in] or [B,L,in]; out the same with the columns of W. */
ATTN_API attn_status attn_linear(attn_ctx *ctx, attn_tensor *out, const attn_linear_weights *w, const attn_tensor *x);

/* ---------------------------------------------------------------- layers ---- */

/* One layer of a Transformer: self-attention, then cross-attention where there is one, then the MLP, each with its residual.
 *
 *     pre-norm     h = h + f(norm(h))       (GPT-2, Llama, Qwen2: x is normed before, the stack once more behind its last layer)
 *     post-norm    h = norm(h + f(h))       (Vaswani et al. 2017, section 3.1; BERT, Marian)
 *
 *     attention    f(h) = concat(heads) W_O + b_O as attn_mha; in self-attention q and k of each head are normed, where the layer has
 *                  norms for them (Qwen3), and then turned by the rope, if any
 *     MLP          f(h) = act(h W_up + b_up) W_down + b_down, or (act(h W_gate + b_gate) * (h W_up + b_up)) W_down + b_down
 *
 * An encoder layer has no cross-attention and is not causal, a decoder layer is causal and has both, a decoder-only layer is causal and
 * has none. Everything between the parts is f32, or f64 when computed in f64. The bits are those of attn_layer_norm, attn_linear,
 * attn_rope_apply, attn_sdpa and the others, called one after the other. */
typedef struct attn_layer attn_layer;

/* All-zero is the default in every field but w_up and w_down. */
typedef struct attn_mlp_desc {
    uint32_t struct_size; /* sizeof(attn_mlp_desc) of the caller; 0 = this version's */
    uint32_t flags;       /* 0 */
    attn_activation activation;
    const attn_tensor *w_up, *b_up;     /* (n, hidden); NULL or (hidden) */
    const attn_tensor *w_gate, *b_gate; /* NULL (no gate) or as w_up */
    const attn_tensor *w_down, *b_down; /* (hidden, n); NULL or (n) */
} attn_mlp_desc;

enum {
    ATTN_LAYER_POST_NORM = 1u << 0,
    ATTN_LAYER_CAUSAL = 1u << 1, /* self-attention is causal, whatever the options of a call say */
    ATTN_LAYER_F64 = 1u << 2     /* compute in f64 whatever the weights are: needed when x is f64 */
};

/* n, the width of the layer, is the rows of self's w_q. */
typedef struct attn_layer_desc {
    uint32_t struct_size; /* sizeof(attn_layer_desc) of the caller; 0 = this version's */
    uint32_t flags;
    const attn_mha_desc *self;       /* needed, and its w_o too */
    const attn_norm_opts *self_norm; /* NULL = no norm; LayerNorm unless ATTN_NORM_RMS */
    const attn_mha_desc *cross;      /* NULL = no cross-attention; q is made of the row, k and v of the memory */
    const attn_norm_opts *cross_norm;
    const attn_mlp_desc *mlp;        /* NULL = none */
    const attn_norm_opts *mlp_norm;
    const attn_rope *rope;           /* NULL, or of self's head_dim; not copied: it stays until the layer is destroyed */
    const attn_norm_opts *q_norm;    /* NULL, or the norm of each head's row of self's q, head_dim wide, before the rope */
    const attn_norm_opts *k_norm;    /* the same of k; both or neither */
} attn_layer_desc;

/* Copies and packs all weights, for the ISA level of ctx. Computed in f64 if a matrix or its bias is f64 or ATTN_LAYER_F64 is set. */
ATTN_API attn_status attn_layer_prepare(attn_ctx *ctx, attn_layer **out, const attn_layer_desc *desc);
/* NULL is fine. */
ATTN_API void attn_layer_destroy(attn_layer *layer);

/* What a call computes on its way; each NULL or written, f32 (f64 when computed in f64), with the axis B where x has it. */
typedef struct attn_layer_stages {
    uint32_t struct_size; /* sizeof(attn_layer_stages) of the caller; 0 = this version's */
    uint32_t flags;       /* 0 */
    attn_tensor *self_norm;          /* [B,L,n]: what the norm gives, before or behind the part */
    attn_tensor *q, *k, *v;          /* [B,H,L,d], [B,Hkv,L,d], [B,Hkv,L,d_v]: before norms of heads and the rope, of these rows alone */
    attn_tensor *heads;              /* [B,H,L,d_v]: before they are joined */
    attn_tensor *self_out, *self_sum; /* [B,L,n]: f(h), h + f(h) */
    attn_tensor *cross_norm, *cross_q, *cross_heads, *cross_out, *cross_sum;
    attn_tensor *mlp_norm;
    attn_tensor *mlp_gate, *mlp_up, *mlp_hidden; /* [B,L,hidden]: with biases; after the activation and the product */
    attn_tensor *mlp_out, *mlp_sum;
} attn_layer_stages;

/* All-zero is the default. */
typedef struct attn_layer_opts {
    uint32_t struct_size; /* sizeof(attn_layer_opts) of the caller; 0 = this version's */
    uint32_t flags;       /* 0 */
    const attn_sdpa_opts *self;   /* of self-attention: mask, lengths, window, ..., and its outputs. Sequences packed one behind the other
                                     (x [T,n] with cu_seqlens) where the layer has no cross-attention and the call no cache */
    const attn_sdpa_opts *cross;  /* of cross-attention */
    /* For the rope: where the rows stand. Without positions row i stands at offset + i, with a cache at its length + i. */
    int64_t offset;
    const attn_tensor *positions; /* int32 or int64 [L] or [B,L] */
    /* NULL, or a cache of self's [B, kv_heads, capacity, d] and d_v: k and v of these rows are added to it, and the rows attend to all that
       it holds (attn_kv_attend: causal, and self without align and offset). A call that fails leaves its length. */
    attn_kv *kv;
    /* Of cross-attention: the memory [B,Lm,width], or a cache that attn_layer_memory has filled. */
    const attn_tensor *memory;
    const attn_kv *memory_kv;
    const attn_layer_stages *stages;
} attn_layer_opts;

/* x [B,L,n] or [L,n]; out: the shape of x.
   A row's bits depend on nothing but the row and the keys it sees: a prompt in chunks, row by row, or whole, alone or in a batch. */
ATTN_API attn_status attn_layer_run(attn_ctx *ctx, attn_tensor *out, const attn_layer *layer, const attn_tensor *x,
                                    const attn_layer_opts *opts);
/* One attention of a layer, for showing it. All-zero asks for the facts alone. */
typedef struct attn_layer_part {
    uint32_t struct_size;        /* sizeof(attn_layer_part) of the caller; 0 = this version's */
    uint32_t flags;              /* out: ATTN_LAYER_* of the layer */
    attn_dtype compute;          /* out: f32 or f64 */
    int32_t has_norm;            /* out: 1 when a norm stands before or behind it */
    int64_t width, memory_width; /* out: columns of what q, and what k and v are made of */
    int64_t heads, kv_heads, head_dim, value_dim; /* out */
    const attn_rope *rope;       /* out: NULL or the layer's, which turns q and k */
    uint32_t rope_flags;         /* out: ATTN_ROPE_* of it */
    uint32_t biases;             /* out: 1 b_q, 2 b_k, 4 b_v, 8 b_o */
    /* Each NULL, or written in `compute`'s dtype as attn_mha_desc has it: (width, heads * head_dim), ..., (heads * value_dim, width). A
       bias that the layer does not have is 0. */
    attn_tensor *w_q, *w_k, *w_v, *w_o;
    attn_tensor *b_q, *b_k, *b_v, *b_o;
    int32_t has_head_norms;      /* out: 1 when q and k are normed head by head before the rope */
} attn_layer_part;

/* The self-attention of a layer, or with cross = 1 its cross-attention: the finite numbers that the layer computes with. */
ATTN_API attn_status attn_layer_attention(attn_ctx *ctx, const attn_layer *layer, int32_t cross, attn_layer_part *part);

/* Adds k and v of a memory [B,Lm,width] or [Lm,width] to a cache, so that they are projected once for many calls. */
ATTN_API attn_status attn_layer_memory(attn_ctx *ctx, attn_kv *kv, const attn_layer *layer, const attn_tensor *memory);

#ifdef __cplusplus
}
#endif
#endif
