/* set_source.c - set_: from here on the one tensor is the other. An input is what its caller holds:
 * it gets the other's elements, and nothing may write either of them afterwards. */
#include "libexport/transform/segment_builder.h"

#include <exg/operator_id_new.h>

static bool is_input(const exg_graph *graph, exg_value_id id)
{
    for (uint32_t i = 0; i < graph->input_count; i++) {
        if (graph->inputs[i].kind == EXG_ARGUMENT_TENSOR && graph->inputs[i].as_tensor == id) {
            return true;
        }
    }
    return false;
}

static bool same_sizes(const exg_segment_builder *m, exg_value_id a, exg_value_id b)
{
    const exg_tensor_meta *one = exg_ref_meta(m->r.builder, m->r.refs[a]);
    const exg_tensor_meta *other = exg_ref_meta(m->r.builder, m->r.refs[b]);
    bool same = one != NULL && other != NULL && one->rank == other->rank;

    for (uint32_t d = 0; same && d < one->rank; d++) {
        same = one->sizes[d].value == other->sizes[d].value;
    }
    return same;
}

static bool writes_later(const exg_segment_builder *m)
{
    for (uint32_t n = m->at + 1; n < m->flat->graph.node_count; n++) {
        const exg_operator *op = exg_operators_find(m->r.operators, m->flat->graph.nodes[n].target);

        if (op != NULL && op->schema->is_mutable) {
            return true;
        }
    }
    return false;
}

exg_status exg_segment_builder_set(exg_segment_builder *m, const exg_node *node)
{
    const exg_graph *graph = &m->flat->graph;
    exg_value_id self, source;
    exg_argument args[2];
    exg_argument result;

    if (node->input_count != 2 || node->inputs[0].arg.kind != EXG_ARGUMENT_TENSOR ||
        node->inputs[1].arg.kind != EXG_ARGUMENT_TENSOR || node->output_count != 1 ||
        node->outputs[0].kind != EXG_ARGUMENT_TENSOR) {
        return EXG_FAIL(m->err, MALFORMED, "NOD-015", "%s of other arguments", node->target);
    }
    self = node->inputs[0].arg.as_tensor;
    source = node->inputs[1].arg.as_tensor;
    if (!is_input(graph, self)) {
        m->r.refs[self] = m->r.refs[source];
        m->r.refs[node->outputs[0].as_tensor] = m->r.refs[source];
        return EXG_OK;
    }
    if (writes_later(m) || !same_sizes(m, self, source)) {
        return EXG_FAIL(m->err, UNSUPPORTED, "OPR-002",
                        "%s of an input to other sizes, or with a write after it", node->target);
    }
    args[0] = exg_arg_ref(m->r.refs[self]);
    args[1] = exg_arg_ref(m->r.refs[source]);
    EXG_TRY(exg_emit_all(m->r.builder, EXG_OP_copy__default, args, 2, &result));
    exg_rewrite_set(&m->r, node, &result);
    return EXG_OK;
}
