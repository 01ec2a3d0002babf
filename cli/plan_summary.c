/* plan_summary.c - what a plan comes to, for people: exg plan --summary. */
#include "cli/cli.h"

#include <inttypes.h>

static void put_title(exg_text *text, const char *title)
{
    exg_text_printf(text, "%-10s  ", title);
}

static void put_memory(exg_text *text, const exg_partition_summary *of, const char *of_whom)
{
    put_title(text, "memory");
    exg_text_bytes(text, of->weight_bytes + of->value_bytes);
    exg_text_printf(text, "%s: weights ", of_whom);
    exg_text_bytes(text, of->weight_bytes);
    exg_text_puts(text, ", values ");
    exg_text_bytes(text, of->value_bytes);
    exg_text_putc(text, '\n');
}

static void put_time(exg_text *text, const exg_partition_summary *of)
{
    const double waited = of->predicted_ns - of->work_ns - of->bubble_ns;

    put_title(text, "predicted");
    exg_text_ns(text, of->predicted_ns);
    exg_text_puts(text, " a run: work ");
    exg_text_ns(text, of->work_ns);
    exg_text_puts(text, ", moves that are waited for ");
    exg_text_ns(text, waited > 0 ? waited : 0);
    if (of->hidden_ns >= 1) {
        exg_text_puts(text, ", beside work ");
        exg_text_ns(text, of->hidden_ns);
    }
    if (of->stages > 0) {
        exg_text_printf(text, ", of %u stages for each other ", of->used_stages);
        exg_text_ns(text, of->bubble_ns);
    }
    exg_text_putc(text, '\n');
    if (of->longest_ns > 0) {
        put_title(text, "longest");
        exg_text_plain(text, of->longest_node, false);
        exg_text_puts(text, ", ");
        exg_text_ns(text, of->longest_ns);
        exg_text_putc(text, '\n');
    }
}

static void put_moves(exg_text *text, const exg_partition_summary *of)
{
    const struct {
        const char *name;
        uint32_t count;
        uint64_t bytes;
    } kinds[] = {{"all_gather", of->all_gather_count, of->all_gather_bytes},
                 {"all_reduce", of->all_reduce_count, of->all_reduce_bytes},
                 {"reduce_scatter", of->reduce_scatter_count, of->reduce_scatter_bytes},
                 {"all_to_all", of->all_to_all_count, of->all_to_all_bytes},
                 {"window", of->halo_count, of->halo_bytes},
                 {"send", of->send_count, of->send_bytes},
                 {"broadcast", of->broadcast_count, of->broadcast_bytes}};
    const char *before = ": ";

    put_title(text, "moves");
    exg_text_bytes(text, of->moved_bytes);
    exg_text_puts(text, " a rank");
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        if (kinds[k].count > 0) {
            exg_text_printf(text, "%s%u %s", before, kinds[k].count, kinds[k].name);
            before = ", ";
        }
        if (kinds[k].bytes > 0) { /* of a program that is already parallel nobody counts by kind */
            exg_text_putc(text, ' ');
            exg_text_bytes(text, kinds[k].bytes);
        }
    }
    exg_text_putc(text, '\n');
    if (of->largest_bytes > 0) {
        put_title(text, "largest");
        exg_text_plain(text, of->largest_move, false);
        exg_text_puts(text, ", ");
        exg_text_bytes(text, of->largest_bytes);
        exg_text_putc(text, '\n');
    }
}

static void put_cheaper(exg_text *text, const exg_partition_summary *of, uint32_t ndim)
{
    put_title(text, "cheaper");
    exg_text_puts(text, "--place ");
    for (uint32_t d = 0; d < ndim; d++) {
        exg_text_printf(text, "%s%s", d > 0 ? "," : "",
                        exg_partition_mode_name(of->cheaper_modes[d]));
    }
    exg_text_puts(text, ", predicted ");
    exg_text_ns(text, of->cheaper_ns);
    exg_text_printf(text, " (%.0f %% less), ", 100 - 100 * of->cheaper_ns / of->predicted_ns);
    exg_text_bytes(text, of->cheaper_bytes);
    exg_text_puts(text, " of weights and values\n");
}

static void put_mesh(exg_text *text, const cli_call *call, const exg_mesh_shape *mesh,
                     const exg_session_stats *stats, bool processes, bool is_parallel)
{
    const exg_partition_summary *of = stats->partition;
    uint64_t ranks = 1;

    put_title(text, "mesh");
    for (uint32_t d = 0; d < mesh->ndim; d++) {
        ranks *= mesh->sizes[d];
        exg_text_printf(text, "%s%u", d > 0 ? "x" : "", mesh->sizes[d]);
    }
    exg_text_printf(text, ", %" PRIu64 " ranks that are %s, ", ranks,
                    processes ? "processes" : "threads");
    if (is_parallel) {
        exg_text_puts(text, "already parallel\n");
    } else {
        exg_text_puts(text, "placement ");
        cli_put_modes(text, call, of);
        exg_text_printf(text, ", %u nodes split\n", of->split_count);
        put_time(text, of);
    }
    put_memory(text, of, " a rank");
    put_moves(text, of);
    if (of->cheaper_ns > 0) {
        put_cheaper(text, of, mesh->ndim);
    }
    if (call->check) {
        put_title(text, "checked");
        exg_text_printf(text, "all ranks issue the same %u collectives in one order\n",
                        exg_partition_moves(of));
    }
}

void cli_put_plan_summary(exg_text *text, const cli_call *call, exg_session *session,
                          bool processes, bool is_parallel)
{
    const exg_session_stats *stats = exg_session_statistics(session);
    const char *reason = exg_session_break_reason(session);
    exg_mesh_shape mesh;

    if ((call->mesh != NULL || cli_process_count() > 1) && cli_mesh(call, &mesh, NULL) == EXG_OK) {
        put_mesh(text, call, &mesh, stats, processes, is_parallel);
    } else {
        put_memory(text, stats->partition, "");
    }
    put_title(text, "steps");
    exg_text_printf(text, "%u, of %u nodes: %u views, %u fused, %u in place\n",
                    stats->plan->step_count, stats->plan->node_count, stats->plan->view_count,
                    stats->plan->fused_count, stats->plan->in_place_count);
    if (call->device != NULL) {
        put_title(text, "device");
        exg_text_printf(text, "%s; %u of the steps are the host's, between copies\n", call->device,
                        stats->plan->host_count);
    }
    if (reason != NULL) {
        put_title(text, "not whole");
        exg_text_printf(text, "%s\n", reason);
    }
}
