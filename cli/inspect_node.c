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
        return cli_no_node(graph, i->call->node,
                           EXG_FAIL(err, USAGE, "CLI-004", "no node is called '%s'", i->call->node),
                           err);
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
