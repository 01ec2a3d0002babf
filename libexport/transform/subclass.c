/* subclass.c - parameters and user inputs that are tensor subclasses become their inner tensors.
 *
 * export.access_subclass_inner_tensor(p, "qdata") of the parameter `w` is the parameter `w.qdata`;
 * of what such a node gives, the tensor further in. What is inside of a parameter, its pickle
 * tells; of a user input, what the program asks for. */
#include "libexport/transform/subclass.h"

#include "libexport/base/arena.h"
#include "libexport/base/map.h"
#include "libexport/base/require.h"
#include "libexport/program/python.h"
#include "libexport/transform/block_scaled.h"
#include "libexport/verify/tree.h"

#include <exg/formats.h>
#include <exg/transform.h>
#include <exg/weights.h>
#include <string.h>

/* A tensor inside of an input. */
typedef struct inner {
    exg_argument arg;
    exg_input_spec spec;
    const char *key; /* "qdata", "data.scale": of its path what the input's name is not */
    uint32_t next;   /* of the same input, or NONE */
} inner;

#define NONE UINT32_MAX

typedef struct unwrapping {
    exg_program *program;
    exg_weights *weights; /* with inner tensors */
    const char **path;    /* by value: of a subclass, "w" or "w.inner"; else NULL */
    uint32_t *outer;      /* by value, beside: which input it is inside of */
    bool *is_accessed;    /* by value: a node asks for what is inside */
    exg_value_id *same;   /* by value: which value it is, another or itself */
    inner *inner;
    uint32_t inner_count;
    uint32_t *first, *last; /* by input: of `inner` */
    uint32_t at;            /* the input before which all leaves of the call are placed */
    exg_map by_path;        /* of them */
    exg_map names;          /* of values */
    exg_error *err;
} unwrapping;

bool exg_node_accesses_subclass(const exg_node *node)
{
    return strcmp(node->target, EXG_ACCESS_SUBCLASS) == 0 && node->input_count == 2 &&
           node->output_count == 1 && node->inputs[0].arg.kind == EXG_ARGUMENT_TENSOR &&
           strcmp(node->inputs[0].name, "src_subclass_tensor") == 0 &&
           node->inputs[1].arg.kind == EXG_ARGUMENT_STRING &&
           strcmp(node->inputs[1].name, "attr") == 0 &&
           node->outputs[0].kind == EXG_ARGUMENT_TENSOR;
}

static const exg_weight *pickled(const exg_program *program, uint32_t input)
{
    const exg_input_spec *spec = &program->signature.inputs[input];
    const exg_weight *weight = NULL;

    if (spec->target != NULL &&
        (spec->kind == EXG_INPUT_PARAMETER || spec->kind == EXG_INPUT_BUFFER ||
         spec->kind == EXG_INPUT_CONSTANT_TENSOR)) {
        weight = exg_weights_find(program->weights, EXG_TABLE_STATE, spec->target);
        weight = weight != NULL
                     ? weight
                     : exg_weights_find(program->weights, EXG_TABLE_CONSTANTS, spec->target);
    }
    return weight != NULL && weight->use_pickle && weight->meta != NULL ? weight : NULL;
}

/* Is there a tensor of this name now? */
static bool is_inner(const unwrapping *u, const char *path)
{
    return exg_weights_find(u->weights, EXG_TABLE_STATE, path) != NULL ||
           exg_weights_find(u->weights, EXG_TABLE_CONSTANTS, path) != NULL;
}

static bool is_user_input(const unwrapping *u, uint32_t input)
{
    return u->program->signature.inputs[input].kind == EXG_INPUT_USER;
}

/* The name of input `i` before what is inside of it, or NULL: no subclass. */
static const char *root_of(const unwrapping *u, uint32_t i)
{
    const exg_argument *arg = &u->program->graph->inputs[i];
    const exg_weight *weight = arg->kind == EXG_ARGUMENT_TENSOR ? pickled(u->program, i) : NULL;

    return weight != NULL ? weight->fqn
           : arg->kind == EXG_ARGUMENT_TENSOR && is_user_input(u, i) &&
                   u->is_accessed[arg->as_tensor]
               ? u->program->signature.inputs[i].arg.name
               : NULL;
}

