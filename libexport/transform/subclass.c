/* subclass.c - parameters that are tensor subclasses become their inner tensors.
 *
 * export.access_subclass_inner_tensor(p, "qdata") of the parameter `w` is the parameter `w.qdata`;
 * of what such a node gives, the tensor further in. */
#include "libexport/base/arena.h"
#include "libexport/base/map.h"
#include "libexport/base/require.h"

#include <exg/formats.h>
#include <exg/transform.h>
#include <exg/weights.h>
#include <string.h>

typedef struct unwrapping {
    exg_program *program;
    exg_weights *weights;         /* with inner tensors */
    const char **path;            /* by value: of a subclass, "w" or "w.inner"; else NULL */
    const exg_input_spec **outer; /* by value, beside: the spec of the parameter */
    exg_value_id *same;           /* by value: which value it is, another or itself */
    exg_argument *inputs;         /* of the new graph, with room for all */
    exg_input_spec *specs;
    uint32_t count;
    exg_map by_path; /* of them the inner tensors */
    exg_map names;   /* of values */
    exg_error *err;
} unwrapping;

static bool is_access(const exg_node *node)
{
    return strcmp(node->target, EXG_ACCESS_SUBCLASS) == 0 && node->input_count == 2 &&
           node->output_count == 1 && node->inputs[0].arg.kind == EXG_ARGUMENT_TENSOR &&
           node->inputs[1].arg.kind == EXG_ARGUMENT_STRING &&
           node->outputs[0].kind == EXG_ARGUMENT_TENSOR;
}

static const exg_weight *pickled(const exg_program *program, uint32_t input)
{
    const exg_input_spec *spec = &program->signature.inputs[input];
    const exg_weight *weight =
        spec->target == NULL ? NULL
        : spec->kind == EXG_INPUT_PARAMETER || spec->kind == EXG_INPUT_BUFFER
            ? exg_weights_find(program->weights, EXG_TABLE_STATE, spec->target)
            : NULL;

    return weight != NULL && weight->use_pickle && weight->meta != NULL ? weight : NULL;
}

static void add_input(unwrapping *u, const exg_argument *arg, const exg_input_spec *spec)
{
    u->inputs[u->count] = *arg;
    u->specs[u->count++] = *spec;
}

/* "p_w_qdata" for "w.qdata" of "p_w"; the name that there is where that one is taken. */
static exg_status name_inner(unwrapping *u, exg_value *value, const exg_input_spec *outer,
                             const char *path)
{
    char *name =
        exg_arena_printf(u->program->arena, "%s%s", outer->arg.name, path + strlen(outer->target));

    if (name == NULL) {
        return EXG_OUT_OF_MEMORY(u->err);
    }
    for (char *c = name + strlen(outer->arg.name); *c != '\0'; c++) {
        *c = *c == '.' ? '_' : *c;
    }
    if (exg_map_find(&u->names, name) == EXG_MAP_NONE) {
        value->name = name;
    }
    return exg_map_put(&u->names, value->name, 0) ? EXG_OK : EXG_OUT_OF_MEMORY(u->err);
}

/* What `node` gives is the inner tensor `path`, a parameter from now on. */
static exg_status add_inner(unwrapping *u, exg_node *node, const exg_input_spec *outer,
                            const char *path)
{
    exg_graph *graph = u->program->graph;
    exg_value_id id = node->outputs[0].as_tensor;
    exg_input_spec spec = *outer;
    uint32_t known = exg_map_find(&u->by_path, path);

    if (known != EXG_MAP_NONE) {
        u->same[id] = u->inputs[known].as_tensor; /* asked for once more */
        return EXG_OK;
    }
    if (!exg_map_put(&u->by_path, path, u->count)) {
        return EXG_OUT_OF_MEMORY(u->err);
    }
    EXG_TRY(name_inner(u, &graph->values[id], outer, path));
    spec.target = path;
    spec.arg.name = graph->values[id].name;
    add_input(u, &node->outputs[0], &spec);
    return EXG_OK;
}

static exg_status follow(unwrapping *u, exg_node *node)
{
    exg_value_id of = node->inputs[0].arg.as_tensor;
    exg_value_id id = node->outputs[0].as_tensor;
    const char *path =
        exg_arena_printf(u->program->arena, "%s.%s", u->path[of], node->inputs[1].arg.as_string);

    if (path == NULL) {
        return EXG_OUT_OF_MEMORY(u->err);
    }
    if (exg_weights_find(u->weights, EXG_TABLE_STATE, path) != NULL) {
        return add_inner(u, node, u->outer[of], path);
    }
    u->path[id] = path; /* a subclass itself, or nothing: then its uses are refused */
    u->outer[id] = u->outer[of];
    return EXG_OK;
}

static void replace(void *user, exg_value_id *id)
{
    const unwrapping *u = user;

    if (*id != EXG_NO_VALUE && u->same[*id] != EXG_NO_VALUE) {
        *id = u->same[*id];
    }
}

typedef struct whole {
    const unwrapping *u;
    const char *used; /* the first subclass that is taken as it is */
} whole;

static void look_for_whole(void *user, exg_value_id *id)
{
    whole *w = user;

    if (w->used == NULL && *id != EXG_NO_VALUE) {
        w->used = w->u->path[*id];
    }
}

