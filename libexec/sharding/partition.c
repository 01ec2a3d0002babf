/* partition.c - placements for every value along one mesh dim, greedily, and the local program
 * they make.
 *
 * A value may be at hand in several forms (replicated, split, summands); a move
 * makes a new form, which later operands find. For each node the row of least
 * moving cost is taken, the first among equals; in tensor mode rows are chosen for all
 * nodes together (beam.c).
 */
#include "libexec/sharding/partitioner.h"
#include "libexport/operators/lower.h"
#include <exg/emit.h>

#include <string.h>

typedef exg_partitioner partitioner;
typedef exg_form form;
typedef exg_forms forms;

const char *exg_partition_mode_name(exg_partition_mode mode)
{
    static const char *const names[] = {"replicate", "data",    "tensor",   "fsdp", "sequence",
                                        "expert",    "context", "pipeline", "auto", "patterns"};

    return (unsigned)mode < sizeof(names) / sizeof(names[0]) ? names[mode] : "?";
}

static const exg_tensor_meta *meta_of(const partitioner *p, exg_value_id id)
{
    return p->r.in->graph->values[id].tensor;
}

/* ---- choosing a strategy ----------------------------------------------------------------- */

static bool has_form(const partitioner *p, exg_value_id id, exg_placement placement)
{
    for (uint32_t i = 0; i < p->forms[id].count; i++) {
        if (exg_same_place(p->forms[id].items[i].placement, placement)) {
            return true;
        }
    }
    return false;
}

/* Nothing is moved to be split along a dimension shorter than the mesh. What every rank has whole
 * may be cut so: it follows an operand that is, where that is least moved. */
static bool splittable(const partitioner *p, exg_value_id id, exg_placement want)
{
    const exg_tensor_meta *meta = meta_of(p, id);

    return want.kind != EXG_SHARD || meta->sizes[want.dim].value >= (int64_t)p->n ||
           has_form(p, id, want) || has_form(p, id, exg_replicate());
}

/* The collectives inside a strategy that is emitted otherwise than the operator itself. */
static double inner_cost(const partitioner *p, const exg_strategy *strategy)
{
    const exg_link *link = &p->costs->links[p->mesh_dim];

    return strategy->reduces * exg_link_cost(p, exg_partial(EXG_REDUCE_SUM), exg_replicate(),
                                             strategy->reduced_bytes) +
           strategy->gathers *
               exg_link_cost(p, exg_shard(0), exg_replicate(), strategy->reduced_bytes) +
           strategy->halos * link->message_ns +
           (strategy->halo_bytes + (p->overlaps ? 0 : strategy->beside_bytes)) * link->ns_per_byte +
           strategy->touched_bytes * p->costs->ns_per_touched;
}

/* Are all operands there are made of weights kept in pieces? */
static bool all_in_pieces(const partitioner *p, const exg_value_id *operands, uint32_t count)
{
    bool all = true;
    bool some = false;

    for (uint32_t i = 0; i < count; i++) {
        bool there = operands[i] != EXG_NO_VALUE;

        some = some || there;
        all = all && (!there || p->forms[operands[i]].in_pieces);
    }
    return all && some;
}

#define WORTH 4 /* times as much as what is moved instead */

/* A weight in pieces is read where they lie, not made whole, where few rows of a table are looked
 * up, or few multiplied, for those to go round instead. `sum`: what moves of operands cost. */
static bool stays_in_pieces(const partitioner *p, const exg_rule_call *call,
                            const exg_strategy *strategy, const exg_value_id *operands, double sum)
{
    uint32_t of = 0; /* the table */
    uint32_t other;

    if ((call->op->id != EXG_OP_embedding_default &&
         !exg_product_operands(call->op->id, &other, &of)) ||
        operands[of] == EXG_NO_VALUE || !p->forms[operands[of]].in_pieces) {
        return false;
    }
    sum += exg_link_cost(p, strategy->results[0], exg_shard(0), exg_meta_bytes(call->results[0]));
    return sum * WORTH < exg_link_cost(p, exg_shard(0), exg_replicate(),
                                       exg_meta_bytes(meta_of(p, operands[of])));
}

