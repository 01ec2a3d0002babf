/* rename.c - names in a program: a value under another one, one value for another. */
#include "libexport/base/arena.h"
#include "libexport/base/require.h"

#include <exg/signature.h>
#include <string.h>

typedef struct replacement {
    exg_value_id from;
    exg_value_id to;
    bool found;
} replacement;

static void replace_id(void *user, exg_value_id *id)
{
    replacement *r = user;

    if (*id == r->from) {
        *id = r->to;
        r->found = true;
    }
}

static exg_status check_id(const exg_graph *graph, exg_value_id id, exg_error *err)
{
    return id < graph->value_count
               ? EXG_OK
               : EXG_FAIL(err, USAGE, "BLD-002", "the graph has no value %u", id);
}

exg_status exg_program_replace_uses(exg_program *program, exg_value_id old_value,
                                    exg_value_id new_value, exg_error *err)
{
    EXG_REQUIRE(err, program);
    exg_graph *graph = program->graph;
    exg_signature *signature = &program->signature;
    replacement r = {old_value, new_value, false};

    EXG_TRY(check_id(graph, old_value, err));
    EXG_TRY(check_id(graph, new_value, err));
    for (uint32_t n = 0; n < graph->node_count; n++) {
        for (uint32_t i = 0; i < graph->nodes[n].input_count; i++) {
            exg_argument_visit_values(&graph->nodes[n].inputs[i].arg, replace_id, &r);
        }
    }
    for (uint32_t i = 0; i < graph->output_count; i++) {
        r.found = false;
        exg_argument_visit_values(&graph->outputs[i], replace_id, &r);
        if (r.found && i < signature->output_count) {
            signature->outputs[i].arg.name = graph->values[new_value].name;
        }
    }
    return EXG_OK;
}

exg_status exg_program_rename_value(exg_program *program, const char *old_name,
                                    const char *new_name, exg_error *err)
{
    EXG_REQUIRE(err, program, old_name, new_name);
    exg_graph *graph = program->graph;
    exg_value_id id = exg_graph_find_value(graph, old_name);
    const char *kept;

    if (id == EXG_NO_VALUE) {
        return EXG_FAIL(err, USAGE, "BLD-002", "the graph has no value called '%s'", old_name);
    }
    if (strcmp(old_name, new_name) == 0) {
        return EXG_OK;
    }
    if (exg_graph_find_value(graph, new_name) != EXG_NO_VALUE) {
        return EXG_FAIL(err, USAGE, "BLD-002", "'%s' cannot be called '%s': another value is",
                        old_name, new_name);
    }
    kept = exg_arena_strdup(program->arena, new_name);
    if (kept == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    EXG_TRY(exg_signature_rename(&program->signature, old_name, kept, EXG_TARGETS_FOLLOW, err));
    for (uint32_t n = 0; n < graph->node_count; n++) {
        if (graph->nodes[n].name != NULL && strcmp(graph->nodes[n].name, old_name) == 0) {
            graph->nodes[n].name = kept;
        }
    }
    for (uint32_t i = 0; i < program->input_metadata_count; i++) {
        exg_input_metadata *said = &program->input_metadata[i];

        said->input =
            said->input != NULL && strcmp(said->input, old_name) == 0 ? kept : said->input;
    }
    graph->values[id].name = kept;
    return EXG_OK;
}
