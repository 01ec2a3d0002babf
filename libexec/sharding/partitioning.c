/* partitioning.c - what placing is asked for, checked, and done. */
#include "libexec/sharding/cost.h"
#include "libexec/sharding/placer.h"
#include "libexport/base/options.h"
#include "libexport/base/require.h"
#include "libexport/operators/lower.h"
#include "libexport/program/uses.h"
#include "libexport/transform/simplify.h"

#include <inttypes.h>
#include <stdlib.h>

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
    const double work[] = {
#define EXG_COST(member, built_in) costs->member,
#include "libexec/sharding/costs.def"
#undef EXG_COST
    };

    EXG_TRY(check_times(work, sizeof(work) / sizeof(work[0]), err));
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
        own->mode != EXG_PARTITION_PIPELINE && own->mode != EXG_PARTITION_AUTO) {
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
    double ranks = 1;

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
    EXG_TRY(check_costs(&placing->costs, err));
    for (uint32_t d = 0; d < mesh->ndim; d++) {
        ranks *= mesh->sizes[d];
    }
    exg_costs_scale(&placing->costs, exg_costs_sharing(&placing->costs, ranks));
    return EXG_OK;
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
                                  UINT32_MAX, NULL, NULL, NULL, local, sum, report, err);
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

/* What ranks may have apart is written apart. */
static exg_status part_views(const exg_program *functional, const exg_operators *operators,
                             exg_program **apart, exg_error *err)
{
    exg_program *parted;
    exg_status status;

    EXG_TRY(exg_part_joined_views(functional, operators, &parted, err));
    status = exg_drop_dead(parted, operators, apart, err);
    exg_program_destroy(parted);
    return status;
}

/* Does the mode itself say how values lie, rather than a file or a cut between nodes? */
static bool is_by_mode(exg_partition_mode mode)
{
    return mode != EXG_PARTITION_REPLICATE && mode != EXG_PARTITION_PIPELINE &&
           mode != EXG_PARTITION_PATTERNS;
}

static bool splits_values(const exg_placer *t)
{
    bool any = false;

    for (uint32_t d = 0; d < t->mesh->ndim; d++) {
        any = any || (t->mesh->sizes[d] > 1 && is_by_mode(t->options[d].mode));
    }
    return any;
}

/* Are matrices of weights split along any mesh dim? Or may they be, where `maybe`. */
static bool splits_weights(const exg_placer *t, bool maybe)
{
    bool any = false;

    for (uint32_t d = 0; d < t->mesh->ndim; d++) {
        exg_partition_mode mode = t->options[d].mode;

        any = any || (t->mesh->sizes[d] > 1 &&
                      (mode == EXG_PARTITION_TENSOR || mode == EXG_PARTITION_EXPERT ||
                       (maybe && mode == EXG_PARTITION_AUTO)));
    }
    return any;
}

exg_status exg_partition_noting(const exg_program *functional, const exg_operators *operators,
                                const exg_partition_options *options,
                                const exg_partition_goal *goal, const exg_mesh_shape *mesh,
                                uint32_t rank, uint32_t named_inputs, exg_shard_pattern *pattern,
                                exg_choices *choices, const exg_local_parts *parts,
                                exg_program **local, exg_partition_summary *summary, char **report,
                                exg_error *err)
{
    exg_placer t = {.functional = functional,
                    .operators = operators,
                    .mesh = mesh,
                    .rank = rank,
                    .named_inputs = named_inputs,
                    .pattern = pattern,
                    .choices = choices,
                    .parts = parts};
    exg_text text = EXG_TEXT_EMPTY;
    bool by_cost[EXG_MESH_DIMS_MAX] = {false};
    exg_program *views = NULL; /* that are apart */
    exg_program *products = NULL;
    exg_status status = EXG_OK;

    *local = NULL;
    EXG_TRY(check_moves(functional, operators, err));
    t.goal = *goal;
    for (uint32_t d = 0; d < mesh->ndim; d++) {
        t.options[d] = options[d];
        by_cost[d] = options[d].mode == EXG_PARTITION_AUTO;
    }
    if (splits_values(&t)) {
        EXG_TRY(part_views(functional, operators, &views, err));
        t.functional = views;
    }
    if (splits_weights(&t, true)) {
        status = exg_take_products_apart(t.functional, operators, &products, err);
        t.functional = products == NULL ? t.functional : products;
    }
    status = status == EXG_OK ? exg_choose_modes(&t, err) : status;
    if (!splits_weights(&t, false)) {
        t.functional = splits_values(&t) ? views : functional;
    }
    if (status == EXG_OK) {
        status = exg_placer_place(&t, report == NULL ? NULL : &text, summary, local, err);
    }
    if (status == EXG_OK) {
        status = exg_check_memory(&t, summary, err);
    }
    if (status == EXG_OK && report != NULL && goal->compares) {
        exg_compare_modes(&t, by_cost, summary);
    }
    exg_program_destroy(views);
    exg_program_destroy(products);
    if (status != EXG_OK) {
        exg_program_destroy(*local);
        *local = NULL;
    }
    if (report != NULL) {
        *report = text.data;
    }
    return status;
}
