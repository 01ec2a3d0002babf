/* placer.c - a program placed along every dim of a mesh: one after another, and of a pipeline all
 * micro-batches, of which a rank has its own stages.
 */
#include "libexec/sharding/placer.h"
#include "libexec/comm/grid.h"

#include <math.h>
#include <string.h>

static void add_summary(exg_partition_summary *sum, const exg_partition_summary *of, uint32_t dim)
{
    sum->modes[dim] = of->modes[dim];
    sum->unsplit[dim] = of->unsplit[dim];
    sum->split_count += of->split_count;
    sum->sharded_count += of->sharded_count;
    sum->partial_count += of->partial_count;
}

static void report_stages(exg_text *report, const exg_placer *t)
{
    for (uint32_t s = 0; s < t->cut->count; s++) {
        const exg_stages *of = t->cut;

        if (t->goal.json) {
            exg_text_printf(report,
                            "%s{\"nodes\": %u, \"weight_bytes\": %.0f, \"ns\": %.0f, "
                            "\"sent_bytes\": %.0f}",
                            s > 0 ? ", " : "", of->nodes[s], of->weight_bytes[s], of->ns[s],
                            of->sent_bytes[s]);
            continue;
        }
        exg_text_printf(report, "stage: %u nodes, weights ", of->nodes[s]);
        exg_text_bytes(report, (uint64_t)of->weight_bytes[s]);
        exg_text_puts(report, ", ");
        exg_text_ns(report, of->ns[s]);
        exg_text_puts(report, ", sends ");
        exg_text_bytes(report, (uint64_t)of->sent_bytes[s]);
        exg_text_putc(report, '\n');
    }
}

static void open_report(exg_text *report, const exg_placer *t, uint32_t dim,
                        exg_partition_mode mode)
{
    if (t->goal.json) {
        exg_text_printf(report, "%s{\"dim\": %u, \"ranks\": %u, \"mode\": \"%s\", \"stages\": [",
                        dim == 0 ? "[" : ",\n", dim, t->mesh->sizes[dim],
                        exg_partition_mode_name(mode));
    } else if (t->mesh->ndim > 1) {
        exg_text_printf(report, "mesh dim %u of %u ranks\n", dim, t->mesh->sizes[dim]);
    }
    if (t->cut != NULL && mode == EXG_PARTITION_PIPELINE) {
        report_stages(report, t);
    }
    if (t->goal.json) {
        exg_text_puts(report, "], \"nodes\": [");
    }
}

static void close_report(exg_text *report, const exg_placer *t, uint32_t dim)
{
    if (t->goal.json) {
        exg_text_puts(report, dim + 1 == t->mesh->ndim ? "]}]" : "]}");
    }
}

/* The last mesh dim of more than one rank: those before it are placed on again. */
static uint32_t last_dim(const exg_mesh_shape *mesh)
{
    uint32_t last = 0;

    for (uint32_t d = 0; d < mesh->ndim; d++) {
        last = mesh->sizes[d] > 1 ? d : last;
    }
    return last;
}

static uint32_t dims_in_pieces(const exg_placer *t)
{
    uint32_t dims = 0;

    for (uint32_t d = 0; d < t->mesh->ndim; d++) {
        dims |= (uint32_t)(t->options[d].mode == EXG_PARTITION_FSDP) << d;
    }
    return dims;
}

exg_status exg_placer_place_dim(const exg_placer *t, uint32_t d, const exg_program *whole,
                                exg_text *report, exg_partition_summary *sum, bool *uneven,
                                exg_stage_notes *stages, exg_program **made, exg_error *err)
{
    exg_partitioned_dim along = {
        .dim = d,
        .whole = t->functional,
        .size = t->mesh->sizes[d],
        .mesh = t->mesh,
        .rank = t->rank,
        .in_pieces = dims_in_pieces(t),
        .placing = t->options,
        .place = exg_mesh_shape_coordinate(t->mesh, t->rank, d),
        .named_inputs = t->named_inputs,
        .decisions = t->decided == NULL ? NULL : t->decided[d],
        .followed = t->followed,
        .patterns = t->pattern,
        .choices = t->choices,
        .before = t->rank - t->rank % (exg_mesh_shape_stride(t->mesh, d) * t->mesh->sizes[d]),
        .parts = exg_placer_pipeline(t) < t->mesh->ndim ? NULL : t->parts,
        .stages = *stages,
    };
    exg_partition_summary part;
    exg_status status;

    if (t->pattern != NULL) {
        t->pattern[d] = (exg_shard_pattern){0};
    }
    if (report != NULL) {
        open_report(report, t, d, t->options[d].mode);
    }
    status = exg_partition_along(whole, t->operators, &t->options[d], &t->goal, &along, report,
                                 &part, made, err);
    *stages = along.stages;
    *uneven = *uneven || (along.uneven && d < last_dim(t->mesh));
    if (status == EXG_OK) {
        add_summary(sum, &part, d);
    }
    if (report != NULL) {
        close_report(report, t, d);
    }
    return status;
}

