/* print_lines.c - from nodes to lines. */
#include "libexport/program/print_lines.h"

#include "libexport/base/arena.h"
#include "libexport/base/prefix.h"

#include <stdlib.h>
#include <string.h>

/* ---- growing ---------------------------------------------------------------------------- */

static bool reserve(exg_printer *p, void *items, uint32_t count, uint32_t *capacity, size_t size)
{
    p->failed = p->failed || !exg_arena_reserve(p->arena, items, count, capacity, size);
    return !p->failed;
}

static uint32_t new_id(exg_printer *p, const char *name)
{

    if (!reserve(p, &p->id_names, p->id_count, &p->id_capacity, sizeof(const char *))) {
        return 0;
    }
    p->id_names[p->id_count] = name;
    return p->id_count++;
}

static exg_printed_line *new_line(exg_printer *p, exg_line_kind kind, const exg_node *node)
{
    static exg_printed_line spare;

    if (!reserve(p, &p->lines, p->line_count, &p->line_capacity, sizeof(exg_printed_line))) {
        return &spare;
    }
    p->lines[p->line_count] =
        (exg_printed_line){.kind = kind, .node = node, .first_use = p->use_count};
    return &p->lines[p->line_count++];
}

/* Has the newest line this use? It has from now on. */
static bool is_noted(exg_printer *p, uint32_t id)
{
    bool noted;

    while (id >= p->used_by_capacity) {
        if (!reserve(p, &p->used_by, p->used_by_capacity, &p->used_by_capacity, sizeof(uint32_t))) {
            return true;
        }
    }
    noted = p->used_by[id] == p->line_count;
    p->used_by[id] = p->line_count;
    return noted;
}

/* Adds a use to the newest line, once. */
static void add_use(exg_printer *p, uint32_t id)
{
    exg_printed_line *l = &p->lines[p->line_count - 1];

    if (!is_noted(p, id) &&
        reserve(p, &p->uses, p->use_count, &p->use_capacity, sizeof(uint32_t))) {
        p->uses[p->use_count++] = id;
        l->use_count++;
    }
}

static void visit_use(void *user, exg_value_id *id)
{
    add_use(user, *id);
}

/* ---- from nodes to lines ------------------------------------------------------------------ */

static bool is_higher_order(const exg_node *node)
{
    return exg_behind(node->target, "torch.ops.higher_order.") != NULL;
}

/* Does FX see a tuple or list, to be taken apart by getitem? */
static bool gives_tuple(const exg_node *node)
{
    return node->output_count > 1 ||
           (node->output_count == 1 &&
            (node->outputs[0].kind == EXG_ARGUMENT_TENSORS ||
             (is_higher_order(node) && node->is_hop_single_tensor_return != EXG_TRUE &&
              node->outputs[0].kind != EXG_ARGUMENT_NONE)));
}

exg_value_id exg_output_value(const exg_argument *output)
{
    switch (output->kind) {
    case EXG_ARGUMENT_TENSOR:
        return output->as_tensor;
    case EXG_ARGUMENT_SYM_INT:
    case EXG_ARGUMENT_SYM_FLOAT:
    case EXG_ARGUMENT_SYM_BOOL:
        return output->as_sym.value;
    default: /* nothing, or a list */
        return EXG_NO_VALUE;
    }
}

/* "x", or the first of "x_1", "x_2", ... that no line before has. */
static const char *fresh_name(exg_printer *p, const exg_map *taken, const char *name)
{
    const char *text = name;

    for (unsigned n = 1; text != NULL && exg_map_find(taken, text) != EXG_MAP_NONE; n++) {
        text = exg_arena_printf(p->arena, "%s_%u", name, n);
    }
    p->failed = p->failed || text == NULL;
    return text == NULL ? "" : text;
}

static void define(exg_printer *p, const char *name)
{
    p->failed = p->failed || !exg_map_put(&p->defined, name, 0);
}

