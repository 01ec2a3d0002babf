/* node_rules.c - nodes against the schemas of their operators (NOD). */
#include "libexport/base/map.h"
#include "libexport/verify/verifier.h"

#include <string.h>

static bool starts(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

static bool is_functional_dialect(const exg_program *program)
{
    for (uint32_t i = 0; i < program->verifier_count; i++) {
        if (strcmp(program->verifiers[i], "TRAINING") == 0) {
            return false;
        }
    }
    return true;
}

/* Targets that are calls of functions: operators, higher-order ones, Python's on
 * sizes, registered extensions. Overload packets name no overload. */
static bool is_call(const char *target)
{
    return starts(target, "torch.ops.") || starts(target, "_operator.") ||
           starts(target, "math.") || starts(target, "torch.") || target[0] == '#' ||
           strchr(target, '.') != NULL;
}

static bool is_size_operator(const char *target)
{
    return starts(target, "_operator.") || starts(target, "math.") ||
           starts(target, "torch.sym_") || starts(target, "torch._sym_");
}

static void check_output_kind(exg_verifier *v, const exg_operator *op, const exg_argument *output,
                              uint32_t r, const char *where)
{
    const exg_schema_type *type = &op->schema->returns[r].type;
    bool fits;

    switch (output->kind) {
    case EXG_ARGUMENT_TENSOR:
        fits = type->base == EXG_TYPE_TENSOR && !type->is_list;
        break;
    case EXG_ARGUMENT_TENSORS:
        fits = type->base == EXG_TYPE_TENSOR && type->is_list;
        break;
    case EXG_ARGUMENT_NONE:
        fits = type->base == EXG_TYPE_TENSOR;
        break;
    case EXG_ARGUMENT_SYM_INT:
    case EXG_ARGUMENT_SYM_FLOAT:
    case EXG_ARGUMENT_SYM_BOOL:
        fits = type->base != EXG_TYPE_TENSOR && output->as_sym.value != EXG_NO_VALUE;
        break;
    default:
        fits = false;
    }
    if (!fits) {
        exg_found(v, "NOD-008", where, "%s as result %u of %s", exg_argument_tag(output->kind), r,
                  op->target);
    }
}

static void check_outputs(exg_verifier *v, const exg_operator *op, const exg_node *node,
                          const char *where)
{
    uint32_t returns = op->schema->return_count;

    if (returns == 0 && node->output_count > 0) {
        exg_found(v, "NOD-010", where, "%s returns nothing, the node has %u outputs", op->target,
                  node->output_count);
        return;
    }
    if (node->output_count != returns) {
        exg_found(v, "NOD-007", where, "%s returns %u results, the node has %u", op->target, returns,
                  node->output_count);
        return;
    }
    for (uint32_t r = 0; r < returns; r++) {
        check_output_kind(v, op, &node->outputs[r], r, where);
    }
}

static void check_arguments(exg_verifier *v, const exg_operator *op, const exg_node *node,
                            const char *where)
{
    exg_argument *args =
        EXG_NEW_ARRAY(v->found->arena, exg_argument, op->schema->argument_count);
    exg_error err;

    if (args == NULL) {
        v->failed = true;
        return;
    }
    exg_error_clear(&err);
    if (exg_operator_normalize(op, node, args, &err) != EXG_OK) {
        exg_found(v, err.code, exg_where(v, "%s%s%s", where, err.where[0] == '\0' ? "" : ".", err.where),
                  "%s", err.message);
    }
}

static void check_size_operator(exg_verifier *v, const exg_node *node, const char *where)
{
    bool one_size = node->output_count == 1 && (node->outputs[0].kind == EXG_ARGUMENT_SYM_INT ||
                                                node->outputs[0].kind == EXG_ARGUMENT_SYM_FLOAT ||
                                                node->outputs[0].kind == EXG_ARGUMENT_SYM_BOOL);

    for (uint32_t i = 0; i < node->input_count; i++) {
        if (node->inputs[i].kind == EXG_KIND_KEYWORD) {
            exg_found(v, "NOD-015", where, "%s is given a keyword", node->target);
            return;
        }
    }
    if (!one_size) {
        exg_found(v, "NOD-015", where, "%s does not give one size", node->target);
    }
}

static void check_node(exg_verifier *v, const exg_graph *graph, uint32_t n, const char *path)
{
    const exg_node *node = &graph->nodes[n];
    const exg_operator *op = exg_operators_find(v->operators, node->target);
    const char *where = exg_where(v, "%s.nodes[%u]", path, n);
    bool higher_order = starts(node->target, "torch.ops.higher_order.");

    if (where == NULL) {
        v->failed = true;
        return;
    }
    if (!is_call(node->target)) {
        exg_found(v, "NOD-014", where, "'%s' is no function", node->target);
        return;
    }
    if (node->is_hop_single_tensor_return != EXG_UNSET && !higher_order) {
        exg_found(v, "NOD-012", where, "%s is no higher-order operator", node->target);
    }
    if (is_size_operator(node->target)) {
        check_size_operator(v, node, where);
    }
    if (op == NULL) {
        if (!higher_order) {
            exg_found(v, "NOD-001", where, "operator '%s' is not known", node->target);
        }
        return;
    }
    check_arguments(v, op, node, where);
    if (!is_size_operator(node->target)) {
        check_outputs(v, op, node, where);
    }
    if (op->schema->is_mutable && is_functional_dialect(v->program)) {
        exg_found(v, "NOD-013", where, "%s writes to an argument", node->target);
    }
}

static void check_names(exg_verifier *v, const exg_graph *graph, const char *path)
{
    exg_map taken;

    exg_map_init(&taken, v->found->arena);
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const char *name = graph->nodes[n].name;
        uint32_t earlier = name == NULL ? EXG_MAP_NONE : exg_map_find(&taken, name);

        if (earlier != EXG_MAP_NONE) {
            exg_found(v, "VAL-009", exg_where(v, "%s.nodes[%u]", path, n),
                      "node name '%s' is taken by nodes[%u]", name, earlier);
        } else if (name != NULL && !exg_map_put(&taken, name, n)) {
            v->failed = true;
            return;
        }
    }
}

void exg_verify_nodes(exg_verifier *v, const exg_graph *graph, const char *path)
{
    for (uint32_t n = 0; n < graph->node_count; n++) {
        check_node(v, graph, n, path);
        for (uint32_t i = 0; i < graph->nodes[n].input_count; i++) {
            const exg_argument *arg = &graph->nodes[n].inputs[i].arg;

            if (arg->kind == EXG_ARGUMENT_GRAPH) {
                exg_verify_nodes(v, arg->as_graph->graph,
                                 exg_where(v, "%s.nodes[%u].inputs[%u].as_graph", path, n, i));
            }
        }
    }
    check_names(v, graph, path);
}
