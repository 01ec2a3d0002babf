/* placement.c - --mesh, --place, --threads and --seed. */
#include "cli/cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PLANNED_MAX 65536 /* ranks, of a mesh that is not run on */
#define SHARDS_MAX  1024  /* files of ranks */

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
                              exg_partition_options *options, exg_error *err)
{
    const char *at = text;
    uint32_t count = 0;

    do {
        size_t length = strcspn(at, ",");
        char *word = exg_arena_strndup(placement->arena, at, length);
        exg_partition_mode mode = EXG_PARTITION_REPLICATE;
        exg_status status;

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
            status = exg_partition_options_open(word, placement->arena, &options[count], err);
            if (status != EXG_OK) {
                return status != EXG_IO ? status
                                        : exg_error_fix(err, status,
                                                        "--place takes replicate, data, tensor, "
                                                        "fsdp, sequence, auto or a JSON file");
            }
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

void cli_put_modes(exg_text *text, const cli_call *call, const exg_partition_summary *place)
{
    exg_mesh_shape mesh = {0};

    (void)read_mesh(call->mesh == NULL ? "1" : call->mesh, PLANNED_MAX, &mesh, NULL);
    for (uint32_t d = 0; d < mesh.ndim; d++) {
        exg_text_printf(text, "%s%s", d > 0 ? "," : "", exg_partition_mode_name(place->modes[d]));
    }
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
    if (call->mesh != NULL) {
        bool runs = strcmp(call->command, "run") == 0;

        EXG_TRY(read_mesh(call->mesh, runs ? CLI_THREADS_MAX : PLANNED_MAX, &options->mesh, err));
    } else if (call->shard != NULL) {
        EXG_TRY(read_mesh(call->shard, SHARDS_MAX, &options->mesh, err));
    } else {
        options->mesh = (exg_mesh_shape){1, {cli_process_count()}};
    }
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
    if (call->costs != NULL) {
        EXG_TRY(exg_costs_open(call->costs, &placement->costs, err));
        placement->goal.costs = &placement->costs;
    }
    if (call->memory_limit != NULL) {
        EXG_TRY(cli_size("--memory-limit", call->memory_limit, &placement->goal.memory_limit, err));
    }
    return call->place == NULL
               ? EXG_OK
               : read_places(call->place, options->mesh.ndim, placement, placement->place, err);
}

void cli_placement_free(cli_placement *placement)
{
    exg_arena_destroy(placement->arena);
}
