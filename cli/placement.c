/* placement.c - --mesh, --place, --threads and --seed. A file of patterns reads
 *   {"weights": {"*.q.weight": "S(0)", "*.o.weight": "S(1)"}, "inputs": {"x": "S(0)"}}
 * where a key is an fnmatch pattern over the names of weights, or of inputs; the first that
 * fits counts. */
#include "cli/cli.h"
#include "libexport/base/arena.h"
#include "libexport/formats/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PLANNED_MAX 65536 /* ranks, of a mesh that is not run on */

static exg_status read_pattern(const char *key, uint32_t key_length, exg_json value,
                               cli_placement *placement, exg_place_pattern *pattern, exg_error *err)
{
    const char *text;
    size_t length;
    char *name;

    EXG_TRY(exg_json_string(value, &text, &length, err));
    name = exg_arena_strndup(placement->arena, text, length);
    pattern->pattern = exg_arena_strndup(placement->arena, key, key_length);
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

static exg_status read_patterns(const exg_json_doc *doc, cli_placement *placement,
                                exg_place_options *options, exg_error *err)
{
    exg_json found[2];
    bool there[2] = {false, false};
    uint32_t count = 0;

    EXG_TRY(find_members(exg_json_root(doc), found, there, err));
    for (uint32_t m = 0; m < 2; m++) {
        count += there[m] ? exg_json_count(found[m]) : 0;
    }
    placement->patterns = EXG_NEW_ARRAY(placement->arena, exg_place_pattern, count);
    if (placement->patterns == NULL) {
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
            exg_place_pattern *pattern = &placement->patterns[options->pattern_count++];

            pattern->of_inputs = m == 1;
            EXG_TRY_IN(err, read_pattern(key, key_length, value, placement, pattern, err), "%s",
                       members[m]);
        }
    }
    options->patterns = placement->patterns;
    options->mode = EXG_PLACE_PATTERNS;
    return EXG_OK;
}

static exg_status read_pattern_file(const char *path, cli_placement *placement,
                                    exg_place_options *options, exg_error *err)
{
    exg_json_doc *doc;
    exg_status status = cli_json_open(path, &doc, err);

    if (status != EXG_OK) {
        return status != EXG_IO ? status
                                : exg_error_fix(err, status,
                                                "--place takes replicate, data, tensor, fsdp, "
                                                "sequence, auto or a JSON file");
    }
    status = read_patterns(doc, placement, options, err);
    exg_json_free(doc);
    return status == EXG_OK ? EXG_OK : exg_error_within(err, status, "%s:", path);
}

/* "4", "2x3" */
static exg_status read_mesh(const char *text, unsigned long most, exg_mesh_shape *mesh,
                            exg_error *err)
{
    const char *at = text;
    unsigned long ranks = 1;

    do {
        char *end;
        unsigned long n = strtoul(at, &end, 10);

        ranks *= n;
        if (*at < '0' || *at > '9' || n < 1 || n > most || ranks > most ||
            mesh->ndim == EXG_MESH_DIMS_MAX || (*end != '\0' && *end != 'x')) {
            return exg_error_fix(err, EXG_FAIL(err, USAGE, "PLC-008", "--mesh '%s'", text),
                                 "write the ranks along each dim, 4 or 2x2, %lu in all at most",
                                 most);
        }
        mesh->sizes[mesh->ndim++] = (uint32_t)n;
        at = end + (*end == 'x');
    } while (at[-1] == 'x');
    return EXG_OK;
}

