/* inspect_dot.c - a program's graph for Graphviz: modules as boxes, weights folded into the nodes
 * that read them, shapes on edges. */
#include "cli/inspect.h"

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

typedef struct edges {
    exg_text *text;
    const exg_graph *graph;
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
        exg_text_printf(e->text, "  v%u -> ", *id);
    } else {
        exg_text_printf(e->text, "  n%u -> ", e->maker[*id]);
    }
    if (e->node == UINT32_MAX) {
        exg_text_printf(e->text, "o%u;\n", e->output);
    } else {
        exg_text_printf(e->text, "n%u", e->node);
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

static void put_node_label(edges *e, const exg_node *node)
{
    exg_text label = EXG_TEXT_EMPTY;

    exg_text_puts(&label,
                  strncmp(node->target, "torch.ops.", 10) == 0 ? node->target + 10 : node->target);
    e->label = &label;
    for (uint32_t a = 0; a < node->input_count; a++) {
        exg_argument copy = node->inputs[a].arg;

        exg_argument_visit_values(&copy, put_weight, e);
    }
    put_quoted(e->text, exg_text_part(e->text, &label));
    exg_text_free(&label);
}

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
            exg_text_printf(text, "%s  subgraph cluster_%u {\n    label=",
                            open.path == NULL ? "" : "  }\n", boxes++);
            put_quoted(text, exg_text_string(&label));
            exg_text_puts(text, "; color=gray;\n");
            exg_text_free(&label);
            open = m;
        }
        exg_text_printf(text, "    n%u [label=", n);
        put_node_label(e, &graph->nodes[n]);
        exg_text_puts(text, "];\n");
    }
    exg_text_puts(text, open.path == NULL ? "" : "  }\n");
}

/* What is a weight, and which inputs something reads. */
static void look_at_inputs(edges *e, const exg_program *program)
{
    for (uint32_t k = 0; k < e->graph->input_count; k++) {
        if (e->graph->inputs[k].kind == EXG_ARGUMENT_TENSOR) {
            e->is_weight[e->graph->inputs[k].as_tensor] =
                k < program->signature.input_count &&
                program->signature.inputs[k].kind != EXG_INPUT_USER;
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

static void put_inputs(const edges *e)
{
    for (uint32_t k = 0; k < e->graph->input_count; k++) {
        const exg_argument *input = &e->graph->inputs[k];

        if (input->kind == EXG_ARGUMENT_TENSOR &&
            (e->is_used[input->as_tensor] || !e->is_weight[input->as_tensor])) {
            exg_text_printf(e->text, "  v%u [shape=ellipse, label=", input->as_tensor);
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

        exg_text_printf(e->text, "  o%u [shape=ellipse, label=\"output %u\"];\n", e->output,
                        e->output);
        exg_argument_visit_values(&copy, put_edge, e);
    }
}

void cli_put_dot(exg_text *text, const cli_inspection *i)
{
    const exg_graph *graph = i->p->program->graph;
    edges e = {.text = text, .graph = graph};

    e.maker = EXG_NEW_ARRAY(i->arena, uint32_t, graph->value_count);
    e.is_weight = EXG_NEW_ARRAY(i->arena, bool, graph->value_count);
    e.is_used = EXG_NEW_ARRAY(i->arena, bool, graph->value_count);
    if (e.maker == NULL || e.is_weight == NULL || e.is_used == NULL) {
        text->failed = true;
        return;
    }
    memset(e.maker, 0xff, graph->value_count * sizeof(*e.maker));
    look_at_inputs(&e, i->p->program);
    exg_text_puts(text, "digraph program {\n  node [shape=box, fontname=\"sans-serif\"];\n");
    put_inputs(&e);
    put_boxes(&e);
    put_edges(&e);
    exg_text_puts(text, "}\n");
}
