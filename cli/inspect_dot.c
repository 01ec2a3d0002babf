/* inspect_dot.c - a program's graph for Graphviz: modules as boxes, weights folded into the nodes
 * that read them, shapes on edges. A graph that a node runs, as a branch or the body of a loop, is
 * a dashed box of its own, to which the node points. */
#include "cli/inspect.h"

#include <stdio.h>
#include <string.h>

static void put_quoted(exg_text *text, const char *string)
{
    exg_text plain = EXG_TEXT_EMPTY;

    exg_text_plain(&plain, string, true);
    exg_text_putc(text, '"');
    for (const char *c = exg_text_part(text, &plain); *c != '\0'; c++) {
        exg_text_puts(text, *c == '"' || *c == '\\' ? "\\" : *c == '\n' ? "\\n" : "");
        exg_text_add(text, c, *c != '\n');
    }
    exg_text_putc(text, '"');
    exg_text_free(&plain);
}

#define DEPTH_MAX 64

/* Of one graph: the program's, or an inner one. */
typedef struct edges {
    exg_text *text;
    exg_arena *arena;
    const exg_graph *graph;
    char prefix[16];       /* of what is called here: "" or "g3_" */
    uint32_t *graph_count; /* inner ones so far, of the program */
    uint32_t depth;
    uint32_t node;   /* UINT32_MAX: a result of the graph */
    uint32_t *maker; /* by value: node, or UINT32_MAX */
    bool *is_weight; /* by value: a parameter, buffer or constant */
    bool *is_used;   /* by value: as an ellipse of its own */
    exg_text *label; /* of the node, as it grows */
    uint32_t output;
} edges;

static void note_maker(void *user, exg_value_id *id)
{
    edges *e = user;

    if (*id != EXG_NO_VALUE) {
        e->maker[*id] = e->node;
    }
}

static void put_edge(void *user, exg_value_id *id)
{
    const edges *e = user;

    if (*id == EXG_NO_VALUE) {
        return;
    }
    if (e->maker[*id] == UINT32_MAX && e->is_weight[*id] && e->node != UINT32_MAX) {
        return; /* it is in the node's label */
    }
    if (e->maker[*id] == UINT32_MAX) {
        exg_text_printf(e->text, "  %sv%u -> ", e->prefix, *id);
    } else {
        exg_text_printf(e->text, "  %sn%u -> ", e->prefix, e->maker[*id]);
    }
    if (e->node == UINT32_MAX) {
        exg_text_printf(e->text, "%so%u;\n", e->prefix, e->output);
    } else {
        exg_text_printf(e->text, "%sn%u", e->prefix, e->node);
        if (e->graph->values[*id].tensor != NULL) {
            exg_text shape = EXG_TEXT_EMPTY;

            cli_put_shape(&shape, e->graph->values[*id].tensor);
            exg_text_puts(e->text, " [label=");
            put_quoted(e->text, exg_text_string(&shape));
            exg_text_puts(e->text, "]");
            exg_text_free(&shape);
        }
        exg_text_puts(e->text, ";\n");
    }
}

/* Weights that a node reads, a line each. */
static void put_weight(void *user, exg_value_id *id)
{
    const edges *e = user;

    if (*id != EXG_NO_VALUE && e->is_weight[*id] && e->graph->values[*id].tensor != NULL) {
        exg_text_printf(e->label, "\n%s ", e->graph->values[*id].name);
        cli_put_shape(e->label, e->graph->values[*id].tensor);
    }
}

static void note_used(void *user, exg_value_id *id)
{
    edges *e = user;

    if (*id != EXG_NO_VALUE) {
        e->is_used[*id] = !e->is_weight[*id] || e->node == UINT32_MAX;
    }
}

const char *cli_short_target(const char *target)
{
    static const char *const before[] = {"torch.ops.", "torch._functorch.predispatch."};

    for (size_t i = 0; i < sizeof(before) / sizeof(before[0]); i++) {
        if (strncmp(target, before[i], strlen(before[i])) == 0) {
            return target + strlen(before[i]);
        }
    }
    return target;
}

