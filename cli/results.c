/* SPDX-License-Identifier: Apache-2.0 */
#include "results.h"
#include "finish.h"
#include "message.h"
#include "table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SENTENCE = 1024 };

void results_close(results *r)
{
    attn_outputs_unlink(r->set); /* first: a signal from here on finds nothing to remove */
    finish_watch(NULL);
    attn_outputs_destroy(r->set);
    r->set = NULL;
    for (int i = 0; i < r->memories; i++)
        free(r->memory[i]);
    for (int i = 0; i < r->texts; i++)
        free(r->text[i]);
    r->memories = r->texts = r->count = 0;
}

const result *results_find(const results *r, const char *name)
{
    for (int i = 0; i < r->count; i++)
        if (strcmp(r->item[i].name, name) == 0)
            return &r->item[i];
    return NULL;
}

static int check_room(const results *r)
{
    return r->count < MAX_RESULTS ? EXIT_DONE : trouble("more than %d outputs; leave some out", MAX_RESULTS);
}

int results_add(results *r, const char *name, const char *path, attn_dtype dtype, int32_t ndim, const int64_t *shape, bool heads,
                attn_tensor **view)
{
    int status = check_room(r);
    const bool turned = heads && ndim >= 3 && setup_is_blhd(r->o, &status);
    if (status)
        return status;
    int64_t stored[ATTN_MAX_DIMS];
    memcpy(stored, shape, sizeof *shape * (size_t)ndim);
    if (turned) {
        stored[ndim - 3] = shape[ndim - 2];
        stored[ndim - 2] = shape[ndim - 3];
    }
    result *new = &r->item[r->count];
    *new = (result){.name = name, .path = path};
    status = tensor_new(&new->tensor, name, dtype, ndim, stored);
    if (status)
        return status;
    r->memory[r->memories++] = new->tensor.data;
    new->view = turned ? tensor_swapped(&new->tensor, 2, 3) : new->tensor;
    r->count++;
    *view = &new->view;
    return EXIT_DONE;
}

int results_again(results *r, const char *name, const char *path)
{
    const result *first = results_find(r, name);
    const int status = check_room(r);
    if (status)
        return status;
    r->item[r->count] = *first;
    r->item[r->count++].path = path;
    return EXIT_DONE;
}

static bool is_rounded_text(const results *r, const result *item)
{
    return opt_given(r->o, OPT_ROUND) && item->path && attn_format_of(item->path) == ATTN_FORMAT_CSV && item->tensor.ndim <= 2 &&
           dtype_is_float(item->tensor.dtype);
}

/* .csv with --round N: the cells that attn_io would write, with N decimals; made after the work, unlike all other files. */
static int open_rounded(results *r, const result *item, int decimals, char *sentence)
{
    const attn_tensor *t = &item->tensor;
    const int64_t count = tensor_count(t), columns = t->ndim == 2 ? t->shape[1] : 1;
    char *text = need_memory((size_t)count * CELL_TEXT), *end = text;
    int64_t index[ATTN_MAX_DIMS] = {0};
    r->text[r->texts++] = text;
    for (int64_t i = 0; i < count; i++, tensor_next(t, index)) {
        const double v = tensor_value(t, index);
        number_text(end, (number_style){.decimals = decimals, .exponent = fabs(v) >= 1e15, .zeros = true}, v);
        end += strlen(end);
        *end++ = (i + 1) % columns ? ',' : '\n';
    }
    if (attn_outputs_bytes(r->set, item->path, text, (size_t)(end - text), sentence, SENTENCE) != ATTN_OK)
        return trouble("%s", sentence);
    return EXIT_DONE;
}

/* All results of the file of result `first`. */
static int open_file(results *r, int first, char *sentence)
{
    const char *path = r->item[first].path, *names[MAX_RESULTS];
    attn_tensor tensors[MAX_RESULTS];
    size_t count = 0;
    const attn_format format = attn_format_of(path);
    const bool many = format == ATTN_FORMAT_NPZ || format == ATTN_FORMAT_SAFETENSORS;
    for (int i = first; i < r->count; i++)
        if (i == first || (many && r->item[i].path && strcmp(r->item[i].path, path) == 0)) {
            names[count] = r->item[i].name;
            tensors[count++] = r->item[i].tensor;
        }
    if (attn_outputs_arrays(r->set, path, count, names, tensors, sentence, SENTENCE) != ATTN_OK)
        return trouble("%s", sentence);
    return EXIT_DONE;
}

static bool seen_before(const results *r, int i)
{
    const attn_format format = attn_format_of(r->item[i].path);
    for (int k = 0; k < i && (format == ATTN_FORMAT_NPZ || format == ATTN_FORMAT_SAFETENSORS); k++)
        if (r->item[k].path && strcmp(r->item[k].path, r->item[i].path) == 0)
            return true;
    return false;
}