/* Along every mesh dim, in modes that are not AUTO. */
static exg_status place_dims(exg_placer *t, exg_text *report, exg_partition_summary *sum,
                             bool *uneven, exg_program **local, exg_error *err)
{
    exg_stage_notes stages = {.of = t->stages, .arena = t->stage_arena};
    exg_status status = EXG_OK;

    *local = NULL;
    *uneven = false;
    *sum = (exg_partition_summary){0};
    for (uint32_t d = 0; status == EXG_OK && d < t->mesh->ndim; d++) {
        exg_program *made = NULL;

        status = exg_placer_place_dim(t, d, *local == NULL ? t->functional : *local, report, sum,
                                      uneven, &stages, &made, err);
        stages = (exg_stage_notes){.of = stages.made, .arena = t->stage_arena};
        exg_program_destroy(*local);
        *local = made;
    }
    t->placed_stages = (uint32_t *)(uintptr_t)stages.of;
    return status;
}

/* ---- the same decisions on every rank ---------------------------------------------------- */

/* From here on decisions are noted of the moves along dims that are not followed. */
static void note_decisions(exg_placer *t, exg_decided *by_dim, uint32_t followed, exg_arena *arena)
{
    t->decided = by_dim;
    t->followed = followed;
    for (uint32_t d = 0; d < t->mesh->ndim; d++) {
        for (uint32_t k = followed; k < d; k++) {
            by_dim[d][k] = (exg_decisions){.arena = arena};
        }
    }
}

/* Ranks that meet along mesh dim k are alike along the dims before it, so how the operands of
 * their moves are placed along later dims is decided where all dims from k on are at 0, by the
 * sizes of that rank. Those decisions follow what is decided so of the moves along earlier dims. */
static exg_status place_following(exg_placer *t, exg_text *report, exg_partition_summary *sum,
                                  exg_program **local, exg_error *err)
{
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    exg_decided *by_dim = arena == NULL ? NULL : EXG_NEW_ARRAY(arena, exg_decided, t->mesh->ndim);
    exg_status status = by_dim == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
    exg_placer leader = *t;
    bool uneven;

    *local = NULL;
    for (uint32_t k = 0; status == EXG_OK && k <= t->mesh->ndim; k++) {
        uint32_t behind =
            k == 0 ? exg_mesh_shape_size(t->mesh) : exg_mesh_shape_stride(t->mesh, k - 1);
        uint32_t rank = t->rank - t->rank % behind;

        if (k > 0 && rank == leader.rank) {
            continue; /* decided at the dim before */
        }
        exg_program_destroy(*local);
        leader.rank = rank;
        leader.pattern = rank == t->rank ? t->pattern : NULL;
        note_decisions(&leader, by_dim, k, arena);
        status = place_dims(&leader, rank == t->rank ? report : NULL, sum, &uneven, local, err);
    }
    t->placed_stages = leader.placed_stages;
    exg_arena_destroy(arena);
    return status;
}

/* Where dims are split unevenly, ranks have programs of other sizes than rank 0. */
static exg_status place_whole(exg_placer *t, exg_text *report, exg_partition_summary *sum,
                              exg_program **local, exg_error *err)
{
    bool uneven;

    EXG_TRY(place_dims(t, report, sum, &uneven, local, err));
    if (uneven && t->rank > 0) {
        exg_program_destroy(*local);
        if (report != NULL) {
            exg_text_free(report);
        }
        EXG_TRY(place_following(t, report, sum, local, err));
    }
    return EXG_OK;
}

/* ---- stages of a pipeline ---------------------------------------------------------------- */

uint32_t exg_placer_pipeline(const exg_placer *t)
{
    uint32_t d = 0;

    while (d < t->mesh->ndim && t->options[d].mode != EXG_PARTITION_PIPELINE) {
        d++;
    }
    return d;
}

