/* SPDX-License-Identifier: Apache-2.0 */
/* The results of `attn bench` as text, Markdown and JSON. Text and Markdown print the same cells. */
#include "bench.h"
#include "commands.h"
#include "finish.h"
#include "json_out.h"
#include "text.h"

#include <math.h>
#include <string.h>

typedef enum column { CASE, THREADS, TIME, SPREAD, RATE, SHARE, LIMIT, MEMORY, BESIDE, BEFORE, COLUMNS } column;
static const char *const titles[COLUMNS] = {"case", "threads", "time", "spread", "rate", "share", "of", "memory", "beside", "before / now"};
enum { CELL = 96 };
typedef char row_text[COLUMNS][CELL];

/* Half of the range of the middle half, as a share of the median. */
static double half_range(const bench_spread *s) { return 0.5 * (s->high - s->low) / s->median; }

static void time_text(char out[CELL], double seconds)
{
    const double scale = seconds < 1e-3 ? 1e6 : seconds < 1 ? 1e3 : 1;
    snprintf(out, CELL, "%.4g %s", seconds * scale, scale > 1e3 ? "us" : scale > 1 ? "ms" : "s");
}

static void fill_row(row_text t, const bench_result *r)
{
    const double bytes = (double)bench_bytes(r->c);
    const char *unit = bytes > 0 ? "GB/s" : "GFLOP/s";
    char name[BENCH_NAME];
    memset(t, 0, sizeof(row_text));
    bench_name(t[CASE], r->c);
    snprintf(t[THREADS], CELL, "%u", r->info.threads);
    time_text(t[TIME], r->seconds.median);
    snprintf(t[SPREAD], CELL, "%.1f %%", 100 * half_range(&r->seconds));
    snprintf(t[RATE], CELL, "%.4g %s", (bytes > 0 ? bytes : bench_flops(r->c)) / r->seconds.median * 1e-9, unit);
    snprintf(t[SHARE], CELL, "%.1f %%", 100 * r->share.median);
    snprintf(t[LIMIT], CELL, "%.4g %s%s", r->limit.median, unit, r->peak == ATTN_BF16 ? " of bf16" : "");
    snprintf(t[MEMORY], CELL, "%.3g MiB", (double)r->memory * 0x1p-20);
    if (r->c->beside) {
        const bench_result *other = r - r->c->beside; /* measured too: a suite is run as a whole */
        const int at = snprintf(t[BESIDE], CELL, "%.2f x ", r->beside.median);
        bench_name(name, other->c);
        if (other->info.threads == r->info.threads)
            snprintf(t[BESIDE] + at, (size_t)(CELL - at), "%s", name);
        else
            snprintf(t[BESIDE] + at, (size_t)(CELL - at), "%s, threads: %u", name, other->info.threads);
    }
    if (r->has_before)
        snprintf(t[BEFORE], CELL, "%.3f [%.3f, %.3f]%s", r->before.median, r->before.low, r->before.high,
                 r->before.low > 1 || r->before.high < 1 ? " !" : "");
}

static bool starts_suite(const bench_result *results, int i) { return i == 0 || strcmp(results[i].c->suite, results[i - 1].c->suite) != 0; }

/* The machine and the library. */
static void print_machine(const bench_result *r)
{
    char cpu[256];
    cpu_name(cpu, sizeof cpu);
    printf("attn %s, %s, %s\n", attn_version(), cpu, r->info.isa);
}

static void widen(int width[COLUMNS], row_text t)
{
    for (int c = 0; c < COLUMNS; c++)
        width[c] = text_columns(t[c]) > width[c] ? text_columns(t[c]) : width[c];
}

static void print_row(row_text t, const int width[COLUMNS])
{
    int spaces = 0; /* printed with the next cell, so that no line ends with them */
    for (int c = 0; c < COLUMNS; c++) {
        const bool is_left = c == CASE || c >= BESIDE;
        if (!width[c])
            continue;
        const int rest = width[c] - text_columns(t[c]);
        if (*t[c])
            printf("%*s%s", spaces + (is_left ? 0 : rest), "", t[c]);
        spaces = *t[c] ? 2 + (is_left ? rest : 0) : spaces + width[c] + 2;
    }
    putchar('\n');
}

