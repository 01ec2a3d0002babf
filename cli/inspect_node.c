/* inspect_node.c - one node in detail; the graph in Graphviz's language. */
#include "cli/inspect.h"

#include <stdlib.h>
#include <string.h>

/* ---- one node ------------------------------------------------------------------------------ */

typedef struct wanted {
    exg_value_id id;
    bool found;
} wanted;

static void is_wanted(void *user, exg_value_id *id)
{
    wanted *w = user;

    w->found = w->found || *id == w->id;
}

static bool uses(const exg_argument *arg, exg_value_id id)
{
    wanted w = {id, false};
    exg_argument copy = *arg;

    exg_argument_visit_values(&copy, is_wanted, &w);
    return w.found;
}

static bool makes(const exg_node *node, exg_value_id id)
{
    for (uint32_t o = 0; o < node->output_count; o++) {
        if (uses(&node->outputs[o], id)) {
            return true;
        }
    }
    return false;
}

static uint32_t find_node(const exg_graph *graph, const char *name)
{
    exg_value_id id = exg_graph_find_value(graph, name);
    char *end;
    unsigned long number = strtoul(name, &end, 10);

    for (uint32_t n = 0; n < graph->node_count; n++) {
        const exg_node *node = &graph->nodes[n];

        if ((node->name != NULL && strcmp(node->name, name) == 0) ||
            (id != EXG_NO_VALUE && makes(node, id))) {
            return n;
        }
    }
    return *end == '\0' && end != name && number < graph->node_count ? (uint32_t)number
                                                                     : UINT32_MAX;
}

typedef struct described {
    exg_text *text;
    const exg_graph *graph;
    uint32_t node; /* where it stands */
    bool users;    /* or makers */
} described;

/* Node n takes the value behind the node, or gives it before. */
static bool is_linked(const described *d, exg_value_id id, uint32_t n)
{
    const exg_node *node = &d->graph->nodes[n];
    bool linked = !d->users && n < d->node && makes(node, id);

    for (uint32_t a = 0; d->users && n > d->node && a < node->input_count; a++) {
        linked = linked || uses(&node->inputs[a].arg, id);
    }
    return linked;
}

static void put_link(const described *d, uint32_t n)
{
    const exg_node *node = &d->graph->nodes[n];

    exg_text_printf(d->text, " nodes[%u] ", n);
    exg_text_plain(d->text, node->name == NULL ? node->target : node->name, false);
}

static void describe_value(void *user, exg_value_id *id)
{
    const described *d = user;
    const exg_value *value = *id == EXG_NO_VALUE ? NULL : &d->graph->values[*id];

    if (value == NULL) {
        return;
    }
    exg_text_puts(d->text, "      ");
    exg_text_plain(d->text, value->name, false);
    if (value->tensor != NULL) {
        exg_text_puts(d->text, ": ");
        cli_put_shape(d->text, value->tensor);
    }
    exg_text_puts(d->text, d->users ? ", used by" : ", from");
    for (uint32_t n = 0; n < d->graph->node_count; n++) {
        if (is_linked(d, *id, n)) {
            put_link(d, n);
        }
    }
    for (uint32_t k = 0; !d->users && k < d->graph->input_count; k++) {
        exg_text_puts(d->text, uses(&d->graph->inputs[k], *id) ? " the graph's inputs" : "");
    }
    for (uint32_t k = 0; d->users && k < d->graph->output_count; k++) {
        if (uses(&d->graph->outputs[k], *id)) {
            exg_text_printf(d->text, " outputs[%u]", k);
        }
    }
    exg_text_putc(d->text, '\n');
}

