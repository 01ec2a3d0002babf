/* rewrite.c - what passes that rebuild a graph have in common. */
#include "libexport/transform/rewrite.h"
#include "libexport/base/own_fix.h"
#include "libexport/operators/lower.h"
#include "libexport/transform/ways_out.h"

#include <exg/weights.h>
#include <string.h>

exg_status exg_rewrite_begin(exg_rewrite *r, const exg_program *in, const exg_operators *operators,
                             exg_error *err)
{
    *r = (exg_rewrite){.in = in, .operators = operators, .err = err};
    exg_error_clear(err); /* what the builder finds is told at the end, beside what is set here */
    EXG_TRY(exg_program_create(exg_arena_allocator(in->arena), EXG_ARENA_UNBOUNDED, &r->out, err));
    exg_weights_release(r->out->weights);
    r->out->weights = exg_weights_retain(in->weights);
    r->out->name = exg_arena_strdup(r->out->arena, in->name);
    r->refs = EXG_NEW_ARRAY(r->out->arena, exg_ref, in->graph->value_count);
    if (r->refs == NULL || exg_builder_create(operators, r->out, &r->builder, err) != EXG_OK) {
        exg_program_destroy(r->out);
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t i = 0; i < in->graph->value_count; i++) {
        r->refs[i] = EXG_NO_REF;
    }
    return EXG_OK;
}

const char *exg_rewrite_text(exg_rewrite *r, const char *text)
{
    const char *copy = exg_arena_strdup(r->out->arena, text);
    exg_error err;

    if (text != NULL && copy == NULL) {
        exg_ignore(EXG_OUT_OF_MEMORY(&err));
        exg_builder_fail(r->builder, &err);
    }
    return copy;
}

exg_status exg_rewrite_inputs(exg_rewrite *r)
{
    const exg_graph *graph = r->in->graph;

    for (uint32_t i = 0; i < graph->input_count; i++) {
        const exg_argument *input = &graph->inputs[i];
        const exg_input_spec *spec = &r->in->signature.inputs[i];

        if (input->kind == EXG_ARGUMENT_TENSOR) {
            r->refs[input->as_tensor] =
                exg_builder_input(r->builder, graph->values[input->as_tensor].name,
                                  graph->values[input->as_tensor].tensor, spec->kind,
                                  exg_rewrite_text(r, spec->target), spec->persistent);
        } else {
            exg_builder_constant_input(r->builder, exg_rewrite_text(r, spec->arg.name), input);
        }
    }
    return exg_builder_status(r->builder);
}

static exg_status translate(exg_rewrite *r, exg_value_id *id)
{
    exg_value_id old = *id;
    exg_ref ref;

    if (old == EXG_NO_VALUE) {
        return EXG_OK;
    }
    ref = r->read != NULL ? r->read(r->user, old) : r->refs[old];
    if (ref.id == EXG_NO_VALUE) {
        if (exg_builder_status(r->builder) != EXG_OK) {
            return exg_builder_status(r->builder);
        }
        return EXG_FAIL(r->err, UNSUPPORTED, "TRF-001",
                        "value '%s' is not a tensor that can be read",
                        r->in->graph->values[old].name);
    }
    *id = ref.id;
    return EXG_OK;
}

exg_status exg_rewrite_argument(exg_rewrite *r, exg_argument *arg)
{
    EXG_TRY(exg_argument_copy(r->out->arena, arg, r->err));
    if (arg->kind == EXG_ARGUMENT_TENSOR || arg->kind == EXG_ARGUMENT_OPTIONAL_TENSOR) {
        return translate(r, &arg->as_tensor);
    }
    if (arg->kind == EXG_ARGUMENT_TENSORS || arg->kind == EXG_ARGUMENT_OPTIONAL_TENSORS) {
        for (uint32_t i = 0; i < arg->count; i++) {
            EXG_TRY(translate(r, &arg->as_tensors[i]));
        }
    }
    return EXG_OK;
}

exg_status exg_rewrite_args(exg_rewrite *r, const exg_node *node, const exg_operator **op,
                            exg_argument *args)
{
    *op = exg_operators_find(r->operators, node->target);
    if (*op == NULL) {
        return exg_fail_missing(r->err, "no operator ", node->target);
    }
    EXG_TRY(exg_operator_normalize(*op, node, args, r->err));
    exg_builder_set_origin(r->builder, &node->metadata);
    for (uint32_t i = 0; i < (*op)->schema->argument_count; i++) {
        EXG_TRY(exg_rewrite_argument(r, &args[i]));
    }
    return EXG_OK;
}

/* Visits the value ids a node defines, in order. */
static void output_ids(const exg_node *node,
                       void (*visit)(void *user, uint32_t at, exg_value_id id), void *user)
{
    uint32_t at = 0;

    for (uint32_t o = 0; o < node->output_count; o++) {
        const exg_argument *output = &node->outputs[o];

        if (output->kind == EXG_ARGUMENT_TENSOR) {
            visit(user, at++, output->as_tensor);
        } else if (output->kind == EXG_ARGUMENT_TENSORS) {
            for (uint32_t i = 0; i < output->count; i++) {
                visit(user, at++, output->as_tensors[i]);
            }
        } else {
            at++;
        }
    }
}

