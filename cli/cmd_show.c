/* SPDX-License-Identifier: Apache-2.0 */
#include "commands.h"
#include "finish.h"
#include "inputs.h"
#include "json_out.h"
#include "message.h"
#include "table.h"

enum { SENTENCE = 1024 };

/* What the file says about array i, and its numbers where the dtype is read. */
static int show_array(const options *o, attn_file *f, size_t i, int round)
{
    char shape[SHAPE_TEXT], sentence[SENTENCE];
    attn_tensor t;
    const attn_array_info info = attn_file_info(f, i);
    print_heading(stdout, "%s%s%s %s", info.name, *info.name ? " " : "", shape_text(shape, info.ndim, info.shape), info.dtype_name);
    if (!info.dtype || info.ndim > ATTN_MAX_DIMS) {
        puts("  (not shown: attn does not read these numbers)");
        return EXIT_DONE;
    }
    if (attn_file_tensor(f, i, &t, sentence, sizeof sentence) != ATTN_OK)
        return trouble("%s", sentence);
    if (t.dtype == ATTN_U16 && opt_given(o, OPT_IN_DTYPE))
        t.dtype = ATTN_BF16;
    table_tensor(stdout, &t, NULL, round, 2);
    return EXIT_DONE;
}

static int show_json(attn_file *f)
{
    char sentence[SENTENCE];
    json_writer j = jw_begin_document("show");
    jw_begin(&j, "arrays", '{');
    for (size_t i = 0; i < attn_file_count(f); i++) {
        attn_tensor t;
        const attn_array_info info = attn_file_info(f, i);
        if (info.dtype && info.ndim <= ATTN_MAX_DIMS) {
            if (attn_file_tensor(f, i, &t, sentence, sizeof sentence) != ATTN_OK)
                return trouble("%s", sentence);
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
    int64_t round = -1;
    int status = opt_int(o, OPT_ROUND, 0, &round);
    if (!status && opt_given(o, OPT_IN_DTYPE) && opt_choice(o, OPT_IN_DTYPE) < 0)
        status = EXIT_TROUBLE;
    if (!status)
        status = inputs_open(&in, "FILE", o->operand[0], &f);
    if (!status && opt_given(o, OPT_JSON)) {
        status = show_json(f);
    } else if (!status) {
        if (attn_file_count(f) == 0)
            puts("no array");
        for (size_t i = 0; i < attn_file_count(f) && !status; i++)
            status = show_array(o, f, i, (int)(round > 17 ? 17 : round));
        if (!status)
            status = finish_stdout();
    }
    inputs_close(&in);
    return status;
}
