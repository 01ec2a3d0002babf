/* preset.c - the files of --preset: by name those that are installed, or any file. */
#include "cli/cli.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define EXTENSION ".preset"
#define BYTES_MAX (1u << 20)

static exg_status no_preset(const char *name, exg_error *err)
{
    exg_text names = EXG_TEXT_EMPTY;
    exg_status status;

    cli_put_installed(&names, "presets", EXTENSION);
    status = exg_error_fix(
        err,
        EXG_FAIL(err, USAGE, "WGT-PRESET",
                 "there is no preset '%s'; a file has a / in its name, or .preset at its end",
                 name),
        "%s", exg_text_string(&names));
    exg_text_free(&names);
    return status;
}

/* All of it, with NUL. */
static exg_status read_file(const char *path, exg_arena *arena, const char **text, exg_error *err)
{
    FILE *file = fopen(path, "rb");
    char *room = exg_arena_alloc(arena, BYTES_MAX + 1, 1);
    size_t got = file == NULL || room == NULL ? 0 : fread(room, 1, BYTES_MAX + 1, file);
    bool failed = file == NULL || ferror(file);

    if (file != NULL) {
        fclose(file);
    }
    if (room == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    if (failed || got > BYTES_MAX || memchr(room, '\0', got) != NULL) {
        return EXG_FAIL(err, IO, "CLI-005", "cannot read '%s'%s", path,
                        failed ? "" : ": it is no text of at most 1 MiB");
    }
    room[got] = '\0';
    *text = room;
    return EXG_OK;
}

exg_status cli_read_preset(const char *name, exg_arena *arena, const char **text, exg_error *err)
{
    const char *path;

    EXG_TRY(cli_find_installed("presets", EXTENSION, name, arena, &path, err));
    if (path == NULL) {
        return no_preset(name, err);
    }
    return read_file(path, arena, text, err);
}

/* ---- numbers ----------------------------------------------------------------------------------
 */

typedef struct numbers {
    exg_string_map *map;
    exg_arena *arena;
    uint32_t capacity;
} numbers;

static exg_status add_number(void *user, const char *key, int64_t value, exg_error *err)
{
    numbers *n = user;
    exg_string_pair pair = {exg_arena_strdup(n->arena, key),
                            exg_arena_printf(n->arena, "%" PRId64, value)};

    if (pair.key == NULL || pair.value == NULL ||
        !exg_arena_reserve(n->arena, &n->map->items, n->map->count, &n->capacity, sizeof(pair))) {
        return EXG_OUT_OF_MEMORY(err);
    }
    n->map->items[n->map->count++] = pair;
    return EXG_OK;
}

exg_status cli_read_numbers(const cli_call *call, const char *weights, exg_arena *arena,
                            exg_string_map *map, exg_error *err)
{
    numbers n = {map, arena, 0};

    *map = (exg_string_map){0};
    for (uint32_t i = 0; i < call->numbers.count; i++) {
        const char *word = call->numbers.items[i];
        const char *equals = strchr(word, '=');
        char *end = NULL;
        long long value = equals == NULL ? 0 : strtoll(equals + 1, &end, 10);
        const char *name =
            equals == NULL ? NULL : exg_arena_strndup(arena, word, (size_t)(equals - word));

        if (value < 1 || *end != '\0' || equals == word) {
            return EXG_FAIL(err, USAGE, "CLI-001", "--set '%s': give it as NAME=N", word);
        }
        EXG_TRY(name == NULL ? EXG_OUT_OF_MEMORY(err) : add_number(&n, name, value, err));
    }
    return exg_model_numbers(weights, add_number, &n, err);
}
