/* work.c - as placing weighs it (predict.c), counted in operations. */
#include "libexec/session/work.h"
#include "libexec/sharding/partitioner.h"

#define OPERANDS_MAX 64

typedef struct reading {
    const exg_graph *graph;
    const exg_tensor_meta *operands[OPERANDS_MAX];
    uint32_t count;
    double beside; /* bytes of what has no place there */
} reading;

static void read_operand(void *user, exg_value_id *id)
{
    reading *r = user;
    const exg_tensor_meta *meta = *id == EXG_NO_VALUE ? NULL : r->graph->values[*id].tensor;

    if (r->count < OPERANDS_MAX) {
        r->operands[r->count++] = meta;
    } else {
        r->beside += meta == NULL ? 0 : exg_meta_bytes(meta);
    }
}

double exg_work_of(const exg_program *functional, const exg_operators *operators)
{
    const exg_graph *graph = functional->graph;
    exg_costs costs = {.size = sizeof(costs), .ns_per_flop = 1, .ns_per_touched = 0.25};
    double work = 0;

    for (uint32_t n = 0; n < graph->node_count; n++) {
        const exg_node *node = &graph->nodes[n];
        const exg_operator *op = exg_operators_find(operators, node->target);
        reading r = {.graph = graph};

        for (uint32_t i = 0; i < node->input_count; i++) {
            exg_argument arg = node->inputs[i].arg; /* the visitor writes nothing */

            exg_argument_visit_values(&arg, read_operand, &r);
        }
        if (op != NULL && node->output_count > 0 && node->outputs[0].kind == EXG_ARGUMENT_TENSOR) {
            work += exg_predict_work(&costs, op, r.operands, r.count,
                                     graph->values[node->outputs[0].as_tensor].tensor);
            work += op->view != NULL ? 0 : r.beside * costs.ns_per_touched;
        }
    }
    return work;
}
