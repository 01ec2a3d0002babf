/* process_groups.c - names of groups, the dims of the mesh they lie along, and the meeting of the
 * ranks where their sessions are made. */
#include "libexec/session/process_groups.h"
#include "libexec/comm/collectives.h"
#include "libexec/dtensor/mesh.h"
#include "libexec/plan/plan_internal.h"
#include "libexport/transform/process_groups.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define FIX                                                                                        \
    "--group NAME=DIMS, exg_session_options.groups: NAME as exg inspect shows it, DIMS of --mesh"

/* ---- reading --------------------------------------------------------------------------- */

static exg_mesh_line whole(const exg_mesh_shape *mesh)
{
    return (1u << mesh->ndim) - 1;
}

/* Where the line is in a grid: a dim of the mesh, or beyond them; it is added. */
static exg_status place_line(exg_process_groups *g, exg_mesh_line line, uint32_t *at,
                             exg_error *err)
{
    for (uint32_t d = 0; d < g->mesh.ndim; d++) {
        if (line == 1u << d) {
            *at = d;
            return EXG_OK;
        }
    }
    for (uint32_t i = 0; i < g->line_count; i++) {
        if (line == g->lines[i]) {
            *at = g->mesh.ndim + i;
            return EXG_OK;
        }
    }
    if (g->mesh.ndim + g->line_count == EXG_GRID_LINES_MAX) {
        return EXG_FAIL(err, USAGE, "COM-014", "groups lie along more than %d sets of dims",
                        EXG_GRID_LINES_MAX);
    }
    *at = g->mesh.ndim + g->line_count;
    g->lines[g->line_count++] = line;
    return EXG_OK;
}

static exg_status line_of(const exg_process_groups *g, const exg_process_group *named,
                          exg_mesh_line *line, exg_error *err)
{
    *line = 0;
    for (uint32_t k = 0; k < named->dim_count; k++) {
        if (named->dims[k] >= g->mesh.ndim || (*line >> named->dims[k]) != 0) {
            return exg_error_fix(err,
                                 EXG_FAIL(err, USAGE, "COM-014",
                                          "the dims of group '%s' ascend and are below %u",
                                          named->name, g->mesh.ndim),
                                 FIX);
        }
        *line |= 1u << named->dims[k];
    }
    return named->dim_count > 0
               ? EXG_OK
               : exg_error_fix(
                     err,
                     EXG_FAIL(err, USAGE, "COM-014", "group '%s' lies along no dim", named->name),
                     FIX);
}

exg_status exg_process_groups_read(exg_process_groups *groups, const exg_session_options *options,
                                   const exg_mesh_shape *mesh, uint32_t rank, exg_error *err)
{
    uint32_t at;

    *groups = (exg_process_groups){.mesh = *mesh,
                                   .rank = rank,
                                   .named = options->groups,
                                   .named_count = options->group_count,
                                   .used = groups->used};
    for (uint32_t i = 0; i < options->group_count; i++) {
        const exg_process_group *named = &options->groups[i];
        exg_mesh_line line;

        for (uint32_t k = 0; named->name != NULL && k < i; k++) {
            if (strcmp(options->groups[k].name, named->name) == 0) {
                return EXG_FAIL(err, USAGE, "COM-014", "group '%s' is given twice", named->name);
            }
        }
        if (named->name == NULL || named->name[0] == '\0') {
            return exg_error_fix(err, EXG_FAIL(err, USAGE, "COM-014", "group %u has no name", i),
                                 FIX);
        }
        EXG_TRY(line_of(groups, named, &line, err));
        EXG_TRY(place_line(groups, line, &at, err));
    }
    return mesh->ndim < 2 ? EXG_OK : place_line(groups, whole(mesh), &at, err);
}

/* ---- binding --------------------------------------------------------------------------- */

/* What the rank asks of a line, after all before it. */
static void note_call(exg_process_groups *g, uint32_t line, const exg_collective_node *call)
{
    const exg_node *node = call->node;
    uint64_t digest = XXH3_64bits_withSeed(node->target, strlen(node->target), g->digests[line]);

    for (uint32_t i = 0; i < node->input_count; i++) {
        const exg_argument *arg = &node->inputs[i].arg;

        if (arg->kind == EXG_ARGUMENT_STRING && arg->as_string != call->group_name) {
            digest = XXH3_64bits_withSeed(arg->as_string, strlen(arg->as_string), digest);
        } else if (arg->kind == EXG_ARGUMENT_INT) {
            digest = XXH3_64bits_withSeed(&arg->as_int, sizeof(arg->as_int), digest);
        } else if (arg->kind == EXG_ARGUMENT_TENSOR &&
                   call->graph->values[arg->as_tensor].tensor != NULL) {
            uint32_t dtype = (uint32_t)call->graph->values[arg->as_tensor].tensor->dtype;

            digest = XXH3_64bits_withSeed(&dtype, sizeof(dtype), digest);
        }
    }
    g->digests[line] = digest;
}

