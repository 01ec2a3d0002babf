/* branch.c - a branch with tensors of its own (S002-49).
 *
 * An early file has a branch as a whole GraphModule. In a program a branch is a graph, so its
 * tensors are lifted, level by level, to the program: beside the node's operands stands one more
 * for each tensor, called "<branch>.<name>", and every branch of the node takes it as a last
 * input, used or not. exg_graph_argument.lifted_count remembers how many, so that writing can
 * put them back.
 */
#include "libexport/formats/early/early.h"
#include "libexport/program/python.h"
#include "libexport/program/uses.h"

#include <string.h>

/* ---- the operands of a node that has branches ----------------------------------------------- */

/* Where a loop's further operands are; elsewhere they are the last positional argument. */
static const struct {
    const char *target;
    uint32_t index;
} places[] = {
    {"torch.ops.higher_order.while_loop", 3},
    {"torch.ops.higher_order.scan", 3},
    {"torch.ops.higher_order.map_impl", 2},
};

/* The list that operands are appended to, or NULL: they are arguments themselves. */
static exg_status operand_list(exg_decoder *d, const exg_node *node, exg_argument **list)
{
    uint32_t at = node->input_count;

    for (uint32_t i = 0; i < node->input_count; i++) {
        at = node->inputs[i].kind == EXG_KIND_KEYWORD ? at : i;
    }
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        if (strcmp(node->target, places[i].target) == 0 && at != places[i].index) {
            return exg_error_fix(
                d->err,
                EXG_FAIL(d->err, UNSUPPORTED, "EAR-003",
                         "%s has no list of further operands for its branches' tensors",
                         node->target),
                "give it one, empty or not");
        }
    }
    *list = at == node->input_count ? NULL : &node->inputs[at].arg;
    if (*list != NULL && (*list)->kind != EXG_ARGUMENT_TENSORS &&
        ((*list)->kind != EXG_ARGUMENT_INTS || (*list)->count > 0)) {
        *list = NULL;
    }
    return EXG_OK;
}

/* ---- lifting -------------------------------------------------------------------------------- */

static exg_early_branch_argument *branch_at(const exg_node *node, uint32_t i)
{
    return node->inputs[i].arg.kind == EXG_ARGUMENT_GRAPH
               ? (exg_early_branch_argument *)(void *)node->inputs[i].arg.as_graph
               : NULL;
}

/* Names of branches are attributes of the module around them: not empty, without dots, no two
 * alike, none that the module's tensors or any module has. What an early file calls its
 * GraphModules need be none of that; its form remembers (form.c). */
static exg_status name_branches(exg_decoder *d, exg_graph *graph, const exg_early_bound *own,
                                uint32_t own_count)
{
    exg_map taken;

    exg_map_init(&taken, d->arena);
    if (!exg_put_module_names(&taken)) {
        return exg_decoder_out_of_memory(d);
    }
    for (uint32_t i = 0; i < own_count; i++) {
        const char *first = exg_arena_strndup(d->arena, own[i].name, strcspn(own[i].name, "."));

        if (first == NULL || !exg_map_put(&taken, first, i)) {
            return exg_decoder_out_of_memory(d);
        }
    }
    for (uint32_t n = 0; n < graph->node_count; n++) {
        for (uint32_t i = 0; i < graph->nodes[n].input_count; i++) {
            exg_early_branch_argument *branch = branch_at(&graph->nodes[n], i);
            char *name = branch == NULL
                             ? NULL
                             : exg_arena_printf(d->arena, "%s",
                                                branch->base.name[0] == '\0' ? "GraphModule"
                                                                             : branch->base.name);

            for (char *c = name; c != NULL && *c != '\0'; c++) {
                *c = *c == '.' ? '_' : *c;
            }
            if (branch == NULL) {
                continue;
            }
            branch->base.name = name == NULL ? NULL : exg_map_free_name(&taken, d->arena, name);
            if (branch->base.name == NULL || !exg_map_put(&taken, branch->base.name, n)) {
                return exg_decoder_out_of_memory(d);
            }
        }
    }
    return EXG_OK;
}

