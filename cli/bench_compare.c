/* SPDX-License-Identifier: Apache-2.0 */
/* A former `attn bench --json` beside this one. */
#include "bench.h"
#include "message.h"

#include <jansson.h>
#include <string.h>

/* The text or number under a key; "" or 0 where there is none. */
static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static double number_of(const json_t *object, const char *key) { return json_number_value(json_object_get(object, key)); }

/* The result of the same case on as many threads, or NULL. */
static const json_t *find(const json_t *results, const bench_result *r)
{
    char name[BENCH_NAME];
    bench_name(name, r->c);
    for (size_t i = 0; i < json_array_size(results); i++) {
        const json_t *old = json_array_get(results, i);
        if (strcmp(text_of(old, "suite"), r->c->suite) == 0 && strcmp(text_of(old, "name"), name) == 0 &&
            number_of(old, "threads") == (double)r->info.threads)
            return old;
    }
    return NULL;
}

/* false where the file has no times. The quartiles of a ratio are taken as far apart as those of its two times allow. */
static bool set_before(bench_result *r, const json_t *old)
{
    const json_t *seconds = json_object_get(old, "seconds");
    const bench_spread s = {number_of(seconds, "median"), number_of(seconds, "low"), number_of(seconds, "high")};
    r->has_before = s.low > 0 && s.low <= s.median && s.median <= s.high;
    r->before = (bench_spread){s.median / r->seconds.median, s.low / r->seconds.high, s.high / r->seconds.low};
    return r->has_before;
}

int bench_compare(bench_result *results, int count, const char *path)
{
    json_error_t error;
    json_t *document = json_load_file(path, 0, &error);
    const json_t *former = json_object_get(document, "results");
    int status = EXIT_DONE, found = 0;
    if (!document)
        status = error.line > 0 ? trouble("--compare %s is not JSON: line %d: %s", path, error.line, error.text)
                                : trouble("--compare %s: %s", path, error.text);
    else if (strcmp(text_of(document, "command"), "bench") != 0 || !json_is_array(former))
        status = trouble("--compare %s is not what attn bench --json prints", path);
    for (int i = 0; i < count && !status; i++) {
        const json_t *old = find(former, &results[i]);
        found += old != NULL;
        if (old && !set_before(&results[i], old))
            status = trouble("--compare %s: the seconds of %s are not three growing times above 0", path, text_of(old, "name"));
    }
    if (!status && count && !found)
        status = trouble("--compare %s has none of the cases that were measured: its suite is %s, and its threads may be others", path,
                         text_of(document, "suite"));
    json_decref(document);
    return status;
}