static void put_node_label(edges *e, const exg_node *node)
{
    exg_text label = EXG_TEXT_EMPTY;

    exg_text_puts(&label, cli_short_target(node->target));
    e->label = &label;
    for (uint32_t a = 0; a < node->input_count; a++) {
        exg_argument copy = node->inputs[a].arg;

        exg_argument_visit_values(&copy, put_weight, e);
    }
    put_quoted(e->text, exg_text_part(e->text, &label));
    exg_text_free(&label);
}

static void put_inner_graphs(const edges *outer, uint32_t n);

/* Nodes of one module after another share a box. */
static void put_boxes(edges *e)
{
    const exg_graph *graph = e->graph;
    exg_text *text = e->text;
    exg_module_frame open = {NULL, NULL, 0, 0};
    uint32_t boxes = 0;

    for (uint32_t n = 0; n < graph->node_count; n++) {
        exg_module_frame m = exg_node_module(&graph->nodes[n]);

        if (open.path == NULL || m.path_length != open.path_length ||
            memcmp(m.path, open.path, m.path_length) != 0) {
            exg_text label = EXG_TEXT_EMPTY;

            exg_text_add(&label, m.path, m.path_length);
            exg_text_printf(text, "%s  subgraph cluster_%s%u {\n    label=",
                            open.path == NULL ? "" : "  }\n", e->prefix, boxes++);
            put_quoted(text, exg_text_string(&label));
            exg_text_puts(text, "; style=solid; color=gray;\n");
            exg_text_free(&label);
            open = m;
        }
        exg_text_printf(text, "    %sn%u [label=", e->prefix, n);
        put_node_label(e, &graph->nodes[n]);
        exg_text_puts(text, "];\n");
        put_inner_graphs(e, n);
    }
    exg_text_puts(text, open.path == NULL ? "" : "  }\n");
}

/* What is a weight, by the signature of the program's graph, and which inputs something reads. */
static void look_at_inputs(edges *e, const exg_signature *signature)
{
    for (uint32_t k = 0; signature != NULL && k < e->graph->input_count; k++) {
        if (e->graph->inputs[k].kind == EXG_ARGUMENT_TENSOR) {
            e->is_weight[e->graph->inputs[k].as_tensor] =
                k < signature->input_count && signature->inputs[k].kind != EXG_INPUT_USER;
        }
    }
    for (e->node = 0; e->node < e->graph->node_count; e->node++) {
        for (uint32_t a = 0; a < e->graph->nodes[e->node].input_count; a++) {
            exg_argument copy = e->graph->nodes[e->node].inputs[a].arg;

            exg_argument_visit_values(&copy, note_used, e);
        }
    }
    e->node = UINT32_MAX;
    for (uint32_t o = 0; o < e->graph->output_count; o++) {
        exg_argument copy = e->graph->outputs[o];

        exg_argument_visit_values(&copy, note_used, e);
    }
}

/* All that a user gives; of an inner graph, which is given what others need, what it reads. */
static void put_inputs(const edges *e)
{
    for (uint32_t k = 0; k < e->graph->input_count; k++) {
        const exg_argument *input = &e->graph->inputs[k];

        if (input->kind == EXG_ARGUMENT_TENSOR &&
            (e->is_used[input->as_tensor] || (e->depth == 0 && !e->is_weight[input->as_tensor]))) {
            exg_text_printf(e->text, "  %sv%u [shape=ellipse, label=", e->prefix, input->as_tensor);
            put_quoted(e->text, e->graph->values[input->as_tensor].name);
            exg_text_puts(e->text, "];\n");
        }
    }
}

