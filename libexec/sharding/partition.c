/* partition.c - placements for every value along one mesh dim, greedily, and the local program
 * they make.
 *
 * A value may be at hand in several forms (replicated, split, summands); a move
 * makes a new form, which later operands find. For each node the row of least
 * moving cost is taken, the first among equals; in tensor mode products with
 * weights take the row that Megatron's scheme says.
 */
#include "libexec/sharding/partitioner.h"
#include <exg/emit.h>

#include <fnmatch.h>
#include <string.h>

typedef exg_partitioner partitioner;
typedef exg_form form;
typedef exg_forms forms;

const char *exg_partition_mode_name(exg_partition_mode mode)
{
    static const char *const names[] = {"replicate", "data", "tensor",  "fsdp",
                                        "sequence",  "auto", "patterns"};

    return (unsigned)mode < sizeof(names) / sizeof(names[0]) ? names[mode] : "?";
}

static const exg_tensor_meta *meta_of(const partitioner *p, exg_value_id id)
{
    return p->r.in->graph->values[id].tensor;
}

static void add_form(partitioner *p, exg_value_id id, exg_placement placement, exg_ref ref)
{
    forms *f = &p->forms[id];

    if (f->count < EXG_FORMS_MAX) {
        f->items[f->count++] = (form){placement, ref};
    }
}

/* ---- moves -------------------------------------------------------------------------- */

static double link_cost(const partitioner *p, exg_placement from, exg_placement to, double bytes)
{
    return exg_move_cost(&p->costs->links[p->mesh_dim], from, to, bytes, p->n);
}

static double move_cost(const partitioner *p, exg_placement from, exg_placement to, double bytes)
{
    double cost = link_cost(p, from, to, bytes);

    if (p->even_only && to.kind == EXG_PARTIAL && to.op == EXG_REDUCE_SUM &&
        from.kind == EXG_REPLICATE) {
        return EXG_COST_IMPOSSIBLE;
    }

    /* summands that become chunks are gathered again at the next matrix: in tensor
     * mode that is no gain over making them whole */
    if (p->mode == EXG_PARTITION_TENSOR && from.kind == EXG_PARTIAL && to.kind == EXG_SHARD) {
        cost = link_cost(p, from, exg_replicate(), bytes) + 1;
    }
    return cost;
}

static const form *cheapest_form(const partitioner *p, exg_value_id id, exg_placement want,
                                 double *cost)
{
    const forms *f = &p->forms[id];
    const form *best = NULL;

    *cost = EXG_COST_IMPOSSIBLE;
    for (uint32_t i = 0; i < f->count; i++) {
        double c = move_cost(p, f->items[i].placement, want, exg_meta_bytes(meta_of(p, id)));

        if (best == NULL || c < *cost) {
            best = &f->items[i];
            *cost = c;
        }
    }
    return best;
}

static bool splits_evenly(const partitioner *p, const exg_tensor_meta *meta,
                          exg_placement placement)
{
    return placement.kind != EXG_SHARD || meta->sizes[placement.dim].value % (int64_t)p->n == 0;
}

static exg_ref local_chunk(partitioner *p, exg_ref whole, const exg_tensor_meta *meta, int32_t dim)
{
    int64_t offset;
    int64_t size;

    p->uneven = p->uneven || !splits_evenly(p, meta, exg_shard(dim));
    exg_shard_pattern_note(p->pattern, meta->sizes[dim].value);
    exg_chunk(meta->sizes[dim].value, p->n, p->rank, &offset, &size);
    return EMIT(p->r.builder, slice_Tensor, whole, dim, offset, offset + size, 1);
}

static int64_t own_size(const partitioner *p, const exg_tensor_meta *meta, int32_t dim)
{
    int64_t offset;
    int64_t size;

    exg_shard_pattern_note(p->pattern, meta->sizes[dim].value);
    exg_chunk(meta->sizes[dim].value, p->n, p->rank, &offset, &size);
    return size;
}

