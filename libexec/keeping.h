/* keeping.h - memory that a loop keeps something in from iteration to iteration: the host's, or
 * as much on the device of each rank.
 */
#ifndef EXG_LIBEXEC_KEEPING_H
#define EXG_LIBEXEC_KEEPING_H

#include "libexec/engine.h"

typedef struct exg_keeping {
    uint32_t level; /* of the stretch that ends at the loop (scratch.h) */
    uint32_t index; /* among what the loop keeps */
    void **data;    /* by place (exg_engine_places), NULL at first */
} exg_keeping;

/* At least `bytes`. What was there may be lost. LIMIT, NO_MEMORY, DEVICE. */
exg_status exg_keeping_room(exg_keeping *keeping, const exg_engine *engine, uint64_t bytes,
                            exg_error *err);

/* In place `place`, which both lie in; on a device asked for. */
exg_status exg_keeping_copy(const exg_engine *engine, uint32_t place, void *to, const void *from,
                            uint64_t bytes, exg_error *err);

#endif
