/* SPDX-License-Identifier: Apache-2.0 */
/* libattn: exact attention on CPUs that you can see.
 *
 *     scores  = Q K^T                          [B,H,Lq,Lk]
 *     scaled  = scores * scale                 scale = 1/sqrt(d) unless given
 *     capped  = cap * tanh(scaled / cap)       only with softcap > 0
 *     masked  = capped + bias + ALiBi          hidden cells: -inf
 *     weights = softmax over the keys          rows sum to 1 (with sinks to less)
 *     output  = weights V                      [B,H,Lq,d_v]
 *
 * (Vaswani et al. 2017, "Attention Is All You Need", sections 3.2.1 and 3.2.2; computed by the online softmax of Milakov and
 * Gimelshein 2018, so that no Lq x Lk matrix is ever held.)
 *
 * Words used throughout: B batch, H query heads, Hkv key/value heads (H % Hkv == 0; query head h uses KV head h / (H/Hkv)),
 * Lq queries, Lk keys, d head_dim of Q and K, d_v head_dim of V, lse the natural log of the softmax denominator.
 *
 * The library never prints, aborts, exits or changes global state. Every call returns a status; attn_ctx_error() has the sentence.
 * A context belongs to one thread at a time; different contexts are independent. */
#ifndef ATTN_ATTN_H
#define ATTN_ATTN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define ATTN_API __attribute__((visibility("default")))
#else
#define ATTN_API
#endif

#define ATTN_VERSION_MAJOR 0
#define ATTN_VERSION_MINOR 1
#define ATTN_VERSION_PATCH 0

/* "0.1.0"; static. */
ATTN_API const char *attn_version(void);

/* ---------------------------------------------------------------- status ---- */

/* The values never change. */
typedef enum attn_status {
    ATTN_OK = 0,
    ATTN_E_ARG = 1,         /* an argument or option is out of its range, contradicts another, or overlaps an output */
    ATTN_E_SHAPE = 2,       /* shapes that do not fit each other, or sizes whose product exceeds 63 bits */
    ATTN_E_DTYPE = 3,       /* a dtype that this argument cannot have */
    ATTN_E_UNSUPPORTED = 4, /* an ISA level this CPU cannot run, or a combination that is not defined */
    ATTN_E_NOMEM = 5,       /* the allocator returned NULL; nothing is leaked, outputs are unspecified */
    ATTN_E_IO = 6,          /* attn_io.h: the operating system refused a file operation */
    ATTN_E_FORMAT = 7,      /* attn_io.h: a malformed, truncated or hostile file */
    ATTN_E_CANCELLED = 8,   /* the progress hook returned nonzero; outputs are unspecified */
    ATTN_E_FULL = 9         /* a KV cache has no room for the rows; it is unchanged */
} attn_status;

/* A short English name such as "shape mismatch". Never NULL, static. */
ATTN_API const char *attn_status_str(attn_status s);

/* --------------------------------------------------------------- tensors ---- */

typedef enum attn_dtype {
    ATTN_F32 = 1,
    ATTN_F64 = 2,
    ATTN_F16 = 3,  /* IEEE binary16 */
    ATTN_BF16 = 4, /* the upper half of an f32 */
    ATTN_BOOL = 5, /* one byte; zero is false, anything else is true */
    ATTN_I8 = 6,
    ATTN_U8 = 7,
    ATTN_I16 = 8,
    ATTN_U16 = 9,
    ATTN_I32 = 10,
    ATTN_U32 = 11,
    ATTN_I64 = 12,
    ATTN_U64 = 13
} attn_dtype;

/* Bytes of one element; 0 for a value that is no dtype. */
ATTN_API size_t attn_dtype_size(attn_dtype t);
/* "f32", "bf16", "bool", ...; "?" for a value that is no dtype. Static. */
ATTN_API const char *attn_dtype_name(attn_dtype t);

#define ATTN_MAX_DIMS 8

