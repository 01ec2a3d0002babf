/* process_groups.c - names of process groups become lines of a rank's grid. */
#include "libexport/transform/process_groups.h"
#include "libexport/base/arena.h"
#include "libexport/base/prefix.h"
#include "libexport/base/require.h"
#include "libexport/transform/auto_functionalized.h"
#include "libexport/transform/graph_segment.h"
#include "libexport/transform/idle.h"
#include "libexport/transform/inline.h"
#include "libexport/transform/origin.h"

#include <exg/operator_id_new.h>
#include <exg/transform.h>
#include <inttypes.h>
#include <string.h>

/* The deprecated collectives, which give the ranks of the group, and those that took their place.
 */
#define OLD_PREFIX "torch.ops.c10d_functional."
#define NEW_PREFIX "torch.ops._c10d_functional."

typedef struct binding {
    exg_program *program;
    const exg_operators *operators;
    exg_find_group *find;
    void *user;
    exg_error *err;
} binding;

/* One call of a collective, its arguments by position. */
typedef struct call {
    const exg_graph *graph;
    exg_node *node; /* that calls it: itself, as auto_functionalized, or with_effects */
    const exg_operator *op;
    exg_argument args[EXG_ARGUMENTS_MAX];
    exg_bound_group group;
} call;

/* The argument of that name; NULL: the operator has none. */
static const exg_argument *argument_of(const call *c, const char *name)
{
    uint32_t at = exg_operator_parameter(c->op, name);

    return at == c->op->schema->argument_count ? NULL : &c->args[at];
}

/* The collective that the node calls, or NULL. */
static const exg_operator *collective_of(const exg_operators *operators, const exg_node *node)
{
    const char *called = exg_node_operator(node);
    const exg_operator *op = exg_operators_find(operators, called);
    bool is_old = op != NULL && exg_behind(op->target, OLD_PREFIX) != NULL;

    return op != NULL && exg_operator_has_group(op) && (called == node->target || !is_old) ? op
                                                                                           : NULL;
}

static exg_status other_size(const binding *b, const call *c, const char *what, int64_t number)
{
    const exg_argument *name = argument_of(c, "group_name");
    exg_status status = EXG_FAIL(b->err, UNSUPPORTED, "COM-013",
                                 "%s is %s %" PRId64 ", and its group '%s' has %u rank%s here",
                                 c->op->target, what, number, name == NULL ? "" : name->as_string,
                                 c->group.size, c->group.size == 1 ? "" : "s");

    return exg_error_fix(b->err, status,
                         "the group needs as many ranks as the program was exported for: --mesh N, "
                         "and --group NAME=DIMS where it is a part of the mesh");
}

/* The ranks that the sizes recorded of shard_dim_alltoall are for; 0: they do not say. */
static int64_t recorded_ranks(const call *c)
{
    const exg_tensor_meta *in = c->args[0].kind != EXG_ARGUMENT_TENSOR
                                    ? NULL
                                    : c->graph->values[c->args[0].as_tensor].tensor;
    const exg_tensor_meta *out = c->node->outputs[0].kind != EXG_ARGUMENT_TENSOR
                                     ? NULL
                                     : c->graph->values[c->node->outputs[0].as_tensor].tensor;
    int64_t dim = exg_get_int(&c->args[1]);

    if (in == NULL || out == NULL || in->rank != out->rank) {
        return 0;
    }
    dim += dim < 0 ? in->rank : 0;
    if (dim < 0 || dim >= in->rank || in->sizes[dim].expr != NULL || out->sizes[dim].expr != NULL ||
        in->sizes[dim].value <= 0 || out->sizes[dim].value % in->sizes[dim].value != 0) {
        return 0;
    }
    return out->sizes[dim].value / in->sizes[dim].value;
}

