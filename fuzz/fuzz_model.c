/* SPDX-License-Identifier: Apache-2.0 */
/* Whole models: the input is a folder, its files one after the other, each behind a line "@@@ NAME". It is written, opened and run. */
#define _XOPEN_SOURCE 700 /* mkdtemp, nftw */
#include <attn/attn_generate.h>
#include <attn/attn_seq2seq.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz_require.h"

enum { TOKENS = 3, MOST_MEMORY = 1 << 26, MOST_COLUMNS = 1 << 16 };

/* Those of a folder that are read. A name that is none of them is not written. */
static const char *const names[] = {"config.json", "generation_config.json", "model.safetensors", "model.safetensors.index.json",
                                    "a.safetensors", "modules.json", "sentence_bert_config.json", "config_sentence_transformers.json",
                                    "1_Pooling/config.json", "2_Dense/config.json", "2_Dense/model.safetensors", "model.gguf"};
enum { NAMES = sizeof names / sizeof *names };

static const char mark[] = "@@@ ";

static void write_file(const char *folder, const char *name, const uint8_t *bytes, size_t size)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    require(f != NULL && fwrite(bytes, 1, size, f) == size);
    require(fclose(f) == 0);
}

/* Where the next line "@@@ NAME" begins, or the end. */
static const uint8_t *next_mark(const uint8_t *from, const uint8_t *end)
{
    for (const uint8_t *p = from; (size_t)(end - p) >= sizeof mark; p++)
        if (!memcmp(p, mark, sizeof mark - 1) && p[-1] == '\n')
            return p;
    return end;
}

/* 1: there is a .gguf among them. */
static int write_folder(const char *folder, const uint8_t *data, size_t size)
{
    int is_gguf = 0;
    const uint8_t *end = data + size;
    for (const uint8_t *p = size > sizeof mark && !memcmp(data, mark, sizeof mark - 1) ? data : end; p < end;) {
        const uint8_t *name = p + sizeof mark - 1, *line = memchr(name, '\n', (size_t)(end - name));
        if (!line)
            break;
        const uint8_t *next = next_mark(line + 1, end);
        const size_t held = (size_t)(next - line - 1);
        for (int i = 0; i < NAMES; i++)
            if (strlen(names[i]) == (size_t)(line - name) && !memcmp(names[i], name, (size_t)(line - name))) {
                /* The line that a mark begins is not the file's. */
                write_file(folder, names[i], line + 1, held - (held > 0 && next < end));
                is_gguf |= i == NAMES - 1;
            }
        p = next;
    }
    return is_gguf;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *place)
{
    (void)st;
    (void)kind;
    return place->level > 0 ? remove(path) : 0;
}

static void *alloc_some(void *user, size_t align, size_t n)
{
    void *memory = NULL;
    (void)user;
    return n > MOST_MEMORY || posix_memalign(&memory, align, n) ? NULL : memory;
}
static void free_some(void *user, void *memory)
{
    (void)user;
    free(memory);
}

static void run(attn_ctx *ctx, const attn_pretrained *m)
{
    const attn_model_info info = attn_pretrained_info(m);
    const int64_t n = info.kind == ATTN_MODEL_DECODER ? info.vocab : info.width, column[] = {n}, row[] = {TOKENS, n}, tokens = TOKENS;
    int32_t ids[TOKENS] = {0, 1, 2}, answer[TOKENS];
    int64_t wide = attn_pretrained_columns(m, NULL), count;
    size_t size;
    attn_session *s = NULL;
    const attn_session_desc session = {.capacity = 2 * TOKENS};
    const attn_generate_opts generate = {.max_tokens = TOKENS};
    const attn_translate_opts translate = {.max_tokens = TOKENS};
    require(info.type != NULL && info.vocab > 0 && info.width > 0 && wide >= 0);
    double *numbers = n < MOST_COLUMNS && wide < MOST_COLUMNS ? malloc(sizeof *numbers * (size_t)(TOKENS * n + wide + 1)) : NULL;
    attn_tensor in = attn_tensor_of(ids, ATTN_I32, 1, &tokens), out = attn_tensor_of(numbers, ATTN_F64, 2, row);
    if (numbers && info.kind == ATTN_MODEL_DECODER) {
        out = attn_tensor_of(numbers, ATTN_F32, 1, column);
        if (attn_session_create(ctx, &s, m, &session) == ATTN_OK && attn_session_feed(ctx, s, &out, &in, NULL) == ATTN_OK)
            attn_generate(ctx, s, ids, 1, answer, &count, NULL, &generate);
        attn_session_destroy(s);
    } else if (numbers && attn_pretrained_encode(ctx, m, &out, &in, NULL) == ATTN_OK) {
        out = attn_tensor_of(numbers, ATTN_F64, 1, &wide);
        attn_pretrained_embed(ctx, m, &out, &in, NULL, NULL);
    }
    if (info.kind == ATTN_MODEL_ENCODER_DECODER)
        attn_pretrained_translate(ctx, m, ids, TOKENS, answer, TOKENS, &size, NULL, &translate);
    free(numbers);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char folder[] = "/tmp/attn-fuzz-XXXXXX", path[64], err[300] = "";
    const attn_ctx_opts options = {.threads = 1, .alloc = alloc_some, .free = free_some};
    attn_ctx *ctx = NULL;
    attn_pretrained *m = NULL;
    require(mkdtemp(folder) != NULL);
    for (int i = 1; i <= 2; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, i == 1 ? "1_Pooling" : "2_Dense");
        require(mkdir(path, 0700) == 0);
    }
    snprintf(path, sizeof path, "%s%s", folder, write_folder(folder, data, size) ? "/model.gguf" : "");
    require(attn_ctx_create(&ctx, &options, NULL, 0) == ATTN_OK);
    const attn_pretrained_opts how = {.flags = size % 2 ? ATTN_PRETRAINED_F64 : 0};
    const attn_status s = attn_pretrained_open(ctx, &m, path, &how, err, sizeof err);
    require((s == ATTN_OK) == (m != NULL) && (s == ATTN_OK) == (err[0] == '\0') && strchr(err, '\n') == NULL);
    if (m)
        run(ctx, m);
    attn_pretrained_destroy(m);
    attn_ctx_destroy(ctx);
    require(nftw(folder, remove_one, 4, FTW_DEPTH | FTW_PHYS) == 0 && rmdir(folder) == 0);
    return 0;
}
