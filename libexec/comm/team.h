/* team.h - a thread a rank, for ranks that live in one process.
 *
 * Unlike a pool's blocks, ranks wait for one another, so all run at once. The
 * caller is rank 0. Threads sleep between runs.
 */
#ifndef EXG_LIBEXEC_COMM_TEAM_H
#define EXG_LIBEXEC_COMM_TEAM_H

#include <exg/status.h>
#include <stdint.h>

typedef struct exg_team exg_team;

exg_status exg_team_create(uint32_t size, exg_team **team, exg_error *err);
void exg_team_destroy(exg_team *team); /* NULL is allowed */

/* Calls work(context, rank) on every rank's thread; returns when all have. */
void exg_team_run(exg_team *team, void (*work)(void *context, uint32_t rank), void *context);

#endif
