/* node_rules.c - nodes against the schemas of their operators (NOD). */
#include "libexport/verify/verifier.h"

#include <string.h>

static bool starts(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* ---- targets ------------------------------------------------------------------------- */

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

/* Looks a target up once; NULL: out of memory. */
static const exg_target *find_target(exg_verifier *v, const char *text)
{
    uintptr_t place = (uintptr_t)text;
    uint32_t slot = (uint32_t)(place >> 3 ^ place >> 11) % EXG_TARGETS_CACHED;
    uint32_t index;

    if (v->targets_cached[slot].text == text) { /* files keep equal texts once */
        return &v->targets[v->targets_cached[slot].target];
    }
    index = exg_map_find(&v->targets_by_text, text);
    if (index == EXG_MAP_NONE) {
        index = v->target_count;
        v->targets_by_text.arena = v->arena;
        if (!exg_arena_reserve(v->arena, &v->targets, index, &v->target_capacity,
                               sizeof(exg_target)) ||
            !exg_map_put(&v->targets_by_text, text, index)) {
            v->failed = true;
            return NULL;
        }
        v->targets[index] = (exg_target){.text = text,
                                         .op = exg_operators_find(v->operators, text),
                                         .is_call = is_call(text),
                                         .is_higher_order = starts(text, "torch.ops.higher_order."),
                                         .is_size_operator = is_size_operator(text)};
        v->target_count++;
    }
    v->targets_cached[slot].text = text;
    v->targets_cached[slot].target = index;
    return &v->targets[index];
}

/* ---- one node -------------------------------------------------------------------------- */

static bool output_fits(const exg_argument *output, const exg_schema_type *type)
{
    switch (output->kind) {
    case EXG_ARGUMENT_TENSOR:
        return type->base == EXG_TYPE_TENSOR && !type->is_list;
    case EXG_ARGUMENT_TENSORS:
        return type->base == EXG_TYPE_TENSOR && type->is_list;
    case EXG_ARGUMENT_NONE:
        return type->base == EXG_TYPE_TENSOR;
    case EXG_ARGUMENT_SYM_INT:
    case EXG_ARGUMENT_SYM_FLOAT:
    case EXG_ARGUMENT_SYM_BOOL:
        return type->base != EXG_TYPE_TENSOR && output->as_sym.value != EXG_NO_VALUE;
    default:
        return false;
    }
}

static bool check_outputs(exg_verifier *v, const exg_operator *op, const exg_node *node,
                          const exg_place *place)
{
    uint32_t returns = op->schema->return_count;
    bool fine = true;

    if (returns == 0 && node->output_count > 0) {
        exg_found(v, "NOD-010", place, "%s returns nothing, the node has %u outputs", op->target,
                  node->output_count);
        return false;
    }
    if (node->output_count != returns) {
        exg_found(v, "NOD-007", place, "%s returns %u results, the node has %u", op->target,
                  returns, node->output_count);
        return false;
    }
    for (uint32_t r = 0; r < returns; r++) {
        if (!output_fits(&node->outputs[r], &op->schema->returns[r].type)) {
            exg_found(v, "NOD-008", place, "%s as result %u of %s",
                      exg_argument_tag(node->outputs[r].kind), r, op->target);
            fine = false;
        }
    }
    return fine;
}

static bool check_arguments(exg_verifier *v, const exg_operator *op, const exg_node *node,
                            exg_argument *args, const exg_place *place)
{
    exg_error err;

    if (exg_operator_normalize(op, node, args, &err) != EXG_OK) {
        exg_found(v, err.code, err.where[0] == '\0' ? place : EXG_AT(place, err.where), "%s",
                  err.message);
        return false;
    }
    return true;
}

static bool check_size_operator(exg_verifier *v, const exg_node *node, const exg_place *place)
{
    bool one_size = node->output_count == 1 && (node->outputs[0].kind == EXG_ARGUMENT_SYM_INT ||
                                                node->outputs[0].kind == EXG_ARGUMENT_SYM_FLOAT ||
                                                node->outputs[0].kind == EXG_ARGUMENT_SYM_BOOL);

    for (uint32_t i = 0; i < node->input_count; i++) {
        if (node->inputs[i].kind == EXG_KIND_KEYWORD) {
            exg_found(v, "NOD-015", place, "%s is given a keyword", node->target);
            return false;
        }
    }
    if (!one_size) {
        exg_found(v, "NOD-015", place, "%s does not give one size", node->target);
    }
    return one_size;
}

static void check_node(exg_verifier *v, exg_shapes *shapes, const exg_node *node,
                       const exg_place *place)
{
    const exg_target *target = find_target(v, node->target);
    exg_argument args[EXG_NODE_ARGUMENTS_MAX];
    const exg_operator *op;
    bool fine;

    if (target == NULL) {
        return;
    }
    op = target->op;
    if (!target->is_call) {
        exg_found(v, "NOD-014", place, "'%s' is no function", node->target);
        return;
    }
    if (node->is_hop_single_tensor_return != EXG_UNSET && !target->is_higher_order) {
        exg_found(v, "NOD-012", place, "%s is no higher-order operator", node->target);
    }
    fine = !target->is_size_operator || check_size_operator(v, node, place);
    if (op == NULL) {
        if (!target->is_higher_order) {
            exg_found(v, "NOD-001", place, "operator '%s' is not known", node->target);
        }
        return;
    }
    if (op->schema->argument_count > EXG_NODE_ARGUMENTS_MAX) {
        return;
    }
    fine = check_arguments(v, op, node, args, place) && fine;
    if (!target->is_size_operator) {
        fine = check_outputs(v, op, node, place) && fine;
    }
    if (op->schema->is_mutable && v->functional_dialect) {
        exg_found(v, "NOD-013", place, "%s writes to an argument", node->target);
    }
    if (fine) {
        exg_shapes_check(shapes, node, op, args, place);
    }
}

/* ---- graphs ---------------------------------------------------------------------------- */

/* The name of the value that a node with one result makes, or NULL. Such a node has
 * mostly the same name, and those of values are unique already (VAL-001). */
static const char *result_name(const exg_graph *graph, const exg_node *node)
{
    return node->output_count == 1 && node->outputs[0].kind == EXG_ARGUMENT_TENSOR &&
                   node->outputs[0].as_tensor != EXG_NO_VALUE
               ? graph->values[node->outputs[0].as_tensor].name
               : NULL;
}

static void check_names(exg_verifier *v, const exg_graph *graph, const exg_place *place)
{
    exg_map taken;

    exg_map_init(&taken, v->arena);
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const exg_node *node = &graph->nodes[n];
        const exg_place here = {.within = place, .part = "nodes", .index = n, .node = node};
        const char *result = result_name(graph, node);
        uint32_t earlier;

        if (node->name == NULL ||
            (result != NULL && (result == node->name || strcmp(result, node->name) == 0))) {
            continue;
        }
        earlier = exg_map_find(&taken, node->name);
        if (earlier != EXG_MAP_NONE) {
            exg_found(v, "VAL-009", &here, "node name '%s' is taken by nodes[%u]", node->name,
                      earlier);
        } else if (!exg_map_put(&taken, node->name, n)) {
            v->failed = true;
            return;
        }
    }
    for (uint32_t n = 0; n < graph->node_count && taken.count > 0; n++) {
        const exg_node *node = &graph->nodes[n];
        const exg_place here = {.within = place, .part = "nodes", .index = n, .node = node};
        const char *result = node->name == NULL ? NULL : result_name(graph, node);
        uint32_t other = result == NULL || strcmp(result, node->name) != 0
                             ? EXG_MAP_NONE
                             : exg_map_find(&taken, result);

        if (other != EXG_MAP_NONE && other != n) {
            exg_found(v, "VAL-009", &here, "node name '%s' is taken by nodes[%u]", node->name,
                      other);
        }
    }
}

void exg_verify_nodes(exg_verifier *v, const exg_graph *graph, const exg_place *place)
{
    exg_shapes shapes;

    if (!exg_shapes_begin(&shapes, v, graph)) {
        v->failed = true;
        return;
    }
    for (uint32_t n = 0; n < graph->node_count && !v->failed; n++) {
        const exg_node *node = &graph->nodes[n];
        const exg_place here = {.within = place, .part = "nodes", .index = n, .node = node};

        check_node(v, &shapes, node, &here);
        for (uint32_t i = 0; i < node->input_count; i++) {
            const exg_argument *arg = &node->inputs[i].arg;

            if (arg->kind == EXG_ARGUMENT_GRAPH) {
                exg_verify_nodes(v, arg->as_graph->graph,
                                 EXG_AT(EXG_AT_INDEX(&here, "inputs", i), "arg.as_graph.graph"));
            }
        }
    }
    check_names(v, graph, place);
}
