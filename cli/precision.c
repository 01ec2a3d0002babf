/* precision.c - --precision: the program as if it had been exported in another floating-point
 * dtype. Weights, what nodes give, and dtypes that nodes are told become that one; what an operator
 * gives in a dtype of its own keeps it. Numbers that the dtype cannot hold become its largest, as
 * torch.finfo gives them to masks. */
#include "cli/cli.h"

#include <exg/memory.h>
#include <exg/weights_edit.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 64

typedef struct caster {
    cli_program *p;
    exg_arena *arena; /* of the program */
    exg_dtype dtype;
    exg_error *err;
} caster;

/* Those that models are computed in. */
static bool is_cast(exg_dtype dtype)
{
    return exg_dtype_is_float(dtype) && exg_dtype_bytes(dtype) > 1;
}

static exg_status read_dtype(const char *name, exg_dtype *dtype, exg_error *err)
{
    for (int d = EXG_DTYPE_UNKNOWN + 1; d < EXG_DTYPE_COUNT; d++) {
        if (is_cast((exg_dtype)d) && (strcmp(name, exg_dtype_short_name((exg_dtype)d)) == 0 ||
                                      strcmp(name, exg_dtype_name((exg_dtype)d)) == 0)) {
            *dtype = (exg_dtype)d;
            return EXG_OK;
        }
    }
    return exg_error_fix(err, EXG_FAIL(err, USAGE, "CLI-001", "no precision '%s'", name),
                         "--precision takes bf16, f16, f32 or f64");
}

/* ---- nodes ------------------------------------------------------------------------------------
 */

typedef struct results {
    exg_graph *graph;
    exg_tensor_meta **metas;
    uint32_t count, at;
} results;

static void take_dtype(void *user, exg_value_id *id)
{
    results *r = user;

    if (*id != EXG_NO_VALUE && r->at < r->count && r->metas[r->at] != NULL &&
        r->graph->values[*id].tensor != NULL) {
        r->graph->values[*id].tensor->dtype = r->metas[r->at]->dtype;
    }
    r->at++;
}

/* What the operator gives of operands that are cast, as far as one function says so. */
static exg_status infer(const caster *c, exg_graph *graph, exg_node *node, exg_arena *scratch)
{
    const exg_operator *op = exg_operators_find(c->p->operators, node->target);
    exg_argument args[EXG_ARGUMENTS_MAX];
    results r = {.graph = graph};

    if (op == NULL || op->schema == NULL || op->schema->is_mutable ||
        (op->shape == NULL && op->view == NULL && op->pointwise == EXG_POINTWISE_NOT) ||
        exg_operator_normalize(op, node, args, NULL) != EXG_OK ||
        exg_operator_infer(op, args, graph, scratch, &r.metas, &r.count, NULL) != EXG_OK) {
        return EXG_OK;
    }
    for (uint32_t o = 0; o < node->output_count; o++) {
        exg_argument_visit_values(&node->outputs[o], take_dtype, &r);
    }
    return EXG_OK;
}

/* The largest finite number of those that models are computed in. */
static double largest(exg_dtype dtype)
{
    switch (dtype) {
    case EXG_DTYPE_F16:
        return 65504;
    case EXG_DTYPE_BF16:
        return 0x1.FEp127;
    case EXG_DTYPE_F32:
        return FLT_MAX;
    default:
        return DBL_MAX;
    }
}

static exg_status cast_graph(const caster *c, exg_graph *graph, exg_arena *scratch, uint32_t depth)
{
    if (depth > DEPTH_MAX) {
        return EXG_FAIL(c->err, LIMIT, "GRF-010", "graphs in graphs, more than %d", DEPTH_MAX);
    }
    for (uint32_t v = 0; v < graph->value_count; v++) {
        exg_tensor_meta *meta = graph->values[v].tensor;

        if (meta != NULL && is_cast(meta->dtype)) {
            meta->dtype = c->dtype;
        }
    }
    for (uint32_t n = 0; n < graph->node_count; n++) {
        exg_node *node = &graph->nodes[n];

        for (uint32_t i = 0; i < node->input_count; i++) {
            exg_argument *arg = &node->inputs[i].arg;

            if (arg->kind == EXG_ARGUMENT_SCALAR_TYPE && is_cast(arg->as_scalar_type)) {
                arg->as_scalar_type = c->dtype;
            } else if (arg->kind == EXG_ARGUMENT_FLOAT && isfinite(arg->as_float)) {
                arg->as_float = fmax(-largest(c->dtype), fmin(arg->as_float, largest(c->dtype)));
            } else if (arg->kind == EXG_ARGUMENT_GRAPH) {
                EXG_TRY(cast_graph(c, arg->as_graph->graph, scratch, depth + 1));
            }
        }
        EXG_TRY(infer(c, graph, node, scratch));
    }
    return EXG_OK;
}

