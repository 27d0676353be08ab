/* SPDX-License-Identifier: Apache-2.0 */
#include "embed_show.h"
#include "finish.h"
#include "message.h"
#include "table.h"

#include <math.h>
#include <stdlib.h>

enum { FEW = 12, NAME_COLUMNS = 32 };

/* The cosine of vectors i and j; nan when one is 0. */
static double cosine(const void *data, int64_t i, int64_t j)
{
    const embed_shown *e = data;
    const int64_t n = e->vectors->shape[1];
    const float *a = (const float *)e->vectors->data + i * n, *b = (const float *)e->vectors->data + j * n;
    double ab = 0, aa = 0, bb = 0;
    for (int64_t k = 0; k < n; k++) {
        ab += (double)a[k] * (double)b[k];
        aa += (double)a[k] * (double)a[k];
        bb += (double)b[k] * (double)b[k];
    }
    return aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : (double)NAN;
}

int embed_similarity(const embed_shown *e, const options *o)
{
    char text[FEW][TEXT_NAME], number[FEW][12];
    const char *names[FEW], *numbers[FEW];
    const int count = (int)(e->texts->count > FEW ? 0 : e->texts->count);
    int round;
    const int status = opt_round(o, &round);
    if (status || count < 2)
        return status;
    for (int i = 0; i < count; i++) {
        char shown[TEXT_NAME];
        snprintf(number[i], sizeof number[i], "%d", i + 1);
        snprintf(text[i], sizeof text[i], "%d %.240s", i + 1, texts_shown(e->texts, i, NAME_COLUMNS, shown));
        names[i] = text[i];
        numbers[i] = number[i];
    }
    print_heading(stdout, "cosine similarity");
    table_print(stdout, &(matrix){.rows = count, .cols = count, .value = cosine, .data = e, .row_names = names, .col_names = numbers,
                                  .round = round}, 2);
    return finish_stdout();
}

void embed_json(json_writer *j, const void *user)
{
    const embed_shown *e = user;
    const int64_t count = e->texts->count > FEW ? 0 : e->texts->count;
    double row[FEW];
    jw_string(j, "model", e->info.type);
    double *tokens = need_zeroed((size_t)e->texts->count, sizeof *tokens);
    for (int64_t i = 0; i < e->texts->count; i++)
        tokens[i] = (double)e->tokens[i]->count;
    jw_numbers(j, "tokens", tokens, e->texts->count, ATTN_F64);
    free(tokens);
    if (count < 2)
        return;
    jw_begin(j, "similarity", '[');
    for (int64_t i = 0; i < count; i++) {
        for (int64_t k = 0; k < count; k++)
            row[k] = cosine(e, i, k);
        jw_numbers(j, NULL, row, count, ATTN_F32);
    }
    jw_end(j, ']');
}
