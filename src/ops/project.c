/* SPDX-License-Identifier: Apache-2.0 */
#include "project.h"

#include "../core/threads.h"
#include "../kernels/convert.h"

/* Multiply-adds below which a projection stays on one thread: a tenth of a millisecond. Few rows take as long as the reading of the weights:
   as READING_ROWS. */
#define SMALL_WORK 5e6
enum {
    READING_ROWS = 16,
    MOST_ROWS = 128 /* rows that are projected at a time: they stay in L2 while the weights pass by */
};

/* The stride of an axis of size 1 may be anything and is never used. */
static int64_t used_stride(const attn_tensor *t, int axis) { return t->shape[axis] == 1 ? 0 : t->stride[axis]; }

attn_row_batch attn_rows_of(const attn_tensor *t)
{
    int r = t->ndim - 2;
    return (attn_row_batch){.data = t->data,
                       .dtype = t->dtype,
                       .items = r ? t->shape[0] : 1,
                       .rows = t->shape[r],
                       .columns = t->shape[r + 1],
                       .item_stride = r ? used_stride(t, 0) : 0,
                       .row_stride = used_stride(t, r),
                       .column_stride = used_stride(t, r + 1)};
}

static int64_t element_of(const attn_row_batch *b, int64_t row) { return row / b->rows * b->item_stride + row % b->rows * b->row_stride; }

attn_row_batch attn_rows_of_heads(const attn_tensor *t)
{
    const int h = t->ndim - 3;
    return (attn_row_batch){.data = t->data,
                       .dtype = t->dtype,
                       .items = h ? t->shape[0] : 1,
                       .rows = t->shape[h + 1],
                       .columns = t->shape[h] * t->shape[h + 2],
                       .item_stride = h ? used_stride(t, 0) : 0,
                       .row_stride = used_stride(t, h + 1),
                       .column_stride = t->shape[h + 2] == 1 ? used_stride(t, h) : t->stride[h + 2]};
}

/* Items that follow each other as their rows do are the rows of one item, so that a part may cross them without a copy. */
static attn_row_batch joined(attn_row_batch b)
{
    if (b.items > 1 && b.item_stride == b.rows * b.row_stride) {
        b.rows *= b.items;
        b.items = 1;
    }
    return b;
}

/* ---------------------------------------------------------------- projection ---- */

/* A projection in row_parts x column_parts pieces of nearly equal size. */
typedef struct projection {
    const attn_kernels *kernels;
    const attn_matrix *w;
    attn_row_batch from, to;
    attn_dtype real; /* what is computed in */
    int64_t row_parts, column_parts;
    char *scratch;
    int64_t scratch_part;
} projection;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
/* What the columns can be cut into: the last unit may be smaller. */
static int64_t column_units(const attn_matrix *w) { return (w->columns + ATTN_LINEAR_COLUMNS - 1) / ATTN_LINEAR_COLUMNS; }

static int is_plain(const attn_row_batch *b, attn_dtype real) { return b->dtype == real && (b->column_stride == 1 || b->columns == 1); }

/* Rows [first, first + n) of all items as reals. They are where they are if that is plain; else copied to memory. */
static const char *rows_as_reals(const attn_row_batch *b, attn_dtype real, int64_t first, int64_t n, char *memory, int64_t *stride)
{
    const int64_t size = (int64_t)attn_dtype_size(real);
    *stride = b->row_stride;
    if (is_plain(b, real) && first / b->rows == (first + n - 1) / b->rows)
        return (const char *)b->data + element_of(b, first) * size;
    *stride = b->columns;
    for (int64_t i = 0; i < n; i++)
        for (int64_t c = 0; c < b->columns; c++)
            attn_store_float(memory, real, i * b->columns + c,
                             attn_load_float(b->data, b->dtype, element_of(b, first + i) + c * b->column_stride));
    return memory;
}

