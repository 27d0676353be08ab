/* SPDX-License-Identifier: Apache-2.0 */
#include "project.h"

#include "../core/threads.h"
#include "../kernels/convert.h"

/* Multiply-adds below which a projection stays on one thread: a tenth of a millisecond. Few rows take as long as the reading of the
   weights: as READING_ROWS. */
#define SMALL_WORK 5e6
enum {
    READING_ROWS = 16,
    MOST_ROWS = 128, /* rows that are projected at a time: they stay in L2 while the weights pass by */
    HOT_UNITS = 4    /* units of columns after which such rows are still in L2, twice */
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
    attn_projection p;
    attn_dtype real; /* what is computed in */
    int64_t rows, row_parts, column_parts;
    int64_t units; /* that the columns can be cut into: those of all products, one after the other; of the first, if both go together */
    char *scratch; /* of each thread: rows of from as reals if they are copied, the same packed, rows of a product if they are copied */
    int64_t scratch_reals, scratch_packed, scratch_part; /* bytes of the first two, and of all */
} projection;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
/* What the columns can be cut into: the last unit may be smaller. */
static int64_t column_units(const attn_matrix *w) { return (w->columns + ATTN_LINEAR_COLUMNS - 1) / ATTN_LINEAR_COLUMNS; }

static int is_plain(const attn_row_batch *b, attn_dtype real) { return b->dtype == real && (b->column_stride == 1 || b->columns == 1); }
/* Never copied? */
static int is_in_place(const attn_row_batch *b, attn_dtype real) { return is_plain(b, real) && b->items <= 1; }

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