static bool has_branches(const exg_graph *graph)
{
    for (uint32_t n = 0; n < graph->node_count; n++) {
        for (uint32_t i = 0; i < graph->nodes[n].input_count; i++) {
            if (branch_at(&graph->nodes[n], i) != NULL) {
                return true;
            }
        }
    }
    return false;
}

/* How many tensors the node's branches have. */
static uint32_t count_own(const exg_node *node)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < node->input_count; i++) {
        const exg_early_branch_argument *branch = branch_at(node, i);

        count += branch == NULL ? 0 : branch->own_count;
    }
    return count;
}

/* The node's operands with `count` more, from values[] of the scope at hand. */
static exg_status add_operands(exg_decoder *d, exg_node *node, const exg_value_id *values,
                               uint32_t count)
{
    exg_argument *list = NULL;

    EXG_TRY(operand_list(d, node, &list));
    if (list != NULL) {
        uint32_t before = list->kind == EXG_ARGUMENT_TENSORS ? list->count : 0;
        exg_value_id *ids = EXG_NEW_ARRAY(d->arena, exg_value_id, (size_t)before + count);

        if (ids == NULL) {
            return exg_decoder_out_of_memory(d);
        }
        if (before > 0) {
            memcpy(ids, list->as_tensors, before * sizeof(*ids));
        }
        memcpy(ids + before, values, count * sizeof(*ids));
        *list = (exg_argument){
            .kind = EXG_ARGUMENT_TENSORS, .count = before + count, .as_tensors = ids};
    } else {
        size_t most = (size_t)node->input_count + count;
        exg_named_argument *inputs = EXG_NEW_ARRAY(d->arena, exg_named_argument, most);
        uint32_t positional = 0;

        if (inputs == NULL) {
            return exg_decoder_out_of_memory(d);
        }
        while (positional < node->input_count &&
               node->inputs[positional].kind != EXG_KIND_KEYWORD) {
            positional++;
        }
        memcpy(inputs, node->inputs, positional * sizeof(*inputs));
        for (uint32_t i = 0; i < count; i++) {
            inputs[positional + i] = (exg_named_argument){
                "", {.kind = EXG_ARGUMENT_TENSOR, .as_tensor = values[i]}, EXG_KIND_POSITIONAL};
        }
        memcpy(inputs + positional + count, node->inputs + positional,
               (node->input_count - positional) * sizeof(*inputs));
        node->inputs = inputs;
        node->input_count += count;
    }
    return EXG_OK;
}

/* The branch takes all of `lifted`: its own are values that it has, the rest are new ones. */
static exg_status add_inputs(exg_decoder *d, exg_early_branch_argument *branch,
                             const exg_early_bound *lifted, uint32_t count, uint32_t own)
{
    exg_graph *graph = branch->base.graph;
    uint32_t before = graph->value_count;
    size_t most = (size_t)before + count;
    exg_value *values = EXG_NEW_ARRAY(d->arena, exg_value, most);
    exg_argument *inputs =
        EXG_NEW_ARRAY(d->arena, exg_argument, (size_t)graph->input_count + count);
    exg_map taken;

    exg_map_init(&taken, d->arena);
    if (values == NULL || inputs == NULL) {
        return exg_decoder_out_of_memory(d);
    }
    for (uint32_t i = 0; i < before; i++) {
        values[i] = graph->values[i];
        if (!exg_map_put(&taken, values[i].name, i)) {
            return exg_decoder_out_of_memory(d);
        }
    }
    memcpy(inputs, graph->inputs, graph->input_count * sizeof(*inputs));
    for (uint32_t i = 0; i < count; i++) {
        bool is_own = i - own < branch->own_count; /* before `own` it wraps */
        exg_value_id id = is_own ? branch->own[i - own].id : graph->value_count;

        if (!is_own) {
            const char *name = exg_map_free_name(&taken, d->arena, lifted[i].name);

            if (name == NULL || !exg_map_put(&taken, name, id)) {
                return exg_decoder_out_of_memory(d);
            }
            values[graph->value_count++] = (exg_value){.name = name, .tensor = lifted[i].meta};
        }
        inputs[graph->input_count++] = (exg_argument){.kind = EXG_ARGUMENT_TENSOR, .as_tensor = id};
    }
    graph->values = values;
    graph->inputs = inputs;
    branch->base.lifted_count = count;
    return EXG_OK;
}

