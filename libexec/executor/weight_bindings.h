/* weight_bindings.h - what a plan reads that outlives its runs: weights, state, and what its first
 * steps made of weights.
 *
 *   bound      as long as the plan: state, and weights that a run reads
 *   transient  weights that only folded steps read: brought when they need them, gone when
 *              they have read them
 */
#ifndef EXG_LIBEXEC_EXECUTOR_WEIGHT_BINDINGS_H
#define EXG_LIBEXEC_EXECUTOR_WEIGHT_BINDINGS_H

#include "libexec/executor/weight_pages.h"
#include "libexec/executor/weight_store.h"

typedef struct exg_weight_bindings {
    const exg_plan *plan;
    exg_weight_store *store;
    struct exg_accelerator *device; /* NULL: the host */
    bool is_of_mesh;                /* other ranks read what this one does not */
    uint8_t *
        *inputs; /* by graph input: the first byte behind it; of transient ones NULL at times */
    exg_folded_constant **folded; /* by constant */
    exg_range *ranges;            /* by buffer: the bytes that the steps read and the results are */
    bool *is_transient;           /* by buffer */
    exg_page_rows *pages;         /* by buffer; NULL: the system brings what it likes */
    uint64_t own_bytes;           /* made for this plan alone */
} exg_weight_bindings;

/* Fills in the rest of `bindings`, whose plan, store, device and inputs are there and stay.
 * `index`: whose states it binds (exg_plan_executor_create). Faults of exg_weight_store_weight().
 */
exg_status exg_weight_bindings_bind(exg_weight_bindings *bindings, uint32_t index, exg_error *err);
void exg_weight_bindings_release(
    exg_weight_bindings *bindings); /* also of one that was not bound */

/* The transient weights that a step reads come, and go; or all that came. */
exg_status exg_weight_bindings_fetch(exg_weight_bindings *bindings, const exg_step *step,
                                     exg_error *err);
void exg_weight_bindings_forget(exg_weight_bindings *bindings, const exg_step *step);
void exg_weight_bindings_forget_all(exg_weight_bindings *bindings);

#endif