static double strategy_cost(const partitioner *p, const exg_rule_call *call,
                            const exg_strategy *strategy, const exg_value_id *operands)
{
    uint32_t count = call->operand_count;
    bool only_pieces = all_in_pieces(p, operands, count);
    bool reads_pieces = false;
    double sum = 0;

    for (uint32_t i = 0; i < count; i++) {
        double cost;

        if (operands[i] == EXG_NO_VALUE) {
            continue;
        }
        reads_pieces = reads_pieces || (p->forms[operands[i]].in_pieces && !only_pieces &&
                                        strategy->operands[i].kind != EXG_REPLICATE);
        if (!splittable(p, operands[i], strategy->operands[i]) ||
            exg_cheapest_form(p, operands[i], strategy->operands[i], &cost) == NULL) {
            return EXG_COST_IMPOSSIBLE;
        }
        sum += cost;
    }
    if (reads_pieces && !stays_in_pieces(p, call, strategy, operands, sum)) {
        return EXG_COST_IMPOSSIBLE;
    }
    if (sum > 0 && call->result_count > 0 && strategy->results[0].kind == EXG_PARTIAL &&
        call->op->id == EXG_OP_convolution_default) { /* what is moved for sums is summed, too */
        sum +=
            exg_link_cost(p, strategy->results[0], exg_shard(0), exg_meta_bytes(call->results[0]));
    }
    return sum + inner_cost(p, strategy);
}

/* A move along an earlier mesh dim: its operand is placed as the ranks that meet there decided. */
static exg_status follow_decisions(partitioner *p, const exg_rule_call *call,
                                   const exg_strategy **strategy)
{
    exg_placement operand;

    if (p->decisions == NULL || !exg_is_exchange(call->op->id)) {
        return EXG_OK;
    }
    operand = (*strategy)->operands[0];
    EXG_TRY(exg_follow_decision(
        p, (uint32_t)exg_get_int(&call->args[call->op->schema->argument_count - 1]), &operand));
    for (uint32_t r = 0; r < call->strategy_count; r++) {
        if (exg_placement_equal(call->strategies[r].operands[0], operand)) {
            *strategy = &call->strategies[r];
            return EXG_OK;
        }
    }
    return exg_no_such_move(p);
}

static const exg_strategy *choose_strategy(partitioner *p, const exg_rule_call *call,
                                           const exg_value_id *operands)
{
    const exg_strategy *best = NULL;
    double least = EXG_COST_IMPOSSIBLE;

    p->why = call->strategy_count == 1 ? "no rule splits the operator" : "the least moved";
    for (uint32_t r = 0; r < call->strategy_count; r++) {
        double cost = strategy_cost(p, call, &call->strategies[r], operands);

        least = cost < least ? cost : least;
    }
    for (uint32_t r = 0; best == NULL && r < call->strategy_count; r++) {
        if (strategy_cost(p, call, &call->strategies[r], operands) <= least) {
            best = &call->strategies[r];
        }
    }
    return best;
}

/* ---- what patterns say --------------------------------------------------------------- */

#define RUNS_MAX 256 /* that are not equal: each is gathered by itself */

/* Whole, or along a dim that is there, counted from the first; of a weight in pieces too, one of
 * each of so many runs. */
static exg_status settle_placement(partitioner *p, const exg_tensor_meta *meta, const char *name,
                                   bool is_weight, exg_placement *placement)
{
    int32_t dim = placement->dim + (placement->dim < 0 ? (int32_t)meta->rank : 0);
    int32_t runs = placement->kind == EXG_STRIDED_SHARD ? placement->split_factor : 1;

    if (placement->kind == EXG_REPLICATE) {
        return EXG_OK;
    }
    if (!exg_placement_is_shard(*placement) || runs < 1 || (runs > 1 && !is_weight) || dim < 0 ||
        dim >= (int32_t)meta->rank || (runs > RUNS_MAX && meta->sizes[dim].value % runs != 0)) {
        char text[EXG_PLACEMENT_TEXT];

        return exg_error_fix(p->r.err,
                             EXG_FAIL(p->r.err, USAGE, "PLC-004",
                                      "'%s' of rank %u cannot be placed as %s", name, meta->rank,
                                      exg_placement_print(*placement, text)),
                             is_weight ? "write R, S(dim) or _S(dim, split factor) of a dim that "
                                         "is there"
                                       : "write R, or S(dim) of a dim that is there");
    }
    *placement = runs == 1 ? exg_shard(dim) : exg_strided_shard(dim, runs);
    return EXG_OK;
}