static uint32_t add_item(exg_printer *p, const exg_node *node, uint32_t tuple, uint32_t element,
                         exg_value_id value, const char *name)
{
    const char *of = p->id_names[tuple];
    exg_printed_line *l = new_line(p, EXG_LINE_ITEM, node);

    l->of = of;
    l->element = element;
    l->value = value == EXG_NO_VALUE ? NULL : &p->graph->values[value];
    l->name = value == EXG_NO_VALUE ? name : l->value->name;
    define(p, l->name);
    l->id = value == EXG_NO_VALUE ? new_id(p, name) : value;
    add_use(p, tuple);
    return l->id;
}

static void add_list_items(exg_printer *p, const exg_node *node, uint32_t tuple,
                           const exg_argument *list)
{
    for (uint32_t i = 0; i < list->count; i++) {
        add_item(p, node, tuple, i, list->as_tensors[i], "");
    }
}

static void add_items(exg_printer *p, const exg_node *node, uint32_t tuple)
{
    if (node->output_count == 1 && node->outputs[0].kind == EXG_ARGUMENT_TENSORS) {
        add_list_items(p, node, tuple, &node->outputs[0]);
        return;
    }
    for (uint32_t i = 0; i < node->output_count; i++) {
        const exg_argument *output = &node->outputs[i];

        if (output->kind == EXG_ARGUMENT_TENSORS) {
            uint32_t list =
                add_item(p, node, tuple, i, EXG_NO_VALUE, fresh_name(p, &p->defined, "getitem"));

            add_list_items(p, node, list, output);
        } else if (exg_output_value(output) == EXG_NO_VALUE) {
            add_item(p, node, tuple, i, EXG_NO_VALUE, fresh_name(p, &p->defined, "as_none"));
        } else {
            add_item(p, node, tuple, i, exg_output_value(output), "");
        }
    }
}

/* The uses of one input; subgraphs have the ids of their get_attr lines. */
static void add_input_uses(exg_printer *p, const exg_argument *arg, uint32_t *next_graph)
{
    exg_argument copy = *arg;

    if (arg->kind == EXG_ARGUMENT_GRAPH) {
        add_use(p, (*next_graph)++);
    } else if (arg->kind == EXG_ARGUMENT_CUSTOM_OBJ) {
        uint32_t id = exg_map_find(&p->names, arg->as_custom_obj->name);

        if (id != EXG_MAP_NONE) {
            add_use(p, id);
        }
    } else {
        exg_argument_visit_values(&copy, visit_use, p);
    }
}

static void add_node(exg_printer *p, const exg_node *node)
{
    uint32_t graphs = p->id_count;
    bool tuple = gives_tuple(node);
    exg_value_id value =
        tuple || node->output_count == 0 ? EXG_NO_VALUE : exg_output_value(&node->outputs[0]);
    const char *name = node->name == NULL ? "_" : node->name;
    exg_printed_line *l;
    uint32_t id;

    for (uint32_t i = 0; i < node->input_count; i++) {
        if (node->inputs[i].arg.kind == EXG_ARGUMENT_GRAPH) {
            const char *attribute = node->inputs[i].arg.as_graph->name;

            l = new_line(p, EXG_LINE_GRAPH, node);
            l->name = l->of = attribute;
            l->id = new_id(p, attribute);
            define(p, attribute);
        }
    }
    id = value == EXG_NO_VALUE ? new_id(p, name) : value;
    l = new_line(p, EXG_LINE_CALL, node);
    l->id = id;
    l->value = value == EXG_NO_VALUE ? NULL : &p->graph->values[value];
    l->name = value == EXG_NO_VALUE ? name : l->value->name;
    define(p, l->name);
    for (uint32_t i = 0; i < node->input_count && !p->failed; i++) {
        add_input_uses(p, &node->inputs[i].arg, &graphs);
    }
    if (tuple && !p->failed) {
        add_items(p, node, id);
    }
}

static void note_output(void *user, exg_value_id *id)
{
    exg_printer *p = user;

    p->last_use[*id] = EXG_AT_OUTPUT;
}

