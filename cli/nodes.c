/* nodes.c - values inside a program, given as further outputs of it: by --nodes, or as a file of
 * values names them. */
#include "cli/cli.h"

#include <exg/module.h>
#include <exg/transform.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

/* ---- which ----------------------------------------------------------------------------------- */

typedef struct chooser {
    const cli_call *call;
    bool by_patterns;
    const exg_tensor_file *wanted; /* or NULL */
    uint32_t nesting;              /* of vmap: what is in there has a batch that nobody sees */
    const exg_graph *graph;
    bool *fits; /* by pattern: some node */
    exg_value_id *ids;
    uint32_t count;
} chooser;

static bool is_wanted(chooser *c, const char *name)
{
    const cli_words *patterns = &c->call->nodes;
    bool any = (c->by_patterns && patterns->count == 0) ||
               (c->wanted != NULL && exg_tensor_file_find(c->wanted, name) != NULL);

    for (uint32_t i = 0; i < patterns->count; i++) {
        bool fits = fnmatch(patterns->items[i], name, 0) == 0;

        c->fits[i] = c->fits[i] || fits;
        any = any || fits;
    }
    return any;
}

static void choose(void *user, exg_value_id *id)
{
    chooser *c = user;
    const exg_value *value = *id == EXG_NO_VALUE ? NULL : &c->graph->values[*id];

    if (value != NULL && value->tensor != NULL && c->nesting == 0 &&
        value->tensor->layout == EXG_LAYOUT_STRIDED && is_wanted(c, value->name)) {
        c->ids[c->count++] = *id;
    }
}

static exg_status check_patterns(const chooser *c, exg_error *err)
{
    for (uint32_t i = 0; i < c->call->nodes.count; i++) {
        if (!c->fits[i]) {
            return cli_no_node(c->graph, c->call->nodes.items[i],
                               EXG_FAIL(err, USAGE, "CLI-012",
                                        "no node of the program gives a tensor called '%s'",
                                        c->call->nodes.items[i]),
                               err);
        }
    }
    return EXG_OK;
}

exg_status cli_no_node(const exg_graph *graph, const char *name, exg_status status, exg_error *err)
{
    cli_nearest nearest;

    cli_nearest_begin(&nearest, name);
    for (uint32_t v = 0; v < graph->value_count; v++) {
        cli_nearest_offer(&nearest, graph->values[v].name);
    }
    return nearest.name == NULL
               ? exg_error_fix(err, status, "exg inspect --graph has the names")
               : exg_error_fix(err, status, "did you mean %s? exg inspect --graph has the names",
                               nearest.name);
}

/* ---- watched --------------------------------------------------------------------------------- */

static exg_status watch(chooser *c, cli_program *p, cli_nodes *nodes, exg_error *err)
{
    const exg_part_options options = {.size = sizeof(options), .keeps = true};
    exg_program *part;

    for (uint32_t i = 0; i < p->program->signature.output_count; i++) {
        exg_output_kind kind = p->program->signature.outputs[i].kind;

        nodes->first += kind == EXG_OUTPUT_USER || kind == EXG_OUTPUT_LOSS;
    }
    EXG_TRY(exg_program_part(p->program, p->operators, c->ids, c->count, &options, &part, err));
    exg_program_destroy(p->program);
    p->program = part;
    EXG_TRY(exg_verify(p->program, p->operators, &p->verified, NULL, err));
    nodes->names = EXG_NEW_ARRAY(part->arena, const char *, c->count);
    if (nodes->names == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t i = 0; i < c->count; i++) { /* the copy has the numbers of the whole */
        nodes->names[i] = part->graph->values[c->ids[i]].name;
    }
    nodes->count = c->count;
    return EXG_OK;
}

exg_status cli_nodes_watch(const cli_call *call, bool by_patterns, const exg_tensor_file *wanted,
                           cli_program *p, cli_nodes *nodes, exg_error *err)
{
    chooser c = {.call = call, .by_patterns = by_patterns, .wanted = wanted};
    exg_status status = EXG_OK;

    *nodes = (cli_nodes){0};
    EXG_TRY(cli_unwrap(call, p, err));
    c.graph = p->program->graph;
    c.ids = calloc(c.graph->value_count + 1, sizeof(*c.ids));
    c.fits = calloc(call->nodes.count + 1, sizeof(*c.fits));
    if (c.ids == NULL || c.fits == NULL) {
        status = EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t n = 0; status == EXG_OK && n < c.graph->node_count; n++) {
        const exg_node *node = &c.graph->nodes[n];

        c.nesting += strstr(node->target, "_vmap_increment_nesting") != NULL;
        for (uint32_t o = 0; o < node->output_count; o++) {
            exg_argument_visit_values(&node->outputs[o], choose, &c);
        }
        c.nesting -= c.nesting > 0 && strstr(node->target, "_vmap_decrement_nesting") != NULL;
    }
    status = status == EXG_OK ? check_patterns(&c, err) : status;
    status = status == EXG_OK && c.count > 0 ? watch(&c, p, nodes, err) : status;
    free(c.ids);
    free(c.fits);
    return status;
}

bool cli_nodes_find(const cli_nodes *nodes, const char *name, uint32_t *output)
{
    for (uint32_t i = 0; i < nodes->count; i++) {
        if (strcmp(nodes->names[i], name) == 0) {
            if (output != NULL) {
                *output = nodes->first + i;
            }
            return true;
        }
    }
    return false;
}

uint32_t cli_own_outputs(const cli_nodes *nodes, const exg_session *session)
{
    return exg_session_output_count(session) - nodes->count;
}

const exg_session_output *cli_own_output(const cli_nodes *nodes, const exg_session *session,
                                         uint32_t index)
{
    return exg_session_output_at(session, index < nodes->first ? index : index + nodes->count);
}

/* ---- where they come from --------------------------------------------------------------------
 */

typedef struct looking {
    const exg_graph *graph;
    const char *name;
    bool found;
} looking;

static void look(void *user, exg_value_id *id)
{
    looking *l = user;

    l->found =
        l->found || (*id != EXG_NO_VALUE && strcmp(l->graph->values[*id].name, l->name) == 0);
}

const exg_node *cli_node_of(const exg_program *program, const char *name)
{
    looking l = {program->graph, name, false};

    for (uint32_t n = 0; n < program->graph->node_count; n++) {
        for (uint32_t o = 0; o < program->graph->nodes[n].output_count; o++) {
            exg_argument_visit_values(&program->graph->nodes[n].outputs[o], look, &l);
        }
        if (l.found) {
            return &program->graph->nodes[n];
        }
    }
    return NULL;
}

exg_status cli_at_node(const exg_program *program, const char *name, exg_status status,
                       exg_error *err)
{
    const exg_node *node = cli_node_of(program, name);
    exg_module_frame module;
    exg_source_line source;

    if (node == NULL) {
        return status;
    }
    module = exg_node_module(node);
    (void)exg_error_within(err, status, "node '%s'%s%.*s", name,
                           module.path_length > 0 ? " in " : "", (int)module.path_length,
                           module.path);
    if (exg_node_source_line(node, &source)) {
        (void)exg_error_source(err, status, "%.*s:%u: %.*s", (int)source.file_length, source.file,
                               source.line, (int)source.code_length, source.code);
    }
    return status;
}
