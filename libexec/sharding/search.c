/* search.c - a program placed along every dim of a mesh; where the strategy is left open,
 * the one of least predicted time among those that fit into the memory.
 */
#include "libexec/comm/grid.h"
#include "libexec/sharding/pipeline.h"
#include "libexport/base/options.h"
#include "libexport/base/require.h"
#include "libexport/operators/lower.h"
#include "libexport/program/uses.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Nodes times strategies that are tried together. */
#define TRIALS_MAX 2000000u

/* Where one mesh dim is placed, of the moves along each earlier one. */
typedef exg_decisions decided[EXG_MESH_DIMS_MAX];

typedef struct task {
    const exg_program *functional;
    const exg_operators *operators;
    const exg_mesh_shape *mesh;
    exg_partition_goal goal;
    uint32_t rank;
    uint32_t named_inputs;      /* that patterns speak of */
    decided *decided;           /* by mesh dim; NULL: not noted */
    uint32_t followed;          /* of moves along the first so many dims they stand */
    exg_shard_pattern *pattern; /* by mesh dim; NULL: not noted */
    exg_choices *choices;       /* NULL: not noted */
    const uint32_t *stages;     /* by node of `functional`; NULL: it is no pipeline */
    const exg_stages *cut;
    exg_arena *stage_arena;
    uint32_t *placed_stages; /* out: by node of what is placed */
    exg_partition_options options[EXG_MESH_DIMS_MAX];
} task;

static void add_summary(exg_partition_summary *sum, const exg_partition_summary *of, uint32_t dim)
{
    sum->modes[dim] = of->modes[dim];
    sum->unsplit[dim] = of->unsplit[dim];
    sum->split_count += of->split_count;
    sum->sharded_count += of->sharded_count;
    sum->partial_count += of->partial_count;
}

static void report_stages(exg_text *report, const task *t)
{
    for (uint32_t s = 0; s < t->cut->count; s++) {
        const exg_stages *of = t->cut;

        exg_text_printf(report,
                        t->goal.json ? "%s{\"nodes\": %u, \"weight_bytes\": %.0f, \"ns\": %.0f, "
                                       "\"sent_bytes\": %.0f}"
                                     : "%sstage: %u nodes, weights %.0f bytes, %.0f ns, sends %.0f "
                                       "bytes\n",
                        s > 0 && t->goal.json ? ", " : "", of->nodes[s], of->weight_bytes[s],
                        of->ns[s], of->sent_bytes[s]);
    }
}

static void open_report(exg_text *report, const task *t, uint32_t dim, exg_partition_mode mode)
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

static void close_report(exg_text *report, const task *t, uint32_t dim)
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

/* Along mesh dim `d`, what the dims before have left. *uneven: it is not of the same sizes on every
 * rank, and there are dims behind. */
