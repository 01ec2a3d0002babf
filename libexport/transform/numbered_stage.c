/* numbered_stage.c - a program after a stage, with numbers for its symbols. */
#include "libexport/operators/aten.h"
#include "libexport/operators/lower.h"
#include "libexport/transform/graph_segment.h"
#include "libexport/transform/stage.h"

#include <exg/operator_id_new.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory in PyTorch ---------------------------------------------------------------------- */

/* Views do not copy, and PyTorch's strides need not be ours: what may lie otherwise than row by row
 * there is copied before it is viewed. */
typedef struct relayer {
    exg_program *program;
    const exg_operators *operators;
    bool *row_major; /* by value id, surely so in PyTorch */
    uint32_t value_capacity, node_capacity;
    exg_node *nodes;
    uint32_t node_count;
    exg_error *err;
} relayer;

static bool lies_by_rows(const exg_strided *s)
{
    int64_t expected = 1;

    for (uint32_t d = s->rank; d-- > 0;) {
        if (s->sizes[d] != 1 && s->strides[d] != expected) {
            return false;
        }
        expected *= s->sizes[d];
    }
    return true;
}

/* Is the view of a tensor that lies row by row, whatever is recorded of it, one that does? */
static bool views_by_rows(const relayer *r, const exg_node *node, const exg_operator *op)
{
    const exg_argument *viewed = &node->inputs[0].arg;
    exg_argument args[EXG_ARGUMENTS_MAX];
    const exg_tensor_meta *meta;
    exg_strided in, out = {0};
    int64_t stride = 1;

    if (viewed->kind != EXG_ARGUMENT_TENSOR ||
        exg_operator_normalize(op, node, args, NULL) != EXG_OK) {
        return false;
    }
    meta = r->program->graph->values[viewed->as_tensor].tensor;
    if (exg_strided_of(meta, &in, NULL) != EXG_OK) {
        return false;
    }
    in.dtype = out.dtype = meta->dtype;
    for (uint32_t d = in.rank; d-- > 0;) {
        in.strides[d] = stride;
        stride *= in.sizes[d] > 0 ? in.sizes[d] : 1;
    }
    return op->view(args, &in, &out, NULL) == EXG_OK && lies_by_rows(&out);
}

static bool reads_by_rows(const relayer *r, const exg_node *node)
{
    bool by_rows = true;

    for (uint32_t i = 0; i < node->input_count; i++) {
        const exg_argument *arg = &node->inputs[i].arg;
        bool is_list =
            arg->kind == EXG_ARGUMENT_TENSORS || arg->kind == EXG_ARGUMENT_OPTIONAL_TENSORS;
        bool is_one = arg->kind == EXG_ARGUMENT_TENSOR || arg->kind == EXG_ARGUMENT_OPTIONAL_TENSOR;

        for (uint32_t k = 0; k < (is_list ? arg->count : is_one); k++) {
            exg_value_id id = is_list ? arg->as_tensors[k] : arg->as_tensor;

            by_rows = by_rows && (id == EXG_NO_VALUE || r->row_major[id]);
        }
    }
    return by_rows;
}

/* Does PyTorch give its results row by row? */
static bool gives_by_rows(const relayer *r, const exg_node *node, const exg_operator *op)
{
    const exg_aten *aten = exg_operators_aten(r->operators, op->id);

    switch (op->id) {
    case EXG_OP_mm_default:
    case EXG_OP_addmm_default:
    case EXG_OP_bmm_default:
        return true;
    case EXG_OP_clone_default:
        return (node->input_count > 1 && node->inputs[1].arg.kind == EXG_ARGUMENT_MEMORY_FORMAT &&
                node->inputs[1].arg.as_memory_format == EXG_MEMORY_FORMAT_CONTIGUOUS) ||
               reads_by_rows(r, node);
    case EXG_OP_index_Tensor:
        return false;
    default:
        return reads_by_rows(r, node) &&
               (op->view != NULL ? views_by_rows(r, node, op)
                                 : aten->stays || op->pointwise != EXG_POINTWISE_NOT);
    }
}

static exg_status put_node(relayer *r, const exg_node *node)
{
    if (!exg_arena_reserve(r->program->arena, &r->nodes, r->node_count, &r->node_capacity,
                           sizeof(*r->nodes))) {
        return EXG_OUT_OF_MEMORY(r->err);
    }
    r->nodes[r->node_count++] = *node;
    return EXG_OK;
}