/* A view: it never owns memory. Strides count elements and may be 0 (inputs only) or negative; data points at element [0,0,...].
   The stride of an axis of size 1 is never used. data may be NULL when the tensor has no element.
   A parameter `const attn_tensor *` is read only; what a tensor of inputs points at is never written. */
typedef struct attn_tensor {
    void *data;
    attn_dtype dtype;
    int32_t ndim;
    int64_t shape[ATTN_MAX_DIMS];
    int64_t stride[ATTN_MAX_DIMS];
} attn_tensor;

/* A view of packed row-major memory (the last axis is contiguous). ndim is clamped to 0..ATTN_MAX_DIMS. */
ATTN_API attn_tensor attn_tensor_of(void *data, attn_dtype dtype, int32_t ndim, const int64_t *shape);
/* The same memory with axis i taken from axis order[i], as NumPy's transpose: a [B,L,H,d] array becomes the [B,H,L,d] that
   attn_sdpa takes by order {0,2,1,3}. order must be a permutation of 0..ndim-1; an axis out of range gives a tensor of ndim 0. */
ATTN_API attn_tensor attn_tensor_permute(const attn_tensor *t, const int32_t *order);

/* --------------------------------------------------------------- context ---- */

typedef struct attn_ctx attn_ctx;

/* All-zero is the default in every field. */
typedef struct attn_ctx_opts {
    uint32_t struct_size; /* sizeof(attn_ctx_opts) of the caller; 0 = this version's */
    uint32_t threads;     /* 0 = ATTN_NUM_THREADS, else OMP_NUM_THREADS, else the CPUs this process may use */
    const char *isa;      /* NULL = ATTN_ISA, else the best usable; a name of attn_isa_name */
    /* Both NULL = the C library's. alloc returns memory of at least `size` bytes aligned to `align` (a power of two), or NULL. */
    void *(*alloc)(void *user, size_t align, size_t size);
    void (*free)(void *user, void *p);
    void *user;
    /* NULL, or called on the calling thread now and then with the share of the work done, 0..1. Nonzero cancels the call. */
    int (*progress)(void *user, double done);
    void *progress_user;
} attn_ctx_opts;

/* *out = a new context, NULL on failure. opts NULL = all-zero. ATTN_E_UNSUPPORTED: the ISA level is unknown or this CPU (or its
   operating system) cannot run it. ATTN_E_ARG: ATTN_NUM_THREADS is not a positive number. err, when not NULL, receives the sentence of a
   failure (at most err_size bytes with the 0). */
ATTN_API attn_status attn_ctx_create(attn_ctx **out, const attn_ctx_opts *opts, char *err, size_t err_size);
/* NULL is fine. Objects made with ctx must be destroyed before. */
ATTN_API void attn_ctx_destroy(attn_ctx *ctx);
/* The sentence of the last failed call on ctx: the argument, both shapes, the rule, the remedy. "" after success. Valid to the next
   call. */
ATTN_API const char *attn_ctx_error(const attn_ctx *ctx);

typedef struct attn_info {
    const char *isa;  /* the ISA level that runs: "avx2" */
    const char *path; /* the code path of the last call: "tiled f32", "tiled f64", "none" before the first; static */
    uint32_t threads; /* threads of the last call; before the first, those it may use */
} attn_info;
/* ctx NULL gives "none" and 0 threads. */
ATTN_API attn_info attn_ctx_info(const attn_ctx *ctx);

/* The ISA levels built into this library, worst first: i = 0, 1, ... until NULL. */
ATTN_API const char *attn_isa_name(int i);
/* 1 if this CPU and its operating system can run the level, else 0. */
ATTN_API int attn_isa_usable(const char *name);

/* GFLOP/s of a register-only multiply-add loop of the context's ISA level on all of the context's threads at once, the best of about
   30 ms: the peak that shares of peak refer to. dtype ATTN_F32, ATTN_F64, or ATTN_BF16 for dot products of bf16 (ATTN_E_UNSUPPORTED on a
   level without them). */