static exg_status without_name(exg_process_groups *g, const char *name, exg_error *err)
{
    uint32_t long_dims = 0;

    for (uint32_t d = 0; d < g->mesh.ndim; d++) {
        long_dims += g->mesh.sizes[d] > 1;
    }
    if (g->unnamed != NULL && strcmp(g->unnamed, name) != 0 && long_dims > 1) {
        return exg_error_fix(err,
                             EXG_FAIL(err, USAGE, "COM-014",
                                      "along which dims of the mesh do the groups '%s' and '%s' "
                                      "lie?",
                                      g->unnamed, name),
                             FIX);
    }
    g->unnamed = name;
    g->unnamed_digest = XXH3_64bits_withSeed(name, strlen(name), g->unnamed_digest);
    return EXG_OK;
}

/* The line whose ranks these are, for this rank. */
static exg_status line_of_ranks(const exg_process_groups *g, const exg_collective_node *call,
                                exg_mesh_line *line, exg_error *err)
{
    for (*line = 1; *line <= whole(&g->mesh); ++*line) {
        bool fits = exg_mesh_line_size(&g->mesh, *line) == call->rank_count;
        uint32_t at = 0;

        for (uint32_t r = 0; fits && r < exg_mesh_shape_size(&g->mesh); r++) {
            bool met = exg_mesh_line_rank(&g->mesh, whole(&g->mesh) & ~*line, r) ==
                       exg_mesh_line_rank(&g->mesh, whole(&g->mesh) & ~*line, g->rank);

            fits = !met || call->ranks[at++] == r;
        }
        if (fits) {
            return EXG_OK;
        }
    }
    return EXG_FAIL(err, UNSUPPORTED, "COM-013",
                    "%s is for %u ranks that are no line of the mesh through rank %u",
                    call->node->target, call->rank_count, g->rank);
}

static exg_status find(void *user, const exg_collective_node *call, exg_bound_group *group,
                       exg_error *err)
{
    exg_process_groups *g = user;
    exg_mesh_line line = whole(&g->mesh);
    uint32_t i = 0;

    while (call->group_name != NULL && i < g->named_count &&
           strcmp(g->named[i].name, call->group_name) != 0) {
        i++;
    }
    if (call->group_name == NULL && g->mesh.ndim > 0) {
        EXG_TRY(line_of_ranks(g, call, &line, err));
    } else if (call->group_name != NULL && i < g->named_count) {
        EXG_TRY(line_of(g, &g->named[i], &line, err));
        g->used[i] = true;
    } else if (call->group_name != NULL) {
        EXG_TRY(without_name(g, call->group_name, err));
    }
    *group = (exg_bound_group){.size = exg_mesh_line_size(&g->mesh, line)};
    if (g->mesh.ndim > 0) {
        EXG_TRY(place_line(g, line, &group->line, err));
        note_call(g, group->line, call);
    }
    return EXG_OK;
}

exg_status exg_process_groups_bind(exg_process_groups *groups, const exg_program *program,
                                   const exg_operators *operators, exg_program **bound,
                                   exg_error *err)
{
    return exg_program_bind_groups(program, operators, find, groups, bound, err);
}

/* ---- meeting --------------------------------------------------------------------------- */

exg_status exg_process_groups_check_used(const exg_process_groups *groups, exg_error *err)
{
    for (uint32_t i = 0; i < groups->named_count; i++) {
        if (!groups->used[i]) {
            return exg_error_fix(err,
                                 EXG_FAIL(err, USAGE, "COM-014",
                                          "no collective of the program is of group '%s'",
                                          groups->named[i].name),
                                 FIX);
        }
    }
    return EXG_OK;
}