/* From here on the value is placed so, and in no other form. */
static exg_status constrain(partitioner *p, exg_value_id id, const exg_partition_pattern *pattern)
{
    exg_placement placement;
    exg_ref ref;

    if (pattern == NULL) {
        return EXG_OK;
    }
    placement = pattern->placement;
    EXG_TRY(settle_placement(p, meta_of(p, id), pattern->pattern, false, &placement));
    p->why = "the placement says so";
    EXG_TRY(exg_in_form(p, id, placement, &ref));
    p->forms[id].count = 0;
    exg_add_form(p, id, placement, ref);
    return EXG_OK;
}

/* ---- nodes -------------------------------------------------------------------------- */

/* Channels in parts are whole groups. */
static void localize_groups(const partitioner *p, exg_argument *args, const exg_tensor_meta *result,
                            exg_placement placement)
{
    int64_t groups = exg_get_int(&args[8]);
    bool batched = result->rank == exg_ref_meta(p->r.builder, exg_get_ref(&args[1]))->rank;

    if (groups > 1 && placement.dim == (batched ? 1 : 0)) {
        int64_t all = result->sizes[placement.dim].value;

        args[8] = exg_arg_int(exg_own_size(p, result, placement) * groups / all);
    }
}

/* Sizes among the arguments are made this rank's own: what the node's result has. */
static void localize_sizes(partitioner *p, const exg_operator *op, exg_argument *args,
                           const exg_tensor_meta *result, exg_placement placement)
{
    int64_t sizes[EXG_SHAPE_RANK_MAX];

    if (placement.kind != EXG_SHARD) {
        return;
    }
    if (op->id == EXG_OP_view_default || op->id == EXG_OP_expand_default) {
        for (uint32_t d = 0; d < result->rank; d++) {
            sizes[d] = (int32_t)d == placement.dim ? exg_own_size(p, result, placement)
                                                   : result->sizes[d].value;
        }
        args[1] = INTS_OF(p->r.builder, sizes, result->rank);
    } else if (op->id == EXG_OP_native_group_norm_default) {
        args[3] = exg_arg_int(exg_own_size(p, result, exg_shard(0)));
    } else if (op->id == EXG_OP_convolution_default || op->id == EXG_OP_convolution_of_bytes) {
        localize_groups(p, args, result, placement);
    }
}

/* A local result has the sizes its placement says: the net under every rule. */
static exg_status check_result(partitioner *p, exg_value_id id, exg_placement placement,
                               exg_ref ref)
{
    const exg_tensor_meta *global = meta_of(p, id);
    const exg_tensor_meta *local = exg_ref_meta(p->r.builder, ref);

    p->uneven = p->uneven || !exg_splits_evenly(p, global, placement);
    for (uint32_t d = 0; d < global->rank; d++) {
        int64_t expected = placement.kind == EXG_SHARD && placement.dim == (int32_t)d
                               ? exg_own_size(p, global, placement)
                               : global->sizes[d].value;

        if (local->rank != global->rank || local->sizes[d].value != expected) {
            return EXG_FAIL(p->r.err, UNSUPPORTED, "PLC-003",
                            "the sharding rule of '%s' gives a wrong local size in dim %u",
                            p->r.in->graph->values[id].name, d);
        }
    }
    return EXG_OK;
}

/* Time of a node on one rank, from the sizes of its local operands and results. What placing
 * along an earlier mesh dim put in is a collective over that dim's link. */
static double time_of(const partitioner *p, const exg_node_call *n, const exg_ref *refs,
                      exg_ref result)
{
    const exg_operator *op = n->call.op;
    const exg_tensor_meta **metas =
        EXG_NEW_ARRAY(p->scratch, const exg_tensor_meta *, n->call.operand_count);
    const exg_tensor_meta *out = exg_ref_meta(p->r.builder, result);

    for (uint32_t i = 0; metas != NULL && i < n->call.operand_count; i++) {
        metas[i] = exg_ref_meta(p->r.builder, refs[i]);
    }
    if (metas == NULL) {
        return 0;
    }
    if (exg_is_exchange(op->id) && out != NULL && metas[0] != NULL) {
        const exg_link *link =
            &p->costs->links[exg_get_int(&n->args[op->schema->argument_count - 1])];

        return link->message_ns +
               (exg_meta_bytes(metas[0]) + exg_meta_bytes(out)) * link->ns_per_byte;
    }
    return exg_predict_work(p->costs, op, metas, n->call.operand_count, out);
}