/* One for all mesh dims, or one each with commas between. */
static exg_status read_places(const char *text, uint32_t ndim, cli_placement *placement,
                              exg_place_options *options, exg_error *err)
{
    const char *at = text;
    uint32_t count = 0;

    do {
        size_t length = strcspn(at, ",");
        char *word = exg_arena_strndup(placement->arena, at, length);
        exg_place_mode mode = EXG_PLACE_REPLICATE;

        if (word == NULL) {
            return EXG_OUT_OF_MEMORY(err);
        }
        if (count == ndim) {
            return EXG_FAIL(err, USAGE, "PLC-008", "--place '%s' on a mesh of %u dims", text, ndim);
        }
        while (mode <= EXG_PLACE_AUTO && strcmp(word, exg_place_mode_name(mode)) != 0) {
            mode++;
        }
        options[count].mode = mode;
        if (mode > EXG_PLACE_AUTO) {
            EXG_TRY(read_pattern_file(word, placement, &options[count], err));
        }
        count++;
        at += length;
    } while (*at++ == ',');
    for (uint32_t d = count; d < ndim; d++) {
        options[d] = options[0];
    }
    return count == 1 || count == ndim
               ? EXG_OK
               : EXG_FAIL(err, USAGE, "PLC-008", "--place '%s' on a mesh of %u dims", text, ndim);
}

void cli_put_modes(FILE *out, const cli_call *call, const exg_place_summary *place)
{
    exg_mesh_shape mesh = {0};

    (void)read_mesh(call->mesh == NULL ? "1" : call->mesh, PLANNED_MAX, &mesh, NULL);
    for (uint32_t d = 0; d < mesh.ndim; d++) {
        fprintf(out, "%s%s", d > 0 ? "," : "", exg_place_mode_name(place->modes[d]));
    }
}

exg_status cli_session_options(const cli_call *call, exg_session_options *options,
                               cli_placement *placement, exg_error *err)
{
    memset(options, 0, sizeof(*options));
    memset(placement, 0, sizeof(*placement));
    options->size = sizeof(*options);
    options->device = call->device;
    options->no_check = call->no_check;
    options->ignore_guards = call->ignore_guards;
    options->thread_count = call->has_threads ? (uint32_t)call->threads : 0;
    options->seed = call->has_seed && call->seed >= 0 ? (uint64_t)call->seed : 0;
    placement->arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    options->loop_limit = call->has_loop_limit ? (uint64_t)call->loop_limit : 0;
    options->timeout_ns = call->has_timeout ? (uint64_t)(fmin(call->timeout, 1e9) * 1e9) : 0;
    if (call->has_work_limit && !(call->work_limit > 0)) {
        return EXG_FAIL(err, USAGE, "CLI-001", "--work-limit %g allows nothing", call->work_limit);
    }
    options->work_limit = call->has_work_limit ? call->work_limit : 0;
    if (call->has_time_limit) {
        if (!(call->time_limit > 0 && call->time_limit < 1e9)) {
            return EXG_FAIL(err, USAGE, "CLI-001", "--time-limit %g is no time from 0 to 1e9 s",
                            call->time_limit);
        }
        options->time_limit_ns = (uint64_t)(call->time_limit * 1e9) + 1;
    }
    if (placement->arena == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    if (call->has_timeout && options->timeout_ns == 0) {
        return EXG_FAIL(err, USAGE, "CLI-001", "--timeout is a time above 0");
    }
    options->processes = cli_process_count() > 1;
    if (call->mesh != NULL) {
        bool runs = strcmp(call->command, "run") == 0;

        EXG_TRY(read_mesh(call->mesh, runs ? CLI_THREADS_MAX : PLANNED_MAX, &options->mesh, err));
    } else {
        options->mesh = (exg_mesh_shape){1, {cli_process_count()}};
    }
    for (uint32_t d = 0; d < EXG_MESH_DIMS_MAX; d++) {
        options->place[d] = (exg_place_options){.size = sizeof(options->place[d]),
                                                .mode = call->mesh == NULL && !options->processes
                                                            ? EXG_PLACE_REPLICATE
                                                            : EXG_PLACE_AUTO};
    }
    options->goal = (exg_place_goal){.size = sizeof(options->goal)};
    if (call->costs != NULL) {
        EXG_TRY(cli_costs_read(call->costs, &placement->costs, err));
        options->goal.costs = &placement->costs;
    }
    if (call->memory_limit != NULL) {
        EXG_TRY(cli_size("--memory-limit", call->memory_limit, &options->goal.memory_limit, err));
    }
    return call->place == NULL
               ? EXG_OK
               : read_places(call->place, options->mesh.ndim, placement, options->place, err);
}

void cli_placement_free(cli_placement *placement)
{
    exg_arena_destroy(placement->arena);
}
