/* profile.h - where the time of a run goes, printed. */
#ifndef EXG_CLI_PROFILE_H
#define EXG_CLI_PROFILE_H

#include "cli/cli.h"

/* Time of `runs` runs by operator, by module and by step: tables, or members of an object. */
exg_status cli_put_profile(exg_text *text, bool json, exg_session *session, uint32_t runs,
                           exg_error *err);

/* The last run as events of the Chrome trace format (chrome://tracing, Perfetto). */
exg_status cli_save_trace(const char *path, exg_session *session, exg_error *err);

#endif
