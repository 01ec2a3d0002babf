/* cmd_plan.c - exg plan FILE: steps, memory and moves of a run, without running. */
#include "cli/cli.h"

#include <exg/memory.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void put_bytes(exg_text *text, const char *before, uint64_t bytes)
{
    exg_text_puts(text, before);
    exg_text_bytes(text, bytes);
}

static void put_ns(exg_text *text, const char *before, double ns)
{
    exg_text_puts(text, before);
    exg_text_ns(text, ns);
}

static void put_memory(exg_text *text, const exg_partition_summary *of)
{
    put_bytes(text, "memory of a rank: weights ", of->weight_bytes);
    put_bytes(text, ", values ", of->value_bytes);
    exg_text_putc(text, '\n');
}

/* Of a program that is already parallel: what its collectives are. */
static void put_collectives(exg_text *text, const exg_partition_summary *of)
{
    exg_text_printf(text,
                    "already parallel: %u all_gather, %u all_reduce, %u reduce_scatter, "
                    "%u all_to_all, %u broadcast",
                    of->all_gather_count, of->all_reduce_count, of->reduce_scatter_count,
                    of->all_to_all_count, of->broadcast_count);
    put_bytes(text, ", ", of->moved_bytes);
    exg_text_puts(text, " a rank\n");
    put_memory(text, of);
}

/* Bytes by kind, where the time goes, and what to look at first. */
static void put_moves(exg_text *text, const exg_partition_summary *of)
{
    put_ns(text, "time of a rank: work ", of->work_ns);
    put_ns(text, ", moves ", of->moves_ns);
    exg_text_putc(text, '\n');
    if (of->moved_bytes > 0) {
        put_bytes(text, "moved: all_gather ", of->all_gather_bytes);
        put_bytes(text, ", all_reduce ", of->all_reduce_bytes);
        put_bytes(text, ", reduce_scatter ", of->reduce_scatter_bytes);
        put_bytes(text, ", all_to_all ", of->all_to_all_bytes);
        put_bytes(text, ", window ", of->halo_bytes);
        put_bytes(text, ", send ", of->send_bytes);
        put_bytes(text, ", broadcast ", of->broadcast_bytes);
        exg_text_puts(text, "\nlargest move: ");
        exg_text_plain(text, of->largest_move, false);
        put_bytes(text, ", ", of->largest_bytes);
        exg_text_putc(text, '\n');
    }
}

/* What a run waits for, one after another, and whether another word for a mesh dim takes less. */
static void put_path(exg_text *text, const exg_partition_summary *of, uint32_t ndim)
{
    double waited = of->predicted_ns - of->work_ns - of->bubble_ns;

    put_ns(text, "critical path: work ", of->work_ns);
    put_ns(text, ", moves that are waited for ", waited > 0 ? waited : 0);
    if (of->longest_ns > 0) {
        exg_text_puts(text, "; longest node ");
        exg_text_plain(text, of->longest_node, false);
        put_ns(text, ", ", of->longest_ns);
    }
    exg_text_puts(text, "\n");
    if (of->cheaper_ns > 0) {
        exg_text_puts(text, "cheaper: --place ");
        for (uint32_t d = 0; d < ndim; d++) {
            exg_text_printf(text, "%s%s", d > 0 ? "," : "",
                            exg_partition_mode_name(of->cheaper_modes[d]));
        }
        put_ns(text, ", predicted ", of->cheaper_ns);
        exg_text_printf(text, " (%.0f %% less)", 100 - 100 * of->cheaper_ns / of->predicted_ns);
        put_bytes(text, ", ", of->cheaper_bytes);
        exg_text_puts(text, " of weights and values\n");
    }
}

/* Of a pipeline: how much of the time a rank waits for the other stages. */
static void put_stages(exg_text *text, const exg_partition_summary *of)
{
    if (of->stages > 0) {
        exg_text_printf(text, "pipeline: %u stages, %u micro-batches, %u sends", of->used_stages,
                        of->microbatches, of->send_count);
        put_ns(text, ", bubble ", of->bubble_ns);
        exg_text_printf(text, " (%.0f %%)\n",
                        of->predicted_ns > 0 ? 100 * of->bubble_ns / of->predicted_ns : 0);
    }
}

static uint32_t mesh_dims(const cli_call *call)
{
    exg_mesh_shape mesh;

    return cli_mesh(call, &mesh, NULL) == EXG_OK ? mesh.ndim : 0;
}

