/* patterns_file.c - placements as a file:
 *   {"weights": {"*.q.weight": "S(0)", "*.o.weight": "S(1)"}, "inputs": {"x": "S(0)"}}
 * where a key is an fnmatch pattern over the names of weights, or of inputs; the first that
 * fits counts. */
#include "libexport/base/arena.h"
#include "libexport/base/options.h"
#include "libexport/base/require.h"
#include "libexport/formats/json.h"

#include <exg/partition.h>
#include <string.h>

static exg_status read_pattern(const char *key, uint32_t key_length, exg_json value,
                               exg_arena *arena, exg_partition_pattern *pattern, exg_error *err)
{
    const char *text;
    size_t length;
    char *name;

    EXG_TRY(exg_json_string(value, &text, &length, err));
    name = exg_arena_strndup(arena, text, length);
    pattern->pattern = exg_arena_strndup(arena, key, key_length);
    if (name == NULL || pattern->pattern == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    EXG_TRY_IN(err, exg_placement_parse(name, &pattern->placement, err), "[\"%s\"]",
               pattern->pattern);
    return EXG_OK;
}

static const char *const members[2] = {"weights", "inputs"};

/* The patterns of weights and of inputs, and nothing else. */
static exg_status find_members(exg_json root, exg_json found[2], bool there[2], exg_error *err)
{
    exg_json_walk walk;
    exg_json value;
    const char *key;
    uint32_t length;
    exg_status status = EXG_OK;

    if (exg_json_type_of(root) == EXG_JSON_OBJECT) {
        EXG_TRY(exg_json_object(root, &walk, err));
        while (status == EXG_OK && exg_json_next_member(&walk, &key, &length, &value)) {
            uint32_t m = 0;

            while (m < 2 &&
                   (strlen(members[m]) != length || memcmp(key, members[m], length) != 0)) {
                m++;
            }
            if (m == 2) {
                status = EXG_FAIL(err, USAGE, "PLC-007", "an unknown member \"%.*s\"",
                                  length > 40 ? 40 : (int)length, key);
            } else {
                found[m] = value;
                there[m] = true;
            }
        }
    }
    if (status == EXG_OK && !there[0] && !there[1]) {
        status = EXG_FAIL(err, USAGE, "PLC-007", "no member \"weights\"");
    }
    return status == EXG_OK
               ? EXG_OK
               : exg_error_fix(err, status, "write {\"weights\": {\"*.weight\": \"S(0)\"}}");
}

static exg_status read_patterns(const exg_json_doc *doc, exg_arena *arena,
                                exg_partition_options *options, exg_error *err)
{
    exg_json found[2];
    bool there[2] = {false, false};
    uint32_t count = 0;
    exg_partition_pattern *patterns;

    EXG_TRY(find_members(exg_json_root(doc), found, there, err));
    for (uint32_t m = 0; m < 2; m++) {
        count += there[m] ? exg_json_count(found[m]) : 0;
    }
    patterns = EXG_NEW_ARRAY(arena, exg_partition_pattern, count);
    if (patterns == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t m = 0; m < 2; m++) {
        exg_json_walk walk;
        exg_json value;
        const char *key;
        uint32_t key_length;

        if (!there[m]) {
            continue;
        }
        EXG_TRY_IN(err, exg_json_object(found[m], &walk, err), "%s", members[m]);
        while (exg_json_next_member(&walk, &key, &key_length, &value)) {
            exg_partition_pattern *pattern = &patterns[options->pattern_count++];

            pattern->of_inputs = m == 1;
            EXG_TRY_IN(err, read_pattern(key, key_length, value, arena, pattern, err), "%s",
                       members[m]);
        }
    }
    options->patterns = patterns;
    options->mode = EXG_PARTITION_PATTERNS;
    return EXG_OK;
}

exg_status exg_partition_options_open(const char *path, exg_arena *arena,
                                      exg_partition_options *options, exg_error *err)
{
    EXG_REQUIRE(err, path, arena, options);
    exg_partition_options own = {0};
    exg_json_doc *doc;
    exg_status status;

    EXG_TRY(EXG_READ_OPTIONS(exg_partition_options, &own, options, err));
    own = (exg_partition_options){0};
    EXG_TRY(exg_json_open(path, &doc, err));
    status = read_patterns(doc, arena, &own, err);
    exg_json_free(doc);
    if (status != EXG_OK) {
        return exg_error_within(err, status, "%s:", path);
    }
    EXG_WRITE_OPTIONS(exg_partition_options, options, &own);
    return EXG_OK;
}
