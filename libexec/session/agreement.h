/* agreement.h - what ranks that are processes must have alike, each with a digest of its own, so
 * that a rank that has something else is told, and what it is.
 */
#ifndef EXG_LIBEXEC_SESSION_AGREEMENT_H
#define EXG_LIBEXEC_SESSION_AGREEMENT_H

#include "libexec/comm/grid.h"
#include "libexec/session/context.h"

/* What is the same in all runs of a session. */
typedef struct exg_agreement {
    uint64_t program, weights, placement, seed, options;
    bool with_bytes; /* bytes are compared: of inputs, and of weights without a checksum */
} exg_agreement;

/* Reads weights that have no checksum, unless the options say not to check. NO_MEMORY, IO,
 * MALFORMED. */
exg_status exg_agreement_take(const exg_verified *verified, const exg_session_context *context,
                              exg_agreement *agreement, exg_error *err);

/* Called by every rank before a run, with its own `status` and error: OK when all are well, and
 * have the same, with `key` the numbers that a plan is known by. Else the same fault on every one
 * of them: another rank's, or COM-009. */
exg_status exg_agreement_reach(const exg_agreement *agreement, const exg_grid *grid,
                               const int64_t *key, uint32_t key_count,
                               const exg_session_input *inputs, uint32_t input_count,
                               exg_status status, exg_error *err);

#endif
