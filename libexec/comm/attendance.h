/* attendance.h - which processes of a job began on this node. MPI waits for all and does not say
 * for whom; so that it can be said, each process is seen by the others of its node, before MPI
 * starts. */
#ifndef EXG_LIBEXEC_COMM_ATTENDANCE_H
#define EXG_LIBEXEC_COMM_ATTENDANCE_H

#include <stdint.h>

typedef struct exg_attendance exg_attendance;

/* This process is here, and sees who else is. NULL: nobody said which job it is of, as Open MPI and
 * Slurm do, or there is no memory for it. */
exg_attendance *exg_attendance_begin(void);

/* Who is not here, or does not run, for people: "rank 1 did not start (node a12)". "" where that is
 * not known. */
void exg_attendance_tell(exg_attendance *a, char *text, uint32_t room);

void exg_attendance_end(exg_attendance *a); /* NULL is allowed */

/* As many of the job as run on this node; 0: nobody said. */
uint32_t exg_local_processes(void);

#endif
