/* flow.h - what formulas do on the way where operands come from memory and results go there. */
#ifndef EXG_LIBEXEC_KERNELS_LOOPS_FLOW_H
#define EXG_LIBEXEC_KERNELS_LOOPS_FLOW_H

#include "libexec/kernels/loops/loops.h"
#include "libexec/kernels/loops/vector.h"
#include "libexec/kernels/stream.h"

#define EXG_FLOW_PART 64 /* elements computed between asking and asking again */

/* For what goes with the part of `elements` that begins at `element`. */
static inline __attribute__((always_inline)) void exg_flow_ask(const exg_flow *flow,
                                                               uint32_t element, uint32_t elements)
{
    for (uint32_t k = 0; k < flow->count; k++) {
        exg_ask_as(flow->is_asked_far, flow->at[k] + (size_t)element * flow->bytes[k],
                   elements * flow->bytes[k]);
    }
}

/* A vector of any type. */
static inline __attribute__((always_inline)) void exg_flow_put(void *to, exg_vbytes value,
                                                               bool is_past_caches)
{
    if (is_past_caches) {
        EXG_STREAM(to, value);
    } else {
        *(exg_vbytes *)to = value;
    }
}

#endif
