/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels: what an ISA level provides. Every algorithm has one body (body_*.h), compiled once per level and precision by the k_*.c
   files; the only thing that leaves such a file is its table. X(return type, name, arguments) below is the one list: the struct, the
   tables and the tests are made from it. */
#ifndef ATTN_KERNELS_H
#define ATTN_KERNELS_H
#include <attn/attn.h>

/* Farther than any key: an open window, and the limit of offsets and windows, so that positions can be added without overflow. */
#define ATTN_FAR (INT64_C(1) << 61)

/* Where the elements of one KV head's rows lie. A row is one query head at one position: row r is head r % heads of position r / heads.
   Strides count elements; an axis along which all is equal has stride 0. */
typedef struct attn_rows {
    void *data; /* NULL: absent */
    attn_dtype dtype;
    int64_t position, head, column;
} attn_rows;

enum { ATTN_MAX_ADDED = 2 }; /* a float mask and a bias */

/* Calls of up to so many positions may have any_order: beyond, it is not faster. A function of Lq alone, so that heads and batch may be
   split. */
enum { ATTN_FREE_POSITIONS = 4 };

/* Attention of `heads` query heads that share one KV head of one item. The kernel's `real` is float or double; by-products are real. */
typedef struct attn_sdpa_job {
    attn_rows q, k, v, out; /* of k and v only position and column are used */
    int64_t heads, positions, n_keys;
    int64_t dim, value_dim;
    int any_order;                  /* scores by body_free.h: another order of their sums, and other bits */
    double scale, softcap;          /* softcap 0 = off */
    int64_t offset;                 /* position of row i of the item: offset + i */
    int64_t left, right;            /* keys visible before and after the position; ATTN_FAR = open. Causal: right is 0 at most */
    int64_t kv_len, q_len;          /* keys from kv_len on are hidden; positions from q_len on see nothing */
    attn_rows keep;                 /* bool or 0/1 integers [position][head][key] */
    int keep_drops;                 /* true hides */
    attn_rows added[ATTN_MAX_ADDED]; /* floats; a stored -inf hides */
    const double *slopes, *sinks;   /* [heads]; NULL = none */

    int drops_out;                  /* dropout is on */
    double dropout;
    uint64_t seed;
    int64_t drop_batch, drop_head, drop_row; /* the generator's b; h and i of the first head and position */
    attn_rows dropout_keep;         /* bool: which weights are kept, instead of the generator */

    attn_rows lse, row_max, entropy;                   /* [position][head]; column unused */
    attn_rows mass;                                    /* [head][key], zeroed by the caller: rows add to it in their order */
    attn_rows scores, scaled, capped, masked, weights; /* [position][head][key] */
    double average;                                    /* 0: weights are written; else they are added times this, in the order of heads */
} attn_sdpa_job;

/* C [rows][columns] = bias + A W over weights packed by linear_pack and rows packed by linear_rows. A row's bits depend on nothing but the
   row, an element's on nothing but its row and column, and not on how many bits the weights have: a job may begin at column c, a multiple
   of ATTN_LINEAR_COLUMNS, with packed, bias and c advanced: by c * terms weights, c and c. */
enum { ATTN_LINEAR_COLUMNS = 64 };
typedef struct attn_linear_job {
    const void *a; /* real [rows][terms], packed: a row alone is packed as it lies */
    void *c;       /* real [rows][columns], c_stride between rows */
    const void *packed, *bias; /* bias real [columns], or NULL */
    attn_dtype dtype;          /* of the packed weights: f16, bf16, or that of real */
    int64_t rows, terms, columns, c_stride;
} attn_linear_job;

/* An activation of a row, as the table has them. */
typedef void attn_activate_kernel(void *x, const void *other, int64_t n);