/* The operator on this rank's operands, or what the strategy says stands for it. */
static exg_status emit_strategy(partitioner *p, const exg_node *node, const exg_rule_call *call,
                                const exg_strategy *strategy, exg_argument *args,
                                exg_argument *results)
{
    const exg_operator *op = call->op;

    if (strategy->emit != NULL) {
        strategy->emit(
            &(exg_emission){p->r.builder, call, strategy, args, results, p->rank, p->mesh_dim});
        p->uneven = true; /* the ranks' programs may differ */
        if (p->pattern != NULL && strategy->halos > 0) {
            p->pattern->by_rank = true;
        }
        return exg_builder_status(p->r.builder);
    }
    localize_sizes(p, op, args, call->results[0], strategy->results[0]);
    exg_builder_next_names(p->r.builder, &node->name, node->name != NULL);
    return exg_emit_all(p->r.builder,
                        op->id == EXG_OP_view_default ? EXG_OP_reshape_default : op->id, args,
                        op->schema->argument_count, results);
}

/* The operands of the strategy, moved where they are needed. */
static exg_status move_operands(partitioner *p, const exg_node_call *n,
                                const exg_strategy *strategy, exg_ref **refs)
{
    *refs = EXG_NEW_ARRAY(p->scratch, exg_ref, n->call.operand_count);
    if (*refs == NULL) {
        return EXG_OUT_OF_MEMORY(p->r.err);
    }
    for (uint32_t i = 0; i < n->call.operand_count; i++) {
        (*refs)[i] = EXG_NO_REF;
        if (n->operands[i] != EXG_NO_VALUE) {
            EXG_TRY(exg_in_form(p, n->operands[i], strategy->operands[i], &(*refs)[i]));
            if (strategy->operands[i].kind == EXG_SHARD &&
                exg_sharers(strategy->operands[i]) == 1) {
                exg_shard_pattern_note(p->pattern,
                                       n->metas[i]->sizes[strategy->operands[i].dim].value);
            }
        }
    }
    return EXG_OK;
}

static exg_status place_node(partitioner *p, uint32_t index)
{
    const exg_node *node = &p->r.in->graph->nodes[index];
    const exg_strategy *strategy;
    exg_argument results[EXG_RESULTS_MAX];
    exg_node_call n;
    exg_ref *refs;
    bool is_placed;
    double work = 0;

    if (p->is_left_out[index]) {
        exg_take_gathered(p, index);
        return EXG_OK;
    }
    EXG_TRY(exg_node_call_of(p, index, &n));
    exg_builder_set_origin(p->r.builder, &node->metadata);
    p->why = "of all ways to split the weights the one that moves least";
    strategy = p->chosen != NULL ? &n.call.strategies[p->chosen[index]]
                                 : choose_strategy(p, &n.call, n.operands);
    EXG_TRY(follow_decisions(p, &n.call, &strategy));
    for (uint32_t i = 0; i < n.call.op->schema->argument_count; i++) {
        EXG_TRY(exg_argument_copy(p->r.out->arena, &n.args[i], p->r.err));
    }
    EXG_TRY(exg_view_pieces(p, &n, strategy, &is_placed));
    if (is_placed) {
        exg_placement *lies = &p->forms[n.results[0]].items[0].placement;

        exg_report_node(p, node, &(exg_strategy){.results = lies, .operands = lies}, 1, 1, 0);
        return exg_builder_status(p->r.builder);
    }
    EXG_TRY(move_operands(p, &n, strategy, &refs));
    EXG_TRY(exg_node_call_replace(&n, p->r.out->arena, refs));
    EXG_TRY(emit_strategy(p, node, &n.call, strategy, n.args, results));
    for (uint32_t i = 0; i < n.call.result_count; i++) {
        exg_ref ref = {exg_node_result(node, results, i)};

        EXG_TRY(check_result(p, n.results[i], strategy->results[i], ref));
        exg_add_form(p, n.results[i], strategy->results[i], ref);
        p->forms[n.results[i]].is_weight = exg_node_call_is_weight(p, &n);
        p->forms[n.results[i]].in_pieces = all_in_pieces(p, n.operands, n.call.operand_count);
        EXG_TRY(constrain(p, n.results[i], exg_pattern_of_result(p, index, n.results[i])));
    }
    if (n.call.result_count > 0) {
        work = time_of(p, &n, refs, (exg_ref){exg_node_result(node, results, 0)});
    }
    exg_report_node(p, node, strategy, n.call.operand_count, n.call.result_count, work);
    return EXG_OK;
}

