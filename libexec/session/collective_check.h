/* collective_check.h - whether all ranks of a mesh call the same collectives. */
#ifndef EXG_LIBEXEC_SESSION_COLLECTIVE_CHECK_H
#define EXG_LIBEXEC_SESSION_COLLECTIVE_CHECK_H

#include "libexec/session/executable.h"

/* Checks, from the plans and before any rank starts, that all ranks call the
 * same collectives in the same order: none waits for a message that never comes. PEER COM-010. */
exg_status exg_check_collectives(exg_session_context *context, exg_executable *executable,
                                 const exg_program *functional, exg_error *err);

#endif
