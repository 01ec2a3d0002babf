/* team.h - a thread a rank, for ranks that live in one process.
 *
 * Unlike a pool's blocks, ranks wait for one another, so all run at once. The
 * caller is rank 0, or watches the others: then a rank that hangs does not hold it up.
 * Threads sleep between runs.
 */
#ifndef EXG_LIBEXEC_COMM_TEAM_H
#define EXG_LIBEXEC_COMM_TEAM_H

#include <exg/status.h>
#include <stdint.h>

typedef struct exg_team exg_team;

exg_status exg_team_create(uint32_t size, exg_team **team, exg_error *err);
void exg_team_destroy(exg_team *team); /* NULL is allowed */

/* The same with a thread for rank 0 too, for exg_team_watch. */
exg_status exg_team_create_watched(uint32_t size, exg_team **team, exg_error *err);

#define EXG_NO_RANK UINT32_MAX

/* As exg_team_run, but waits `limit_ns` at most once a rank is done. Gives EXG_NO_RANK, or a
 * rank that still runs: it may for ever, so the team, `context` and all that it reaches are
 * neither used nor freed any more. */
uint32_t exg_team_watch(exg_team *team, void (*work)(void *context, uint32_t rank), void *context,
                        uint64_t limit_ns);

/* Calls work(context, rank) on every rank's thread; returns when all have. */
void exg_team_run(exg_team *team, void (*work)(void *context, uint32_t rank), void *context);

#endif
