/* node_rules.c - nodes against the schemas of their operators (NOD). */
#include "libexport/operators/namespace.h"
#include "libexport/program/python.h"
#include "libexport/transform/auto_functionalized.h"
#include "libexport/transform/inline.h"
#include "libexport/transform/subclass.h"
#include "libexport/transform/vmap.h"
#include "libexport/verify/lookup.h"
#include "libexport/verify/verifier.h"

#include <exg/transform.h>
#include <string.h>

/* ---- one node -------------------------------------------------------------------------- */

static bool output_fits(const exg_argument *output, const exg_schema_type *type)
{
    switch (output->kind) {
    case EXG_ARGUMENT_TENSOR:
        return type->base == EXG_TYPE_TENSOR && !type->is_list;
    case EXG_ARGUMENT_TENSORS:
        return type->base == EXG_TYPE_TENSOR && type->is_list;
    case EXG_ARGUMENT_NONE: /* so is written what is no value: a dtype, a plain number */
        return !type->is_list;
    case EXG_ARGUMENT_SYM_INT:
    case EXG_ARGUMENT_SYM_FLOAT:
    case EXG_ARGUMENT_SYM_BOOL:
        return type->base != EXG_TYPE_TENSOR && output->as_sym.value != EXG_NO_VALUE;
    default:
        return false;
    }
}

static bool check_outputs(exg_verifier *v, const exg_operator *op, const exg_node *node,
                          const exg_model_path *path)
{
    uint32_t returns = op->schema->return_count;
    bool fine = true;

    if (returns == 0 && node->output_count > 0) {
        exg_found(v, "NOD-010", path, "%s returns nothing, the node has %u outputs", op->target,
                  node->output_count);
        return false;
    }
    if (node->output_count != returns) {
        exg_found(v, "NOD-007", path, "%s returns %u results, the node has %u", op->target, returns,
                  node->output_count);
        return false;
    }
    for (uint32_t r = 0; r < returns; r++) {
        if (!output_fits(&node->outputs[r], &op->schema->returns[r].type)) {
            exg_found(v, "NOD-008", path, "%s as result %u of %s",
                      exg_argument_tag(node->outputs[r].kind), r, op->target);
            fine = false;
        }
    }
    return fine;
}

static bool check_arguments(exg_verifier *v, const exg_operator *op, const exg_node *node,
                            exg_argument *args, const exg_model_path *path)
{
    exg_error err;

    if (exg_operator_normalize(op, node, args, &err) != EXG_OK) {
        exg_found(v, err.code, err.where[0] == '\0' ? path : EXG_AT(path, err.where), "%s",
                  err.message);
        return false;
    }
    return true;
}

static bool check_size_operator(exg_verifier *v, const exg_node *node, const exg_model_path *path)
{
    bool one_size = node->output_count == 1 && (node->outputs[0].kind == EXG_ARGUMENT_SYM_INT ||
                                                node->outputs[0].kind == EXG_ARGUMENT_SYM_FLOAT ||
                                                node->outputs[0].kind == EXG_ARGUMENT_SYM_BOOL);

    for (uint32_t i = 0; i < node->input_count; i++) {
        if (node->inputs[i].kind == EXG_KIND_KEYWORD) {
            exg_found(v, "NOD-015", path, "%s is given a keyword", node->target);
            return false;
        }
    }
    if (!one_size) {
        exg_found(v, "NOD-015", path, "%s does not give one size", node->target);
    }
    return one_size;
}

static void check_sym_bools(exg_verifier *v, const exg_node *node, const exg_model_path *path)
{
    for (uint32_t o = 0; node->output_count > 1 && o < node->output_count; o++) {
        if (node->outputs[o].kind == EXG_ARGUMENT_SYM_BOOL) {
            exg_found(v, "NOD-009", EXG_AT_INDEX(path, "outputs", o),
                      "as_sym_bool is one of %u outputs", node->output_count);
        }
    }
}

