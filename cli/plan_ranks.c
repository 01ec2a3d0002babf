/* plan_ranks.c - the plans of ranks that each have a program of their own, or one that is already
 * parallel, and whether what they call fits together. */
#include "cli/cli.h"

#include <exg/memory.h>
#include <stdlib.h>
#include <string.h>

static bool has_group(const exg_graph *graph, const char *name)
{
    bool has = false;

    for (uint32_t n = 0; n < graph->node_count; n++) {
        for (uint32_t i = 0; !has && i < graph->nodes[n].input_count; i++) {
            const exg_named_argument *input = &graph->nodes[n].inputs[i];

            has = input->arg.kind == EXG_ARGUMENT_GRAPH
                      ? has_group(input->arg.as_graph->graph, name)
                      : strcmp(input->name, "group_name") == 0 &&
                            input->arg.kind == EXG_ARGUMENT_STRING &&
                            strcmp(input->arg.as_string, name) == 0;
        }
    }
    return has;
}

/* Of --rank-file the groups that are another rank's alone are none of this plan. */
static void leave_groups(const exg_program *program, exg_session_options *options,
                         cli_placement *placement)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < options->group_count; i++) {
        if (has_group(program->graph, placement->groups[i].name)) {
            placement->groups[kept++] = placement->groups[i];
        }
    }
    options->group_count = kept;
}

exg_status cli_rank_options(const cli_call *call, const cli_program *p, uint32_t rank,
                            exg_session_options *options, cli_placement *placement, exg_error *err)
{
    options->has_plan_rank = true;
    options->plan_rank = rank;
    if (call->rank_file != NULL) {
        leave_groups(p->program, options, placement);
    }
    return cli_parallel_options(call, options, placement, err);
}

/* ---- all of them --------------------------------------------------------------------------- */

typedef struct planned {
    cli_call call; /* with its own names */
    cli_program program;
    cli_inputs inputs;
    cli_placement placement;
    exg_session *session;
} planned;

static exg_status plan_rank(const cli_call *call, uint32_t number, exg_arena *arena, planned *rank,
                            exg_error *err)
{
    exg_session_options options;

    EXG_TRY(cli_rank_call(call, number, arena, &rank->call, err));
    EXG_TRY(cli_open_verified(&rank->call, &rank->program, err));
    EXG_TRY(cli_inputs_read(&rank->call, &rank->program, &rank->inputs, err));
    EXG_TRY(cli_session_options(&rank->call, &options, &rank->placement, err));
    options.plan_only = true;
    EXG_TRY(cli_rank_options(&rank->call, &rank->program, number, &options, &rank->placement, err));
    EXG_TRY(exg_session_create(&rank->program.verified, &options, &rank->session, err));
    return cli_inputs_told(
        &rank->inputs,
        exg_session_prepare(rank->session, rank->inputs.items, rank->inputs.count, err), err);
}

static exg_status compare(const planned *ranks, uint32_t count, exg_arena *arena, exg_error *err)
{
    exg_session **sessions = EXG_NEW_ARRAY(arena, exg_session *, count);

    if (sessions == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t r = 0; r < count; r++) {
        sessions[r] = ranks[r].session;
    }
    return exg_sessions_check_collectives(sessions, count, err);
}

exg_status cli_plan_check_ranks(const cli_call *call, exg_error *err)
{
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    uint32_t count = 1;
    exg_mesh_shape mesh;
    planned *ranks;
    exg_status status = cli_mesh(call, &mesh, err);

    for (uint32_t d = 0; status == EXG_OK && d < mesh.ndim; d++) {
        count *= mesh.sizes[d];
    }
    ranks = calloc(count, sizeof(*ranks));
    if (status == EXG_OK && (arena == NULL || ranks == NULL)) {
        status = EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t r = 0; status == EXG_OK && r < count; r++) {
        status = plan_rank(call, r, arena, &ranks[r], err);
        if (status != EXG_OK) {
            (void)exg_error_within(err, status, "rank %u", r);
        }
    }
    status = status == EXG_OK ? compare(ranks, count, arena, err) : status;
    for (uint32_t r = 0; ranks != NULL && r < count; r++) {
        exg_session_destroy(ranks[r].session);
        cli_placement_free(&ranks[r].placement);
        cli_inputs_free(&ranks[r].inputs);
        cli_close(&ranks[r].program);
    }
    free(ranks);
    exg_arena_destroy(arena);
    return status;
}
