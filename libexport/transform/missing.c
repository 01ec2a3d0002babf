/* missing.c - which operators of a program cannot be run, told all at once. */
#include "libexport/base/arena.h"
#include "libexport/base/map.h"
#include "libexport/base/require.h"
#include "libexport/program/uses.h"
#include "libexport/transform/inline.h"
#include "libexport/transform/vmap.h"

#include <exg/text.h>
#include <exg/transform.h>
#include <string.h>

static bool is_missing(const exg_operators *operators, bool (*runs)(const exg_operator *op),
                       const char *target)
{
    const exg_operator *op = exg_operators_find(operators, target);

    if (op == NULL) {
        return exg_higher_order_of(target) == EXG_HIGHER_ORDER_NOT && !exg_is_vmap_mark(target);
    }
    if (op->symbolic != NULL || op->lowering != NULL || op->view != NULL ||
        op->size != EXG_OP_NONE || op->functional != EXG_OP_NONE ||
        op->id == EXG_OP__assert_async_default || op->id == EXG_OP__assert_async_msg ||
        op->id == EXG_OP__linalg_check_errors_default) {
        return false;
    }
    return runs != NULL && !runs(op);
}

static void list_users(exg_text *text, const exg_graph *graph, uint32_t first)
{
    const char *target = graph->nodes[first].target;
    uint32_t users = 0;

    exg_text_printf(text, "%s%s (nodes", text->length > 0 ? "\n" : "", target);
    for (uint32_t n = first; n < graph->node_count; n++) {
        if (strcmp(graph->nodes[n].target, target) == 0) {
            users++;
            if (users <= 4) {
                const char *name = graph->nodes[n].name;

                exg_text_printf(text, " %s[%u]", name == NULL ? "" : name, n);
            }
        }
    }
    if (users > 4) {
        exg_text_printf(text, " and %u more", users - 4);
    }
    exg_text_putc(text, ')');
}

/* Nothing reads what the node gives, and it writes nothing: simplify drops it. */
static bool is_idle(const exg_node *node, const uint32_t *uses, const exg_operator *op)
{
    return op != NULL && !op->schema->is_mutable && node->output_count == 1 &&
           node->outputs[0].kind == EXG_ARGUMENT_TENSOR && uses[node->outputs[0].as_tensor] == 0;
}

static void list_graph(exg_text *list, exg_map *listed, const exg_graph *graph,
                       const exg_operators *operators, bool (*runs)(const exg_operator *op))
{
    const uint32_t *uses = exg_graph_count_uses(listed->arena, graph);

    list->failed = list->failed || uses == NULL;
    for (uint32_t n = 0; uses != NULL && n < graph->node_count; n++) {
        const exg_node *node = &graph->nodes[n];

        for (uint32_t i = 0;
             exg_higher_order_of(node->target) != EXG_HIGHER_ORDER_NOT && i < node->input_count;
             i++) {
            if (node->inputs[i].arg.kind == EXG_ARGUMENT_GRAPH) {
                list_graph(list, listed, node->inputs[i].arg.as_graph->graph, operators, runs);
            }
        }
        if (is_missing(operators, runs, node->target) &&
            exg_map_find(listed, node->target) == EXG_MAP_NONE &&
            !is_idle(node, uses, exg_operators_find(operators, node->target))) {
            list->failed = !exg_map_put(listed, node->target, n) || list->failed;
            list_users(list, graph, n);
        }
    }
}

exg_status exg_missing_operators(const exg_program *program, const exg_operators *operators,
                                 bool (*runs)(const exg_operator *op), char **text, exg_error *err)
{
    EXG_REQUIRE(err, program, operators, text);
    exg_text list = EXG_TEXT_EMPTY;
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    exg_map listed;

    *text = NULL;
    if (arena == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    exg_map_init(&listed, arena);
    list_graph(&list, &listed, program->graph, operators, runs);
    exg_arena_destroy(arena);
    if (list.failed) {
        exg_text_free(&list);
        return EXG_OUT_OF_MEMORY(err);
    }
    *text = list.data;
    return EXG_OK;
}