/* ---- inputs, outputs ----------------------------------------------------------------- */

/* A user's input of which the rank is given its own part, rather than the whole. */
static bool is_given_in_part(const partitioner *p, uint32_t input)
{
    return p->local != NULL && input < p->named_inputs &&
           p->r.in->signature.inputs[input].kind == EXG_INPUT_USER;
}

/* The input is the rank's part itself. */
static exg_status take_part(partitioner *p, uint32_t input, const exg_tensor_meta *meta,
                            exg_ref whole, exg_placement placement)
{
    int64_t sizes[EXG_SHAPE_RANK_MAX];
    exg_tensor_meta *part = EXG_NEW_ARRAY(p->r.out->arena, exg_tensor_meta, 1);

    if (part == NULL) {
        return EXG_OUT_OF_MEMORY(p->r.err);
    }
    for (uint32_t d = 0; d < meta->rank; d++) {
        sizes[d] =
            (int32_t)d == placement.dim ? exg_own_size(p, meta, placement) : meta->sizes[d].value;
    }
    p->uneven = p->uneven || !exg_splits_evenly(p, meta, placement);
    *part = exg_builder_meta(p->r.builder, meta->dtype, sizes, meta->rank);
    p->r.out->graph->values[whole.id].tensor = part;
    p->local->inputs[input * p->local->ndim + p->mesh_dim] = placement;
    return exg_builder_status(p->r.builder);
}

/* The placement that a mesh dim's patterns give the input; NULL: none speaks of it. */
static const exg_partition_pattern *pattern_of(const partitioner *p,
                                               const exg_partition_options *options, uint32_t input)
{
    const exg_input_spec *spec = &p->r.in->signature.inputs[input];
    exg_use use = p->uses[p->r.in->graph->inputs[input].as_tensor];
    bool is_named = input < p->named_inputs || spec->kind != EXG_INPUT_USER;

    for (uint32_t t = 0;
         is_named && options->mode == EXG_PARTITION_PATTERNS && t < options->pattern_count; t++) {
        if (exg_pattern_of_input(&options->patterns[t], spec, use)) {
            return &options->patterns[t];
        }
    }
    return NULL;
}

/* The earlier mesh dims along which patterns split the same dim of it: nothing but that part of it
 * is read there, and of that a part here. */
static uint32_t split_before(const partitioner *p, uint32_t input, exg_placement placement)
{
    int32_t rank = (int32_t)meta_of(p, p->r.in->graph->inputs[input].as_tensor)->rank;
    uint32_t before = 0;

    for (uint32_t d = 0; p->placing != NULL && d < p->mesh_dim; d++) {
        const exg_partition_pattern *other = pattern_of(p, &p->placing[d], input);

        if (other != NULL && other->placement.kind == EXG_SHARD && placement.kind == EXG_SHARD &&
            (other->placement.dim + rank) % rank == placement.dim) {
            before |= 1U << d;
        }
    }
    return before;
}

static exg_status split_input(partitioner *p, uint32_t input, const char *name,
                              exg_placement placement)
{
    exg_value_id id = p->r.in->graph->inputs[input].as_tensor;
    const exg_tensor_meta *meta = meta_of(p, id);
    exg_ref ref = p->forms[id].items[0].ref;

    EXG_TRY(settle_placement(p, meta, name, p->forms[id].is_weight, &placement));
    if (placement.kind == EXG_REPLICATE) {
        return EXG_OK;
    }
    if (is_given_in_part(p, input)) {
        EXG_TRY(take_part(p, input, meta, ref, placement));
    } else if (placement.kind == EXG_STRIDED_SHARD) {
        p->forms[id].in_pieces = true;
    } else {
        ref = exg_cut_chunk(p, ref, meta, placement);
    }
    p->forms[id].split_before = is_given_in_part(p, input) ? 0 : split_before(p, input, placement);
    p->forms[id].has_whole = p->forms[id].split_before != 0;
    p->forms[id].whole = p->forms[id].items[0].ref;
    p->forms[id].count = 0;
    exg_add_form(p, id, placement, ref);
    return exg_builder_status(p->r.builder);
}