static void put_metadata(exg_text *text, const exg_node *node)
{
    for (uint32_t m = 0; m < node->metadata.count; m++) {
        exg_text_puts(text, "  ");
        exg_text_plain(text, node->metadata.items[m].key, false);
        exg_text_puts(text, "\n      ");
        for (const char *c = node->metadata.items[m].value; *c != '\0';) {
            size_t length = strcspn(c, "\n");
            exg_text line = EXG_TEXT_EMPTY;

            exg_text_add(&line, c, length);
            exg_text_plain(text, exg_text_string(&line), false);
            exg_text_free(&line);
            c += length;
            exg_text_puts(text, *c == '\n' && c[1] != '\0' ? "\n      " : "");
            c += *c == '\n';
        }
        exg_text_putc(text, '\n');
    }
}

/* {"value": "relu", "nodes": [4], "graph": [0]}: positions of nodes, and of the graph's inputs or
 * outputs. */
static void put_value_json(void *user, exg_value_id *id)
{
    described *d = user;
    const exg_argument *ends = d->users ? d->graph->outputs : d->graph->inputs;
    uint32_t end_count = d->users ? d->graph->output_count : d->graph->input_count;

    if (*id == EXG_NO_VALUE) {
        return;
    }
    exg_json_put_open(d->text, '{');
    exg_json_member_text(d->text, "value", d->graph->values[*id].name);
    exg_json_member_open(d->text, "nodes", '[');
    for (uint32_t n = 0; n < d->graph->node_count; n++) {
        if (is_linked(d, *id, n)) {
            exg_json_put_uint(d->text, n);
        }
    }
    exg_json_put_close(d->text, ']');
    exg_json_member_open(d->text, "graph", '[');
    for (uint32_t k = 0; k < end_count; k++) {
        if (uses(&ends[k], *id)) {
            exg_json_put_uint(d->text, k);
        }
    }
    exg_json_put_close(d->text, ']');
    exg_json_put_close(d->text, '}');
}

static void put_node_json(exg_text *text, const exg_graph *graph, uint32_t n)
{
    const exg_node *node = &graph->nodes[n];
    described d = {.text = text, .graph = graph, .node = n};

    cli_json_begin(text);
    exg_json_member_uint(text, "index", n);
    exg_json_put_key(text, "node");
    cli_put_node_json(text, graph, node);
    exg_json_member_open(text, "from", '[');
    for (uint32_t a = 0; a < node->input_count; a++) {
        exg_argument copy = node->inputs[a].arg;

        exg_argument_visit_values(&copy, put_value_json, &d);
    }
    exg_json_put_close(text, ']');
    exg_json_member_open(text, "used_by", '[');
    d.users = true;
    for (uint32_t o = 0; o < node->output_count; o++) {
        exg_argument copy = node->outputs[o];

        exg_argument_visit_values(&copy, put_value_json, &d);
    }
    exg_json_put_close(text, ']');
    exg_json_member_open(text, "metadata", '{');
    for (uint32_t m = 0; m < node->metadata.count; m++) {
        exg_json_member_text(text, node->metadata.items[m].key, node->metadata.items[m].value);
    }
    exg_json_put_close(text, '}');
    cli_json_end(text);
}

exg_status cli_put_node(exg_text *text, const cli_inspection *i, exg_error *err)
{
    const exg_graph *graph = i->p->program->graph;
    uint32_t n = find_node(graph, i->call->node);
    described d = {.text = text, .graph = graph, .node = n};
    const exg_node *node;

    if (n == UINT32_MAX) {
        return exg_error_fix(
            err, EXG_FAIL(err, USAGE, "CLI-004", "no node is called '%s'", i->call->node),
            "exg inspect FILE --graph shows them all");
    }
    if (i->call->json) {
        put_node_json(text, graph, n);
        return EXG_OK;
    }
    node = &graph->nodes[n];
    exg_text_printf(text, "nodes[%u] ", n);
    exg_text_plain(text, node->name == NULL ? "" : node->name, false);
    exg_text_puts(text, "  ");
    exg_text_plain(text, node->target, false);
    exg_text_puts(text, "\n  arguments\n");
    for (uint32_t a = 0; a < node->input_count; a++) {
        exg_argument copy = node->inputs[a].arg;
        exg_text shown = EXG_TEXT_EMPTY;

        exg_print_argument(&shown, graph, &copy);
        exg_text_puts(text, "    ");
        exg_text_plain(text, node->inputs[a].name == NULL ? "" : node->inputs[a].name, false);
        exg_text_puts(text, " = ");
        exg_text_plain(text, exg_text_string(&shown), false);
        exg_text_putc(text, '\n');
        exg_text_free(&shown);
        exg_argument_visit_values(&copy, describe_value, &d);
    }
    exg_text_puts(text, "  results\n");
    d.users = true;
    for (uint32_t o = 0; o < node->output_count; o++) {
        exg_argument copy = node->outputs[o];

        exg_argument_visit_values(&copy, describe_value, &d);
    }
    put_metadata(text, node);
    return EXG_OK;
}

