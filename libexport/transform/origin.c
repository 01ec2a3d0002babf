/* origin.c - the names of the program's nodes, among the metadata of what is made of them. */
#include "libexport/transform/origin.h"

#include <exg/module.h>
#include <string.h>

#define ORIGIN "exg.origin"

const char *exg_node_origin(const exg_node *node)
{
    return exg_node_metadata(node, ORIGIN);
}

exg_status exg_node_note_origin(exg_arena *arena, exg_node *node, const char *name, exg_error *err)
{
    const uint32_t count = node->metadata.count;
    exg_string_pair *items;

    if (name == NULL || exg_node_origin(node) != NULL) {
        return EXG_OK;
    }
    items = EXG_NEW_ARRAY(arena, exg_string_pair, count + 1);
    if (items == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    if (count > 0) {
        memcpy(items, node->metadata.items, count * sizeof(*items));
    }
    items[count] = (exg_string_pair){ORIGIN, name};
    node->metadata = (exg_string_map){items, count + 1};
    return EXG_OK;
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

exg_status exg_note_origins(const exg_graph *graph, exg_arena *arena, exg_graph *noted,
                            exg_error *err)
{
    *noted = *graph;
    noted->nodes = exg_arena_memdup(arena, graph->nodes, graph->node_count, sizeof(*graph->nodes));
    if (noted->nodes == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t n = 0; n < graph->node_count; n++) {
        EXG_TRY(
            exg_node_note_origin(arena, &noted->nodes[n], name_of(graph, &graph->nodes[n]), err));
    }
    return EXG_OK;
}
