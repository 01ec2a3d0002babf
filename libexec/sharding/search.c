/* search.c - a program placed along every dim of a mesh; where the strategy is left open,
 * the one of least predicted time among those that fit into the memory.
 */
#include "libexec/comm/grid.h"
#include "libexec/sharding/partitioner.h"
#include "libexport/base/options.h"
#include "libexport/base/require.h"
#include "libexport/program/uses.h"

#include <inttypes.h>
#include <stdlib.h>
#include <xxhash.h>

/* Nodes times strategies that are tried together. */
#define TRIALS_MAX 2000000u

/* Ranks that are looked at before splitting a mesh of several dims unevenly. */
#define VARIANTS_MAX 16

typedef struct task {
    const exg_program *functional;
    const exg_operators *operators;
    const exg_mesh_shape *mesh;
    exg_partition_goal goal;
    uint32_t rank;
    uint32_t named_inputs;      /* that patterns speak of */
    bool even_only;             /* along all mesh dims but the last */
    exg_shard_pattern *pattern; /* by mesh dim; NULL: not noted */
    exg_partition_options options[EXG_MESH_DIMS_MAX];
} task;

static exg_status check_patterns(const exg_program *program, const exg_partition_options *options,
                                 exg_error *err)
{
    for (uint32_t t = 0; t < options->pattern_count; t++) {
        const exg_partition_pattern *pattern = &options->patterns[t];
        bool matched = false;

        for (uint32_t i = 0; i < program->signature.input_count; i++) {
            matched =
                matched || exg_partition_pattern_matches(pattern, &program->signature.inputs[i]);
        }
        if (!matched) {
            return exg_error_fix(err,
                                 EXG_FAIL(err, USAGE, "PLC-005", "pattern '%s' matches no %s",
                                          pattern->pattern,
                                          pattern->of_inputs ? "input" : "weight"),
                                 "exg inspect lists inputs and the names of weights");
        }
    }
    return EXG_OK;
}

exg_status exg_partition_check_patterns(const exg_program *program,
                                        const exg_partition_options *options, uint32_t ndim,
                                        exg_error *err)
{
    for (uint32_t d = 0; d < ndim; d++) {
        if (options[d].mode == EXG_PARTITION_PATTERNS) {
            EXG_TRY(check_patterns(program, &options[d], err));
        }
    }
    return EXG_OK;
}

static void add_summary(exg_partition_summary *sum, const exg_partition_summary *of, uint32_t dim)
{
    sum->modes[dim] = of->modes[dim];
    sum->split_count += of->split_count;
    sum->sharded_count += of->sharded_count;
    sum->partial_count += of->partial_count;
}