/* ---- Graphviz ---------------------------------------------------------------------------- */

static void put_quoted(exg_text *text, const char *string)
{
    exg_text plain = EXG_TEXT_EMPTY;

    exg_text_plain(&plain, string, false);
    exg_text_putc(text, '"');
    for (const char *c = exg_text_part(text, &plain); *c != '\0'; c++) {
        exg_text_puts(text, *c == '"' || *c == '\\' ? "\\" : "");
        exg_text_putc(text, *c);
    }
    exg_text_putc(text, '"');
    exg_text_free(&plain);
}

typedef struct edges {
    exg_text *text;
    const exg_graph *graph;
    uint32_t node;   /* UINT32_MAX: a result of the graph */
    uint32_t *maker; /* by value: node, or UINT32_MAX */
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

/* Nodes of one module after another share a box. */
static void put_boxes(exg_text *text, const exg_graph *graph)
{
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
        put_quoted(text, strncmp(graph->nodes[n].target, "torch.ops.", 10) == 0
                             ? graph->nodes[n].target + 10
                             : graph->nodes[n].target);
        exg_text_puts(text, "];\n");
    }
    exg_text_puts(text, open.path == NULL ? "" : "  }\n");
}

void cli_put_dot(exg_text *text, const cli_inspection *i)
{
    const exg_graph *graph = i->p->program->graph;
    edges e = {.text = text, .graph = graph};

    e.maker = EXG_NEW_ARRAY(i->arena, uint32_t, graph->value_count);
    if (e.maker == NULL) {
        text->failed = true;
        return;
    }
    memset(e.maker, 0xff, graph->value_count * sizeof(*e.maker));
    exg_text_puts(text, "digraph program {\n  node [shape=box, fontname=\"sans-serif\"];\n");
    for (uint32_t k = 0; k < graph->input_count; k++) {
        if (graph->inputs[k].kind == EXG_ARGUMENT_TENSOR) {
            exg_text_printf(text, "  v%u [shape=ellipse, label=", graph->inputs[k].as_tensor);
            put_quoted(text, graph->values[graph->inputs[k].as_tensor].name);
            exg_text_puts(text, "];\n");
        }
    }
    put_boxes(text, graph);
    for (e.node = 0; e.node < graph->node_count; e.node++) {
        for (uint32_t a = 0; a < graph->nodes[e.node].input_count; a++) {
            exg_argument copy = graph->nodes[e.node].inputs[a].arg;

            exg_argument_visit_values(&copy, put_edge, &e);
        }
        for (uint32_t o = 0; o < graph->nodes[e.node].output_count; o++) {
            exg_argument copy = graph->nodes[e.node].outputs[o];

            exg_argument_visit_values(&copy, note_maker, &e);
        }
    }
    e.node = UINT32_MAX;
    for (e.output = 0; e.output < graph->output_count; e.output++) {
        exg_argument copy = graph->outputs[e.output];

        exg_text_printf(text, "  o%u [shape=ellipse, label=\"output %u\"];\n", e.output, e.output);
        exg_argument_visit_values(&copy, put_edge, &e);
    }
    exg_text_puts(text, "}\n");
}