static exg_status unwrap_nodes(unwrapping *u)
{
    exg_graph *graph = u->program->graph;
    whole w = {.u = u};
    uint32_t kept = 0;

    for (uint32_t n = 0; n < graph->node_count; n++) {
        exg_node *node = &graph->nodes[n];

        if (is_access(node) && u->path[node->inputs[0].arg.as_tensor] != NULL) {
            EXG_TRY(follow(u, node));
            continue;
        }
        for (uint32_t i = 0; i < node->input_count; i++) {
            exg_argument_visit_values(&node->inputs[i].arg, replace, u);
            exg_argument_visit_values(&node->inputs[i].arg, look_for_whole, &w);
        }
        graph->nodes[kept++] = *node;
    }
    graph->node_count = kept;
    for (uint32_t o = 0; o < graph->output_count; o++) {
        exg_argument_visit_values(&graph->outputs[o], replace, u);
        exg_argument_visit_values(&graph->outputs[o], look_for_whole, &w);
    }
    return w.used == NULL
               ? EXG_OK
               : exg_error_fix(u->err,
                               EXG_FAIL(u->err, UNSUPPORTED, "TRF-002",
                                        "'%s' is a tensor subclass, and used as a whole", w.used),
                               "save program.run_decompositions(), which takes it apart");
}

/* Room for what there is to know; names of values are found by a table. */
static exg_status prepare(unwrapping *u)
{
    exg_program *program = u->program;
    const exg_graph *graph = program->graph;
    uint32_t room = graph->input_count;

    for (uint32_t n = 0; n < graph->node_count; n++) {
        room += is_access(&graph->nodes[n]);
    }
    u->path = EXG_NEW_ARRAY(program->arena, const char *, graph->value_count);
    u->outer = EXG_NEW_ARRAY(program->arena, const exg_input_spec *, graph->value_count);
    u->same = EXG_NEW_ARRAY(program->arena, exg_value_id, graph->value_count);
    u->inputs = EXG_NEW_ARRAY(program->arena, exg_argument, room);
    u->specs = EXG_NEW_ARRAY(program->arena, exg_input_spec, room);
    exg_map_init(&u->by_path, program->arena);
    exg_map_init(&u->names, program->arena);
    if (u->path == NULL || u->outer == NULL || u->same == NULL || u->inputs == NULL ||
        u->specs == NULL) {
        return EXG_OUT_OF_MEMORY(u->err);
    }
    for (uint32_t v = 0; v < graph->value_count; v++) {
        u->same[v] = EXG_NO_VALUE;
        if (graph->values[v].name != NULL && !exg_map_put(&u->names, graph->values[v].name, v)) {
            return EXG_OUT_OF_MEMORY(u->err);
        }
    }
    return EXG_OK;
}

static exg_status unwrap_inputs(unwrapping *u)
{
    exg_program *program = u->program;
    exg_graph *graph = program->graph;

    EXG_TRY(prepare(u));
    for (uint32_t i = 0; i < graph->input_count; i++) {
        const exg_weight *weight =
            graph->inputs[i].kind == EXG_ARGUMENT_TENSOR ? pickled(program, i) : NULL;

        if (weight != NULL) {
            u->path[graph->inputs[i].as_tensor] = weight->fqn;
            u->outer[graph->inputs[i].as_tensor] = &program->signature.inputs[i];
        }
    }
    EXG_TRY(unwrap_nodes(u));
    for (uint32_t i = 0; i < graph->input_count; i++) {
        if (graph->inputs[i].kind != EXG_ARGUMENT_TENSOR || pickled(program, i) == NULL) {
            add_input(u, &graph->inputs[i], &program->signature.inputs[i]);
        }
    }
    graph->inputs = u->inputs;
    program->signature.inputs = u->specs;
    graph->input_count = program->signature.input_count = u->count;
    return EXG_OK;
}

bool exg_program_has_subclasses(const exg_program *program)
{
    bool any = exg_weights_has_subclasses(program->weights);

    for (uint32_t i = 0; any && i < program->signature.input_count; i++) {
        if (pickled(program, i) != NULL) {
            return true;
        }
    }
    return false;
}

exg_status exg_program_unwrap(const exg_program *program, exg_program **unwrapped, exg_error *err)
{
    EXG_REQUIRE(err, program, unwrapped);
    unwrapping u = {.err = err};
    exg_status status;

    *unwrapped = NULL;
    if (program->signature.input_count != program->graph->input_count) {
        return EXG_FAIL(err, MALFORMED, "SIG-001", "the signature has %u inputs, the graph %u",
                        program->signature.input_count, program->graph->input_count);
    }
    EXG_TRY(exg_weights_unwrap(program->weights, &u.weights, err));
    status = exg_program_copy(program, &u.program, err);
    if (status == EXG_OK) {
        status = unwrap_inputs(&u);
    }
    if (status != EXG_OK) {
        exg_program_destroy(u.program);
        exg_weights_release(u.weights);
        return status;
    }
    exg_weights_release(u.program->weights);
    u.program->weights = u.weights;
    *unwrapped = u.program;
    return EXG_OK;
}