ATTN_API attn_status attn_measure_peak(attn_ctx *ctx, attn_dtype dtype, double *gflops);
/* GB/s at which the context's threads together read this memory, the best of about 30 ms: the limit of work that reads much and computes
   little, such as decoding. */
ATTN_API attn_status attn_measure_stream(attn_ctx *ctx, const void *memory, int64_t bytes, double *gb_per_second);

/* -------------------------------------------------- scaled dot-product attention ---- */

enum {
    ATTN_CAUSAL = 1u << 0,    /* key j is visible to row i only if j <= pos_i */
    ATTN_SCALE = 1u << 1,     /* `scale` is given (0 and negative are values) */
    ATTN_WINDOW = 1u << 2,    /* window_left and window_right are given */
    ATTN_OFFSET = 1u << 3,    /* `offset` is given */
    ATTN_ALIBI = 1u << 4,     /* ALiBi with the default slopes 2^(-8(h+1)/H) (Press et al. 2022) when alibi_slopes is NULL */
    ATTN_MASK_DROP = 1u << 5, /* a bool or integer mask hides where it is true (PyTorch's nn.MultiheadAttention) */
    ATTN_AVERAGE = 1u << 6,   /* `weights` is averaged over the heads: [B,Lq,Lk] */
    ATTN_RELAXED = 1u << 7    /* a faster decode (calls of up to 4 rows): a row's bits may depend on how a call is split along Lq, within
                                 the error bound */
};

typedef enum attn_align {
    ATTN_ALIGN_DEFAULT = 0,     /* top-left where Lq == Lk; otherwise causal, window and ALiBi demand a choice */
    ATTN_ALIGN_TOP_LEFT = 1,    /* offset 0 */
    ATTN_ALIGN_BOTTOM_RIGHT = 2 /* offset[b] = kv_len[b] - q_len[b] */
} attn_align;

/* All-zero is the default in every field; a NULL opts is all-zero. Every tensor is optional.
   Item b is an entry of the batch, or a sequence when cu_seqlens are given. Row i of item b stands at position pos = offset[b] + i. */