int bench_print_text(const bench_result *results, int count)
{
    int width[COLUMNS] = {0};
    row_text t, head = {{0}};
    for (int i = 0; i < count; i++) {
        fill_row(t, &results[i]);
        widen(width, t);
    }
    for (int c = 0; c < COLUMNS; c++)
        if (width[c])
            snprintf(head[c], CELL, "%s", titles[c]);
    widen(width, head);
    print_machine(results);
    for (int i = 0; i < count; i++) {
        if (starts_suite(results, i)) {
            snprintf(head[CASE], CELL, "%s", results[i].c->suite);
            putchar('\n');
            print_row(head, width);
        }
        fill_row(t, &results[i]);
        print_row(t, width);
    }
    return finish_stdout();
}

/* The title of a table and the lines below it. Columns without a cell are left out. */
static void print_markdown_head(const char *suite, const int width[COLUMNS])
{
    printf("\n| %s ", suite);
    for (int c = CASE + 1; c < COLUMNS; c++)
        if (width[c])
            printf("| %s ", titles[c]);
    fputs("|\n|---", stdout);
    for (int c = CASE + 1; c < COLUMNS; c++)
        if (width[c])
            fputs(c >= BESIDE ? "|---" : "|---:", stdout);
    puts("|");
}

int bench_print_markdown(const bench_result *results, int count)
{
    row_text t;
    int width[COLUMNS];
    print_machine(results);
    for (int i = 0; i < count; i++) {
        if (starts_suite(results, i)) {
            memset(width, 0, sizeof width);
            for (int k = i; k < count && (k == i || !starts_suite(results, k)); k++) {
                fill_row(t, &results[k]);
                widen(width, t);
            }
            print_markdown_head(results[i].c->suite, width);
        }
        fill_row(t, &results[i]);
        for (int c = 0; c < COLUMNS; c++)
            if (width[c])
                printf("| %s ", t[c]);
        puts("|");
    }
    return finish_stdout();
}

static void print_spread(json_writer *j, const char *key, const bench_spread *s)
{
    jw_begin(j, key, '{');
    jw_number(j, "median", s->median, ATTN_F32);
    jw_number(j, "low", s->low, ATTN_F32);
    jw_number(j, "high", s->high, ATTN_F32);
    jw_end(j, '}');
}

static void print_result(json_writer *j, const bench_result *r)
{
    static const char *const kinds[] = {"sdpa", "mha", "projection"};
    const bench_case *c = r->c;
    const double bytes = (double)bench_bytes(c), flops = bench_flops(c);
    char name[BENCH_NAME];
    jw_begin(j, NULL, '{');
    jw_string(j, "suite", c->suite);
    bench_name(name, c);
    jw_string(j, "name", name);
    jw_string(j, "kind", kinds[c->kind]);
    jw_string(j, "dtype", attn_dtype_name(c->dtype));
    jw_string(j, "path", r->info.path);
    jw_string(j, "isa", r->info.isa);
    jw_int(j, "threads", r->info.threads);
    jw_int(j, "samples", r->samples);
    jw_number(j, "flops", flops, ATTN_F64);
    jw_number(j, "gflops", flops / r->seconds.median * 1e-9, ATTN_F32);
    if (bytes > 0) {
        jw_number(j, "bytes", bytes, ATTN_F64);
        jw_number(j, "gbytes_per_second", bytes / r->seconds.median * 1e-9, ATTN_F32);
    }
    jw_string(j, "limit_is", bytes > 0 ? "read" : r->peak == ATTN_BF16 ? "bf16 dot product" : "multiply-add");
    jw_int(j, "memory", r->memory);
    print_spread(j, "seconds", &r->seconds);
    print_spread(j, "limit", &r->limit);
    print_spread(j, "share", &r->share);
    if (c->beside) {
        bench_name(name, c - c->beside);
        jw_string(j, "beside", name);
        print_spread(j, "beside_ratio", &r->beside);
    }
    if (r->has_before) {
        print_spread(j, "before_ratio", &r->before);
        jw_bool(j, "differs", r->before.low > 1 || r->before.high < 1);
    }
    jw_end(j, '}');
}

int bench_print_json(const bench_result *results, int count, const char *suite)
{
    char cpu[256];
    cpu_name(cpu, sizeof cpu);
    json_writer j = jw_begin_document("bench");
    jw_string(&j, "cpu", cpu);
    jw_string(&j, "suite", suite);
    jw_begin(&j, "results", '[');
    for (int i = 0; i < count; i++)
        print_result(&j, &results[i]);
    jw_end(&j, ']');
    return jw_end_document(&j);
}
