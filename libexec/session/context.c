/* context.c - what a session runs on: threads, ranks in their grid, devices. */
#include "libexec/session/context.h"
#include "libexec/device/device.h"
#include "libexec/sharding/shard_pattern.h"
#include "libexport/base/arena.h"
#include "libexport/base/options.h"

#include <exg/transform.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXG_SESSION_RANKS_MAX 64

/* A grid on paper, the threads of all ranks, or this process's place among others. */
static exg_status create_grids(exg_session_context *e, exg_error *err)
{
    uint64_t deadline = e->options.timeout_ns / 2;

    if (e->options.plan_only) {
        return exg_paper_grid(&e->mesh, 0, !e->options.processes, &e->grids[0], err);
    }
    if (e->options.processes) {
        EXG_TRY(exg_mpi_grid(&e->mesh, deadline, e->grids, &e->first_rank, err));
        exg_grid_watch(&e->grids[0], &e->stop);
        return EXG_OK;
    }
    EXG_TRY(exg_local_grid(&e->mesh, e->grids, err));
    for (uint32_t r = 0; deadline > 0 && r < e->rank_count; r++) {
        exg_grid_set_deadline(&e->grids[r], deadline);
    }
    return deadline > 0 ? exg_team_create_watched(e->rank_count, &e->team, err)
                        : exg_team_create(e->rank_count, &e->team, err);
}

static exg_status count_ranks(const exg_mesh_shape *mesh, uint32_t most, uint32_t *count,
                              exg_error *err)
{
    uint64_t size = 1;

    if (mesh->ndim > EXG_MESH_DIMS_MAX) {
        return EXG_FAIL(err, USAGE, "DTN-001", "a mesh of %u dims; 1 to %d", mesh->ndim,
                        EXG_MESH_DIMS_MAX);
    }
    for (uint32_t d = 0; d < mesh->ndim; d++) {
        size *= mesh->sizes[d];
        if (size == 0 || size > most) {
            return EXG_FAIL(err, LIMIT, "COM-004", "a mesh of %" PRIu64 " ranks%s; 1 to %u", size,
                            d + 1 < mesh->ndim ? " and more" : "", most);
        }
    }
    *count = (uint32_t)size;
    return EXG_OK;
}

/* The parts of the options, where their mesh is one. What they point to is the caller's. */
static exg_status read_parts(exg_session_context *e, exg_error *err)
{
    exg_session_options *options = &e->options;

    EXG_TRY_IN(err, EXG_READ_OPTIONS(exg_plan_options, &e->plan, options->plan, err), "plan");
    EXG_TRY_IN(err, EXG_CHECK_CHOICE(e->plan.overlap, EXG_OVERLAP_OFF, "overlap", err), "plan");
    EXG_TRY(exg_partitioning_read(&e->partitioning, options->partition, options->goal,
                                  &options->mesh, err));
    options->plan = NULL;
    options->partition = NULL;
    options->goal = NULL;
    return EXG_OK;
}