/* What --check came to. Segments that follow are compared of what exg placed; of programs that are
 * already parallel what they call there, without its counts. */
static void put_checked(exg_text *text, const cli_call *call, exg_session *session,
                        bool is_parallel)
{
    const exg_session_stats *stats = exg_session_statistics(session);

    if (!call->check) {
        return;
    }
    exg_text_printf(text,
                    "checked: all ranks issue the same %u collectives in one order, with "
                    "equal counts",
                    exg_partition_moves(stats->partition));
    if (is_parallel && exg_session_break_reason(session) != NULL) {
        exg_text_puts(text, "; of what follows the first segment, the same in each group's order");
    } else if (stats->plan_count > 1) {
        exg_text_printf(text, "; and theirs in %u segments that may follow", stats->plan_count - 1);
    }
    exg_text_puts(text, "\n");
}

/* What --mesh asks for, or all processes that mpirun started. */
static void put_place(exg_text *text, const cli_call *call, exg_session *session, bool processes,
                      bool is_parallel)
{
    const char *report = exg_session_partition_report(session);
    const exg_session_stats *stats = exg_session_statistics(session);

    if (call->mesh != NULL) {
        exg_text_printf(text, "mesh %s", call->mesh);
    } else if (cli_process_count() > 1) {
        exg_text_printf(text, "mesh %u", cli_process_count());
    } else {
        return;
    }
    exg_text_printf(text, " of %s, ", processes ? "processes" : "threads");
    if (is_parallel) {
        put_collectives(text, stats->partition);
        put_checked(text, call, session, true);
        return;
    }
    exg_text_puts(text, "placement ");
    cli_put_modes(text, call, stats->partition);
    exg_text_printf(text,
                    ": %u nodes split, %u all_gather, %u all_reduce, "
                    "%u reduce_scatter, %u all_to_all, %u window",
                    stats->partition->split_count, stats->partition->all_gather_count,
                    stats->partition->all_reduce_count, stats->partition->reduce_scatter_count,
                    stats->partition->all_to_all_count, stats->partition->halo_count);
    put_bytes(text, ", ", stats->partition->moved_bytes);
    put_ns(text, " a rank, predicted ", stats->partition->predicted_ns);
    if (processes) {
        put_ns(text, ", and ", stats->partition->hidden_ns);
        exg_text_puts(text, " of moves beside them");
    }
    exg_text_putc(text, '\n');
    put_memory(text, stats->partition);
    put_moves(text, stats->partition);
    put_stages(text, stats->partition);
    put_path(text, stats->partition, mesh_dims(call));
    put_checked(text, call, session, false);
    if (exg_session_unchecked(session) != NULL) {
        exg_text_puts(text, exg_session_unchecked(session));
    }
    exg_text_printf(text, "%s\n", report == NULL ? "" : report);
}

/* The device's part of it, when one was asked for. */
static void put_device(exg_text *text, const cli_call *call, exg_session *session)
{
    const exg_session_stats *stats = exg_session_statistics(session);

    if (call->device == NULL) {
        return;
    }
    exg_text_printf(text,
                    "device %s, whose memory this is: %u of %u steps are the host's, between "
                    "copies\n",
                    call->device, stats->plan->host_count, stats->plan->step_count);
    if (stats->collectives_through[0] != '\0') {
        exg_text_printf(text, "collectives go through %s\n", stats->collectives_through);
    }
}

static void put_plan_json(exg_text *text, const exg_plan_summary *plan)
{
    exg_json_member_uint(text, "nodes", plan->node_count);
    exg_json_member_uint(text, "steps", plan->step_count);
    exg_json_member_uint(text, "views", plan->view_count);
    exg_json_member_uint(text, "fused", plan->fused_count);
    exg_json_member_uint(text, "in_place", plan->in_place_count);
    exg_json_member_uint(text, "arena_bytes", plan->arena_bytes);
    exg_json_member_uint(text, "values_bytes", plan->values_bytes);
    exg_json_member_uint(text, "workspace_bytes", plan->workspace_bytes);
    exg_json_member_uint(text, "weight_bytes", plan->weight_bytes);
}