/* Inputs of a higher-order operator: those without a name first, by position. */
static void check_order(exg_verifier *v, const exg_node *node, const exg_model_path *path)
{
    bool named = false;

    for (uint32_t i = 0; i < node->input_count; i++) {
        const exg_named_argument *input = &node->inputs[i];

        if (input->name[0] == '\0' && (named || input->kind == EXG_KIND_KEYWORD)) {
            exg_found(v, "NOD-011", EXG_AT_INDEX(path, "inputs", i), "an input without a name %s",
                      named ? "comes after one with a name" : "is said to be a keyword");
        }
        named = named || input->name[0] != '\0';
    }
}

/* The input of this name, or input_count. */
static uint32_t input_named(const exg_node *node, const char *name)
{
    uint32_t i = 0;

    while (i < node->input_count && strcmp(node->inputs[i].name, name) != 0) {
        i++;
    }
    return i;
}

/* Where the file does not say, PyTorch decides; and what Python has for a word of its own can be
 * no keyword. */
static bool is_by_position(const exg_named_argument *input, const exg_schema_argument *parameter)
{
    return input->kind == EXG_KIND_POSITIONAL || !exg_is_python_name(parameter->name) ||
           (input->kind == EXG_KIND_UNKNOWN && !parameter->has_default && !parameter->keyword_only);
}

/* How arguments are passed, of which PyTorch makes its call: told, since no reader here minds. */
static void check_passing(exg_verifier *v, const exg_operator *op, const exg_node *node,
                          const exg_model_path *path)
{
    const exg_schema_argument *missed = NULL; /* the first that is not passed by position */
    uint32_t nameless = input_named(node, "");

    if (nameless < node->input_count) {
        exg_found(v, "NOD-024", EXG_AT_INDEX(path, "inputs", nameless),
                  "an argument of %s has no name", op->target);
        return;
    }
    for (uint32_t a = 0; a < op->schema->argument_count; a++) {
        const exg_schema_argument *parameter = &op->schema->arguments[a];
        uint32_t i = input_named(node, parameter->name);

        if (i == node->input_count || !is_by_position(&node->inputs[i], parameter)) {
            missed = missed == NULL ? parameter : missed;
        } else if (parameter->keyword_only) {
            exg_found(v, "NOD-005", EXG_AT_INDEX(path, "inputs", i),
                      "'%s' of %s is passed by position", parameter->name, op->target);
        } else if (missed != NULL) {
            exg_found(v, "NOD-024", EXG_AT_INDEX(path, "inputs", i),
                      "'%s' of %s is passed by position, behind '%s', which is not",
                      parameter->name, op->target, missed->name);
            return;
        }
    }
}

/* The norms update their statistics in training without a mark in their schema. */
static bool updates_statistics(const exg_operator *op, const exg_argument *args)
{
    return op->id == EXG_OP_batch_norm_default && exg_get_bool(&args[5]) &&
           args[3].kind == EXG_ARGUMENT_TENSOR;
}

/* `args`: NULL where they are not known. */
static void check_functional(exg_verifier *v, const exg_operator *op, const exg_argument *args,
                             const exg_model_path *path)
{
    if (op->schema->is_mutable) {
        exg_found(v, "NOD-013", path, "%s writes to an argument", op->target);
    } else if (args != NULL && updates_statistics(op, args)) {
        exg_found(v, "NOD-013", path, "%s in training writes to running_mean and running_var",
                  op->target);
    }
}

/* Who reads what is found out for the first unknown operator of a graph. */
static bool is_idle(exg_verifier *v, exg_shapes *shapes, const exg_node *node)
{
    exg_idle_search *reads = &shapes->reads;

    if (reads->last_use == NULL && v->graphs_sound) {
        *reads = (exg_idle_search){v->operators, v->functional_dialect,
                                   EXG_NEW_ARRAY(v->arena, uint32_t, shapes->graph->value_count)};
        v->failed = v->failed || reads->last_use == NULL;
        if (reads->last_use != NULL) {
            exg_find_last_uses(reads, shapes->graph);
        }
    }
    return reads->last_use != NULL && exg_node_is_idle(reads, node);
}

