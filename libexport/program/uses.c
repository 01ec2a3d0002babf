#include "libexport/program/uses.h"

#include "libexport/base/arena.h"

static void count(void *user, exg_value_id *id)
{
    uint32_t *uses = user;

    if (*id != EXG_NO_VALUE) {
        uses[*id]++;
    }
}

uint32_t *exg_graph_count_uses(exg_arena *arena, const exg_graph *graph)
{
    uint32_t *uses = EXG_NEW_ARRAY(arena, uint32_t, graph->value_count);

    for (uint32_t n = 0; uses != NULL && n < graph->node_count; n++) {
        for (uint32_t i = 0; i < graph->nodes[n].input_count; i++) {
            exg_argument_visit_values(&graph->nodes[n].inputs[i].arg, count, uses);
        }
    }
    for (uint32_t o = 0; uses != NULL && o < graph->output_count; o++) {
        exg_argument_visit_values(&graph->outputs[o], count, uses);
    }
    return uses;
}
