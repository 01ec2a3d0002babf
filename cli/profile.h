/* profile.h - where the time of a run goes, printed. */
#ifndef EXG_CLI_PROFILE_H
#define EXG_CLI_PROFILE_H

#include "cli/cli.h"

/* Time of `runs` runs by operator, by module and by step: tables, or members of an object. */
exg_status cli_put_profile(exg_text *text, bool json, exg_session *session, uint32_t runs,
                           exg_error *err);

/* Steps of one operator, or of one module. */
typedef struct cli_profile_row {
    const char *key;
    uint64_t total_ns;
    uint32_t steps;
    double flops, bytes; /* of one run: exg_step_profile */
} cli_profile_row;

/* By operator, the longest first, by the time `ns` of each step; the caller frees *rows. */
exg_status cli_list_operators(exg_session *session, const uint64_t *ns, cli_profile_row **rows,
                              uint32_t *count, exg_error *err);

/* The last run of all ranks here, of the program `file`, as events of the Chrome trace format
 * (chrome://tracing, Perfetto). */
exg_status cli_save_trace(const char *path, const char *file, exg_session *session, exg_error *err);

#endif