/* An operator without a row: the node's own, or that in a node that only calls it. */
static void check_known(exg_verifier *v, exg_shapes *shapes, const exg_node *node,
                        const exg_model_path *path)
{
    const char *called = exg_node_operator(node);
    bool runs = exg_higher_order_of(node->target) != EXG_HIGHER_ORDER_NOT ||
                exg_is_auto_functionalized(node->target);
    bool calls = called != node->target;
    exg_node call = *node;

    if (runs && (!calls || exg_operators_find(v->operators, called) != NULL)) {
        return;
    }
    (void)exg_effects_call(node, &call);
    if (is_idle(v, shapes, &call)) {
        exg_found(v, "VAL-012", path, "nothing uses what '%s' computes, by '%s', which is unknown",
                  node->name == NULL ? "" : node->name, called);
        return;
    }
    exg_found(v, "NOD-001", path, "operator '%s' is not %s%s%s%s", called,
              exg_is_pytorch_operator(called) ? "known" : "one of PyTorch's", calls ? " ('" : "",
              calls ? node->target : "", calls ? "' calls it)" : "");
}

/* Is the node said to give a bare value where its graph, or one of its branches, gives a tuple? */
static bool takes_tuple_for_value(const exg_node *node)
{
    exg_higher_order kind = exg_higher_order_of(node->target);

    if (node->is_hop_single_tensor_return != EXG_TRUE ||
        (kind != EXG_HIGHER_ORDER_COND && kind != EXG_HIGHER_ORDER_WRAPPER)) {
        return false;
    }
    for (uint32_t i = 0; i < node->input_count; i++) {
        const exg_argument *arg = &node->inputs[i].arg;

        if (arg->kind == EXG_ARGUMENT_GRAPH && !arg->as_graph->graph->is_single_tensor_return) {
            return true;
        }
    }
    return false;
}

