/* state.h - what a program writes, set by its name. */
#ifndef EXG_LIBEXEC_SESSION_STATE_H
#define EXG_LIBEXEC_SESSION_STATE_H

#include "libexec/executor/weight_store.h"

#include <exg/formats.h>

/* On every rank here: exg_session_state_set(). */
exg_status exg_state_set(exg_weight_store *store, const exg_named_tensor *tensors, uint32_t count,
                         exg_mismatches *mismatches, exg_error *err);

#endif