/* "-", or a name for what standard output is now, such as /dev/stdout; /dev/null takes anything from anybody. */
static bool is_stdout(const char *path)
{
    struct stat named, ours;
    if (strcmp(path, "-") == 0)
        return true;
    return stat(path, &named) == 0 && fstat(STDOUT_FILENO, &ours) == 0 && named.st_dev == ours.st_dev && named.st_ino == ours.st_ino &&
           (!S_ISCHR(named.st_mode) || isatty(STDOUT_FILENO));
}

/* A file beside the results that goes to standard output. */
static int check_stdout_of(const results *r, const char *what, const char *path, const char *other)
{
    if (!path || !is_stdout(path) || (!other && !opt_given(r->o, OPT_JSON)))
        return EXIT_DONE;
    return trouble("%s goes to standard output, and so would %s; give one of them a file", what, other ? other : "--json");
}

/* Standard output takes one array, one page, or JSON. */
static int check_stdout(const results *r, bool to_stdout)
{
    const result *first = NULL;
    for (int i = 0; i < r->count; i++) {
        const result *item = &r->item[i];
        const bool named = item->path && is_stdout(item->path);
        if (named && opt_given(r->o, OPT_JSON))
            return trouble("--json and an output named %s both go to standard output; give the output a file name", item->path);
        if (named && first && !first->path)
            return trouble("%s goes to standard output, and so would the output; give -o a file", item->name);
        if (named && first)
            return trouble("%s and %s both go to standard output, which takes one array; give one of them a file", first->name, item->name);
        if (named || (to_stdout && !item->path))
            first = item;
    }
    const bool npz = r->also.path && is_stdout(r->also.path);
    const int status = check_stdout_of(r, "--npz", r->also.path, first ? first->name : NULL);
    return status ? status : check_stdout_of(r, "--html", r->stream_path, first ? first->name : npz ? "--npz" : NULL);
}

static int open_files(results *r, bool npy_to_pipe)
{
    char sentence[SENTENCE];
    int status = EXIT_DONE;
    if (attn_outputs_create(&r->set, sentence, sizeof sentence) != ATTN_OK)
        return trouble("%s", sentence);
    finish_watch(r->set);
    for (int i = 0; i < r->count && !status; i++) {
        if (!r->item[i].path && npy_to_pipe)
            r->item[i].path = "-";
        if (r->item[i].path && !seen_before(r, i) && !is_rounded_text(r, &r->item[i]))
            status = open_file(r, i, sentence);
    }
    const bundle *b = &r->also;
    if (!status && b->path &&
        attn_outputs_arrays(r->set, b->path, (size_t)b->count, b->name, b->tensor, sentence, sizeof sentence) != ATTN_OK)
        status = trouble("%s", sentence);
    if (!status && r->stream_path &&
        attn_outputs_stream(r->set, r->stream_path, r->stream_make, r->stream_user, sentence, sizeof sentence) != ATTN_OK)
        status = trouble("%s", sentence);
    return status;
}

int results_open(results *r, bool to_stdout)
{
    int round;
    int status = opt_round(r->o, &round);
    if (!status)
        status = check_stdout(r, to_stdout);
    return status ? status : open_files(r, to_stdout && !opt_given(r->o, OPT_JSON) && !isatty(STDOUT_FILENO));
}

static void print_table(const result *item, int round)
{
    char shape[SHAPE_TEXT];
    print_heading(stdout, "%s %s %s", item->name, tensor_shape_text(shape, &item->tensor), attn_dtype_name(item->tensor.dtype));
    table_tensor(stdout, &item->tensor, NULL, round, 2);
}

static int print_json(const results *r, const session *s)
{
    const attn_info info = session_info(s);
    json_writer j = jw_begin_document(r->o->verb->name);
    jw_begin(&j, "run", '{');
    jw_string(&j, "path", info.path);
    jw_string(&j, "isa", info.isa);
    jw_int(&j, "threads", info.threads);
    jw_number(&j, "seconds", s->seconds, ATTN_F32);
    jw_end(&j, '}');
    if (r->more_json)
        r->more_json(&j, r->more_json_user);
    jw_begin(&j, "arrays", '{');
    for (int i = 0; i < r->count; i++)
        if (results_find(r, r->item[i].name) == &r->item[i])
            jw_array(&j, r->item[i].name, NULL, &r->item[i].tensor, r->item[i].path);
    jw_end(&j, '}');
    return jw_end_document(&j);
}

int results_commit(results *r)
{
    char sentence[SENTENCE];
    int round;
    int status = opt_round(r->o, &round);
    for (int i = 0; i < r->count && !status; i++)
        if (is_rounded_text(r, &r->item[i]))
            status = open_rounded(r, &r->item[i], round, sentence);
    if (!status && attn_outputs_commit(r->set, sentence, sizeof sentence) != ATTN_OK)
        status = trouble("%s", sentence);
    return status;
}

int results_write(results *r, const session *s)
{
    int round;
    int status = opt_round(r->o, &round);
    if (!status)
        status = results_commit(r);
    if (status)
        return status;
    if (opt_given(r->o, OPT_JSON))
        return print_json(r, s);
    for (int i = 0; i < r->count; i++)
        if (!r->item[i].path)
            print_table(&r->item[i], round);
    return finish_stdout();
}
