/* placement.c - --mesh, --place, --threads and --seed. */
#include "cli/cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PLANNED_MAX 65536 /* ranks, of a mesh that is not run on */
#define SHARDS_MAX  1024  /* files of ranks */

/* "4", "2x3" */
static exg_status read_mesh(const char *option, const char *text, unsigned long most,
                            exg_mesh_shape *mesh, exg_error *err)
{
    const char *at = text;
    unsigned long ranks = 1;

    do {
        char *end;
        unsigned long n = strtoul(at, &end, 10);

        ranks *= n;
        if (*at < '0' || *at > '9' || n < 1 || n > most || ranks > most ||
            mesh->ndim == EXG_MESH_DIMS_MAX || (*end != '\0' && *end != 'x')) {
            return exg_error_fix(err, EXG_FAIL(err, USAGE, "PLC-008", "%s '%s'", option, text),
                                 "write the ranks along each dim, 4 or 2x2, %lu in all at most",
                                 most);
        }
        mesh->sizes[mesh->ndim++] = (uint32_t)n;
        at = end + (*end == 'x');
    } while (at[-1] == 'x');
    return EXG_OK;
}

exg_status cli_mesh(const cli_call *call, exg_mesh_shape *mesh, exg_error *err)
{
    bool runs = strcmp(call->command, "run") == 0 || strcmp(call->command, "compare") == 0 ||
                strcmp(call->command, "bench") == 0;

    *mesh = (exg_mesh_shape){0};
    if (call->mesh != NULL) {
        return read_mesh("--mesh", call->mesh, runs ? CLI_THREADS_MAX : PLANNED_MAX, mesh, err);
    }
    *mesh = (exg_mesh_shape){1, {cli_process_count()}};
    return EXG_OK;
}