typedef struct attn_sdpa_opts {
    uint32_t struct_size; /* sizeof(attn_sdpa_opts) of the caller; 0 = this version's */
    uint32_t flags;       /* ATTN_CAUSAL | ... ; an unknown bit is ATTN_E_ARG */
    double scale;         /* with ATTN_SCALE; finite */
    double softcap;       /* 0 = off; finite, >= 0 */

    /* Rank 2 [Lq,Lk], 3 [H,Lq,Lk] or 4 [B,H,Lq,Lk]; axes of size 1 spread.
       mask: bool, or an integer dtype holding 0 and 1: true = may be seen. A float mask is a bias; then `bias` adds to it.
       bias: f16, bf16, f32, f64, added to the scaled (capped) scores; a stored -inf hides the key. */
    const attn_tensor *mask;
    const attn_tensor *bias;

    attn_align align;
    int64_t offset;                     /* with ATTN_OFFSET: of every item */
    const attn_tensor *offsets;         /* int32 or int64 [B]: of each item; not together with ATTN_OFFSET */
    int64_t window_left, window_right;  /* with ATTN_WINDOW: keys visible on each side of pos, pos itself besides; -1 = open */
    const attn_tensor *kv_len, *q_len;  /* int32 or int64 [B]: valid rows; rows past q_len give output 0, lse -inf */
    /* Packed input: q [Tq,H,d], k [Tk,Hkv,d], v [Tk,Hkv,d_v], output [Tq,H,d_v]; both or neither, int32 or int64 [items+1],
       not decreasing, from 0 to Tq / Tk. mask, bias, keep, weights and stages are not defined for packed input. */
    const attn_tensor *cu_seqlens_q, *cu_seqlens_k;

    const attn_tensor *alibi_slopes; /* f32 or f64 [H] or [B,H]: bias -slope * |pos - j| */
    const attn_tensor *sinks;        /* f32 or f64 [H]: a logit that joins the denominator only, after cap and mask */

    double dropout;           /* 0..1: weights kept / (1-p); p = 1 gives 0 */
    uint64_t seed;            /* of the counter-based generator (Philox4x32-10) keyed by (seed, b, h, i, j) */
    int64_t first_batch, first_head, first_row; /* where this call's b, h, i begin in the caller's whole */
    const attn_tensor *keep;  /* bool [B,H,Lq,Lk] spreading like mask: which weights are kept, instead of the generator */

    /* Outputs, each NULL or a tensor to be written: f32 (f64 when any of q, k, v is f64). Their rank follows q's: without the leading
       axes that q lacks. Rows that see no key: lse -inf, row_max -inf, entropy 0, weights 0. */
    attn_tensor *lse;     /* [B,H,Lq]; packed: [H,Tq]; with sinks it includes them; before dropout */
    attn_tensor *row_max; /* [B,H,Lq]; packed: [H,Tq]: the greatest visible masked score */
    attn_tensor *entropy; /* [B,H,Lq]; packed: [H,Tq]: -sum w ln w, in nats, before dropout */
    attn_tensor *mass;    /* [B,H,Lk]; packed: [H,Tk]: the weights that each key received, summed over the rows, after dropout */
    attn_tensor *weights; /* [B,H,Lq,Lk], or [B,Lq,Lk] with ATTN_AVERAGE; after dropout */
    attn_tensor *scores, *scaled, *capped, *masked; /* [B,H,Lq,Lk]: the stages of the table above; the first three in every cell */
} attn_sdpa_opts;

/* output[b,h,i,:] = sum over visible j of weights[b,h,i,j] * v[b,h/(H/Hkv),j,:]

   q [B,H,Lq,d]  k [B,Hkv,Lk,d]  v [B,Hkv,Lk,d_v]  out [B,H,Lq,d_v]; or all of rank 3 without B, or all of rank 2 without B and H;
   dtypes f32, f64, f16, bf16, each its own. Computed in f64 if any of q, k, v is f64, else in f32; where all four are bf16, by the dot
   products of bf16 of a level that has them, with weights rounded to bf16. Sizes of 0 are valid.

   A hidden key (mask, causal, window, length) changes no bit of any output whatever its K and V hold. A row that sees no key gives 0.
   A row's bits depend on nothing but the row: not on threads, batch, heads, strides, nor on how a call is split along B, H or Lq
   (on one ISA level; along Lq unless ATTN_RELAXED). No output may share an element with an input or another output.
   Error bound: docs/numerics.md. Memory: O(threads * tile) beyond the arguments, kept in ctx, so that a second call of a size
   allocates nothing.
   Errors: ATTN_E_ARG, ATTN_E_SHAPE, ATTN_E_DTYPE, ATTN_E_UNSUPPORTED, ATTN_E_NOMEM, ATTN_E_CANCELLED. Argument errors are found before
   anything is written. */
ATTN_API attn_status attn_sdpa(attn_ctx *ctx, attn_tensor *out, const attn_tensor *q, const attn_tensor *k, const attn_tensor *v,
                               const attn_sdpa_opts *opts);

/* Why a key is hidden from a row: any of these bits; 0 = visible. */
enum {
    ATTN_HIDDEN_MASK = 1,     /* the bool mask */
    ATTN_HIDDEN_BIAS = 2,     /* a stored -inf in the bias or the float mask */
    ATTN_HIDDEN_CAUSAL = 4,   /* j > pos */
    ATTN_HIDDEN_WINDOW = 8,   /* outside pos - left .. pos + right */
    ATTN_HIDDEN_KV_LEN = 16,  /* j >= kv_len[b] */
    ATTN_HIDDEN_Q_LEN = 32    /* the row itself is past q_len[b] */
};

