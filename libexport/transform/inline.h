/* inline.h - higher-order operators: graphs that run where they stand become part of the
 * graph around them. */
#ifndef EXG_LIBEXPORT_TRANSFORM_INLINE_H
#define EXG_LIBEXPORT_TRANSFORM_INLINE_H

#include "libexport/base/arena.h"

#include <exg/operators.h>

typedef enum exg_higher_order {
    EXG_HIGHER_ORDER_NOT,
    EXG_HIGHER_ORDER_WRAPPER,   /* wrap_with_set_grad_enabled, wrap_with_autocast, and others
                                   that call a graph */
    EXG_HIGHER_ORDER_EFFECTS,   /* with_effects: calls an operator and hands a token on */
    EXG_HIGHER_ORDER_OUT_DTYPE, /* out_dtype: calls an operator on what is cast before */
    EXG_HIGHER_ORDER_COND,
    EXG_HIGHER_ORDER_WHILE_LOOP,
    EXG_HIGHER_ORDER_SCAN,
    EXG_HIGHER_ORDER_MAP
} exg_higher_order;

/* What the target is, if it is one that runs here. */
exg_higher_order exg_higher_order_of(const char *target);

/* The call in a node of with_effects(token, operator, arguments...), which gives (token,
 * results...). false: the node is of another form. */
bool exg_effects_call(const exg_node *node, exg_node *call);

/* The graph without them: their graphs' nodes stand in their place. Arrays that do not
 * change are shared with `graph`, the rest is in `arena`. MALFORMED (GRF-010), LIMIT. */
exg_status exg_inline(const exg_graph *graph, exg_arena *arena, exg_graph *out, exg_error *err);

/* What is left to do from the cond nodes[at] on, once it is known which branch is taken:
 * the branch's nodes, then those after nodes[at]. Values of `graph` keep their ids. */
exg_status exg_inline_branch(const exg_graph *graph, uint32_t at, bool taken, exg_arena *arena,
                             exg_graph *out, exg_error *err);

#endif
