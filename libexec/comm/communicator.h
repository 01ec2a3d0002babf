/* communicator.h - one primitive, exchange: every rank gives every other rank a run
 * of bytes and gets one. Collectives are written above it (collectives.h).
 *
 * An exchange has three phases, between which a rank may compute:
 *
 *   begin    posts what is sent and where it is received, and returns
 *   finish   waits until own receives are filled
 *   settle   waits until own sends are read: their memory is free again
 *
 * All ranks of a communicator number the same exchanges alike and begin them in order; each
 * finishes what it began before it begins EXG_EXCHANGES_MAX more. Every wait has a deadline
 * and sees an abort; a lost or stuck rank ends the exchange on all ranks with PEER, naming
 * the rank. An implementation is a table of functions (local.c: ranks are threads of one
 * process).
 */
#ifndef EXG_LIBEXEC_COMM_COMMUNICATOR_H
#define EXG_LIBEXEC_COMM_COMMUNICATOR_H

#include "libexport/base/stop.h"

#include <exg/status.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct exg_communicator exg_communicator;

/* What goes to, or comes from, one rank: runs of `run` bytes, each `pitch` bytes behind where the
 * one before begins; in one where `run` is 0. An MPI_Type_vector. */
typedef struct exg_segment {
    void *data;
    uint64_t bytes; /* in all */
    uint64_t run, pitch;
} exg_segment;

/* The bytes of one to the places of another, whose runs may be others; they do not overlap, or are
 * the same. */
void exg_segment_copy(const exg_segment *to, const exg_segment *from);
/* Where byte `byte` of one lies, of more than that. */
uint8_t *exg_segment_at(const exg_segment *segment, uint64_t byte);

#define EXG_NO_COLOR UINT32_MAX

#define EXG_DEADLINE_NS (UINT64_C(60) * 1000000000u) /* of one wait, where nothing else is said */

#define EXG_RANKS_MAX     256 /* that meet on one communicator */
#define EXG_EXCHANGES_MAX 16  /* under way on one communicator */

/* Takes what rank i sent, at from[i], in place of a copy. */
typedef void exg_exchange_reader(void *context, const exg_segment *from);

typedef struct exg_communicator_ops {
    const char *name; /* "local" */
    /* A reader gets the others' own memory: receives need none, and nothing moves but while a
     * rank reads. */
    bool lends;

    /* send[i] goes to rank i, receive[i] is filled by rank i; `size` of each, which may go
     * when it returns. The byte counts of both sides must agree (PEER, COM-002). Memory of
     * the two sides does not overlap. Waits until what was begun EXG_EXCHANGES_MAX before is
     * settled. */
    exg_status (*begin)(exg_communicator *self, uint64_t turn, const exg_segment *send,
                        const exg_segment *receive, exg_error *err);
    exg_status (*finish)(exg_communicator *self, uint64_t turn, exg_exchange_reader *reader,
                         void *context, exg_error *err);
    exg_status (*settle)(exg_communicator *self, uint64_t turn, exg_error *err);

    /* A communicator of the ranks with the same color, in their order; EXG_NO_COLOR: of
     * none, *out is NULL. Called by every rank. */
    exg_status (*split)(exg_communicator *self, uint32_t color, exg_communicator **out,
                        exg_error *err);

    /* Ends every exchange on every rank, now and later, with this status. */
    void (*abort)(exg_communicator *self, exg_status status);

    /* Has a rank done so? For those who wait for something else meanwhile. */
    bool (*is_aborted)(exg_communicator *self);

    /* Waits end when `stop` is due, with LIMIT; NULL where those that are waited for see it. */
    void (*watch)(exg_communicator *self, const exg_stop *stop);

    void (*close)(exg_communicator *self); /* frees self */
} exg_communicator_ops;

/* An exchange that was posted and goes on beside what its rank does: the head of what knows of
 * its memory. */
typedef struct exg_posted {
    struct exg_posted *next;
    uint64_t turn;
    bool arrived;                              /* finished */
    void (*arrive)(struct exg_posted *posted); /* own receives are filled */
    void (*settle)(struct exg_posted *posted); /* sends are read, or the communicator closes */
} exg_posted;

struct exg_communicator {
    const exg_communicator_ops *ops;
    uint32_t rank;
    uint32_t size;
    uint64_t deadline_ns; /* of one wait */
    uint64_t turns;       /* numbers given out to exchanges */
    uint64_t settled;     /* those before it are */
    uint64_t exchanges;   /* finished, for counting */
    exg_posted *posted;   /* not settled yet, in order of turns */
    uint64_t bytes_sent;  /* to other ranks */
    exg_status status;    /* the first fault, which sticks */
    exg_error error;      /* and what it was */
};

/* `size` communicators over threads of this process, one a rank. */
exg_status exg_local_create(uint32_t size, exg_communicator **communicators, exg_error *err);

/* This process's place among the `size` that mpirun started, waited for `deadline_ns` at
 * most. UNSUPPORTED COM-008 without MPI, USAGE DTN-001 when they are not as many, PEER. */
exg_status exg_mpi_create(uint32_t size, uint64_t deadline_ns, exg_communicator **world,
                          exg_error *err);

/* Rank `rank` of `size` that are not there: for plans, of what lends or does not. */
exg_status exg_paper_create(uint32_t size, uint32_t rank, bool lends, exg_communicator **out,
                            exg_error *err);

/* Numbers for the next `count` exchanges: the first of them. Every rank takes them in one
 * order, and uses all. */
uint64_t exg_exchange_turns(exg_communicator *c, uint32_t count);

/* Wrappers for all implementations: a communicator that failed stays failed. */
exg_status exg_exchange_begin(exg_communicator *c, uint64_t turn, const exg_segment *send,
                              const exg_segment *receive, exg_error *err);
/* `reader` (NULL: receives are filled) sees the segments of all ranks at once. */
exg_status exg_exchange_finish(exg_communicator *c, uint64_t turn, exg_exchange_reader *reader,
                               void *context, exg_error *err);
/* Of this exchange and all before. */
exg_status exg_exchange_settle(exg_communicator *c, uint64_t turn, exg_error *err);

/* MPI_Alltoallv with a deadline; ncclSend and ncclRecv in one group. All three: returns when own
 * receives are filled and own sends read. */
exg_status exg_exchange(exg_communicator *c, const exg_segment *send, const exg_segment *receive,
                        exg_error *err);
/* The same of `bytes` to and from each rank, which lie one after another by rank. */
exg_status exg_exchange_each(exg_communicator *c, const void *to_each, void *from_each,
                             uint64_t bytes, exg_error *err);

/* MPI_Ialltoallv. Begins an exchange and returns; what is posted is finished in order, when it is
 * asked for, or before the next exchange begins that is not posted. */
exg_status exg_exchange_post(exg_communicator *c, exg_posted *posted, const exg_segment *send,
                             const exg_segment *receive, exg_error *err);
/* Finishes it and those before. */
exg_status exg_exchange_arrive(exg_communicator *c, const exg_posted *posted, exg_error *err);

/* MPI_Comm_split, ncclCommSplit. */
exg_status exg_communicator_split(exg_communicator *c, uint32_t color, exg_communicator **out,
                                  exg_error *err);
void exg_communicator_abort(exg_communicator *c, exg_status status);
void exg_communicator_close(exg_communicator *c); /* NULL is allowed */

#endif
