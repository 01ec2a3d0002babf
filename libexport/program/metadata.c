/* metadata.c - what passes note with a node. */
#include "libexport/program/metadata.h"

#include <exg/module.h>
#include <string.h>

exg_status exg_node_add_metadata(exg_arena *arena, exg_node *node, const char *key,
                                 const char *value, exg_error *err)
{
    const uint32_t count = node->metadata.count;
    exg_string_pair *items = EXG_NEW_ARRAY(arena, exg_string_pair, count + 1);

    if (items == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    if (count > 0) {
        memcpy(items, node->metadata.items, count * sizeof(*items));
    }
    items[count] = (exg_string_pair){key, value};
    node->metadata = (exg_string_map){items, count + 1};
    return EXG_OK;
}

exg_status exg_node_drop_metadata(exg_arena *arena, exg_node *node, const char *key, exg_error *err)
{
    exg_string_pair *items;
    uint32_t count = 0;

    if (exg_node_metadata(node, key) == NULL) {
        return EXG_OK;
    }
    items = EXG_NEW_ARRAY(arena, exg_string_pair, node->metadata.count);
    if (items == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    for (uint32_t i = 0; i < node->metadata.count; i++) {
        if (strcmp(node->metadata.items[i].key, key) != 0) {
            items[count++] = node->metadata.items[i];
        }
    }
    node->metadata = (exg_string_map){items, count};
    return EXG_OK;
}
