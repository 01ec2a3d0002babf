/* ways_out.h - what to do where an operator is not there. */
#ifndef EXG_LIBEXPORT_TRANSFORM_WAYS_OUT_H
#define EXG_LIBEXPORT_TRANSFORM_WAYS_OUT_H

#include <exg/status.h>

/* UNSUPPORTED (OPR-003): `what` and the targets, with the way out that such targets have. */
exg_status exg_fail_missing(exg_error *err, const char *what, const char *targets);

#endif
