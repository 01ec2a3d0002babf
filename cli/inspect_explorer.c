/* inspect_explorer.c - a program's graph as Model Explorer reads it: a collection of graphs, whose
 * nodes have the module they are in as a namespace, edges by output, and attributes. The program's
 * graph is the first; a graph that a node runs, as a branch or the body of a loop, is a graph of
 * its own, which the viewer opens from the node. Form:
 * https://github.com/google-ai-edge/model-explorer, custom_graph.ts. */
#include "cli/inspect.h"

#include <inttypes.h>
#include <string.h>

/* A graph to be written, and its name: "model/while_loop/while_loop_body_graph_0". */
typedef struct explorer_graph {
    const exg_graph *graph;
    const char *id;
} explorer_graph;

typedef struct explorer {
    exg_text *text;
    exg_arena *arena;
    explorer_graph *graphs; /* inner ones are put at the end as their nodes are written */
    uint32_t graph_count, graph_capacity;
    const exg_graph *graph;  /* in hand, */
    const char *id;          /* and its name */
    uint32_t *maker, *place; /* by value: the node that gives it, and as which output */
    bool *is_weight;         /* by value */
    uint32_t node, output, inputs;
} explorer;

static void note_maker(void *user, exg_value_id *id)
{
    explorer *e = user;

    if (*id != EXG_NO_VALUE) {
        e->maker[*id] = e->node;
        e->place[*id] = e->output;
    }
    e->output++;
}

/* "n3", of a node; "v3", of an input. */
static void put_id(explorer *e, exg_value_id id)
{
    char name[16];

    snprintf(name, sizeof(name), "%s%u", e->maker[id] == UINT32_MAX ? "v" : "n",
             e->maker[id] == UINT32_MAX ? id : e->maker[id]);
    exg_json_member_text(e->text, "sourceNodeId", name);
}

static void put_edge(void *user, exg_value_id *id)
{
    explorer *e = user;
    char number[12];

    if (*id == EXG_NO_VALUE || (e->maker[*id] == UINT32_MAX && e->is_weight[*id])) {
        return;
    }
    exg_json_put_open(e->text, '{');
    put_id(e, *id);
    snprintf(number, sizeof(number), "%u", e->maker[*id] == UINT32_MAX ? 0 : e->place[*id]);
    exg_json_member_text(e->text, "sourceNodeOutputId", number);
    snprintf(number, sizeof(number), "%u", e->inputs++);
    exg_json_member_text(e->text, "targetNodeInputId", number);
    exg_json_put_close(e->text, '}');
}

static void put_pair(exg_text *text, const char *key, const char *value)
{
    exg_json_put_open(text, '{');
    exg_json_member_text(text, "key", key);
    exg_json_member_text(text, "value", value);
    exg_json_put_close(text, '}');
}

static void put_part(exg_text *text, const char *key, const char *part, uint32_t length)
{
    exg_text copy = EXG_TEXT_EMPTY;

    exg_text_add(&copy, part, length);
    put_pair(text, key, exg_text_part(text, &copy));
    exg_text_free(&copy);
}

static void put_shape(exg_text *text, const char *key, const exg_value *value)
{
    exg_text shape = EXG_TEXT_EMPTY;

    if (value->tensor != NULL) {
        cli_put_shape(&shape, value->tensor);
        put_pair(text, key, exg_text_part(text, &shape));
        exg_text_free(&shape);
    }
}

/* A weight that the node reads is an attribute of it. */
static void put_weight(void *user, exg_value_id *id)
{
    const explorer *e = user;

    if (*id != EXG_NO_VALUE && e->maker[*id] == UINT32_MAX && e->is_weight[*id]) {
        put_shape(e->text, e->graph->values[*id].name, &e->graph->values[*id]);
    }
}

