/* SPDX-License-Identifier: Apache-2.0 */
/* usage: replay CORPUS_FOLDER     runs every file of a kept corpus through a fuzzer's function, without libFuzzer. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay(const char *folder, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    uint8_t *bytes = malloc(1 << 20);
    int failed = file == NULL || bytes == NULL;
    if (!failed) {
        const size_t size = fread(bytes, 1, 1 << 20, file);
        failed = ferror(file) || !feof(file) || LLVMFuzzerTestOneInput(bytes, size) != 0;
    }
    if (failed)
        fprintf(stderr, "%s: not replayed\n", path);
    if (file != NULL)
        fclose(file);
    free(bytes);
    return failed;
}

int main(int argc, char **argv)
{
    int count = 0, failed = 0;
    DIR *folder = argc == 2 ? opendir(argv[1]) : NULL;
    if (folder == NULL)
        return 2;
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        if (entry->d_name[0] == '.')
            continue;
        failed += replay(argv[1], entry->d_name);
        count++;
    }
    closedir(folder);
    printf("%d inputs, %d failed\n", count, failed);
    return failed != 0 || count < 10;
}
