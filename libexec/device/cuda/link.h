/* link.h - collectives between devices.
 *
 *   shared   ranks that are threads of this process and share the device read each other's
 *            memory, in the order of ranks: the same bits as on the host (shared.c)
 *   NCCL     a device a rank (nccl.c)
 *
 * Both work on a stream of their own, `beside` that of computation:
 *
 *   computes:  ... | ready | goes on ............ | waits for done | ...
 *   beside:          waits for ready | collective | done
 */
#ifndef EXG_LIBEXEC_DEVICE_CUDA_LINK_H
#define EXG_LIBEXEC_DEVICE_CUDA_LINK_H

#include "libexec/comm/collectives.h"
#include "libexec/device/cuda/cuda.h"
#include "libexec/device/cuda/nccl.h"
#include "libexec/kernels/cuda/params.h"

typedef struct exg_nccl_clique exg_nccl_clique; /* clique.c */

typedef struct exg_cuda_link {
    exg_device_link head;
    exg_cuda_device *device;
    exg_communicator *c; /* of the same ranks, on their hosts */
    struct exg_cuda_link *next;
    bool is_shared;
    exg_nccl nccl;
    nccl_comm comm;          /* NULL: shared, or given up */
    exg_nccl_clique *clique; /* NULL: shared */
} exg_cuda_link;

/* What a rank sends another of a collective of a shared device. */
typedef struct exg_cuda_message {
    uint64_t in;    /* what is sent is in there, */
    exg_strip sent; /* so */
    cuda_event ready, done;
} exg_cuda_message;

typedef enum exg_cuda_way {
    EXG_CUDA_SHARED,
    EXG_CUDA_ALL_REDUCE, /* of NCCL's own, as the next two */
    EXG_CUDA_ALL_GATHER,
    EXG_CUDA_REDUCE_SCATTER,
    EXG_CUDA_EXCHANGE /* sent and received in one group, then summed in the order of ranks */
} exg_cuda_way;

/* What prepare_collective() makes. */
typedef struct exg_cuda_collective {
    exg_cuda_link *link;
    const exg_collective *what;
    exg_cuda_way way;
    cuda_function move, combine;
    const exg_strip *sent, *received; /* by rank */
    uint64_t packed_bytes;            /* at the start of the workspace: what is sent, by rank */
    bool unpacks;                     /* what comes is behind it first */
    uint8_t *workspace;               /* of this run */
    exg_cuda_asked *asked;
    uint64_t turn;
    exg_cuda_message *outgoing, *incoming; /* SHARED: by rank */
} exg_cuda_collective;

/* ---- link.c ------------------------------------------------------------------------------ */

exg_status exg_cuda_join(exg_accelerator *device, exg_communicator *c, exg_device_link **link,
                         exg_error *err);
void exg_cuda_leave(exg_accelerator *device, exg_device_link *link);
void exg_cuda_close_links(exg_cuda_device *device); /* the stream, the events */

/* ---- collective.c ------------------------------------------------------------------------- */

exg_status exg_cuda_prepare_collective(exg_accelerator *device, exg_device_link *link,
                                       const exg_collective *what, const exg_strip *sent,
                                       const exg_strip *received, exg_arena *arena, void **made,
                                       uint64_t *workspace_bytes, exg_error *err);
void exg_cuda_begin_collective(exg_accelerator *device, void *made, void *workspace);
void exg_cuda_finish_collective(exg_accelerator *device, void *made);

/* ---- collective_moves.c ------------------------------------------------------------------- */

/* The kernels of moves and of sums, for the dtype of this collective. */
exg_status exg_cuda_compile_move(exg_cuda_collective *made, exg_error *err);
exg_status exg_cuda_compile_combine(exg_cuda_collective *made, exg_error *err);

/* Moves for a stream, which are asked for together; not yet those in `params`. */
typedef struct exg_cuda_moves {
    const exg_cuda_collective *of;
    cuda_stream stream;
    uint32_t count;
    cuda_moves_params params;
} exg_cuda_moves;

/* Adds a move of bytes between strips at these addresses, unless there are none. */
exg_status exg_cuda_add_move(exg_cuda_moves *moves, uint64_t from, const exg_strip *of_from,
                             uint64_t to, const exg_strip *of_to, exg_error *err);
exg_status exg_cuda_move(exg_cuda_moves *moves, exg_error *err); /* those not asked for yet */

/* Sums what is at `parts`, one a rank, each cut as `strip`, into `out`. */
exg_status exg_cuda_combine(const exg_cuda_collective *made, const uint64_t *parts,
                            const exg_strip *strip, cuda_stream stream, exg_error *err);

/* `after` waits for what was asked of `before`, with this event between. */
exg_status exg_cuda_follow(const exg_cuda_device *device, cuda_stream before, cuda_event event,
                           cuda_stream after, exg_error *err);

/* ---- shared.c ----------------------------------------------------------------------------- */

exg_status exg_cuda_shared_begin(exg_cuda_collective *made, exg_error *err);
exg_status exg_cuda_shared_finish(exg_cuda_collective *made, exg_error *err);

/* ---- nccl.c ------------------------------------------------------------------------------- */

/* Among ranks that all brought `id`. PEER COM-001, COM-003, COM-011. */
exg_status exg_nccl_join(exg_cuda_link *link, const nccl_id *id, exg_error *err);
void exg_nccl_leave(exg_cuda_link *link);   /* what it asked for is done */
void exg_nccl_give_up(exg_cuda_link *link); /* ends what is under way, on all ranks */

/* Until what a call on `comm`, of the link's, began is done; the rank that made the call is told
 * of. PEER COM-001, COM-003, COM-011. */
exg_status exg_nccl_settle(const exg_cuda_link *link, nccl_comm comm, nccl_result result,
                           const char *what, exg_error *err);

/* Whether NCCL has it as one, and its way. */
exg_cuda_way exg_nccl_way(const exg_cuda_collective *made);

exg_status exg_nccl_begin(exg_cuda_collective *made, exg_error *err);
exg_status exg_nccl_finish(exg_cuda_collective *made, exg_error *err);

/* A fault that NCCL found meanwhile. PEER COM-011. */
exg_status exg_nccl_look(exg_cuda_link *link, exg_error *err);

/* ---- abort.c ------------------------------------------------------------------------------ */

/* Ends what is under way of a communicator, on all ranks, and the communicator: in a thread aside,
 * which is waited for within a fourth of the deadline. */
void exg_nccl_abort(const exg_cuda_link *link, nccl_comm comm);
/* All links were given up. Waits for what was asked for, as long again; else the device is lost. */
void exg_cuda_settle_streams(exg_cuda_device *device, uint64_t deadline_ns);

/* ---- clique.c ----------------------------------------------------------------------------- */

/* The ranks of one communicator that are of one process, as many; each leaves it. NULL: out of
 * memory. */
exg_nccl_clique *exg_nccl_clique_create(uint32_t ranks);

/* The last of them ends what is left of the communication. */
void exg_nccl_clique_leave(exg_cuda_link *link);

/* ---- watch.c ------------------------------------------------------------------------------ */

/* Until all that the device was asked for is done, or a collective is not: PEER, and then
 * none of its links is of use. */
exg_status exg_cuda_watch(exg_cuda_device *device, exg_error *err);

/* The same of the stream of collectives, and of those that no result waits for. */
exg_status exg_cuda_watch_beside(exg_cuda_device *device, exg_error *err);

const exg_collective *exg_cuda_stuck_at(exg_accelerator *device);

#endif
