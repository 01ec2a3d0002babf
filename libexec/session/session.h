/* session.h - a session, as its own files see it. */
#ifndef EXG_LIBEXEC_SESSION_SESSION_H
#define EXG_LIBEXEC_SESSION_SESSION_H

#include "libexec/session/agreement.h"
#include "libexec/session/graph_executor.h"
#include "libexport/base/map.h"

#include <exg/device.h>
#include <exg/session.h>

struct exg_session {
    exg_verified verified;
    exg_program *made; /* of the caller's, for this session; NULL: that one runs */
    exg_session_context context;
    exg_graph_executor executor;
    exg_session_output *outputs; /* by rank here and user output */
    uint32_t output_count;
    exg_session_stats stats; /* lent, with what it points to */
    exg_device_info device;  /* the first rank's; of zeros: the host, or not asked for yet */
    exg_partition_summary placed;
    exg_step_profile profile;    /* lent */
    exg_input_binding *bindings; /* by graph input */
    exg_map inputs;              /* the user's, by name: which graph input */
    exg_map constants;           /* those that export fixed, likewise */
    exg_map paths;               /* both, by their path in the call */
    void **data;                 /* by graph input: of this run */
    void **given;                /* by input of this run */
    uint64_t *given_bytes;
    bool *there;                       /* by graph input: the data is on the device */
    exg_session_input *bound;          /* inputs that are bound, */
    uint32_t bound_count;              /* as many, */
    exg_session_input *all;            /* and those of a run */
    exg_output_binding *places;        /* by user output */
    uint32_t *in_place;                /* context.in_place, of the run under way */
    uint32_t *were_in_place;           /* of the one before */
    const exg_session_input **of_rank; /* by input of the program: what a rank has */
    uint32_t in_place_count;           /* words of it that plans are known by: 0, or all */
    uint32_t output_room;              /* of a rank in `outputs` */
    bool owes;                         /* a run was asked for and not waited for */
    int64_t *last_sizes;               /* of the last inputs: the plan is known without binding */
    uint32_t last_count;
    exg_arena *arena;
    uint64_t start_ns, run_ns; /* of the last run */
    exg_agreement agreement;   /* of processes */
};

/* Maps the inputs by what they are called. (input_names.c) */
exg_status exg_session_map_names(exg_session *session, exg_error *err);

/* Inputs that are called by paths by their placeholders' names; more than the program has stay. */
void exg_session_name_inputs(exg_session *session, const exg_session_input **inputs,
                             uint32_t count);

/* Bound inputs and those of a run, which come before them; one that is in the memory of the
 * device's has to be. USAGE INP-015. (binding.c) */
exg_status exg_session_all_inputs(exg_session *session, const exg_session_input **inputs,
                                  uint32_t *count, exg_error *err);

/* An input in a result of the last run is copied first, on the device. */
exg_status exg_session_set_aside_there(exg_session *session, uint32_t index,
                                       const exg_session_input *input, exg_error *err);

/* Fills in_place by what is given and where outputs are bound: false, it is as it was. */
bool exg_session_find_in_place(exg_session *session, const exg_session_input *inputs,
                               uint32_t count);

/* What ranks have in memory of their own, on the way into a run. (rank_binding.c) */
exg_status exg_session_take_rank_inputs(exg_session *session, exg_error *err);

/* What computes for the session's device; "" of the host. */
const char *exg_session_libraries(exg_session *session);

/* Orders a run and the caller's stream. USAGE DEV-015. */
exg_status exg_session_follow(const exg_session *session, bool after, exg_error *err);

#endif
