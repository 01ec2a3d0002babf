#include "tests/exec/cuda/calls.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define TEXT_MAX 65536

static char path[64];

void expect_ok(exg_status status, const exg_error *err)
{
    if (status != EXG_OK) {
        fail_msg("%s: %s (%s) %s", err->code, err->message, err->where, err->fix);
    }
}

const exg_device_table *cuda_table(void)
{
    const exg_device_table *table;
    exg_error err;

    exg_error_clear(&err);
    expect_ok(exg_device_table_find("cuda", &table, &err), &err);
    return table;
}

bool is_standin(void)
{
    exg_device_info info = {.name = ""};
    exg_error err;

    expect_ok(cuda_table()->describe(0, &info, &err), &err);
    return strncmp(info.name, "stand-in", strlen("stand-in")) == 0;
}

void keep_calls(void)
{
    int file;

    (void)snprintf(path, sizeof(path), "/tmp/exg-calls-XXXXXX");
    file = mkstemp(path);
    assert_true(file >= 0);
    (void)close(file);
    assert_int_equal(setenv("EXG_STANDIN_LOG", path, 1), 0);
}

void drop_calls(void)
{
    assert_int_equal(unsetenv("EXG_STANDIN_LOG"), 0);
    assert_int_equal(unlink(path), 0);
}

char *read_whole(const char *name)
{
    FILE *file = fopen(name, "r");
    char *text = calloc(1, TEXT_MAX);

    assert_non_null(file);
    assert_non_null(text);
    assert_true(fread(text, 1, TEXT_MAX - 1, file) < TEXT_MAX - 1);
    (void)fclose(file);
    return text;
}

char *all_calls(void)
{
    return read_whole(path);
}

static bool begins_as_one(const char *line, const char *const *kinds)
{
    for (; *kinds != NULL; kinds++) {
        if (strncmp(line, *kinds, strlen(*kinds)) == 0) {
            return true;
        }
    }
    return false;
}

char *calls_among(const char *const *kinds)
{
    char *text = all_calls();
    char *kept = text;

    for (char *line = text; *line != '\0';) {
        char *end = strchr(line, '\n');
        char *next = end == NULL ? line + strlen(line) : end + 1;

        if (begins_as_one(line, kinds)) {
            memmove(kept, line, (size_t)(next - line));
            kept += next - line;
        }
        line = next;
    }
    *kept = '\0';
    return text;
}

uint32_t calls_of(const char *kind)
{
    char *text = calls_among((const char *const[]){kind, NULL});
    uint32_t count = 0;

    for (const char *at = text; *at != '\0'; at++) {
        count += *at == '\n';
    }
    free(text);
    return count;
}