/* A tensor of a branch as one of the module around it, under a name that is free there. */
static exg_status rename_bound(exg_decoder *d, const char *branch, exg_early_bound *b)
{
    const char *stem = exg_arena_printf(d->arena, "%s.%s", branch, b->name);
    uint32_t before = exg_decoder_value_count(d);

    b->name = stem;
    for (uint32_t i = 1; b->name != NULL; i++) {
        EXG_TRY(exg_decoder_value(d, b->tensor, b->name, (uint32_t)strlen(b->name), &b->id));
        if (exg_decoder_value_count(d) > before) {
            exg_decoder_value_at(d, b->id)->tensor = b->meta;
            return EXG_OK;
        }
        b->name = exg_arena_printf(d->arena, "%s_%u", stem, i == 1 ? 1 : before + i);
    }
    return exg_decoder_out_of_memory(d);
}

static exg_status lift_node(exg_decoder *d, exg_node *node, exg_early_bound *lifted, uint32_t count)
{
    exg_value_id *ids = EXG_NEW_ARRAY(d->arena, exg_value_id, count);
    uint32_t at = 0;

    if (ids == NULL) {
        return exg_decoder_out_of_memory(d);
    }
    for (uint32_t i = 0; i < node->input_count; i++) {
        const exg_early_branch_argument *branch = branch_at(node, i);

        for (uint32_t k = 0; branch != NULL && k < branch->own_count; k++, at++) {
            lifted[at] = branch->own[k];
            EXG_TRY(rename_bound(d, branch->base.name, &lifted[at]));
            ids[at] = lifted[at].id;
        }
    }
    at = 0;
    for (uint32_t i = 0; i < node->input_count; i++) {
        exg_early_branch_argument *branch = branch_at(node, i);

        if (branch != NULL) {
            EXG_TRY(add_inputs(d, branch, lifted, count, at));
            at += branch->own_count;
        }
    }
    return add_operands(d, node, ids, count);
}

exg_status exg_early_lift_branches(exg_decoder *d, exg_graph *graph, exg_early_bound **own,
                                   uint32_t *own_count)
{
    exg_early_bound *all;
    size_t more = 0;

    if (!has_branches(graph)) {
        return EXG_OK;
    }
    EXG_TRY(name_branches(d, graph, *own, *own_count));
    for (uint32_t n = 0; n < graph->node_count; n++) {
        more += count_own(&graph->nodes[n]);
    }
    if (more == 0) {
        return EXG_OK;
    }
    all = EXG_NEW_ARRAY(d->arena, exg_early_bound, *own_count + more);
    if (all == NULL) {
        return exg_decoder_out_of_memory(d);
    }
    if (*own_count > 0) {
        memcpy(all, *own, *own_count * sizeof(*all));
    }
    *own = all;
    for (uint32_t n = 0; n < graph->node_count; n++) {
        uint32_t count = count_own(&graph->nodes[n]);

        if (count > 0) {
            EXG_TRY_IN(d->err, lift_node(d, &graph->nodes[n], all + *own_count, count),
                       "graph.nodes[%u]", n);
            *own_count += count;
        }
    }
    return EXG_OK;
}

/* ---- and back ------------------------------------------------------------------------------- */

uint32_t exg_early_lifted(const exg_early_scope *scope, const exg_node *node, uint32_t *last)
{
    uint32_t count = UINT32_MAX; /* of every branch alike */

    *last = node->input_count;
    for (uint32_t i = 0; i < node->input_count; i++) {
        if (node->inputs[i].arg.kind == EXG_ARGUMENT_GRAPH) {
            const exg_graph_argument *branch = node->inputs[i].arg.as_graph;

            count = count == UINT32_MAX ? branch->lifted_count : count;
            if (branch->lifted_count != count || count > branch->graph->input_count) {
                return 0;
            }
        }
        *last = node->inputs[i].kind == EXG_KIND_KEYWORD ? *last : i;
    }
    if (count == UINT32_MAX || !scope->e->to_branches || *last == node->input_count) {
        return 0;
    }
    if (node->inputs[*last].arg.kind == EXG_ARGUMENT_TENSORS) {
        return node->inputs[*last].arg.count >= count ? count : 0;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (i > *last || node->inputs[*last - i].arg.kind != EXG_ARGUMENT_TENSOR) {
            return 0;
        }
    }
    return count;
}

