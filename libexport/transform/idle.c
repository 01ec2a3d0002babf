/* idle.c - nodes of unknown operators that nobody waits for. */
#include "libexport/transform/idle.h"
#include "libexport/base/prefix.h"
#include "libexport/transform/inline.h"
#include "libexport/transform/vmap.h"

#include <string.h>

const char *exg_node_operator(const exg_node *node)
{
    bool calls = exg_behind(node->target, "torch.ops.higher_order.") != NULL;

    for (uint32_t i = 0; calls && i < node->input_count; i++) {
        if (node->inputs[i].arg.kind == EXG_ARGUMENT_OPERATOR) {
            return node->inputs[i].arg.as_string;
        }
    }
    return node->target;
}

typedef struct reading {
    const exg_idle_search *search;
    uint32_t by;
    bool any;
} reading;

static void note_use(void *user, exg_value_id *id)
{
    const reading *r = user;

    if (*id != EXG_NO_VALUE && r->search->last_use[*id] < r->by) {
        r->search->last_use[*id] = r->by;
    }
}

static void find_used(void *user, exg_value_id *id)
{
    reading *r = user;

    r->any = r->any || (*id != EXG_NO_VALUE && r->search->last_use[*id] != 0);
}

/* What an operator could write. */
static bool can_be_written(exg_argument_kind kind)
{
    return kind == EXG_ARGUMENT_TENSOR || kind == EXG_ARGUMENT_TENSORS ||
           kind == EXG_ARGUMENT_OPTIONAL_TENSOR || kind == EXG_ARGUMENT_OPTIONAL_TENSORS ||
           kind == EXG_ARGUMENT_CUSTOM_OBJ || kind == EXG_ARGUMENT_GRAPH;
}

/* "torch.ops.mine.scale_.default", "torch.ops.mine.scale.out" */
static bool says_it_writes(const char *target)
{
    const char *overload = strrchr(target, '.');

    return overload != NULL && overload > target &&
           (overload[-1] == '_' || strstr(overload, "out") != NULL);
}

bool exg_node_is_idle(const exg_idle_search *search, const exg_node *node)
{
    reading r = {.search = search};
    bool takes = false;
    bool gives = false;

    for (uint32_t o = 0; o < node->output_count; o++) { /* most nodes are read: look no further */
        exg_argument_visit_values(&node->outputs[o], find_used, &r);
        gives = gives || node->outputs[o].kind != EXG_ARGUMENT_NONE;
    }
    if (r.any || exg_higher_order_of(node->target) != EXG_HIGHER_ORDER_NOT ||
        exg_is_vmap_mark(node->target) ||
        exg_operators_find(search->operators, node->target) != NULL) {
        return false;
    }
    for (uint32_t i = 0; i < node->input_count; i++) {
        takes = takes || can_be_written(node->inputs[i].arg.kind);
    }
    return search->is_functional || !takes || (gives && !says_it_writes(node->target));
}

void exg_find_last_uses(const exg_idle_search *search, const exg_graph *graph)
{
    reading r = {.search = search, .by = UINT32_MAX};

    for (uint32_t o = 0; o < graph->output_count; o++) {
        exg_argument_visit_values(&graph->outputs[o], note_use, &r);
    }
    for (uint32_t n = graph->node_count; n-- > 0;) {
        const exg_node *node = &graph->nodes[n];
        uint32_t read = exg_node_is_idle(search, node) ? 0 : node->input_count;

        r.by = n + 1;
        for (uint32_t i = 0; i < read; i++) {
            exg_argument_visit_values(&node->inputs[i].arg, note_use, &r);
        }
    }
}
