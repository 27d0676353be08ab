/* SPDX-License-Identifier: Apache-2.0 */
/* What a page holds, and how large its parts may be. */
#include "page_data.h"
#include "tensor.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void page_close(page *p)
{
    for (int i = 0; i < p->memories; i++)
        free(p->memory[i]);
    for (int i = 0; i < p->notes; i++)
        free(p->note[i]);
    p->memories = p->notes = p->arrays = p->left = 0;
}

attn_status page_fail(page *p, attn_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(p->sentence, sizeof p->sentence, format, args);
    va_end(args);
    return status;
}

void page_note(page *p, const char *english, const char *korean, ...)
{
    char text[PAGE_SENTENCE];
    va_list args;
    va_start(args, korean);
    vsnprintf(text, sizeof text, p->lang && strcmp(p->lang, "ko") == 0 ? korean : english, args);
    va_end(args);
    char *copy = p->notes < PAGE_NOTES ? malloc(strlen(text) + 1) : NULL;
    if (copy)
        p->note[p->notes++] = strcpy(copy, text);
}

void *page_memory(page *p, int64_t count, size_t size)
{
    void *memory = p->memories < PAGE_MEMORIES ? calloc(count > 0 ? (size_t)count : 1, size) : NULL;
    if (memory)
        p->memory[p->memories++] = memory;
    else
        page_fail(p, ATTN_E_NOMEM, "out of memory: %lld x %zu bytes for the page were refused", (long long)count, size);
    return memory;
}

static int64_t product(int32_t n, const int64_t *sizes)
{
    int64_t all = 1;
    for (int32_t i = 0; i < n; i++)
        if (sizes[i] == 0)
            return 0;
    for (int32_t i = 0; i < n; i++)
        if (__builtin_mul_overflow(all, sizes[i], &all))
            return INT64_MAX;
    return all;
}

int64_t page_cells(const page *p)
{
    const page_shape *s = &p->shape;
    return product(5, (const int64_t[]){s->layers, s->B, s->H, s->Lq, s->Lk});
}

int64_t page_elements(const page_array *a) { return product(a->ndim, a->shape); }

void page_leave_out(page *p, const page_array *a, int64_t most)
{
    char shape[SHAPE_TEXT];
    p->left_out[p->left++] = a->name;
    page_note(p, "%s %s is left out: it has %lld numbers, and a page shows at most %lld of such an array",
              "%s %s은(는) 뺐다: 수가 %lld개인데, 페이지는 이런 배열을 %lld개까지만 보인다", a->name, shape_text(shape, a->ndim, a->shape),
              (long long)page_elements(a), (long long)most);
}

attn_status page_add_array(page *p, const page_array *a, bool can_be_left_out)
{
    char shape[SHAPE_TEXT];
    const int64_t elements = page_elements(a), most = PAGE_ARRAY_BYTES / (int64_t)attn_dtype_size(a->dtype);
    if (elements > most && can_be_left_out) {
        page_leave_out(p, a, most);
        return ATTN_OK;
    }
    if (elements > most)
        return page_fail(p, ATTN_E_SHAPE, "%s %s has %lld numbers, and a page holds %lld in one array; explain fewer rows or heads",
                         a->name, shape_text(shape, a->ndim, a->shape), (long long)elements, (long long)most);
    if (p->arrays == PAGE_ARRAYS)
        return page_fail(p, ATTN_E_ARG, "more than %d arrays for one page", PAGE_ARRAYS);
    p->array[p->arrays++] = *a;
    return ATTN_OK;
}

static page_array numbers_of(const char *name, const attn_tensor *t, int32_t ndim, const int64_t *shape)
{
    page_array a = {.name = name, .dtype = t->dtype == ATTN_F64 ? ATTN_F64 : ATTN_F32, .ndim = ndim, .part = t, .parts = 1};
    memcpy(a.shape, shape, sizeof *shape * (size_t)ndim);
    return a;
}

attn_status page_add(page *p, const char *name, const attn_tensor *t, int32_t ndim, const int64_t *shape)
{
    if (!t)
        return ATTN_OK;
    const page_array a = numbers_of(name, t, ndim, shape);
    return page_add_array(p, &a, false);
}

attn_status page_add_optional(page *p, const char *name, const attn_tensor *t, int32_t ndim, const int64_t *shape, int64_t most)
{
    const page_array a = numbers_of(name, t, ndim, shape);
    if (page_elements(&a) <= most)
        return page_add_array(p, &a, true);
    page_leave_out(p, &a, most);
    return ATTN_OK;
}

void page_choose_weights(page *p, int64_t exact)
{
    const int64_t cells = page_cells(p);
    p->weights = cells <= exact ? PAGE_WEIGHTS_EXACT : cells <= PAGE_OVERVIEW_CELLS ? PAGE_WEIGHTS_U8 : PAGE_WEIGHTS_TOP;
    if (p->weights != PAGE_WEIGHTS_TOP)
        return;
    const page_shape *s = &p->shape;
    const int64_t rows = product(4, (const int64_t[]){s->layers, s->B, s->H, s->Lq});
    p->top_keys = s->Lk < PAGE_TOP_KEYS ? s->Lk : PAGE_TOP_KEYS;
    while (p->top_keys > 1 && rows > PAGE_OVERVIEW_CELLS / p->top_keys)
        p->top_keys /= 2;
    page_note(p, "%lld x %lld x %lld x %lld cells are too many for a page: it shows the %lld largest weights of each row",
              "칸이 %lld x %lld x %lld x %lld개여서 한 페이지에 담기에 너무 많다: 행마다 가장 큰 가중치 %lld개를 보인다",
              (long long)(s->layers * s->B), (long long)s->H, (long long)s->Lq, (long long)s->Lk, (long long)p->top_keys);
}
