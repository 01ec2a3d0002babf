/* tape.h - what was computed is remembered step by step, and gone back. */
#ifndef EXG_LIBEXEC_DISPATCH_TAPE_H
#define EXG_LIBEXEC_DISPATCH_TAPE_H

#include "libexec/dispatch/dispatcher.h"
#include "libexec/dtensor/history.h"

#include <exg/autograd.h>

/* A kind of step. */
typedef struct exg_tape_kind {
    /* The gradients of the inputs that have an edge, of those of the outputs (NULL: none came). */
    exg_status (*back)(exg_dispatcher *d, exg_history *h, exg_dtensor *const *gradients,
                       exg_dtensor **made, exg_error *err);
    const char *name;
} exg_tape_kind;

/* What every step begins with. */
typedef struct exg_tape_step {
    const exg_tape_kind *kind;
} exg_tape_step;

/* Runs the call; where a gradient is wanted, the step is remembered in its results. USAGE TAP-002
 * of what would be overwritten. */
typedef exg_status exg_call_runner(exg_call *call, exg_object *result);
exg_status exg_tape_call(exg_call *call, exg_call_runner *run, exg_object *result);

/* Step `h` is the latest now. */
void exg_tape_number(exg_dispatcher *d, exg_history *h);

/* ---- derivatives --------------------------------- */

/* How an operator is differentiated: by rows of derivatives.def, by nothing of them (what it is
 * made of is differentiated, if anything), or not at all. */
typedef enum exg_differentiation { EXG_BY_PARTS, EXG_BY_ROWS, EXG_NOT_AT_ALL } exg_differentiation;
exg_differentiation exg_differentiation_of(const exg_operator *op);

/* Of a call and what came of it: its operands are those of the operator, `operands` of them, then
 * its results, then a gradient for each of these. Outputs are one an operand. */
typedef struct exg_derivation_of {
    uint32_t operands, results;
    const exg_edge *edges; /* by operand; NULL: no gradient is wanted */
} exg_derivation_of;

/* Emits them: an exg_graph_emitter of an exg_derivation_of. UNSUPPORTED TAP-001. */
exg_graph_emitter exg_emit_derivatives;

#endif
