/* cmd_plan.c - exg plan FILE: steps, memory and moves of a run, without running. */
#include "cli/cli.h"
#include "libexport/base/text.h"

#include <inttypes.h>
#include <stdlib.h>

/* What --mesh asks for, or all processes that mpirun started. */
static void print_place(const cli_call *call, exg_session *session, bool processes)
{
    const char *report = exg_session_place_report(session);
    const exg_session_stats *stats = exg_session_statistics(session);

    if (call->mesh != NULL) {
        fprintf(call->out, "mesh %s", call->mesh);
    } else if (cli_process_count() > 1) {
        fprintf(call->out, "mesh %u", cli_process_count());
    } else {
        return;
    }
    fprintf(call->out, " of %s, placement ", processes ? "processes" : "threads");
    cli_put_modes(call->out, call, stats->place);
    fprintf(
        call->out,
        ": %u nodes split, %u all_gather, %u all_reduce, "
        "%u reduce_scatter, %u all_to_all, %u window, %" PRIu64 " bytes a rank, predicted %.0f ns",
        stats->place->split_count, stats->place->all_gather_count, stats->place->all_reduce_count,
        stats->place->reduce_scatter_count, stats->place->all_to_all_count,
        stats->place->window_count, stats->place->moved_bytes, stats->place->predicted_ns);
    if (processes) {
        fprintf(call->out, ", and %.0f ns of moves beside them", stats->place->hidden_ns);
    }
    fprintf(call->out, "\nmemory of a rank: weights %" PRIu64 " bytes, values %" PRIu64 " bytes\n",
            stats->place->weight_bytes, stats->place->value_bytes);
    if (call->check) {
        fprintf(call->out,
                "checked: all ranks issue the same %u collectives in one order, with "
                "equal counts",
                exg_place_moves(stats->place));
        if (stats->plan_count > 1) {
            fprintf(call->out, "; and theirs in %u segments that may follow",
                    stats->plan_count - 1);
        }
        fputs("\n", call->out);
    }
    if (exg_session_unchecked(session) != NULL) {
        fputs(exg_session_unchecked(session), call->out);
    }
    fprintf(call->out, "%s\n", report == NULL ? "" : report);
}

/* The device's part of it, when one was asked for. */
static void print_device(const cli_call *call, exg_session *session)
{
    const exg_session_stats *stats = exg_session_statistics(session);

    if (call->device == NULL) {
        return;
    }
    fprintf(call->out,
            "device %s, whose memory this is: %u of %u steps are the host's, between "
            "copies\n",
            call->device, stats->plan->host_count, stats->plan->step_count);
    if (stats->collectives_through[0] != '\0') {
        fprintf(call->out, "collectives go through %s\n", stats->collectives_through);
    }
}

static void put_string(const cli_call *call, const char *name, const char *value)
{
    exg_text text = EXG_TEXT_EMPTY;

    exg_text_json_string(&text, value == NULL ? "" : value);
    fprintf(call->out, ", \"%s\": %s", name, text.failed ? "\"\"" : text.data);
    exg_text_free(&text);
}

static void print_json(const cli_call *call, exg_session *session, bool processes)
{
    const char *report = exg_session_place_report(session);
    const exg_session_stats *stats = exg_session_statistics(session);

    fprintf(call->out,
            "{\"nodes\": %u, \"steps\": %u, \"views\": %u, \"fused\": %u, \"in_place\": %u, "
            "\"arena_bytes\": %" PRIu64 ", \"values_bytes\": %" PRIu64
            ", \"workspace_bytes\": %" PRIu64 ", \"weight_bytes\": %" PRIu64
            ", \"ranks\": \"%s\", \"placement\": \"",
            stats->plan->node_count, stats->plan->step_count, stats->plan->view_count,
            stats->plan->fused_count, stats->plan->in_place_count, stats->plan->arena_bytes,
            stats->plan->values_bytes, stats->plan->workspace_bytes, stats->plan->weight_bytes,
            processes ? "processes" : "threads");
    cli_put_modes(call->out, call, stats->place);
    fprintf(call->out,
            "\", \"split\": %u, \"all_gather\": %u, \"all_reduce\": %u, "
            "\"reduce_scatter\": %u, \"all_to_all\": %u, \"window\": %u, \"moved_bytes\": %" PRIu64
            ", \"predicted_ns\": %.0f, \"hidden_ns\": %.0f, \"rank_weight_bytes\": %" PRIu64
            ", \"rank_value_bytes\": %" PRIu64 ", \"checked\": %s",
            stats->place->split_count, stats->place->all_gather_count,
            stats->place->all_reduce_count, stats->place->reduce_scatter_count,
            stats->place->all_to_all_count, stats->place->window_count, stats->place->moved_bytes,
            stats->place->predicted_ns, stats->place->hidden_ns, stats->place->weight_bytes,
            stats->place->value_bytes, call->check ? "true" : "false");
    put_string(call, "unchecked", exg_session_unchecked(session));
    if (call->device != NULL) {
        put_string(call, "device", call->device);
        put_string(call, "collectives_through", stats->collectives_through);
        fprintf(call->out, ", \"host_steps\": %u, \"constant_bytes\": %" PRIu64,
                stats->plan->host_count, stats->plan->constant_bytes);
    }
    fprintf(call->out, ", \"mesh\": %s}\n", report == NULL ? "[]" : report);
}

static exg_status print_plan(const cli_call *call, exg_session *session, bool processes,
                             exg_error *err)
{
    char *text;

    if (call->json) {
        print_json(call, session, processes);
        return EXG_OK;
    }
    print_place(call, session, processes);
    print_device(call, session);
    EXG_TRY(exg_plan_print(exg_session_plan(session), &text, err));
    fputs(text, call->out);
    free(text);
    if (exg_session_break_reason(session) != NULL) {
        fprintf(call->out, "%s\n", exg_session_break_reason(session));
    }
    return EXG_OK;
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

static exg_status plan(const cli_call *call, const cli_program *p, const cli_inputs *inputs,
                       exg_error *err)
{
    exg_session *session = NULL;
    cli_placement placement;
    exg_session_options options;
    exg_status status = cli_session_options(call, &options, &placement, err);

    options.processes = is_of_processes(call, &options);
    options.plan_only = true;
    options.check_ranks = call->check;
    placement.goal.json = call->json;
    if (status == EXG_OK && call->calibrate != NULL) {
        status = calibrate(call, &options, &placement, err);
    }
    status = status == EXG_OK ? exg_session_create(&p->verified, &options, &session, err) : status;
    status =
        status == EXG_OK ? exg_session_prepare(session, inputs->items, inputs->count, err) : status;
    status = status == EXG_OK ? print_plan(call, session, options.processes, err) : status;
    exg_session_destroy(session);
    cli_placement_free(&placement);
    return status;
}

exg_status cmd_plan(const cli_call *call, exg_error *err)
{
    cli_program p;
    cli_inputs inputs;
    exg_status status;

    EXG_TRY(cli_open_verified(call, &p, err));
    status = cli_inputs_read(call, &p, &inputs, err);
    status = status == EXG_OK ? plan(call, &p, &inputs, err) : status;
    cli_inputs_free(&inputs);
    cli_close(&p);
    return status;
}
