/* rewrite.h - a pass that builds a new program from an old one, node by node.
 *
 * The pass keeps `refs`, the new value of each old one; rewrite_args() turns a
 * node's arguments into normalized ones over new values.
 */
#ifndef EXG_LIBEXPORT_TRANSFORM_REWRITE_H
#define EXG_LIBEXPORT_TRANSFORM_REWRITE_H

#include "libexport/base/arena.h"

#include <exg/operators.h>
#include <exg/symint.h>

typedef struct exg_rewrite {
    const exg_program *in;
    const exg_operators *operators;
    const exg_symbols *symbols;          /* of what `in` records; NULL: it has none */
    struct exg_expressions *expressions; /* of symbols: those that were read; NULL: none is kept */
    exg_program *out;
    exg_builder *builder;
    exg_ref *refs;    /* by old value id */
    uint32_t *makers; /* by old value id, the node that gives it alone; NULL: not asked for yet */
    /* The new value to read for an old one; NULL: refs[id]. */
    exg_ref (*read)(void *user, exg_value_id id);
    void *user;
    exg_error *err;
} exg_rewrite;

/* Starts a new program that shares the weights. On failure nothing is left. */
exg_status exg_rewrite_begin(exg_rewrite *r, const exg_program *in, const exg_operators *operators,
                             exg_error *err);

/* Adds every input of the old program to the new one, in order. */
exg_status exg_rewrite_inputs(exg_rewrite *r);

/* A text of the old program for the new one; NULL for NULL, and where memory ran out, which sticks
 * in the builder. */
const char *exg_rewrite_text(exg_rewrite *r, const char *text);

/* An argument of the old graph as one of the new. */
exg_status exg_rewrite_argument(exg_rewrite *r, exg_argument *arg);

/* The row of a node (UNSUPPORTED OPR-003 without one), its arguments normalized. What is
 * emitted from here on has the node's metadata. */
exg_status exg_rewrite_args(exg_rewrite *r, const exg_node *node, const exg_operator **op,
                            exg_argument *args);

/* Emits `op` with the old node's names; its results become the new
 * values of the old node's outputs. */
exg_status exg_rewrite_emit(exg_rewrite *r, const exg_node *node, exg_operator_id op,
                            const exg_argument *args, uint32_t count);

/* Emits the node's own operator where what it reads may lie otherwise than it did: a view that
 * crosses that is a copy. */
exg_status exg_rewrite_copy(exg_rewrite *r, const exg_node *node, const exg_operator *op,
                            const exg_argument *args);

/* Records `results` as the new values of the node's outputs. */
void exg_rewrite_set(exg_rewrite *r, const exg_node *node, const exg_argument *results);

/* Adds the old outputs; then gives the new program, or destroys it on failure. */
exg_status exg_rewrite_outputs(exg_rewrite *r);
exg_status exg_rewrite_finish(exg_rewrite *r, exg_status status, exg_program **out);

#endif