static exg_status create_ranks(exg_session_context *e, exg_arena *arena, exg_error *err)
{
    bool is_one = e->options.processes || e->options.plan_only || e->is_spmd;
    uint32_t size = 0;

    EXG_TRY(count_ranks(&e->mesh, is_one ? UINT32_MAX : EXG_SESSION_RANKS_MAX, &size, err));
    EXG_TRY(read_parts(e, err));
    e->rank_count = is_one ? 1 : size;
    e->outcomes = EXG_NEW_ARRAY(arena, exg_outcome, e->rank_count);
    if (e->outcomes == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    if (size == 1 || (!e->options.processes && !e->options.plan_only)) {
        EXG_TRY(exg_pool_create(e->options.thread_count, &e->pool, err));
    }
    if (size == 1 && e->grids == NULL) {
        return EXG_OK;
    }
    EXG_TRY(exg_pool_create(1, &e->alone, err));
    exg_pool_watch(e->alone, &e->stop);
    if (e->is_spmd) {
        exg_grid_watch(e->grids, &e->stop);
        return EXG_OK;
    }
    e->grids = EXG_NEW_ARRAY(arena, exg_grid, e->rank_count);
    return e->grids == NULL ? EXG_OUT_OF_MEMORY(err) : create_grids(e, err);
}

/* "NAME" or "NAME:INDEX". */
static exg_status read_device(const char *text, char *name, size_t size, uint32_t *index,
                              exg_error *err)
{
    size_t length = strcspn(text, ":");
    char *end = NULL;
    unsigned long number = text[length] == ':' ? strtoul(text + length + 1, &end, 10) : 0;

    if (length >= size || number > 1024 || (end != NULL && (*end != '\0' || end[-1] == ':'))) {
        return EXG_FAIL(err, USAGE, "DEV-001", "no device '%s'", text);
    }
    memcpy(name, text, length);
    name[length] = '\0';
    *index = (uint32_t)number;
    return EXG_OK;
}

static exg_status open_devices(exg_session_context *e, exg_arena *arena, exg_error *err)
{
    const exg_device_table *table;
    char name[16];
    uint32_t first = 0;
    uint32_t count;

    if (e->options.device == NULL || strcmp(e->options.device, exg_device_kind(0)) == 0) {
        return EXG_OK;
    }
    EXG_TRY(read_device(e->options.device, name, sizeof(name), &first, err));
    EXG_TRY(exg_device_table_find(name, &table, err));
    EXG_TRY(table->count(&count, err));
    if (first >= count) {
        return EXG_FAIL(err, USAGE, "DEV-001", "no device '%s': %s has %u", e->options.device, name,
                        count);
    }
    e->devices = EXG_NEW_ARRAY(arena, exg_accelerator *, e->rank_count);
    if (e->devices == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t r = 0; r < e->rank_count; r++) {
        uint32_t index = (first + e->first_rank + r) % count;

        EXG_TRY_IN(err, table->open(index, &e->devices[r], err), "%s:%u", name, index);
    }
    return EXG_OK;
}

static void join_rank(void *context, uint32_t r)
{
    exg_session_context *e = context;
    char unused[EXG_THROUGH_TEXT];

    exg_error_clear(&e->outcomes[r].error);
    e->outcomes[r].status = exg_grid_join(&e->grids[r], e->devices[r], r == 0 ? e->through : unused,
                                          &e->outcomes[r].error);
}

static void leave_rank(void *context, uint32_t r)
{
    exg_grid_leave(&((exg_session_context *)context)->grids[r]);
}

static void by_each_rank(exg_session_context *e, void (*work)(void *context, uint32_t rank))
{
    if (e->team == NULL) {
        work(e, 0);
    } else {
        exg_team_run(e->team, work, e);
    }
}

/* So that collectives go from device to device, where they can. */
static exg_status join_devices(exg_session_context *e, exg_error *err)
{
    if (e->devices == NULL || e->grids == NULL) {
        return EXG_OK;
    }
    if (e->options.plan_only) { /* nobody is there to be joined with */
        snprintf(e->through, sizeof(e->through), "the host%s",
                 e->devices[0]->table->join == NULL
                     ? ""
                     : ", as far as is planned here; where a run joins its devices, the devices");
        return EXG_OK;
    }
    by_each_rank(e, join_rank);
    return exg_outcome_of(e, err);
}

static void close_devices(exg_session_context *e)
{
    if (e->devices != NULL && e->grids != NULL && !e->options.plan_only) {
        by_each_rank(e, leave_rank);
    }
    for (uint32_t r = 0; e->devices != NULL && r < e->rank_count; r++) {
        if (e->devices[r] != NULL) {
            e->devices[r]->table->close(e->devices[r]);
        }
    }
}

static exg_status check_allocator(const exg_session_context *context, exg_error *err)
{
    bool is_one = context->devices != NULL && context->rank_count == 1;

    return context->options.device_allocator == NULL ||
                   (is_one && context->devices[0]->table->follow != NULL)
               ? EXG_OK
               : EXG_FAIL(err, USAGE, "MEM-005",
                          "device_allocator is for a session on one GPU (device \"cuda\")");
}

exg_status exg_session_context_open(exg_session_context *context, exg_arena *arena, exg_error *err)
{
    EXG_TRY(create_ranks(context, arena, err));
    EXG_TRY(open_devices(context, arena, err));
    EXG_TRY(check_allocator(context, err));
    return join_devices(context, err);
}

/* The mesh of a program that is already parallel, or of a rank among others. */
static exg_status mesh_of_rank(const exg_session_options *options, exg_mesh_shape *mesh,
                               exg_error *err)
{
    uint32_t ranks;
    bool is_several;

    EXG_TRY(count_ranks(&options->mesh, UINT32_MAX, &ranks, err));
    is_several = options->processes || ranks > 1;
    *mesh = options->mesh;
    if (options->has_plan_rank && (!options->plan_only || options->plan_rank >= ranks)) {
        return EXG_FAIL(err, USAGE, "COM-016", "rank %u of a mesh of %u", options->plan_rank,
                        ranks);
    }
    if (options->device_mesh == NULL) {
        return options->plan_only || !is_several
                   ? EXG_OK
                   : exg_error_fix(err,
                                   EXG_FAIL(err, UNSUPPORTED, "COM-015",
                                            "the program is already parallel: it is not placed, "
                                            "and each rank has a session of its own"),
                                   "give exg_session_options.device_mesh, not mesh");
    }
    if (mesh->ndim > 0 || options->partition != NULL || options->processes) {
        return EXG_FAIL(err, USAGE, "COM-015", "a session on a device mesh places nothing");
    }
    mesh->ndim = exg_device_mesh_ndim(options->device_mesh);
    for (uint32_t d = 0; d < mesh->ndim; d++) {
        mesh->sizes[d] = exg_device_mesh_dim_size(options->device_mesh, d);
    }
    return EXG_OK;
}

exg_status exg_session_context_take_groups(exg_session_context *context,
                                           const exg_verified *verified, exg_error *err)
{
    exg_session_options *options = &context->options;
    exg_device_mesh *ranks = options->device_mesh;
    exg_mesh_shape mesh;

    context->is_spmd = ranks != NULL || options->has_plan_rank ||
                       exg_program_has_collectives(verified->program, verified->operators);
    if (!context->is_spmd) {
        return options->group_count == 0
                   ? EXG_OK
                   : EXG_FAIL(err, USAGE, "COM-014",
                              "no collective of the program is of group '%s'",
                              options->groups[0].name == NULL ? "" : options->groups[0].name);
    }
    EXG_TRY(mesh_of_rank(options, &mesh, err));
    for (uint32_t d = 0; d < mesh.ndim && options->partition != NULL; d++) {
        if (options->partition[d].mode != EXG_PARTITION_REPLICATE) {
            return EXG_FAIL(err, UNSUPPORTED, "COM-015",
                            "the program is already parallel: it is not placed");
        }
    }
    context->groups.used = calloc(options->group_count + 1, sizeof(*context->groups.used));
    if (context->groups.used == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    options->mesh = context->mesh = (exg_mesh_shape){0};
    options->partition = NULL;
    return exg_process_groups_read(&context->groups, options, &mesh,
                                   ranks == NULL ? options->plan_rank : exg_device_mesh_rank(ranks),
                                   err);
}

/* One that is not at its end ends the run: the others wait for what it would have sent. */
exg_status exg_session_context_leave(const exg_session_context *context, bool is_at_end,
                                     exg_status status, exg_error *err)
{
    const exg_grid *grid = context->grids;

    if (exg_grid_status(grid, NULL) == EXG_OK &&
        (status == EXG_OK || (status == EXG_MALFORMED && is_at_end))) {
        return exg_grid_agree(grid, NULL, 0, status, err);
    }
    exg_grid_abort(grid, status == EXG_OK ? EXG_PEER : status);
    return status == EXG_OK     ? exg_grid_status(grid, err)
           : status == EXG_PEER ? status /* which says it itself */
                                : exg_error_within(err, status, "rank %u", grid->rank);
}

exg_status exg_session_context_meet(exg_session_context *context, exg_status status, exg_error *err)
{
    exg_session_context *e = context;
    exg_device_mesh *mesh = e->options.device_mesh;

    e->rank_count = 1;
    if (exg_mesh_shape_size(&e->groups.mesh) == 1) {
        return status == EXG_OK ? exg_process_groups_check_used(&e->groups, err) : status;
    }
    if (mesh == NULL) { /* it is only planned */
        EXG_TRY(status);
        EXG_TRY(exg_process_groups_check_used(&e->groups, err));
        EXG_TRY(
            exg_paper_grid(&e->groups.mesh, e->groups.rank, !e->options.processes, &e->grid, err));
        e->grids = &e->grid;
        return exg_paper_lines(&e->groups.mesh, e->groups.lines, e->groups.line_count,
                               !e->options.processes, &e->grid, err);
    }
    if (e->options.timeout_ns > 0) {
        exg_device_mesh_set_deadline(mesh, e->options.timeout_ns / 2);
    }
    EXG_TRY(exg_process_groups_meet(&e->groups, mesh, status, &e->grid, err));
    e->grids = &e->grid;
    e->first_rank = e->groups.rank;
    if (e->options.timeout_ns > 0) {
        exg_grid_set_deadline(&e->grid, e->options.timeout_ns / 2);
    }
    return EXG_OK;
}

void exg_session_context_close(exg_session_context *context)
{
    close_devices(context);
    exg_team_destroy(context->team);
    for (uint32_t r = 0; context->grids != NULL && r < context->rank_count; r++) {
        exg_grid_close(&context->grids[r]);
    }
    exg_pool_destroy(context->pool);
    exg_pool_destroy(context->alone);
    free(context->groups.used);
}

/* How far an outcome is from being the cause: a rank's own fault, what it says of another,
 * the news that there is one. */
static int distance(const exg_outcome *out)
{
    return out->status == EXG_OK                     ? 3
           : out->status != EXG_PEER                 ? 0
           : strcmp(out->error.code, "COM-003") == 0 ? 2
                                                     : 1;
}

exg_status exg_outcome_of(const exg_session_context *context, exg_error *err)
{
    const exg_outcome *first = &context->outcomes[0];

    for (uint32_t r = 1; r < context->rank_count; r++) {
        first = distance(&context->outcomes[r]) < distance(first) ? &context->outcomes[r] : first;
    }
    if (first->status != EXG_OK && err != NULL) {
        *err = first->error;
    }
    return first->status;
}
