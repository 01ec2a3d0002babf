/* stage.c - a program after a stage of its way to a plan, as one that PyTorch and its converters
 * read: in their operators (operators/aten.h), with a call and versions. */
#include "libexport/transform/stage.h"
#include "libexport/base/require.h"
#include "libexport/operators/aten.h"
#include "libexport/transform/graph_segment.h"
#include "libexport/transform/origin.h"

#include <exg/transform.h>
#include <string.h>

static const char *const names[EXG_STAGE_COUNT] = {
#define EXG_STAGE(id, name, dialect) name,
#include <exg/stage.def>
#undef EXG_STAGE
};

static const char *const dialects[EXG_STAGE_COUNT] = {
#define EXG_STAGE(id, name, dialect) dialect,
#include <exg/stage.def>
#undef EXG_STAGE
};

const char *exg_stage_name(exg_stage stage)
{
    return (uint32_t)stage < EXG_STAGE_COUNT ? names[stage] : NULL;
}

exg_stage exg_stage_from_name(const char *name)
{
    uint32_t stage = 0;

    while (name != NULL && stage < EXG_STAGE_COUNT && strcmp(names[stage], name) != 0) {
        stage++;
    }
    return name == NULL ? EXG_STAGE_COUNT : (exg_stage)stage;
}

/* ---- in PyTorch's words ---------------------------------------------------------------------- */

static bool is_default(const exg_argument *arg, const exg_schema_argument *parameter)
{
    const exg_argument *usual = &parameter->default_value;

    if (!parameter->has_default || arg->kind != usual->kind) {
        return false;
    }
    switch (arg->kind) {
    case EXG_ARGUMENT_NONE:
        return true;
    case EXG_ARGUMENT_INT:
        return arg->as_int == usual->as_int;
    case EXG_ARGUMENT_BOOL:
        return arg->as_bool == usual->as_bool;
    case EXG_ARGUMENT_STRING:
        return strcmp(arg->as_string, usual->as_string) == 0;
    default:
        return false;
    }
}

/* What is as it would be anyway is left out, as PyTorch does: of those by position the last. */
static void leave_out_defaults(exg_node *node, const exg_function_schema *schema)
{
    bool last = true;

    for (uint32_t i = node->input_count; i-- > 0;) {
        const exg_named_argument *input = &node->inputs[i];
        const exg_schema_argument *parameter = NULL;

        for (uint32_t p = 0; p < schema->argument_count; p++) {
            parameter = strcmp(schema->arguments[p].name, input->name) == 0 ? &schema->arguments[p]
                                                                            : parameter;
        }
        if (parameter != NULL && is_default(&input->arg, parameter) &&
            (last || parameter->keyword_only)) {
            node->input_count--;
            memmove(&node->inputs[i], &node->inputs[i + 1],
                    (node->input_count - i) * sizeof(*node->inputs));
        } else {
            last = last && parameter != NULL && parameter->keyword_only;
        }
    }
}

/* The node's words are those of the table that stays; what with_effects called by position alone is
 * named, as PyTorch asks of an operator. */
static void adopt_words(exg_node *node, const exg_operator *op)
{
    node->target = op->target;
    for (uint32_t i = 0; i < node->input_count; i++) {
        bool is_named = node->inputs[i].name[0] != '\0';

        for (uint32_t p = 0; p < op->schema->argument_count; p++) {
            const char *name = op->schema->arguments[p].name;

            if (is_named ? strcmp(node->inputs[i].name, name) == 0 : p == i) {
                node->inputs[i].name = name;
            }
        }
    }
}

/* Is it all in PyTorch's operators, in graphs within too? */
static exg_status check_operators(exg_graph *graph, const exg_operators *operators, exg_error *err)
{
    for (uint32_t n = 0; n < graph->node_count; n++) {
        exg_node *node = &graph->nodes[n];
        const exg_operator *op = exg_operators_find(operators, node->target);

        if (op != NULL && exg_operator_is_own(op)) {
            return exg_error_at_node(err,
                                     EXG_FAIL(err, UNSUPPORTED, "TRF-003",
                                              "what is written here has no operator of PyTorch: %s",
                                              node->target),
                                     node);
        }
        if (op != NULL) {
            adopt_words(node, op);
            leave_out_defaults(node, op->schema);
        }
        for (uint32_t i = 0; i < node->input_count; i++) {
            const exg_argument *arg = &node->inputs[i].arg;

            EXG_TRY(arg->kind == EXG_ARGUMENT_GRAPH
                        ? check_operators(arg->as_graph->graph, operators, err)
                        : EXG_OK);
        }
    }
    return EXG_OK;
}