static void put_place_json(exg_text *text, const exg_partition_summary *place)
{
    exg_json_member_uint(text, "split", place->split_count);
    exg_json_member_uint(text, "all_gather", place->all_gather_count);
    exg_json_member_uint(text, "all_reduce", place->all_reduce_count);
    exg_json_member_uint(text, "reduce_scatter", place->reduce_scatter_count);
    exg_json_member_uint(text, "all_to_all", place->all_to_all_count);
    exg_json_member_uint(text, "window", place->halo_count);
    exg_json_member_uint(text, "broadcast", place->broadcast_count);
    exg_json_member_uint(text, "moved_bytes", place->moved_bytes);
    exg_json_member_uint(text, "all_gather_bytes", place->all_gather_bytes);
    exg_json_member_uint(text, "all_reduce_bytes", place->all_reduce_bytes);
    exg_json_member_uint(text, "reduce_scatter_bytes", place->reduce_scatter_bytes);
    exg_json_member_uint(text, "all_to_all_bytes", place->all_to_all_bytes);
    exg_json_member_uint(text, "window_bytes", place->halo_bytes);
    exg_json_member_uint(text, "send", place->send_count);
    exg_json_member_uint(text, "send_bytes", place->send_bytes);
    exg_json_member_uint(text, "broadcast_bytes", place->broadcast_bytes);
    exg_json_member_uint(text, "stages", place->used_stages);
    exg_json_member_uint(text, "microbatches", place->microbatches);
    exg_json_member_fixed(text, "bubble_ns", place->bubble_ns, 0);
    exg_json_member_fixed(text, "work_ns", place->work_ns, 0);
    exg_json_member_fixed(text, "moves_ns", place->moves_ns, 0);
    exg_json_member_text(text, "longest_node", place->longest_node);
    exg_json_member_fixed(text, "longest_ns", place->longest_ns, 0);
    exg_json_member_fixed(text, "cheaper_ns", place->cheaper_ns, 0);
    exg_json_member_uint(text, "cheaper_bytes", place->cheaper_bytes);
    exg_json_member_text(text, "largest_move", place->largest_move);
    exg_json_member_uint(text, "largest_bytes", place->largest_bytes);
    exg_json_member_fixed(text, "predicted_ns", place->predicted_ns, 0);
    exg_json_member_fixed(text, "hidden_ns", place->hidden_ns, 0);
    exg_json_member_uint(text, "rank_weight_bytes", place->weight_bytes);
    exg_json_member_uint(text, "rank_value_bytes", place->value_bytes);
}

static exg_status print_json(const cli_call *call, exg_session *session, bool processes,
                             exg_error *err)
{
    const char *report = exg_session_partition_report(session);
    const char *unchecked = exg_session_unchecked(session);
    const char *reason = exg_session_break_reason(session);
    const exg_session_stats *stats = exg_session_statistics(session);
    exg_text modes = EXG_TEXT_EMPTY;
    exg_text text = EXG_TEXT_EMPTY;
    exg_status status;

    cli_put_modes(&modes, call, stats->partition);
    cli_json_begin(&text);
    put_plan_json(&text, stats->plan);
    exg_json_member_text(&text, "ranks", processes ? "processes" : "threads");
    exg_json_member_text(&text, "placement", exg_text_part(&text, &modes));
    exg_text_free(&modes);
    put_place_json(&text, stats->partition);
    exg_json_member_bool(&text, "checked", call->check);
    exg_json_member_text(&text, "unchecked", unchecked == NULL ? "" : unchecked);
    exg_json_member_text(&text, "ends_at", reason == NULL ? "" : reason);
    if (call->device != NULL) {
        exg_json_member_text(&text, "device", call->device);
        exg_json_member_text(&text, "collectives_through", stats->collectives_through);
        exg_json_member_uint(&text, "host_steps", stats->plan->host_count);
        exg_json_member_uint(&text, "constant_bytes", stats->plan->constant_bytes);
    }
    exg_json_put_key(&text, "mesh");
    exg_json_put_raw(&text, report == NULL ? "[]" : report);
    cli_json_end(&text);
    status = cli_put(call->out, &text, err);
    exg_text_free(&text);
    return status;
}

static exg_status put_plan(exg_text *text, const cli_call *call, exg_session *session,
                           bool processes, bool is_parallel, exg_error *err)
{
    const char *reason = exg_session_break_reason(session);
    char *plan;

    put_place(text, call, session, processes, is_parallel);
    put_device(text, call, session);
    EXG_TRY(exg_plan_print(exg_session_plan(session), &plan, err));
    exg_text_puts(text, plan);
    free(plan);
    if (reason != NULL) {
        exg_text_printf(text, "%s\n", reason);
    }
    return EXG_OK;
}