/* "tp=1", "all=0,1" */
static exg_status read_group(const char *text, exg_arena *arena, exg_process_group *group,
                             exg_error *err)
{
    const char *equals = strrchr(text, '=');
    const char *at = equals == NULL ? "" : equals + 1;
    uint32_t *dims = EXG_NEW_ARRAY(arena, uint32_t, strlen(text) + 1);

    group->name = equals == NULL ? text : exg_arena_strndup(arena, text, (size_t)(equals - text));
    group->dims = dims;
    if (group->name == NULL || dims == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    do {
        char *end;
        unsigned long dim = strtoul(at, &end, 10);

        if (*at < '0' || *at > '9' || dim >= EXG_MESH_DIMS_MAX || (*end != '\0' && *end != ',')) {
            return exg_error_fix(err, EXG_FAIL(err, USAGE, "COM-014", "--group '%s'", text),
                                 "write the group's name, =, and dims of the mesh with commas "
                                 "between: tp=1");
        }
        dims[group->dim_count++] = (uint32_t)dim;
        at = end + (*end == ',');
    } while (at[-1] == ',');
    return EXG_OK;
}

exg_status cli_parallel_options(const cli_call *call, exg_session_options *options,
                                cli_placement *placement, exg_error *err)
{
    for (uint32_t d = 0; call->place != NULL && d < options->mesh.ndim; d++) {
        if (placement->place[d].mode != EXG_PARTITION_REPLICATE) {
            return exg_error_fix(err,
                                 EXG_FAIL(err, UNSUPPORTED, "COM-015",
                                          "--place %s: the program is already parallel, it is not "
                                          "placed",
                                          call->place),
                                 "leave --place out, or export the program of one rank");
        }
    }
    options->partition = NULL;
    return EXG_OK;
}

/* Where no file has the name of a mode that is mistyped. */
static bool is_place_file(const char *word)
{
    const size_t length = strlen(word);

    return strchr(word, '/') != NULL || (length > 5 && strcmp(word + length - 5, ".json") == 0) ||
           access(word, F_OK) == 0;
}

static exg_status no_place(const char *word, exg_error *err)
{
    const exg_status status = EXG_FAIL(err, USAGE, "CLI-001", "no placement '%s'", word);
    cli_nearest nearest;

    cli_nearest_begin(&nearest, word);
    for (int m = 0; m <= EXG_PARTITION_AUTO; m++) {
        cli_nearest_offer(&nearest, exg_partition_mode_name((exg_partition_mode)m));
    }
    return nearest.name != NULL
               ? exg_error_fix(err, status, "did you mean %s?", nearest.name)
               : exg_error_fix(err, status,
                               "--place takes replicate, data, tensor, fsdp, sequence, expert, "
                               "context, pipeline, auto or a JSON file");
}

/* One for all mesh dims, or one each with commas between. */
static exg_status read_places(const char *text, uint32_t ndim, cli_placement *placement,
                              exg_partition_options *options, exg_error *err)
{
    const char *at = text;
    uint32_t count = 0;

    do {
        size_t length = strcspn(at, ",");
        char *word = exg_arena_strndup(placement->arena, at, length);
        exg_partition_mode mode = EXG_PARTITION_REPLICATE;

        if (word == NULL) {
            return EXG_OUT_OF_MEMORY(err);
        }
        if (count == ndim) {
            return EXG_FAIL(err, USAGE, "PLC-008", "--place '%s' on a mesh of %u dims", text, ndim);
        }
        while (mode <= EXG_PARTITION_AUTO && strcmp(word, exg_partition_mode_name(mode)) != 0) {
            mode++;
        }
        options[count].mode = mode;
        if (mode > EXG_PARTITION_AUTO) {
            EXG_TRY(is_place_file(word) ? EXG_OK : no_place(word, err));
            EXG_TRY(exg_partition_options_open(word, count, ndim, placement->arena, &options[count],
                                               err));
        }
        count++;
        at += length;
    } while (*at++ == ',');
    for (uint32_t d = count; count == 1 && d < ndim; d++) {
        options[d] = options[0];
        if (options[0].mode == EXG_PARTITION_PATTERNS) { /* it may say so dim by dim */
            EXG_TRY(exg_partition_options_open(text, d, ndim, placement->arena, &options[d], err));
        }
    }
    return count == 1 || count == ndim
               ? EXG_OK
               : EXG_FAIL(err, USAGE, "PLC-008", "--place '%s' on a mesh of %u dims", text, ndim);
}

/* The stages of a rank. */
static exg_status read_schedule(const char *text, uint32_t *stages, exg_error *err)
{
    size_t length = strcspn(text, ":");
    char *end = NULL;
    unsigned long count = text[length] == ':' ? strtoul(text + length + 1, &end, 10) : 2;
    bool is_interleaved =
        length == strlen("interleaved") && strncmp(text, "interleaved", length) == 0 &&
        (end == NULL || (*end == '\0' && text[length + 1] != '-')) && count >= 2 && count <= 64;

    *stages = is_interleaved ? (uint32_t)count : 1;
    return is_interleaved || strcmp(text, "gpipe") == 0 || strcmp(text, "1f1b") == 0
               ? EXG_OK
               : EXG_FAIL(
                     err, USAGE, "CLI-001",
                     "--schedule '%s' is not gpipe, 1f1b, interleaved or interleaved:N, N from "
                     "2 to 64",
                     text);
}

/* --microbatches and --schedule are of the dim that is a pipeline. */
static exg_status read_pipeline(const cli_call *call, uint32_t ndim, cli_placement *placement,
                                exg_error *err)
{
    uint32_t stages = 0;

    if (call->schedule != NULL) {
        EXG_TRY(read_schedule(call->schedule, &stages, err));
    }
    for (uint32_t d = 0; d < ndim; d++) {
        if (placement->place[d].mode == EXG_PARTITION_PIPELINE ||
            placement->place[d].mode == EXG_PARTITION_AUTO) {
            placement->place[d].microbatches =
                call->has_microbatches ? (uint32_t)call->microbatches : 0;
            placement->place[d].stages_per_rank = stages;
        }
    }
    return EXG_OK;
}

void cli_put_modes(exg_text *text, const cli_call *call, const exg_partition_summary *place)
{
    exg_mesh_shape mesh = {0};

    (void)read_mesh("--mesh", call->mesh == NULL ? "1" : call->mesh, PLANNED_MAX, &mesh, NULL);
    for (uint32_t d = 0; d < mesh.ndim; d++) {
        exg_text_printf(text, "%s%s", d > 0 ? "," : "", exg_partition_mode_name(place->modes[d]));
    }
}

void cli_note_unsplit(exg_session *session)
{
    const exg_session_stats *stats = exg_session_statistics(session);
    bool whole = stats->plan_count == 1 && exg_session_break_reason(session) == NULL;
    exg_text text = EXG_TEXT_EMPTY;

    for (uint32_t d = 0; whole && stats->partition != NULL && d < EXG_MESH_DIMS_MAX; d++) {
        if (stats->partition->unsplit[d] != NULL) {
            exg_text_printf(&text, "warning: %s splits nothing along mesh dim %u: %s\n",
                            exg_partition_mode_name(stats->partition->modes[d]), d,
                            stats->partition->unsplit[d]);
        }
    }
    if (cli_process_rank() == 0) {
        cli_note(&text);
    }
    exg_text_free(&text);
}

/* A table that is installed, by its name, or a file. */
static exg_status read_costs(const char *name, cli_placement *placement, exg_error *err)
{
    exg_text fix = EXG_TEXT_EMPTY;
    const char *path;
    exg_status status;

    EXG_TRY(cli_find_installed("costs", ".json", name, placement->arena, &path, err));
    placement->goal.costs = &placement->costs;
    status = exg_costs_open(path == NULL ? name : path, &placement->costs, err);
    if (status == EXG_IO) {
        exg_text_puts(&fix, "give a FILE.json, or the name of a table that is installed: ");
        cli_put_installed(&fix, "costs", ".json");
        (void)exg_error_fix(err, status, "%s", fix.failed ? "" : exg_text_string(&fix));
    }
    exg_text_free(&fix);
    return status;
}

exg_status cli_session_options(const cli_call *call, exg_session_options *options,
                               cli_placement *placement, exg_error *err)
{
    memset(options, 0, sizeof(*options));
    memset(placement, 0, sizeof(*placement));
    options->size = sizeof(*options);
    placement->costs.size = sizeof(placement->costs);
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
            return EXG_FAIL(err, USAGE, "CLI-001", "--time-limit %g is not a time from 0 to 1e9 s",
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
    EXG_TRY(call->shard != NULL ? read_mesh("--shard", call->shard, SHARDS_MAX, &options->mesh, err)
                                : cli_mesh(call, &options->mesh, err));
    placement->groups = EXG_NEW_ARRAY(placement->arena, exg_process_group, call->groups.count);
    if (placement->groups == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t i = 0; i < call->groups.count; i++) {
        EXG_TRY(read_group(call->groups.items[i], placement->arena, &placement->groups[i], err));
    }
    options->groups = placement->groups;
    options->group_count = call->groups.count;
    for (uint32_t d = 0; d < EXG_MESH_DIMS_MAX; d++) {
        placement->place[d] = (exg_partition_options){
            .size = sizeof(placement->place[d]),
            .mode = call->shard != NULL                         ? EXG_PARTITION_TENSOR
                    : call->mesh == NULL && !options->processes ? EXG_PARTITION_REPLICATE
                                                                : EXG_PARTITION_AUTO};
    }
    placement->goal = (exg_partition_goal){.size = sizeof(placement->goal)};
    options->partition = placement->place;
    options->goal = &placement->goal;
    EXG_TRY(call->costs == NULL ? EXG_OK : read_costs(call->costs, placement, err));
    if (call->memory_limit != NULL) {
        EXG_TRY(cli_size("--memory-limit", call->memory_limit, &placement->goal.memory_limit, err));
    }
    if (call->place != NULL) {
        EXG_TRY(read_places(call->place, options->mesh.ndim, placement, placement->place, err));
    }
    return read_pipeline(call, options->mesh.ndim, placement, err);
}

void cli_placement_free(cli_placement *placement)
{
    exg_arena_destroy(placement->arena);
}