static void put_output(void *user, exg_value_id *id)
{
    explorer *e = user;
    char number[12];

    if (*id == EXG_NO_VALUE) {
        return;
    }
    snprintf(number, sizeof(number), "%u", e->output++);
    exg_json_put_open(e->text, '{');
    exg_json_member_text(e->text, "id", number);
    exg_json_member_open(e->text, "attrs", '[');
    put_pair(e->text, "name", e->graph->values[*id].name);
    put_shape(e->text, "tensor_shape", &e->graph->values[*id]);
    exg_json_put_close(e->text, ']');
    exg_json_put_close(e->text, '}');
}

/* "a.b.c" is a box in a box in a box: "a/b/c". */
static void put_namespace(exg_text *text, const exg_node *node)
{
    const exg_module_frame module = exg_node_module(node);
    exg_text path = EXG_TEXT_EMPTY;

    for (uint32_t c = 0; c < module.path_length; c++) {
        exg_text_putc(&path, module.path[c] == '.' ? '/' : module.path[c]);
    }
    exg_json_member_text(text, "namespace", exg_text_part(text, &path));
    exg_text_free(&path);
}

static void visit_inputs(explorer *e, const exg_node *node,
                         void (*visit)(void *user, exg_value_id *id))
{
    for (uint32_t a = 0; a < node->input_count; a++) {
        exg_argument copy = node->inputs[a].arg;

        exg_argument_visit_values(&copy, visit, e);
    }
}

static void visit_outputs(explorer *e, const exg_node *node,
                          void (*visit)(void *user, exg_value_id *id))
{
    e->output = 0;
    for (uint32_t o = 0; o < node->output_count; o++) {
        exg_argument copy = node->outputs[o];

        exg_argument_visit_values(&copy, visit, e);
    }
}

/* Graphs that the node runs: their names here, the graphs themselves later. */
static void put_inner_graphs(explorer *e, const exg_node *node)
{
    bool has_any = false;

    for (uint32_t a = 0; a < node->input_count; a++) {
        const exg_argument *arg = &node->inputs[a].arg;
        const char *id;

        if (arg->kind != EXG_ARGUMENT_GRAPH) {
            continue;
        }
        id = node->name == NULL
                 ? exg_arena_printf(e->arena, "%s/n%u/%s", e->id, e->node, arg->as_graph->name)
                 : exg_arena_printf(e->arena, "%s/%s/%s", e->id, node->name, arg->as_graph->name);
        if (id == NULL || !exg_arena_reserve(e->arena, &e->graphs, e->graph_count,
                                             &e->graph_capacity, sizeof(*e->graphs))) {
            e->text->failed = true;
            break;
        }
        e->graphs[e->graph_count++] = (explorer_graph){arg->as_graph->graph, id};
        if (!has_any) {
            exg_json_member_open(e->text, "subgraphIds", '[');
            has_any = true;
        }
        exg_json_put_text(e->text, id);
    }
    if (has_any) {
        exg_json_put_close(e->text, ']');
    }
}

static void put_node(explorer *e, const exg_node *node)
{
    exg_source_line source;
    char id[16];

    snprintf(id, sizeof(id), "n%u", e->node);
    exg_json_put_open(e->text, '{');
    exg_json_member_text(e->text, "id", id);
    exg_json_member_text(e->text, "label", cli_short_target(node->target));
    put_namespace(e->text, node);
    put_inner_graphs(e, node);
    exg_json_member_open(e->text, "attrs", '[');
    put_pair(e->text, "name", node->name == NULL ? "" : node->name);
    if (exg_node_source_line(node, &source)) {
        put_part(e->text, "source", source.text, source.text_length);
    }
    visit_inputs(e, node, put_weight);
    exg_json_put_close(e->text, ']');
    exg_json_member_open(e->text, "incomingEdges", '[');
    e->inputs = 0;
    visit_inputs(e, node, put_edge);
    exg_json_put_close(e->text, ']');
    exg_json_member_open(e->text, "outputsMetadata", '[');
    visit_outputs(e, node, put_output);
    exg_json_put_close(e->text, ']');
    exg_json_put_close(e->text, '}');
}