/* User inputs by row or by position; matrices of weights by row. Of fewer rows than ranks some
 * ranks have one, and others none. */
static exg_status split_by_mode(partitioner *p, uint32_t input)
{
    const exg_input_spec *spec = &p->r.in->signature.inputs[input];
    exg_value_id id = p->r.in->graph->inputs[input].as_tensor;
    const exg_tensor_meta *meta = meta_of(p, id);
    bool by_position = p->mode == EXG_PARTITION_SEQUENCE || p->mode == EXG_PARTITION_CONTEXT;
    int32_t dim = by_position ? 1 : 0;
    bool fits = meta->rank > (uint32_t)dim && meta->sizes[dim].value > 1;

    if (spec->kind == EXG_INPUT_USER) {
        bool splits = by_position || p->mode == EXG_PARTITION_DATA || p->mode == EXG_PARTITION_FSDP;

        return splits && fits ? split_input(p, input, spec->arg.name, exg_shard(dim)) : EXG_OK;
    }
    if (p->mode == EXG_PARTITION_EXPERT && exg_is_of_experts(spec, meta, p->uses[id])) {
        return split_input(p, input, spec->target, exg_shard(0));
    }
    if (p->mode == EXG_PARTITION_FSDP && spec->kind == EXG_INPUT_PARAMETER && fits &&
        meta->rank > 1) {
        EXG_TRY(split_input(p, input, spec->target, exg_shard(exg_dim_of_pieces(p, meta))));
        p->forms[id].in_pieces = p->forms[id].has_whole = true;
    }
    return EXG_OK;
}

static exg_status place_inputs(partitioner *p)
{
    const exg_graph *graph = p->r.in->graph;

    EXG_TRY(exg_rewrite_inputs(&p->r));
    for (uint32_t i = 0; i < graph->input_count; i++) {
        const exg_input_spec *spec = &p->r.in->signature.inputs[i];
        exg_value_id id = graph->inputs[i].as_tensor;
        const exg_partition_pattern *pattern;

        if (graph->inputs[i].kind != EXG_ARGUMENT_TENSOR) {
            continue;
        }
        exg_add_form(p, id, exg_replicate(), p->r.refs[id]);
        p->forms[id].is_weight = spec->kind != EXG_INPUT_USER;
        EXG_TRY(split_by_mode(p, i));
        pattern = pattern_of(p, p->options, i);
        if (pattern != NULL) {
            EXG_TRY(split_input(p, i, exg_partition_input_name(spec), pattern->placement));
        }
    }
    return EXG_OK;
}

/* How an output is where no rank has it whole: in shards, or as summands. */
static void count_output(partitioner *p, const forms *f)
{
    bool shards = false;

    for (uint32_t i = 0; i < f->count; i++) {
        if (f->items[i].placement.kind == EXG_REPLICATE) {
            return;
        }
        shards = shards || exg_placement_is_shard(f->items[i].placement);
    }
    p->summary.sharded_count += shards;
    p->summary.partial_count += !shards;
}

/* As it lies, whole if it is at hand so. */
static exg_ref output_as_it_lies(const partitioner *p, exg_value_id id, exg_placement *lies)
{
    const forms *f = &p->forms[id];
    const form *found = &f->items[0];

    for (uint32_t i = 1; i < f->count; i++) {
        found = f->items[i].placement.kind == EXG_REPLICATE ? &f->items[i] : found;
    }
    *lies = found->placement;
    return found->ref;
}

/* Where output `o` stays in parts: what the program writes lies as the input does, results as they
 * come to lie; summands are added up. */
