/* nodes.c - values inside a program, given as further outputs of it: by --nodes, or as a file of
 * values names them. */
#include "cli/cli.h"
#include "cli/inner_nodes.h"
#include "cli/vmap_nodes.h"

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
    const exg_graph *graph;
    const char *const *called; /* by value: what is shown of torch.vmap */
    bool *fits;                /* by pattern: some node */
    exg_value_id *ids;
    const char **names;
    uint32_t count;
} chooser;

/* Of an inner node also by the times that it ran. */
static bool is_in_file(const exg_tensor_file *file, const char *name)
{
    bool is_there = file != NULL && exg_tensor_file_find(file, name) != NULL;

    for (uint32_t i = 0; file != NULL && !is_there && i < file->count; i++) {
        is_there = strchr(name, '/') != NULL && cli_is_of_path(file->items[i].name, name);
    }
    return is_there;
}

static bool is_wanted(void *user, const char *name)
{
    chooser *c = user;
    const cli_words *patterns = &c->call->nodes;
    bool any = (c->by_patterns && patterns->count == 0) || is_in_file(c->wanted, name);

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
    const char *shown = value == NULL || c->called == NULL ? NULL : c->called[*id];

    if (value != NULL && value->tensor != NULL && value->tensor->layout == EXG_LAYOUT_STRIDED &&
        (shown != NULL || is_wanted(c, value->name))) {
        c->names[c->count] = shown == NULL ? value->name : shown;
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

/* In inner graphs: the program is changed where it is. */
static exg_status watch_inner(cli_program *p, const cli_nodes *nodes, exg_error *err)
{
    EXG_TRY(cli_inner_nodes_register(nodes->inner, p->operators, err));
    return exg_verify(p->program, p->operators, &p->verified, NULL, err);
}

static exg_status watch(chooser *c, cli_program *p, cli_nodes *nodes, exg_error *err)
{
    const exg_part_options options = {.size = sizeof(options), .keeps = true};
    exg_program *part;

    for (uint32_t i = 0; i < p->program->signature.output_count; i++) {
        exg_output_kind kind = p->program->signature.outputs[i].kind;

        nodes->first += kind == EXG_OUTPUT_USER || kind == EXG_OUTPUT_LOSS;
    }
    EXG_TRY(exg_program_part(p->program, p->operators, c->ids, c->count, &options, &part, err));
    nodes->names = EXG_NEW_ARRAY(part->arena, const char *, c->count);
    for (uint32_t i = 0; nodes->names != NULL && i < c->count; i++) {
        nodes->names[i] = exg_arena_strdup(part->arena, c->names[i]);
        if (nodes->names[i] == NULL) {
            nodes->names = NULL;
        }
    }
    exg_program_destroy(p->program);
    p->program = part;
    if (nodes->names == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    nodes->count = c->count;
    return exg_verify(p->program, p->operators, &p->verified, NULL, err);
}

static bool has_graphs(const exg_node *node)
{
    for (uint32_t i = 0; i < node->input_count; i++) {
        if (node->inputs[i].arg.kind == EXG_ARGUMENT_GRAPH) {
            return true;
        }
    }
    return false;
}

/* Of the root's graph in order; what is in inner graphs is watched. */
static exg_status choose_all(chooser *c, cli_program *p, cli_nodes *nodes, exg_error *err)
{
    uint32_t depth = 0; /* of torch.vmap */

    for (uint32_t n = 0; n < c->graph->node_count; n++) {
        const exg_node *node = &c->graph->nodes[n];

        depth = cli_vmap_depth(node, depth);
        if (has_graphs(node)) {
            EXG_TRY(cli_inner_nodes_watch(c->call, node, depth > 0, p, is_wanted, c, c->count,
                                          &nodes->inner, err));
        }
        for (uint32_t o = 0; depth == 0 && o < node->output_count; o++) {
            exg_argument_visit_values(&node->outputs[o], choose, c);
        }
    }
    return check_patterns(c, err);
}

static exg_status choose_and_watch(chooser *c, cli_program *p, cli_nodes *nodes, exg_error *err)
{
    EXG_TRY(cli_vmap_nodes_show(p->program->arena, p->program->graph, "", is_wanted, c, &c->called,
                                err));
    c->ids = calloc(c->graph->value_count + 1, sizeof(*c->ids));
    c->names = calloc(c->graph->value_count + 1, sizeof(*c->names));
    if (c->ids == NULL || c->names == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    EXG_TRY(choose_all(c, p, nodes, err));
    if (cli_inner_nodes_count(nodes->inner) == 0) {
        cli_inner_nodes_free(nodes->inner);
        nodes->inner = NULL;
    } else {
        EXG_TRY(watch_inner(p, nodes, err));
    }
    return c->count > 0 ? watch(c, p, nodes, err) : EXG_OK;
}

exg_status cli_nodes_watch(const cli_call *call, bool by_patterns, const exg_tensor_file *wanted,
                           cli_program *p, cli_nodes *nodes, exg_error *err)
{
    chooser c = {.call = call, .by_patterns = by_patterns, .wanted = wanted};
    exg_status status;

    *nodes = (cli_nodes){0};
    EXG_TRY(cli_unwrap(call, p, err));
    c.graph = p->program->graph;
    c.fits = calloc(call->nodes.count + 1, sizeof(*c.fits));
    status = c.fits == NULL ? EXG_OUT_OF_MEMORY(err) : choose_and_watch(&c, p, nodes, err);
    free(c.ids);
    free(c.names);
    free(c.fits);
    return status;
}

void cli_nodes_begin(const cli_nodes *nodes)
{
    if (nodes->inner != NULL) {
        cli_inner_nodes_forget(nodes->inner);
    }
}

void cli_nodes_free(cli_nodes *nodes)
{
    cli_inner_nodes_free(nodes->inner);
    *nodes = (cli_nodes){0};
}

bool cli_nodes_have(const cli_nodes *nodes, const char *name)
{
    for (uint32_t i = 0; i < nodes->count; i++) {
        if (strcmp(nodes->names[i], name) == 0) {
            return true;
        }
    }
    return cli_inner_nodes_have(nodes->inner, name);
}

exg_status cli_nodes_values(const cli_nodes *nodes, const exg_session *session,
                            cli_node_value **values, uint32_t *count, exg_error *err)
{
    uint32_t inner_count;
    const cli_node_value *inner = cli_inner_nodes_kept(nodes->inner, &inner_count);
    uint32_t next = 0;

    *count = 0;
    *values = calloc((size_t)nodes->count + inner_count + 1, sizeof(**values));
    if (*values == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t i = 0; i <= nodes->count; i++) {
        const exg_session_output *output =
            i < nodes->count ? exg_session_output_at(session, nodes->first + i) : NULL;

        for (; next < inner_count && inner[next].before <= i; next++) {
            (*values)[*count] = inner[next];
            (*values)[(*count)++].is_inner = true;
        }
        if (output != NULL && output->constant.kind == EXG_ARGUMENT_TENSOR) {
            (*values)[(*count)++] =
                (cli_node_value){.name = nodes->names[i], .tensor = output->tensor, .before = i};
        }
    }
    return EXG_OK;
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
        l->found || (*id != EXG_NO_VALUE && cli_is_of_path(l->name, l->graph->values[*id].name));
}

/* The graph among the arguments that `name`, behind "cond/", begins with; where its nodes are
 * watched a number is behind its own name. */
static const exg_graph_argument *graph_called(const exg_node *node, const char *name, size_t length)
{
    for (uint32_t i = 0; i < node->input_count; i++) {
        const exg_argument *arg = &node->inputs[i].arg;

        const char *called = arg->kind == EXG_ARGUMENT_GRAPH ? arg->as_graph->name : NULL;

        if (called != NULL && strncmp(called, name, length) == 0 &&
            (called[length] == '\0' ||
             strncmp(called + length, CLI_WATCHED_MARK, sizeof(CLI_WATCHED_MARK) - 1) == 0)) {
            return arg->as_graph;
        }
    }
    return NULL;
}

/* One graph further in, for the first two parts of the name. */
static const exg_graph *step_in(const exg_graph *graph, const char *name, const char *slash)
{
    const char *end = strchr(slash + 1, '/');

    for (uint32_t n = 0; end != NULL && n < graph->node_count; n++) {
        const exg_node *node = &graph->nodes[n];
        const char *called = node->name == NULL ? node->target : node->name;
        const exg_graph_argument *inner =
            strlen(called) == (size_t)(slash - name) &&
                    strncmp(called, name, (size_t)(slash - name)) == 0
                ? graph_called(node, slash + 1, (size_t)(end - slash - 1))
                : NULL;

        if (inner != NULL) {
            return inner->graph;
        }
    }
    return NULL;
}

const exg_node *cli_node_of(const exg_program *program, const char *name, const exg_graph **graph,
                            uint32_t *prefix)
{
    looking l = {program->graph, name, false};

    for (const char *slash; (slash = strchr(l.name, '/')) != NULL;) {
        const exg_graph *inner = step_in(l.graph, l.name, slash);

        if (inner == NULL) {
            return NULL;
        }
        l.graph = inner;
        l.name = strchr(slash + 1, '/') + 1;
    }
    if (graph != NULL && prefix != NULL) {
        *graph = l.graph;
        *prefix = (uint32_t)(l.name - name);
    }
    for (uint32_t n = 0; n < l.graph->node_count; n++) {
        const exg_node *node = &l.graph->nodes[n];

        for (uint32_t o = 0; o < node->output_count; o++) {
            exg_argument_visit_values(&node->outputs[o], look, &l);
        }
        if (l.found) {
            return node;
        }
    }
    return NULL;
}

exg_status cli_at_node(const exg_program *program, const char *name, exg_status status,
                       exg_error *err)
{
    const exg_node *node = cli_node_of(program, name, NULL, NULL);
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
