/* SPDX-License-Identifier: Apache-2.0 */
/* The models that are known. A new family: a file beside bert.c, its name in model.h and here. */
#include <stdio.h>
#include <string.h>

#include "model.h"

static const struct family *const families[] = {&attn_family_bert, &attn_family_gpt2, &attn_family_llama, &attn_family_marian};
enum { FAMILIES = sizeof families / sizeof *families };

const struct family *attn_family_of(const char *type)
{
    for (size_t i = 0; i < FAMILIES; i++)
        for (const char *const *t = families[i]->types; *t; t++)
            if (!strcmp(*t, type))
                return families[i];
    return NULL;
}

const char *attn_family_types(char *text, size_t size)
{
    size_t n = 0;
    text[0] = '\0';
    for (size_t i = 0; i < FAMILIES; i++)
        for (const char *const *t = families[i]->types; *t && n < size; t++)
            n += (size_t)snprintf(text + n, size - n, "%s%s", n ? ", " : "", *t);
    return text;
}