/* "p_w_qdata" for "qdata" in "p_w"; the name that there is where that one is taken. */
static exg_status name_inner(unwrapping *u, exg_value *value, const char *outer, const char *key)
{
    char *name = exg_arena_printf(u->program->arena, "%s_%s", outer, key);

    if (name == NULL) {
        return EXG_OUT_OF_MEMORY(u->err);
    }
    for (char *c = name + strlen(outer); *c != '\0'; c++) {
        *c = *c == '.' ? '_' : *c;
    }
    if (exg_map_find(&u->names, name) == EXG_MAP_NONE) {
        value->name = name;
    }
    return exg_map_put(&u->names, value->name, 0) ? EXG_OK : EXG_OUT_OF_MEMORY(u->err);
}

/* What `node` gives is the inner tensor `path`, an input from now on. */
static exg_status add_inner(unwrapping *u, exg_node *node, uint32_t outer, const char *path)
{
    exg_graph *graph = u->program->graph;
    exg_value_id id = node->outputs[0].as_tensor;
    uint32_t known = exg_map_find(&u->by_path, path);
    inner *made = &u->inner[u->inner_count];

    if (known != EXG_MAP_NONE) {
        u->same[id] = u->inner[known].arg.as_tensor; /* asked for once more */
        return EXG_OK;
    }
    if (!exg_map_put(&u->by_path, path, u->inner_count)) {
        return EXG_OUT_OF_MEMORY(u->err);
    }
    made->spec = u->program->signature.inputs[outer];
    made->key = path + strlen(root_of(u, outer)) + 1;
    EXG_TRY(name_inner(u, &graph->values[id], made->spec.arg.name, made->key));
    made->arg = node->outputs[0];
    made->next = NONE;
    made->spec.target = is_user_input(u, outer) ? NULL : path;
    made->spec.arg.name = graph->values[id].name;
    *(u->first[outer] == NONE ? &u->first[outer] : &u->inner[u->last[outer]].next) = u->inner_count;
    u->last[outer] = u->inner_count++;
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
    if (is_user_input(u, u->outer[of])
            ? !u->is_accessed[id] && exg_is_identifier(node->inputs[1].arg.as_string)
            : is_inner(u, path)) {
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

static exg_status refuse(exg_error *err, const char *name, const char *how)
{
    return exg_error_fix(
        err, EXG_FAIL(err, UNSUPPORTED, "TRF-002", "'%s' is a tensor subclass%s", name, how),
        "save program.run_decompositions(), which takes it apart");
}

static exg_status unwrap_nodes(unwrapping *u)
{
    exg_graph *graph = u->program->graph;
    whole w = {.u = u};
    uint32_t kept = 0;

    for (uint32_t n = 0; n < graph->node_count; n++) {
        exg_node *node = &graph->nodes[n];

        if (exg_node_accesses_subclass(node)) {
            exg_value_id of = node->inputs[0].arg.as_tensor;

            if (u->path[of] == NULL) {
                return refuse(u->err, graph->values[of].name, " that the program makes");
            }
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
    return w.used == NULL ? EXG_OK : refuse(u->err, w.used, ", and used as a whole");
}

/* Room for what there is to know; names of values are found by a table. */
static exg_status prepare(unwrapping *u)
{
    exg_program *program = u->program;
    const exg_graph *graph = program->graph;
    uint32_t room = 0;

    u->path = EXG_NEW_ARRAY(program->arena, const char *, graph->value_count);
    u->outer = EXG_NEW_ARRAY(program->arena, uint32_t, graph->value_count);
    u->is_accessed = EXG_NEW_ARRAY(program->arena, bool, graph->value_count);
    u->same = EXG_NEW_ARRAY(program->arena, exg_value_id, graph->value_count);
    u->first = EXG_NEW_ARRAY(program->arena, uint32_t, graph->input_count);
    u->last = EXG_NEW_ARRAY(program->arena, uint32_t, graph->input_count);
    exg_map_init(&u->by_path, program->arena);
    exg_map_init(&u->names, program->arena);
    if (u->path == NULL || u->outer == NULL || u->is_accessed == NULL || u->same == NULL ||
        u->first == NULL || u->last == NULL) {
        return EXG_OUT_OF_MEMORY(u->err);
    }
    for (uint32_t n = 0; n < graph->node_count; n++) {
        if (exg_node_accesses_subclass(&graph->nodes[n])) {
            u->is_accessed[graph->nodes[n].inputs[0].arg.as_tensor] = true;
            room++;
        }
    }
    u->inner = EXG_NEW_ARRAY(program->arena, inner, room);
    if (u->inner == NULL) {
        return EXG_OUT_OF_MEMORY(u->err);
    }
    for (uint32_t i = 0; i < graph->input_count; i++) {
        u->first[i] = NONE;
    }
    for (uint32_t v = 0; v < graph->value_count; v++) {
        u->same[v] = EXG_NO_VALUE;
        if (graph->values[v].name != NULL && !exg_map_put(&u->names, graph->values[v].name, v)) {
            return EXG_OUT_OF_MEMORY(u->err);
        }
    }
    return EXG_OK;
}

/* What the next leaf of the call becomes: a dict of what is inside, or what it is. */
static void grow_leaf(void *user, exg_text *node)
{
    unwrapping *u = user;
    uint32_t i;

    while (u->at < u->program->signature.input_count && !is_user_input(u, u->at)) {
        u->at++;
    }
    i = u->at++;
    if (i >= u->program->signature.input_count || u->first[i] == NONE) {
        return;
    }
    /* an identifier needs no escapes */
    exg_text_puts(node, "{\"type\": \"builtins.dict\", \"context\": \"[");
    for (uint32_t k = u->first[i]; k != NONE; k = u->inner[k].next) {
        exg_text_printf(node, "%s\\\"%s\\\"", k == u->first[i] ? "" : ", ", u->inner[k].key);
    }
    exg_text_puts(node, "]\", \"children_spec\": [");
    for (uint32_t k = u->first[i]; k != NONE; k = u->inner[k].next) {
        exg_text_puts(node, k == u->first[i] ? EXG_TREE_LEAF : ", " EXG_TREE_LEAF);
    }
    exg_text_puts(node, "]}");
}

/* Inputs with what is inside of them in their place. */
static exg_status place_inputs(unwrapping *u)
{
    exg_program *program = u->program;
    exg_graph *graph = program->graph;
    exg_argument *inputs =
        EXG_NEW_ARRAY(program->arena, exg_argument, graph->input_count + u->inner_count);
    exg_input_spec *specs =
        EXG_NEW_ARRAY(program->arena, exg_input_spec, graph->input_count + u->inner_count);
    uint32_t count = 0;

    if (inputs == NULL || specs == NULL) {
        return EXG_OUT_OF_MEMORY(u->err);
    }
    for (uint32_t i = 0; i < graph->input_count; i++) {
        if (root_of(u, i) == NULL) {
            inputs[count] = graph->inputs[i];
            specs[count++] = program->signature.inputs[i];
        }
        for (uint32_t k = u->first[i]; k != NONE; k = u->inner[k].next) {
            inputs[count] = u->inner[k].arg;
            specs[count++] = u->inner[k].spec;
        }
    }
    graph->inputs = inputs;
    program->signature.inputs = specs;
    graph->input_count = program->signature.input_count = count;
    return EXG_OK;
}

static exg_status unwrap_inputs(unwrapping *u)
{
    exg_program *program = u->program;
    exg_graph *graph = program->graph;
    exg_module_call *call = program->module_call_count > 0 ? &program->module_calls[0] : NULL;

    EXG_TRY(prepare(u));
    for (uint32_t i = 0; i < graph->input_count; i++) {
        const char *root = root_of(u, i);

        if (root != NULL) {
            u->path[graph->inputs[i].as_tensor] = root;
            u->outer[graph->inputs[i].as_tensor] = i;
        }
    }
    EXG_TRY(unwrap_nodes(u));
    if (call != NULL && call->in_spec != NULL) {
        EXG_TRY(exg_tree_grow(program->arena, &call->in_spec, grow_leaf, u, u->err));
    }
    return place_inputs(u);
}

bool exg_program_has_subclasses(const exg_program *program)
{
    const exg_graph *graph = program->graph;
    bool any = exg_weights_has_subclasses(program->weights);

    for (uint32_t i = 0; any && i < program->signature.input_count; i++) {
        if (pickled(program, i) != NULL) {
            return true;
        }
    }
    for (uint32_t n = 0; n < graph->node_count; n++) {
        if (exg_node_accesses_subclass(&graph->nodes[n])) {
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
        status = exg_write_out_block_scaled(u.program, u.weights, err);
    }
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