/* Is the group as large as the node says, where it says so? */
static exg_status check_size(const binding *b, const call *c)
{
    const exg_argument *size = argument_of(c, "group_size");
    const exg_argument *source = argument_of(c, "src");
    const char *const splits[] = {"output_split_sizes", "input_split_sizes"};
    int64_t ranks = c->op->id == EXG_OP_dtensor_shard_dim_alltoall ? recorded_ranks(c) : 0;

    if (size != NULL && exg_get_int(size) != c->group.size) {
        return other_size(b, c, "for a group of", exg_get_int(size));
    }
    for (size_t i = 0; i < sizeof(splits) / sizeof(splits[0]); i++) {
        const exg_argument *list = argument_of(c, splits[i]);

        if (list != NULL && !exg_is_none(list) && list->count != c->group.size) {
            return other_size(b, c, "for splits of", list->count);
        }
    }
    if (ranks != 0 && ranks != c->group.size) {
        return other_size(b, c, "for a group of", ranks);
    }
    if (source != NULL && (exg_get_int(source) < 0 || exg_get_int(source) >= c->group.size)) {
        return other_size(b, c, "from rank", exg_get_int(source));
    }
    return EXG_OK;
}

static exg_status bound_name(const binding *b, const exg_bound_group *group, exg_argument *name)
{
    char text[EXG_BOUND_GROUP_TEXT];
    char *copy;

    exg_bound_group_write(group, text);
    copy = exg_arena_strdup(b->program->arena, text);
    *name = exg_arg_string(copy);
    return copy == NULL ? EXG_OUT_OF_MEMORY(b->err) : EXG_OK;
}

/* The argument of a deprecated collective that became `name`; NULL: there was none. */
static const exg_argument *old_argument(const call *c, uint32_t at, const char *name)
{
    return at == 0                          ? &c->args[0]
           : strcmp(name, "reduce_op") == 0 ? argument_of(c, "reduceOp")
                                            : argument_of(c, name);
}

/* Splits that were left out: as many rows for each rank. */
static exg_status even_splits(const binding *b, const call *c, exg_argument *splits)
{
    const exg_tensor_meta *in = c->args[0].kind != EXG_ARGUMENT_TENSOR
                                    ? NULL
                                    : c->graph->values[c->args[0].as_tensor].tensor;

    if (in == NULL || in->rank == 0 || in->sizes[0].expr != NULL) {
        return EXG_FAIL(b->err, UNSUPPORTED, "OPR-002", "%s without splits, of an unknown size",
                        c->node->target);
    }
    splits->kind = EXG_ARGUMENT_INTS;
    splits->count = c->group.size;
    splits->as_ints = EXG_NEW_ARRAY(b->program->arena, int64_t, c->group.size);
    for (uint32_t i = 0; splits->as_ints != NULL && i < c->group.size; i++) {
        splits->as_ints[i] = in->sizes[0].value / c->group.size;
    }
    return splits->as_ints == NULL ? EXG_OUT_OF_MEMORY(b->err) : EXG_OK;
}

/* A deprecated collective becomes the one that took its place. */
static exg_status renew(const binding *b, call *c)
{
    const exg_operator *op = exg_operators_find(
        b->operators, exg_arena_printf(b->program->arena, "%s%s", NEW_PREFIX,
                                       c->node->target + sizeof(OLD_PREFIX) - 1));
    exg_named_argument *inputs;

    if (op == NULL) {
        return EXG_FAIL(b->err, UNSUPPORTED, "OPR-002", "%s has no successor", c->node->target);
    }
    inputs = EXG_NEW_ARRAY(b->program->arena, exg_named_argument, op->schema->argument_count);
    if (inputs == NULL) {
        return EXG_OUT_OF_MEMORY(b->err);
    }
    for (uint32_t i = 0; i < op->schema->argument_count; i++) {
        const char *name = op->schema->arguments[i].name;
        const exg_argument *old = old_argument(c, i, name);

        inputs[i] = (exg_named_argument){.name = name, .kind = EXG_KIND_POSITIONAL};
        if (strcmp(name, "group_name") == 0) {
            EXG_TRY(bound_name(b, &c->group, &inputs[i].arg));
        } else if (old == NULL || exg_is_none(old)) {
            EXG_TRY(even_splits(b, c, &inputs[i].arg));
        } else {
            inputs[i].arg = *old;
        }
    }
    c->node->target = op->target;
    c->node->inputs = inputs;
    c->node->input_count = op->schema->argument_count;
    return EXG_OK;
}

/* The argument for the parameter at `at`; NULL: the node does not give it. */
static exg_argument *given_argument(const call *c, uint32_t at)
{
    bool by_name = exg_is_auto_functionalized(c->node->target);
    exg_node called = *c->node;

    (void)exg_effects_call(c->node, &called);
    for (uint32_t i = 0; i < called.input_count; i++) {
        const exg_named_argument *input = &called.inputs[i];

        if (strcmp(input->name, c->op->schema->arguments[at].name) == 0 ||
            (input->name[0] == '\0' && i == at && !by_name)) {
            return &called.inputs[i].arg;
        }
    }
    return NULL;
}

