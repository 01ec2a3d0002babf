/* loop.c - while_loop, scan and map where a segment ends: their operands become its outputs,
 * their graphs programs. */
#include "libexport/transform/segment_builder.h"

#include <string.h>

static exg_status refuse_loop(exg_segment_builder *m)
{
    return EXG_FAIL(m->err, MALFORMED, "GRF-010", "the graphs of %s take or give other values",
                    m->segment->node->target);
}

/* What every iteration is given alike may be a weight, which the graphs read themselves. */
static exg_status add_operand(exg_segment_builder *m, exg_value_id id, exg_argument number,
                              bool alike)
{
    exg_loop *loop = &m->segment->loop;
    exg_loop_operand *operand = &loop->operands[loop->operand_count];
    const exg_graph *graph = &m->flat->graph;

    *operand = (exg_loop_operand){.number = number};
    loop->operand_count++;
    if (number.kind != EXG_ARGUMENT_NONE) {
        return EXG_OK;
    }
    if (id == EXG_NO_VALUE || m->r.refs[id].id == EXG_NO_VALUE) {
        return refuse_loop(m);
    }
    for (uint32_t i = 0; alike && i < graph->input_count && m->flat->own[id]; i++) {
        operand->is_weight =
            operand->is_weight ||
            (graph->inputs[i].kind == EXG_ARGUMENT_TENSOR && graph->inputs[i].as_tensor == id &&
             m->flat->flat.signature.inputs[i].kind != EXG_INPUT_USER);
    }
    if (!operand->is_weight) {
        operand->output = exg_segment_builder_output(m, m->r.refs[id]);
    } else {
        operand->output = id;
    }
    return EXG_OK;
}

/* A size stands among tensors under its name, as torch.export writes lists of both. */
static exg_status add_listed(exg_segment_builder *m, exg_value_id id, bool alike)
{
    bool is_number = id != EXG_NO_VALUE && m->numbers[id].kind != EXG_ARGUMENT_NONE;

    return add_operand(m, id, is_number ? m->numbers[id] : exg_arg_none(), alike);
}

/* One list of operands. */
static exg_status add_operands(exg_segment_builder *m, const exg_argument *given, bool alike)
{
    exg_argument list;

    EXG_TRY(exg_segment_builder_resolve(m, given, &list));
    switch (list.kind) {
    case EXG_ARGUMENT_TENSOR:
        return add_operand(m, list.as_tensor, exg_arg_none(), alike);
    case EXG_ARGUMENT_TENSORS:
    case EXG_ARGUMENT_OPTIONAL_TENSORS:
        for (uint32_t i = 0; i < list.count; i++) {
            EXG_TRY(add_listed(m, list.as_tensors[i], alike));
        }
        return EXG_OK;
    case EXG_ARGUMENT_INTS:
        for (uint32_t i = 0; i < list.count; i++) {
            EXG_TRY(add_operand(m, EXG_NO_VALUE, exg_arg_int(list.as_ints[i]), alike));
        }
        return EXG_OK;
    case EXG_ARGUMENT_INT:
    case EXG_ARGUMENT_FLOAT:
    case EXG_ARGUMENT_BOOL:
        return add_operand(m, EXG_NO_VALUE, list, alike);
    default:
        return refuse_loop(m);
    }
}

static uint32_t most_operands(const exg_node *node)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < node->input_count; i++) {
        count += node->inputs[i].arg.count + 1;
    }
    return count;
}