/* sdpa_rows     rows [first, end) of the job, all of their outputs; scratch: sdpa_scratch bytes (a multiple of 64), 64-aligned
   sdpa_unit     rows that pass over the keys together: the largest piece of work worth handing to a thread
   Few rows over many keys may be cut along the keys instead, with the same bits: each piece of keys by itself, then all of them joined.
   sdpa_block    the most rows that can be cut so
   sdpa_pieces   how many pieces the job's keys are
   sdpa_state    bytes of what a piece leaves for the join (a multiple of 64)
   sdpa_piece    all rows of the job over the keys of one piece; state: 64-aligned
   sdpa_join     states: of all pieces, in order; they are used up. Then the outputs are there
   linear_size   bytes of the packed weights of a dtype: f16, bf16, or that of real
   linear_pack   packs W [terms][columns] (strides in elements) of that dtype: also zeroes the padding
   linear_rows   packs the rows of A [rows][terms], a_stride elements between rows, into as many reals
   linear        the product
   gelu, gelu_tanh, silu, relu   of every real of x [n], in place, times those of other [n] unless it is NULL; an element's bits depend
                 on nothing but the element
   peak          multiply-adds in registers only; returns the floating-point operations done. *sink keeps the compiler honest
   stream        reads count reals and nothing else; *sink, their maximum, keeps the compiler honest

   A table of pairs computes with dot products of bf16 pairs what a table of floats does, of jobs whose q, k and v are bf16, and rounds the
   weights to bf16. It has the kernels of ATTN_PAIR_KERNELS, the others are NULL. */
#define ATTN_PAIR_KERNELS(X)                                                                                                               \
    X(int64_t, sdpa_unit, (void))                                                                                                          \
    X(int64_t, sdpa_scratch, (const attn_sdpa_job *job))                                                                                   \
    X(void, sdpa_rows, (const attn_sdpa_job *job, int64_t first, int64_t end, void *scratch))                                              \
    X(int64_t, sdpa_block, (void))                                                                                                         \
    X(int64_t, sdpa_pieces, (const attn_sdpa_job *job))                                                                                    \
    X(int64_t, sdpa_state, (const attn_sdpa_job *job))                                                                                     \
    X(void, sdpa_piece, (const attn_sdpa_job *job, int64_t piece, void *state, void *scratch))                                             \
    X(void, sdpa_join, (const attn_sdpa_job *job, void *states, void *scratch))                                                            \
    X(double, peak, (int64_t rounds, double *sink))

#define ATTN_FLOAT_KERNELS(X)                                                                                                              \
    X(int64_t, linear_size, (attn_dtype dtype, int64_t terms, int64_t columns))                                                            \
    X(void, linear_pack, (void *packed, const void *w, attn_dtype dtype, int64_t row_stride, int64_t column_stride, int64_t terms,         \
                          int64_t columns))                                                                                                \
    X(void, linear_rows, (void *packed, const void *a, int64_t a_stride, int64_t rows, int64_t terms))                                     \
    X(void, linear, (const attn_linear_job *job))                                                                                          \
    X(void, gelu, (void *x, const void *other, int64_t n))                                                                                 \
    X(void, gelu_tanh, (void *x, const void *other, int64_t n))                                                                            \
    X(void, silu, (void *x, const void *other, int64_t n))                                                                                 \
    X(void, relu, (void *x, const void *other, int64_t n))                                                                                 \
    X(void, stream, (const void *memory, int64_t count, double *sink))

#define ATTN_KERNELS(X) ATTN_PAIR_KERNELS(X) ATTN_FLOAT_KERNELS(X)

typedef struct attn_kernels {
#define ATTN_KERNEL_MEMBER(ret, name, args) ret(*name) args;
    ATTN_KERNELS(ATTN_KERNEL_MEMBER)
#undef ATTN_KERNEL_MEMBER
} attn_kernels;

/* In src/core, so that a kernel file calls no libm: max + ln(sum), -inf for a sum of 0; and the entropy in nats of weights that add up to
   `seen`, with spread = sum of weight * (max - score), when the softmax denominator is e^max * sum. */
double attn_log_sum(double max, double sum);
double attn_entropy(double seen, double spread, double sum);

static inline int attn_dtype_is_byte(attn_dtype t) { return t == ATTN_BOOL || t == ATTN_I8 || t == ATTN_U8; }

/* The tables that are built; which of them a CPU can run is src/cpu's to say. */
extern const attn_kernels attn_kernels_scalar_f32, attn_kernels_scalar_f64;
#if defined(__x86_64__)
extern const attn_kernels attn_kernels_avx2_f32, attn_kernels_avx2_f64, attn_kernels_avx512_f32, attn_kernels_avx512_f64,
    attn_kernels_avx512_bf16;
#elif defined(__aarch64__)
extern const attn_kernels attn_kernels_neon_f32, attn_kernels_neon_f64, attn_kernels_neon_bf16;
#endif
#endif