/* Every number of one row. Fill in what is wanted; the arrays are the caller's. */
typedef struct attn_row {
    uint32_t struct_size; /* sizeof(attn_row) of the caller; 0 = this version's */
    uint32_t flags;       /* 0 */
    attn_tensor *scores, *scaled, *capped, *masked, *weights; /* each NULL or [Lk], f32 (f64 for f64 inputs) */
    attn_tensor *output;  /* NULL or [d_v], f32 (f64 for f64 inputs) */
    uint8_t *hidden;      /* NULL or [Lk]: ATTN_HIDDEN_* bits */
    /* Set by the call: */
    double lse, row_max, entropy;
    double scale;         /* that was used */
    int64_t position;     /* of the row: offset + i */
    int64_t kv_head;      /* the KV head that this query head uses */
    int64_t visible;      /* how many keys it sees */
    /* Filled in, too: */
    attn_dtype out_dtype; /* of the out of the call that is explained: where all is bf16, weights may be rounded; 0 = that of q */
} attn_row;

/* One row (b, h, i) of what attn_sdpa would compute with the same arguments, every stage of it: its output, lse and weights are that
   call's bits. The output options of opts are ignored. Not defined for packed input. O(Lk + d) memory. */
ATTN_API attn_status attn_explain_cell(attn_ctx *ctx, attn_row *row, const attn_tensor *q, const attn_tensor *k, const attn_tensor *v,
                                       const attn_sdpa_opts *opts, int64_t b, int64_t h, int64_t i);

/* -------------------------------------------------------- multi-head attention ---- */

typedef struct attn_mha_weights attn_mha_weights;

enum { ATTN_MHA_F64 = 1u << 0 }; /* compute in f64 whatever the weights are: needed when x or a memory is f64 */

/* The projections around attention. (out,in) matrices such as PyTorch's are given as transposed views.
   Dtypes f32, f64, f16, bf16, each its own; computed in f64 if any weight is f64 or ATTN_MHA_F64 is set, else in f32. */
typedef struct attn_mha_desc {
    uint32_t struct_size; /* sizeof(attn_mha_desc) of the caller; 0 = this version's */
    uint32_t flags;       /* ATTN_MHA_F64 or 0 */
    int64_t heads;        /* H > 0; must divide the columns of w_q */
    int64_t kv_heads;     /* Hkv; 0 = H; must divide H and the columns of w_k and w_v */
    const attn_tensor *w_q;                     /* (in, H*d), or a table per head (H, in, d) */
    const attn_tensor *w_k, *w_v;               /* (in_k, Hkv*d), (in_v, Hkv*d_v), or (Hkv, in, d) */
    const attn_tensor *w_qkv;                   /* instead of the three: (in, (H + 2 Hkv)*d), columns q then k then v */
    const attn_tensor *b_q, *b_k, *b_v, *b_qkv; /* NULL, or rank 1 of the columns, or (H, d) */
    const attn_tensor *w_o;                     /* (H*d_v, out); NULL: the output is the heads joined */
    const attn_tensor *b_o;                     /* NULL or (out) */
} attn_mha_desc;

/* Copies and packs the weights once, for the ISA level of ctx: they are used with contexts of that level. The tensors of desc may be freed
   after. Weights of f16 and bf16 stay 16 bits wide, and give the bits of the same weights in f32.
   Destroy *out with attn_mha_weights_destroy, before what the allocator hooks of ctx need is gone. */
ATTN_API attn_status attn_mha_prepare(attn_ctx *ctx, attn_mha_weights **out, const attn_mha_desc *desc);
/* NULL is fine. */
ATTN_API void attn_mha_weights_destroy(attn_mha_weights *w);