static void put_edges(edges *e)
{
    for (e->node = 0; e->node < e->graph->node_count; e->node++) {
        for (uint32_t a = 0; a < e->graph->nodes[e->node].input_count; a++) {
            exg_argument copy = e->graph->nodes[e->node].inputs[a].arg;

            exg_argument_visit_values(&copy, put_edge, e);
        }
        for (uint32_t o = 0; o < e->graph->nodes[e->node].output_count; o++) {
            exg_argument copy = e->graph->nodes[e->node].outputs[o];

            exg_argument_visit_values(&copy, note_maker, e);
        }
    }
    e->node = UINT32_MAX;
    for (e->output = 0; e->output < e->graph->output_count; e->output++) {
        exg_argument copy = e->graph->outputs[e->output];

        exg_text_printf(e->text, "  %so%u [shape=ellipse, label=\"output %u\"];\n", e->prefix,
                        e->output, e->output);
        exg_argument_visit_values(&copy, put_edge, e);
    }
}

static void put_graph(edges *e, const exg_signature *signature)
{
    e->maker = EXG_NEW_ARRAY(e->arena, uint32_t, e->graph->value_count);
    e->is_weight = EXG_NEW_ARRAY(e->arena, bool, e->graph->value_count);
    e->is_used = EXG_NEW_ARRAY(e->arena, bool, e->graph->value_count);
    if (e->maker == NULL || e->is_weight == NULL || e->is_used == NULL) {
        e->text->failed = true;
        return;
    }
    memset(e->maker, 0xff, e->graph->value_count * sizeof(*e->maker));
    look_at_inputs(e, signature);
    put_inputs(e);
    put_boxes(e);
    put_edges(e);
}

/* Where an edge to a graph ends: at what stands at its top. */
static void put_top(exg_text *text, const edges *e)
{
    for (uint32_t k = 0; k < e->graph->input_count; k++) {
        const exg_argument *input = &e->graph->inputs[k];

        if (input->kind == EXG_ARGUMENT_TENSOR && e->is_used[input->as_tensor]) {
            exg_text_printf(text, "%sv%u", e->prefix, input->as_tensor);
            return;
        }
    }
    exg_text_printf(text, "%s%s0", e->prefix, e->graph->node_count > 0 ? "n" : "o");
}

static void put_inner_graph(const edges *outer, uint32_t n, const exg_graph_argument *inner)
{
    edges e = {.text = outer->text,
               .arena = outer->arena,
               .graph = inner->graph,
               .graph_count = outer->graph_count,
               .depth = outer->depth + 1};
    const uint32_t number = ++*outer->graph_count;

    snprintf(e.prefix, sizeof(e.prefix), "g%u_", number);
    exg_text_printf(e.text, "  subgraph cluster_g%u {\n    label=", number);
    put_quoted(e.text, inner->name == NULL ? "" : inner->name);
    exg_text_puts(e.text, "; style=dashed; color=black;\n");
    put_graph(&e, NULL);
    exg_text_puts(e.text, "  }\n");
    if (!e.text->failed && inner->graph->node_count + inner->graph->output_count > 0) {
        exg_text_printf(e.text, "  %sn%u -> ", outer->prefix, n);
        put_top(e.text, &e);
        exg_text_printf(e.text, " [lhead=cluster_g%u, style=dashed];\n", number);
    }
}

static void put_inner_graphs(const edges *outer, uint32_t n)
{
    const exg_node *node = &outer->graph->nodes[n];

    for (uint32_t a = 0; outer->depth < DEPTH_MAX && a < node->input_count; a++) {
        if (node->inputs[a].arg.kind == EXG_ARGUMENT_GRAPH) {
            put_inner_graph(outer, n, node->inputs[a].arg.as_graph);
        }
    }
}

void cli_put_dot(exg_text *text, const cli_inspection *i)
{
    uint32_t graph_count = 0;
    edges e = {.text = text,
               .arena = i->arena,
               .graph = i->p->program->graph,
               .graph_count = &graph_count};

    exg_text_puts(text, "digraph program {\n  compound=true;\n"
                        "  node [shape=box, fontname=\"sans-serif\"];\n");
    put_graph(&e, &i->p->program->signature);
    exg_text_puts(text, "}\n");
}
