/* calibrate_work.h - what work takes on this machine. */
#ifndef EXG_LIBEXEC_SESSION_CALIBRATE_WORK_H
#define EXG_LIBEXEC_SESSION_CALIBRATE_WORK_H

#include <exg/partition.h>

/* Sets the members of `costs` that count work, as it is while so many cores work at once. */
exg_status exg_calibrate_work(uint32_t cores, exg_costs *costs, exg_error *err);

#endif