/* auto_functionalized says of what is written only which view it is: nothing that is asked here. */
static exg_status collect_arguments(const binding *b, call *c)
{
    for (uint32_t p = 0; p < c->op->schema->argument_count; p++) {
        const exg_schema_argument *parameter = &c->op->schema->arguments[p];
        const exg_argument *given = given_argument(c, p);

        c->args[p] = given != NULL ? *given : parameter->default_value;
        if (given == NULL && !parameter->has_default && !parameter->is_write) {
            return EXG_FAIL(b->err, MALFORMED, "NOD-004", "%s lacks its parameter '%s'",
                            c->op->target, parameter->name);
        }
        if (given != NULL && !exg_argument_fits(given, &parameter->type)) {
            return EXG_FAIL(b->err, MALFORMED, "NOD-006", "%s does not fit parameter '%s' of %s",
                            exg_argument_tag(given->kind), parameter->name, c->op->target);
        }
    }
    return EXG_OK;
}

static exg_status bind_node(const binding *b, const exg_graph *graph, exg_node *node)
{
    call c = {.graph = graph, .node = node, .op = collective_of(b->operators, node)};
    exg_collective_node asked = {.graph = graph, .node = node};
    const exg_argument *name;

    EXG_TRY(collect_arguments(b, &c));
    name = argument_of(&c, "group_name");
    if (name != NULL) {
        asked.group_name = name->kind == EXG_ARGUMENT_STRING ? name->as_string : "";
    } else {
        name = argument_of(&c, "ranks");
        asked.ranks = name->kind == EXG_ARGUMENT_INTS ? name->as_ints : NULL;
        asked.rank_count = name->kind == EXG_ARGUMENT_INTS ? name->count : 0;
    }
    EXG_TRY(b->find(b->user, &asked, &c.group, b->err));
    EXG_TRY(check_size(b, &c));
    if (asked.group_name == NULL) {
        return renew(b, &c);
    }
    return bound_name(b, &c.group, given_argument(&c, exg_operator_parameter(c.op, "group_name")));
}

static bool has_collectives(const exg_operators *operators, const exg_graph *graph)
{
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const exg_node *node = &graph->nodes[n];

        if (collective_of(operators, node) != NULL) {
            return true;
        }
        for (uint32_t i = 0; i < node->input_count; i++) {
            if (node->inputs[i].arg.kind == EXG_ARGUMENT_GRAPH &&
                has_collectives(operators, node->inputs[i].arg.as_graph->graph)) {
                return true;
            }
        }
    }
    return false;
}

bool exg_program_has_collectives(const exg_program *program, const exg_operators *operators)
{
    return has_collectives(operators, program->graph);
}

static exg_status bind_graph(const binding *b, exg_graph *graph)
{
    for (uint32_t n = 0; n < graph->node_count; n++) {
        exg_node *node = &graph->nodes[n];
        exg_status status = EXG_OK;

        for (uint32_t i = 0; i < node->input_count; i++) {
            if (node->inputs[i].arg.kind == EXG_ARGUMENT_GRAPH) {
                EXG_TRY(bind_graph(b, node->inputs[i].arg.as_graph->graph));
            }
        }
        if (collective_of(b->operators, node) != NULL) {
            status = bind_node(b, graph, node);
        }
        if (status != EXG_OK) {
            return exg_error_at_node(b->err, status, node);
        }
    }
    return EXG_OK;
}

exg_status exg_program_bind_groups(const exg_program *program, const exg_operators *operators,
                                   exg_find_group *find, void *user, exg_program **bound,
                                   exg_error *err)
{
    EXG_REQUIRE(err, program, operators, bound);
    binding b = {.operators = operators, .find = find, .user = user, .err = err};
    exg_status status;

    *bound = NULL;
    if (!exg_program_has_collectives(program, operators)) {
        return EXG_OK;
    }
    EXG_TRY(exg_program_copy(program, &b.program, err));
    status = bind_graph(&b, b.program->graph);
    if (status != EXG_OK) {
        exg_program_destroy(b.program);
        return status;
    }
    *bound = b.program;
    return EXG_OK;
}