static void open_report(exg_text *report, const task *t, uint32_t dim, exg_partition_mode mode)
{
    if (t->goal.json) {
        exg_text_printf(report, "%s{\"dim\": %u, \"ranks\": %u, \"mode\": \"%s\", \"nodes\": [",
                        dim == 0 ? "[" : ",\n", dim, t->mesh->sizes[dim],
                        exg_partition_mode_name(mode));
    } else if (t->mesh->ndim > 1) {
        exg_text_printf(report, "mesh dim %u of %u ranks\n", dim, t->mesh->sizes[dim]);
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

/* Along every mesh dim, in modes that are not AUTO. *uneven: what a dim before the last left
 * is not of the same sizes on every rank. */
static exg_status place_dims(const task *t, exg_text *report, exg_partition_summary *sum,
                             bool *uneven, exg_program **local, exg_error *err)
{
    const exg_program *whole = t->functional;
    uint32_t last = last_dim(t->mesh);
    exg_status status = EXG_OK;

    *local = NULL;
    *uneven = false;
    *sum = (exg_partition_summary){0};
    for (uint32_t d = 0; status == EXG_OK && d < t->mesh->ndim; d++) {
        exg_partitioned_dim along = {d,
                                     t->mesh->sizes[d],
                                     exg_mesh_shape_coordinate(t->mesh, t->rank, d),
                                     t->named_inputs,
                                     t->even_only && d < last,
                                     false,
                                     t->pattern == NULL ? NULL : &t->pattern[d]};
        exg_partition_summary part;
        exg_program *made = NULL;

        if (along.pattern != NULL) {
            *along.pattern = (exg_shard_pattern){0};
        }
        if (report != NULL) {
            open_report(report, t, d, t->options[d].mode);
        }
        status = exg_partition_along(whole, t->operators, &t->options[d], &t->goal, &along, report,
                                     &part, &made, err);
        *uneven = *uneven || (along.uneven && d < last);
        if (status == EXG_OK) {
            add_summary(sum, &part, d);
        }
        if (report != NULL) {
            close_report(report, t, d);
        }
        exg_program_destroy(*local);
        *local = made;
        whole = made;
    }
    return status;
}

/* ---- the same decisions on every rank ---------------------------------------------------- */

/* Of the collectives in a program, by what must be alike on all ranks: not by sizes. */
static uint64_t order_of(const exg_program *local, const exg_operators *operators)
{
    uint64_t hash = 0;

    for (uint32_t i = 0; i < local->graph->node_count; i++) {
        const exg_operator *op = exg_operators_find(operators, local->graph->nodes[i].target);
        const exg_node *node = &local->graph->nodes[i];
        uint64_t words[4] = {hash, op == NULL ? 0 : (uint64_t)op->id};

        if (op == NULL || !exg_is_exchange(op->id)) {
            continue;
        }
        words[2] = node->inputs[1].arg.kind == EXG_ARGUMENT_INT
                       ? (uint64_t)node->inputs[1].arg.as_int
                       : (uint64_t)(unsigned char)node->inputs[1].arg.as_string[1];
        words[3] = (uint64_t)node->inputs[node->input_count - 1].arg.as_int;
        hash = XXH3_64bits(words, sizeof(words));
    }
    return hash;
}

/* Does every rank of an unevenly split mesh come to the same collectives? What is placed
 * along a dim is placed by the sizes that the dims before have left there. */
static exg_status ranks_agree(const task *t, bool *agree, exg_error *err)
{
    uint32_t size = exg_mesh_shape_size(t->mesh);
    uint32_t last = t->mesh->sizes[last_dim(t->mesh)];
    task trial = *t;
    uint64_t first = 0;

    trial.pattern = NULL;
    *agree = size / last <= VARIANTS_MAX;
    for (trial.rank = 0; *agree && trial.rank < size; trial.rank++) {
        exg_partition_summary summary;
        exg_program *program;
        uint64_t order;
        bool uneven;

        if (exg_mesh_shape_coordinate(t->mesh, trial.rank, last_dim(t->mesh)) != 0) {
            continue;
        }
        EXG_TRY(place_dims(&trial, NULL, &summary, &uneven, &program, err));
        order = order_of(program, t->operators);
        exg_program_destroy(program);
        first = trial.rank == 0 ? order : first;
        *agree = order == first;
    }
    return EXG_OK;
}

/* Splits unevenly where all ranks then issue the same collectives, else evenly alone. */
static exg_status place_as(const task *t, exg_text *report, exg_partition_summary *sum,
                           exg_program **local, exg_error *err)
{
    task even = *t;
    bool uneven;
    bool agree = true;
    exg_status status;

    EXG_TRY(place_dims(t, report, sum, &uneven, local, err));
    if (uneven) {
        status = ranks_agree(t, &agree, err);
        if (status != EXG_OK) {
            exg_program_destroy(*local);
            *local = NULL;
            return status;
        }
    }
    if (!agree) {
        exg_program_destroy(*local);
        even.even_only = true;
        if (report != NULL) {
            exg_text_free(report);
        }
        EXG_TRY(place_dims(&even, report, sum, &uneven, local, err));
    }
    status = exg_partition_predict(*local, t->operators, &t->goal, t->mesh, sum, err);
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

/* The next combination of modes for the dims of `open`; false: that was the last. */
static bool next_modes(task *t, const uint32_t *open, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        exg_partition_mode *mode = &t->options[open[i]].mode;

        if (++*mode < EXG_PARTITION_AUTO) {
            return true;
        }
        *mode = EXG_PARTITION_REPLICATE;
    }
    return false;
}

/* The best of all combinations of modes for the dims of `open`, from here on those of `t`. */
static exg_status choose_together(task *t, const uint32_t *open, uint32_t count, exg_error *err)
{
    task trial = *t;
    exg_partition_summary best = {0};
    bool found = false;

    trial.rank = 0; /* the same decision on every rank */
    for (uint32_t i = 0; i < count; i++) {
        trial.options[open[i]].mode = EXG_PARTITION_REPLICATE;
    }
    do {
        exg_partition_summary summary;
        exg_program *program;

        EXG_TRY(place_as(&trial, NULL, &summary, &program, err));
        exg_program_destroy(program);
        if (!found || is_better(t, &summary, &best)) {
            found = true;
            best = summary;
            for (uint32_t i = 0; i < count; i++) {
                t->options[open[i]].mode = trial.options[open[i]].mode;
            }
        }
    } while (next_modes(&trial, open, count));
    return EXG_OK;
}

static exg_status choose_modes(task *t, exg_error *err)
{
    uint32_t open[EXG_MESH_DIMS_MAX];
    uint32_t count = 0;
    double trials = t->functional->graph->node_count;

    for (uint32_t d = 0; d < t->mesh->ndim; d++) {
        if (t->options[d].mode == EXG_PARTITION_AUTO) {
            t->options[d].mode = EXG_PARTITION_REPLICATE;
            if (t->mesh->sizes[d] > 1) {
                open[count++] = d;
                trials *= EXG_PARTITION_AUTO;
            }
        }
    }
    if (count > 0 && trials <= TRIALS_MAX) {
        return choose_together(t, open, count, err);
    }
    for (uint32_t i = 0; i < count; i++) {
        EXG_TRY(choose_together(t, &open[i], 1, err));
    }
    return EXG_OK;
}

static exg_status check_pattern(const exg_partition_pattern *pattern, exg_error *err)
{
    EXG_REQUIRE(err, pattern->pattern);
    EXG_TRY(EXG_CHECK_CHOICE(pattern->placement.kind, EXG_PLACEMENT_KIND_COUNT - 1,
                             "placement.kind", err));
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
    *placing = (exg_partitioning){0};
    if (mesh->ndim > EXG_MESH_DIMS_MAX) {
        return EXG_FAIL(err, USAGE, "DTN-001", "a mesh of %u dims; 1 to %d", mesh->ndim,
                        EXG_MESH_DIMS_MAX);
    }
    for (uint32_t d = 0; options != NULL && d < mesh->ndim; d++) {
        EXG_TRY_IN(err, read_options(options, d, &placing->options[d], err), "partition[%u]", d);
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
    EXG_TRY(exg_partition_check_patterns(functional, placing.options, mesh->ndim, err));
    sum = calloc(1, sizeof(*sum));
    if (sum == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    status = exg_partition_noting(functional, operators, placing.options, &placing.goal, mesh, rank,
                                  UINT32_MAX, NULL, local, sum, report, err);
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
                                exg_program **local, exg_partition_summary *summary, char **report,
                                exg_error *err)
{
    task t = {.functional = functional,
              .operators = operators,
              .mesh = mesh,
              .rank = rank,
              .named_inputs = named_inputs,
              .pattern = pattern};
    exg_text text = EXG_TEXT_EMPTY;
    exg_status status;

    *local = NULL;
    EXG_TRY(check_moves(functional, operators, err));
    t.goal = *goal;
    for (uint32_t d = 0; d < mesh->ndim; d++) {
        t.options[d] = options[d];
    }
    EXG_TRY(choose_modes(&t, err));
    status = place_as(&t, report == NULL ? NULL : &text, summary, local, err);
    if (status == EXG_OK) {
        status = check_memory(&t, summary, err);
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
