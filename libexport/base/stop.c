/* stop.c - what a run says that was to end early. */
#include "libexport/base/stop.h"

exg_status exg_stop_check(const exg_stop *stop, exg_error *err)
{
    if (!exg_stop_is_due(stop)) {
        return EXG_OK;
    }
    return atomic_load(&stop->asked)
               ? EXG_FAIL(err, LIMIT, "RUN-010", "the run was stopped")
               : exg_error_fix(err,
                               EXG_FAIL(err, LIMIT, "RUN-011", "the run took longer than it may"),
                               "give it more time (--time-limit), smaller inputs, or more cores");
}