static exg_placement place_of_part(const partitioner *p, uint32_t o)
{
    const exg_signature *signature = &p->r.in->signature;
    const exg_output_spec *spec = &signature->outputs[o];
    const exg_value_id id = p->r.in->graph->outputs[o].as_tensor;
    exg_placement lies = exg_replicate();
    bool is_whole = has_form(p, id, lies);

    if (p->local == NULL) {
        return lies;
    }
    for (uint32_t i = 0; spec->kind == EXG_OUTPUT_USER_INPUT_MUTATION && i < signature->input_count;
         i++) {
        if (signature->inputs[i].arg.name != NULL &&
            strcmp(signature->inputs[i].arg.name, spec->target) == 0) {
            return p->local->inputs[i * p->local->ndim + p->mesh_dim];
        }
    }
    if (p->local->outputs == NULL || !exg_is_user_output(spec->kind)) {
        return lies;
    }
    for (uint32_t i = 0; i < p->forms[id].count && !is_whole; i++) {
        const exg_placement at = p->forms[id].items[i].placement;

        if (at.kind == EXG_SHARD && exg_sharers(at) == 1 && lies.kind == EXG_REPLICATE) {
            lies = at;
        }
    }
    p->local->outputs[o * p->local->ndim + p->mesh_dim] = lies;
    return lies;
}

/* The node that makes the value; as many as there are where none does. */
static uint32_t maker_of(const exg_graph *graph, exg_value_id id)
{
    for (uint32_t n = graph->node_count; n-- > 0;) {
        for (uint32_t i = 0; i < exg_node_result_count(&graph->nodes[n]); i++) {
            if (exg_node_result(&graph->nodes[n], NULL, i) == id) {
                return n;
            }
        }
    }
    return graph->node_count;
}

/* What brings an output together is of the stage of what makes it, on every rank: on some nothing
 * that it reads may be of a stage. */
static exg_status place_outputs(partitioner *p)
{
    const exg_graph *graph = p->r.in->graph;

    for (uint32_t o = 0; o < graph->output_count; o++) {
        const exg_output_spec *spec = &p->r.in->signature.outputs[o];
        const uint32_t from = p->r.out->graph->node_count;
        exg_argument arg = graph->outputs[o];

        if (arg.kind == EXG_ARGUMENT_TENSOR && p->outputs != NULL) {
            arg = exg_arg_ref(output_as_it_lies(p, arg.as_tensor, &p->outputs[o]));
        } else if (arg.kind == EXG_ARGUMENT_TENSOR) {
            exg_ref ref;

            EXG_TRY_IN(p->r.err, constrain(p, arg.as_tensor, exg_pattern_of_output(p, o)),
                       "graph.outputs[%u]", o);
            p->why = "outputs are whole";
            count_output(p, &p->forms[arg.as_tensor]);
            EXG_TRY_IN(p->r.err, exg_in_form(p, arg.as_tensor, place_of_part(p, o), &ref),
                       "graph.outputs[%u]", o);
            arg = exg_arg_ref(ref);
        }
        exg_builder_output(p->r.builder, &arg, spec->kind, exg_rewrite_text(&p->r, spec->target));
        if (p->stages->of != NULL && p->r.out->graph->node_count > from) {
            EXG_TRY(exg_stage_note(p->stages, &p->r, from,
                                   maker_of(graph, graph->outputs[o].as_tensor)));
        }
    }
    exg_report_node(p, &(exg_node){.name = "output", .target = ""}, &(exg_strategy){0}, 0, 0, 0);
    return exg_builder_status(p->r.builder);
}

/* For all nodes together, if that is not known. */
static exg_status choose_nodes(partitioner *p, const exg_partitioned_dim *along)
{
    uint32_t nodes = p->r.in->graph->node_count;
    exg_choice *known =
        along->choices == NULL
            ? NULL
            : &along->choices->by_dim[along->dim][along->before > 0][p->decisions != NULL];

    if (known != NULL && known->of_nodes != NULL && known->mode == p->mode &&
        known->before == along->before && known->count == nodes) {
        p->chosen = known->of_nodes;
        return EXG_OK;
    }
    EXG_TRY(exg_choose_together(p));
    if (known == NULL) {
        return EXG_OK;
    }
    if (nodes >= known->capacity) {
        known->of_nodes = EXG_NEW_ARRAY(along->choices->arena, uint32_t, nodes + 1);
        known->capacity = nodes + 1;
    }
    if (known->of_nodes == NULL) {
        known->capacity = 0;
        return EXG_OUT_OF_MEMORY(p->r.err);
    }
    memcpy(known->of_nodes, p->chosen, nodes * sizeof(*p->chosen));
    known->mode = p->mode;
    known->before = along->before;
    known->count = nodes;
    return EXG_OK;
}