/* Summands of a value that every rank has: the first rank's is the value, the
 * others' are zero. Of a largest or smallest, everybody's is the value. */
static exg_ref as_summand(partitioner *p, exg_ref whole, const exg_tensor_meta *meta,
                          exg_reduce_op op)
{
    int64_t sizes[EXG_SHAPE_RANK_MAX];

    p->uneven = p->uneven || op == EXG_REDUCE_SUM; /* the ranks' programs differ */
    if (op != EXG_REDUCE_SUM || p->rank == 0) {
        return whole;
    }
    for (uint32_t d = 0; d < meta->rank && d < EXG_SHAPE_RANK_MAX; d++) {
        sizes[d] = meta->sizes[d].value;
    }
    return EMIT(p->r.builder, full_default, INTS_OF(p->r.builder, sizes, meta->rank), 0,
                DTYPE(meta->dtype));
}

static exg_ref emit_move(partitioner *p, const form *from, exg_placement to,
                         const exg_tensor_meta *meta)
{
    exg_builder *b = p->r.builder;
    exg_placement s = from->placement;
    exg_argument op = exg_arg_string(exg_reduce_op_name(s.op));

    if (s.kind == EXG_REPLICATE) {
        return to.kind == EXG_SHARD ? local_chunk(p, from->ref, meta, to.dim)
                                    : as_summand(p, from->ref, meta, to.op);
    }
    if (s.kind == EXG_SHARD && to.kind == EXG_SHARD) {
        return EMIT(b, exg_all_to_all, from->ref, s.dim, exg_arg_int(meta->sizes[s.dim].value),
                    to.dim, exg_arg_int(own_size(p, meta, to.dim)), p->mesh_dim);
    }
    if (s.kind == EXG_SHARD) {
        return EMIT(b, exg_all_gather, from->ref, s.dim, exg_arg_int(meta->sizes[s.dim].value),
                    p->mesh_dim);
    }
    if (to.kind == EXG_SHARD) {
        return EMIT(b, exg_reduce_scatter, from->ref, to.dim,
                    exg_arg_int(own_size(p, meta, to.dim)), op, p->mesh_dim);
    }
    return EMIT(b, exg_all_reduce, from->ref, op, p->mesh_dim);
}

/* The value in the wanted form, moved there if need be. */
static exg_status in_form(partitioner *p, exg_value_id id, exg_placement want, exg_ref *ref)
{
    double cost;
    const form *source = cheapest_form(p, id, want, &cost);

    if (source == NULL || cost >= EXG_COST_IMPOSSIBLE) {
        return EXG_FAIL(p->r.err, UNSUPPORTED, "PLC-002",
                        "no way to move '%s' to where it is needed",
                        p->r.in->graph->values[id].name);
    }
    if (exg_placement_equal(source->placement, want)) {
        *ref = source->ref;
        return EXG_OK;
    }
    if (source->placement.kind != EXG_REPLICATE) {
        const char *why = p->why;

        p->why = p->forms[id].in_pieces ? "a weight in pieces is whole while it is read" : why;
        exg_report_move(p, id, source->placement, want);
        p->why = why;
    }
    *ref = emit_move(p, source, want, meta_of(p, id));
    if (!p->forms[id].in_pieces) {
        add_form(p, id, want, *ref);
    }
    return exg_builder_status(p->r.builder);
}

/* ---- choosing a strategy ----------------------------------------------------------------- */

