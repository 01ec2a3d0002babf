/* replay.c - runs a fuzz target over every file of the folders it is given, each
 * from an exact heap copy, so that a sanitizer sees an overread.
 */
#include "tests/fuzz/fuzz.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

static int replay_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    long size;
    uint8_t *data;

    if (f == NULL || fseek(f, 0, SEEK_END) != 0 || (size = ftell(f)) < 0) {
        fprintf(stderr, "%s: cannot read\n", path);
        return 1;
    }
    rewind(f);
    data = malloc(size == 0 ? 1 : (size_t)size);
    if (data == NULL || fread(data, 1, (size_t)size, f) != (size_t)size) {
        fprintf(stderr, "%s: cannot read\n", path);
        return 1;
    }
    fclose(f);
    LLVMFuzzerTestOneInput(data, (size_t)size);
    free(data);
    return 0;
}

static int replay_folder(const char *folder, unsigned *count)
{
    DIR *d = opendir(folder);
    struct dirent *entry;
    int failed = 0;

    if (d == NULL) {
        fprintf(stderr, "%s: no such folder\n", folder);
        return 1;
    }
    while ((entry = readdir(d)) != NULL) {
        char path[4096];

        if (entry->d_name[0] != '.') {
            snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
            failed += replay_file(path);
            ++*count;
        }
    }
    closedir(d);
    return failed;
}

int main(int argc, char **argv)
{
    unsigned count = 0;
    int failed = 0;

    for (int i = 1; i < argc; i++) {
        failed += replay_folder(argv[i], &count);
    }
    printf("%u inputs\n", count);
    return failed != 0 || count == 0;
}