/* A group may be that of other ranks' programs alone. */
static exg_status share_used(exg_process_groups *g, exg_device_mesh *mesh, exg_error *err)
{
    bool *all = calloc((size_t)mesh->size * g->named_count + 1, sizeof(*all));
    exg_status status = all == NULL ? EXG_NO_MEMORY : EXG_OK;

    if (status != EXG_OK) {
        exg_communicator_abort(mesh->communicator, status); /* the others would wait */
        return EXG_OUT_OF_MEMORY(err);
    }
    status = exg_mesh_gather(mesh, g->used, all, g->named_count * sizeof(*all), err);
    for (uint32_t i = 0; status == EXG_OK && i < mesh->size * g->named_count; i++) {
        g->used[i % g->named_count] = g->used[i % g->named_count] || all[i];
    }
    free(all);
    return status;
}

/* What all ranks must have alike before their lines are made. */
static uint64_t digest_of_groups(const exg_process_groups *g)
{
    uint64_t digest = XXH3_64bits(g->lines, g->line_count * sizeof(g->lines[0]));

    for (uint32_t i = 0; i < g->named_count; i++) {
        digest = XXH3_64bits_withSeed(g->named[i].name, strlen(g->named[i].name), digest);
        digest = XXH3_64bits_withSeed(g->named[i].dims,
                                      g->named[i].dim_count * sizeof(g->named[i].dims[0]), digest);
    }
    return digest;
}

/* Do those that meet along each line ask the same of it? */
static exg_status compare_calls(const exg_process_groups *g, const exg_grid *grid, exg_error *err)
{
    for (uint32_t d = 0; d < grid->ndim; d++) {
        const exg_grid line = {.dims = {grid->dims[d]}, .ndim = 1, .rank = grid->rank};
        const exg_common calls = {"collectives that their program calls", g->digests[d]};
        exg_status status = exg_grid_agree(&line, &calls, 1, EXG_OK, err);

        if (status != EXG_OK) {
            exg_grid_abort(grid, status); /* those of other lines would go on */
            return status;
        }
    }
    return EXG_OK;
}

exg_status exg_process_groups_meet(exg_process_groups *groups, exg_device_mesh *mesh,
                                   exg_status status, exg_grid *grid, exg_error *err)
{
    const exg_grid all = {.dims = {mesh->communicator}, .ndim = 1, .rank = groups->rank};
    /* A group that is not given is all ranks: they have one name for it. */
    const exg_common same[] = {
        {"groups", status == EXG_OK ? digest_of_groups(groups) : 0},
        {"names of groups without --group", status == EXG_OK ? groups->unnamed_digest : 0}};

    EXG_TRY(exg_grid_agree(&all, same, 2, status, err));
    EXG_TRY(share_used(groups, mesh, err));
    EXG_TRY(exg_process_groups_check_used(groups, err));
    EXG_TRY(exg_split_grid(&groups->mesh, mesh->communicator, groups->lines, groups->line_count,
                           grid, err));
    status = compare_calls(groups, grid, err);
    if (status != EXG_OK) {
        exg_grid_close(grid);
    }
    return status;
}

/* ---- counting -------------------------------------------------------------------------- */

/* Bytes that come from other ranks. */
static uint64_t received_bytes(const exg_communicator *c, const exg_collective *what)
{
    exg_segment send[EXG_RANKS_MAX];
    exg_segment receive[EXG_RANKS_MAX];
    uint64_t bytes = 0;

    for (uint32_t round = 0; c->size <= EXG_RANKS_MAX && round < exg_collective_rounds(c, what);
         round++) {
        exg_collective_counts(c, what, round, send, receive);
        for (uint32_t r = 0; r < c->size; r++) {
            bytes += r == c->rank ? 0 : receive[r].bytes;
        }
    }
    return bytes;
}

void exg_process_groups_count(const exg_plan *plan, const exg_grid *grid,
                              exg_partition_summary *summary)
{
    for (uint32_t s = plan->folded_count; s < plan->step_count; s++) {
        const exg_collective *what;
        uint32_t line;
        exg_collective_phase phase =
            exg_collective_of(plan->steps[s].kernel, &plan->steps[s].call, &what, &line);

        if (phase != EXG_COLLECTIVE_WHOLE && phase != EXG_COLLECTIVE_BEGINS) {
            continue;
        }
        summary->all_reduce_count += what->kind == EXG_ALL_REDUCE;
        summary->all_gather_count += what->kind == EXG_ALL_GATHER;
        summary->reduce_scatter_count += what->kind == EXG_REDUCE_SCATTER;
        summary->all_to_all_count +=
            what->kind == EXG_ALL_TO_ALL || what->kind == EXG_ALL_TO_ALL_SINGLE;
        summary->broadcast_count += what->kind == EXG_BROADCAST;
        summary->moved_bytes += received_bytes(grid->dims[line], what);
    }
}
