/* exg_folder.c - a folder of the test's own, and files in it. */
#include "tests/export/exg_folder.h"

#include <dirent.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static char folder[64];

int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/exg-test-XXXXXX");
    return mkdtemp(folder) == NULL;
}

int empty_folder(void)
{
    DIR *d = opendir(folder);
    struct dirent *entry;
    int count = 0;

    assert_non_null(d);
    while ((entry = readdir(d)) != NULL) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            count += unlink(in_folder(entry->d_name)) == 0;
        }
    }
    closedir(d);
    return count;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *walk)
{
    (void)st;
    (void)kind;
    (void)walk;
    return remove(path);
}

int remove_folder(void **state)
{
    (void)state;
    return nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

const char *in_folder(const char *name)
{
    static char paths[8][400];
    static unsigned next;
    char *path = paths[next++ % 8];

    snprintf(path, sizeof(paths[0]), "%s/%s", folder, name);
    return path;
}

uint64_t file_bytes(const char *name)
{
    struct stat st;

    assert_int_equal(stat(in_folder(name), &st), 0);
    return (uint64_t)st.st_size;
}

uint8_t *read_path(const char *path, size_t *length)
{
    FILE *f = fopen(path, "rb");
    struct stat st;
    uint8_t *data;

    assert_non_null(f);
    assert_int_equal(fstat(fileno(f), &st), 0);
    *length = (size_t)st.st_size;
    data = malloc(*length + 1);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, *length, f), *length);
    fclose(f);
    return data;
}

uint8_t *read_file(const char *name, size_t *length)
{
    return read_path(in_folder(name), length);
}

void write_file(const char *name, const void *data, size_t length)
{
    FILE *f = fopen(in_folder(name), "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, length, f), length);
    fclose(f);
}

void assert_paths_equal(const char *a, const char *b)
{
    size_t length_a;
    size_t length_b;
    uint8_t *data_a = read_path(a, &length_a);
    uint8_t *data_b = read_path(b, &length_b);

    assert_int_equal(length_a, length_b);
    assert_memory_equal(data_a, data_b, length_a);
    free(data_a);
    free(data_b);
}

void assert_files_equal(const char *a, const char *b)
{
    assert_paths_equal(in_folder(a), in_folder(b));
}

exg_program *open_program(const char *path)
{
    exg_program *program = NULL;
    exg_error err;

    exg_error_clear(&err);
    if (exg_open(path, NULL, &program, NULL, &err) != EXG_OK) {
        fail_msg("%s: %s %s: %s", path, err.code, err.where, err.message);
    }
    return program;
}

void save_program(const exg_program *program, const char *name, const exg_save_options *options)
{
    exg_error err;

    exg_error_clear(&err);
    if (exg_save(program, in_folder(name), EXG_FORMAT_EXG, options, &err) != EXG_OK) {
        fail_msg("%s: %s %s: %s", name, err.code, err.where, err.message);
    }
}

/* Facts are found by their content: total length, then metadata length. */
static uint8_t *find_facts(uint8_t *data, size_t length, uint64_t *metadata)
{
    for (size_t at = 0; at + 40 <= length; at += 4) {
        uint64_t numbers[2];

        memcpy(numbers, data + at, sizeof(numbers));
        if (numbers[0] == length && numbers[1] <= length) {
            *metadata = numbers[1];
            return data + at;
        }
    }
    fail_msg("no facts");
    return NULL;
}

void replace_location(uint8_t *data, size_t length, const char *from, const char *to)
{
    uint64_t metadata = 0;
    uint8_t *facts = find_facts(data, length, &metadata);
    uint8_t *at = memmem(data, length, from, strlen(from));
    XXH128_hash_t wide;
    uint64_t hashes[3];

    assert_int_equal(strlen(from), strlen(to));
    assert_non_null(at);
    memcpy(at, to, strlen(to));
    memset(facts + 16, 0, 24);
    wide = XXH3_128bits(data, metadata);
    hashes[0] = XXH3_64bits(data, metadata);
    hashes[1] = wide.low64;
    hashes[2] = wide.high64;
    memcpy(facts + 16, hashes, sizeof(hashes));
}
