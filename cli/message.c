/* SPDX-License-Identifier: Apache-2.0 */
#include "message.h"
#include "text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static void say(const char *format, va_list args)
{
    fflush(stdout);
    fputs("attn: ", stderr);
    text_print(stderr, format, args);
    fputc('\n', stderr);
}

int trouble(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(format, args);
    va_end(args);
    return EXIT_TROUBLE;
}

void note(int quiet, const char *format, ...)
{
    if (quiet)
        return;
    va_list args;
    va_start(args, format);
    say(format, args);
    va_end(args);
}

void *need_zeroed(size_t count, size_t size)
{
    void *p = calloc(count ? count : 1, size ? size : 1);
    if (!p) {
        trouble("out of memory: %zu x %zu bytes were refused", count, size);
        exit(EXIT_TROUBLE);
    }
    return p;
}

void *need_memory(size_t size)
{
    void *p = malloc(size ? size : 1);
    if (!p) {
        trouble("out of memory: %zu bytes were refused", size);
        exit(EXIT_TROUBLE);
    }
    return p;
}

const char *plural_ending(int64_t count)
{
    return count == 1 ? "" : "s";
}