/* Rows [first, first + n) of from as linear takes them. */
static const char *packed_rows(const projection *p, int64_t first, int64_t n, char *memory)
{
    int64_t stride;
    const char *rows = rows_as_reals(&p->p.from, p->real, first, n, memory, &stride);
    if (n == 1)
        return rows;
    p->kernels->linear_rows(memory + p->scratch_reals, rows, stride, n, p->p.from.columns);
    return memory + p->scratch_reals;
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

/* Rows [first, first + n), which are packed at a, times units [begin, end) of a product. */
static void multiply(const projection *p, int product, int64_t first, int64_t n, const void *a, int64_t begin, int64_t end, char *result)
{
    const attn_matrix *w = p->p.product[product].w;
    const attn_row_batch *to = &p->p.product[product].to;
    const int64_t size = (int64_t)attn_dtype_size(p->real), column = begin * ATTN_LINEAR_COLUMNS;
    const int64_t columns = least(end * ATTN_LINEAR_COLUMNS, w->columns) - column;
    attn_linear_job job = {.packed = (const char *)w->packed + column * w->terms * (int64_t)attn_dtype_size(w->dtype),
                           .dtype = w->dtype,
                           .bias = w->bias ? (const char *)w->bias + column * size : NULL,
                           .a = a,
                           .rows = n,
                           .terms = w->terms,
                           .columns = columns,
                           .c = result,
                           .c_stride = columns};
    const int is_direct = is_plain(to, p->real) && first / to->rows == (first + n - 1) / to->rows;
    if (is_direct) {
        job.c = (char *)to->data + (element_of(to, first) + column) * size;
        job.c_stride = to->row_stride;
    }
    p->kernels->linear(&job);
    if (!is_direct)
        store_rows(to, p->real, first, n, column, columns, result);
}

/* What multiply has put into units [begin, end) of the first product, and of the second. */
static void activate(const projection *p, int64_t first, int64_t n, int64_t begin, int64_t end)
{
    const attn_row_batch *x = &p->p.product[0].to, *other = p->p.n > 1 ? &p->p.product[1].to : NULL;
    const int64_t size = (int64_t)attn_dtype_size(p->real), column = begin * ATTN_LINEAR_COLUMNS;
    for (int64_t row = first; row < first + n; row++)
        p->p.activate((char *)x->data + (element_of(x, row) + column) * size,
                      other ? (char *)other->data + (element_of(other, row) + column) * size : NULL,
                      least(end * ATTN_LINEAR_COLUMNS, x->columns) - column);
}

static void project_part(void *user, int64_t part, int thread)
{
    const projection *p = user;
    const int64_t row_part = part / p->column_parts, column_part = part % p->column_parts;
    const int64_t first = part_begin(p->rows, p->row_parts, row_part), n = part_begin(p->rows, p->row_parts, row_part + 1) - first;
    const int64_t begin = part_begin(p->units, p->column_parts, column_part), end = part_begin(p->units, p->column_parts, column_part + 1);
    char *memory = p->scratch + thread * p->scratch_part, *result = memory + p->scratch_reals + p->scratch_packed;
    const char *a = packed_rows(p, first, n, memory);
    if (p->p.activate) {
        for (int64_t unit = begin; unit < end; unit += HOT_UNITS) {
            for (int i = 0; i < p->p.n; i++)
                multiply(p, i, first, n, a, unit, least(unit + HOT_UNITS, end), result);
            activate(p, first, n, unit, least(unit + HOT_UNITS, end));
        }
        return;
    }
    for (int64_t i = 0, before = 0; i < p->p.n; i++) {
        const int64_t units = column_units(p->p.product[i].w), from = begin > before ? begin - before : 0, to = least(end - before, units);
        if (from < to)
            multiply(p, (int)i, first, n, a, from, to, result);
        before += units;
    }
}

/* Parts of rows, as many for each thread; where there are fewer rows, parts of columns too. */
static void cut_into_parts(projection *p, int64_t threads)
{
    p->row_parts = (p->rows + MOST_ROWS - 1) / MOST_ROWS;
    p->column_parts = 1;
    if (p->row_parts < threads)
        p->column_parts = least((threads + p->row_parts - 1) / p->row_parts, p->units);
    else
        p->row_parts = least((p->row_parts + threads - 1) / threads * threads, p->rows);
}

/* Fills in what does not depend on the threads; returns the multiply-adds. */
static double measure(projection *p, int64_t *result_columns)
{
    double work = 0;
    *result_columns = 0;
    p->p.from = joined(p->p.from);
    for (int i = 0; i < p->p.n; i++) {
        attn_row_batch *to = &p->p.product[i].to;
        const attn_matrix *w = p->p.product[i].w;
        *to = joined(*to);
        if (!is_in_place(to, p->real) && w->columns > *result_columns)
            *result_columns = w->columns;
        p->units += p->p.activate && i ? 0 : column_units(w);
        work += (double)w->terms * (double)w->columns * (double)(p->rows < READING_ROWS ? READING_ROWS : p->rows);
    }
    return work;
}

attn_status attn_project_all(attn_ctx *ctx, const attn_projection *wanted)
{
    projection p = {.p = *wanted, .kernels = wanted->is_f64 ? ctx->isa->f64 : ctx->isa->f32};
    int64_t result_columns;
    p.real = p.p.is_f64 ? ATTN_F64 : ATTN_F32;
    p.rows = p.p.from.items * p.p.from.rows;
    const double work = measure(&p, &result_columns);
    int64_t threads = work < SMALL_WORK ? 1 : ctx->threads;
    ctx->info.threads = 1;
    if (p.rows == 0 || p.units == 0)
        return ATTN_OK;
    cut_into_parts(&p, threads);
    threads = least(threads, p.row_parts * p.column_parts);
    const int64_t most = (p.rows + p.row_parts - 1) / p.row_parts, size = (int64_t)attn_dtype_size(p.real);
    p.scratch_reals = is_in_place(&p.p.from, p.real) ? 0 : most * p.p.from.columns * size;
    p.scratch_packed = most > 1 ? most * p.p.from.columns * size : 0;
    p.scratch_part = (p.scratch_reals + p.scratch_packed + most * result_columns * size + ATTN_ALIGN - 1) / ATTN_ALIGN * ATTN_ALIGN;
    attn_status status = attn_reserve(ctx, &ctx->scratch, p.scratch_part * threads + ATTN_ALIGN);
    p.scratch = ctx->scratch.data;
    return status ? status : attn_parallel(ctx, (int)threads, p.row_parts * p.column_parts, project_part, &p);
}

attn_status attn_project(attn_ctx *ctx, const attn_matrix *m, int is_f64, attn_row_batch from, attn_row_batch to)
{
    return attn_project_all(ctx, &(attn_projection){.is_f64 = is_f64, .from = from, .n = 1, .product = {{m, to}}});
}
