/* SPDX-License-Identifier: Apache-2.0 */
#include "commands.h"
#include "finish.h"
#include "json_out.h"
#include "setup.h"

#include <string.h>

static const char *const dtypes[] = {"f32", "f64", "f16", "bf16"};
static const char *const formats[] = {".npy", ".npz", ".safetensors", ".safetensors.index.json", ".gguf", ".csv", ".txt"};

void cpu_name(char *out, size_t size)
{
    char line[256];
    snprintf(out, size, "unknown");
    FILE *f = fopen("/proc/cpuinfo", "r");
    while (f && fgets(line, sizeof line, f)) {
        const char *colon = strchr(line, ':');
        if (colon && (strncmp(line, "model name", 10) == 0 || strncmp(line, "Model", 5) == 0)) {
            snprintf(out, size, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
            break;
        }
    }
    if (f)
        fclose(f);
}

static void print_list(const char *title, const char *const *words, size_t count)
{
    printf("%-10s", title);
    for (size_t i = 0; i < count; i++)
        printf("%s%s", i ? " " : "", words[i]);
    putchar('\n');
}

static int print_text(const attn_info *info, const char *cpu)
{
    printf("attn      %s\nCPU       %s\nISA       ", attn_version(), cpu);
    for (int i = 0; attn_isa_name(i); i++) {
        const char *name = attn_isa_name(i);
        printf("%s%s%s", i ? ", " : "", name, strcmp(name, info->isa) == 0 ? " (runs)" : attn_isa_usable(name) ? "" : " (not on this CPU)");
    }
    printf("\nthreads   %u\n", info->threads);
    print_list("dtypes", dtypes, sizeof dtypes / sizeof dtypes[0]);
    print_list("files", formats, sizeof formats / sizeof formats[0]);
    return finish_stdout();
}

static void jw_list(json_writer *j, const char *key, const char *const *words, size_t count)
{
    jw_begin(j, key, '[');
    for (size_t i = 0; i < count; i++)
        jw_string(j, NULL, words[i]);
    jw_end(j, ']');
}

static int print_json(const attn_info *info, const char *cpu)
{
    json_writer j = jw_begin_document("info");
    jw_string(&j, "cpu", cpu);
    jw_string(&j, "isa", info->isa);
    jw_begin(&j, "levels", '[');
    for (int i = 0; attn_isa_name(i); i++) {
        jw_begin(&j, NULL, '{');
        jw_string(&j, "isa", attn_isa_name(i));
        jw_bool(&j, "usable", attn_isa_usable(attn_isa_name(i)));
        jw_end(&j, '}');
    }
    jw_end(&j, ']');
    jw_int(&j, "threads", info->threads);
    jw_list(&j, "dtypes", dtypes, sizeof dtypes / sizeof dtypes[0]);
    jw_list(&j, "formats", formats, sizeof formats / sizeof formats[0]);
    return jw_end_document(&j);
}

int cmd_info(const options *o)
{
    session s;
    char cpu[256];
    const int status = session_open(&s, o);
    if (status)
        return status;
    const attn_info info = attn_ctx_info(s.ctx);
    cpu_name(cpu, sizeof cpu);
    const int done = opt_given(o, OPT_JSON) ? print_json(&info, cpu) : print_text(&info, cpu);
    session_close(&s);
    return done;
}