static void check_node(exg_verifier *v, exg_shapes *shapes, exg_writes *writes,
                       const exg_node *node, const exg_model_path *path)
{
    const exg_target *target = exg_verifier_target(v, node->target);
    exg_argument args[EXG_ARGUMENTS_MAX];
    const exg_operator *op;
    bool fine;

    if (target == NULL) {
        return;
    }
    op = target->op;
    if (node->is_hop_single_tensor_return != EXG_UNSET && !target->is_higher_order) {
        exg_found(v, "NOD-012", path, "%s is no higher-order operator", node->target);
    } else if (node->is_hop_single_tensor_return == EXG_TRUE && node->output_count != 1) {
        exg_found(v, "NOD-012", path, "one bare value in %u outputs", node->output_count);
    } else if (takes_tuple_for_value(node)) {
        exg_found(v, "NOD-012", path, "a bare value of a graph that gives a tuple");
    }
    if (!target->is_call) {
        exg_found(v, "NOD-014", path, "'%s' is no function", node->target);
        return;
    }
    if (!target->is_allowed) {
        exg_found(v, "NOD-002", path,
                  strstr(node->target, "dialects.edge._ops.") != NULL
                      ? "'%s' is of ExecuTorch's edge dialect, which PyTorch does not load either; "
                        "save the program as it is before to_edge()"
                      : "'%s' is nothing that a program may call",
                  node->target);
        return;
    }
    if (v->edge_dialect && !target->is_core) {
        exg_found(v, "NOD-021", path, "%s is no core operator", node->target);
    }
    check_sym_bools(v, node, path);
    fine = !target->is_size_operator || check_size_operator(v, node, path);
    if (op == NULL && (strcmp(node->target, EXG_ENTER_AUTOCAST) == 0 ||
                       strcmp(node->target, EXG_EXIT_AUTOCAST) == 0)) {
        v->autocasts += strcmp(node->target, EXG_ENTER_AUTOCAST) == 0 ? 1
                        : v->autocasts > 0                            ? -1
                                                                      : 0;
    }
    if (target->is_higher_order) {
        check_order(v, node, path);
        exg_verify_flags(v, node, path);
        exg_verify_subgraphs(v, shapes->graph, node, path);
    }
    if (strcmp(node->target, EXG_ACCESS_SUBCLASS) == 0) { /* WGT-013 speaks of what it reads */
        if (!exg_node_accesses_subclass(node)) {
            exg_found(v, "NOD-004", path, "%s wants src_subclass_tensor and attr", node->target);
        }
    } else if (op == NULL && !exg_is_vmap_mark(node->target)) {
        check_known(v, shapes, node, path);
    }
    if (op == NULL) {
        return;
    }
    fine = check_arguments(v, op, node, args, path) && fine;
    if (!target->is_size_operator) {
        fine = check_outputs(v, op, node, path) && fine;
    }
    if (v->functional_dialect) {
        check_functional(v, op, fine ? args : NULL, path);
    }
    if (v->tells_all && !target->is_size_operator) {
        check_passing(v, op, node, path);
    }
    if (fine) {
        exg_writes_check(writes, node, op, args, path);
    }
    if (fine && v->autocasts == 0) {
        exg_shapes_check(shapes, node, op, args, path);
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

static void check_names(exg_verifier *v, const exg_graph *graph, const exg_model_path *path)
{
    exg_map taken;

    exg_map_init(&taken, v->arena);
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const exg_node *node = &graph->nodes[n];
        const exg_model_path here = {.within = path, .part = "nodes", .index = n, .node = node};
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
        const exg_model_path here = {.within = path, .part = "nodes", .index = n, .node = node};
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

/* Custom objects by name; the map of the graph's is made when the first is met. */
static void check_object(exg_verifier *v, const exg_graph *graph, exg_map *objects,
                         const char *name, const exg_model_path *path)
{
    if (objects->arena == NULL) {
        exg_map_init(objects, v->arena);
        for (uint32_t id = 0; id < graph->value_count; id++) {
            if (graph->values[id].custom_class != NULL && graph->values[id].name != NULL &&
                !exg_map_put(objects, graph->values[id].name, id)) {
                v->failed = true;
            }
        }
    }
    if (exg_map_find(objects, name) == EXG_MAP_NONE &&
        exg_verifier_weight(v, EXG_TABLE_CONSTANTS, name) == NULL) {
        exg_found(v, "NOD-016", path, "'%s' is no object of the graph or of the constants",
                  name == NULL ? "" : name);
    }
}

/* What autocast makes of graphs, against what is recorded there: the conversions are written
 * out, as for a run, so only of sound graphs. */
static void check_casts(exg_verifier *v, const exg_graph *graph, const exg_model_path *path)
{
    exg_graph flat;
    exg_shapes shapes;
    exg_error err;

    if (exg_inline(graph, v->arena, &flat, &err) != EXG_OK) {
        v->failed = v->failed || err.status == EXG_NO_MEMORY;
        return; /* the other rules said what is wrong with the call */
    }
    if (!exg_shapes_begin(&shapes, v, &flat)) {
        v->failed = true;
        return;
    }
    shapes.is_main = true;
    for (uint32_t n = 0; n < flat.node_count && !v->failed; n++) {
        const exg_target *target = exg_verifier_target(v, flat.nodes[n].target);
        exg_argument args[EXG_ARGUMENTS_MAX];

        if (strcmp(flat.nodes[n].target, EXG_ENTER_AUTOCAST) == 0) {
            return; /* from here on dtypes are the run's */
        }
        if (target != NULL && target->op != NULL &&
            exg_operator_normalize(target->op, &flat.nodes[n], args, &err) == EXG_OK) {
            exg_shapes_check(&shapes, &flat.nodes[n], target->op, args, path);
        }
    }
}

/* The graph that is input `at` of `node`; is it autocast's, with nothing wrong in it? */
static bool check_graph(exg_verifier *v, const exg_node *node, uint32_t at,
                        const exg_model_path *path)
{
    bool casts = strcmp(node->target, EXG_WRAP_WITH_AUTOCAST) == 0;
    uint32_t found = v->found->count;

    v->autocasts += casts;
    exg_verify_nodes(v, node->inputs[at].arg.as_graph->graph,
                     EXG_AT(EXG_AT_INDEX(path, "inputs", at), "arg.as_graph.graph"));
    v->autocasts -= casts;
    return casts && v->found->count == found;
}

/* Marks of torch.vmap: each in a call that begins and ends in this graph. */
static void check_marks(exg_verifier *v, const exg_graph *graph, const exg_model_path *path)
{
    uint32_t open = 0;
    const exg_node *last = NULL;
    exg_model_path here = {.within = path, .part = "nodes"};

    for (uint32_t n = 0; n < graph->node_count; n++) {
        const exg_node *node = &graph->nodes[n];

        if (!exg_is_vmap_mark(node->target)) {
            continue;
        }
        here.index = n;
        here.node = last = node;
        if (v->graphs_sound && !exg_vmap_mark_is_sound(graph, node)) {
            exg_found(v, "GRF-010", &here, "'%s' of torch.vmap has other arguments",
                      node->name == NULL ? node->target : node->name);
        }
        if (!exg_vmap_mark_fits(node->target, &open)) {
            exg_found(v, "GRF-013", &here, "'%s' is in no call of torch.vmap",
                      node->name == NULL ? node->target : node->name);
            return; /* the others have the same cause */
        }
    }
    if (open > 0) {
        exg_found(v, "GRF-013", &here, "no call of torch.vmap ends after '%s'",
                  last->name == NULL ? last->target : last->name);
    }
}

void exg_verify_nodes(exg_verifier *v, const exg_graph *graph, const exg_model_path *path)
{
    exg_shapes shapes;
    exg_writes writes;
    exg_map objects = {0};
    bool casts = false;

    if (!exg_shapes_begin(&shapes, v, graph) || !exg_writes_begin(&writes, v, graph)) {
        v->failed = true;
        return;
    }
    shapes.reads =
        (exg_idle_search){.operators = v->operators, .is_functional = v->functional_dialect};
    if (v->graphs_sound) {
        shapes.reads.last_use = EXG_NEW_ARRAY(v->arena, uint32_t, graph->value_count);
        v->failed = v->failed || shapes.reads.last_use == NULL;
    }
    if (shapes.reads.last_use != NULL) {
        exg_find_last_uses(&shapes.reads, graph);
    }
    for (uint32_t n = 0; n < graph->node_count && !v->failed; n++) {
        const exg_node *node = &graph->nodes[n];
        const exg_model_path here = {.within = path, .part = "nodes", .index = n, .node = node};

        check_node(v, &shapes, &writes, node, &here);
        for (uint32_t i = 0; i < node->input_count; i++) {
            const exg_argument *arg = &node->inputs[i].arg;

            if (arg->kind == EXG_ARGUMENT_CUSTOM_OBJ) {
                check_object(v, graph, &objects, arg->as_custom_obj->name,
                             EXG_AT_INDEX(&here, "inputs", i));
            } else if (arg->kind == EXG_ARGUMENT_GRAPH) {
                casts |= check_graph(v, node, i, &here);
            }
        }
    }
    check_names(v, graph, path);
    check_marks(v, graph, path);
    /* PyTorch traces branches and loops without autocast, so records within them say less. */
    if (casts && graph == v->program->graph && v->graphs_sound) {
        check_casts(v, graph, path);
    }
}
