/* placement.c - --mesh, --place, --threads and --seed. A file of patterns reads
 *   {"weights": {"*.q.weight": "S(0)", "*.o.weight": "S(1)"}}
 * where a key is an fnmatch pattern over weight names; the first that fits counts. */
#include "cli/cli.h"
#include "libexport/base/arena.h"
#include "libexport/formats/json.h"

#include <stdlib.h>
#include <string.h>

static exg_status read_patterns(const exg_json_doc *doc, cli_placement *placement,
                                exg_place_options *options, exg_error *err)
{
    exg_json weights;
    exg_json_walk walk;
    exg_json value;
    const char *key;
    uint32_t key_length;

    if (exg_json_type_of(exg_json_root(doc)) != EXG_JSON_OBJECT ||
        !exg_json_find(exg_json_root(doc), "weights", &weights)) {
        return exg_error_fix(err, EXG_FAIL(err, USAGE, "PLC-007", "no member \"weights\""),
                             "write {\"weights\": {\"*.weight\": \"S(0)\"}}");
    }
    EXG_TRY(exg_json_object(weights, &walk, err));
    placement->patterns =
        EXG_NEW_ARRAY(placement->arena, exg_place_pattern, exg_json_count(weights));
    if (placement->patterns == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    while (exg_json_next_member(&walk, &key, &key_length, &value)) {
        exg_place_pattern *pattern = &placement->patterns[options->pattern_count];
        const char *text;
        size_t length;
        char *name;

        EXG_TRY(exg_json_string(value, &text, &length, err));
        name = exg_arena_strndup(placement->arena, text, length);
        pattern->pattern = exg_arena_strndup(placement->arena, key, key_length);
        if (name == NULL || pattern->pattern == NULL) {
            return EXG_OUT_OF_MEMORY(err);
        }
        EXG_TRY_IN(err, exg_placement_parse(name, &pattern->placement, err), "weights[\"%s\"]",
                   pattern->pattern);
        options->pattern_count++;
    }
    options->patterns = placement->patterns;
    options->mode = EXG_PLACE_PATTERNS;
    return EXG_OK;
}

static exg_status read_pattern_file(const char *path, cli_placement *placement,
                                    exg_place_options *options, exg_error *err)
{
    FILE *file = fopen(path, "rb");
    char *text;
    size_t length;
    exg_json_doc *doc;
    exg_status status;

    if (file == NULL) {
        return exg_error_fix(err, EXG_FAIL(err, IO, "CLI-005", "cannot open '%s'", path),
                             "--place takes replicate, data, tensor, auto or a JSON file");
    }
    text = malloc(1 << 20);
    length = text == NULL ? 0 : fread(text, 1, 1 << 20, file);
    fclose(file);
    status = text == NULL ? EXG_FAIL(err, NO_MEMORY, "MEM-001", "out of memory")
                          : exg_json_parse(text, length, 0, EXG_JSON_KEYS_NOW, &doc, err);
    if (status == EXG_OK) {
        status = read_patterns(doc, placement, options, err);
        exg_json_free(doc);
    }
    free(text);
    return status == EXG_OK ? EXG_OK : exg_error_within(err, status, "%s:", path);
}

static exg_status read_mesh(const char *text, uint32_t *size, exg_error *err)
{
    char *end;
    unsigned long n = strtoul(text, &end, 10);

    if (end == text || n < 1 || n > 64 || text[0] == '-') {
        return exg_error_fix(err, EXG_FAIL(err, USAGE, "PLC-008", "--mesh '%s'", text),
                             "write the number of ranks, 1 to 64");
    }
    if (*end != '\0') {
        return exg_error_fix(
            err, EXG_FAIL(err, UNSUPPORTED, "PLC-008", "--mesh %s: meshes of one dimension so far", text),
            "write --mesh %lu", n);
    }
    *size = (uint32_t)n;
    return EXG_OK;
}

exg_status cli_session_options(const cli_call *call, exg_session_options *options,
                               cli_placement *placement, exg_error *err)
{
    memset(options, 0, sizeof(*options));
    memset(placement, 0, sizeof(*placement));
    options->size = sizeof(*options);
    options->place.size = sizeof(options->place);
    options->thread_count = call->has_threads ? (uint32_t)call->threads : 0;
    options->seed = call->has_seed && call->seed >= 0 ? (uint64_t)call->seed : 0;
    placement->arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    options->loop_limit = call->has_loop_limit && call->loop_limit >= 1 && call->loop_limit < 0x1p63
                              ? (uint64_t)call->loop_limit
                              : 0;
    if (placement->arena == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    if (call->mesh != NULL) {
        EXG_TRY(read_mesh(call->mesh, &options->mesh_size, err));
    }
    if (call->place == NULL) {
        options->place.mode = call->mesh == NULL ? EXG_PLACE_REPLICATE : EXG_PLACE_AUTO;
        return EXG_OK;
    }
    for (exg_place_mode mode = EXG_PLACE_REPLICATE; mode <= EXG_PLACE_AUTO; mode++) {
        if (strcmp(call->place, exg_place_mode_name(mode)) == 0) {
            options->place.mode = mode;
            return EXG_OK;
        }
    }
    return read_pattern_file(call->place, placement, &options->place, err);
}

void cli_placement_free(cli_placement *placement)
{
    exg_arena_destroy(placement->arena);
}