/* Operand k of the `count` that were lifted. */
static exg_value_id operand(const exg_node *node, uint32_t last, uint32_t count, uint32_t k)
{
    const exg_argument *list = &node->inputs[last].arg;

    return list->kind == EXG_ARGUMENT_TENSORS ? list->as_tensors[list->count - count + k]
                                              : node->inputs[last - (count - 1 - k)].arg.as_tensor;
}

void exg_early_put_back(exg_early_scope *scope, const exg_graph *graph)
{
    for (uint32_t n = 0; n < graph->node_count; n++) {
        uint32_t last;
        uint32_t count = exg_early_lifted(scope, &graph->nodes[n], &last);

        for (uint32_t k = 0; k < count; k++) {
            exg_value_id id = operand(&graph->nodes[n], last, count, k);

            scope->flags[id] |= scope->holders[id] != 0 ? EXG_EARLY_NO_VALUE : 0;
        }
    }
}

/* Was the tensor, called `lifted` in the module around, lifted out of this branch, where it is
 * called `own`? */
static bool is_named_after(const char *lifted, const char *branch, const char *own)
{
    size_t stem = strlen(branch);
    size_t rest = strlen(own);

    if (strncmp(lifted, branch, stem) != 0 || lifted[stem] != '.' ||
        strncmp(lifted + stem + 1, own, rest) != 0) {
        return false;
    }
    lifted += stem + 1 + rest;
    return *lifted == '\0' || (*lifted == '_' && strspn(lifted + 1, "0123456789") ==
                                                     strlen(lifted + 1)); /* rename_bound() */
}

static const char *own_name(const exg_graph *graph, uint32_t count, uint32_t k)
{
    const exg_argument *input = &graph->inputs[graph->input_count - count + k];

    return input->kind == EXG_ARGUMENT_TENSOR ? graph->values[input->as_tensor].name : "";
}

/* Fills owners[k] with the input whose branch has tensor k: that it is named after, else the first
 * that uses it, or the first of all. */
static exg_status find_owners(const exg_early_scope *outer, const exg_node *node, uint32_t last,
                              uint32_t count, uint32_t *owners)
{
    exg_early_encoder *e = outer->e;
    bool *named = EXG_NEW_ARRAY(e->arena, bool, count);

    if (named == NULL) {
        return EXG_OUT_OF_MEMORY(e->err);
    }
    for (uint32_t k = 0; k < count; k++) {
        owners[k] = UINT32_MAX;
    }
    for (uint32_t i = node->input_count; i > 0; i--) {
        const exg_argument *arg = &node->inputs[i - 1].arg;
        const exg_graph *graph = arg->kind == EXG_ARGUMENT_GRAPH ? arg->as_graph->graph : NULL;
        const uint32_t *uses = graph == NULL ? NULL : exg_graph_count_uses(e->arena, graph);

        if (graph != NULL && uses == NULL) {
            return EXG_OUT_OF_MEMORY(e->err);
        }
        for (uint32_t k = 0; graph != NULL && k < count; k++) {
            const exg_argument *input = &graph->inputs[graph->input_count - count + k];
            bool is_named = is_named_after(outer->names[operand(node, last, count, k)],
                                           arg->as_graph->name, own_name(graph, count, k));

            if (is_named ||
                (!named[k] && input->kind == EXG_ARGUMENT_TENSOR && uses[input->as_tensor] > 0)) {
                owners[k] = i - 1;
            }
            named[k] = named[k] || is_named;
        }
    }
    for (uint32_t k = 0; k < count; k++) {
        for (uint32_t i = 0; owners[k] == UINT32_MAX && i < node->input_count; i++) {
            owners[k] = node->inputs[i].arg.kind == EXG_ARGUMENT_GRAPH ? i : UINT32_MAX;
        }
    }
    return EXG_OK;
}