/* Lengths that were cut in one micro-batch, added to those of the others. */
static void join_patterns(const exg_placer *t, exg_shard_pattern *all)
{
    for (uint32_t d = 0; d < t->mesh->ndim; d++) {
        for (uint32_t i = 0; i < t->pattern[d].count; i++) {
            exg_shard_pattern_note(&all[d], t->pattern[d].lengths[i]);
        }
        all[d].by_rank = all[d].by_rank || t->pattern[d].by_rank;
    }
}

/* Micro-batch `m`, placed along the other dims. */
static exg_status place_batch(const exg_placer *t, const exg_pipeline_shape *shape,
                              const exg_stages *stages, uint32_t m, exg_text *report,
                              exg_partition_summary *sum, exg_placement *outputs,
                              exg_pipelined *batch, exg_error *err)
{
    exg_program *rows = NULL;
    uint32_t *of_rows = stages->of_nodes;
    exg_status status = EXG_OK;
    exg_placer own = *t;

    if (shape->batches > 1) {
        EXG_TRY(exg_micro_batch(t->functional, t->operators, &t->goal, shape->batches, m,
                                stages->of_nodes, t->stage_arena, &rows, outputs, &of_rows, err));
    }
    own.functional = rows == NULL ? t->functional : rows;
    own.stages = of_rows;
    own.cut = stages;
    own.choices = m == 0 ? t->choices : NULL;
    status = place_whole(&own, report, sum, &batch->program, err);
    batch->stages = own.placed_stages;
    exg_program_destroy(rows);
    return status;
}

/* All micro-batches go through stages that wait for the longest of them: what a rank waits. Stages
 * are compared by the whole program's work in them; of a rank's time all but what stages send each
 * other is its stages'. */
static void predict_stages(const exg_stages *stages, const exg_pipeline_shape *shape, uint32_t rank,
                           const exg_link *link, exg_partition_summary *sum)
{
    double between = (sum->send_count + sum->broadcast_count) * link->message_ns +
                     (double)(sum->send_bytes + sum->broadcast_bytes) * link->ns_per_byte;
    double busy = fmax(sum->predicted_ns - between, 0);
    double own = 0;
    double longest = 0;

    for (uint32_t s = 0; s < stages->count; s++) {
        longest = stages->ns[s] > longest ? stages->ns[s] : longest;
        own += s % shape->ranks == rank ? stages->ns[s] : 0;
        sum->used_stages += stages->nodes[s] > 0;
    }
    sum->stages = stages->count;
    sum->microbatches = shape->batches;
    longest *= own > 0 && busy > 0 ? busy / own : 1; /* all rows of it */
    sum->bubble_ns = fmax(exg_pipeline_ticks(shape) * longest / shape->batches - busy, 0);
    sum->predicted_ns += sum->bubble_ns;
}

exg_pipeline_shape exg_placer_shape(const exg_placer *t, uint32_t dim)
{
    const exg_partition_options *options = &t->options[dim];
    uint32_t ranks = t->mesh->sizes[dim];

    return (exg_pipeline_shape){
        .mesh_dim = dim,
        .ranks = ranks,
        .stages =
            ranks * (options->stages_per_rank > 1 && ranks > 1 ? options->stages_per_rank : 1),
        .batches = options->microbatches > 0 ? options->microbatches : 1};
}

/* Where the program is cut, which is the same for all ranks: found for the first, and noted. */
static exg_status find_stages(const exg_placer *t, uint32_t dim, uint32_t count, exg_arena *arena,
                              exg_stages *stages, exg_error *err)
{
    exg_choices *known = t->choices;
    exg_stages *noted;

    if (known == NULL) {
        return exg_stages_find(t->functional, t->operators, &t->goal, dim, count, arena, stages,
                               err);
    }
    if (known->stages == NULL) {
        noted = EXG_NEW_ARRAY(known->arena, exg_stages, 1);
        if (noted == NULL) {
            return EXG_OUT_OF_MEMORY(err);
        }
        EXG_TRY(exg_stages_find(t->functional, t->operators, &t->goal, dim, count, known->arena,
                                noted, err));
        known->stages = noted;
    }
    *stages = *known->stages;
    return EXG_OK;
}