/* rows [n][columns] into the rows from first on, the columns from column on. */
static void store_rows(const attn_row_batch *b, attn_dtype real, int64_t first, int64_t n, int64_t column, int64_t columns,
                       const char *rows)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t c = 0; c < columns; c++)
            attn_store_float(b->data, b->dtype, element_of(b, first + i) + (column + c) * b->column_stride,
                             attn_load_float(rows, real, i * columns + c));
}

/* Where a part begins, of so many units in all. */
static int64_t part_begin(int64_t all, int64_t parts, int64_t part) { return all / parts * part + least(all % parts, part); }

static void project_part(void *user, int64_t part, int thread)
{
    const projection *p = user;
    const attn_matrix *w = p->w;
    const int64_t size = (int64_t)attn_dtype_size(p->real), rows = p->from.items * p->from.rows;
    const int64_t row_part = part / p->column_parts, column_part = part % p->column_parts, units = column_units(w);
    const int64_t first = part_begin(rows, p->row_parts, row_part), n = part_begin(rows, p->row_parts, row_part + 1) - first;
    const int64_t column = part_begin(units, p->column_parts, column_part) * ATTN_LINEAR_COLUMNS;
    const int64_t end = least(part_begin(units, p->column_parts, column_part + 1) * ATTN_LINEAR_COLUMNS, w->columns);
    char *memory = p->scratch + thread * p->scratch_part, *result = memory + n * w->terms * size;
    attn_linear_job job = {.packed = (const char *)w->packed + column * w->terms * (int64_t)attn_dtype_size(w->dtype),
                           .dtype = w->dtype,
                           .bias = w->bias ? (const char *)w->bias + column * size : NULL,
                           .rows = n,
                           .terms = w->terms,
                           .columns = end - column,
                           .c = result,
                           .c_stride = end - column};
    job.a = rows_as_reals(&p->from, p->real, first, n, memory, &job.a_stride);
    int is_direct = is_plain(&p->to, p->real) && first / p->to.rows == (first + n - 1) / p->to.rows;
    if (is_direct) {
        job.c = (char *)p->to.data + (element_of(&p->to, first) + column) * size;
        job.c_stride = p->to.row_stride;
    }
    p->kernels->linear(&job);
    if (!is_direct)
        store_rows(&p->to, p->real, first, n, column, end - column, result);
}

/* Parts of rows, as many for each thread; where there are fewer rows, parts of columns too. */
static void cut_into_parts(projection *p, int64_t rows, int64_t threads)
{
    p->row_parts = (rows + MOST_ROWS - 1) / MOST_ROWS;
    p->column_parts = 1;
    if (p->row_parts < threads)
        p->column_parts = least((threads + p->row_parts - 1) / p->row_parts, column_units(p->w));
    else
        p->row_parts = least((p->row_parts + threads - 1) / threads * threads, rows);
}

attn_status attn_project(attn_ctx *ctx, const attn_matrix *m, int is_f64, attn_row_batch from, attn_row_batch to)
{
    const attn_dtype real = is_f64 ? ATTN_F64 : ATTN_F32;
    const int64_t rows = from.items * from.rows;
    projection p = {.kernels = is_f64 ? ctx->isa->f64 : ctx->isa->f32, .w = m, .from = joined(from), .to = joined(to), .real = real};
    const double work = (double)m->terms * (double)m->columns * (double)(rows < READING_ROWS ? READING_ROWS : rows);
    int threads = work < SMALL_WORK ? 1 : (int)ctx->threads;
    ctx->info.threads = 1;
    if (rows == 0 || m->columns == 0)
        return ATTN_OK;
    cut_into_parts(&p, rows, threads);
    threads = (int)least(threads, p.row_parts * p.column_parts);
    p.scratch_part = (MOST_ROWS * (m->terms + m->columns) * (int64_t)attn_dtype_size(real) + ATTN_ALIGN - 1) / ATTN_ALIGN * ATTN_ALIGN;
    attn_status status = attn_reserve(ctx, &ctx->scratch, p.scratch_part * threads);
    p.scratch = ctx->scratch.data;
    return status ? status : attn_parallel(ctx, threads, p.row_parts * p.column_parts, project_part, &p);
}