static bool has_form(const partitioner *p, exg_value_id id, exg_placement placement)
{
    for (uint32_t i = 0; i < p->forms[id].count; i++) {
        if (exg_placement_equal(p->forms[id].items[i].placement, placement)) {
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

    if (p->even_only && !splits_evenly(p, meta, want)) {
        return false;
    }
    return want.kind != EXG_SHARD || meta->sizes[want.dim].value >= (int64_t)p->n ||
           has_form(p, id, want) || has_form(p, id, exg_replicate());
}

/* The collectives inside a strategy that is emitted otherwise than the operator itself. */
static double inner_cost(const partitioner *p, const exg_strategy *strategy)
{
    const exg_link *link = &p->costs->links[p->mesh_dim];

    return strategy->reduces *
               link_cost(p, exg_partial(EXG_REDUCE_SUM), exg_replicate(), strategy->reduced_bytes) +
           strategy->gathers *
               link_cost(p, exg_shard(0), exg_replicate(), strategy->reduced_bytes) +
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

static double strategy_cost(const partitioner *p, const exg_rule_call *call,
                            const exg_strategy *strategy, const exg_value_id *operands)
{
    uint32_t count = call->operand_count;
    bool only_pieces = all_in_pieces(p, operands, count);
    double sum = 0;

    for (uint32_t i = 0; p->even_only && i < call->result_count; i++) {
        if (strategy->emit != NULL || !splits_evenly(p, call->results[i], strategy->results[i])) {
            return EXG_COST_IMPOSSIBLE;
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        double cost;

        if (operands[i] == EXG_NO_VALUE) {
            continue;
        }
        if (!splittable(p, operands[i], strategy->operands[i]) ||
            (p->forms[operands[i]].in_pieces && !only_pieces &&
             strategy->operands[i].kind != EXG_REPLICATE) ||
            cheapest_form(p, operands[i], strategy->operands[i], &cost) == NULL) {
            return EXG_COST_IMPOSSIBLE;
        }
        sum += cost;
    }
    return sum + inner_cost(p, strategy);
}

/* Megatron: each rank looks up what its rows of a table of embeddings have. */
static const exg_strategy *vocabulary_strategy(const partitioner *p, const exg_rule_call *call,
                                               const exg_value_id *operands)
{
    for (uint32_t r = 0; r < call->strategy_count; r++) {
        const exg_strategy *strategy = &call->strategies[r];

        if (exg_placement_equal(strategy->operands[0], exg_shard(0)) &&
            call->operands[0]->sizes[0].value >= (int64_t)p->n &&
            strategy_cost(p, call, strategy, operands) < EXG_COST_IMPOSSIBLE) {
            return strategy;
        }
    }
    return NULL;
}

/* Megatron: an activation that is split along the contracted dim meets rows of the
 * weight (and leaves summands), any other meets columns. */
static const exg_strategy *megatron_strategy(const partitioner *p, const exg_rule_call *call,
                                             const exg_value_id *operands)
{
    uint32_t x;
    uint32_t w;
    int32_t last;
    bool split;

    if (p->mode == EXG_PARTITION_TENSOR && call->op->id == EXG_OP_embedding_default &&
        p->forms[operands[0]].is_weight) {
        return vocabulary_strategy(p, call, operands);
    }
    if (p->mode != EXG_PARTITION_TENSOR || !exg_product_operands(call->op->id, &x, &w) ||
        !p->forms[operands[w]].is_weight || p->forms[operands[x]].is_weight) {
        return NULL;
    }
    last = (int32_t)call->operands[x]->rank - 1;
    split = has_form(p, operands[x], exg_shard(last));
    for (uint32_t r = 0; r < call->strategy_count; r++) {
        const exg_strategy *strategy = &call->strategies[r];
        exg_placement want = split ? exg_shard(last) : exg_replicate();

        if (strategy->operands[w].kind == EXG_SHARD &&
            call->operands[w]->sizes[strategy->operands[w].dim].value >= (int64_t)p->n &&
            exg_placement_equal(strategy->operands[x], want) &&
            strategy_cost(p, call, strategy, operands) < EXG_COST_IMPOSSIBLE) {
            return strategy;
        }
    }
    return NULL;
}

static const exg_strategy *choose_strategy(partitioner *p, const exg_rule_call *call,
                                           const exg_value_id *operands)
{
    const exg_strategy *best = megatron_strategy(p, call, operands);
    double least = EXG_COST_IMPOSSIBLE;

    p->why = best != NULL                ? "weights by column, then by row"
             : call->strategy_count == 1 ? "no rule splits the operator"
                                         : "the least moved";

    for (uint32_t r = 0; best == NULL && r < call->strategy_count; r++) {
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

/* ---- nodes -------------------------------------------------------------------------- */

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
            sizes[d] = (int32_t)d == placement.dim ? own_size(p, result, placement.dim)
                                                   : result->sizes[d].value;
        }
        args[1] = INTS_OF(p->r.builder, sizes, result->rank);
    } else if (op->id == EXG_OP_native_group_norm_default) {
        args[3] = exg_arg_int(own_size(p, result, 0));
    }
}

/* The tensor operands of a node, flat, in schema order. */
typedef struct operand_list {
    exg_value_id *ids; /* EXG_NO_VALUE: absent */
    const exg_tensor_meta **metas;
    exg_ref *refs; /* as moved */
    const exg_tensor_meta **moved;
    uint32_t count;
} operand_list;

static bool is_list(const exg_argument *arg)
{
    return arg->kind == EXG_ARGUMENT_TENSORS || arg->kind == EXG_ARGUMENT_OPTIONAL_TENSORS;
}

static exg_status collect_operands(partitioner *p, const exg_operator *op, const exg_argument *args,
                                   operand_list *operands)
{
    uint32_t room = 0;

    for (uint32_t i = 0; i < op->schema->argument_count; i++) {
        room += is_list(&args[i]) ? args[i].count : 1;
    }
    *operands = (operand_list){
        .ids = EXG_NEW_ARRAY(p->scratch, exg_value_id, room),
        .metas = EXG_NEW_ARRAY(p->scratch, const exg_tensor_meta *, room),
        .refs = EXG_NEW_ARRAY(p->scratch, exg_ref, room),
        .moved = EXG_NEW_ARRAY(p->scratch, const exg_tensor_meta *, room),
    };
    if (operands->ids == NULL || operands->metas == NULL || operands->refs == NULL ||
        operands->moved == NULL) {
        return EXG_OUT_OF_MEMORY(p->r.err);
    }
    for (uint32_t i = 0; i < op->schema->argument_count; i++) {
        bool list = is_list(&args[i]);
        uint32_t items = list ? args[i].count : 1;

        for (uint32_t t = 0; op->schema->arguments[i].type.base == EXG_TYPE_TENSOR && t < items;
             t++) {
            exg_value_id id = list ? args[i].as_tensors[t] : exg_get_ref(&args[i]).id;

            operands->ids[operands->count] = id;
            operands->metas[operands->count++] = id == EXG_NO_VALUE ? NULL : meta_of(p, id);
        }
    }
    return EXG_OK;
}

/* Puts the moved operands back into the arguments. */
static exg_status replace_operands(partitioner *p, const exg_operator *op, exg_argument *args,
                                   const exg_ref *refs)
{
    uint32_t at = 0;

    for (uint32_t i = 0; i < op->schema->argument_count; i++) {
        if (op->schema->arguments[i].type.base != EXG_TYPE_TENSOR) {
            continue;
        }
        if (is_list(&args[i])) {
            exg_value_id *ids = EXG_NEW_ARRAY(p->r.out->arena, exg_value_id, args[i].count);

            if (ids == NULL) {
                return EXG_OUT_OF_MEMORY(p->r.err);
            }
            for (uint32_t t = 0; t < args[i].count; t++) {
                ids[t] = refs[at++].id;
            }
            args[i].as_tensors = ids;
        } else {
            args[i] = exg_arg_ref(refs[at++]);
        }
    }
    return EXG_OK;
}

static uint32_t collect_results(const exg_node *node, exg_value_id *results)
{
    uint32_t count = 0;

    for (uint32_t o = 0; o < node->output_count && count < EXG_RESULTS_MAX; o++) {
        if (node->outputs[o].kind == EXG_ARGUMENT_TENSOR) {
            results[count++] = node->outputs[o].as_tensor;
        }
    }
    return count;
}

/* A local result has the sizes its placement says: the net under every rule. */
static exg_status check_result(partitioner *p, exg_value_id id, exg_placement placement,
                               exg_ref ref)
{
    const exg_tensor_meta *global = meta_of(p, id);
    const exg_tensor_meta *local = exg_ref_meta(p->r.builder, ref);

    p->uneven = p->uneven || !splits_evenly(p, global, placement);
    for (uint32_t d = 0; d < global->rank; d++) {
        int64_t expected = placement.kind == EXG_SHARD && placement.dim == (int32_t)d
                               ? own_size(p, global, placement.dim)
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
static double time_of(const partitioner *p, const exg_operator *op, const exg_argument *args,
                      const operand_list *operands, exg_ref result)
{
    const exg_tensor_meta **metas = operands->moved;
    const exg_tensor_meta *out = exg_ref_meta(p->r.builder, result);

    for (uint32_t i = 0; i < operands->count; i++) {
        metas[i] = exg_ref_meta(p->r.builder, operands->refs[i]);
    }
    if (exg_is_exchange(op->id) && out != NULL && metas[0] != NULL) {
        const exg_link *link = &p->costs->links[exg_get_int(&args[op->schema->argument_count - 1])];

        return link->message_ns +
               (exg_meta_bytes(metas[0]) + exg_meta_bytes(out)) * link->ns_per_byte;
    }
    return exg_predict_work(p->costs, op, metas, operands->count, out);
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

static exg_status place_node(partitioner *p, const exg_node *node)
{
    const exg_operator *op = exg_operators_find(p->r.operators, node->target);
    exg_argument args[EXG_ARGUMENTS_MAX];
    exg_argument results[EXG_RESULTS_MAX];
    operand_list operands;
    exg_value_id outs[EXG_RESULTS_MAX];
    const exg_tensor_meta *result_metas[EXG_RESULTS_MAX];
    exg_rule_call call = {.op = op,
                          .args = args,
                          .results = result_metas,
                          .mesh_size = p->n,
                          .emits = true,
                          .arena = p->scratch,
                          .err = p->r.err};
    const exg_strategy *strategy;
    double work = 0;

    if (op == NULL) {
        return EXG_FAIL(p->r.err, UNSUPPORTED, "OPR-003", "no operator '%s'", node->target);
    }
    EXG_TRY(exg_operator_normalize(op, node, args, p->r.err));
    exg_builder_set_origin(p->r.builder, &node->metadata);
    EXG_TRY(collect_operands(p, op, args, &operands));
    call.operands = operands.metas;
    call.operand_count = operands.count;
    call.result_count = collect_results(node, outs);
    for (uint32_t i = 0; i < call.result_count; i++) {
        result_metas[i] = meta_of(p, outs[i]);
    }
    EXG_TRY(exg_rule_strategies(&call));
    strategy = choose_strategy(p, &call, operands.ids);
    for (uint32_t i = 0; i < call.operand_count; i++) {
        operands.refs[i] = EXG_NO_REF;
        if (operands.ids[i] != EXG_NO_VALUE) {
            EXG_TRY(in_form(p, operands.ids[i], strategy->operands[i], &operands.refs[i]));
            if (strategy->operands[i].kind == EXG_SHARD) {
                exg_shard_pattern_note(p->pattern,
                                       operands.metas[i]->sizes[strategy->operands[i].dim].value);
            }
        }
    }
    for (uint32_t i = 0; i < op->schema->argument_count; i++) {
        EXG_TRY(exg_argument_copy(p->r.out->arena, &args[i], p->r.err));
    }
    EXG_TRY(replace_operands(p, op, args, operands.refs));
    EXG_TRY(emit_strategy(p, node, &call, strategy, args, results));
    for (uint32_t i = 0; i < call.result_count; i++) {
        exg_ref ref = exg_get_ref(&results[i]);

        EXG_TRY(check_result(p, outs[i], strategy->results[i], ref));
        add_form(p, outs[i], strategy->results[i], ref);
        p->forms[outs[i]].is_weight = op->view != NULL && operands.ids[0] != EXG_NO_VALUE &&
                                      p->forms[operands.ids[0]].is_weight;
        p->forms[outs[i]].in_pieces = all_in_pieces(p, operands.ids, call.operand_count);
    }
    if (call.result_count > 0) {
        work = time_of(p, op, args, &operands, exg_get_ref(&results[0]));
    }
    exg_report_node(p, node->name, node->target, strategy, call.operand_count, call.result_count,
                    work);
    return EXG_OK;
}

const char *exg_partition_input_name(const exg_input_spec *spec)
{
    return spec->kind == EXG_INPUT_USER ? spec->arg.name : spec->target;
}

bool exg_partition_pattern_matches(const exg_partition_pattern *pattern, const exg_input_spec *spec)
{
    const char *name = exg_partition_input_name(spec);

    return name != NULL && pattern->of_inputs == (spec->kind == EXG_INPUT_USER) &&
           fnmatch(pattern->pattern, name, 0) == 0;
}

/* ---- inputs, outputs ----------------------------------------------------------------- */

static exg_status split_input(partitioner *p, exg_value_id id, const char *name,
                              exg_placement placement)
{
    const exg_tensor_meta *meta = meta_of(p, id);
    exg_ref whole = p->forms[id].items[0].ref;
    int32_t dim = placement.dim + (placement.dim < 0 ? (int32_t)meta->rank : 0);

    if (placement.kind == EXG_REPLICATE) {
        return EXG_OK;
    }
    if (placement.kind != EXG_SHARD || dim < 0 || dim >= (int32_t)meta->rank) {
        char text[EXG_PLACEMENT_TEXT];

        return exg_error_fix(p->r.err,
                             EXG_FAIL(p->r.err, USAGE, "PLC-004",
                                      "'%s' of rank %u cannot be placed as %s", name, meta->rank,
                                      exg_placement_print(placement, text)),
                             "write R, or S(dim) of a dim that is there");
    }
    if (p->even_only && !splits_evenly(p, meta, exg_shard(dim))) {
        return EXG_OK; /* whole on every rank */
    }
    p->forms[id].count = 0;
    add_form(p, id, exg_shard(dim), local_chunk(p, whole, meta, dim));
    return exg_builder_status(p->r.builder);
}

/* User inputs by row or by position; matrices of weights by row. */
static exg_status split_by_mode(partitioner *p, exg_value_id id, const exg_input_spec *spec)
{
    const exg_tensor_meta *meta = meta_of(p, id);
    int32_t dim = p->mode == EXG_PARTITION_SEQUENCE ? 1 : 0;
    bool fits = meta->rank > (uint32_t)dim && meta->sizes[dim].value >= (int64_t)p->n;

    if (spec->kind == EXG_INPUT_USER) {
        bool splits = p->mode == EXG_PARTITION_DATA || p->mode == EXG_PARTITION_FSDP ||
                      p->mode == EXG_PARTITION_SEQUENCE;

        return splits && fits ? split_input(p, id, spec->arg.name, exg_shard(dim)) : EXG_OK;
    }
    if (p->mode == EXG_PARTITION_FSDP && spec->kind == EXG_INPUT_PARAMETER && fits &&
        meta->rank > 1) {
        EXG_TRY(split_input(p, id, spec->target, exg_shard(0)));
        p->forms[id].in_pieces = true;
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

        if (graph->inputs[i].kind != EXG_ARGUMENT_TENSOR) {
            continue;
        }
        add_form(p, id, exg_replicate(), p->r.refs[id]);
        p->forms[id].is_weight = spec->kind != EXG_INPUT_USER;
        EXG_TRY(split_by_mode(p, id, spec));
        for (uint32_t t = 0; p->mode == EXG_PARTITION_PATTERNS && t < p->options->pattern_count;
             t++) {
            const exg_partition_pattern *pattern = &p->options->patterns[t];

            if ((i < p->named_inputs || !pattern->of_inputs) &&
                exg_partition_pattern_matches(pattern, spec)) {
                EXG_TRY(split_input(p, id, exg_partition_input_name(spec), pattern->placement));
                break;
            }
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
        shards = shards || f->items[i].placement.kind == EXG_SHARD;
    }
    p->summary.sharded_count += shards;
    p->summary.partial_count += !shards;
}

static exg_status place_outputs(partitioner *p)
{
    const exg_graph *graph = p->r.in->graph;

    p->why = "outputs are whole";
    for (uint32_t o = 0; o < graph->output_count; o++) {
        const exg_output_spec *spec = &p->r.in->signature.outputs[o];
        exg_argument arg = graph->outputs[o];

        if (arg.kind == EXG_ARGUMENT_TENSOR) {
            exg_ref ref;

            count_output(p, &p->forms[arg.as_tensor]);
            EXG_TRY_IN(p->r.err, in_form(p, arg.as_tensor, exg_replicate(), &ref),
                       "graph.outputs[%u]", o);
            arg = exg_arg_ref(ref);
        }
        exg_builder_output(p->r.builder, &arg, spec->kind,
                           exg_arena_strdup(p->r.out->arena, spec->target));
    }
    exg_report_node(p, "output", "", &(exg_strategy){0}, 0, 0, 0);
    return exg_builder_status(p->r.builder);
}

exg_status exg_partition_along(const exg_program *functional, const exg_operators *operators,
                               const exg_partition_options *options, const exg_partition_goal *goal,
                               exg_partitioned_dim *along, exg_text *report,
                               exg_partition_summary *summary, exg_program **local, exg_error *err)
{
    partitioner p = {.options = options,
                     .costs = goal->costs,
                     .mode = options->mode,
                     .mesh_dim = along->dim,
                     .n = along->size,
                     .rank = along->place,
                     .report = report,
                     .json = goal->json,
                     .overlaps = goal->overlaps,
                     .moves = EXG_TEXT_EMPTY,
                     .even_only = along->even_only,
                     .pattern = along->pattern,
                     .named_inputs = along->named_inputs};
    exg_status status;

    *local = NULL;
    EXG_TRY(exg_rewrite_begin(&p.r, functional, operators, err));
    exg_builder_set_lowering(p.r.builder, true);
    p.scratch = exg_arena_create(exg_arena_allocator(functional->arena), EXG_ARENA_UNBOUNDED);
    p.forms =
        p.scratch == NULL ? NULL : EXG_NEW_ARRAY(p.scratch, forms, functional->graph->value_count);
    status = p.forms == NULL ? EXG_OUT_OF_MEMORY(err) : place_inputs(&p);
    for (uint32_t i = 0; status == EXG_OK && i < functional->graph->node_count; i++) {
        status = place_node(&p, &functional->graph->nodes[i]);
        if (status != EXG_OK) {
            (void)exg_error_within(err, status, "graph.nodes[%u]", i);
        }
    }
    if (status == EXG_OK) {
        status = place_outputs(&p);
    }
    *summary = p.summary;
    summary->modes[along->dim] = options->mode;
    along->uneven = p.uneven;
    exg_text_free(&p.moves);
    exg_arena_destroy(p.scratch);
    return exg_rewrite_finish(&p.r, status, local);
}
