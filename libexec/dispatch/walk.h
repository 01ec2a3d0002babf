/* walk.h - a program that is run node by node: its values, and the functions of its modules. */
#ifndef EXG_LIBEXEC_DISPATCH_WALK_H
#define EXG_LIBEXEC_DISPATCH_WALK_H

#include "libexec/dispatch/dispatcher.h"
#include "libexec/dispatch/module.h"

#define EXG_READ_LAST UINT32_MAX /* is read after all nodes */

/* A value of the graph, as it is now. */
typedef struct exg_slot {
    exg_object object;  /* DTENSOR, VALUE, or NONE: not there */
    exg_value_id owner; /* the value that owns the DTensor; EXG_NO_VALUE: it is not ours */
    uint32_t last;      /* 1 + the node that reads it last, EXG_READ_LAST; 0: none */
    bool is_state;      /* of the program, no user's input: functions do not see it */
    bool is_constant;   /* of the graph, or computed of those: alike on every rank */
} exg_slot;

typedef struct exg_walk {
    exg_dispatcher *d;
    exg_module *m;
    exg_device_mesh *self;
    const exg_program *program; /* bound */
    const exg_graph *graph;
    exg_slot *slots;  /* by value */
    exg_arena *arena; /* of the run */
    exg_error *err;
} exg_walk;

/* The value is not there any more; what it owns goes. */
void exg_walk_let_go(exg_walk *w, exg_value_id id);

/* Runs node `n`, and lets go of what nobody reads after it. */
exg_status exg_walk_node(exg_walk *w, uint32_t n);

/* ---- functions of modules --------------------------------- */

/* Values on their way through a function. */
typedef struct exg_passage {
    exg_module_value *values;
    exg_dtensor **before; /* as they were */
    exg_value_id *ids;
    exg_slot *kept; /* of an input: what is back after the module */
    uint32_t count;
} exg_passage;

/* Room for `most` values; closed also after a fault. NO_MEMORY. */
exg_status exg_passage_open(exg_passage *p, uint32_t most, exg_error *err);
void exg_passage_close(exg_passage *p);

/* The input function of a module on the values, or its output function: `before` is what they were.
 * A plain tensor that the function put there is a DTensor of this rank alone then. */
exg_status exg_passage_through(const exg_walk *w, const exg_module_entry *module, bool is_output,
                               exg_passage *p);

/* What the value is on the walk. */
exg_object exg_passage_object(const exg_module_value *value);

/* Runs all nodes, calls of modules with their functions. */
exg_status exg_walk_all(exg_walk *w);

#endif
