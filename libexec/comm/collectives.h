/* collectives.h - collectives over exchange: row-major tensors in host memory,
 * chunks as exg_chunk cuts them, uneven and empty ones included.
 *
 * Sums are taken in rank order, so results do not depend on timing and one plan
 * gives the same bits over every communicator. `workspace` has the bytes that
 * exg_collective_workspace() says; nothing is allocated.
 */
#ifndef EXG_LIBEXEC_COMM_COLLECTIVES_H
#define EXG_LIBEXEC_COMM_COLLECTIVES_H

#include "libexec/comm/communicator.h"
#include "libexec/comm/reduce.h"

#include <exg/placement.h>
#include <exg/tensor.h>

typedef enum exg_collective_kind {
    /* ncclAllReduce, MPI_Allreduce. out = op over ranks of in; same shape */
    EXG_ALL_REDUCE,
    /* ncclAllGather, MPI_Allgatherv. in: own chunk of dim; out: the whole */
    EXG_ALL_GATHER,
    /* ncclReduceScatter, MPI_Reduce_scatter. in: a summand of the whole; out: own chunk of dim of
     * the sum */
    EXG_REDUCE_SCATTER,
    /* ncclAlltoAll, MPI_Alltoallv. in: own chunk of dim, all of other_dim; out: the other way round
     */
    EXG_ALL_TO_ALL,
    /* A halo exchange: grouped ncclSend and ncclRecv, MPI_Neighbor_alltoallv. in: own chunk of dim;
     * out: own chunk with what exg_halo says of its neighbours' */
    EXG_HALO,
    /* ncclBroadcast, MPI_Bcast. out: in of rank `root` */
    EXG_BROADCAST,
    /* torch.distributed.all_to_all_single, MPI_Alltoallv. in: for each rank as many rows of dim 0
     * as `sent` says; out: from each as many as `received` says, by rank */
    EXG_ALL_TO_ALL_SINGLE
} exg_collective_kind;

/* What a rank sees of a dim of `size`: it has a chunk of `parts` positions, each of which reads
 * `reach` elements from position * stride - before on, those that there are. Where `period` is
 * not 0 what begins outside 0..period-1 begins as far inside. */
typedef struct exg_halo {
    int64_t size, parts, stride, before, reach, period;
} exg_halo;

/* Of rank `rank` of `ranks`. */
void exg_halo_of(const exg_halo *halo, uint32_t ranks, uint32_t rank, int64_t *first,
                 int64_t *count);

const char *exg_collective_name(exg_collective_kind kind); /* "all_reduce" */

/* The tensors do not overlap. */
typedef struct exg_collective {
    exg_collective_kind kind;
    const exg_tensor *in, *out;
    uint32_t dim, other_dim;        /* gathered or scattered; of all-to-all gathered, scattered */
    exg_reduce_op op;               /* of reductions */
    exg_halo halo;                  /* of EXG_HALO */
    uint32_t root;                  /* of EXG_BROADCAST */
    const int64_t *sent, *received; /* by rank, `rank_count` each: of EXG_ALL_TO_ALL_SINGLE */
    uint32_t rank_count;
} exg_collective;

/* Is it an all-reduce or a reduce-scatter? */
static inline bool exg_collective_reduces(const exg_collective *what)
{
    return what->kind == EXG_ALL_REDUCE || what->kind == EXG_REDUCE_SCATTER;
}

uint64_t exg_collective_workspace(const exg_communicator *c, const exg_collective *what);

/* Begins one and returns; `in` and the workspace stay as they are until it is settled, `out`
 * is whole when it is finished. In between a rank may compute, and begin and finish others:
 * all ranks begin them in one order and finish them in that order. */
exg_status exg_collective_begin(exg_communicator *c, const exg_collective *what, void *workspace,
                                uint64_t *turn, exg_error *err);
exg_status exg_collective_finish(exg_communicator *c, const exg_collective *what, uint64_t turn,
                                 exg_error *err);
exg_status exg_collective_settle(exg_communicator *c, const exg_collective *what, uint64_t turn,
                                 exg_error *err);

/* All three. */
exg_status exg_collective_run(exg_communicator *c, const exg_collective *what, void *workspace,
                              exg_error *err);

/* What a step of a plan does of a collective, of which one, and along which mesh dim. */
typedef enum exg_collective_phase {
    EXG_COLLECTIVE_NONE,
    EXG_COLLECTIVE_WHOLE,
    EXG_COLLECTIVE_BEGINS,
    EXG_COLLECTIVE_ENDS
} exg_collective_phase;

struct exg_kernel;
struct exg_kernel_call;
exg_collective_phase exg_collective_of(const struct exg_kernel *kernel,
                                       const struct exg_kernel_call *call,
                                       const exg_collective **what, uint32_t *mesh_dim);

/* The kernels that carry out a whole one in two steps, which share its arguments, operands
 * and params; call.packed is the workspace then. */
void exg_collective_split(const struct exg_kernel *whole, const struct exg_kernel **begin,
                          const struct exg_kernel **finish);

/* Is the collective of `call` settled where it ends? Else where the next along its line is. */
void exg_collective_link(const struct exg_kernel_call *call, bool settles);

/* The exchanges it takes, and the bytes of exchange `round` to and from each rank: what goes
 * over the wire, so what they say of two ranks can be compared before either sends. */
uint32_t exg_collective_rounds(const exg_communicator *c, const exg_collective *what);
void exg_collective_counts(const exg_communicator *c, const exg_collective *what, uint32_t round,
                           exg_segment *send, exg_segment *receive);

/* Part of a row-major tensor: `rows` runs of bytes, `pitch` apart, from byte `first` on. */
typedef struct exg_strip {
    uint64_t first, rows, run, pitch;
} exg_strip;

static inline uint64_t exg_strip_bytes(const exg_strip *strip)
{
    return strip->rows * strip->run;
}

/* For memory that all can reach, or whose bytes go in one round: what of `in` goes to rank
 * `rank`, and where in `out` comes from it what that one sends; of reductions the part that is
 * summed, all of it where it is not scattered. Both are equally long, not of one shape. */
exg_strip exg_collective_sent(const exg_communicator *c, const exg_collective *what, uint32_t rank);
exg_strip exg_collective_received(const exg_communicator *c, const exg_collective *what,
                                  uint32_t rank);

/* Every rank gets rank `source`'s bytes. */
exg_status exg_broadcast_bytes(exg_communicator *c, void *data, uint64_t bytes, uint32_t source,
                               exg_error *err);

#endif