static exg_status place_nodes(partitioner *p)
{
    uint32_t nodes = p->r.in->graph->node_count;
    exg_status status = exg_stage_note(p->stages, &p->r, 0, nodes);

    for (uint32_t i = 0; status == EXG_OK && i < nodes; i++) {
        uint32_t from = p->r.out->graph->node_count;

        status = place_node(p, i);
        if (status != EXG_OK) {
            return exg_error_within(p->r.err, status, "graph.nodes[%u]", i);
        }
        status = exg_stage_note(p->stages, &p->r, from, i);
    }
    return status;
}

/* Is any weight held in pieces? */
static bool holds_pieces(const partitioner *p)
{
    bool holds = false;

    for (uint32_t v = 0; p->forms != NULL && v < p->r.in->graph->value_count; v++) {
        holds = holds || p->forms[v].in_pieces;
    }
    return holds;
}

exg_status exg_partition_along(const exg_program *functional, const exg_operators *operators,
                               const exg_partition_options *options, const exg_partition_goal *goal,
                               exg_partitioned_dim *along, exg_text *report,
                               exg_partition_summary *summary, exg_program **local, exg_error *err)
{
    partitioner p = {.options = options,
                     .whole = along->whole->graph,
                     .costs = goal->costs,
                     .mode = options->mode,
                     .mesh_dim = along->dim,
                     .n = along->size,
                     .rank = along->place,
                     .mesh = along->mesh,
                     .mesh_rank = along->rank,
                     .in_pieces = along->in_pieces,
                     .placing = along->placing,
                     .report = report,
                     .json = goal->json,
                     .overlaps = goal->overlaps,
                     .moves = EXG_TEXT_EMPTY,
                     .decisions = along->decisions,
                     .followed = along->followed,
                     .pattern = along->patterns == NULL ? NULL : &along->patterns[along->dim],
                     .patterns = along->patterns,
                     .named_inputs = along->named_inputs,
                     .outputs = along->outputs,
                     .local = along->parts,
                     .stages = &along->stages};
    exg_status status;

    *local = NULL;
    EXG_TRY(exg_rewrite_begin(&p.r, functional, operators, err));
    exg_builder_set_lowering(p.r.builder, true);
    p.scratch = exg_arena_create(exg_arena_allocator(functional->arena), EXG_ARENA_UNBOUNDED);
    p.forms =
        p.scratch == NULL ? NULL : EXG_NEW_ARRAY(p.scratch, forms, functional->graph->value_count);
    p.uses = p.forms == NULL ? NULL : exg_find_uses(functional, operators, p.scratch);
    status = p.uses == NULL ? EXG_OUT_OF_MEMORY(err) : exg_find_readers(&p);
    status = status == EXG_OK ? place_inputs(&p) : status;
    status = status == EXG_OK ? exg_find_pieces(&p) : status;
    if (status == EXG_OK && p.n > 1 &&
        (p.mode == EXG_PARTITION_TENSOR || p.mode == EXG_PARTITION_EXPERT ||
         p.mode == EXG_PARTITION_CONTEXT)) {
        status = p.mode == EXG_PARTITION_CONTEXT ? EXG_OK : exg_find_shared_heads(&p);
        status = status == EXG_OK ? choose_nodes(&p, along) : status;
    }
    status = status == EXG_OK ? place_nodes(&p) : status;
    status = status == EXG_OK ? place_outputs(&p) : status;
    *summary = p.summary;
    summary->modes[along->dim] = options->mode;
    if (p.n > 1 && summary->split_count == 0 && !holds_pieces(&p)) {
        summary->unsplit[along->dim] = exg_why_unsplit(options->mode);
    }
    along->uneven = p.uneven;
    exg_text_free(&p.moves);
    exg_arena_destroy(p.scratch);
    return exg_rewrite_finish(&p.r, status, local);
}