/* ---- weights ----------------------------------------------------------------------------------
 */

static exg_status cast_weights(const caster *c)
{
    exg_program *program = c->p->program;
    exg_string_pair *pairs = EXG_NEW_ARRAY(c->arena, exg_string_pair, program->weights->count);
    exg_weights_edit_options options = {
        .size = sizeof(options), .dtypes.items = pairs, .lenient = true};
    exg_weights *made;

    if (pairs == NULL) {
        return EXG_OUT_OF_MEMORY(c->err);
    }
    for (uint32_t w = 0; w < program->weights->count; w++) {
        const exg_weight *weight = &program->weights->items[w];

        if (weight->meta != NULL && is_cast(weight->meta->dtype)) {
            pairs[options.dtypes.count++] =
                (exg_string_pair){weight->fqn, exg_dtype_short_name(c->dtype)};
        }
    }
    if (options.dtypes.count == 0) {
        return EXG_OK;
    }
    EXG_TRY(exg_weights_edit(program->weights, &options, &made, c->err));
    c->p->samples = program->weights;
    program->weights = made;
    return EXG_OK;
}

exg_status cli_take_precision(const cli_call *call, cli_program *p, exg_error *err)
{
    caster c = {.p = p, .err = err};
    exg_arena *scratch;
    exg_status status;

    if (call->precision == NULL) {
        return EXG_OK;
    }
    EXG_TRY(read_dtype(call->precision, &c.dtype, err));
    c.arena = p->program->arena;
    scratch = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    status =
        scratch == NULL ? EXG_OUT_OF_MEMORY(err) : cast_graph(&c, p->program->graph, scratch, 0);
    exg_arena_destroy(scratch);
    EXG_TRY(status);
    EXG_TRY(cast_weights(&c));
    EXG_TRY_IN(err, exg_verify(p->program, p->operators, &p->verified, NULL, err),
               "in %s:", call->precision);
    return EXG_OK;
}

/* ---- inputs ------------------------------------------------------------------------------------
 */

/* The dtype that the program takes, of an input that is given in another floating-point one. */
static bool takes_other(const exg_program *program, const exg_session_input *input,
                        exg_dtype *dtype)
{
    const exg_value_id id = exg_graph_find_value(program->graph, input->name);
    const exg_tensor_meta *meta = id == EXG_NO_VALUE ? NULL : program->graph->values[id].tensor;

    *dtype = meta == NULL ? EXG_DTYPE_UNKNOWN : meta->dtype;
    return !input->is_number && meta != NULL && meta->dtype != input->tensor.dtype &&
           is_cast(meta->dtype) && is_cast(input->tensor.dtype) && input->tensor.data != NULL;
}

exg_status cli_inputs_cast(const cli_program *p, cli_inputs *inputs, exg_error *err)
{
    for (uint32_t i = 0; i < inputs->count; i++) {
        exg_tensor *from = &inputs->items[i].tensor;
        exg_tensor to = *from;

        if (!takes_other(p->program, &inputs->items[i], &to.dtype)) {
            continue;
        }
        to.data = exg_arena_alloc(inputs->arena, (size_t)exg_tensor_numel(from) + 1,
                                  exg_dtype_bytes(to.dtype));
        if (to.data == NULL) {
            return EXG_OUT_OF_MEMORY(err);
        }
        for (int64_t k = 0; k < exg_tensor_numel(from); k++) { /* both lie row by row */
            exg_element_store(
                to.dtype, (char *)to.data + k * (int64_t)exg_dtype_bytes(to.dtype),
                exg_element_value(from->dtype, (const char *)from->data +
                                                   k * (int64_t)exg_dtype_bytes(from->dtype)));
        }
        exg_tensor_set_contiguous(&to);
        *from = to;
    }
    return EXG_OK;
}
