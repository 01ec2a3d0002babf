/* supply.h - what a plan reads that outlives its runs: weights, state, and what its first steps
 * made of weights.
 *
 *   bound     as long as the plan: state, and weights that a run reads
 *   passing   weights that only steps which run once read: brought when they need them, gone when
 *             they have read them
 */
#ifndef EXG_LIBEXEC_SUPPLY_H
#define EXG_LIBEXEC_SUPPLY_H

#include "libexec/rank.h"

typedef struct exg_supply {
    const exg_plan *plan;
    exg_memory *memory;
    struct exg_accelerator *device; /* NULL: the host */
    uint8_t **inputs;  /* by graph input: the first byte behind it; of passing ones NULL at times */
    exg_made **made;   /* by constant */
    exg_range *ranges; /* by buffer: the bytes that the steps read and the results are */
    bool *is_passing;  /* by buffer */
    uint64_t own_bytes; /* made for this plan alone */
} exg_supply;

/* Fills in the rest of `supply`, whose plan, memory, device and inputs are there and stay. `index`:
 * whose states it binds (exg_rank_create). Faults of exg_memory_weight(). */
exg_status exg_supply_bind(exg_supply *supply, uint32_t index, exg_error *err);
void exg_supply_release(exg_supply *supply); /* also of one that was not bound */

/* The passing weights that a step reads come, and go; or all that came. */
exg_status exg_supply_fetch(exg_supply *supply, const exg_step *step, exg_error *err);
void exg_supply_forget(exg_supply *supply, const exg_step *step);
void exg_supply_forget_all(exg_supply *supply);

#endif
