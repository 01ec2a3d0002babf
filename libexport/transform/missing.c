/* missing.c - which operators of a program cannot be run, told all at once. */
#include "libexport/base/arena.h"
#include "libexport/base/text.h"
#include "libexport/transform/inline.h"

#include <exg/transform.h>
#include <string.h>

static bool is_missing(const exg_operators *operators, bool (*runs)(const exg_operator *op),
                       const char *target)
{
    const exg_operator *op = exg_operators_find(operators, target);

    if (op == NULL) {
        return exg_higher_order_of(target) == EXG_HIGHER_ORDER_NOT;
    }
    if (op->symbolic != NULL || op->lowering != NULL || op->view != NULL ||
        op->size != EXG_OPERATOR_COUNT || op->functional != EXG_OPERATOR_COUNT ||
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

typedef struct search {
    exg_value_id id;
    bool found;
} search;

static void compare_id(void *user, exg_value_id *id)
{
    search *s = user;

    s->found = s->found || *id == s->id;
}

static bool reads(const exg_argument *arg, exg_value_id id)
{
    exg_argument copy = *arg;
    search s = {id, false};

    exg_argument_visit_values(&copy, compare_id, &s);
    return s.found;
}

/* Nothing reads what the node gives, and it writes nothing: simplify drops it. */
static bool is_idle(const exg_graph *graph, uint32_t n, const exg_operator *op)
{
    const exg_node *node = &graph->nodes[n];
    bool used = op == NULL || op->schema->is_mutable || node->output_count != 1 ||
                node->outputs[0].kind != EXG_ARGUMENT_TENSOR;

    for (uint32_t m = n + 1; m < graph->node_count && !used; m++) {
        for (uint32_t i = 0; i < graph->nodes[m].input_count && !used; i++) {
            used = reads(&graph->nodes[m].inputs[i].arg, node->outputs[0].as_tensor);
        }
    }
    for (uint32_t o = 0; o < graph->output_count && !used; o++) {
        used = reads(&graph->outputs[o], node->outputs[0].as_tensor);
    }
    return !used;
}

static void list_graph(exg_text *list, const exg_graph *graph, const exg_operators *operators,
                       bool (*runs)(const exg_operator *op))
{
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const exg_node *node = &graph->nodes[n];
        bool seen = false;

        for (uint32_t i = 0; exg_higher_order_of(node->target) != EXG_HIGHER_ORDER_NOT &&
                             i < node->input_count;
             i++) {
            if (node->inputs[i].arg.kind == EXG_ARGUMENT_GRAPH) {
                list_graph(list, node->inputs[i].arg.as_graph->graph, operators, runs);
            }
        }
        if (!is_missing(operators, runs, node->target) ||
            is_idle(graph, n, exg_operators_find(operators, node->target))) {
            continue;
        }
        for (uint32_t m = 0; m < n && !seen; m++) {
            seen = strcmp(graph->nodes[m].target, node->target) == 0;
        }
        if (!seen) {
            list_users(list, graph, n);
        }
    }
}

exg_status exg_missing_operators(const exg_program *program, const exg_operators *operators,
                                 bool (*runs)(const exg_operator *op), char **text, exg_error *err)
{
    exg_text list = EXG_TEXT_EMPTY;

    *text = NULL;
    list_graph(&list, program->graph, operators, runs);
    if (list.failed) {
        exg_text_free(&list);
        return EXG_OUT_OF_MEMORY(err);
    }
    *text = list.data;
    return EXG_OK;
}
