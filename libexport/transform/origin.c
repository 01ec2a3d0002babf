/* origin.c - the names of the program's nodes, among the metadata of what is made of them. */
#include "libexport/transform/origin.h"
#include "libexport/program/metadata.h"

#include <exg/module.h>

#define ORIGIN "exg.origin"

const char *exg_node_origin(const exg_node *node)
{
    return exg_node_metadata(node, ORIGIN);
}

exg_status exg_node_note_origin(exg_arena *arena, exg_node *node, const char *name, exg_error *err)
{
    return name == NULL || exg_node_origin(node) != NULL
               ? EXG_OK
               : exg_node_add_metadata(arena, node, ORIGIN, name, err);
}

/* What the node is called, or else the first tensor that it gives. */
static const char *name_of(const exg_graph *graph, const exg_node *node)
{
    const bool gives = node->output_count > 0 && node->outputs[0].kind == EXG_ARGUMENT_TENSOR &&
                       node->outputs[0].as_tensor != EXG_NO_VALUE;

    return node->name != NULL ? node->name
           : gives            ? graph->values[node->outputs[0].as_tensor].name
                              : NULL;
}

exg_status exg_note_origins(const exg_graph *graph, exg_arena *arena, exg_graph **noted,
                            exg_error *err)
{
    exg_node *nodes = exg_arena_memdup(arena, graph->nodes, graph->node_count, sizeof(*nodes));

    *noted = exg_arena_memdup(arena, graph, 1, sizeof(*graph));
    if (nodes == NULL || *noted == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    (*noted)->nodes = nodes;
    for (uint32_t n = 0; n < graph->node_count; n++) {
        EXG_TRY(exg_node_note_origin(arena, &nodes[n], name_of(graph, &graph->nodes[n]), err));
    }
    return EXG_OK;
}

exg_status exg_error_at_node(exg_error *err, exg_status status, const exg_node *node)
{
    exg_source_line source;

    if (exg_node_source_line(node, &source)) {
        (void)exg_error_source(err, status, "%.*s:%u: %.*s", (int)source.file_length, source.file,
                               source.line, (int)source.code_length, source.code);
    }
    return exg_error_within(err, status, "node '%s'",
                            node->name == NULL ? node->target : node->name);
}