static exg_status place_dim(const task *t, uint32_t d, const exg_program *whole, exg_text *report,
                            exg_partition_summary *sum, bool *uneven, exg_stage_notes *stages,
                            exg_program **made, exg_error *err)
{
    exg_partitioned_dim along = {
        .dim = d,
        .whole = t->functional,
        .size = t->mesh->sizes[d],
        .place = exg_mesh_shape_coordinate(t->mesh, t->rank, d),
        .named_inputs = t->named_inputs,
        .decisions = t->decided == NULL ? NULL : t->decided[d],
        .followed = t->followed,
        .pattern = t->pattern == NULL ? NULL : &t->pattern[d],
        .choices = t->choices,
        .before = t->rank - t->rank % (exg_mesh_shape_stride(t->mesh, d) * t->mesh->sizes[d]),
        .stages = *stages,
    };
    exg_partition_summary part;
    exg_status status;

    if (along.pattern != NULL) {
        *along.pattern = (exg_shard_pattern){0};
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
static exg_status place_dims(task *t, exg_text *report, exg_partition_summary *sum, bool *uneven,
                             exg_program **local, exg_error *err)
{
    exg_stage_notes stages = {.of = t->stages, .arena = t->stage_arena};
    exg_status status = EXG_OK;

    *local = NULL;
    *uneven = false;
    *sum = (exg_partition_summary){0};
    for (uint32_t d = 0; status == EXG_OK && d < t->mesh->ndim; d++) {
        exg_program *made = NULL;

        status = place_dim(t, d, *local == NULL ? t->functional : *local, report, sum, uneven,
                           &stages, &made, err);
        stages = (exg_stage_notes){.of = stages.made, .arena = t->stage_arena};
        exg_program_destroy(*local);
        *local = made;
    }
    t->placed_stages = (uint32_t *)(uintptr_t)stages.of;
    return status;
}

/* ---- the same decisions on every rank ---------------------------------------------------- */

/* From here on decisions are noted of the moves along dims that are not followed. */
static void note_decisions(task *t, decided *by_dim, uint32_t followed, exg_arena *arena)
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
static exg_status place_following(task *t, exg_text *report, exg_partition_summary *sum,
                                  exg_program **local, exg_error *err)
{
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    decided *by_dim = arena == NULL ? NULL : EXG_NEW_ARRAY(arena, decided, t->mesh->ndim);
    exg_status status = by_dim == NULL ? EXG_OUT_OF_MEMORY(err) : EXG_OK;
    task leader = *t;
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
static exg_status place_whole(task *t, exg_text *report, exg_partition_summary *sum,
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

/* The mesh dim along which it is one; ndim: none. */
static uint32_t pipeline_dim(const task *t)
{
    uint32_t d = 0;

    while (d < t->mesh->ndim && t->options[d].mode != EXG_PARTITION_PIPELINE) {
        d++;
    }
    return d;
}

/* Lengths that were cut in one micro-batch, added to those of the others. */
static void join_patterns(const task *t, exg_shard_pattern *all)
{
    for (uint32_t d = 0; d < t->mesh->ndim; d++) {
        for (uint32_t i = 0; i < t->pattern[d].count; i++) {
            exg_shard_pattern_note(&all[d], t->pattern[d].lengths[i]);
        }
        all[d].by_rank = all[d].by_rank || t->pattern[d].by_rank;
    }
}

/* Micro-batch `m`, placed along the other dims. */
static exg_status place_batch(const task *t, const exg_pipeline_shape *shape,
                              const exg_stages *stages, uint32_t m, exg_text *report,
                              exg_partition_summary *sum, exg_placement *outputs,
                              exg_pipelined *batch, exg_error *err)
{
    exg_program *rows = NULL;
    uint32_t *of_rows = stages->of_nodes;
    exg_status status = EXG_OK;
    task own = *t;

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
 * are compared by the whole program's work in them. */
static void predict_stages(const exg_stages *stages, const exg_pipeline_shape *shape, uint32_t rank,
                           exg_partition_summary *sum)
{
    double own = 0;
    double longest = 0;

    for (uint32_t s = 0; s < stages->count; s++) {
        longest = stages->ns[s] > longest ? stages->ns[s] : longest;
        own += s % shape->ranks == rank ? stages->ns[s] : 0;
        sum->used_stages += stages->nodes[s] > 0;
    }
    sum->stages = stages->count;
    sum->microbatches = shape->batches;
    longest *= own > 0 && sum->work_ns > 0 ? sum->work_ns / own : 1; /* all rows of it */
    sum->bubble_ns = fmax(exg_pipeline_ticks(shape) * longest / shape->batches - sum->work_ns, 0);
    sum->predicted_ns += sum->bubble_ns;
}

static exg_pipeline_shape shape_of(const task *t, uint32_t dim)
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

/* All micro-batches, and the rank's stages of them. */
static exg_status place_stages(const task *t, uint32_t dim, exg_arena *arena, exg_text *report,
                               exg_partition_summary *sum, exg_program **local, exg_error *err)
{
    exg_pipeline_shape shape = shape_of(t, dim);
    uint32_t own = exg_mesh_shape_coordinate(t->mesh, t->rank, dim);
    exg_shard_pattern *all = EXG_NEW_ARRAY(arena, exg_shard_pattern, EXG_MESH_DIMS_MAX);
    exg_pipelined *batches = EXG_NEW_ARRAY(arena, exg_pipelined, shape.batches);
    exg_placement *outputs =
        EXG_NEW_ARRAY(arena, exg_placement, t->functional->graph->output_count);
    exg_stages stages;
    exg_status status;
    task with = *t;

    if (all == NULL || batches == NULL || outputs == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    with.stage_arena = arena;
    status = exg_stages_find(t->functional, t->operators, &t->goal, dim, shape.stages, arena,
                             &stages, err);
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
    status = status == EXG_OK ? exg_pipeline_build(t->functional, t->operators, &t->goal, &shape,
                                                   own, batches, outputs, local, err)
                              : status;
    status = status == EXG_OK
                 ? exg_partition_predict(*local, t->operators, &t->goal, t->mesh, sum, err)
                 : status;
    if (status == EXG_OK) {
        predict_stages(&stages, &shape, own, sum);
        sum->unsplit[dim] =
            sum->used_stages < 2 ? "the program has no two nodes to cut between" : NULL;
    }
    for (uint32_t m = 0; m < shape.batches; m++) {
        exg_program_destroy(batches[m].program);
    }
    return status;
}

static exg_status place_pipeline(const task *t, uint32_t dim, exg_text *report,
                                 exg_partition_summary *sum, exg_program **local, exg_error *err)
{
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    exg_status status = arena == NULL ? EXG_OUT_OF_MEMORY(err)
                                      : place_stages(t, dim, arena, report, sum, local, err);

    exg_arena_destroy(arena);
    return status;
}

static exg_status place_as(task *t, exg_text *report, exg_partition_summary *sum,
                           exg_program **local, exg_error *err)
{
    uint32_t dim = pipeline_dim(t);
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

/* ---- where the strategy is left open --------------------------------------------------- */

static uint64_t memory_of(const exg_partition_summary *summary)
{
    return summary->weight_bytes + summary->value_bytes;
}

static bool fits(const task *t, const exg_partition_summary *summary)
{
    return t->goal.memory_limit == 0 || memory_of(summary) <= t->goal.memory_limit;
}

static exg_status check_memory(const task *t, const exg_partition_summary *summary, exg_error *err)
{
    return fits(t, summary)
               ? EXG_OK
               : exg_error_fix(err,
                               EXG_FAIL(err, LIMIT, "PLC-009",
                                        "a rank needs %" PRIu64
                                        " bytes for weights and values, and may take %" PRIu64,
                                        memory_of(summary), t->goal.memory_limit),
                               "use more ranks, or another placement (fsdp needs the least)");
}

/* The better one fits, and is faster; where none fits it is smaller. Ties go to the earlier. */
static bool is_better(const task *t, const exg_partition_summary *a, const exg_partition_summary *b)
{
    if (fits(t, a) != fits(t, b)) {
        return fits(t, a);
    }
    return fits(t, a) ? a->predicted_ns < b->predicted_ns : memory_of(a) < memory_of(b);
}

/* A search for the best of all combinations of modes for the dims that are open. */
typedef struct choosing {
    task trial;
    bool open[EXG_MESH_DIMS_MAX];
    bool experts; /* are there any? */
    bool found;
    exg_partition_summary best; /* and its modes */
    exg_error *err;
} choosing;

static bool is_tried(const choosing *c, uint32_t d, exg_partition_mode mode)
{
    return mode != EXG_PARTITION_AUTO && mode != EXG_PARTITION_PIPELINE &&
           (mode != EXG_PARTITION_EXPERT || c->experts) &&
           (mode == EXG_PARTITION_REPLICATE || c->trial.mesh->sizes[d] > 1);
}

/* Of the dims from `d` on; those before are placed, which left `whole`. */
static exg_status choose_from(choosing *c, uint32_t d, const exg_program *whole,
                              const exg_partition_summary *sum)
{
    task *t = &c->trial;

    if (d == t->mesh->ndim) {
        exg_partition_summary summary = *sum;

        EXG_TRY(exg_partition_predict(whole, t->operators, &t->goal, t->mesh, &summary, c->err));
        EXG_TRY(exg_partition_footprint(whole, t->operators, &summary, c->err));
        if (!c->found || is_better(t, &summary, &c->best)) {
            c->found = true;
            c->best = summary;
        }
        return EXG_OK;
    }
    const exg_partition_mode given = t->options[d].mode;

    for (exg_partition_mode mode = c->open[d] ? EXG_PARTITION_REPLICATE : given;
         mode <= (c->open[d] ? EXG_PARTITION_AUTO : given); mode++) {
        exg_partition_summary with = *sum;
        exg_program *made = NULL;
        bool uneven = false;
        exg_status status;

        if (c->open[d] && !is_tried(c, d, mode)) {
            continue;
        }
        t->options[d].mode = mode;
        status = place_dim(t, d, whole, NULL, &with, &uneven, &(exg_stage_notes){0}, &made, c->err);
        status = status == EXG_OK ? choose_from(c, d + 1, made, &with) : status;
        exg_program_destroy(made);
        EXG_TRY(status);
    }
    t->options[d].mode = given;
    return EXG_OK;
}

/* The best of all combinations, from here on those of `t`. */
static exg_status choose_together(task *t, const bool *open, bool experts, exg_error *err)
{
    choosing c = {.trial = *t, .experts = experts, .err = err};

    c.trial.rank = 0; /* the same decision on every rank */
    c.trial.choices = NULL;
    memcpy(c.open, open, sizeof(c.open));
    EXG_TRY(choose_from(&c, 0, t->functional, &(exg_partition_summary){0}));
    for (uint32_t d = 0; d < t->mesh->ndim; d++) {
        t->options[d].mode = open[d] ? c.best.modes[d] : t->options[d].mode;
    }
    return EXG_OK;
}

static exg_status choose_modes(task *t, exg_error *err)
{
    bool open[EXG_MESH_DIMS_MAX] = {false};
    bool experts = false;
    uint32_t count = 0;
    double trials = t->functional->graph->node_count;

    for (uint32_t d = 0; d < t->mesh->ndim; d++) {
        open[d] = t->options[d].mode == EXG_PARTITION_AUTO;
        t->options[d].mode = open[d] ? EXG_PARTITION_REPLICATE : t->options[d].mode;
        open[d] = open[d] && t->mesh->sizes[d] > 1;
        count += open[d];
        trials *= open[d] ? EXG_PARTITION_AUTO : 1;
    }
    if (count == 0) {
        return EXG_OK;
    }
    EXG_TRY(exg_find_experts(t->functional, t->operators, &experts, err));
    if (trials <= TRIALS_MAX) {
        return choose_together(t, open, experts, err);
    }
    for (uint32_t d = 0; d < t->mesh->ndim; d++) {
        bool alone[EXG_MESH_DIMS_MAX] = {false};

        alone[d] = open[d];
        EXG_TRY(open[d] ? choose_together(t, alone, experts, err) : EXG_OK);
    }
    return EXG_OK;
}

/* Nodes times dims for which others are tried: it should not be waited for. */
#define COMPARED_MAX 5000u

/* One other mode along one mesh dim: is any better? What cannot be placed so is left out. */
static void compare_modes(const task *t, const bool *decided_by_cost, exg_partition_summary *best)
{
    uint32_t tried =
        t->functional->graph->node_count > COMPARED_MAX / t->mesh->ndim ? 0 : t->mesh->ndim;

    for (uint32_t d = 0; d < tried; d++) {
        for (exg_partition_mode mode = EXG_PARTITION_REPLICATE;
             !decided_by_cost[d] && t->mesh->sizes[d] > 1 && mode < EXG_PARTITION_AUTO; mode++) {
            exg_partition_summary other = {0};
            exg_program *local = NULL;
            exg_error err;
            task trial = *t;

            trial.rank = 0;
            trial.pattern = NULL;
            trial.choices = NULL;
            trial.options[d] =
                (exg_partition_options){.size = sizeof(trial.options[d]), .mode = mode};
            if (mode == t->options[d].mode || mode == EXG_PARTITION_PIPELINE ||
                place_as(&trial, NULL, &other, &local, &err) != EXG_OK) {
                continue;
            }
            exg_program_destroy(local);
            if (fits(t, &other) && other.predicted_ns < best->predicted_ns &&
                (best->cheaper_ns == 0 || other.predicted_ns < best->cheaper_ns)) {
                best->cheaper_ns = other.predicted_ns;
                best->cheaper_bytes = memory_of(&other);
                memcpy(best->cheaper_modes, other.modes, sizeof(other.modes));
            }
        }
    }
}

static exg_status check_pattern(const exg_partition_pattern *pattern, exg_error *err)
{
    EXG_REQUIRE(err, pattern->pattern);
    EXG_TRY(EXG_CHECK_CHOICE(pattern->placement.kind, EXG_PLACEMENT_KIND_COUNT - 1,
                             "placement.kind", err));
    EXG_TRY(EXG_CHECK_CHOICE(pattern->of, EXG_PARTITION_MODULES, "of", err));
    return EXG_CHECK_CHOICE(pattern->placement.op, EXG_REDUCE_OP_COUNT - 1, "placement.op", err);
}

/* Sums of times stay far from what means that there is no way. */
#define TIME_MAX 1e18

static exg_status check_times(const double *times, uint32_t count, exg_error *err)
{
    for (uint32_t i = 0; i < count; i++) {
        if (!(times[i] >= 0 && times[i] <= TIME_MAX)) {
            return EXG_FAIL(err, USAGE, "PLC-010", "goal.costs: a time of %g ns", times[i]);
        }
    }
    return EXG_OK;
}

static exg_status check_costs(const exg_costs *costs, exg_error *err)
{
    EXG_TRY(check_times((const double[]){costs->ns_per_flop, costs->ns_per_touched}, 2, err));
    for (uint32_t d = 0; d < EXG_MESH_DIMS_MAX; d++) {
        const exg_link *link = &costs->links[d];

        EXG_TRY(check_times((const double[]){link->message_ns, link->ns_per_byte}, 2, err));
    }
    return EXG_OK;
}

/* The struct for mesh dim `d`: each of the row is as large as the first one says. */
static exg_status read_options(const exg_partition_options *first, uint32_t d,
                               exg_partition_options *own, exg_error *err)
{
    const exg_partition_options *given =
        (const exg_partition_options *)((const char *)first + d * first->size);

    EXG_TRY(EXG_READ_OPTIONS(exg_partition_options, own, given, err));
    if (given->size != first->size) {
        return exg_error_fix(err,
                             EXG_FAIL(err, USAGE, "OPT-001",
                                      "exg_partition_options.size is %zu, and %zu in the first",
                                      given->size, first->size),
                             "set it to sizeof(exg_partition_options) in each");
    }
    EXG_TRY(EXG_CHECK_CHOICE(own->mode, EXG_PARTITION_PATTERNS, "mode", err));
    if ((own->microbatches > 0 || own->stages_per_rank > 0) &&
        own->mode != EXG_PARTITION_PIPELINE) {
        return exg_error_fix(err,
                             EXG_FAIL(err, USAGE, "PLC-011",
                                      "micro-batches, or stages of a rank, where the mode is %s",
                                      exg_partition_mode_name(own->mode)),
                             "they are of a pipeline: place one mesh dim so, or leave them out");
    }
    EXG_REQUIRE(err, EXG_IF_ANY(own->pattern_count, own->patterns));
    for (uint32_t i = 0; i < own->pattern_count; i++) {
        EXG_TRY_IN(err, check_pattern(&own->patterns[i], err), "patterns[%u]", i);
    }
    return EXG_OK;
}

exg_status exg_partitioning_read(exg_partitioning *placing, const exg_partition_options *options,
                                 const exg_partition_goal *goal, const exg_mesh_shape *mesh,
                                 exg_error *err)
{
    uint32_t pipelines = 0;

    *placing = (exg_partitioning){0};
    if (mesh->ndim > EXG_MESH_DIMS_MAX) {
        return EXG_FAIL(err, USAGE, "DTN-001", "a mesh of %u dims; 1 to %d", mesh->ndim,
                        EXG_MESH_DIMS_MAX);
    }
    for (uint32_t d = 0; options != NULL && d < mesh->ndim; d++) {
        EXG_TRY_IN(err, read_options(options, d, &placing->options[d], err), "partition[%u]", d);
        pipelines += placing->options[d].mode == EXG_PARTITION_PIPELINE;
    }
    if (pipelines > 1) {
        return exg_error_fix(
            err, EXG_FAIL(err, USAGE, "PLC-011", "a pipeline along %u mesh dims", pipelines),
            "name pipeline for one mesh dim: pipeline,tensor");
    }
    EXG_TRY_IN(err, EXG_READ_OPTIONS(exg_partition_goal, &placing->goal, goal, err), "goal");
    exg_costs_init(&placing->costs, sizeof(placing->costs));
    EXG_TRY_IN(err, EXG_READ_OPTIONS(exg_costs, &placing->costs, placing->goal.costs, err),
               "goal.costs");
    placing->goal.costs = &placing->costs;
    return check_costs(&placing->costs, err);
}

static exg_status check_rank(const exg_mesh_shape *mesh, uint32_t rank, exg_error *err)
{
    uint64_t ranks = 1;

    for (uint32_t d = 0; d < mesh->ndim && ranks > 0 && ranks <= UINT32_MAX; d++) {
        ranks *= mesh->sizes[d];
    }
    return rank < ranks ? EXG_OK
                        : EXG_FAIL(err, USAGE, "PLC-008", "rank %u of a mesh of %" PRIu64 " ranks",
                                   rank, ranks);
}

exg_status exg_partition(const exg_program *functional, const exg_operators *operators,
                         const exg_partition_options *options, const exg_partition_goal *goal,
                         const exg_mesh_shape *mesh, uint32_t rank, exg_program **local,
                         exg_partition_summary **summary, char **report, exg_error *err)
{
    EXG_REQUIRE(err, functional, operators, mesh, local);
    exg_partition_summary *sum;
    exg_partitioning placing;
    exg_status status;

    *local = NULL;
    EXG_REQUIRE(err, EXG_IF_ANY(mesh->ndim, options));
    EXG_TRY(exg_partitioning_read(&placing, options, goal, mesh, err));
    EXG_TRY(check_rank(mesh, rank, err));
    EXG_TRY(exg_check_specialized(functional, err));
    EXG_TRY(exg_partition_check_patterns(functional, operators, placing.options, mesh->ndim, err));
    sum = calloc(1, sizeof(*sum));
    if (sum == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    status = exg_partition_noting(functional, operators, placing.options, &placing.goal, mesh, rank,
                                  UINT32_MAX, NULL, NULL, local, sum, report, err);
    sum->size = sizeof(*sum);
    if (status == EXG_OK && summary != NULL) {
        *summary = sum;
    } else {
        free(sum);
    }
    return status;
}

/* Placing puts the moves in; what a file says of ranks was made for no mesh that is known here. */
static exg_status check_moves(const exg_program *functional, const exg_operators *operators,
                              exg_error *err)
{
    for (uint32_t n = 0; n < functional->graph->node_count; n++) {
        const char *target = functional->graph->nodes[n].target;
        const exg_operator *op = exg_operators_find(operators, target);

        if (op != NULL && exg_is_exchange(op->id)) {
            return EXG_FAIL(err, UNSUPPORTED, "PLC-002",
                            "%s: a program that moves between ranks is not placed again", target);
        }
    }
    return EXG_OK;
}

exg_status exg_partition_noting(const exg_program *functional, const exg_operators *operators,
                                const exg_partition_options *options,
                                const exg_partition_goal *goal, const exg_mesh_shape *mesh,
                                uint32_t rank, uint32_t named_inputs, exg_shard_pattern *pattern,
                                exg_choices *choices, exg_program **local,
                                exg_partition_summary *summary, char **report, exg_error *err)
{
    task t = {.functional = functional,
              .operators = operators,
              .mesh = mesh,
              .rank = rank,
              .named_inputs = named_inputs,
              .pattern = pattern,
              .choices = choices};
    exg_text text = EXG_TEXT_EMPTY;
    bool by_cost[EXG_MESH_DIMS_MAX] = {false};
    exg_status status;

    *local = NULL;
    EXG_TRY(check_moves(functional, operators, err));
    t.goal = *goal;
    for (uint32_t d = 0; d < mesh->ndim; d++) {
        t.options[d] = options[d];
        by_cost[d] = options[d].mode == EXG_PARTITION_AUTO;
    }
    EXG_TRY(choose_modes(&t, err));
    status = place_as(&t, report == NULL ? NULL : &text, summary, local, err);
    if (status == EXG_OK) {
        status = check_memory(&t, summary, err);
    }
    if (status == EXG_OK && report != NULL && goal->compares) {
        compare_modes(&t, by_cost, summary);
    }
    if (status != EXG_OK) {
        exg_program_destroy(*local);
        *local = NULL;
    }
    if (report != NULL) {
        *report = text.data;
    }
    return status;
}