typedef struct result_list {
    const exg_graph *graph;
    const char *names[64];
    const exg_tensor_meta *metas[64];
    uint32_t count;
} result_list;

static void add_result(void *user, uint32_t at, exg_value_id id)
{
    result_list *list = user;

    if (at < 64) {
        list->names[at] = list->graph->values[id].name;
        list->metas[at] = list->graph->values[id].tensor;
        list->count = at + 1;
    }
}

void exg_rewrite_set(exg_rewrite *r, const exg_node *node, const exg_argument *results)
{
    for (uint32_t o = 0; o < node->output_count; o++) {
        const exg_argument *output = &node->outputs[o];

        if (output->kind == EXG_ARGUMENT_TENSOR && results[o].kind == EXG_ARGUMENT_TENSOR) {
            r->refs[output->as_tensor] = exg_get_ref(&results[o]);
        } else if (output->kind == EXG_ARGUMENT_TENSORS &&
                   results[o].kind == EXG_ARGUMENT_TENSORS) {
            for (uint32_t i = 0; i < output->count && i < results[o].count; i++) {
                r->refs[output->as_tensors[i]] = (exg_ref){results[o].as_tensors[i]};
            }
        }
    }
}

/* Statistics in the dtype that is recorded, where the operator's own is another. They are tensors
 * by themselves: a result that is a list has more in `list` than there are results. */
static void cast_statistics(exg_rewrite *r, exg_operator_id op, const result_list *list,
                            exg_argument *results, uint32_t count)
{
    for (uint32_t o = 0; o < list->count && o < count; o++) {
        if (list->metas[o] != NULL && results[o].kind == EXG_ARGUMENT_TENSOR &&
            exg_operator_result_is_statistic(exg_operators_get(r->operators, op), o)) {
            results[o] = exg_arg_ref(
                exg_lower_cast(r->builder, exg_get_ref(&results[o]), list->metas[o]->dtype));
        }
    }
}

exg_status exg_rewrite_emit(exg_rewrite *r, const exg_node *node, exg_operator_id op,
                            const exg_argument *args, uint32_t count)
{
    exg_argument results[EXG_RESULTS_MAX];
    result_list list = {.graph = r->in->graph};

    if (node->output_count > EXG_RESULTS_MAX) {
        return EXG_FAIL(r->err, LIMIT, "NOD-007", "%s has too many results", node->target);
    }
    memset(results, 0, sizeof(results));
    output_ids(node, add_result, &list);
    for (uint32_t i = 0; i < list.count; i++) {
        list.names[i] = list.names[i] == NULL ? "unused" : list.names[i];
    }
    exg_builder_next_names(r->builder, list.names, list.count);
    exg_builder_next_recorded(r->builder, list.metas, list.count);
    EXG_TRY(exg_emit_all(r->builder, op, args, count, results));
    cast_statistics(r, op, &list, results, node->output_count);
    exg_rewrite_set(r, node, results);
    return EXG_OK;
}

exg_status exg_rewrite_copy(exg_rewrite *r, const exg_node *node, const exg_operator *op,
                            const exg_argument *args)
{
    return exg_rewrite_emit(r, node,
                            op->id == EXG_OP_view_default ? EXG_OP_reshape_default : op->id, args,
                            op->schema->argument_count);
}

exg_status exg_rewrite_outputs(exg_rewrite *r)
{
    const exg_graph *graph = r->in->graph;

    for (uint32_t i = 0; i < graph->output_count; i++) {
        const exg_output_spec *spec = &r->in->signature.outputs[i];
        exg_argument arg = graph->outputs[i];

        EXG_TRY_IN(r->err, exg_rewrite_argument(r, &arg), "graph.outputs[%u]", i);
        exg_builder_output(r->builder, &arg, spec->kind, exg_rewrite_text(r, spec->target));
    }
    return exg_builder_status(r->builder);
}

exg_status exg_rewrite_finish(exg_rewrite *r, exg_status status, exg_program **out)
{
    exg_error built;
    exg_status building = exg_builder_finish(r->builder, &built);

    if (building != EXG_OK) {
        if (r->err != NULL) {
            exg_error told = *r->err;

            *r->err = built;
            if (status != EXG_OK && told.where[0] != '\0' && built.where[0] == '\0') {
                memcpy(r->err->where, told.where, sizeof(told.where));
            }
            if (status != EXG_OK && !exg_error_has_own_fix(&built) &&
                exg_error_has_own_fix(&told)) {
                memcpy(r->err->fix, told.fix, sizeof(told.fix));
            }
            if (status != EXG_OK && built.source[0] == '\0') {
                memcpy(r->err->source, told.source, sizeof(told.source));
            }
        }
        status = building;
    }
    if (status != EXG_OK) {
        exg_program_destroy(r->out);
        *out = NULL;
        return status;
    }
    *out = r->out;
    return EXG_OK;
}
