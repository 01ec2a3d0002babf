/* loop_buffers.h - memory that a loop keeps something in from iteration to iteration: the host's,
 * or as much on the device of each rank.
 */
#ifndef EXG_LIBEXEC_SESSION_LOOP_BUFFERS_H
#define EXG_LIBEXEC_SESSION_LOOP_BUFFERS_H

#include "libexec/session/context.h"

typedef struct exg_loop_buffer {
    uint32_t level; /* of the segment that ends at the loop (scratch.h) */
    uint32_t index; /* among what the loop keeps */
    void **data;    /* by place (exg_session_context_memories), NULL at first */
} exg_loop_buffer;

/* At least `bytes`. What was there may be lost. LIMIT, NO_MEMORY, DEVICE. */
exg_status exg_loop_buffer_reserve(exg_loop_buffer *buffer, const exg_session_context *context,
                                   uint64_t bytes, exg_error *err);

/* In memory `place`, where both are; on a device enqueued. */
exg_status exg_loop_buffer_copy(const exg_session_context *context, uint32_t place, void *to,
                                const void *from, uint64_t bytes, exg_error *err);

#endif