static exg_status print_plan(const cli_call *call, exg_session *session, bool processes,
                             bool is_parallel, exg_error *err)
{
    exg_text text = EXG_TEXT_EMPTY;
    exg_status status = EXG_OK;

    if (call->json) {
        return print_json(call, session, processes, err);
    }
    if (call->summary) {
        cli_put_plan_summary(&text, call, session, processes, is_parallel);
    } else {
        status = put_plan(&text, call, session, processes, is_parallel, err);
    }
    status = status == EXG_OK ? cli_put(call->out, &text, err) : status;
    exg_text_free(&text);
    return status;
}

/* Measures what work and messages take here: between the processes that mpirun started, or as
 * many threads as the mesh has ranks along its longest dim, but not more than there may be. */
static exg_status calibrate(const cli_call *call, exg_session_options *options,
                            cli_placement *placement, exg_error *err)
{
    uint32_t ranks = 2;

    for (uint32_t d = 0; d < options->mesh.ndim; d++) {
        ranks = options->mesh.sizes[d] > ranks ? options->mesh.sizes[d] : ranks;
    }
    if (cli_process_count() > 1) {
        EXG_TRY(exg_costs_measure(cli_process_count(), true, &placement->costs, err));
    } else {
        EXG_TRY(exg_costs_measure(ranks < 64 ? ranks : 64, false, &placement->costs, err));
    }
    placement->goal.costs = &placement->costs;
    return cli_process_rank() > 0 ? EXG_OK
                                  : exg_costs_save(&placement->costs, call->calibrate, err);
}

/* What ranks are where the plan is run: a mesh of more than may be threads is one of processes. */
static bool is_of_processes(const cli_call *call, const exg_session_options *options)
{
    uint32_t ranks = 1;

    for (uint32_t d = 0; d < options->mesh.ndim; d++) {
        ranks *= options->mesh.sizes[d];
    }
    return call->processes || options->processes || ranks > CLI_THREADS_MAX;
}

static bool is_of_rank(const cli_call *call, const cli_program *p)
{
    return call->rank_file != NULL || exg_program_has_collectives(p->program, p->operators);
}

static exg_status plan(const cli_call *call, const cli_program *p, const cli_inputs *inputs,
                       exg_error *err)
{
    exg_session *session = NULL;
    cli_placement placement;
    exg_session_options options;
    exg_status status = cli_session_options(call, &options, &placement, err);
    bool is_parallel = is_of_rank(call, p);

    options.processes = is_of_processes(call, &options);
    options.plan_only = true;
    options.check_ranks = call->check && !is_parallel;
    placement.goal.json = call->json;
    placement.goal.compares = true;
    if (status == EXG_OK && call->calibrate != NULL) {
        status = calibrate(call, &options, &placement, err);
    }
    if (status == EXG_OK && is_parallel) {
        status = cli_rank_options(call, p, cli_process_rank(), &options, &placement, err);
    }
    status = status == EXG_OK ? exg_session_create(&p->verified, &options, &session, err) : status;
    status = status == EXG_OK
                 ? cli_inputs_told(
                       inputs, exg_session_prepare(session, inputs->items, inputs->count, err), err)
                 : status;
    if (status == EXG_OK) {
        cli_note_unsplit(session);
    }
    if (status == EXG_OK && is_parallel && call->check) {
        status = cli_plan_check_ranks(call, err);
    }
    status =
        status == EXG_OK ? print_plan(call, session, options.processes, is_parallel, err) : status;
    exg_session_destroy(session);
    cli_placement_free(&placement);
    return status;
}

/* With the inputs that the first rank here has, of ranks that have files of their own. */
static exg_status plan_open(const cli_call *call, cli_program *p, exg_error *err)
{
    exg_arena *names = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    cli_call own = *call;
    cli_inputs inputs = {0};
    exg_status status = names == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;

    if (status == EXG_OK && is_of_rank(call, p)) {
        status = cli_rank_call(call, cli_process_rank(), names, &own, err);
    }
    status = status == EXG_OK ? cli_inputs_read(&own, p, &inputs, err) : status;
    if (status == EXG_OK) {
        status =
            (call->has_sweep || call->memory != NULL ? cli_sweep : plan)(call, p, &inputs, err);
    }
    cli_inputs_free(&inputs);
    exg_arena_destroy(names);
    return status;
}

exg_status cmd_plan(const cli_call *call, exg_error *err)
{
    cli_program p;
    exg_status status;

    EXG_TRY(cli_open_verified(call, &p, err));
    status = plan_open(call, &p, err);
    cli_close(&p);
    return status;
}
