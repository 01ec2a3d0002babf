/* missing.c - which operators of a program cannot be run, told all at once. */
#include "libexport/base/arena.h"
#include "libexport/base/map.h"
#include "libexport/base/require.h"
#include "libexport/operators/namespace.h"
#include "libexport/transform/auto_functionalized.h"
#include "libexport/transform/idle.h"
#include "libexport/transform/inline.h"
#include "libexport/transform/vmap.h"

#include <exg/text.h>
#include <exg/transform.h>
#include <string.h>

static bool is_missing(const exg_operators *operators, bool (*runs)(const exg_operator *op),
                       const exg_node *node)
{
    const char *target =
        exg_is_auto_functionalized(node->target) ? exg_node_operator(node) : node->target;
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
    const char *target = exg_node_operator(&graph->nodes[first]);
    uint32_t users = 0;

    exg_text_printf(text, "%s%s%s (nodes", text->length > 0 ? "; " : "", target,
                    exg_is_pytorch_operator(target) ? "" : ", not a PyTorch operator");
    for (uint32_t n = first; n < graph->node_count; n++) {
        if (strcmp(exg_node_operator(&graph->nodes[n]), target) == 0) {
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
static bool is_dropped(const exg_node *node, const uint32_t *last_use, const exg_operator *op)
{
    return op != NULL && !op->schema->is_mutable && node->output_count == 1 &&
           node->outputs[0].kind == EXG_ARGUMENT_TENSOR &&
           last_use[node->outputs[0].as_tensor] == 0;
}

typedef struct listing {
    exg_text text;
    exg_map listed; /* by operator */
    exg_idle_search reads;
    bool (*runs)(const exg_operator *op);
} listing;

static void list_graph(listing *list, const exg_graph *graph)
{
    exg_idle_search reads = list->reads;

    reads.last_use = EXG_NEW_ARRAY(list->listed.arena, uint32_t, graph->value_count);
    if (reads.last_use == NULL) {
        list->text.failed = true;
        return;
    }
    exg_find_last_uses(&reads, graph);
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const exg_node *node = &graph->nodes[n];
        exg_node call = *node;

        for (uint32_t i = 0;
             exg_higher_order_of(node->target) != EXG_HIGHER_ORDER_NOT && i < node->input_count;
             i++) {
            if (node->inputs[i].arg.kind == EXG_ARGUMENT_GRAPH) {
                list_graph(list, node->inputs[i].arg.as_graph->graph);
            }
        }
        (void)exg_effects_call(node, &call);
        if (is_missing(reads.operators, list->runs, &call) &&
            exg_map_find(&list->listed, exg_node_operator(node)) == EXG_MAP_NONE &&
            !exg_node_is_idle(&reads, &call) &&
            !is_dropped(&call, reads.last_use, exg_operators_find(reads.operators, call.target))) {
            list->text.failed =
                !exg_map_put(&list->listed, exg_node_operator(node), n) || list->text.failed;
            list_users(&list->text, graph, n);
        }
    }
}

exg_status exg_missing_operators(const exg_program *program, const exg_operators *operators,
                                 bool (*runs)(const exg_operator *op), char **text, exg_error *err)
{
    EXG_REQUIRE(err, program, operators, text);
    exg_arena *arena = exg_arena_create(NULL, EXG_ARENA_UNBOUNDED);
    listing list = {.text = EXG_TEXT_EMPTY,
                    .reads = {.operators = operators,
                              .is_functional = !exg_program_has_dialect(program, "TRAINING")},
                    .runs = runs};

    *text = NULL;
    if (arena == NULL) {
        return EXG_OUT_OF_MEMORY(err);
    }
    exg_map_init(&list.listed, arena);
    list_graph(&list, program->graph);
    exg_arena_destroy(arena);
    if (list.text.failed) {
        exg_text_free(&list.text);
        return EXG_OUT_OF_MEMORY(err);
    }
    *text = list.text.data;
    return EXG_OK;
}