/* A copy of argument 0, row by row, before the node; the node reads it. */
static exg_status put_copy(relayer *r, exg_node *node)
{
    exg_graph *graph = r->program->graph;
    exg_arena *arena = r->program->arena;
    const exg_operator *clone = exg_operators_get(r->operators, EXG_OP_clone_default);
    const exg_value *from = &graph->values[node->inputs[0].arg.as_tensor];
    exg_tensor_meta *meta = exg_meta_copy(arena, from->tensor);
    const char *name = exg_arena_printf(arena, "%s_contiguous", node->name);
    exg_named_argument *inputs = EXG_NEW_ARRAY(arena, exg_named_argument, 2 + node->input_count);
    exg_argument *output = EXG_NEW(arena, exg_argument);
    exg_node copy = {.name = name,
                     .target = clone->target,
                     .inputs = inputs,
                     .input_count = 2,
                     .outputs = output,
                     .output_count = 1,
                     .metadata = node->metadata,
                     .is_hop_single_tensor_return = EXG_UNSET};

    if (meta == NULL || name == NULL || inputs == NULL || output == NULL ||
        !exg_arena_reserve(arena, &graph->values, graph->value_count, &r->value_capacity,
                           sizeof(*graph->values))) {
        return EXG_OUT_OF_MEMORY(r->err);
    }
    exg_meta_contiguous(meta);
    *output = (exg_argument){.kind = EXG_ARGUMENT_TENSOR, .as_tensor = graph->value_count};
    graph->values[graph->value_count++] = (exg_value){.name = name, .tensor = meta};
    inputs[0] = node->inputs[0];
    inputs[1] = (exg_named_argument){.name = "memory_format",
                                     .kind = EXG_KIND_KEYWORD,
                                     .arg = {.kind = EXG_ARGUMENT_MEMORY_FORMAT,
                                             .as_memory_format = EXG_MEMORY_FORMAT_CONTIGUOUS}};
    memcpy(inputs + 2, node->inputs, node->input_count * sizeof(*inputs));
    inputs[2].arg.as_tensor = output->as_tensor;
    node->inputs = inputs + 2;
    return put_node(r, &copy);
}

static exg_status relay_node(relayer *r, exg_node *node)
{
    const exg_operator *op = exg_operators_find(r->operators, node->target);
    bool by_rows = op != NULL && gives_by_rows(r, node, op);

    if (op != NULL && (op->id == EXG_OP_view_default || op->id == EXG_OP_as_strided_default) &&
        node->inputs[0].arg.kind == EXG_ARGUMENT_TENSOR &&
        !r->row_major[node->inputs[0].arg.as_tensor]) {
        EXG_TRY(put_copy(r, node));
        by_rows = op->id == EXG_OP_view_default;
    }
    for (uint32_t o = 0; o < node->output_count; o++) {
        const exg_argument *output = &node->outputs[o];

        if (output->kind == EXG_ARGUMENT_TENSOR) {
            r->row_major[output->as_tensor] = by_rows;
        }
        for (uint32_t i = 0; output->kind == EXG_ARGUMENT_TENSORS && i < output->count; i++) {
            r->row_major[output->as_tensors[i]] = by_rows;
        }
    }
    return put_node(r, node);
}

/* What a caller gives lies as it did when the program was exported; what a run gives its inputs
 * lies row by row. */
static exg_status relay_inputs(relayer *r, const exg_program *source, const exg_symbols *symbols)
{
    exg_graph *graph = r->program->graph;

    for (uint32_t i = 0; i < graph->input_count && i < source->graph->input_count; i++) {
        exg_value *value;
        exg_strided places;

        if (graph->inputs[i].kind != EXG_ARGUMENT_TENSOR) {
            continue;
        }
        value = &graph->values[graph->inputs[i].as_tensor];
        if (source->signature.inputs[i].kind == EXG_INPUT_USER &&
            source->graph->inputs[i].kind == EXG_ARGUMENT_TENSOR) {
            EXG_TRY(exg_input_meta(source, i, symbols, r->program->arena, &value->tensor, r->err));
        }
        EXG_TRY(exg_strided_of(value->tensor, &places, r->err));
        r->row_major[graph->inputs[i].as_tensor] = lies_by_rows(&places);
    }
    return EXG_OK;
}

