/* mpi_plugin.h - what libexg_mpi.so gives: MPI behind a table of functions, so that only a
 * process that asks for it loads MPI. The plugin uses nothing of exg.
 *
 * Functions give an exg_mpi_outcome. Threads: any, one at a time a communicator.
 */
#ifndef EXG_LIBEXEC_COMM_MPI_PLUGIN_H
#define EXG_LIBEXEC_COMM_MPI_PLUGIN_H

#include "libexec/comm/communicator.h"
#include "libexport/base/stop.h"

#define EXG_MPI_PLUGIN_VERSION 6
#define EXG_MPI_PLUGIN_SYMBOL  "exg_mpi_plugin_table"
#define EXG_MPI_PLUGIN_FILE    "libexg_mpi.so"

typedef enum exg_mpi_outcome {
    EXG_MPI_DONE,
    EXG_MPI_LATE,     /* the deadline passed; `peer` is one that was waited for */
    EXG_MPI_MISMATCH, /* `peer` sent another number of bytes */
    EXG_MPI_ABORTED,  /* a rank ended the run */
    EXG_MPI_STOPPED,  /* what watch() was given is due */
    EXG_MPI_FAILED    /* MPI says so */
} exg_mpi_outcome;

typedef struct exg_mpi_group exg_mpi_group; /* a communicator of MPI's */

typedef struct exg_mpi_plugin {
    uint32_t version;
    /* Initializes MPI unless that is done; the ranks of the job. LATE when they did not all
     * come: MPI is not to be used then. */
    exg_mpi_outcome (*start)(uint64_t deadline_ns, exg_mpi_group **world, uint32_t *rank,
                             uint32_t *size);
    /* Like those of exg_communicator_ops, but what a rank sends itself is left alone. *peer: one
     * that was waited for. */
    exg_mpi_outcome (*begin)(exg_mpi_group *group, uint64_t turn, const exg_segment *send,
                             const exg_segment *receive, uint64_t deadline_ns, uint32_t *peer);
    exg_mpi_outcome (*finish)(exg_mpi_group *group, uint64_t turn, uint64_t deadline_ns,
                              uint32_t *peer);
    exg_mpi_outcome (*settle)(exg_mpi_group *group, uint64_t turn, uint64_t deadline_ns,
                              uint32_t *peer);
    exg_mpi_outcome (*split)(exg_mpi_group *group, uint32_t color, uint64_t deadline_ns,
                             exg_mpi_group **out, uint32_t *rank, uint32_t *size);
    void (*abort)(exg_mpi_group *group); /* tells the others */
    bool (*is_aborted)(exg_mpi_group *group);
    void (*watch)(exg_mpi_group *group, const exg_stop *stop); /* waits end when it is due */
    void (*close)(exg_mpi_group *group);
    void (*stop)(void); /* finalizes MPI, if start() initialized it */
} exg_mpi_plugin;

#endif