/* All-zero is the default. */
typedef struct attn_mha_opts {
    uint32_t struct_size; /* sizeof(attn_mha_opts) of the caller; 0 = this version's */
    uint32_t flags;       /* 0 */
    const attn_sdpa_opts *sdpa;     /* NULL, or the options of the attention inside; packed input is not defined here */
    /* Outputs, each NULL or written, f32 (f64 when computed in f64): rank 4, or 3 when x has rank 2. */
    attn_tensor *q, *k, *v;         /* projected and split: [B,H,Lq,d], [B,Hkv,Lk,d], [B,Hkv,Lk,d_v] */
    attn_tensor *z;                 /* the heads before they are joined: [B,H,Lq,d_v] */
} attn_mha_opts;

/* O = concat(head_1 .. head_H) W_O + b_O, head_h = attention(Q_h, K_h, V_h), Q = x W_Q + b_Q, K = memory W_K + b_K, V = memory_v W_V + b_V.
   x [B,Lq,in] or [Lq,in]; memory NULL = x (self-attention); memory_v NULL = memory; out [B,Lq,out] or [Lq,out].
   A row's bits depend on nothing but the row and the keys it sees. Memory O(B * L * H * d) for Q, K, V and the heads. */
ATTN_API attn_status attn_mha(attn_ctx *ctx, attn_tensor *out, const attn_mha_weights *w, const attn_tensor *x, const attn_tensor *memory,
                              const attn_tensor *memory_v, const attn_mha_opts *opts);

/* ------------------------------------------------------------------ KV cache ---- */

typedef struct attn_kv attn_kv;

typedef struct attn_kv_desc {
    uint32_t struct_size; /* sizeof(attn_kv_desc) of the caller; 0 = this version's */
    attn_dtype dtype;     /* of the stored K and V: f32 (also 0), f16, bf16, f64 */
    int64_t batch;        /* 0 = 1 */
    int64_t kv_heads, capacity, head_dim;
    int64_t value_dim;    /* 0 = head_dim */
} attn_kv_desc;

/* *out = an empty cache of [B,Hkv,capacity,d] and [B,Hkv,capacity,d_v]. ctx must outlive it. */
ATTN_API attn_status attn_kv_create(attn_ctx *ctx, attn_kv **out, const attn_kv_desc *desc);
/* NULL is fine. */
ATTN_API void attn_kv_destroy(attn_kv *kv);
/* Adds the rows of k [B,Hkv,n,d] and v [B,Hkv,n,d_v] (rank 3 when B = 1), converted to the cache's dtype by rounding to nearest even.
   ATTN_E_FULL: fewer than n rows are free; nothing is added. */
ATTN_API attn_status attn_kv_append(attn_ctx *ctx, attn_kv *kv, const attn_tensor *k, const attn_tensor *v);
/* Forgets the rows from `length` on. 0 <= length <= attn_kv_length. */
ATTN_API attn_status attn_kv_truncate(attn_ctx *ctx, attn_kv *kv, int64_t length);
ATTN_API int64_t attn_kv_length(const attn_kv *kv);
ATTN_API int64_t attn_kv_capacity(const attn_kv *kv);
/* Views of the rows held: [B,Hkv,length,d] and [B,Hkv,length,d_v]. Valid to the next append, truncate or destroy. */
ATTN_API void attn_kv_view(const attn_kv *kv, attn_tensor *k, attn_tensor *v);
/* Causal attention of the last Lq positions of the cache: q [B,H,Lq,d] (rank 3 when B = 1), row i at position length - Lq + i.
   opts as in attn_sdpa without align, offset, offsets and cu_seqlens (ATTN_E_ARG, ATTN_E_UNSUPPORTED); ATTN_CAUSAL is implied. The bits
   of attn_sdpa over the whole. */
ATTN_API attn_status attn_kv_attend(attn_ctx *ctx, const attn_kv *kv, attn_tensor *out, const attn_tensor *q, const attn_sdpa_opts *opts);

#ifdef __cplusplus
}
#endif
#endif