static void put_input(explorer *e, exg_value_id value)
{
    char id[16];

    snprintf(id, sizeof(id), "v%u", value);
    exg_json_put_open(e->text, '{');
    exg_json_member_text(e->text, "id", id);
    exg_json_member_text(e->text, "label", e->graph->values[value].name);
    exg_json_member_text(e->text, "namespace", "");
    exg_json_member_open(e->text, "outputsMetadata", '[');
    e->output = 0;
    put_output(e, &value);
    exg_json_put_close(e->text, ']');
    exg_json_put_close(e->text, '}');
}

static void put_result(explorer *e, uint32_t index)
{
    exg_argument copy = e->graph->outputs[index];
    char id[24];

    snprintf(id, sizeof(id), "o%u", index);
    exg_json_put_open(e->text, '{');
    exg_json_member_text(e->text, "id", id);
    snprintf(id, sizeof(id), "output %u", index);
    exg_json_member_text(e->text, "label", id);
    exg_json_member_text(e->text, "namespace", "");
    exg_json_member_open(e->text, "incomingEdges", '[');
    e->inputs = 0;
    exg_argument_visit_values(&copy, put_edge, e);
    exg_json_put_close(e->text, ']');
    exg_json_put_close(e->text, '}');
}

static void put_nodes(explorer *e)
{
    const exg_graph *graph = e->graph;

    for (uint32_t k = 0; k < graph->input_count; k++) {
        if (graph->inputs[k].kind == EXG_ARGUMENT_TENSOR &&
            !e->is_weight[graph->inputs[k].as_tensor]) {
            put_input(e, graph->inputs[k].as_tensor);
        }
    }
    for (e->node = 0; e->node < graph->node_count; e->node++) {
        put_node(e, &graph->nodes[e->node]);
        visit_outputs(e, &graph->nodes[e->node], note_maker);
    }
    for (uint32_t o = 0; o < graph->output_count; o++) {
        put_result(e, o);
    }
}

static bool put_graph(explorer *e, const explorer_graph *graph, const exg_signature *signature)
{
    const uint32_t count = graph->graph->value_count;

    e->graph = graph->graph;
    e->id = graph->id;
    e->maker = EXG_NEW_ARRAY(e->arena, uint32_t, count);
    e->place = EXG_NEW_ARRAY(e->arena, uint32_t, count);
    e->is_weight = EXG_NEW_ARRAY(e->arena, bool, count);
    if (e->maker == NULL || e->place == NULL || e->is_weight == NULL) {
        return false;
    }
    memset(e->maker, 0xff, count * sizeof(*e->maker));
    for (uint32_t k = 0;
         signature != NULL && k < e->graph->input_count && k < signature->input_count; k++) {
        if (e->graph->inputs[k].kind == EXG_ARGUMENT_TENSOR) {
            e->is_weight[e->graph->inputs[k].as_tensor] =
                signature->inputs[k].kind != EXG_INPUT_USER;
        }
    }
    exg_json_put_open(e->text, '{');
    exg_json_member_text(e->text, "id", e->id);
    exg_json_member_open(e->text, "nodes", '[');
    put_nodes(e);
    exg_json_put_close(e->text, ']');
    exg_json_put_close(e->text, '}');
    return true;
}

void cli_put_explorer(exg_text *text, const cli_inspection *i)
{
    const exg_program *program = i->p->program;
    explorer_graph graph = {program->graph, program->name == NULL ? "model" : program->name};
    explorer e = {.text = text, .arena = i->arena};

    exg_json_put_open(text, '{');
    exg_json_member_text(text, "label", i->call->paths[0]);
    exg_json_member_text(text, "graphSorting",
                         "name_asc"); /* the program's graph, then its parts */
    exg_json_member_open(text, "graphs", '[');
    text->failed |= !put_graph(&e, &graph, &program->signature);
    for (uint32_t g = 0; g < e.graph_count && !text->failed; g++) {
        graph = e.graphs[g];
        text->failed |= !put_graph(&e, &graph, NULL);
    }
    exg_json_put_close(text, ']');
    exg_json_put_close(text, '}');
    exg_text_putc(text, '\n');
}
