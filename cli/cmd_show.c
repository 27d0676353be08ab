/* SPDX-License-Identifier: Apache-2.0 */
#include "commands.h"
#include "finish.h"
#include "inputs.h"
#include "json_out.h"
#include "message.h"
#include "show_gguf.h"
#include "table.h"

enum { SENTENCE = 1024 };

static bool is_read(const attn_array_info *info) { return info->dtype && info->ndim <= ATTN_MAX_DIMS; }

/* Array i, which is_read. 0, or an exit code after a message. */
static int load(const options *o, attn_file *f, size_t i, attn_tensor *t)
{
    char sentence[SENTENCE];
    if (attn_file_tensor(f, i, t, sentence, sizeof sentence) != ATTN_OK)
        return trouble("%s", sentence);
    if (t->dtype == ATTN_U16 && opt_given(o, OPT_IN_DTYPE))
        t->dtype = ATTN_BF16;
    return EXIT_DONE;
}

/* A damaged array is found before anything is printed; later loads of the same array cost nothing. */
static int load_all(const options *o, attn_file *f)
{
    attn_tensor t;
    int status = EXIT_DONE;
    const bool values = attn_file_format(f) != ATTN_FORMAT_GGUF; /* of a model only what it is made of is shown */
    for (size_t i = 0; values && i < attn_file_count(f) && !status; i++) {
        const attn_array_info info = attn_file_info(f, i);
        if (is_read(&info))
            status = load(o, f, i, &t);
    }
    return status;
}

static int show_text(const options *o, attn_file *f, int round)
{
    char shape[SHAPE_TEXT];
    if (attn_file_format(f) == ATTN_FORMAT_GGUF) {
        show_gguf_text(f);
        return finish_stdout();
    }
    if (attn_file_count(f) == 0)
        puts("no array");
    for (size_t i = 0; i < attn_file_count(f); i++) {
        attn_tensor t;
        const attn_array_info info = attn_file_info(f, i);
        const int status = is_read(&info) ? load(o, f, i, &t) : EXIT_DONE;
        if (status)
            return status;
        print_heading(stdout, "%s%s%s %s", info.name, *info.name ? " " : "", shape_text(shape, info.ndim, info.shape),
                      is_read(&info) ? attn_dtype_name(t.dtype) : info.dtype_name);
        if (is_read(&info))
            table_tensor(stdout, &t, NULL, round, 2);
        else
            puts("  (not shown: attn does not read these numbers)");
    }
    return finish_stdout();
}

static int show_json(const options *o, attn_file *f)
{
    const bool is_gguf = attn_file_format(f) == ATTN_FORMAT_GGUF;
    json_writer j = jw_begin_document("show");
    if (is_gguf)
        show_gguf_json(&j, f);
    jw_begin(&j, "arrays", '{');
    for (size_t i = 0; i < attn_file_count(f); i++) {
        attn_tensor t;
        const attn_array_info info = attn_file_info(f, i);
        if (is_read(&info) && !is_gguf) {
            const int status = load(o, f, i, &t);
            if (status)
                return status;
            jw_array(&j, info.name, NULL, &t, NULL);
            continue;
        }
        jw_begin(&j, info.name, '{');
        jw_string(&j, "dtype", info.dtype_name);
        jw_shape(&j, "shape", info.ndim, info.shape);
        jw_end(&j, '}');
    }
    jw_end(&j, '}');
    return jw_end_document(&j);
}

int cmd_show(const options *o)
{
    inputs in = {.o = o};
    attn_file *f;
    int round;
    int status = opt_round(o, &round);
    if (!status && opt_given(o, OPT_IN_DTYPE) && opt_choice(o, OPT_IN_DTYPE) < 0)
        status = EXIT_TROUBLE;
    if (!status)
        status = inputs_open(&in, "FILE", o->operand[0], &f);
    if (!status)
        status = load_all(o, f);
    if (!status)
        status = opt_given(o, OPT_JSON) ? show_json(o, f) : show_text(o, f, round);
    inputs_close(&in);
    return status;
}