/* The scope of a branch: what it takes as its own holds the weight that the operand holds. */
static exg_status enter_branch(const exg_early_scope *outer, const exg_node *node, uint32_t input,
                               exg_early_scope *scope)
{
    exg_early_encoder *e = outer->e;
    const exg_graph *graph = node->inputs[input].arg.as_graph->graph;
    const char **names = EXG_NEW_ARRAY(e->arena, const char *, graph->value_count);
    uint32_t *holders = EXG_NEW_ARRAY(e->arena, uint32_t, graph->value_count);
    uint8_t *flags = EXG_NEW_ARRAY(e->arena, uint8_t, graph->value_count);
    uint32_t last;
    uint32_t count = exg_early_lifted(outer, node, &last);
    uint32_t *owners = EXG_NEW_ARRAY(e->arena, uint32_t, count);

    if (names == NULL || holders == NULL || flags == NULL || owners == NULL) {
        return EXG_OUT_OF_MEMORY(e->err);
    }
    for (uint32_t i = 0; i < graph->value_count; i++) {
        names[i] = graph->values[i].name;
    }
    EXG_TRY(find_owners(outer, node, last, count, owners));
    for (uint32_t k = 0; k < count; k++) {
        const exg_argument *own = &graph->inputs[graph->input_count - count + k];
        uint32_t held = outer->holders[operand(node, last, count, k)];

        if (own->kind == EXG_ARGUMENT_TENSOR && held != 0) {
            flags[own->as_tensor] |=
                owners[k] == input ? EXG_EARLY_NO_INPUT : EXG_EARLY_NO_INPUT | EXG_EARLY_NO_VALUE;
            holders[own->as_tensor] = owners[k] == input ? held : 0;
        }
    }
    *scope = (exg_early_scope){e, names, holders, flags};
    exg_early_put_back(scope, graph);
    return EXG_OK;
}

static exg_status put_own(const exg_early_scope *scope, exg_text *out, const exg_graph *graph,
                          bool parameters)
{
    exg_early_encoder *e = scope->e;

    exg_json_put_open(out, '{');
    for (uint32_t i = 0; i < graph->input_count; i++) {
        exg_value_id id =
            graph->inputs[i].kind == EXG_ARGUMENT_TENSOR ? graph->inputs[i].as_tensor : 0;
        const exg_weight *weight;
        bool is_parameter = false;

        if (graph->inputs[i].kind != EXG_ARGUMENT_TENSOR || scope->holders[id] == 0 ||
            (scope->flags[id] & EXG_EARLY_NO_VALUE) != 0) {
            continue;
        }
        weight = &e->program->weights->items[scope->holders[id] - 1];
        exg_early_name_of(e, scope->holders[id] - 1, &is_parameter);
        if (is_parameter == parameters && exg_early_holds(weight)) {
            exg_json_put_key(out, scope->names[id]);
            EXG_TRY_IN(e->err, exg_early_put_tensor(e, out, weight), "%s['%s']",
                       parameters ? "parameters" : "buffers", scope->names[id]);
        }
    }
    exg_json_put_close(out, '}');
    return EXG_OK;
}

exg_status exg_early_put_branch(const exg_early_scope *outer, exg_text *out, const exg_node *node,
                                uint32_t input)
{
    const exg_graph_argument *branch = node->inputs[input].arg.as_graph;
    exg_early_scope scope;

    EXG_TRY(enter_branch(outer, node, input, &scope));
    exg_json_put_open(out, '{');
    exg_json_member_text(out, "name", branch->name);
    exg_json_put_key(out, "graph");
    EXG_TRY_IN(outer->e->err, exg_early_put_graph(&scope, out, branch->graph), "%s", branch->name);
    exg_json_member_open(out, "metadata", '{');
    for (uint32_t i = 0; outer->e->to_branches && i < branch->metadata.count; i++) {
        exg_json_member_text(out, branch->metadata.items[i].key, branch->metadata.items[i].value);
    }
    exg_json_put_close(out, '}');
    exg_json_put_key(out, "parameters");
    EXG_TRY(put_own(&scope, out, branch->graph, true));
    exg_json_put_key(out, "buffers");
    EXG_TRY(put_own(&scope, out, branch->graph, false));
    exg_json_put_close(out, '}');
    return EXG_OK;
}