/* How it is called stays; ranges and guards where it has symbols. */
static exg_status describe(exg_program *made, const exg_program *from, bool has_symbols,
                           exg_stage stage, exg_error *err)
{
    const char **verifiers = EXG_NEW(made->arena, const char *);

    if (verifiers == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    verifiers[0] = dialects[stage];
    made->verifiers = verifiers;
    made->verifier_count = 1;
    made->origin = from->origin;
    made->named_tuples = from->named_tuples;
    made->named_tuple_count = from->named_tuple_count;
    made->opsets = from->opsets;
    made->opset_count = from->opset_count;
    made->sample_inputs = from->sample_inputs;
    made->sample_input_count = from->sample_input_count;
    made->extra_files = from->extra_files;
    made->extra_file_count = from->extra_file_count;
    made->schema_major = from->schema_major;
    made->schema_minor = from->schema_minor;
    made->torch_version = from->torch_version;
    if (has_symbols) {
        made->range_constraints = from->range_constraints;
        made->range_constraint_count = from->range_constraint_count;
        made->guards_code = from->guards_code;
        made->guard_count = from->guard_count;
    }
    for (uint32_t i = 0; i < from->module_call_count; i++) {
        if (from->module_calls[i].fqn[0] == '\0') {
            made->module_calls = &from->module_calls[i];
            made->module_call_count = 1;
        }
    }
    return EXG_OK;
}

/* ---- tokens -----------------------------------------------------------------------------------
 */

/* Nodes stand in their order, so no token orders them: each would come in and go out as it is, and
 * PyTorch looks for it in with_effects. */
static void drop_tokens(exg_program *made)
{
    exg_graph *graph = made->graph;
    exg_signature *signature = &made->signature;
    uint32_t inputs = 0, outputs = 0;

    for (uint32_t i = 0; i < signature->input_count; i++) {
        if (signature->inputs[i].kind == EXG_INPUT_TOKEN) {
            exg_value *token = &graph->values[graph->inputs[i].as_tensor];

            *token = (exg_value){.name = token->name}; /* which nothing reads */
        } else {
            graph->inputs[inputs] = graph->inputs[i];
            signature->inputs[inputs++] = signature->inputs[i];
        }
    }
    for (uint32_t o = 0; o < signature->output_count; o++) {
        if (signature->outputs[o].kind != EXG_OUTPUT_TOKEN) {
            graph->outputs[outputs] = graph->outputs[o];
            signature->outputs[outputs++] = signature->outputs[o];
        }
    }
    graph->input_count = signature->input_count = inputs;
    graph->output_count = signature->output_count = outputs;
}

exg_status exg_program_at_stage(const exg_verified *verified, const exg_symbols *symbols,
                                exg_stage stage, exg_program **out, exg_error *err)
{
    EXG_REQUIRE(err, verified, out, exg_stage_name(stage));
    EXG_REQUIRE(err, verified->program, verified->operators);
    exg_operators *operators;
    exg_program *made = NULL;
    exg_verified in = *verified;
    exg_status status;

    *out = NULL;
    EXG_TRY(exg_operators_create_aten(&operators, err));
    in.operators = operators;
    status = symbols == NULL ? exg_stage_of_symbols(&in, verified->operators, stage, &made, err)
                             : exg_stage_of_numbers(&in, symbols, stage, &made, err);
    status = status == EXG_OK ? check_operators(made->graph, verified->operators, err) : status;
    if (status == EXG_OK) {
        drop_tokens(made);
        status = describe(made, verified->program, symbols == NULL, stage, err);
    }
    exg_operators_destroy(operators);
    if (status != EXG_OK) {
        exg_program_destroy(made);
        return status;
    }
    *out = made;
    return EXG_OK;
}
