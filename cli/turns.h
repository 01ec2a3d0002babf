/* turns.h - a side of exg bench in a process of its own: another build, or another level of
 * instructions. It runs when it is told to, so that sides take turns. */
#ifndef EXG_CLI_TURNS_H
#define EXG_CLI_TURNS_H

#include "cli/profile.h"

/* What is said over the pipes, lines of text:
 *   the process, once it is ready        exg-turns 1
 *   "run SECONDS"                        times COUNT SECONDS, and the times in nanoseconds: doubles
 *   "operators"                          operators COUNT, and of each STEPS NS FLOPS BYTES NAME
 *   the end of standard input            it ends */
#define CLI_TURNS_GREETING "exg-turns 1\n"

typedef struct cli_turns cli_turns;

/* Starts call->exg, which does what the call says. CLI-017: it cannot, or takes no turns. */
exg_status cli_turns_start(const cli_call *call, cli_turns **turns, exg_error *err);

/* Runs for so long; the caller frees the times. */
exg_status cli_turns_run(cli_turns *turns, double seconds, double **times, uint32_t *count,
                         double *took, exg_error *err);

/* Their names are in the arena; the caller frees the rows. */
exg_status cli_turns_operators(cli_turns *turns, exg_arena *arena, cli_profile_row **rows,
                               uint32_t *count, exg_error *err);

void cli_turns_end(cli_turns *turns); /* waits; NULL is allowed */

#endif