static exg_status relay(exg_program *program, const exg_verified *verified,
                        const exg_symbols *symbols, exg_error *err)
{
    exg_graph *graph = program->graph;
    relayer r = {.program = program, .operators = verified->operators, .err = err};

    r.value_capacity = graph->value_count; /* it moves before it grows */
    r.row_major = EXG_NEW_ARRAY(program->arena, bool, graph->value_count);
    if (r.row_major == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    EXG_TRY(relay_inputs(&r, verified->program, symbols));
    for (uint32_t n = 0; n < graph->node_count; n++) {
        EXG_TRY(relay_node(&r, &graph->nodes[n]));
    }
    graph->nodes = r.nodes;
    graph->node_count = r.node_count;
    return EXG_OK;
}

/* ---- assertions on data --------------------------------------------------------------------- */

/* Assertions on data, which a run looks at when it is done, are nodes of the program again. */
static exg_status put_checks(exg_program *made, uint32_t mutation_count, uint32_t own_count,
                             exg_error *err)
{
    exg_graph *graph = made->graph;
    uint32_t kept = mutation_count + own_count;
    uint32_t count = graph->output_count > kept ? graph->output_count - kept : 0;
    uint32_t capacity = graph->node_count;

    for (uint32_t i = 0; i < count; i++) {
        exg_named_argument *inputs = EXG_NEW_ARRAY(made->arena, exg_named_argument, 2);
        const char *name = exg_arena_printf(made->arena, "assert_%u", i);

        if (inputs == NULL || name == NULL ||
            !exg_arena_reserve(made->arena, &graph->nodes, graph->node_count, &capacity,
                               sizeof(*graph->nodes))) {
            return EXG_OUT_OF_MEMORY(err);
        }
        inputs[0] = (exg_named_argument){
            .name = "self", .kind = EXG_KIND_POSITIONAL, .arg = graph->outputs[kept + i]};
        inputs[1] = (exg_named_argument){
            .name = "assert_msg",
            .kind = EXG_KIND_POSITIONAL,
            .arg = {.kind = EXG_ARGUMENT_STRING, .as_string = "an assertion of the program"}};
        graph->nodes[graph->node_count++] = (exg_node){.name = name,
                                                       .target = "torch.ops.aten._assert_async.msg",
                                                       .inputs = inputs,
                                                       .input_count = 2,
                                                       .is_hop_single_tensor_return = EXG_UNSET};
    }
    graph->output_count = kept;
    made->signature.output_count = kept;
    return EXG_OK;
}

/* ---- stages ---------------------------------------------------------------------------------- */

static exg_status refuse_break(char *reason, exg_program **part, exg_error *err)
{
    exg_status status = EXG_FAIL(err, UNSUPPORTED, "TRF-004",
                                 "the program is known in parts alone before it runs: %s", reason);

    free(reason);
    exg_program_destroy(*part);
    *part = NULL;
    return status;
}

static exg_status decomposed(const exg_verified *verified, const exg_symbols *symbols,
                             exg_program **out, exg_error *err)
{
    char *reason = NULL;

    EXG_TRY(exg_first_segment(verified, symbols, out, &reason, err));
    return reason == NULL ? EXG_OK : refuse_break(reason, out, err);
}

/* `made` becomes what `status` and `next` say. */
static exg_status replace(exg_program **made, exg_status status, exg_program *next)
{
    exg_program_destroy(*made);
    *made = status == EXG_OK ? next : NULL;
    return status;
}

/* Is something written in place, so that what is a view has to stay one? */
static bool writes(const exg_program *made, const exg_operators *operators)
{
    for (uint32_t n = 0; n < made->graph->node_count; n++) {
        const exg_operator *op = exg_operators_find(operators, made->graph->nodes[n].target);

        if (op != NULL && op->schema->is_mutable) {
            return true;
        }
    }
    return false;
}

static exg_status make(const exg_verified *verified, const exg_symbols *symbols, exg_stage stage,
                       exg_program **made, exg_error *err)
{
    exg_program *next = NULL;
    uint32_t own_count = verified->program->graph->output_count;
    uint32_t check_count;
    exg_status status;

    EXG_TRY(decomposed(verified, symbols, made, err));
    check_count = (*made)->graph->output_count - own_count;
    if (stage >= EXG_STAGE_FUNCTIONALIZE) {
        status = exg_functionalize(*made, verified->operators, &next, err);
        EXG_TRY(replace(made, status, next));
    }
    if (stage >= EXG_STAGE_SIMPLIFY) {
        status = exg_simplify(*made, verified->operators, &next, err);
        EXG_TRY(replace(made, status, next));
        status = exg_decompose(*made, verified->operators, &next, err); /* what it made is ours */
        EXG_TRY(replace(made, status, next));
    }
    if (stage >= EXG_STAGE_FUNCTIONALIZE || !writes(*made, verified->operators)) {
        EXG_TRY(relay(*made, verified, symbols, err));
    }
    return put_checks(*made, (*made)->graph->output_count - own_count - check_count, own_count,
                      err);
}

exg_status exg_stage_of_numbers(const exg_verified *verified, const exg_symbols *symbols,
                                exg_stage stage, exg_program **out, exg_error *err)
{
    exg_program *made = NULL;
    exg_status status = make(verified, symbols, stage, &made, err);

    if (status != EXG_OK) {
        exg_program_destroy(made);
        made = NULL;
    }
    *out = made;
    return status;
}
