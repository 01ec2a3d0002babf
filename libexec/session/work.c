/* work.c - as placing weighs it (predict.c), counted in operations. */
#include "libexec/session/work.h"

#include "libexec/plan/plan_internal.h"
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

/* ---- a step ---------------------------------------------------------------------------------- */

typedef struct step_meta {
    exg_tensor_meta meta;
    exg_sym_int sizes[EXG_RANK_MAX];
} step_meta;

static void describe(const exg_tensor *tensor, step_meta *made)
{
    made->meta = (exg_tensor_meta){
        .dtype = tensor->dtype, .rank = tensor->rank, .sizes = made->sizes, .strides = made->sizes};
    for (uint32_t d = 0; d < tensor->rank; d++) {
        made->sizes[d] = exg_sym_int_of(tensor->sizes[d]);
    }
}

static uint64_t bytes_of(const exg_tensor *tensor)
{
    uint64_t bytes = exg_tensor_is_absent(tensor) ? 0 : exg_dtype_bytes(tensor->dtype);

    for (uint32_t d = 0; bytes > 0 && d < tensor->rank; d++) {
        bytes *= tensor->strides[d] == 0 && tensor->sizes[d] > 0 ? 1 : (uint64_t)tensor->sizes[d];
    }
    return bytes;
}

#define FACTORS_MAX 4 /* operands of which a product has its sizes */

void exg_step_work(const exg_step *step, const exg_operators *operators, double *flops,
                   uint64_t *bytes)
{
    const exg_operator *op = exg_operators_find(operators, step->target);
    const uint32_t count = exg_step_operands(step);
    const uint32_t factors =
        step->call.input_count < FACTORS_MAX ? step->call.input_count : FACTORS_MAX;
    step_meta metas[FACTORS_MAX];
    const exg_tensor_meta *operands[FACTORS_MAX] = {NULL};
    step_meta result;
    uint64_t looked_up; /* of the first operand, at most */

    *bytes = 0;
    *flops = 0;
    for (uint32_t o = 0; o < step->call.output_count; o++) {
        *bytes += bytes_of(&step->outputs[o].view);
    }
    looked_up = exg_operator_looks_up(op) ? *bytes : UINT64_MAX;
    for (uint32_t i = 0; i < count; i++) {
        bool is_packed = step->has_packed && i == step->kernel->packs; /* what was made is read */
        bool is_table = i == 0 || i >= step->call.input_count; /* the packed one comes last */
        uint64_t all = is_packed ? 0 : bytes_of(&step->inputs[i].view);

        *bytes += is_table && all > looked_up ? looked_up : all;
    }
    for (uint32_t i = 0; i < factors; i++) {
        if (!exg_tensor_is_absent(&step->inputs[i].view)) {
            describe(&step->inputs[i].view, &metas[i]);
            operands[i] = &metas[i].meta;
        }
    }
    if (step->call.output_count > 0 && !exg_tensor_is_absent(&step->outputs[0].view)) {
        describe(&step->outputs[0].view, &result);
        *flops = exg_operator_flops(op, operands, factors, &result.meta);
    }
}
