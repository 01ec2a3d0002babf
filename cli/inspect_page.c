/* inspect_page.c - one HTML page that needs nothing else: page.html with a program, or
 * weights, as JSON in it. What a file says is data in the page, never markup. */
#include "cli/inspect.h"

#include <string.h>

extern const char cli_page[];      /* page.html, by cmake/embed.cmake */
extern const char cli_diff_page[]; /* diff.html, likewise */

/* JSON has '<' in strings alone; as \u003c it ends no script element. */
static void put_embedded(exg_text *text, const char *json)
{
    for (size_t length; *json != '\0'; json += length) {
        length = strcspn(json, "<");
        exg_text_add(text, json, length);
        if (json[length] == '<') {
            exg_text_puts(text, "\\u003c");
            length++;
        }
    }
}

static void put_into(exg_text *text, const char *page, const exg_text *json)
{
    const char *place = strstr(page, "@DATA@");

    exg_text_add(text, page, (size_t)(place - page));
    put_embedded(text, exg_text_part(text, json));
    exg_text_puts(text, place + strlen("@DATA@"));
}

void cli_put_page(exg_text *text, const exg_text *json)
{
    put_into(text, cli_page, json);
}

void cli_put_diff_page(exg_text *text, const exg_text *json)
{
    put_into(text, cli_diff_page, json);
}

/* Bytes by node, where they are known. */
static void put_alive(exg_text *text, const cli_inspection *i)
{
    exg_json_member_open(text, "alive", '[');
    for (uint32_t n = 0; i->found->activations_known && n < i->p->program->graph->node_count; n++) {
        exg_json_put_uint(text, i->found->alive_bytes[n]);
    }
    exg_json_put_close(text, ']');
}

/* A graph that node `node` of graph `graph` runs; graph 0 is the program's. */
typedef struct inner_graph {
    const exg_graph_argument *inner;
    uint32_t graph, node;
} inner_graph;

typedef struct inner_graphs {
    inner_graph *items;
    uint32_t count, capacity;
} inner_graphs;

static void find_inner(exg_text *text, exg_arena *arena, inner_graphs *found,
                       const exg_graph *graph, uint32_t index)
{
    for (uint32_t n = 0; n < graph->node_count; n++) {
        for (uint32_t a = 0; a < graph->nodes[n].input_count; a++) {
            const exg_argument *arg = &graph->nodes[n].inputs[a].arg;

            if (arg->kind != EXG_ARGUMENT_GRAPH) {
                continue;
            }
            if (!exg_arena_reserve(arena, &found->items, found->count, &found->capacity,
                                   sizeof(*found->items))) {
                text->failed = true;
                return;
            }
            found->items[found->count++] = (inner_graph){arg->as_graph, index, n};
        }
    }
}

static void put_ends(exg_text *text, const char *key, const exg_graph *graph,
                     const exg_argument *ends, uint32_t count)
{
    exg_json_member_open(text, key, '[');
    for (uint32_t k = 0; k < count; k++) {
        exg_argument copy = ends[k];

        cli_put_results_json(text, graph, &copy);
    }
    exg_json_put_close(text, ']');
}

/* Branches and bodies of loops, those of one graph before those inside of them. */
static void put_inner(exg_text *text, const cli_inspection *i)
{
    inner_graphs found = {0};

    find_inner(text, i->arena, &found, i->p->program->graph, 0);
    exg_json_member_open(text, "graphs", '[');
    for (uint32_t g = 0; g < found.count && !text->failed; g++) {
        const inner_graph here = found.items[g];
        const exg_graph *graph = here.inner->graph;

        exg_json_put_open(text, '{');
        exg_json_member_uint(text, "graph", here.graph);
        exg_json_member_uint(text, "node", here.node);
        exg_json_member_text(text, "name", here.inner->name == NULL ? "" : here.inner->name);
        put_ends(text, "inputs", graph, graph->inputs, graph->input_count);
        cli_put_nodes_json(text, graph);
        put_ends(text, "outputs", graph, graph->outputs, graph->output_count);
        exg_json_put_close(text, '}');
        find_inner(text, i->arena, &found, graph, g + 1);
    }
    exg_json_put_close(text, ']');
}

static exg_status put_annotations(exg_text *text, const cli_inspection *i, exg_error *err)
{
    exg_annotations *read;

    EXG_TRY(exg_annotations_open(i->call->annotate, i->p->program, &read, err));
    exg_json_member_open(text, "annotations", '{');
    exg_json_member_text(text, "from", read->from);
    exg_json_member_open(text, "rows", '[');
    for (uint32_t r = 0; r < read->count; r++) {
        exg_json_put_open(text, '{');
        exg_json_member_int(text, "node",
                            read->items[r].node == UINT32_MAX ? -1 : (int64_t)read->items[r].node);
        exg_json_member_uint(text, "ns", read->items[r].ns);
        exg_json_member_text(text, "how", read->items[r].how);
        exg_json_put_close(text, '}');
    }
    exg_json_put_close(text, ']');
    exg_json_put_close(text, '}');
    exg_annotations_free(read);
    return EXG_OK;
}

exg_status cli_put_program_page(exg_text *text, const cli_inspection *i, exg_error *err)
{
    exg_text json = EXG_TEXT_EMPTY;
    exg_diagnostics found;
    exg_verified verified;
    exg_status status = exg_verify(i->p->program, i->p->operators, &verified, &found, err);

    if (status == EXG_OK || status == EXG_MALFORMED) { /* its faults are part of the page */
        cli_json_begin(&json);
        exg_json_member_open(&json, "summary", '{');
        status = cli_put_summary_json(&json, i, err);
        exg_json_put_close(&json, '}');
        cli_put_nodes_json(&json, i->p->program->graph);
        put_inner(&json, i);
        put_alive(&json, i);
        if (status == EXG_OK && i->call->annotate != NULL) {
            status = put_annotations(&json, i, err);
        }
        cli_json_diagnostics(&json, "diagnostics", &found);
        exg_json_put_close(&json, '}');
        cli_put_page(text, &json);
    }
    exg_text_free(&json);
    exg_diagnostics_free(&found);
    return status;
}

exg_status cli_deliver(const cli_call *call, const exg_text *text, exg_error *err)
{
    if (call->html == NULL || text->failed) {
        return cli_put(call->out, text, err);
    }
    EXG_TRY(exg_file_write(call->html, text->data, text->length, err));
    if (call->json) {
        return cli_json_value(call->out, "written", "html", err);
    }
    return EXG_OK;
}
