/* missing.h - operators that are not there, and what to do then. */
#ifndef EXG_LIBEXPORT_TRANSFORM_MISSING_H
#define EXG_LIBEXPORT_TRANSFORM_MISSING_H

#include <exg/status.h>

/* UNSUPPORTED (OPR-003): `what` and the targets, with the way out that such targets have. */
exg_status exg_fail_missing(exg_error *err, const char *what, const char *targets);

#endif
