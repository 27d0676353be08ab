/* SPDX-License-Identifier: Apache-2.0 */
/* The context: ISA level, threads, memory, the last error. */
#ifndef ATTN_CTX_H
#define ATTN_CTX_H
#include "private.h"

#include "../kernels/kernels.h"

typedef struct attn_isa {
    const char *name;
    const attn_kernels *f32, *f64;
    const attn_kernels *bf16; /* of pairs: attention whose q, k, v and out are bf16; NULL: such a call is one of f32 */
} attn_isa;

/* A buffer that is kept from call to call and only grows. */
typedef struct attn_buffer {
    void *data;
    int64_t size;
} attn_buffer;

struct attn_ctx {
    const attn_isa *isa;
    uint32_t threads; /* that it may use */
    void *(*alloc)(void *user, size_t align, size_t size);
    void (*free)(void *user, void *p);
    void *user;
    int (*progress)(void *user, double done);
    void *progress_user;
    double progress_from, progress_span; /* the part of the whole call that the next attn_parallel is; a span of 0 means all of it */
    attn_info info;
    attn_buffer scratch;   /* of the kernels: one part for each thread */
    attn_buffer per_head;  /* of a plan: slopes and sinks */
    attn_buffer temporary; /* of attn_mha: Q, K, V and the heads */
    struct attn_together *together; /* not NULL: attn_matrix_pack leaves its work there */
    char error[640];
};

enum { ATTN_ALIGN = 64 };

/* Records the sentence and returns the status. */
ATTN_PRIVATE attn_status attn_fail(attn_ctx *ctx, attn_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Clears the sentence at the start of a public call. */
ATTN_PRIVATE void attn_begin(attn_ctx *ctx);

/* 64-byte aligned; NULL when memory runs out or size is negative. free accepts NULL. */
ATTN_PRIVATE void *attn_alloc(attn_ctx *ctx, int64_t size);
ATTN_PRIVATE void attn_free(attn_ctx *ctx, void *p);
/* Makes the buffer at least that big; what it held is lost if it grows. ATTN_E_NOMEM leaves it empty. */
ATTN_PRIVATE attn_status attn_reserve(attn_ctx *ctx, attn_buffer *b, int64_t size);

/* Copies an options struct of the caller, which may be shorter or longer than this version's, over `own`, which is zeroed first.
   what: "attn_sdpa_opts". Members that this version does not know must be 0. */
ATTN_PRIVATE attn_status attn_copy_struct(attn_ctx *ctx, void *own, size_t own_size, const void *theirs, const char *what);
#endif
