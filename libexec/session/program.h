/* program.h - the program as a session runs it: without tensor subclasses, its process groups
 * bound.
 */
#ifndef EXG_LIBEXEC_SESSION_PROGRAM_H
#define EXG_LIBEXEC_SESSION_PROGRAM_H

#include "libexec/session/context.h"

/* `made`: what *taken has that is not the caller's; NULL before; destroyed with the session in any
 * case. UNSUPPORTED lists what does not run here; COM-013. */
exg_status exg_session_take_program(exg_session_context *context, const exg_verified *verified,
                                    exg_verified *taken, exg_program **made, exg_error *err);

#endif