/* All micro-batches, and the rank's stages of them. */
static exg_status place_stages(const exg_placer *t, uint32_t dim, exg_arena *arena,
                               exg_text *report, exg_partition_summary *sum, exg_program **local,
                               exg_error *err)
{
    exg_pipeline_shape shape = exg_placer_shape(t, dim);
    uint32_t own = exg_mesh_shape_coordinate(t->mesh, t->rank, dim);
    exg_shard_pattern *all = EXG_NEW_ARRAY(arena, exg_shard_pattern, EXG_MESH_DIMS_MAX);
    exg_pipelined *batches = EXG_NEW_ARRAY(arena, exg_pipelined, shape.batches);
    exg_placement *outputs =
        EXG_NEW_ARRAY(arena, exg_placement, t->functional->graph->output_count);
    exg_stages stages;
    exg_status status;
    exg_placer with = *t;

    if (all == NULL || batches == NULL || outputs == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    with.stage_arena = arena;
    status = find_stages(t, dim, shape.stages, arena, &stages, err);
    for (uint32_t k = 0; status == EXG_OK && k < stages.count; k++) {
        shape.used = stages.nodes[k] > 0 ? k + 1 : shape.used;
    }
    for (uint32_t m = 0; status == EXG_OK && m < shape.batches; m++) {
        exg_partition_summary other;

        status = place_batch(&with, &shape, &stages, m, m == 0 ? report : NULL,
                             m == 0 ? sum : &other, outputs, &batches[m], err);
        if (status == EXG_OK && t->pattern != NULL) {
            join_patterns(t, all);
        }
    }
    if (t->pattern != NULL) {
        all[dim].by_rank = true;
        memcpy(t->pattern, all, sizeof(*all) * t->mesh->ndim);
    }
    status = status == EXG_OK ? exg_pipeline_build(t->functional, t->operators, &shape, own,
                                                   batches, outputs, local, err)
                              : status;
    status = status == EXG_OK
                 ? exg_partition_predict(*local, t->operators, &t->goal, t->mesh, sum, err)
                 : status;
    if (status == EXG_OK) {
        predict_stages(&stages, &shape, own, &t->goal.costs->links[dim], sum);
        sum->unsplit[dim] =
            sum->used_stages < 2 ? "the program has no two nodes to cut between" : NULL;
    }
    for (uint32_t m = 0; m < shape.batches; m++) {
        exg_program_destroy(batches[m].program);
    }
    return status;
}

/* Costs where stages wait for one another: of the ranks that share cores fewer compute at once. */
static exg_costs costs_of_stages(const exg_placer *t, uint32_t dim)
{
    exg_pipeline_shape shape = exg_placer_shape(t, dim);
    exg_costs own = *t->goal.costs;
    double ranks = 1;
    double busy;

    for (uint32_t d = 0; d < t->mesh->ndim; d++) {
        ranks *= t->mesh->sizes[d];
    }
    busy = ranks * shape.batches / exg_pipeline_ticks(&shape) * shape.stages / shape.ranks;
    exg_costs_scale(&own, exg_costs_sharing(&own, busy) / exg_costs_sharing(&own, ranks));
    return own;
}

static exg_status place_pipeline(const exg_placer *t, uint32_t dim, exg_text *report,
                                 exg_partition_summary *sum, exg_program **local, exg_error *err)
{
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    exg_costs costs = costs_of_stages(t, dim);
    exg_placer own = *t;
    exg_status status;

    own.goal.costs = &costs;
    status = arena == NULL ? EXG_OUT_OF_MEMORY(err)
                           : place_stages(&own, dim, arena, report, sum, local, err);

    exg_arena_destroy(arena);
    return status;
}

exg_status exg_placer_place(exg_placer *t, exg_text *report, exg_partition_summary *sum,
                            exg_program **local, exg_error *err)
{
    uint32_t dim = exg_placer_pipeline(t);
    exg_status status;

    *local = NULL;
    if (dim < t->mesh->ndim) {
        status = place_pipeline(t, dim, report, sum, local, err);
    } else {
        EXG_TRY(place_whole(t, report, sum, local, err));
        status = exg_partition_predict(*local, t->operators, &t->goal, t->mesh, sum, err);
    }
    if (status == EXG_OK) {
        status = exg_partition_footprint(*local, t->operators, sum, err);
    }
    if (status != EXG_OK) {
        exg_program_destroy(*local);
        *local = NULL;
    }
    return status;
}