/* Which line uses each id last; outputs outlive all lines. */
static void find_last_uses(exg_printer *p)
{
    p->last_use = EXG_NEW_ARRAY(p->arena, uint32_t, p->id_count);
    if (p->last_use == NULL) {
        p->failed = true;
        return;
    }
    for (uint32_t i = 0; i < p->id_count; i++) {
        p->last_use[i] = EXG_NEVER;
    }
    for (uint32_t l = 0; l < p->line_count; l++) {
        for (uint32_t u = 0; u < p->lines[l].use_count; u++) {
            p->last_use[p->uses[p->lines[l].first_use + u]] = l;
        }
    }
    for (uint32_t i = 0; i < p->graph->output_count; i++) {
        exg_argument copy = p->graph->outputs[i];

        exg_argument_visit_values(&copy, note_output, p);
    }
}

/* ---- inputs Python cannot call so ------------------------------------------------------- */

static bool is_python_name(const char *name)
{
    static const char *const names[] = {
#define EXG_PYTHON_NAME(text) text,
#include "libexport/program/python_name.def"
#undef EXG_PYTHON_NAME
    };
    size_t low = 0;
    size_t high = sizeof(names) / sizeof(names[0]);

    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = strcmp(name, names[middle]);

        if (order == 0) {
            return true;
        }
        if (order < 0) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return false;
}

/* An input called "input" becomes input_1 inside: FX keeps builtins clear. */
static void rename_inputs(exg_printer *p, exg_renamed *r)
{
    const exg_graph *graph = p->graph;
    exg_map taken;

    exg_map_init(&taken, p->arena);
    r->from = EXG_NEW_ARRAY(p->arena, const char *, graph->input_count);
    r->to = EXG_NEW_ARRAY(p->arena, const char *, graph->input_count);
    p->failed = r->from == NULL || r->to == NULL;
    for (uint32_t i = 0; i < graph->input_count && !p->failed; i++) {
        exg_value_id id = exg_output_value(&graph->inputs[i]);

        if (id == EXG_NO_VALUE || !is_python_name(graph->values[id].name)) {
            continue;
        }
        if (r->count == 0) {
            r->graph = *graph;
            r->graph.values =
                exg_arena_memdup(p->arena, graph->values, graph->value_count, sizeof(exg_value));
            p->failed = r->graph.values == NULL;
            for (uint32_t v = 0; v < graph->value_count && !p->failed; v++) {
                p->failed = !exg_map_put(&taken, graph->values[v].name, v);
            }
        }
        if (!p->failed) {
            r->from[r->count] = graph->values[id].name;
            r->to[r->count] = fresh_name(p, &taken, graph->values[id].name);
            r->graph.values[id].name = r->to[r->count++];
        }
    }
    if (r->count > 0) {
        p->graph = &r->graph;
    }
}

static void build_lines(exg_printer *p)
{
    exg_map_init(&p->names, p->arena);
    exg_map_init(&p->defined, p->arena);
    for (uint32_t i = 0; i < p->graph->value_count && !p->failed; i++) {
        new_id(p, p->graph->values[i].name);
        p->failed = p->failed || !exg_map_put(&p->names, p->graph->values[i].name, i);
    }
    for (uint32_t i = 0; i < p->graph->node_count && !p->failed; i++) {
        add_node(p, &p->graph->nodes[i]);
    }
    if (!p->failed) {
        find_last_uses(p);
    }
}

bool exg_printer_begin(exg_printer *p, exg_text *out, const exg_graph *graph, bool renames)
{
    *p = (exg_printer){.out = out, .graph = graph};
    p->arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    p->failed = p->arena == NULL;
    if (!p->failed && renames) {
        rename_inputs(p, &p->inside);
    }
    if (!p->failed) {
        build_lines(p);
    }
    out->failed = out->failed || p->failed;
    return !p->failed;
}

void exg_printer_end(exg_printer *p)
{
    p->out->failed = p->out->failed || p->failed;
    exg_arena_destroy(p->arena);
}
