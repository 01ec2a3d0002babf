/* own_fix.h - whose way out an error has. */
#ifndef EXG_LIBEXPORT_BASE_OWN_FIX_H
#define EXG_LIBEXPORT_BASE_OWN_FIX_H

#include <exg/status.h>
#include <stdbool.h>

/* Was it given one (exg_error_fix()), or has it that of its code, or none? */
bool exg_error_has_own_fix(const exg_error *err);

#endif
