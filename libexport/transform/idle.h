/* idle.h - nodes of unknown operators that nobody waits for: a run leaves them out. */
#ifndef EXG_LIBEXPORT_TRANSFORM_IDLE_H
#define EXG_LIBEXPORT_TRANSFORM_IDLE_H

#include <exg/operators.h>

typedef struct exg_idle_search {
    const exg_operators *operators;
    bool is_functional; /* nothing in the graph writes what it takes: no TRAINING dialect */
    uint32_t *last_use; /* by value id: 1 + the last node that reads it, UINT32_MAX: an output; a
                           node that is idle reads nothing */
} exg_idle_search;

/* Fills in search->last_use, zeros for `graph`. */
void exg_find_last_uses(const exg_idle_search *search, const exg_graph *graph);

/* No operator of that name is known, nobody reads what it gives, and it cannot have written what
 * others read: it takes no tensor, or its graph is functional, or it gives a result and its name
 * does not say that it writes. */
bool exg_node_is_idle(const exg_idle_search *search, const exg_node *node);

/* The operator that the node calls: of with_effects and auto_functionalized the one in it. */
const char *exg_node_operator(const exg_node *node);

#endif