/* A graph of the loop as a program: what it is given of weights it reads itself. */
static exg_status loop_program(exg_segment_builder *m, const exg_graph *graph,
                               const exg_program **out)
{
    const exg_program *outer = &m->flat->flat;
    const exg_loop *loop = &m->segment->loop;
    exg_arena *arena = m->segment->arena;
    exg_program *p = exg_arena_memdup(arena, outer, 1, sizeof(*outer));
    exg_signature *s = p == NULL ? NULL : &p->signature;

    if (graph->input_count != loop->operand_count) {
        return refuse_loop(m);
    }
    if (s == NULL) {
        return EXG_OUT_OF_MEMORY(m->err);
    }
    p->graph = (exg_graph *)(uintptr_t)graph;
    *s = (exg_signature){.inputs = EXG_NEW_ARRAY(arena, exg_input_spec, graph->input_count),
                         .outputs = EXG_NEW_ARRAY(arena, exg_output_spec, graph->output_count),
                         .input_count = graph->input_count,
                         .output_count = graph->output_count};
    if (s->inputs == NULL || s->outputs == NULL) {
        return EXG_OUT_OF_MEMORY(m->err);
    }
    for (uint32_t i = 0; i < graph->input_count; i++) {
        const exg_loop_operand *operand = &loop->operands[i];
        bool tensor = graph->inputs[i].kind == EXG_ARGUMENT_TENSOR;

        if (tensor != (operand->number.kind == EXG_ARGUMENT_NONE)) {
            return refuse_loop(m);
        }
        s->inputs[i] = (exg_input_spec){.kind = EXG_INPUT_USER, .persistent = EXG_UNSET};
        for (uint32_t k = 0; operand->is_weight && k < m->flat->graph.input_count; k++) {
            if (m->flat->graph.inputs[k].kind == EXG_ARGUMENT_TENSOR &&
                m->flat->graph.inputs[k].as_tensor == operand->output) {
                s->inputs[i] = outer->signature.inputs[k];
            }
        }
        s->inputs[i].arg = (exg_signature_argument){
            .kind = graph->inputs[i].kind,
            .name = tensor ? graph->values[graph->inputs[i].as_tensor].name : ""};
    }
    for (uint32_t o = 0; o < graph->output_count; o++) {
        s->outputs[o].kind = EXG_OUTPUT_USER;
        s->outputs[o].arg.kind = graph->outputs[o].kind;
    }
    *out = p;
    return EXG_OK;
}

static uint32_t result_count(const exg_node *node)
{
    uint32_t count = 0;

    for (uint32_t o = 0; o < node->output_count; o++) {
        count += node->outputs[o].kind == EXG_ARGUMENT_TENSORS ? node->outputs[o].count : 1;
    }
    return count;
}

/* (condition, body, carried, others), (body, carried, sliced, others), (body, sliced, others) */
exg_status exg_segment_builder_loop(exg_segment_builder *m)
{
    const exg_node *node = m->segment->node;
    exg_higher_order is = exg_higher_order_of(node->target);
    exg_loop *loop = &m->segment->loop;
    uint32_t first = is == EXG_HIGHER_ORDER_WHILE_LOOP ? 2 : 1;

    loop->operands = EXG_NEW_ARRAY(m->segment->arena, exg_loop_operand, most_operands(node));
    if (loop->operands == NULL) {
        return EXG_OUT_OF_MEMORY(m->err);
    }
    for (uint32_t i = 0; i < first; i++) {
        if (i >= node->input_count || node->inputs[i].arg.kind != EXG_ARGUMENT_GRAPH) {
            return refuse_loop(m);
        }
    }
    for (uint32_t i = first; i < node->input_count; i++) {
        EXG_TRY(add_operands(m, &node->inputs[i].arg, i > first + (is == EXG_HIGHER_ORDER_SCAN)));
        if (i == first) {
            loop->carried_count = is == EXG_HIGHER_ORDER_MAP ? 0 : loop->operand_count;
            loop->sliced_count = is == EXG_HIGHER_ORDER_MAP ? loop->operand_count : 0;
        } else if (i == first + 1 && is == EXG_HIGHER_ORDER_SCAN) {
            loop->sliced_count = loop->operand_count - loop->carried_count;
        }
    }
    if (first == 2) {
        EXG_TRY(loop_program(m, node->inputs[0].arg.as_graph->graph, &loop->condition));
    }
    EXG_TRY(loop_program(m, node->inputs[first - 1].arg.as_graph->graph, &loop->body));
    loop->result_count = result_count(node);
    loop->is_stacked = strcmp(node->target, "torch.ops.higher_order.while_loop_stack_output") == 0;
    if (loop->result_count != loop->body->graph->output_count ||
        loop->result_count < loop->carried_count ||
        (loop->condition != NULL && loop->condition->graph->output_count != 1) ||
        (first == 2 && loop->result_count != loop->carried_count) ||
        (first == 1 && loop->sliced_count == 0)) {
        return refuse_loop(m);
    }
    return EXG_OK;
}
