/* SPDX-License-Identifier: Apache-2.0 */
#include "chat.h"
#include "message.h"

#include <stdio.h>
#include <string.h>

/* System texts that ChatML templates put where none is given: Qwen2.5, SmolLM2, Qwen2. */
static const char *default_system(const char *template)
{
    static const char *const known[] = {"You are Qwen, created by Alibaba Cloud. You are a helpful assistant.",
                                        "You are a helpful AI assistant named SmolLM, trained by Hugging Face",
                                        "You are a helpful assistant."};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strstr(template, known[i]))
            return known[i];
    return NULL;
}

char *chat_prompt(const char *template, const char *system, const char *user)
{
    if (!template) {
        trouble("--chat: the model has no chat template; give the whole text with --prompt");
        return NULL;
    }
    const int is_chatml = strstr(template, "<|im_start|>") != NULL && !strstr(template, "enable_thinking");
    const int is_llama3 = strstr(template, "<|start_header_id|>") != NULL && !strstr(template, "Cutting Knowledge Date");
    if (!is_chatml && !is_llama3) {
        trouble("--chat: the model's chat template is not one of those built in, ChatML and Llama 3; give the whole text with --prompt");
        return NULL;
    }
    const char *before = is_chatml ? "<|im_start|>" : "<|start_header_id|>", *role = is_chatml ? "\n" : "<|end_header_id|>\n\n";
    const char *after = is_chatml ? "<|im_end|>\n" : "<|eot_id|>", *first = is_chatml ? "" : "<|begin_of_text|>";
    const char *said = system ? system : is_chatml ? default_system(template) : NULL;
    const size_t size = strlen(user) + (said ? strlen(said) : 0) + 512;
    char *text = need_memory(size);
    int n = snprintf(text, size, "%s", first);
    if (said)
        n += snprintf(text + n, size - (size_t)n, "%ssystem%s%s%s", before, role, said, after);
    snprintf(text + n, size - (size_t)n, "%suser%s%s%s%sassistant%s", before, role, user, after, before, role);
    return text;
}
