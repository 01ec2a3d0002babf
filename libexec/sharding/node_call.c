/* node_call.c - a node of a program that is placed: its operands and results, one by one, and the
 * strategies that it has. */
#include "libexec/sharding/partitioner.h"
#include "libexport/operators/lower.h"

#include <exg/emit.h>

static bool is_list(const exg_argument *arg)
{
    return arg->kind == EXG_ARGUMENT_TENSORS || arg->kind == EXG_ARGUMENT_OPTIONAL_TENSORS;
}

static const exg_tensor_meta *meta_of(const exg_partitioner *p, exg_value_id id)
{
    return id == EXG_NO_VALUE ? NULL : p->r.in->graph->values[id].tensor;
}

static exg_status collect_operands(exg_partitioner *p, const exg_operator *op, exg_node_call *n)
{
    uint32_t room = 0;

    for (uint32_t i = 0; i < op->schema->argument_count; i++) {
        room += is_list(&n->args[i]) ? n->args[i].count : 1;
    }
    n->operands = EXG_NEW_ARRAY(p->scratch, exg_value_id, room);
    n->metas = EXG_NEW_ARRAY(p->scratch, const exg_tensor_meta *, room);
    if (n->operands == NULL || n->metas == NULL) {
        return EXG_OUT_OF_MEMORY(p->r.err);
    }
    for (uint32_t i = 0; i < op->schema->argument_count; i++) {
        bool list = is_list(&n->args[i]);
        uint32_t items = list ? n->args[i].count : 1;

        for (uint32_t t = 0; op->schema->arguments[i].type.base == EXG_TYPE_TENSOR && t < items;
             t++) {
            exg_value_id id = list ? n->args[i].as_tensors[t] : exg_get_ref(&n->args[i]).id;

            n->operands[n->call.operand_count] = id;
            n->metas[n->call.operand_count++] = meta_of(p, id);
        }
    }
    return EXG_OK;
}

static exg_status collect_results(exg_partitioner *p, const exg_node *node, exg_node_call *n)
{
    uint32_t count = exg_node_result_count(node);

    n->results = EXG_NEW_ARRAY(p->scratch, exg_value_id, count);
    n->result_metas = EXG_NEW_ARRAY(p->scratch, const exg_tensor_meta *, count);
    if (n->results == NULL || n->result_metas == NULL) {
        return EXG_OUT_OF_MEMORY(p->r.err);
    }
    for (uint32_t i = 0; i < count; i++) {
        n->results[i] = exg_node_result(node, NULL, i);
        n->result_metas[i] = meta_of(p, n->results[i]);
    }
    n->call.results = n->result_metas;
    n->call.result_count = count;
    return EXG_OK;
}

exg_status exg_node_call_of(exg_partitioner *p, uint32_t index, exg_node_call *n)
{
    const exg_node *node = &p->r.in->graph->nodes[index];
    const exg_operator *op = exg_operators_find(p->r.operators, node->target);

    if (op == NULL) {
        return EXG_FAIL(p->r.err, UNSUPPORTED, "OPR-003", "no operator '%s'", node->target);
    }
    *n = (exg_node_call){.args =
                             EXG_NEW_ARRAY(p->scratch, exg_argument, op->schema->argument_count)};
    if (n->args == NULL) {
        return EXG_OUT_OF_MEMORY(p->r.err);
    }
    n->call = (exg_rule_call){.op = op,
                              .args = n->args,
                              .mesh_size = p->n,
                              .emits = true,
                              .arena = p->scratch,
                              .err = p->r.err};
    if (p->is_left_out[index]) {
        return exg_strategy_add(&n->call) == NULL ? EXG_OUT_OF_MEMORY(p->r.err) : EXG_OK;
    }
    EXG_TRY(exg_operator_normalize(op, node, n->args, p->r.err));
    EXG_TRY(collect_operands(p, op, n));
    n->call.operands = n->metas;
    EXG_TRY(collect_results(p, node, n));
    EXG_TRY(exg_rule_strategies(&n->call));
    return p->parts == NULL ? EXG_OK : exg_add_shared_parts(&n->call, p->parts[index]);
}

exg_status exg_node_call_replace(exg_node_call *n, exg_arena *arena, const exg_ref *refs)
{
    const exg_function_schema *schema = n->call.op->schema;
    uint32_t at = 0;

    for (uint32_t i = 0; i < schema->argument_count; i++) {
        if (schema->arguments[i].type.base != EXG_TYPE_TENSOR) {
            continue;
        }
        if (is_list(&n->args[i])) {
            exg_value_id *ids = EXG_NEW_ARRAY(arena, exg_value_id, n->args[i].count);

            if (ids == NULL) {
                return EXG_OUT_OF_MEMORY(n->call.err);
            }
            for (uint32_t t = 0; t < n->args[i].count; t++) {
                ids[t] = refs[at++].id;
            }
            n->args[i].as_tensors = ids;
        } else {
            n->args[i] = exg_arg_ref(refs[at++]);
        }
    }
    return EXG_OK;
}

bool exg_node_call_is_weight(const exg_partitioner *p, const exg_node_call *n)
{
    return n->call.op->view != NULL && n->operands[0] != EXG_NO_VALUE &&
           p->forms[n->operands[0]].is_weight;
}

/* Of one output. */
static uint32_t count_tensors(const exg_argument *output)
{
    return output->kind == EXG_ARGUMENT_TENSORS  ? output->count
           : output->kind == EXG_ARGUMENT_TENSOR ? 1
                                                 : 0;
}

uint32_t exg_node_result_count(const exg_node *node)
{
    uint32_t count = 0;

    for (uint32_t o = 0; o < node->output_count; o++) {
        count += count_tensors(&node->outputs[o]);
    }
    return count;
}

exg_value_id exg_node_result(const exg_node *node, const exg_argument *made, uint32_t index)
{
    uint32_t o = 0;

    while (index >= count_tensors(&node->outputs[o])) {
        index -= count_tensors(&node->outputs[o++]);
    }
    made = made == NULL ? node->outputs : made;
    return node->outputs[o].kind == EXG_ARGUMENT_TENSOR ? exg_get_ref(&made[o]).id
                                                        : exg_lower_item(&made[o], index).id;
}
